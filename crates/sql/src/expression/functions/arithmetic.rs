//! Arithmetic operators.
//!
//! 1. A result that its type does not hold is 22003, a division by zero 22012. Integers divide
//!    towards zero.

use relational::{DataType, Error, Numeric, Result, SqlState, Value};

use super::{Call, Definition};
use crate::values::type_name;

pub(super) const TABLE: &[Definition] = &[
    ("op:+", "int2,int2 -> int2", add_int),
    ("op:+", "int2,int4 -> int4", add_int),
    ("op:+", "int4,int2 -> int4", add_int),
    ("op:+", "int4,int4 -> int4", add_int),
    ("op:+", "int2,int8 -> int8", add_int),
    ("op:+", "int8,int2 -> int8", add_int),
    ("op:+", "int4,int8 -> int8", add_int),
    ("op:+", "int8,int4 -> int8", add_int),
    ("op:+", "int8,int8 -> int8", add_int),
    ("op:+", "float4,float4 -> float4", add_float),
    ("op:+", "float8,float8 -> float8", add_float),
    ("op:+", "float4,float8 -> float8", add_float),
    ("op:+", "float8,float4 -> float8", add_float),
    ("op:+", "numeric,numeric -> numeric", |call| numeric(call.numeric(0).add(&call.numeric(1)))),
    ("op:-", "int2,int2 -> int2", subtract_int),
    ("op:-", "int2,int4 -> int4", subtract_int),
    ("op:-", "int4,int2 -> int4", subtract_int),
    ("op:-", "int4,int4 -> int4", subtract_int),
    ("op:-", "int2,int8 -> int8", subtract_int),
    ("op:-", "int8,int2 -> int8", subtract_int),
    ("op:-", "int4,int8 -> int8", subtract_int),
    ("op:-", "int8,int4 -> int8", subtract_int),
    ("op:-", "int8,int8 -> int8", subtract_int),
    ("op:-", "float4,float4 -> float4", subtract_float),
    ("op:-", "float8,float8 -> float8", subtract_float),
    ("op:-", "float4,float8 -> float8", subtract_float),
    ("op:-", "float8,float4 -> float8", subtract_float),
    ("op:-", "numeric,numeric -> numeric", |call| {
        numeric(call.numeric(0).subtract(&call.numeric(1)))
    }),
    ("op:*", "int2,int2 -> int2", multiply_int),
    ("op:*", "int2,int4 -> int4", multiply_int),
    ("op:*", "int4,int2 -> int4", multiply_int),
    ("op:*", "int4,int4 -> int4", multiply_int),
    ("op:*", "int2,int8 -> int8", multiply_int),
    ("op:*", "int8,int2 -> int8", multiply_int),
    ("op:*", "int4,int8 -> int8", multiply_int),
    ("op:*", "int8,int4 -> int8", multiply_int),
    ("op:*", "int8,int8 -> int8", multiply_int),
    ("op:*", "float4,float4 -> float4", multiply_float),
    ("op:*", "float8,float8 -> float8", multiply_float),
    ("op:*", "float4,float8 -> float8", multiply_float),
    ("op:*", "float8,float4 -> float8", multiply_float),
    ("op:*", "numeric,numeric -> numeric", |call| {
        numeric(call.numeric(0).multiply(&call.numeric(1)))
    }),
    ("op:/", "int2,int2 -> int2", divide_int),
    ("op:/", "int2,int4 -> int4", divide_int),
    ("op:/", "int4,int2 -> int4", divide_int),
    ("op:/", "int4,int4 -> int4", divide_int),
    ("op:/", "int2,int8 -> int8", divide_int),
    ("op:/", "int8,int2 -> int8", divide_int),
    ("op:/", "int4,int8 -> int8", divide_int),
    ("op:/", "int8,int4 -> int8", divide_int),
    ("op:/", "int8,int8 -> int8", divide_int),
    ("op:/", "float4,float4 -> float4", divide_float),
    ("op:/", "float8,float8 -> float8", divide_float),
    ("op:/", "float4,float8 -> float8", divide_float),
    ("op:/", "float8,float4 -> float8", divide_float),
    ("op:/", "numeric,numeric -> numeric", |call| {
        numeric(call.numeric(0).divide(&call.numeric(1)))
    }),
    ("op:%", "int2,int2 -> int2", remainder_int),
    ("op:%", "int4,int4 -> int4", remainder_int),
    ("op:%", "int8,int8 -> int8", remainder_int),
    ("op:%", "numeric,numeric -> numeric", |call| {
        numeric(call.numeric(0).remainder(&call.numeric(1)))
    }),
    ("mod", "int2,int2 -> int2", remainder_int),
    ("mod", "int4,int4 -> int4", remainder_int),
    ("mod", "int8,int8 -> int8", remainder_int),
    ("mod", "numeric,numeric -> numeric", |call| {
        numeric(call.numeric(0).remainder(&call.numeric(1)))
    }),
    ("op:-", "int2 -> int2", |call| whole(call, Some(-call.int(0)))),
    ("op:-", "int4 -> int4", |call| whole(call, Some(-call.int(0)))),
    ("op:-", "int8 -> int8", |call| whole(call, call.int(0).checked_neg())),
    ("op:-", "float4 -> float4", |call| Ok(Value::Float4(-call.float(0) as f32))),
    ("op:-", "float8 -> float8", |call| Ok(Value::Float8(-call.float(0)))),
    ("op:-", "numeric -> numeric", |call| Ok(Value::Numeric(call.numeric(0).negate()))),
    ("op:+", "int2 -> int2", same),
    ("op:+", "int4 -> int4", same),
    ("op:+", "int8 -> int8", same),
    ("op:+", "float8 -> float8", same),
    ("op:+", "numeric -> numeric", same),
    ("op:&", "int2,int2 -> int2", |call| whole(call, Some(call.int(0) & call.int(1)))),
    ("op:&", "int4,int4 -> int4", |call| whole(call, Some(call.int(0) & call.int(1)))),
    ("op:&", "int8,int8 -> int8", |call| whole(call, Some(call.int(0) & call.int(1)))),
    ("op:|", "int2,int2 -> int2", |call| whole(call, Some(call.int(0) | call.int(1)))),
    ("op:|", "int4,int4 -> int4", |call| whole(call, Some(call.int(0) | call.int(1)))),
    ("op:|", "int8,int8 -> int8", |call| whole(call, Some(call.int(0) | call.int(1)))),
    ("op:#", "int2,int2 -> int2", |call| whole(call, Some(call.int(0) ^ call.int(1)))),
    ("op:#", "int4,int4 -> int4", |call| whole(call, Some(call.int(0) ^ call.int(1)))),
    ("op:#", "int8,int8 -> int8", |call| whole(call, Some(call.int(0) ^ call.int(1)))),
    ("op:~", "int2 -> int2", |call| whole(call, Some(!call.int(0)))),
    ("op:~", "int4 -> int4", |call| whole(call, Some(!call.int(0)))),
    ("op:~", "int8 -> int8", |call| whole(call, Some(!call.int(0)))),
    ("op:<<", "int4,int4 -> int4", |call| {
        Ok(Value::Int4((call.int(0) as i32).wrapping_shl(call.int(1) as u32)))
    }),
    ("op:<<", "int8,int4 -> int8", |call| {
        Ok(Value::Int8(call.int(0).wrapping_shl(call.int(1) as u32)))
    }),
    ("op:>>", "int4,int4 -> int4", |call| {
        Ok(Value::Int4((call.int(0) as i32).wrapping_shr(call.int(1) as u32)))
    }),
    ("op:>>", "int8,int4 -> int8", |call| {
        Ok(Value::Int8(call.int(0).wrapping_shr(call.int(1) as u32)))
    }),
];

