//! Text of dates and times in the ISO style.

use super::civil::{HOUR, MINUTE, SECOND, civil_from_days, split_timestamp};
use super::zone::{Zone, offset_text};

/// Returns `2024-02-29`, `0044-03-15 BC` or an infinity.
pub fn date_text(days: i32) -> String {
    match days {
        i32::MIN => "-infinity".to_owned(),
        i32::MAX => "infinity".to_owned(),
        _ => {
            let (day, era) = day_text(i64::from(days));
            format!("{day}{era}")
        }
    }
}

/// Returns the date without its era, and the era if it is BC.
fn day_text(days: i64) -> (String, &'static str) {
    let (year, month, day) = civil_from_days(days);
    if year <= 0 {
        (format!("{:04}-{month:02}-{day:02}", 1 - year), " BC")
    } else {
        (format!("{year:04}-{month:02}-{day:02}"), "")
    }
}

/// Returns `13:04:05.25`; fractions have no trailing zeros.
pub fn time_text(micros: i64) -> String {
    let (hours, minutes) = (micros / HOUR, micros / MINUTE % 60);
    format!("{hours:02}:{minutes:02}:{}", seconds_text(micros % MINUTE))
}

/// Returns two digits of seconds and a fraction without trailing zeros.
pub(super) fn seconds_text(micros: i64) -> String {
    let (seconds, fraction) = (micros / SECOND, micros % SECOND);
    if fraction == 0 {
        return format!("{seconds:02}");
    }
    format!("{seconds:02}.{fraction:06}").trim_end_matches('0').to_owned()
}

/// Returns the infinity that a number of microseconds stands for.
fn infinity(micros: i64) -> Option<&'static str> {
    match micros {
        i64::MIN => Some("-infinity"),
        i64::MAX => Some("infinity"),
        _ => None,
    }
}

/// Returns a text like `2024-02-29 13:04:05.25`.
pub fn timestamp_text(micros: i64) -> String {
    if let Some(text) = infinity(micros) {
        return text.to_owned();
    }
    let (days, rest) = split_timestamp(micros);
    let (day, era) = day_text(days);
    format!("{day} {}{era}", time_text(rest))
}

/// Returns `2024-02-29 13:04:05.25+01`, as local time of the zone.
pub fn timestamptz_text(micros: i64, zone: Zone) -> String {
    if let Some(text) = infinity(micros) {
        return text.to_owned();
    }
    let offset = zone.offset_of_moment(micros);
    let (days, rest) = split_timestamp(micros.saturating_add(i64::from(offset) * SECOND));
    let (day, era) = day_text(days);
    format!("{day} {}{}{era}", time_text(rest), offset_text(offset))
}
