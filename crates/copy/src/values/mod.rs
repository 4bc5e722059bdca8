//! Values from their texts.
//!
//! A function named `leading_…` reads a value at the front of bytes and returns where it ends; the caller
//! checks what follows. It gives nothing for any text that it does not take, right or wrong. A function
//! named `parse_…` reads a whole text and gives PostgreSQL's error.

mod binary_decimal;
mod bytes;
mod civil;
mod decimal;
mod float;
mod integer;
mod moment;

pub(crate) use binary_decimal::{binary_decimal, encode_decimal};
pub(crate) use bytes::{fit_char, fit_varchar, not_text, parse_bool, parse_bytea, parse_uuid};
pub(crate) use civil::{
    DATE_MAX, DATE_MIN, DAY, HOUR, MINUTE, SECOND, TIMESTAMP_END, TIMESTAMP_MIN, civil_from_days,
};
pub(crate) use decimal::{fit_decimal, parse_decimal, power_of_ten};
pub(crate) use float::{parse_float4, parse_float8};
pub(crate) use integer::{leading_integer, parse_integer, parse_oid};
pub(crate) use moment::{leading_date, leading_time, leading_timestamp, leading_timestamptz};

use crate::error::{Error, State, shorten};

/// Returns the error of a text that no value of the type has.
pub(crate) fn syntax(text: &str, name: &str) -> Error {
    let text = shorten(text.as_bytes());
    let message = format!("invalid input syntax for type {name}: \"{text}\"");
    Error::new(State::INVALID_TEXT_REPRESENTATION, message)
}

/// Returns the error of a number beyond the range of its type.
pub(crate) fn out_of_range(text: &str, name: &str) -> Error {
    let text = shorten(text.as_bytes());
    let message = format!("value \"{text}\" is out of range for type {name}");
    Error::new(State::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

/// Returns a text without the blanks that PostgreSQL skips around numbers.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b')
}

/// Returns eight bytes at a place, the first one lowest; nothing near the end.
#[inline(always)]
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}
