//! Arrow arrays to values.

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray, StringArrayType};
use datafusion::arrow::datatypes as arrow_types;
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;
use relational::{Array, Bytes, DataType, Error, Result, Value};

use super::{decode_interval, decode_numeric};

/// Returns the values of a column, which holds values of `data_type`.
pub(crate) fn read_column(column: &ArrayRef, data_type: &DataType) -> Result<Vec<Value>> {
    let mut out = Vec::with_capacity(column.len());
    for row in 0..column.len() {
        out.push(read(column, row, data_type)?);
    }
    Ok(out)
}

fn text<'a>(array: impl StringArrayType<'a>, row: usize) -> Value {
    Value::text(array.value(row))
}

fn read(column: &ArrayRef, row: usize, data_type: &DataType) -> Result<Value> {
    if column.is_null(row) {
        return Ok(Value::Null);
    }
    Ok(match column.data_type() {
        ArrowType::Null => Value::Null,
        ArrowType::Boolean => Value::Bool(column.as_boolean().value(row)),
        ArrowType::Int16 => Value::Int2(column.as_primitive::<arrow_types::Int16Type>().value(row)),
        ArrowType::Int32 => Value::Int4(column.as_primitive::<arrow_types::Int32Type>().value(row)),
        ArrowType::Int64 => Value::Int8(column.as_primitive::<arrow_types::Int64Type>().value(row)),
        ArrowType::UInt64 => {
            Value::Int8(column.as_primitive::<arrow_types::UInt64Type>().value(row) as i64)
        }
        ArrowType::UInt32 => {
            Value::Oid(column.as_primitive::<arrow_types::UInt32Type>().value(row))
        }
        ArrowType::Float32 => {
            Value::Float4(column.as_primitive::<arrow_types::Float32Type>().value(row))
        }
        ArrowType::Float64 => {
            Value::Float8(column.as_primitive::<arrow_types::Float64Type>().value(row))
        }
        ArrowType::LargeBinary => {
            Value::Numeric(decode_numeric(column.as_binary::<i64>().value(row)))
        }
        ArrowType::Utf8 => text(column.as_string::<i32>(), row),
        ArrowType::Utf8View => text(column.as_string_view(), row),
        ArrowType::LargeUtf8 => Value::Jsonb(column.as_string::<i64>().value(row).into()),
        ArrowType::Binary => {
            Value::Bytea(Bytes::copy_from_slice(column.as_binary::<i32>().value(row)))
        }
        ArrowType::FixedSizeBinary(16) => {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(column.as_fixed_size_binary().value(row));
            Value::Uuid(bytes)
        }
        ArrowType::FixedSizeBinary(_) => {
            let (months, days, micros) = decode_interval(column.as_fixed_size_binary().value(row));
            Value::Interval { months, days, micros }
        }
        ArrowType::Date32 => {
            Value::Date(column.as_primitive::<arrow_types::Date32Type>().value(row))
        }
        ArrowType::Time64(_) => {
            Value::Time(column.as_primitive::<arrow_types::Time64MicrosecondType>().value(row))
        }
        ArrowType::Timestamp(_, zone) => {
            let micros = column.as_primitive::<arrow_types::TimestampMicrosecondType>().value(row);
            match zone {
                Some(_) => Value::TimestampTz(micros),
                None => Value::Timestamp(micros),
            }
        }
        ArrowType::List(_) => {
            let element = data_type.element().cloned().unwrap_or(DataType::Text);
            let values = read_column(&column.as_list::<i32>().value(row), &element)?;
            Value::Array(std::sync::Arc::new(Array::of(element, values)))
        }
        other => return Err(Error::internal(format!("a column of Arrow's {other} has no type"))),
    })
}

/// Returns the value of a scalar.
pub(crate) fn scalar_value(scalar: &ScalarValue, data_type: &DataType) -> Result<Value> {
    if scalar.is_null() {
        return Ok(Value::Null);
    }
    let column = scalar.to_array().map_err(|problem| Error::internal(problem.to_string()))?;
    read(&column, 0, data_type)
}
