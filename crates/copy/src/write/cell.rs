//! Values of a batch, column by column.

use super::text_of::{
    put_bytea, put_date, put_decimal, put_float4, put_float8, put_integer, put_moment, put_time,
    put_uuid,
};
use crate::column::{Column, ColumnType};
use crate::error::{Error, Result, State};
use crate::forms::Forms;
use crate::values::encode_decimal;
use arrow_array::cast::AsArray;
use arrow_array::types as arrow;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray,
    PrimitiveArray, StringArray,
};

/// A column of a batch by its type.
pub(super) enum Cells<'a> {
    Bool(&'a BooleanArray),
    Int2(&'a PrimitiveArray<arrow::Int16Type>),
    Int4(&'a PrimitiveArray<arrow::Int32Type>),
    Int8(&'a PrimitiveArray<arrow::Int64Type>),
    Oid(&'a PrimitiveArray<arrow::UInt32Type>),
    Float4(&'a PrimitiveArray<arrow::Float32Type>),
    Float8(&'a PrimitiveArray<arrow::Float64Type>),
    Numeric(&'a PrimitiveArray<arrow::Decimal128Type>, i8),
    Text(&'a StringArray),
    Bytea(&'a BinaryArray),
    Uuid(&'a FixedSizeBinaryArray),
    Date(&'a PrimitiveArray<arrow::Date32Type>),
    Time(&'a PrimitiveArray<arrow::Time64MicrosecondType>),
    /// True for moments on the line of UTC.
    Moment(&'a PrimitiveArray<arrow::TimestampMicrosecondType>, bool),
    Other(&'a LargeBinaryArray),
}

impl<'a> Cells<'a> {
    /// Returns the values of a column. XX000 if the array has another type.
    pub(super) fn of(column: &Column, array: &'a ArrayRef) -> Result<Self> {
        let column_type = column.column_type;
        if *array.data_type() != column_type.arrow() {
            let message = format!(
                "column \"{}\" has {} instead of {}",
                column.name,
                array.data_type(),
                column_type.arrow()
            );
            return Err(Error::new(State::INTERNAL_ERROR, message));
        }
        Ok(match column_type {
            ColumnType::Bool => Self::Bool(array.as_boolean()),
            ColumnType::Int2 => Self::Int2(array.as_primitive()),
            ColumnType::Int4 => Self::Int4(array.as_primitive()),
            ColumnType::Int8 => Self::Int8(array.as_primitive()),
            ColumnType::Oid => Self::Oid(array.as_primitive()),
            ColumnType::Float4 => Self::Float4(array.as_primitive()),
            ColumnType::Float8 => Self::Float8(array.as_primitive()),
            ColumnType::Numeric { scale, .. } => Self::Numeric(array.as_primitive(), scale),
            ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) => {
                Self::Text(array.as_string())
            }
            ColumnType::Bytea => Self::Bytea(array.as_binary()),
            ColumnType::Uuid => Self::Uuid(array.as_fixed_size_binary()),
            ColumnType::Date => Self::Date(array.as_primitive()),
            ColumnType::Time => Self::Time(array.as_primitive()),
            ColumnType::Timestamp => Self::Moment(array.as_primitive(), false),
            ColumnType::TimestampTz => Self::Moment(array.as_primitive(), true),
            ColumnType::Other => Self::Other(array.as_binary()),
        })
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Bool(array) => array.is_null(row),
            Self::Int2(array) => array.is_null(row),
            Self::Int4(array) => array.is_null(row),
            Self::Int8(array) => array.is_null(row),
            Self::Oid(array) => array.is_null(row),
            Self::Float4(array) => array.is_null(row),
            Self::Float8(array) => array.is_null(row),
            Self::Numeric(array, _) => array.is_null(row),
            Self::Text(array) => array.is_null(row),
            Self::Bytea(array) => array.is_null(row),
            Self::Uuid(array) => array.is_null(row),
            Self::Date(array) => array.is_null(row),
            Self::Time(array) => array.is_null(row),
            Self::Moment(array, _) => array.is_null(row),
            Self::Other(array) => array.is_null(row),
        }
    }

    /// Returns whether texts of the column have digits, signs and points only.
    pub(super) fn is_number(&self) -> bool {
        matches!(
            self,
            Self::Int2(_) | Self::Int4(_) | Self::Int8(_) | Self::Oid(_) | Self::Numeric(..)
        )
    }

    /// Returns a text that needs no other form.
    pub(super) fn text(&self, row: usize, column: &Column) -> Option<&'a [u8]> {
        match self {
            Self::Text(array) if !matches!(column.column_type, ColumnType::Char(_)) => {
                Some(array.value(row).as_bytes())
            }
            _ => None,
        }
    }

    /// Appends the text of a value, without escapes.
    pub(super) fn put_text(
        &self,
        row: usize,
        column: &Column,
        forms: &dyn Forms,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self {
            Self::Bool(array) => out.push(if array.value(row) { b't' } else { b'f' }),
            Self::Int2(array) => put_integer(array.value(row).into(), out),
            Self::Int4(array) => put_integer(array.value(row).into(), out),
            Self::Int8(array) => put_integer(array.value(row), out),
            Self::Oid(array) => put_integer(array.value(row).into(), out),
            Self::Float4(array) => put_float4(array.value(row), out),
            Self::Float8(array) => put_float8(array.value(row), out),
            Self::Numeric(array, scale) => put_decimal(array.value(row), *scale, out),
            Self::Text(array) => put_padded(array.value(row), column.column_type, out),
            Self::Bytea(array) => put_bytea(array.value(row), out),
            Self::Uuid(array) => put_uuid(array.value(row), out),
            Self::Date(array) => put_date(array.value(row), out),
            Self::Time(array) => put_time(array.value(row), out),
            Self::Moment(array, has_zone) => {
                let moment = array.value(row);
                let offset = has_zone.then(|| forms.offset_at(moment));
                put_moment(moment, offset, out);
            }
            Self::Other(array) => forms.write_text(column, array.value(row), out)?,
        }
        Ok(())
    }

    /// Appends the binary form of a value.
    pub(super) fn put_binary(
        &self,
        row: usize,
        column: &Column,
        forms: &dyn Forms,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match self {
            Self::Bool(array) => out.push(array.value(row).into()),
            Self::Int2(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Self::Int4(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Self::Int8(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Self::Oid(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Self::Float4(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Self::Float8(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Self::Numeric(array, scale) => encode_decimal(array.value(row), *scale, out),
            Self::Text(array) => put_padded(array.value(row), column.column_type, out),
            Self::Bytea(array) => out.extend_from_slice(array.value(row)),
            Self::Uuid(array) => out.extend_from_slice(array.value(row)),
            Self::Date(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Self::Time(array) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Self::Moment(array, _) => out.extend_from_slice(&array.value(row).to_be_bytes()),
            Self::Other(array) => forms.write_binary(column, array.value(row), out)?,
        }
        Ok(())
    }
}

/// Appends a text, with blanks up to the length of a `char(n)`.
fn put_padded(text: &str, column_type: ColumnType, out: &mut Vec<u8>) {
    out.extend_from_slice(text.as_bytes());
    if let ColumnType::Char(length) = column_type {
        let missing = (length as usize).saturating_sub(text.chars().count());
        out.extend(std::iter::repeat_n(b' ', missing));
    }
}
