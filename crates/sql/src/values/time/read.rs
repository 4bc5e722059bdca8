//! Reads dates and times in the forms that PostgreSQL takes.
//!
//! 1. A text is cut into fields: numbers with separators, words, clock readings, offsets. Each
//!    field is taken once, so that no text has two meanings.
//! 2. A text of another form is 22007; a field beyond its range is 22008.

use relational::{Error, Result, SqlState};

use super::civil::{
    DAY, HOUR, MINUTE, SECOND, check_date, days_from_civil, join_timestamp, month_days,
    split_timestamp,
};
use super::interval::seconds_micros;
use super::zone::{Zone, parse_offset};
use crate::values::{DateOrder, Settings, error};

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A day, a clock reading and an offset, as far as a text names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Days since 2000-01-01, if given.
    pub day: Option<i64>,
    /// Microseconds since midnight, if given.
    pub clock: Option<i64>,
    /// The zone that the text names.
    pub zone: Option<Zone>,
}

/// The meaning of a whole text.
enum Reading {
    /// A number of the type that stands for an infinity.
    Infinity { negative: bool },
    /// The moment of the current transaction.
    Now,
    /// A moment by its fields.
    Fields(Moment),
}

/// Returns the days since 2000-01-01.
pub fn parse_date(text: &str, settings: &Settings) -> Result<i32> {
    match read(text, "date", settings)? {
        Reading::Infinity { negative } => Ok(if negative { i32::MIN } else { i32::MAX }),
        Reading::Now => check_date(today(settings)),
        Reading::Fields(moment) => check_date(moment.day.ok_or_else(|| syntax(text, "date"))?),
    }
}

/// Returns the microseconds since midnight, 24:00 at most.
pub fn parse_time(text: &str, settings: &Settings) -> Result<i64> {
    match read(text, "time", settings)? {
        Reading::Infinity { .. } => Err(syntax(text, "time")),
        Reading::Now => Ok(split_timestamp(local(settings)).1),
        Reading::Fields(moment) => moment.clock.ok_or_else(|| syntax(text, "time")),
    }
}

/// Returns the microseconds since 2000-01-01 of a clock on the wall; a zone is ignored.
pub fn parse_timestamp(text: &str, settings: &Settings) -> Result<i64> {
    match read(text, "timestamp", settings)? {
        Reading::Infinity { negative } => Ok(if negative { i64::MIN } else { i64::MAX }),
        Reading::Now => Ok(local(settings)),
        Reading::Fields(moment) => {
            let day = moment.day.ok_or_else(|| syntax(text, "timestamp"))?;
            join_timestamp(day, moment.clock.unwrap_or(0)).map_err(|_| range(text, "timestamp"))
        }
    }
}

/// Returns the microseconds of universal time since 2000-01-01.
pub fn parse_timestamptz(text: &str, settings: &Settings) -> Result<i64> {
    const TYPE: &str = "timestamp with time zone";
    match read(text, TYPE, settings)? {
        Reading::Infinity { negative } => Ok(if negative { i64::MIN } else { i64::MAX }),
        Reading::Now => Ok(settings.now),
        Reading::Fields(moment) => {
            let day = moment.day.ok_or_else(|| syntax(text, TYPE))?;
            let local =
                join_timestamp(day, moment.clock.unwrap_or(0)).map_err(|_| range(text, TYPE))?;
            let offset = moment.zone.unwrap_or(settings.zone).offset_of_local(local);
            let micros = local.checked_sub(i64::from(offset) * SECOND);
            super::civil::check_timestamp(micros).map_err(|_| range(text, TYPE))
        }
    }
}

/// Returns the local time of now in the session's zone.
fn local(settings: &Settings) -> i64 {
    settings.now + i64::from(settings.zone.offset_of_moment(settings.now)) * SECOND
}

/// Returns the day of now in the session's zone.
fn today(settings: &Settings) -> i64 {
    split_timestamp(local(settings)).0
}

fn syntax(text: &str, name: &str) -> Error {
    let message = format!("invalid input syntax for type {name}: \"{text}\"");
    error(SqlState::INVALID_DATETIME_FORMAT, message)
}

