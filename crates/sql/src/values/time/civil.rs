//! Days of the Gregorian calendar, counted from 2000-01-01.
//!
//! 1. `days_from_civil` and `civil_from_days` are inverse of each other over the whole range.

use relational::{Result, SqlState};

use crate::values::error;

/// Number of microseconds of one second.
pub const SECOND: i64 = 1_000_000;
/// Number of microseconds of one minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Number of microseconds of one hour.
pub const HOUR: i64 = 60 * MINUTE;
/// Number of microseconds of one day.
pub const DAY: i64 = 24 * HOUR;

/// Days from 0000-03-01 to 2000-01-01.
const EPOCH_SHIFT: i64 = 730_425;
/// Days of a span of 400 years.
const ERA_DAYS: i64 = 146_097;

/// 4713-11-24 BC, the first day of PostgreSQL's calendar.
const DATE_MIN: i64 = -2_451_545;
/// 5874897-12-31, the last day of it.
const DATE_MAX: i64 = 2_145_031_948;
/// The first microsecond of a timestamp.
const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
/// The first microsecond after all timestamps.
const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;

/// Returns the days since 2000-01-01 of a date. Year 0 is 1 BC.
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let month_of_year = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_of_year + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA_DAYS + day_of_era - EPOCH_SHIFT
}

/// Returns year, month and day of a number of days since 2000-01-01.
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + EPOCH_SHIFT;
    let era = shifted.div_euclid(ERA_DAYS);
    let day_of_era = shifted.rem_euclid(ERA_DAYS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_shifted + 2) / 5 + 1) as u32;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Returns the number of days of a month.
pub fn month_days(year: i64, month: u32) -> u32 {
    let leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days as a date, or 22008 outside PostgreSQL's calendar.
pub fn check_date(days: i64) -> Result<i32> {
    if !(DATE_MIN..=DATE_MAX).contains(&days) {
        return Err(error(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range"));
    }
    Ok(days as i32)
}

/// Returns the microseconds as a timestamp, or 22008 outside PostgreSQL's range.
pub fn check_timestamp(micros: Option<i64>) -> Result<i64> {
    match micros {
        Some(micros) if (TIMESTAMP_MIN..TIMESTAMP_END).contains(&micros) => Ok(micros),
        _ => Err(error(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")),
    }
}

/// Returns whether a number of microseconds stands for an infinity.
pub fn is_infinite(micros: i64) -> bool {
    matches!(micros, i64::MIN | i64::MAX)
}

/// Returns the first microsecond of a date, or 22008 if no timestamp is as late. Infinities stay.
pub fn timestamp_of_date(days: i32) -> Result<i64> {
    match days {
        i32::MIN => Ok(i64::MIN),
        i32::MAX => Ok(i64::MAX),
        days => check_timestamp(i64::from(days).checked_mul(DAY)).map_err(|_| {
            error(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp")
        }),
    }
}

/// Returns the day and the microsecond of that day.
pub fn split_timestamp(micros: i64) -> (i64, i64) {
    (micros.div_euclid(DAY), micros.rem_euclid(DAY))
}

/// Returns the timestamp of a day and a microsecond of it.
pub fn join_timestamp(days: i64, micros: i64) -> Result<i64> {
    check_timestamp(days.checked_mul(DAY).and_then(|start| start.checked_add(micros)))
}
