//! Columns that grow row by row and become Arrow arrays.
//!
//! 1. A row of NULL takes a place in the values of fixed size as any other; its number is kept apart.
//!    Numbers of NULL rows become a bitmap only at the end, so rows that are not NULL cost nothing.
//! 2. A column has at most [`COLUMN_BYTES_MAX`] bytes of text, the reach of Arrow's offsets. The parser
//!    keeps it: values of a batch are never longer than the data that they were read from.
//! 3. A caller's value that does not fit its column is XX000; it is never written.

mod append;

pub(crate) use append::{PADDING, text_of};

use crate::column::{Column, ColumnType};
use crate::error::{Error, Result, State};
use arrow_array::builder::{BinaryBuilder, LargeBinaryBuilder, StringBuilder};
use arrow_array::types as arrow;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, PrimitiveArray,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer, ScalarBuffer};
use std::sync::Arc;

/// Most bytes of text of a column in a batch.
pub(crate) const COLUMN_BYTES_MAX: usize = i32::MAX as usize;

/// Values of a column, NULL rows included.
enum Values {
    Bool(Vec<bool>),
    Int2(Vec<i16>),
    /// Values of int4 and date.
    Int4(Vec<i32>),
    /// Values of int8, time and moments.
    Int8(Vec<i64>),
    Oid(Vec<u32>),
    Float4(Vec<f32>),
    Float8(Vec<f64>),
    Numeric(Vec<i128>),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Uuid(Vec<u8>),
    Other(LargeBinaryBuilder),
}

/// A column that grows by appended values.
pub(crate) struct ColumnBuilder {
    /// Name and type of the column.
    pub(crate) column: Column,
    values: Values,
    /// Numbers of the rows that are NULL, of columns of fixed size.
    nulls: Vec<u32>,
    scratch: Vec<u8>,
}

impl ColumnBuilder {
    /// Returns a column without rows.
    pub(crate) fn new(column: Column) -> Self {
        let values = Values::of(column.column_type, 0, 0);
        Self { column, values, nulls: Vec::new(), scratch: Vec::new() }
    }

    /// Appends NULL as the row of a number.
    #[inline]
    pub(crate) fn push_null(&mut self, row: usize) {
        match &mut self.values {
            Values::Text(values) => return values.append_null(),
            Values::Bytes(values) => return values.append_null(),
            Values::Other(values) => return values.append_null(),
            Values::Bool(values) => values.push(false),
            Values::Int2(values) => values.push(0),
            Values::Int4(values) => values.push(0),
            Values::Int8(values) => values.push(0),
            Values::Oid(values) => values.push(0),
            Values::Float4(values) => values.push(0.0),
            Values::Float8(values) => values.push(0.0),
            Values::Numeric(values) => values.push(0),
            Values::Uuid(values) => values.extend_from_slice(&[0; 16]),
        }
        self.nulls.push(row as u32);
    }

    /// Returns the column and begins an empty one, which expects as much.
    pub(crate) fn finish(&mut self, rows: usize) -> Result<ArrayRef> {
        let next = match &self.values {
            Values::Text(values) => (rows, values.values_slice().len()),
            Values::Bytes(values) => (rows, values.values_slice().len()),
            Values::Other(values) => (rows, values.values_slice().len()),
            _ => (rows, 0),
        };
        self.scratch = Vec::new();
        let empty = Values::of(self.column.column_type, next.0, next.1);
        let values = std::mem::replace(&mut self.values, empty);
        let nulls = nulls(&std::mem::take(&mut self.nulls), rows);
        let array = values.into_array(nulls, self.column.column_type)?;
        if array.len() != rows || *array.data_type() != self.column.column_type.arrow() {
            return Err(Error::new(State::INTERNAL_ERROR, "a column has another form"));
        }
        Ok(array)
    }

    /// Drops all rows of the column.
    pub(crate) fn clear(&mut self) {
        self.values = Values::of(self.column.column_type, 0, 0);
        self.nulls.clear();
    }
}

