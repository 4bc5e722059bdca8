//! The Gregorian calendar as days since 2000-01-01, and PostgreSQL's bounds of it.
//!
//! Days are counted as in Howard Hinnant's "chrono-compatible low-level date algorithms".

/// Number of microseconds in a second.
pub(crate) const SECOND: i64 = 1_000_000;
/// Number of microseconds in a minute.
pub(crate) const MINUTE: i64 = 60 * SECOND;
/// Number of microseconds in an hour.
pub(crate) const HOUR: i64 = 60 * MINUTE;
/// Number of microseconds in a day.
pub(crate) const DAY: i64 = 24 * HOUR;
/// The first date, 4714-11-24 BC.
pub(crate) const DATE_MIN: i32 = -2_451_545;
/// The last date, which is 5874897-12-31.
pub(crate) const DATE_MAX: i32 = 2_145_031_948;
/// The first moment, 4714-11-24 00:00 BC.
pub(crate) const TIMESTAMP_MIN: i64 = DATE_MIN as i64 * DAY;
/// The first moment beyond the last, 294277-01-01.
pub(crate) const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;

/// Number of days in 400 years.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 2000-01-01.
const EPOCH_SHIFT: i64 = 730_425;

/// Returns the days of a date of the years 1 to 9999; nothing if the month has no such day.
#[inline(always)]
pub(super) fn days_of(year: u32, month: u32, day: u32) -> Option<i32> {
    let is_there = year > 0 && month.wrapping_sub(1) < 12 && day.wrapping_sub(1) < 31;
    if !is_there || (day > 28 && day > month_days(year, month)) {
        return None;
    }
    // Years begin in March, so that a leap day is the last day of one.
    let year = year - u32::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year;
    Some(days as i32 - EPOCH_SHIFT as i32)
}

fn month_days(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns year, month and day of a number of days. Year 0 is 1 BC.
pub(crate) fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + EPOCH_SHIFT;
    let era = shifted.div_euclid(ERA_DAYS);
    let day_of_era = shifted.rem_euclid(ERA_DAYS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_shifted + 2) / 5 + 1) as u32;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 } as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_agree() {
        assert_eq!(days_of(2000, 1, 1), Some(0));
        assert_eq!(days_of(1970, 1, 1), Some(-10_957));
        let mut next = days_of(1, 1, 1).unwrap();
        for year in 1..=9_999 {
            for month in 1..=12 {
                for day in 1..=month_days(year, month) {
                    assert_eq!(days_of(year, month, day), Some(next));
                    assert_eq!(civil_from_days(next.into()), (year.into(), month, day));
                    next += 1;
                }
            }
        }
        for (year, month, day) in
            [(0, 1, 1), (2001, 2, 29), (1900, 2, 29), (2000, 0, 1), (2000, 13, 1), (2000, 4, 31)]
        {
            assert_eq!(days_of(year, month, day), None);
        }
    }
}
