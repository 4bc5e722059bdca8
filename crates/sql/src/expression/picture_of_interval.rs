//! Pictures of `to_char` for intervals, which have no calendar dates.

use relational::{Error, Result, SqlState};

use super::picture::fill_in;
use crate::values::time::{HOUR, MINUTE, SECOND};

/// Returns months, days and microseconds by a picture. 22007 for a field that only a date has.
pub(super) fn format((months, days, micros): (i32, i32, i64), picture: &str) -> Result<String> {
    let (year, month, day) = (i64::from(months / 12), i64::from(months % 12), i64::from(days));
    let (hour, minute, rest) = (micros / HOUR, micros / MINUTE % 60, micros % MINUTE);
    let (second, fraction) = (rest / SECOND, rest % SECOND);
    let days_in_all = (year * 12 + month) * 30 + day;
    let value = |field: &str, fill: bool| {
        // A number below zero has room for its sign.
        let number = |value: i64, width: usize| match fill {
            true => format!("{value:00$}", width + usize::from(value < 0)),
            false => value.to_string(),
        };
        let half = |am: &str, pm: &str| if hour % 24 < 12 { am.to_owned() } else { pm.to_owned() };
        Ok(match field {
            "HH24" => number(hour, 2),
            "HH12" | "HH" => number(if hour % 12 == 0 { 12 } else { hour % 12 }, 2),
            "MI" => number(minute, 2),
            "SS" => number(second, 2),
            "SSSS" | "SSSSS" => (micros / SECOND).to_string(),
            "MS" | "FF3" => format!("{:03}", fraction / 1000),
            "US" | "FF6" => format!("{fraction:06}"),
            "AM" | "PM" => half("AM", "PM"),
            "am" | "pm" => half("am", "pm"),
            "A.M." | "P.M." => half("A.M.", "P.M."),
            "YYYY" => number(year, 4),
            "YYY" => number(year % 1000, 3),
            "YY" => number(year % 100, 2),
            "Y" => number(year % 10, 1),
            "MM" => number(month, 2),
            "DDD" => {
                if fill {
                    format!("{days_in_all:03}")
                } else {
                    days_in_all.to_string()
                }
            }
            "DD" => {
                if fill {
                    format!("{day:02}")
                } else {
                    day.to_string()
                }
            }
            "WW" => number((days_in_all - 1) / 7 + 1, 2),
            "W" => ((day - 1) / 7 + 1).to_string(),
            "Q" if month == 0 => String::new(),
            "Q" => ((month - 1) / 3 + 1).to_string(),
            "CC" => number(year / 100, 2),
            "IYYY" | "IW" | "J" | "RM" | "rm" | "Y,YYY" => {
                let message = format!("the field \"{field}\" of an interval is not supported");
                return Err(Error::unsupported(message));
            }
            _ => {
                let message = "invalid format specification for an interval value";
                let error = Error::new(SqlState::INVALID_DATETIME_FORMAT, message);
                return Err(error.with_hint("Intervals are not tied to specific calendar dates."));
            }
        })
    };
    fill_in(picture, value)
}
