//! Every size limit of the table layer, once. They are Bigtable's own.

use crate::error::{Error, Result};
use engine::{Timestamp, TimestampRange};

/// Shortest and longest time for which a client may have the changes of a table kept.
pub const CHANGE_RETENTIONS: std::ops::RangeInclusive<std::time::Duration> =
    std::time::Duration::from_secs(24 * 3600)..=std::time::Duration::from_secs(7 * 24 * 3600);
/// Longest row key.
pub const ROW_KEY_BYTES_MAX: usize = 4 << 10;
/// Longest qualifier.
pub const QUALIFIER_BYTES_MAX: usize = 16 << 10;
/// Longest value.
pub const VALUE_BYTES_MAX: usize = 100 << 20;
/// Most bytes that one request may write to a row.
pub const ROW_BYTES_MAX: usize = 256 << 20;
/// Most mutations in one request, over all its rows.
pub const MUTATIONS_MAX: usize = 100_000;
/// Longest family name.
pub const FAMILY_NAME_BYTES_MAX: usize = 64;
/// Most families of a table.
pub const FAMILIES_MAX: usize = 1_000;
/// Longest table id.
pub const TABLE_ID_BYTES_MAX: usize = 50;
/// Longest full table name.
pub const TABLE_NAME_BYTES_MAX: usize = 1 << 10;
/// Most initial splits of a table.
pub const SPLITS_MAX: usize = 100;
/// Longest name of a record of the front.
pub const RECORD_NAME_BYTES_MAX: usize = 2 << 10;
/// Largest record of the front.
pub const RECORD_BYTES_MAX: usize = 1 << 20;
/// Most bytes of all records of the front, which stay in memory.
pub const RECORDS_BYTES_MAX: usize = 64 << 20;
/// Largest row filter, as serialized by the client.
pub const FILTER_BYTES_MAX: usize = 20 << 10;
/// Deepest nesting of a row filter.
pub const FILTER_DEPTH_MAX: usize = 20;
/// Most copies of one cell that the interleaves of a filter may make.
pub const FILTER_COPIES_MAX: usize = 1_000;
/// Most conditions of a row filter of which each depends on the one before: one in the predicate of
/// the next, or before it in a chain.
pub const FILTER_RANKS_MAX: usize = 20;
/// Longest label.
pub const LABEL_BYTES_MAX: usize = 15;
/// Deepest nesting of a GC rule.
pub const GC_DEPTH_MAX: usize = 10;
/// Most rules in one union or intersection.
pub const GC_RULES_MAX: usize = 64;
/// Most fields of a row key schema.
pub const ROW_KEY_FIELDS_MAX: usize = 100;
/// Longest name of a field of a row key schema.
pub const ROW_KEY_FIELD_NAME_BYTES_MAX: usize = 128;
/// Shortest token of a change that takes effect once.
pub const TOKEN_BYTES_MIN: usize = 8;
/// Longest token of a change that takes effect once.
pub const TOKEN_BYTES_MAX: usize = 256;
/// Age of its first attempt up to which such a change is accepted: 15 minutes.
pub const IDEMPOTENCY_MICROS: i64 = 15 * 60 * 1_000_000;
/// Age of a token at which it no longer counts: five minutes more, for clocks that differ.
pub const TOKEN_KEPT_MICROS: i64 = IDEMPOTENCY_MICROS + 5 * 60 * 1_000_000;
/// Longest delimiter of a row key schema.
pub const DELIMITER_BYTES_MAX: usize = 50;
/// Timestamps of tables of milliseconds are multiples of this many microseconds.
pub const TIMESTAMP_MICROS_STEP: i64 = Granularity::Millis.micros();

/// Unit of a table's timestamps: each is a multiple of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Granularity {
    #[default]
    Millis,
    Micros,
}

impl Granularity {
    /// Returns the unit in microseconds.
    pub const fn micros(self) -> i64 {
        match self {
            Self::Millis => 1_000,
            Self::Micros => 1,
        }
    }

