//! Pictures of `to_char`, `to_date` and `to_timestamp` for moments.
//!
//! 1. A field of the picture that is not known stands for itself, as in PostgreSQL.
//! 2. A field that is written but not read is 0A000 in a picture to read by.

use relational::{Error, Result, SqlState};

use crate::values::time::{
    DAY, HOUR, MINUTE, SECOND, civil_from_days, date_part, days_from_civil, month_days,
};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const ROMANS: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
/// The Julian day of 2000-01-01.
const JULIAN: i64 = 2_451_545;

/// Fields, longest first where one begins another.
const FIELDS: &[&str] = &[
    "Y,YYY", "RM", "rm", "HH24", "HH12", "HH", "MI", "SSSSS", "SSSS", "SS", "MS", "US", "FF6",
    "FF3", "AM", "PM", "am", "pm", "A.M.", "P.M.", "YYYY", "YYY", "YY", "Y", "IYYY", "MONTH",
    "Month", "month", "MON", "Mon", "mon", "MM", "DDD", "DAY", "Day", "day", "DY", "Dy", "dy",
    "DD", "D", "ID", "IW", "WW", "W", "Q", "CC", "J", "TZH", "TZM", "TZ", "tz", "OF", "BC", "AD",
];

/// Returns the field at the start of a picture, in the picture's own letters.
fn field_at(picture: &str) -> Option<&'static str> {
    let exact = FIELDS.iter().find(|field| picture.starts_with(**field));
    exact
        .or_else(|| {
            let same = |field: &&&str| {
                picture.get(..field.len()).is_some_and(|start| start.eq_ignore_ascii_case(field))
            };
            FIELDS.iter().find(same)
        })
        .copied()
}

/// Returns a local moment by a picture.
pub(super) fn format(micros: i64, offset: i32, zone: &str, picture: &str) -> String {
    let value = |field: &str, fill| Ok(value_of(field, micros, offset, zone, fill));
    fill_in(picture, value).unwrap_or_default()
}

/// Returns a picture with the values of its fields.
pub(super) fn fill_in(
    picture: &str,
    value_of: impl Fn(&str, bool) -> Result<String>,
) -> Result<String> {
    let mut out = String::new();
    let mut rest = picture;
    let mut fill = true;
    while let Some(symbol) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
            fill = false;
            rest = after;
            continue;
        }
        if let Some(after) = rest.strip_prefix('"') {
            let end = after.find('"').unwrap_or(after.len());
            out.push_str(&after[..end]);
            rest = after.get(end + 1..).unwrap_or("");
            continue;
        }
        let Some(field) = field_at(rest) else {
            out.push(symbol);
            rest = &rest[symbol.len_utf8()..];
            continue;
        };
        let value = value_of(field, fill)?;
        rest = &rest[field.len()..];
        if rest.starts_with("TH") || rest.starts_with("th") {
            let number: i64 = value.trim().parse().unwrap_or(0);
            out.push_str(&value);
            out.push_str(if rest.starts_with("TH") {
                ordinal(number).1
            } else {
                ordinal(number).0
            });
            rest = &rest[2..];
        } else {
            out.push_str(&value);
        }
        fill = true;
    }
    Ok(out)
}

fn ordinal(number: i64) -> (&'static str, &'static str) {
    match (number % 10, number % 100) {
        (_, 11..=13) => ("th", "TH"),
        (1, _) => ("st", "ST"),
        (2, _) => ("nd", "ND"),
        (3, _) => ("rd", "RD"),
        _ => ("th", "TH"),
    }
}

