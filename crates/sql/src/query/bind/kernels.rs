//! Whole columns at once, for the calls that queries make most: integer arithmetic, floating point
//! sums and products, and the keys by which numerics compare.
//!
//! 1. A kernel gives what the body gives, errors included.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, PrimitiveArray};
use datafusion::arrow::compute::try_binary;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;
use relational::{DataType, Error, SqlState};

use super::bound::{BoundFunction, Work};
use super::external;
use crate::expression::functions::integer_range;
use crate::query::arrow::KEY_TAIL;

/// Returns the result of a kernel; nothing if none fits.
pub(super) fn run(
    function: &BoundFunction,
    args: &[ColumnarValue],
) -> Result<Option<ColumnarValue>> {
    if args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
        return Ok(None);
    }
    match (&function.work, args) {
        (Work::Key, [ColumnarValue::Array(column)]) => Ok(keys(column).map(ColumnarValue::Array)),
        (Work::Call(bound), [left, right]) => {
            let Some(symbol) = bound.overload.name.strip_prefix("op:") else { return Ok(None) };
            let types = (&function.types[0], &function.types[1]);
            match types {
                (DataType::Int2, DataType::Int2) => {
                    integers::<Int16Type>(symbol, left, right, &DataType::Int2)
                }
                (DataType::Int4, DataType::Int4) => {
                    integers::<Int32Type>(symbol, left, right, &DataType::Int4)
                }
                (DataType::Int8, DataType::Int8) => {
                    integers::<Int64Type>(symbol, left, right, &DataType::Int8)
                }
                (DataType::Float8, DataType::Float8) => floats(symbol, left, right),
                _ => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// Returns the part of each value by which it compares; nothing for types without a kernel.
fn keys(column: &ArrayRef) -> Option<ArrayRef> {
    if let Some(numbers) = column.as_primitive_opt::<Float64Type>() {
        // A negative zero plus zero is zero.
        let plain = |number: f64| if number.is_nan() { f64::NAN } else { number + 0.0 };
        return Some(Arc::new(numbers.unary::<_, Float64Type>(plain)));
    }
    if let Some(numbers) = column.as_primitive_opt::<Float32Type>() {
        let plain = |number: f32| if number.is_nan() { f32::NAN } else { number + 0.0 };
        return Some(Arc::new(numbers.unary::<_, Float32Type>(plain)));
    }
    let mut out = BinaryBuilder::with_capacity(column.len(), column.len() * 10);
    if let Some(numbers) = column.as_binary_opt::<i64>() {
        for value in numbers {
            out.append_option(value.map(|bytes| &bytes[..bytes.len().saturating_sub(KEY_TAIL.0)]));
        }
    } else if let Some(intervals) = column.as_fixed_size_binary_opt() {
        for value in intervals {
            out.append_option(value.map(|bytes| &bytes[..bytes.len().saturating_sub(KEY_TAIL.1)]));
        }
    } else {
        return None;
    }
    Some(Arc::new(out.finish()))
}

/// Returns both operands as columns of one length.
fn columns(left: &ColumnarValue, right: &ColumnarValue) -> Result<[ArrayRef; 2]> {
    let length = [left, right].iter().find_map(|side| match side {
        ColumnarValue::Array(array) => Some(array.len()),
        ColumnarValue::Scalar(_) => None,
    });
    let length = length.unwrap_or(1);
    let column = |side: &ColumnarValue| match side {
        ColumnarValue::Array(array) => Ok(Arc::clone(array)),
        ColumnarValue::Scalar(ScalarValue::Null) => {
            ScalarValue::Int64(None).to_array_of_size(length)
        }
        ColumnarValue::Scalar(scalar) => scalar.to_array_of_size(length),
    };
    Ok([column(left)?, column(right)?])
}

/// The operations of an integer type that tell of overflow.
trait Checked: Copy {
    fn add(self, other: Self) -> Option<Self>;
    fn subtract(self, other: Self) -> Option<Self>;
    fn multiply(self, other: Self) -> Option<Self>;
    fn divide(self, other: Self) -> Option<Self>;
    fn is_zero(self) -> bool;
}

macro_rules! checked {
    ($($integer:ty),*) => {$(
        impl Checked for $integer {
            fn add(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
            fn subtract(self, other: Self) -> Option<Self> {
                self.checked_sub(other)
            }
            fn multiply(self, other: Self) -> Option<Self> {
                self.checked_mul(other)
            }
            fn divide(self, other: Self) -> Option<Self> {
                self.checked_div(other)
            }
            fn is_zero(self) -> bool {
                self == 0
            }
        }
    )*};
}
checked!(i16, i32, i64);

fn integers<T>(
    symbol: &str,
    left: &ColumnarValue,
    right: &ColumnarValue,
    data_type: &DataType,
) -> Result<Option<ColumnarValue>>
where
    T: ArrowPrimitiveType,
    T::Native: Checked,
{
    let operation: fn(T::Native, T::Native) -> Option<T::Native> = match symbol {
        "+" => Checked::add,
        "-" => Checked::subtract,
        "*" => Checked::multiply,
        "/" => Checked::divide,
        _ => return Ok(None),
    };
    let [left, right] = columns(left, right)?;
    let (Some(left), Some(right)) = (left.as_primitive_opt::<T>(), right.as_primitive_opt::<T>())
    else {
        return Ok(None);
    };
    let division = symbol == "/";
    let out: PrimitiveArray<T> = try_binary(left, right, |left, right| {
        if division && right.is_zero() {
            let problem = Error::new(SqlState::DIVISION_BY_ZERO, "division by zero");
            return Err(ArrowError::ExternalError(Box::new(problem)));
        }
        operation(left, right)
            .ok_or_else(|| ArrowError::ExternalError(Box::new(integer_range(data_type))))
    })
    .map_err(problem)?;
    Ok(Some(ColumnarValue::Array(Arc::new(out))))
}

fn floats(
    symbol: &str,
    left: &ColumnarValue,
    right: &ColumnarValue,
) -> Result<Option<ColumnarValue>> {
    let operation: fn(f64, f64) -> f64 = match symbol {
        "+" => |left, right| left + right,
        "-" => |left, right| left - right,
        "*" => |left, right| left * right,
        _ => return Ok(None),
    };
    let product = symbol == "*";
    let [left, right] = columns(left, right)?;
    let (Some(left), Some(right)) =
        (left.as_primitive_opt::<Float64Type>(), right.as_primitive_opt::<Float64Type>())
    else {
        return Ok(None);
    };
    let out: PrimitiveArray<Float64Type> = try_binary(left, right, |left, right| {
        let value = operation(left, right);
        let what = if value.is_infinite() && left.is_finite() && right.is_finite() {
            "overflow"
        } else if product && value == 0.0 && left != 0.0 && right != 0.0 {
            "underflow"
        } else {
            return Ok(value);
        };
        let message = format!("value out of range: {what}");
        let problem = Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message);
        Err(ArrowError::ExternalError(Box::new(problem)))
    })
    .map_err(problem)?;
    Ok(Some(ColumnarValue::Array(Arc::new(out))))
}

/// Returns the error that a kernel carries.
fn problem(problem: ArrowError) -> datafusion::common::DataFusionError {
    match problem {
        ArrowError::ExternalError(inner) => match inner.downcast::<Error>() {
            Ok(own) => external(*own),
            Err(other) => datafusion::common::DataFusionError::External(other),
        },
        other => datafusion::common::DataFusionError::ArrowError(Box::new(other), None),
    }
}
