//! The settings of a session that decide about the text of values.

use super::time::Zone;

/// The order of day, month and year where digits alone do not tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateOrder {
    /// Month, day, year: the default.
    #[default]
    Mdy,
    /// Day, then month, then year.
    Dmy,
    /// Year, then month, then day.
    Ymd,
}

/// The form in which `bytea` is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteaOutput {
    /// `\x` and two digits a byte.
    #[default]
    Hex,
    /// Printable bytes as they are, others as `\ooo`.
    Escape,
}

/// The form in which intervals are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 year 2 mons 3 days 04:05:06`.
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`.
    PostgresVerbose,
    /// As the standard has it: `+1-2 +3 +4:05:06`.
    SqlStandard,
    /// As ISO 8601 has it: `P1Y2M3DT4H5M6S`.
    Iso8601,
}

/// Settings of a session that the forms of values depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The zone of `timestamp with time zone` in texts.
    pub zone: Zone,
    /// The order of the fields of a date.
    pub date_order: DateOrder,
    /// The form of `bytea` in texts.
    pub bytea_output: ByteaOutput,
    /// The form of intervals in texts.
    pub interval_style: IntervalStyle,
    /// Digits of floating point beyond the exact ones; 0 and less round, more is shortest-exact.
    pub extra_float_digits: i32,
    /// Microseconds since 2000-01-01 of the transaction's start, which `now` in a text means.
    pub now: i64,
    /// Schemas in which names without one are looked for, in their order.
    pub search_path: Vec<String>,
}

impl Settings {
    /// Returns the settings that `show` gives as texts, by their PostgreSQL names. A text that is
    /// not understood leaves the default.
    pub fn from_texts(show: &dyn Fn(&str) -> String, search_path: Vec<String>) -> Self {
        let order = show("DateStyle").to_ascii_uppercase();
        Self {
            zone: Zone::parse(&show("TimeZone")).unwrap_or(Zone::UTC),
            date_order: match order.rsplit(',').next().map(str::trim) {
                Some("DMY") => DateOrder::Dmy,
                Some("YMD") => DateOrder::Ymd,
                _ => DateOrder::Mdy,
            },
            bytea_output: match show("bytea_output").as_str() {
                "escape" => ByteaOutput::Escape,
                _ => ByteaOutput::Hex,
            },
            interval_style: match show("IntervalStyle").as_str() {
                "postgres_verbose" => IntervalStyle::PostgresVerbose,
                "sql_standard" => IntervalStyle::SqlStandard,
                "iso_8601" => IntervalStyle::Iso8601,
                _ => IntervalStyle::Postgres,
            },
            extra_float_digits: show("extra_float_digits").parse().unwrap_or(1),
            now: 0,
            search_path,
        }
    }
}

/// Returns the name of a time zone as `SHOW TimeZone` prints it; nothing if there is no such zone.
pub fn time_zone_name(text: &str) -> Option<String> {
    Zone::parse(text.trim_matches('\'')).map(|zone| zone.to_string())
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            zone: Zone::UTC,
            date_order: DateOrder::Mdy,
            bytea_output: ByteaOutput::Hex,
            interval_style: IntervalStyle::Postgres,
            extra_float_digits: 1,
            now: 0,
            search_path: vec!["public".to_owned()],
        }
    }
}
