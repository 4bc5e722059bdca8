//! Reads intervals: units (`1 day 2 hours ago`), clock form (`3 4:05:06`), years and months
//! (`1-2`), and ISO 8601 (`P1Y2M3DT4H5M6S`).
//!
//! 1. A fraction of a unit goes to the next smaller kind: months to days of 30 per month, days to
//!    microseconds.

use relational::{Result, SqlState};

use super::civil::{DAY, HOUR, MINUTE, SECOND};
use crate::values::error;

/// The sum of the parts read so far.
#[derive(Default)]
struct Parts {
    months: f64,
    days: f64,
    micros: f64,
    /// Whole microseconds, kept exact beside the fractions.
    exact: i64,
}

/// Returns months, days and microseconds. Errors: 22007 for a text of another form, 22008 for a
/// number beyond the type.
pub fn parse_interval(text: &str) -> Result<(i32, i32, i64)> {
    let parts = read(text.trim()).ok_or_else(|| {
        error(
            SqlState::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type interval: \"{text}\""),
        )
    })?;
    finish(parts).ok_or_else(|| {
        error(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("interval field value out of range: \"{text}\""),
        )
    })
}

/// Spreads fractions to smaller units and checks the ranges.
fn finish(parts: Parts) -> Option<(i32, i32, i64)> {
    let months = parts.months.trunc();
    let days_sum = parts.days + (parts.months - months) * 30.0;
    let days = (days_sum + 1e-9 * days_sum.signum()).trunc();
    let rest = ((days_sum - days) * DAY as f64).round();
    let micros = parts.exact.checked_add((parts.micros + rest).round() as i64)?;
    let fits = months.abs() <= f64::from(i32::MAX) && days.abs() <= f64::from(i32::MAX);
    let fits = fits && parts.micros.abs() < i64::MAX as f64;
    fits.then_some((months as i32, days as i32, micros))
}

/// Returns the parts of a text, or nothing if its form is unknown.
fn read(text: &str) -> Option<Parts> {
    if text.is_empty() {
        return None;
    }
    if let Some(rest) = text.strip_prefix('P').or_else(|| text.strip_prefix('p')) {
        return read_iso(rest);
    }
    let mut parts = Parts::default();
    let tokens = tokens(text);
    let mut at = 0;
    let mut ago = false;
    while at < tokens.len() {
        let token = tokens[at].as_str();
        at += 1;
        if token == "@" {
            continue;
        }
        if token == "ago" && at == tokens.len() {
            ago = true;
        } else if token.contains(':') {
            parts.exact = parts.exact.checked_add(clock(token)?)?;
        } else if let Some((years, months)) = year_month(token) {
            parts.months += years * 12.0 + months;
        } else {
            let value: f64 = token.parse().ok()?;
            let unit = tokens.get(at).map(String::as_str);
            match unit {
                Some(unit)
                    if unit.starts_with(|c: char| c.is_ascii_alphabetic()) && unit != "ago" =>
                {
                    at += 1;
                    add(&mut parts, value, token, unit)?;
                }
                Some(next) if next.contains(':') => parts.days += value,
                _ => add(&mut parts, value, token, "s")?,
            }
        }
    }
    if ago {
        parts.months = -parts.months;
        parts.days = -parts.days;
        parts.micros = -parts.micros;
        parts.exact = parts.exact.checked_neg()?;
    }
    Some(parts)
}

/// Splits a text into numbers, words and clock readings, in lower case.
fn tokens(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty())
    {
        let lower = word.to_lowercase();
        let letters = lower.find(|c: char| c.is_ascii_alphabetic());
        match letters {
            Some(at) if at > 0 => {
                let mut rest = lower.as_str();
                while !rest.is_empty() {
                    let alphabetic = rest.starts_with(|c: char| c.is_ascii_alphabetic());
                    let end = rest
                        .find(|c: char| c.is_ascii_alphabetic() != alphabetic)
                        .unwrap_or(rest.len());
                    out.push(rest[..end].to_owned());
                    rest = &rest[end..];
                }
            }
            _ => out.push(lower),
        }
    }
    out
}

