//! Forms of values that the crate `copy` leaves to its caller, by the settings of a session.
//!
//! 1. A value is the one that a table of rows gets from the same text or bytes.
//! 2. Values of types that `copy` has no columns for are bytes as queries have them: numbers and intervals in their
//!    sorted form, all others as UTF-8.
//! 3. Such a value may be much longer than its text, as `1e9999` in a document is. So their bytes are counted.

use super::errors::to_copy;
use crate::query::{encode_interval, encode_numeric};
use crate::values::time::Zone;
use crate::values::{self, Settings};
use ::copy::{Column, ColumnType, Error, Forms, Result, Scalar, State};
use relational::{DataType, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Everything that decides about the forms of the columns of one table.
struct Known {
    settings: Settings,
    /// Types by names of columns, each with the digits of a second that it keeps.
    types: HashMap<String, (DataType, Option<u8>)>,
}

/// Forms of values in a session, for one parser.
pub(super) struct SessionForms {
    known: Arc<Known>,
    /// Bytes of values that were made and not asked for yet.
    made: AtomicUsize,
}

/// Returns the type that `copy` has for the values of a type.
pub(super) fn column_type(data_type: &DataType) -> ColumnType {
    match data_type {
        DataType::Bool => ColumnType::Bool,
        DataType::Int2 => ColumnType::Int2,
        DataType::Int4 => ColumnType::Int4,
        DataType::Int8 => ColumnType::Int8,
        DataType::Oid => ColumnType::Oid,
        DataType::Float4 => ColumnType::Float4,
        DataType::Float8 => ColumnType::Float8,
        DataType::Text | DataType::Varchar(None) => ColumnType::Text,
        DataType::Varchar(Some(length)) => ColumnType::Varchar(*length),
        DataType::Char(length) => ColumnType::Char(*length),
        DataType::Bytea => ColumnType::Bytea,
        DataType::Uuid => ColumnType::Uuid,
        DataType::Date => ColumnType::Date,
        DataType::Time => ColumnType::Time,
        DataType::Timestamp => ColumnType::Timestamp,
        DataType::TimestampTz => ColumnType::TimestampTz,
        DataType::Numeric(_)
        | DataType::Name
        | DataType::Interval
        | DataType::Json
        | DataType::Jsonb
        | DataType::Array(_)
        | DataType::Unknown => ColumnType::Other,
    }
}

impl SessionForms {
    /// Returns the forms of columns of a table.
    pub(super) fn new<'a>(
        columns: impl IntoIterator<Item = &'a relational::catalog::Column>,
        settings: &Settings,
    ) -> Self {
        let types = columns.into_iter().map(|column| {
            let data_type = column.data_type.clone();
            (column.name.clone(), (data_type, column.precision))
        });
        let known = Known { settings: settings.clone(), types: types.collect() };
        Self { known: Arc::new(known), made: AtomicUsize::new(0) }
    }

    /// Returns the same forms for another parser.
    pub(super) fn again(&self) -> Self {
        Self { known: Arc::clone(&self.known), made: AtomicUsize::new(0) }
    }

    /// Returns the bytes of values that were made since the last call.
    pub(super) fn take_made(&self) -> usize {
        self.made.swap(0, Ordering::Relaxed)
    }

    fn type_of(&self, column: &Column) -> Result<&(DataType, Option<u8>)> {
        let known = self.known.types.get(&column.name);
        known.ok_or_else(|| internal("a column of a COPY has no type"))
    }

    /// Returns a value that was read as a parser takes it.
    fn scalar(&self, value: relational::Result<Value>, precision: Option<u8>) -> Result<Scalar> {
        let scalar = scalar_of(value.map_err(|error| to_copy(&error))?, precision)?;
        if let Scalar::Bytes(bytes) = &scalar {
            self.made.fetch_add(bytes.len(), Ordering::Relaxed);
        }
        Ok(scalar)
    }
}

fn internal(message: &str) -> Error {
    Error::new(State::INTERNAL_ERROR, message)
}

fn unwritten() -> Error {
    internal("a COPY from a client writes no values")
}

impl Forms for SessionForms {
    fn fixed_offset(&self) -> Option<i32> {
        match self.known.settings.zone {
            Zone::Fixed(seconds) => Some(seconds),
            zone => (zone == Zone::UTC).then_some(0),
        }
    }

    fn read_text(&self, column: &Column, text: &str) -> Result<Scalar> {
        let (data_type, precision) = self.type_of(column)?;
        let value = values::parse_value(text, data_type, &self.known.settings);
        self.scalar(value, *precision)
    }

    fn read_binary(&self, column: &Column, bytes: &[u8]) -> Result<Scalar> {
        let (data_type, precision) = self.type_of(column)?;
        let value = values::decode_binary(bytes, data_type, &self.known.settings)
            .and_then(|value| values::fit(value, data_type));
        self.scalar(value, *precision)
    }

    fn write_text(&self, _column: &Column, _bytes: &[u8], _out: &mut Vec<u8>) -> Result<()> {
        Err(unwritten())
    }

    fn write_binary(&self, _column: &Column, _bytes: &[u8], _out: &mut Vec<u8>) -> Result<()> {
        Err(unwritten())
    }

    fn offset_at(&self, moment: i64) -> i32 {
        self.known.settings.zone.offset_of_moment(moment)
    }
}

/// Returns a value as a parser takes it, with so many digits of a second.
fn scalar_of(value: Value, precision: Option<u8>) -> Result<Scalar> {
    let value = match precision {
        Some(digits) => values::round_moment(value, digits),
        None => value,
    };
    Ok(match value {
        Value::Bool(value) => Scalar::Bool(value),
        Value::Int2(value) => Scalar::Int(value.into()),
        Value::Int4(value) | Value::Date(value) => Scalar::Int(value.into()),
        Value::Int8(value)
        | Value::Time(value)
        | Value::Timestamp(value)
        | Value::TimestampTz(value) => Scalar::Int(value),
        Value::Oid(value) => Scalar::Int(value.into()),
        Value::Float4(value) => Scalar::Float(value.into()),
        Value::Float8(value) => Scalar::Float(value),
        Value::Numeric(number) => Scalar::Bytes(encode_numeric(&number)),
        Value::Interval { months, days, micros } => {
            Scalar::Bytes(encode_interval(months, days, micros).to_vec())
        }
        Value::Text(text) | Value::Jsonb(text) => Scalar::Bytes(text.as_bytes().to_vec()),
        Value::Bytea(bytes) => Scalar::Bytes(bytes.to_vec()),
        Value::Uuid(bytes) => Scalar::Bytes(bytes.to_vec()),
        Value::Null | Value::Array(_) => {
            return Err(internal("a value was read that columns do not have"));
        }
    })
}
