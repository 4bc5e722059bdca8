//! Forms of values: text and binary, as PostgreSQL's protocol has them; type names; casts.
//!
//! 1. Text and binary forms are the forms of PostgreSQL 15, byte for byte, in the ISO date style.
//! 2. Bytes from a client never panic, and no length field makes a larger allocation than the
//!    bytes behind it justify.
//! 3. Errors have PostgreSQL's state: 22P02 and 22007 for a bad form, 22003 and 22008 for a number
//!    out of range, 22021 for text that is not UTF-8, 22P03 for a bad binary form.

mod array;
mod binary;
mod cast;
pub mod json;
mod parse;
mod settings;
mod text;
pub mod time;
mod types;

use relational::{DataType, Error, Result, SqlState, Value};

pub use array::{array_text, parse_array};
pub use binary::{decode_binary, encode_binary};
pub use cast::{CastContext, can_cast, cast, cast_with, fit, round_moment};
pub use parse::parse_value;
pub use settings::{ByteaOutput, DateOrder, IntervalStyle, Settings, time_zone_name};
pub use text::{encode_text, float4_text, float8_text, value_text};
pub use types::{
    array_oid, element_oid, modifier_of_precision, parse_type, time_precision, type_from_oid,
    type_len, type_modifier, type_name, type_oid, type_short_name, unknown_type,
};

/// Returns an error with a state and a message.
pub(crate) fn error(state: SqlState, message: impl Into<String>) -> Error {
    Error::new(state, message)
}

/// Returns the value of a text in the form that a client sends. Errors as invariant 3 says.
pub fn decode_text(bytes: &[u8], data_type: &DataType, settings: &Settings) -> Result<Value> {
    parse_value(utf8(bytes)?, data_type, settings)
}

/// Returns bytes as text, or 22021. A zero byte is no text either.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str> {
    let bad = |byte: u8| {
        let message = format!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}");
        error(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
    };
    if bytes.contains(&0) {
        return Err(bad(0));
    }
    std::str::from_utf8(bytes)
        .map_err(|place| bad(bytes.get(place.valid_up_to()).copied().unwrap_or(0)))
}

#[cfg(test)]
mod tests;