fn range(text: &str, name: &str) -> Error {
    let message = match name {
        "date" | "time" => format!("date/time field value out of range: \"{text}\""),
        _ if text.is_empty() => format!("{name} out of range"),
        _ => format!("{name} out of range: \"{text}\""),
    };
    error(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

fn field_range(text: &str) -> Error {
    let message = format!("date/time field value out of range: \"{text}\"");
    error(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

/// The fields taken so far.
#[derive(Default)]
struct Fields {
    /// Numbers of the date in their order, with the count of digits of each.
    numbers: Vec<(i64, usize)>,
    month: Option<(u32, usize)>,
    day: Option<i64>,
    clock: Option<i64>,
    zone: Option<Zone>,
    before_christ: bool,
    afternoon: Option<bool>,
}

fn read(text: &str, name: &str, settings: &Settings) -> Result<Reading> {
    let lower = text.trim().to_lowercase();
    match lower.as_str() {
        "infinity" | "+infinity" => return Ok(Reading::Infinity { negative: false }),
        "-infinity" => return Ok(Reading::Infinity { negative: true }),
        "now" => return Ok(Reading::Now),
        _ => {}
    }
    let mut fields = Fields::default();
    for token in cut(&lower) {
        let bare_clock = name == "time" && token.len() == 6;
        if bare_clock && token.bytes().all(|byte| byte.is_ascii_digit()) {
            let clock = format!("{}:{}:{}", &token[..2], &token[2..4], &token[4..]);
            take_clock(&mut fields, &clock).ok_or_else(|| syntax(text, name))?;
            continue;
        }
        take(&mut fields, token, settings).ok_or_else(|| syntax(text, name))?;
    }
    finish(fields, text, name, settings.date_order).map(Reading::Fields)
}

/// Cuts a text at blanks, commas, and at the `t` between a date and a clock.
fn cut(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty())
    {
        match word.find('t') {
            Some(at)
                if at > 0
                    && word.as_bytes()[at - 1].is_ascii_digit()
                    && word.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit) =>
            {
                out.push(&word[..at]);
                out.push(&word[at + 1..]);
            }
            _ => out.push(word),
        }
    }
    out
}

/// Takes one token into the fields; nothing if it fits none.
fn take(fields: &mut Fields, token: &str, settings: &Settings) -> Option<()> {
    let first = token.as_bytes()[0];
    if token.contains(':') && first.is_ascii_digit() {
        return take_clock(fields, token);
    }
    if matches!(first, b'+' | b'-') && (fields.clock.is_some() || fields.date_given()) {
        return set(&mut fields.zone, Zone::Fixed(parse_offset(token)?));
    }
    if first.is_ascii_digit() {
        return take_date(fields, token);
    }
    take_word(fields, token, settings)
}

fn set<T>(place: &mut Option<T>, value: T) -> Option<()> {
    if place.is_some() {
        return None;
    }
    *place = Some(value);
    Some(())
}

impl Fields {
    fn date_given(&self) -> bool {
        self.day.is_some() || self.numbers.len() + usize::from(self.month.is_some()) >= 3
    }
}

/// Takes `13:04:05.25`, with an offset or a zone glued to it.
fn take_clock(fields: &mut Fields, token: &str) -> Option<()> {
    let end =
        token.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(token.len());
    let (clock, rest) = token.split_at(end);
    let parts: Vec<&str> = clock.split(':').collect();
    let hours: i64 = parts.first()?.parse().ok()?;
    let minutes: i64 = parts.get(1)?.parse().ok()?;
    let micros = match parts.get(2) {
        Some(seconds) => seconds_micros(seconds)?,
        None => 0,
    };
    if parts.len() > 3 {
        return None;
    }
    let sane = hours <= 24 && minutes < 60 && micros <= MINUTE;
    let total = hours * HOUR + minutes * MINUTE + micros;
    // Out of range is told apart from a bad form when all fields are read.
    set(&mut fields.clock, if sane && total <= DAY { total } else { -1 })?;
    match rest {
        "" => Some(()),
        "z" => set(&mut fields.zone, Zone::Fixed(0)),
        "am" => set(&mut fields.afternoon, false),
        "pm" => set(&mut fields.afternoon, true),
        _ if rest.starts_with(['+', '-']) => {
            set(&mut fields.zone, Zone::Fixed(parse_offset(rest)?))
        }
        _ => set(&mut fields.zone, Zone::named(rest)?),
    }
}

/// Takes a date in digits, or one with a month's name between separators.
fn take_date(fields: &mut Fields, token: &str) -> Option<()> {
    let digits = token.bytes().all(|byte| byte.is_ascii_digit());
    if digits && matches!(token.len(), 6 | 8) && fields.date_given() && fields.clock.is_none() {
        let clock = format!("{}:{}:{}", &token[..2], &token[2..4], &token[4..6]);
        return take_clock(fields, &clock);
    }
    if digits && token.len() == 8 && fields.numbers.is_empty() {
        let year = token[..4].parse().ok()?;
        let (month, day) = (token[4..6].parse().ok()?, token[6..].parse().ok()?);
        fields.numbers = vec![(year, 4), (month, 2), (day, 2)];
        return Some(());
    }
    if let Some(number) = token.strip_suffix("bc").or_else(|| token.strip_suffix("ad")) {
        fields.before_christ = token.ends_with("bc");
        return take_date(fields, number);
    }
    for part in token.split(['-', '/', '.']) {
        if part.starts_with(|c: char| c.is_ascii_digit()) {
            let bare = ["st", "nd", "rd", "th"].iter().find_map(|end| part.strip_suffix(end));
            let number = bare.unwrap_or(part);
            fields.numbers.push((number.parse().ok()?, number.len()));
        } else {
            set(&mut fields.month, (month_of(part)?, fields.numbers.len()))?;
        }
    }
    (fields.numbers.len() + usize::from(fields.month.is_some()) <= 3).then_some(())
}

fn month_of(word: &str) -> Option<u32> {
    let short = word.get(..3)?;
    let at = MONTHS.iter().position(|month| *month == short)?;
    const LONG: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    (LONG[at].starts_with(word)).then_some(at as u32 + 1)
}

/// Takes a word: a month, a weekday, an era, half of a day, a zone, or a day by name.
fn take_word(fields: &mut Fields, token: &str, settings: &Settings) -> Option<()> {
    match token {
        "bc" => fields.before_christ = true,
        "ad" => {}
        "am" => set(&mut fields.afternoon, false)?,
        "pm" => set(&mut fields.afternoon, true)?,
        "epoch" => {
            set(&mut fields.day, days_from_civil(1970, 1, 1))?;
            fields.clock.get_or_insert(0);
            fields.zone.get_or_insert(Zone::Fixed(0));
        }
        "today" => set(&mut fields.day, today(settings))?,
        "tomorrow" => set(&mut fields.day, today(settings) + 1)?,
        "yesterday" => set(&mut fields.day, today(settings) - 1)?,
        "allballs" => set(&mut fields.clock, 0)?,
        "at" | "on" => {}
        _ => {
            let month = token.split(['-', '.', '/']).next().and_then(month_of);
            if let Some(month) = month {
                set(&mut fields.month, (month, fields.numbers.len()))?;
                return match token.find(['-', '.', '/']) {
                    Some(at) if at + 1 < token.len() => take_date(fields, &token[at + 1..]),
                    _ => Some(()),
                };
            }
            if token.get(..3).is_some_and(|word| WEEKDAYS.contains(&word)) && token.len() <= 9 {
                return Some(());
            }
            set(&mut fields.zone, Zone::named(token)?)?;
        }
    }
    Some(())
}

/// Puts the fields of a text together.
fn finish(fields: Fields, text: &str, name: &str, order: DateOrder) -> Result<Moment> {
    let mut clock = fields.clock;
    if clock == Some(-1) {
        return Err(field_range(text));
    }
    if let (Some(micros), Some(afternoon)) = (clock, fields.afternoon) {
        if !(HOUR..13 * HOUR).contains(&micros) && micros >= 13 * HOUR {
            return Err(field_range(text));
        }
        let half = if micros >= 12 * HOUR { micros - 12 * HOUR } else { micros };
        clock = Some(if afternoon { half + 12 * HOUR } else { half });
    } else if fields.afternoon.is_some() {
        return Err(syntax(text, name));
    }
    let day = match fields.day {
        Some(day) if fields.numbers.is_empty() && fields.month.is_none() => Some(day),
        Some(_) => return Err(syntax(text, name)),
        None if fields.numbers.is_empty() && fields.month.is_none() => None,
        None => Some(day_of(&fields, text, name, order)?),
    };
    Ok(Moment { day, clock, zone: fields.zone })
}

/// Returns the day that two or three numbers and a month name.
fn day_of(fields: &Fields, text: &str, name: &str, order: DateOrder) -> Result<i64> {
    let numbers = &fields.numbers;
    let (year, month, day) = match (fields.month, numbers.as_slice()) {
        (Some((month, 1)), [day, year]) if day.1 <= 2 || year.1 > 2 => (*year, month, day.0),
        (Some((month, _)), [year, day]) if year.1 > 2 => (*year, month, day.0),
        (Some((month, _)), [day, year]) => (*year, month, day.0),
        (None, [year, month, day]) if year.1 > 2 => (*year, small(month.0), day.0),
        (None, [first, second, third]) => match order {
            DateOrder::Mdy => (*third, small(first.0), second.0),
            DateOrder::Dmy => (*third, small(second.0), first.0),
            DateOrder::Ymd => (*first, small(second.0), third.0),
        },
        (None, [year, day]) if day.1 == 3 && year.1 > 2 => {
            return Ok(days_from_civil(year.0, 1, 1) + day.0 - 1);
        }
        _ => return Err(syntax(text, name)),
    };
    let mut full = match year {
        (short, 1 | 2) if !fields.before_christ => short + if short < 70 { 2000 } else { 1900 },
        (long, _) => long,
    };
    if full == 0 && year.1 > 2 || full < 0 {
        return Err(field_range(text));
    }
    if fields.before_christ {
        full = 1 - full;
    }
    if !(1..=12).contains(&month) || !(-4713..=5_874_897).contains(&full) {
        return Err(field_range(text));
    }
    if day < 1 || day > i64::from(month_days(full, month)) {
        return Err(field_range(text));
    }
    Ok(days_from_civil(full, month, day as u32))
}

/// Returns a number as a month; one beyond all months if it is too large.
fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX).min(99)
}
