//! Text of intervals in the four styles of `IntervalStyle`.

use super::civil::{HOUR, MINUTE, SECOND};
use super::format::seconds_text;
use crate::values::IntervalStyle;

/// Parts of an interval, each with a sign of its own; months and years share one, and so do the parts of the time.
struct Parts {
    years: i32,
    months: i32,
    days: i32,
    micros: i64,
}

impl Parts {
    fn hours(&self) -> i64 {
        self.micros / HOUR
    }

    fn minutes(&self) -> i64 {
        self.micros / MINUTE % 60
    }

    /// Returns the microseconds of the last minute.
    fn seconds(&self) -> i64 {
        self.micros % MINUTE
    }

    /// Returns hours, minutes and seconds without a sign, as in `4:05:06.7`.
    fn clock(&self) -> String {
        let (hours, minutes) = (self.hours().unsigned_abs(), self.minutes().unsigned_abs());
        format!("{hours}:{minutes:02}:{}", seconds_text(self.seconds().abs()))
    }
}

/// Returns the text of months, days and microseconds.
pub fn interval_text((months, days, micros): (i32, i32, i64), style: IntervalStyle) -> String {
    let parts = Parts { years: months / 12, months: months % 12, days, micros };
    match style {
        IntervalStyle::Postgres => postgres(&parts),
        IntervalStyle::PostgresVerbose => verbose(&parts),
        IntervalStyle::SqlStandard => standard(&parts),
        IntervalStyle::Iso8601 => iso(&parts),
    }
}

/// Returns `1 year 2 mons 3 days 04:05:06`, with signs as PostgreSQL repeats them.
fn postgres(parts: &Parts) -> String {
    let mut out = String::new();
    let mut before = false;
    for (value, unit) in [(parts.years, "year"), (parts.months, "mon"), (parts.days, "day")] {
        if value == 0 {
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        if before && value > 0 {
            out.push('+');
        }
        out.push_str(&format!("{value} {unit}{}", if value == 1 { "" } else { "s" }));
        before = value < 0;
    }
    if out.is_empty() || parts.micros != 0 {
        if !out.is_empty() {
            out.push(' ');
        }
        if parts.micros < 0 {
            out.push('-');
        } else if before {
            out.push('+');
        }
        let hours = parts.hours().unsigned_abs();
        let clock = parts.clock();
        let rest = clock.split_once(':').map_or("", |(_, rest)| rest);
        out.push_str(&format!("{hours:02}:{rest}"));
    }
    out
}

/// Returns `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`, and `ago` if the first part is below zero.
fn verbose(parts: &Parts) -> String {
    let whole = [
        (i64::from(parts.years), "year"),
        (i64::from(parts.months), "mon"),
        (i64::from(parts.days), "day"),
        (parts.hours(), "hour"),
        (parts.minutes(), "min"),
    ];
    let mut out = String::from("@");
    let mut is_ago = None;
    for (value, unit) in whole.into_iter().filter(|(value, _)| *value != 0) {
        let shown = if *is_ago.get_or_insert(value < 0) { -value } else { value };
        out.push_str(&format!(" {shown} {unit}{}", if shown == 1 { "" } else { "s" }));
    }
    let seconds = parts.seconds();
    if seconds != 0 {
        let sign = if *is_ago.get_or_insert(seconds < 0) == (seconds < 0) { "" } else { "-" };
        let unit = if seconds.abs() == SECOND { "sec" } else { "secs" };
        out.push_str(&format!(" {sign}{} {unit}", short_seconds(seconds)));
    }
    match is_ago {
        None => out.push_str(" 0"),
        Some(true) => out.push_str(" ago"),
        Some(false) => {}
    }
    out
}

/// Returns seconds without a sign, and without a zero before one digit.
fn short_seconds(micros: i64) -> String {
    let text = seconds_text(micros.abs());
    match text.strip_prefix('0') {
        Some(rest) if rest.starts_with(|first: char| first.is_ascii_digit()) => rest.to_owned(),
        _ => text,
    }
}

/// Returns `1-2`, `3 4:05:06`, or `+1-2 +3 +4:05:06` if the standard has no such interval.
fn standard(parts: &Parts) -> String {
    let all =
        [i64::from(parts.years), i64::from(parts.months), i64::from(parts.days), parts.micros];
    let is_negative = all.iter().any(|part| *part < 0);
    let is_positive = all.iter().any(|part| *part > 0);
    let has_months = all[0] != 0 || all[1] != 0;
    let has_time = all[2] != 0 || all[3] != 0;
    let (years, months) = (parts.years.unsigned_abs(), parts.months.unsigned_abs());
    let (days, clock) = (parts.days.unsigned_abs(), parts.clock());
    let sign = |is_negative: bool| if is_negative { '-' } else { '+' };
    if !is_negative && !is_positive {
        return "0".to_owned();
    }
    if (is_negative && is_positive) || (has_months && has_time) {
        let of_months = sign(parts.years < 0 || parts.months < 0);
        let (of_days, of_time) = (sign(parts.days < 0), sign(parts.micros < 0));
        return format!("{of_months}{years}-{months} {of_days}{days} {of_time}{clock}");
    }
    let sign = if is_negative { "-" } else { "" };
    match (has_months, days) {
        (true, _) => format!("{sign}{years}-{months}"),
        (false, 0) => format!("{sign}{clock}"),
        (false, _) => format!("{sign}{days} {clock}"),
    }
}

/// Returns a text such as `P1Y2M3DT4H5M6S`.
fn iso(parts: &Parts) -> String {
    let mut out = String::from("P");
    for (value, unit) in [(parts.years, 'Y'), (parts.months, 'M'), (parts.days, 'D')] {
        if value != 0 {
            out.push_str(&format!("{value}{unit}"));
        }
    }
    if parts.micros != 0 {
        out.push('T');
    }
    for (value, unit) in [(parts.hours(), 'H'), (parts.minutes(), 'M')] {
        if value != 0 {
            out.push_str(&format!("{value}{unit}"));
        }
    }
    let seconds = parts.seconds();
    if seconds != 0 {
        let sign = if seconds < 0 { "-" } else { "" };
        out.push_str(&format!("{sign}{}S", short_seconds(seconds)));
    }
    if out == "P" { "PT0S".to_owned() } else { out }
}
