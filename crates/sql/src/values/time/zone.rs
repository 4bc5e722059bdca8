//! Time zones: names of the IANA database, abbreviations, fixed offsets.
//!
//! 1. A local time that a change of clocks skips takes the offset before the change; one that
//!    comes twice takes the offset after it.

use chrono::{DateTime, NaiveDateTime, Offset, TimeZone};
use chrono_tz::{OffsetName, Tz};
use relational::Result;

use super::civil::{SECOND, check_timestamp, is_infinite};

/// Seconds from 1970-01-01 to 2000-01-01.
const UNIX_SHIFT: i64 = 946_684_800;

/// Abbreviations with their offset in quarters of an hour, east of Greenwich.
const ABBREVIATIONS: &[(&str, i32)] = &[
    ("z", 0),
    ("zulu", 0),
    ("ut", 0),
    ("utc", 0),
    ("gmt", 0),
    ("wet", 0),
    ("west", 4),
    ("bst", 4),
    ("cet", 4),
    ("cest", 8),
    ("met", 4),
    ("mest", 8),
    ("eet", 8),
    ("eest", 12),
    ("msk", 12),
    ("est", -20),
    ("edt", -16),
    ("cst", -24),
    ("cdt", -20),
    ("mst", -28),
    ("mdt", -24),
    ("pst", -32),
    ("pdt", -28),
    ("akst", -36),
    ("akdt", -32),
    ("hst", -40),
    ("jst", 36),
    ("kst", 36),
    ("ist", 8),
    ("aest", 40),
    ("aedt", 44),
    ("acst", 38),
    ("awst", 32),
    ("nzst", 48),
    ("nzdt", 52),
];

/// A rule from which the offset of each moment follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// One offset for ever, in seconds east of Greenwich.
    Fixed(i32),
    /// A place of the IANA database.
    Named(Tz),
}

impl Zone {
    /// Universal time, the default of a server.
    pub const UTC: Zone = Zone::Named(Tz::UTC);

    /// Returns the zone of a setting: a name, an abbreviation, hours east of Greenwich, or a POSIX text.
    pub fn parse(text: &str) -> Option<Zone> {
        let text = text.trim();
        if let Ok(hours) = text.parse::<f64>()
            && hours.abs() <= 167.0
        {
            return Some(Zone::Fixed((hours * 3600.0).round() as i32));
        }
        Zone::named(text).or_else(|| Zone::posix(text))
    }

    /// Returns the zone of a word in a timestamp.
    pub fn named(text: &str) -> Option<Zone> {
        if let Ok(zone) = text.parse::<Tz>() {
            return Some(Zone::Named(zone));
        }
        let lower = text.to_ascii_lowercase();
        if let Some((_, quarters)) = ABBREVIATIONS.iter().find(|(name, _)| *name == lower) {
            return Some(Zone::Fixed(quarters * 900));
        }
        let found =
            chrono_tz::TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(text));
        found.map(|zone| Zone::Named(*zone))
    }

    /// Returns the zone of a POSIX text like `UTC+3`, `<+03>-3` or `-05:30`, whose sign points west.
    pub fn posix(text: &str) -> Option<Zone> {
        let at = match text.strip_prefix('<') {
            Some(rest) => rest.find('>')? + 2,
            None => text.find(|c: char| matches!(c, '+' | '-') || c.is_ascii_digit())?,
        };
        let (name, offset) = text.split_at_checked(at)?;
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphabetic());
        let west = posix_offset(offset).filter(|_| is_word || name.starts_with('<'))?;
        Some(Zone::Fixed(-west))
    }

    /// Returns the offset of a moment of universal time, in seconds east of Greenwich.
    pub fn offset_of_moment(&self, micros: i64) -> i32 {
        match self {
            Zone::Fixed(seconds) => *seconds,
            Zone::Named(zone) => match unix(micros) {
                Some(moment) => zone.offset_from_utc_datetime(&moment).fix().local_minus_utc(),
                None => 0,
            },
        }
    }

    /// Returns the offset that a local time has, by invariant 1.
    pub fn offset_of_local(&self, micros: i64) -> i32 {
        let Zone::Named(zone) = self else { return self.offset_of_moment(micros) };
        let Some(local) = unix(micros) else { return 0 };
        match zone.offset_from_local_datetime(&local) {
            chrono::LocalResult::Single(offset) => offset.fix().local_minus_utc(),
            chrono::LocalResult::Ambiguous(_, later) => later.fix().local_minus_utc(),
            chrono::LocalResult::None => {
                self.offset_of_moment(micros.saturating_sub(26 * 3600 * SECOND))
            }
        }
    }

    /// Returns the local time of a moment of universal time. Infinities stay.
    pub fn to_local(&self, micros: i64) -> i64 {
        match is_infinite(micros) {
            true => micros,
            false => micros + i64::from(self.offset_of_moment(micros)) * SECOND,
        }
    }

    /// Returns the moment of universal time of a local time, or 22008. Infinities stay.
    pub fn to_universal(&self, micros: i64) -> Result<i64> {
        match is_infinite(micros) {
            true => Ok(micros),
            false => {
                let offset = i64::from(self.offset_of_local(micros)) * SECOND;
                check_timestamp(micros.checked_sub(offset))
            }
        }
    }

    /// Returns the abbreviation in use at a moment of universal time, like `CET`.
    pub fn abbreviation(&self, micros: i64) -> String {
        match (self, unix(micros)) {
            (Zone::Named(zone), Some(moment)) => {
                let offset = zone.offset_from_utc_datetime(&moment);
                offset.abbreviation().unwrap_or(zone.name()).to_owned()
            }
            _ => self.to_string(),
        }
    }
}