/// Returns the error of an integer that its type does not hold.
pub(crate) fn integer_range(data_type: &DataType) -> Error {
    let message = format!("{} out of range", type_name(data_type));
    Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

fn zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

fn same(call: &Call<'_>) -> Result<Value> {
    Ok(call.value(0).clone())
}

pub(super) fn numeric(result: Result<Numeric>) -> Result<Value> {
    result.map(Value::Numeric)
}

/// Returns an integer of the type that the call returns.
pub(super) fn whole(call: &Call<'_>, value: Option<i64>) -> Result<Value> {
    let wrong = || integer_range(call.returns);
    let value = value.ok_or_else(wrong)?;
    Ok(match call.returns {
        DataType::Int2 => Value::Int2(i16::try_from(value).map_err(|_| wrong())?),
        DataType::Int4 => Value::Int4(i32::try_from(value).map_err(|_| wrong())?),
        _ => Value::Int8(value),
    })
}

fn add_int(call: &Call<'_>) -> Result<Value> {
    whole(call, call.int(0).checked_add(call.int(1)))
}

fn subtract_int(call: &Call<'_>) -> Result<Value> {
    whole(call, call.int(0).checked_sub(call.int(1)))
}

fn multiply_int(call: &Call<'_>) -> Result<Value> {
    whole(call, call.int(0).checked_mul(call.int(1)))
}

/// Returns a quotient towards zero; nothing if it overflows.
fn divide_integers(left: i64, right: i64) -> Result<Option<i64>> {
    if right == 0 {
        return Err(zero());
    }
    Ok(left.checked_div(right))
}

fn divide_int(call: &Call<'_>) -> Result<Value> {
    whole(call, divide_integers(call.int(0), call.int(1))?)
}

fn remainder_int(call: &Call<'_>) -> Result<Value> {
    let (left, right) = (call.int(0), call.int(1));
    if right == 0 {
        return Err(zero());
    }
    whole(call, Some(left.checked_rem(right).unwrap_or(0)))
}

/// Returns a number of the call's type. Overflow and underflow are 22003.
pub(super) fn real(
    call: &Call<'_>,
    value: f64,
    infinite: bool,
    may_be_zero: bool,
) -> Result<Value> {
    let range = |what: &str| {
        let message = format!("value out of range: {what}");
        Error::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    };
    let (value, narrow) = match call.returns {
        DataType::Float4 => (f64::from(value as f32), true),
        _ => (value, false),
    };
    if value.is_infinite() && !infinite {
        return Err(range("overflow"));
    }
    if value == 0.0 && !may_be_zero {
        return Err(range("underflow"));
    }
    Ok(if narrow { Value::Float4(value as f32) } else { Value::Float8(value) })
}

fn any_infinite(call: &Call<'_>) -> bool {
    call.float(0).is_infinite() || call.float(1).is_infinite()
}

fn add_float(call: &Call<'_>) -> Result<Value> {
    real(call, call.float(0) + call.float(1), any_infinite(call), true)
}

fn subtract_float(call: &Call<'_>) -> Result<Value> {
    real(call, call.float(0) - call.float(1), any_infinite(call), true)
}

fn multiply_float(call: &Call<'_>) -> Result<Value> {
    let (left, right) = (call.float(0), call.float(1));
    real(call, left * right, any_infinite(call), left == 0.0 || right == 0.0)
}

fn divide_float(call: &Call<'_>) -> Result<Value> {
    let (left, right) = (call.float(0), call.float(1));
    if right == 0.0 && !left.is_nan() {
        return Err(zero());
    }
    real(call, left / right, left.is_infinite(), left == 0.0 || right.is_infinite())
}