impl Values {
    fn of(column_type: ColumnType, rows: usize, bytes: usize) -> Self {
        match column_type {
            ColumnType::Bool => Self::Bool(Vec::with_capacity(rows)),
            ColumnType::Int2 => Self::Int2(Vec::with_capacity(rows)),
            ColumnType::Int4 | ColumnType::Date => Self::Int4(Vec::with_capacity(rows)),
            ColumnType::Int8
            | ColumnType::Time
            | ColumnType::Timestamp
            | ColumnType::TimestampTz => Self::Int8(Vec::with_capacity(rows)),
            ColumnType::Oid => Self::Oid(Vec::with_capacity(rows)),
            ColumnType::Float4 => Self::Float4(Vec::with_capacity(rows)),
            ColumnType::Float8 => Self::Float8(Vec::with_capacity(rows)),
            ColumnType::Numeric { .. } => Self::Numeric(Vec::with_capacity(rows)),
            ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) => {
                Self::Text(StringBuilder::with_capacity(rows, bytes))
            }
            ColumnType::Bytea => Self::Bytes(BinaryBuilder::with_capacity(rows, bytes)),
            ColumnType::Uuid => Self::Uuid(Vec::with_capacity(rows * 16)),
            ColumnType::Other => Self::Other(LargeBinaryBuilder::with_capacity(rows, bytes)),
        }
    }

    fn into_array(self, nulls: Option<NullBuffer>, column_type: ColumnType) -> Result<ArrayRef> {
        let wrong = |problem: arrow_schema::ArrowError| {
            Error::new(State::INTERNAL_ERROR, problem.to_string())
        };
        Ok(match self {
            Self::Bool(values) => Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)),
            Self::Int2(values) => primitive::<arrow::Int16Type>(values, nulls),
            Self::Int4(values) if column_type == ColumnType::Date => {
                primitive::<arrow::Date32Type>(values, nulls)
            }
            Self::Int4(values) => primitive::<arrow::Int32Type>(values, nulls),
            Self::Int8(values) => match column_type {
                ColumnType::Time => primitive::<arrow::Time64MicrosecondType>(values, nulls),
                ColumnType::Timestamp => {
                    primitive::<arrow::TimestampMicrosecondType>(values, nulls)
                }
                ColumnType::TimestampTz => {
                    let values = ScalarBuffer::from(values);
                    let array =
                        PrimitiveArray::<arrow::TimestampMicrosecondType>::new(values, nulls);
                    Arc::new(array.with_timezone("UTC"))
                }
                _ => primitive::<arrow::Int64Type>(values, nulls),
            },
            Self::Oid(values) => primitive::<arrow::UInt32Type>(values, nulls),
            Self::Float4(values) => primitive::<arrow::Float32Type>(values, nulls),
            Self::Float8(values) => primitive::<arrow::Float64Type>(values, nulls),
            Self::Numeric(values) => {
                let array =
                    PrimitiveArray::<arrow::Decimal128Type>::new(ScalarBuffer::from(values), nulls);
                Arc::new(array.with_data_type(column_type.arrow()))
            }
            Self::Text(mut values) => Arc::new(values.finish()),
            Self::Bytes(mut values) => Arc::new(values.finish()),
            Self::Other(mut values) => Arc::new(values.finish()),
            Self::Uuid(values) => {
                let bytes = Buffer::from_vec(values);
                Arc::new(FixedSizeBinaryArray::try_new(16, bytes, nulls).map_err(wrong)?)
            }
        })
    }
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
}

/// Returns the bitmap of NULL rows; nothing if no row is.
fn nulls(rows_of_null: &[u32], rows: usize) -> Option<NullBuffer> {
    if rows_of_null.is_empty() {
        return None;
    }
    let mut bits = BooleanBufferBuilder::new(rows);
    bits.append_n(rows, true);
    for row in rows_of_null {
        bits.set_bit(*row as usize, false);
    }
    Some(NullBuffer::new(bits.finish()))
}