impl std::fmt::Display for Zone {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Zone::Named(zone) => out.write_str(zone.name()),
            Zone::Fixed(seconds) => {
                let (east, west) = (offset_text(*seconds), offset_text(-*seconds));
                write!(out, "<{east}>{west}")
            }
        }
    }
}

/// Returns the seconds of `+03`, `-0330` or `+03:30:15`.
pub(super) fn parse_offset(text: &str) -> Option<i32> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let parts: Vec<&str> = digits.split(':').collect();
    let number = |part: &str| part.parse::<i32>().ok().filter(|_| !part.starts_with(['+', '-']));
    let (hours, minutes, seconds) = match parts.as_slice() {
        [one] if one.len() <= 2 => (number(one)?, 0, 0),
        [one] if one.len() == 3 && one.is_ascii() => (number(&one[..1])?, number(&one[1..])?, 0),
        [one] if one.len() == 4 && one.is_ascii() => (number(&one[..2])?, number(&one[2..])?, 0),
        [one] if one.len() == 6 && one.is_ascii() => {
            (number(&one[..2])?, number(&one[2..4])?, number(&one[4..])?)
        }
        [hours, minutes] => (number(hours)?, number(minutes)?, 0),
        [hours, minutes, seconds] => (number(hours)?, number(minutes)?, number(seconds)?),
        _ => return None,
    };
    if hours > 15 || minutes > 59 || seconds > 59 {
        return None;
    }
    let total = hours * 3600 + minutes * 60 + seconds;
    Some(if negative { -total } else { total })
}

/// Returns the seconds of hours, minutes and seconds as POSIX writes them: `3`, `-05:30` or `+167:59:59`.
fn posix_offset(text: &str) -> Option<i32> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut total = 0;
    let mut parts = digits.split(':');
    for (unit, most) in [(3600, 167), (60, 59), (1, 59)] {
        let Some(part) = parts.next() else { break };
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        let number = part.parse::<i32>().ok().filter(|number| is_number && *number <= most)?;
        total += number * unit;
    }
    let is_whole = parts.next().is_none();
    is_whole.then_some(if negative { -total } else { total })
}

/// Returns `+03`, `-03:30` or `+03:30:15`.
pub(super) fn offset_text(seconds: i32) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let total = seconds.unsigned_abs();
    let (hours, minutes, rest) = (total / 3600, total / 60 % 60, total % 60);
    match (minutes, rest) {
        (0, 0) => format!("{sign}{hours:02}"),
        (_, 0) => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{rest:02}"),
    }
}

/// Returns the clock reading of a number of microseconds, if the library can hold it.
fn unix(micros: i64) -> Option<NaiveDateTime> {
    let seconds = micros.div_euclid(SECOND) + UNIX_SHIFT;
    DateTime::from_timestamp(seconds, 0).map(|moment| moment.naive_utc())
}
