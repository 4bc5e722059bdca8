//! Values as text, for messages: `Key (day)=(2024-02-29) already exists.`
//!
//! Fronts have output formats of their own, which follow the settings of a session.

use super::Value;
use std::fmt;

const DAY_MICROS: i64 = 86_400_000_000;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => f.write_str(if *value { "t" } else { "f" }),
            Self::Int2(number) => number.fmt(f),
            Self::Int4(number) => number.fmt(f),
            Self::Int8(number) => number.fmt(f),
            Self::Float4(number) => number.fmt(f),
            Self::Float8(number) => number.fmt(f),
            Self::Numeric(number) => number.fmt(f),
            Self::Text(text) | Self::Jsonb(text) => f.write_str(text),
            Self::Bytea(bytes) => {
                f.write_str("\\x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Uuid(bytes) => bytes.iter().enumerate().try_for_each(|(at, byte)| {
                let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
                write!(f, "{dash}{byte:02x}")
            }),
            Self::Date(i32::MIN) | Self::Timestamp(i64::MIN) | Self::TimestampTz(i64::MIN) => {
                f.write_str("-infinity")
            }
            Self::Date(i32::MAX) | Self::Timestamp(i64::MAX) | Self::TimestampTz(i64::MAX) => {
                f.write_str("infinity")
            }
            Self::Date(days) => write_date(f, i64::from(*days)),
            Self::Time(micros) => write_time(f, *micros),
            Self::Timestamp(micros) | Self::TimestampTz(micros) => {
                write_date(f, micros.div_euclid(DAY_MICROS))?;
                f.write_str(" ")?;
                write_time(f, micros.rem_euclid(DAY_MICROS))?;
                f.write_str(if matches!(self, Self::TimestampTz(_)) { "+00" } else { "" })
            }
            Self::Interval { months, days, micros } => {
                write!(f, "{months} mons {days} days ")?;
                f.write_str(if *micros < 0 { "-" } else { "" })?;
                write_time(f, micros.saturating_abs())
            }
            Self::Oid(number) => number.fmt(f),
            Self::Array(array) => {
                f.write_str("{")?;
                for (at, value) in array.values.iter().enumerate() {
                    write!(f, "{}{value}", if at > 0 { "," } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Writes the date of so many days after 2000-01-01, in the Gregorian calendar.
fn write_date(f: &mut fmt::Formatter<'_>, days: i64) -> fmt::Result {
    // Years begin in March here, so that the day of a leap year is the last one.
    let days = days + 730_425;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    match year > 0 {
        true => write!(f, "{year:04}-{month:02}-{day:02}"),
        false => write!(f, "{:04}-{month:02}-{day:02} BC", 1 - year),
    }
}

fn write_time(f: &mut fmt::Formatter<'_>, micros: i64) -> fmt::Result {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    write!(f, "{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
    if fraction == 0 {
        return Ok(());
    }
    f.write_str(format!(".{fraction:06}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_iso() {
        for (value, want) in [
            (Value::Date(0), "2000-01-01"),
            (Value::Date(8_825), "2024-02-29"),
            (Value::Date(-1), "1999-12-31"),
            (Value::Date(-10_957), "1970-01-01"),
            (Value::Date(-730_119), "0001-01-01"),
            (Value::Date(-730_120), "0001-12-31 BC"),
            (Value::Timestamp(1_500_000), "2000-01-01 00:00:01.5"),
            (Value::TimestampTz(-1), "1999-12-31 23:59:59.999999+00"),
            (Value::Time(86_399_000_000), "23:59:59"),
            (Value::Date(i32::MAX), "infinity"),
        ] {
            assert_eq!(value.to_string(), want);
        }
        let uuid = Value::Uuid([0xab; 16]).to_string();
        assert_eq!(uuid, "abababab-abab-abab-abab-abababababab");
    }
}
