//! Computes with moments and intervals: sums, fields, truncation, ages.
//!
//! 1. Months are added before days, days before microseconds; a day beyond its month becomes the
//!    month's last.
//! 2. With a zone, months and days are added to the local time, microseconds to universal time.

use relational::{Result, SqlState};

use super::civil::{
    DAY, HOUR, MINUTE, SECOND, check_timestamp, civil_from_days, days_from_civil, is_infinite,
    join_timestamp, month_days, split_timestamp,
};
use super::zone::Zone;
use crate::values::error;

/// Months, days and microseconds of an interval.
type Span = (i32, i32, i64);

/// The Julian day of 2000-01-01.
const JULIAN_SHIFT: i64 = 2_451_545;
/// Days from 1970-01-01 to 2000-01-01.
const UNIX_SHIFT_DAYS: i64 = 10_957;

fn out_of_range() -> relational::Error {
    error(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

/// Returns the sum of two intervals, or 22008.
pub fn interval_add(left: Span, right: Span) -> Result<Span> {
    let months = left.0.checked_add(right.0);
    let days = left.1.checked_add(right.1);
    let micros = left.2.checked_add(right.2);
    months.zip(days).zip(micros).map(|((m, d), u)| (m, d, u)).ok_or_else(out_of_range)
}

/// Returns the interval times a factor. Fractions go to the next smaller part.
pub fn interval_mul(span: Span, factor: f64) -> Result<Span> {
    let months = f64::from(span.0) * factor;
    let days = f64::from(span.1) * factor;
    let whole_months = months.trunc();
    let month_rest = round_micro((months - whole_months) * 30.0);
    let mut whole_days = days.trunc();
    let rest_days = month_rest.trunc();
    whole_days += rest_days;
    let seconds = round_micro((days - days.trunc() + month_rest - rest_days) * 86_400.0);
    let carry = (seconds / 86_400.0).trunc();
    whole_days += carry;
    let micros = (span.2 as f64 * factor + (seconds - carry * 86_400.0) * SECOND as f64).round();
    let fits = whole_months.abs() <= f64::from(i32::MAX)
        && whole_days.abs() <= f64::from(i32::MAX)
        && micros.abs() < i64::MAX as f64;
    if !fits {
        return Err(out_of_range());
    }
    Ok((whole_months as i32, whole_days as i32, micros as i64))
}

fn round_micro(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Returns the microseconds of an interval with months of 30 days, by which intervals compare.
pub fn interval_total(span: Span) -> i128 {
    (i128::from(span.0) * 30 + i128::from(span.1)) * i128::from(DAY) + i128::from(span.2)
}

/// Returns a moment plus an interval; `zone` makes it universal time. Infinities stay.
pub fn plus_interval(micros: i64, span: Span, zone: Option<Zone>) -> Result<i64> {
    if is_infinite(micros) {
        return Ok(micros);
    }
    let (months, days, rest) = span;
    let mut moment = micros;
    if months != 0 || days != 0 {
        let local = match zone {
            Some(zone) => zone.to_local(moment),
            None => moment,
        };
        let (day, clock) = split_timestamp(local);
        let shifted = join_timestamp(add_months(day, months) + i64::from(days), clock)?;
        moment = match zone {
            Some(zone) => zone.to_universal(shifted)?,
            None => shifted,
        };
    }
    check_timestamp(moment.checked_add(rest))
}

fn add_months(day: i64, months: i32) -> i64 {
    if months == 0 {
        return day;
    }
    let (year, month, of_month) = civil_from_days(day);
    let total = year * 12 + i64::from(month) - 1 + i64::from(months);
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u32 + 1);
    days_from_civil(year, month, of_month.min(month_days(year, month)))
}

/// Returns the field of a local moment as a number, and nothing for an unknown field.
/// `seconds` and smaller fields are given in microseconds by [`FieldValue::Micros`].
pub fn date_part(field: &str, micros: i64, zone_seconds: i32) -> Option<FieldValue> {
    let (day, clock) = split_timestamp(micros);
    match field {
        "epoch" => {
            let universal = micros.saturating_sub(i64::from(zone_seconds) * SECOND);
            Some(FieldValue::Epoch(universal))
        }
        "julian" => Some(FieldValue::Julian(day + JULIAN_SHIFT, clock)),
        field => part(field, day, clock, zone_seconds),
    }
}

/// Returns the field of a date as a number, and nothing for an unknown field.
pub fn date_field(field: &str, day: i64) -> Option<FieldValue> {
    match field {
        "epoch" => Some(FieldValue::Whole((day + UNIX_SHIFT_DAYS) * 86_400)),
        "julian" => Some(FieldValue::Whole(day + JULIAN_SHIFT)),
        field => part(field, day, 0, 0),
    }
}

fn part(field: &str, day: i64, clock: i64, zone_seconds: i32) -> Option<FieldValue> {
    let (year, month, of_month) = civil_from_days(day);
    let whole = match field {
        "microseconds" | "microsecond" | "us" | "usec" => clock % MINUTE,
        "millisecond" | "milliseconds" | "ms" | "msec" => {
            return Some(FieldValue::Scaled(clock % MINUTE, 3));
        }
        "second" | "seconds" | "sec" | "s" => return Some(FieldValue::Scaled(clock % MINUTE, 6)),
        "minute" | "minutes" | "min" | "m" => clock / MINUTE % 60,
        "hour" | "hours" | "h" => clock / HOUR,
        "day" | "days" | "d" => i64::from(of_month),
        "month" | "months" | "mon" => i64::from(month),
        "quarter" => i64::from((month - 1) / 3 + 1),
        "year" | "years" | "y" => before_zero(year),
        "decade" => year.div_euclid(10),
        "century" => centuries(year, 100),
        "millennium" => centuries(year, 1000),
        "dow" => (day + 6).rem_euclid(7),
        "isodow" => (day + 5).rem_euclid(7) + 1,
        "doy" => day - days_from_civil(year, 1, 1) + 1,
        "week" => iso_week(day).1,
        "isoyear" => before_zero(iso_week(day).0),
        "timezone" => i64::from(zone_seconds),
        "timezone_hour" => i64::from(zone_seconds / 3600),
        "timezone_minute" => i64::from(zone_seconds / 60 % 60),
        _ => return None,
    };
    Some(FieldValue::Whole(whole))
}

/// A field of a moment, exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A number without a fraction.
    Whole(i64),
    /// Microseconds to be shown with so many decimal places of the unit.
    Scaled(i64, u32),
    /// Microseconds since 2000-01-01, whose epoch is 1970-01-01.
    Epoch(i64),
    /// A Julian day and the microseconds of the day.
    Julian(i64, i64),
}

fn before_zero(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

fn centuries(year: i64, length: i64) -> i64 {
    if year > 0 { (year + length - 1) / length } else { -((length - year) / length) }
}

/// Returns the ISO year and week of a day.
fn iso_week(day: i64) -> (i64, i64) {
    let thursday = day - (day + 5).rem_euclid(7) + 3;
    let (year, _, _) = civil_from_days(thursday);
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

/// Returns the start of the unit in which a local moment lies, and nothing for an unknown unit.
pub fn date_trunc(unit: &str, micros: i64) -> Option<i64> {
    let (day, clock) = split_timestamp(micros);
    let (year, month, _) = civil_from_days(day);
    let start = |year: i64, month: u32| days_from_civil(year, month, 1) * DAY;
    Some(match unit {
        "microseconds" | "microsecond" | "us" => micros,
        "milliseconds" | "millisecond" | "ms" => micros - micros.rem_euclid(1000),
        "second" | "seconds" | "sec" | "s" => micros - micros.rem_euclid(SECOND),
        "minute" | "minutes" | "min" | "m" => micros - micros.rem_euclid(MINUTE),
        "hour" | "hours" | "h" => micros - micros.rem_euclid(HOUR),
        "day" | "days" | "d" => micros - clock,
        "week" | "weeks" => (day - (day + 5).rem_euclid(7)) * DAY,
        "month" | "months" | "mon" => start(year, month),
        "quarter" => start(year, (month - 1) / 3 * 3 + 1),
        "year" | "years" | "y" => start(year, 1),
        "decade" | "decades" => start(year.div_euclid(10) * 10, 1),
        "century" | "centuries" => start((year - 1).div_euclid(100) * 100 + 1, 1),
        "millennium" | "millennia" => start((year - 1).div_euclid(1000) * 1000 + 1, 1),
        _ => return None,
    })
}

/// Returns years, months, days and time between two local moments, as `age` shows them.
pub fn age(left: i64, right: i64) -> Span {
    let sign = if left < right { -1 } else { 1 };
    let (late, early) = if left < right { (right, left) } else { (left, right) };
    let ((late_day, late_clock), (early_day, early_clock)) =
        (split_timestamp(late), split_timestamp(early));
    let (y1, m1, d1) = civil_from_days(late_day);
    let (y2, m2, d2) = civil_from_days(early_day);
    let mut clock = late_clock - early_clock;
    let mut days = i64::from(d1) - i64::from(d2);
    let mut months = (y1 - y2) * 12 + i64::from(m1) - i64::from(m2);
    if clock < 0 {
        clock += DAY;
        days -= 1;
    }
    if days < 0 {
        // The length of the earlier moment's month fills the gap, as PostgreSQL does.
        let length = if sign < 0 { before(y1, m1) } else { month_days(y2, m2) };
        days += i64::from(length);
        months -= 1;
    }
    (sign * months as i32, sign * days as i32, i64::from(sign) * clock)
}

/// Returns the length of the month before a month.
fn before(year: i64, month: u32) -> u32 {
    if month == 1 { 31 } else { month_days(year, month - 1) }
}
