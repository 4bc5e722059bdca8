//! Additions of the caller: forms of values that are not read or written here.

use crate::column::{Column, ColumnType};
use crate::error::{Error, Result, State};

/// A value that a caller read, of the kind that its column holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// A value of type bool.
    Bool(bool),
    /// A value of int2, int4, int8, oid; days of a date; microseconds of a time or a moment.
    Int(i64),
    /// A value of float4 or float8.
    Float(f64),
    /// A value of numeric: the number without its point.
    Decimal(i128),
    /// A value of text, varchar or char.
    Text(String),
    /// A value of bytea, uuid (16 bytes) and other types.
    Bytes(Vec<u8>),
}

/// Forms of values that depend on the session or on types of the caller.
///
/// The parser reads numbers, truth values, text, bytes and UUIDs in all their forms, and ISO dates and
/// times. It asks here for everything else, one value at a time.
pub trait Forms: Send + Sync {
    /// Returns seconds east of UTC of the session's zone if they are the same at all times.
    fn fixed_offset(&self) -> Option<i32> {
        None
    }

    /// Reads a text. Errors get line and column from the parser.
    fn read_text(&self, column: &Column, text: &str) -> Result<Scalar>;

    /// Reads the binary form of a type that is [`ColumnType::Other`].
    fn read_binary(&self, column: &Column, bytes: &[u8]) -> Result<Scalar>;

    /// Appends the text of a value that is [`ColumnType::Other`].
    fn write_text(&self, column: &Column, bytes: &[u8], out: &mut Vec<u8>) -> Result<()>;

    /// Appends the binary form of a value that is [`ColumnType::Other`].
    fn write_binary(&self, column: &Column, bytes: &[u8], out: &mut Vec<u8>) -> Result<()>;

    /// Returns seconds east of UTC of the session's zone at a moment.
    fn offset_at(&self, moment: i64) -> i32;
}

/// Forms of a session in UTC that refuses what the parser does not read itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct IsoForms;

impl IsoForms {
    fn refuse(column: &Column) -> Error {
        let message = format!("column \"{}\" has a type without COPY", column.name);
        Error::new(State::FEATURE_NOT_SUPPORTED, message)
    }
}

impl Forms for IsoForms {
    fn fixed_offset(&self) -> Option<i32> {
        Some(0)
    }

    fn read_text(&self, column: &Column, text: &str) -> Result<Scalar> {
        let state = match column.column_type {
            ColumnType::Other => return Err(Self::refuse(column)),
            ColumnType::Numeric { .. } => State::INVALID_TEXT_REPRESENTATION,
            _ => State::INVALID_DATETIME_FORMAT,
        };
        let shown = crate::error::shorten(text.as_bytes());
        let name = column.column_type.name();
        Err(Error::new(state, format!("invalid input syntax for type {name}: \"{shown}\"")))
    }

    fn read_binary(&self, column: &Column, _bytes: &[u8]) -> Result<Scalar> {
        Err(Self::refuse(column))
    }

    fn write_text(&self, column: &Column, _bytes: &[u8], _out: &mut Vec<u8>) -> Result<()> {
        Err(Self::refuse(column))
    }

    fn write_binary(&self, column: &Column, _bytes: &[u8], _out: &mut Vec<u8>) -> Result<()> {
        Err(Self::refuse(column))
    }

    fn offset_at(&self, _moment: i64) -> i32 {
        0
    }
}