fn value_of(field: &str, micros: i64, offset: i32, zone: &str, fill: bool) -> String {
    let (day, clock) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    let (year, month, of_month) = civil_from_days(day);
    let shown_year = if year > 0 { year } else { 1 - year };
    let weekday = (day + 6).rem_euclid(7) as usize;
    let part = |name: &str| match date_part(name, micros, offset) {
        Some(crate::values::time::FieldValue::Whole(value)) => value,
        _ => 0,
    };
    let number = |value: i64, width: usize| match fill {
        true => format!("{value:0width$}"),
        false => value.to_string(),
    };
    let word = |name: &str, width: usize| match fill {
        true => format!("{name:<width$}"),
        false => name.to_owned(),
    };
    let hour = clock / HOUR;
    let month_name = MONTHS[month as usize - 1];
    let day_name = WEEKDAYS[weekday];
    match field {
        "HH24" => number(hour, 2),
        "HH12" | "HH" => number((hour + 11) % 12 + 1, 2),
        "MI" => number(clock / MINUTE % 60, 2),
        "SS" => number(clock / SECOND % 60, 2),
        "SSSS" | "SSSSS" => number(clock / SECOND, 0),
        "MS" | "FF3" => number(clock % SECOND / 1000, 3),
        "US" | "FF6" => number(clock % SECOND, 6),
        "AM" | "PM" => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        "am" | "pm" => if hour < 12 { "am" } else { "pm" }.to_owned(),
        "A.M." | "P.M." => if hour < 12 { "A.M." } else { "P.M." }.to_owned(),
        "YYYY" => number(shown_year, 4),
        "YYY" => number(shown_year % 1000, 3),
        "YY" => number(shown_year % 100, 2),
        "Y" => (shown_year % 10).to_string(),
        "Y,YYY" => format!("{},{:03}", shown_year / 1000, shown_year % 1000),
        "RM" => word(ROMANS[month as usize - 1], 4),
        "rm" => word(&ROMANS[month as usize - 1].to_lowercase(), 4),
        "IYYY" => number(part("isoyear"), 4),
        "MONTH" => word(&month_name.to_uppercase(), 9),
        "Month" => word(month_name, 9),
        "month" => word(&month_name.to_lowercase(), 9),
        "MON" => month_name[..3].to_uppercase(),
        "Mon" => month_name[..3].to_owned(),
        "mon" => month_name[..3].to_lowercase(),
        "MM" => number(i64::from(month), 2),
        "DDD" => number(part("doy"), 3),
        "DAY" => word(&day_name.to_uppercase(), 9),
        "Day" => word(day_name, 9),
        "day" => word(&day_name.to_lowercase(), 9),
        "DY" => day_name[..3].to_uppercase(),
        "Dy" => day_name[..3].to_owned(),
        "dy" => day_name[..3].to_lowercase(),
        "DD" => number(i64::from(of_month), 2),
        "D" => (weekday + 1).to_string(),
        "ID" => part("isodow").to_string(),
        "IW" => number(part("week"), 2),
        "WW" => number((part("doy") - 1) / 7 + 1, 2),
        "W" => ((of_month - 1) / 7 + 1).to_string(),
        "Q" => part("quarter").to_string(),
        "CC" => number(part("century"), 2),
        "J" => (day + JULIAN).to_string(),
        "TZ" => zone.to_owned(),
        "tz" => zone.to_lowercase(),
        "TZH" => format!("{}{:02}", if offset < 0 { '-' } else { '+' }, offset.abs() / 3600),
        "TZM" => format!("{:02}", offset.abs() / 60 % 60),
        "OF" => {
            let hours = format!("{}{:02}", if offset < 0 { '-' } else { '+' }, offset.abs() / 3600);
            match offset.abs() / 60 % 60 {
                0 => hours,
                minutes => format!("{hours}:{minutes:02}"),
            }
        }
        "BC" | "AD" => if year > 0 { "AD" } else { "BC" }.to_owned(),
        other => other.to_owned(),
    }
}

/// Returns the local microseconds that a text means by a picture.
pub(super) fn read(text: &str, picture: &str) -> Result<i64> {
    let mut fields = Fields::default();
    let (mut rest, mut shape) = (text, picture);
    while let Some(symbol) = shape.chars().next() {
        if let Some(after) = shape.strip_prefix("FM") {
            shape = after;
            continue;
        }
        if let Some(after) = shape.strip_prefix('"') {
            let end = after.find('"').unwrap_or(after.len());
            let skipped = after[..end].chars().count();
            rest = rest.char_indices().nth(skipped).map_or("", |(at, _)| &rest[at..]);
            shape = after.get(end + 1..).unwrap_or("");
            continue;
        }
        let Some(field) = field_at(shape) else {
            shape = &shape[symbol.len_utf8()..];
            // A separator of the picture takes one separator of the text, if there is one.
            let separator = |c: char| !c.is_alphanumeric() && c != '-' && c != '+';
            rest = match rest.chars().next() {
                Some(found) if found == symbol || separator(found) => &rest[found.len_utf8()..],
                _ => rest,
            };
            continue;
        };
        shape = &shape[field.len()..];
        if !READ.contains(&field.to_uppercase().as_str()) {
            let message = format!("the field \"{field}\" cannot be read yet");
            return Err(Error::unsupported(message));
        }
        rest = fields.take(field, rest.trim_start()).ok_or_else(|| {
            let message = format!("invalid value \"{rest}\" for \"{field}\"");
            Error::new(SqlState::INVALID_DATETIME_FORMAT, message)
        })?;
    }
    fields.micros().ok_or_else(|| {
        let message = format!("date/time field value out of range: \"{text}\"");
        Error::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
    })
}

/// Fields that can be read.
const READ: &[&str] = &[
    "Y,YYY", "YYYY", "YYY", "YY", "Y", "RM", "MONTH", "MON", "MM", "DDD", "DAY", "DY", "DD", "D",
    "WW", "W", "Q", "J", "HH24", "HH12", "HH", "MI", "SSSSS", "SSSS", "SS", "MS", "FF3", "US",
    "FF6", "AM", "PM",
];

struct Fields {
    year: Option<i64>,
    month: u32,
    day: i64,
    day_of_year: Option<i64>,
    julian: Option<i64>,
    clock: i64,
    afternoon: Option<bool>,
    hour: i64,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            year: None,
            month: 1,
            day: 1,
            day_of_year: None,
            julian: None,
            clock: 0,
            afternoon: None,
            hour: 0,
        }
    }
}

