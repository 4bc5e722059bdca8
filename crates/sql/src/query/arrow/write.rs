//! Values to Arrow arrays.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BinaryBuilder, BooleanArray, FixedSizeBinaryBuilder, LargeBinaryBuilder,
    LargeStringBuilder, ListArray, PrimitiveArray, StringBuilder,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes as arrow_types;
use datafusion::common::ScalarValue;
use relational::{DataType, Error, Result, Value};

use super::{INTERVAL_BYTES, element_field, encode_interval, encode_numeric};

fn wrong(value: &Value, data_type: &DataType) -> Error {
    Error::internal(format!("{value:?} is no value of {data_type}"))
}

/// Collects one primitive column; NULL stays NULL and any other kind is an error.
macro_rules! primitive {
    ($values:expr, $data_type:expr, $arrow:ty, $kind:path) => {{
        let items: Result<Vec<Option<_>>> = $values
            .iter()
            .map(|value| match value {
                Value::Null => Ok(None),
                $kind(value) => Ok(Some(*value)),
                other => Err(wrong(other, $data_type)),
            })
            .collect();
        Arc::new(PrimitiveArray::<$arrow>::from_iter(items?)) as ArrayRef
    }};
}

/// Returns a column of values, which are all NULL or of the type.
pub(crate) fn array_of(values: &[Value], data_type: &DataType) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Bool => {
            let items: Result<Vec<Option<bool>>> = values
                .iter()
                .map(|value| match value {
                    Value::Null => Ok(None),
                    Value::Bool(value) => Ok(Some(*value)),
                    other => Err(wrong(other, data_type)),
                })
                .collect();
            Arc::new(BooleanArray::from(items?))
        }
        DataType::Int2 => primitive!(values, data_type, arrow_types::Int16Type, Value::Int2),
        DataType::Int4 => primitive!(values, data_type, arrow_types::Int32Type, Value::Int4),
        DataType::Int8 => primitive!(values, data_type, arrow_types::Int64Type, Value::Int8),
        DataType::Oid => primitive!(values, data_type, arrow_types::UInt32Type, Value::Oid),
        DataType::Float4 => primitive!(values, data_type, arrow_types::Float32Type, Value::Float4),
        DataType::Float8 => primitive!(values, data_type, arrow_types::Float64Type, Value::Float8),
        DataType::Date => primitive!(values, data_type, arrow_types::Date32Type, Value::Date),
        DataType::Time => {
            primitive!(values, data_type, arrow_types::Time64MicrosecondType, Value::Time)
        }
        DataType::Timestamp => {
            primitive!(values, data_type, arrow_types::TimestampMicrosecondType, Value::Timestamp)
        }
        DataType::TimestampTz => {
            let items: Result<Vec<Option<i64>>> = values
                .iter()
                .map(|value| match value {
                    Value::Null => Ok(None),
                    Value::TimestampTz(micros) => Ok(Some(*micros)),
                    other => Err(wrong(other, data_type)),
                })
                .collect();
            let array = PrimitiveArray::<arrow_types::TimestampMicrosecondType>::from_iter(items?);
            Arc::new(array.with_timezone("UTC"))
        }
        DataType::Array(element) => lists(values, element)?,
        _ => bytes(values, data_type)?,
    })
}

/// Returns a column of text or bytes.
fn bytes(values: &[Value], data_type: &DataType) -> Result<ArrayRef> {
    let bad = |problem: datafusion::arrow::error::ArrowError| Error::internal(problem.to_string());
    Ok(match data_type {
        DataType::Numeric(_) => {
            let mut builder = LargeBinaryBuilder::with_capacity(values.len(), values.len() * 12);
            for value in values {
                match value {
                    Value::Null => builder.append_null(),
                    Value::Numeric(number) => builder.append_value(encode_numeric(number)),
                    other => return Err(wrong(other, data_type)),
                }
            }
            Arc::new(builder.finish())
        }
        DataType::Jsonb => {
            let mut builder = LargeStringBuilder::new();
            for value in values {
                match value {
                    Value::Null => builder.append_null(),
                    Value::Jsonb(text) => builder.append_value(text),
                    other => return Err(wrong(other, data_type)),
                }
            }
            Arc::new(builder.finish())
        }
        DataType::Bytea => {
            let mut builder = BinaryBuilder::new();
            for value in values {
                match value {
                    Value::Null => builder.append_null(),
                    Value::Bytea(bytes) => builder.append_value(bytes),
                    other => return Err(wrong(other, data_type)),
                }
            }
            Arc::new(builder.finish())
        }
        DataType::Uuid => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(values.len(), 16);
            for value in values {
                match value {
                    Value::Null => builder.append_null(),
                    Value::Uuid(bytes) => builder.append_value(bytes).map_err(bad)?,
                    other => return Err(wrong(other, data_type)),
                }
            }
            Arc::new(builder.finish())
        }
        DataType::Interval => {
            let mut builder = FixedSizeBinaryBuilder::with_capacity(values.len(), INTERVAL_BYTES);
            for value in values {
                match value {
                    Value::Null => builder.append_null(),
                    Value::Interval { months, days, micros } => {
                        builder
                            .append_value(encode_interval(*months, *days, *micros))
                            .map_err(bad)?;
                    }
                    other => return Err(wrong(other, data_type)),
                }
            }
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = StringBuilder::with_capacity(values.len(), values.len() * 16);
            for value in values {
                match value {
                    Value::Null => builder.append_null(),
                    Value::Text(text) => builder.append_value(text),
                    other => return Err(wrong(other, data_type)),
                }
            }
            Arc::new(builder.finish())
        }
    })
}

fn lists(values: &[Value], element: &DataType) -> Result<ArrayRef> {
    let mut items = Vec::new();
    let mut lengths = Vec::with_capacity(values.len());
    let mut present = Vec::with_capacity(values.len());
    for value in values {
        present.push(!value.is_null());
        match value {
            Value::Array(array) => {
                if array.dimensions.len() > 1 {
                    let message = "arrays of several dimensions are not supported in queries";
                    return Err(Error::unsupported(message));
                }
                lengths.push(array.values.len());
                items.extend(array.values.iter().cloned());
            }
            _ => lengths.push(0),
        }
    }
    let inner = array_of(&items, element)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = NullBuffer::from(present);
    let list = ListArray::try_new(element_field(element), offsets, inner, Some(nulls));
    list.map(|list| Arc::new(list) as ArrayRef)
        .map_err(|problem| Error::internal(problem.to_string()))
}

/// Returns a value as a scalar.
pub(crate) fn scalar_of(value: &Value, data_type: &DataType) -> Result<ScalarValue> {
    let column = array_of(std::slice::from_ref(value), data_type)?;
    ScalarValue::try_from_array(&column, 0).map_err(|problem| Error::internal(problem.to_string()))
}