    /// Returns the last multiple of the unit that is not above `timestamp`.
    pub fn truncate(self, timestamp: Timestamp) -> Timestamp {
        Timestamp(timestamp.0.saturating_sub(timestamp.0.rem_euclid(self.micros())))
    }
}

/// Refuses `field` when it is longer than `max` bytes.
pub fn check_len(field: &str, len: usize, max: usize) -> Result<()> {
    if len > max {
        let message = format!("{len} bytes are over the limit of {max} bytes");
        return Err(Error::invalid(field, message));
    }
    Ok(())
}

/// Refuses what is no row key.
pub fn check_row_key(field: &str, key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::invalid(field, "row keys must be non-empty"));
    }
    check_len(field, key.len(), ROW_KEY_BYTES_MAX)
}

/// Refuses what is no table id: 1 to 50 of `[_a-zA-Z0-9.-]`, beginning with none of `.` and `-`.
pub fn check_table_id(field: &str, id: &str) -> Result<()> {
    let first = id.bytes().next().is_some_and(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
    if !first || id.len() > TABLE_ID_BYTES_MAX || !id.bytes().all(is_name_byte) {
        let message = format!(
            "table id {id:?} must match [_a-zA-Z0-9][-_.a-zA-Z0-9]* and be at most \
             {TABLE_ID_BYTES_MAX} characters long"
        );
        return Err(Error::invalid(field, message));
    }
    Ok(())
}

/// Refuses what is no family name: 1 to 64 of `[-_.a-zA-Z0-9]`.
pub fn check_family_name(field: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > FAMILY_NAME_BYTES_MAX || !name.bytes().all(is_name_byte) {
        let message = format!(
            "family name {name:?} must match [-_.a-zA-Z0-9]+ and be at most \
             {FAMILY_NAME_BYTES_MAX} characters long"
        );
        return Err(Error::invalid(field, message));
    }
    Ok(())
}

/// Refuses the timestamp of a written cell when it is negative or finer than `granularity`.
pub fn check_timestamp(field: &str, timestamp: Timestamp, granularity: Granularity) -> Result<()> {
    if timestamp.0 < 0 {
        let message = format!("timestamp {} must be -1 (server time) or at least 0", timestamp.0);
        return Err(Error::invalid(field, message));
    }
    check_granularity(field, timestamp, granularity)
}

/// Refuses a timestamp that is finer than `granularity`.
pub fn check_granularity(
    field: &str,
    timestamp: Timestamp,
    granularity: Granularity,
) -> Result<()> {
    let step = granularity.micros();
    if timestamp.0 % step != 0 {
        let message = format!(
            "timestamp {} must be a multiple of {step} microseconds (millisecond granularity)",
            timestamp.0
        );
        return Err(Error::invalid(field, message));
    }
    Ok(())
}

/// Refuses a range of timestamps with bounds finer than `granularity`, or an end before its start.
pub fn check_timestamp_range(
    field: &str,
    range: TimestampRange,
    granularity: Granularity,
) -> Result<()> {
    if range.start != Timestamp::MIN {
        check_granularity(field, range.start, granularity)?;
    }
    let Some(end) = range.end else { return Ok(()) };
    check_granularity(field, end, granularity)?;
    if end < range.start {
        let message = format!("inverted range: start {} lies after end {}", range.start.0, end.0);
        return Err(Error::invalid(field, message));
    }
    Ok(())
}

/// Refuses a request with no mutation, or with too many.
pub fn check_mutation_count(field: &str, count: usize) -> Result<()> {
    if count == 0 {
        return Err(Error::invalid(field, "at least one mutation is needed"));
    }
    if count > MUTATIONS_MAX {
        let message = format!("{count} mutations are over the limit of {MUTATIONS_MAX}");
        return Err(Error::invalid(field, message));
    }
    Ok(())
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}