/// Returns whether a text begins with a word, in letters of either case.
fn begins(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Returns the place of the name that a text begins with, whole or by three letters, and the rest of the text.
fn named<'a>(text: &'a str, names: &[&str]) -> Option<(usize, &'a str)> {
    let at = names.iter().position(|name| begins(text, &name[..3]))?;
    let len = if begins(text, names[at]) { names[at].len() } else { 3 };
    Some((at, text.get(len..)?))
}

/// Returns the year that a number of at most three digits means: the one nearest to 2020.
fn near_2020(year: i64) -> i64 {
    match year {
        ..70 | 100..520 => year + 2000,
        70..100 => year + 1900,
        520..1000 => year + 1000,
        _ => year,
    }
}

impl Fields {
    /// Takes a field from the front of a text and returns the rest.
    fn take<'a>(&mut self, field: &str, text: &'a str) -> Option<&'a str> {
        let upper = field.to_uppercase();
        match upper.as_str() {
            "MON" | "MONTH" => {
                let (at, rest) = named(text, &MONTHS)?;
                self.month = at as u32 + 1;
                Some(rest)
            }
            // A day of the week says nothing that the date does not say.
            "DY" | "DAY" => named(text, &WEEKDAYS).map(|(_, rest)| rest),
            "RM" => {
                let found = ROMANS.iter().enumerate().filter(|(_, roman)| begins(text, roman));
                let (at, roman) = found.max_by_key(|(_, roman)| roman.len())?;
                self.month = at as u32 + 1;
                text.get(roman.len()..)
            }
            "AM" | "PM" => {
                let half = text.get(..2)?.to_uppercase();
                self.afternoon = Some(half == "PM");
                text.get(2..)
            }
            "Y,YYY" => {
                let (thousands, rest) = text.split_once(',')?;
                let year = rest.get(..3).filter(|year| year.bytes().all(|b| b.is_ascii_digit()))?;
                let thousands = thousands.parse::<i64>().ok().filter(|year| *year < 10_000)?;
                self.year = Some(thousands * 1000 + year.parse::<i64>().ok()?);
                rest.get(3..)
            }
            number => self.take_number(number, text),
        }
    }

    /// Takes a number from the front of a text and returns the rest.
    fn take_number<'a>(&mut self, field: &str, text: &'a str) -> Option<&'a str> {
        let width = match field {
            "J" => 7,
            "US" | "FF6" => 6,
            "SSSS" | "SSSSS" => 5,
            "YYYY" => 4,
            "YYY" | "MS" | "FF3" | "DDD" => 3,
            "Y" | "D" | "Q" | "W" => 1,
            _ => 2,
        };
        let end = text.bytes().take(width).take_while(u8::is_ascii_digit).count();
        let digits = &text[..end];
        let value: i64 = digits.parse().ok()?;
        match field {
            "YYYY" => self.year = Some(value),
            "YYY" | "YY" | "Y" => self.year = Some(near_2020(value)),
            "MM" => self.month = u32::try_from(value).ok()?,
            "DD" => self.day = value,
            "DDD" => self.day_of_year = Some(value).filter(|day| *day != 0),
            "WW" if value != 0 => self.day_of_year = Some(value * 7 - 6),
            "W" if value != 0 => self.day = value * 7 - 6,
            "J" => self.julian = Some(value),
            "HH24" | "HH12" | "HH" => self.hour = value,
            "MI" => self.clock += value * MINUTE,
            "SS" | "SSSS" | "SSSSS" => self.clock += value * SECOND,
            "MS" | "FF3" => self.clock += value * 1000 * 10_i64.pow(3 - end as u32),
            "US" | "FF6" => self.clock += value * 10_i64.pow(6 - end as u32),
            // A quarter, or a day of the week, says nothing that the date does not say.
            _ => {}
        }
        Some(&text[end..])
    }

    /// Returns the day since 2000-01-01; nothing if there is no such day.
    fn days(&self) -> Option<i64> {
        if let Some(julian) = self.julian {
            return Some(julian - JULIAN);
        }
        if let Some(day) = self.day_of_year
            && (self.month <= 1 || self.day <= 1)
        {
            let year = self.year?;
            let (first, next) = (days_from_civil(year, 1, 1), days_from_civil(year + 1, 1, 1));
            return (1..=next - first).contains(&day).then_some(first + day - 1);
        }
        let year = self.year.unwrap_or(1);
        let valid = (1..=12).contains(&self.month)
            && (1..=i64::from(month_days(year, self.month))).contains(&self.day);
        valid.then(|| days_from_civil(year, self.month, self.day as u32))
    }

    fn micros(&self) -> Option<i64> {
        let hour = match self.afternoon {
            Some(afternoon) => self.hour % 12 + if afternoon { 12 } else { 0 },
            None => self.hour,
        };
        let day = self.days().filter(|_| hour < 24)?;
        Some(day * DAY + hour * HOUR + self.clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_cannot_be_read_is_refused() {
        for field in ["IYYY", "IW", "CC", "TZH", "BC", "A.M."] {
            assert_eq!(read("2024", field).unwrap_err().state.to_string(), "0A000", "{field}");
        }
    }
}
