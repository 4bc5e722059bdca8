//! One value of a Bigtable table, from the bytes of a key or a cell.

use relational::catalog::{WideColumn, WideEncoding};
use relational::{Bytes, DataType, Error, Result, SqlState, Value};

use crate::values::{Settings, decode_text};

/// Returns the value in the bytes of a row key or of a cell. Errors name the form that was expected.
pub(super) fn decode(bytes: &[u8], column: &WideColumn, settings: &Settings) -> Result<Value> {
    match (&column.data_type, column.encoding) {
        (DataType::Bytea, _) => Ok(Value::Bytea(Bytes::copy_from_slice(bytes))),
        (_, WideEncoding::Text) => decode_text(bytes, &column.data_type, settings),
        (data_type, WideEncoding::Binary) => number(bytes, data_type),
    }
}

/// Returns whether values of a type may be declared as binary.
pub(super) fn can_be_binary(data_type: &DataType) -> bool {
    use DataType::{Bool, Bytea, Float4, Float8, Int2, Int4, Int8};
    matches!(data_type, Bool | Bytea | Float4 | Float8 | Int2 | Int4 | Int8)
}

/// Returns the big-endian number in `bytes`; any byte but zero is true.
fn number(bytes: &[u8], data_type: &DataType) -> Result<Value> {
    let value = match data_type {
        DataType::Bool => <[u8; 1]>::try_from(bytes).ok().map(|[byte]| Value::Bool(byte != 0)),
        DataType::Int2 => bytes.try_into().ok().map(|b| Value::Int2(i16::from_be_bytes(b))),
        DataType::Int4 => bytes.try_into().ok().map(|b| Value::Int4(i32::from_be_bytes(b))),
        DataType::Int8 => bytes.try_into().ok().map(|b| Value::Int8(i64::from_be_bytes(b))),
        DataType::Float4 => bytes.try_into().ok().map(|b| Value::Float4(f32::from_be_bytes(b))),
        DataType::Float8 => bytes.try_into().ok().map(|b| Value::Float8(f64::from_be_bytes(b))),
        _ => None,
    };
    value.ok_or_else(|| {
        let message = format!("{} bytes are no binary value of type {data_type}", bytes.len());
        Error::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
    })
}

/// Adds to the error of a value the place that it has.
pub(super) fn placed(error: Error, column: &WideColumn, relation: &str, key: &[u8]) -> Error {
    let mut error = error;
    let name = &column.name;
    let row = shown(key);
    error.detail = Some(format!("Column \"{name}\" of \"{relation}\" in the row {row}."));
    match column.encoding {
        WideEncoding::Text => error.with_hint(
            "Declare the column as bytea, or with encoding 'binary' if its cells have numbers.",
        ),
        WideEncoding::Binary => {
            error.with_hint("Declare the column as bytea, or with encoding 'text'.")
        }
    }
}

/// Returns bytes as people read them: quoted, with escapes.
pub(super) fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 64;
    let cut = if bytes.len() > SHOWN_MAX { "…" } else { "" };
    format!("'{}{cut}'", bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii())
}