/// Returns the microseconds of `-4:05:06.5` or `4:05`.
fn clock(token: &str) -> Option<i64> {
    let (sign, digits) = match token.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, token.strip_prefix('+').unwrap_or(token)),
    };
    let mut fields = digits.split(':');
    let hours: i64 = fields.next()?.parse().ok()?;
    let minutes = fields.next()?;
    let seconds = fields.next();
    if fields.next().is_some() {
        return None;
    }
    let (minutes, micros) = match seconds {
        Some(seconds) => (minutes.parse::<i64>().ok()?, seconds_micros(seconds)?),
        None if minutes.contains('.') => {
            let micros = seconds_micros(minutes)?;
            return Some(sign * (hours.checked_mul(MINUTE)?.checked_add(micros)?));
        }
        None => (minutes.parse::<i64>().ok()?, 0),
    };
    if minutes > 59 || micros >= MINUTE + SECOND {
        return None;
    }
    Some(sign * (hours.checked_mul(HOUR)?.checked_add(minutes * MINUTE + micros)?))
}

/// Returns the microseconds of a decimal number of seconds.
pub(super) fn seconds_micros(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() > 12 || !digits(whole) || !digits(fraction) || whole.is_empty() {
        return None;
    }
    let seconds: i64 = whole.parse().ok()?;
    let mut micros = 0;
    for place in 0..6 {
        let digit = fraction.as_bytes().get(place).map_or(0, |byte| i64::from(byte - b'0'));
        micros = micros * 10 + digit;
    }
    // Half a microsecond rounds to the even neighbour.
    let rest = fraction.get(6..).unwrap_or("").trim_end_matches('0');
    let round = if rest == "5" { micros % 2 == 1 } else { rest.as_bytes().first() >= Some(&b'5') };
    Some(seconds * SECOND + micros + i64::from(round))
}

/// Returns years and months of `1-2`, both with the sign of the first.
fn year_month(token: &str) -> Option<(f64, f64)> {
    let (negative, rest) = match token.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, token.strip_prefix('+').unwrap_or(token)),
    };
    let (years, months) = rest.split_once('-')?;
    let (years, months): (u32, u32) = (years.parse().ok()?, months.parse().ok()?);
    if months > 11 {
        return None;
    }
    let sign = if negative { -1.0 } else { 1.0 };
    Some((sign * f64::from(years), sign * f64::from(months)))
}

/// Adds a number of units. A whole number of small units stays exact.
fn add(parts: &mut Parts, value: f64, digits: &str, unit: &str) -> Option<()> {
    let micros_of = match unit {
        "us" | "usec" | "usecs" | "microsecond" | "microseconds" | "microsec" | "usecond" => 1,
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" | "mseconds" => 1000,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => MINUTE,
        "h" | "hr" | "hrs" | "hour" | "hours" => HOUR,
        _ => 0,
    };
    if micros_of != 0 {
        match digits.parse::<i64>() {
            Ok(whole) => parts.exact = parts.exact.checked_add(whole.checked_mul(micros_of)?)?,
            Err(_) => parts.micros += value * micros_of as f64,
        }
        return Some(());
    }
    match unit {
        "d" | "day" | "days" => parts.days += value,
        "w" | "week" | "weeks" => parts.days += value * 7.0,
        "mon" | "mons" | "month" | "months" => parts.months += value,
        "y" | "yr" | "yrs" | "year" | "years" => parts.months += (value * 12.0).trunc(),
        "decade" | "decades" | "dec" => parts.months += value * 120.0,
        "c" | "cent" | "century" | "centuries" => parts.months += value * 1200.0,
        "mil" | "millennium" | "millennia" | "mils" => parts.months += value * 12_000.0,
        _ => return None,
    }
    Some(())
}

/// Reads the text after `P`.
fn read_iso(text: &str) -> Option<Parts> {
    let mut parts = Parts::default();
    let mut time = false;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(['T', 't']) {
            time = true;
            rest = after;
            continue;
        }
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let digits = &rest[..end];
        let value: f64 = digits.parse().ok()?;
        let unit = match (rest.as_bytes()[end].to_ascii_uppercase(), time) {
            (b'Y', false) => "y",
            (b'M', false) => "mon",
            (b'W', false) => "w",
            (b'D', false) => "d",
            (b'H', true) => "h",
            (b'M', true) => "min",
            (b'S', true) => "s",
            _ => return None,
        };
        add(&mut parts, value, digits, unit)?;
        rest = &rest[end + 1..];
    }
    Some(parts)
}
