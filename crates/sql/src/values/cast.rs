//! Casts between types: which are allowed where, and what they give.
//!
//! 1. An implicit cast loses nothing; a cast by assignment may round or fail; an explicit cast may
//!    also cut text and read it.
//! 2. Integers come from fractions by rounding: numeric half away from zero, floating point half to
//!    even.

use std::sync::Arc;

use relational::{Array, DataType, Error, Numeric, Result, SqlState, Value};

use super::parse::parse_value;
use super::settings::Settings;
use super::text::value_text;
use super::{error, json, time, type_name};

/// The place of a cast in a statement. Each allows what the one before allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// An operand or an argument.
    Implicit,
    /// A value that goes into a column.
    Assignment,
    /// A cast by `CAST` or `::`.
    Explicit,
}

/// Returns the place of a number type in the order of implicit casts.
fn number_rank(data_type: &DataType) -> Option<u8> {
    Some(match data_type {
        DataType::Int2 => 0,
        DataType::Int4 => 1,
        DataType::Int8 => 2,
        DataType::Numeric(_) => 3,
        DataType::Float4 => 4,
        DataType::Float8 => 5,
        _ => return None,
    })
}

fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Text | DataType::Varchar(_) | DataType::Char(_) | DataType::Name)
}

/// Returns whether a cast from one type to another is allowed in a place.
pub fn can_cast(from: &DataType, to: &DataType, context: CastContext) -> bool {
    least(from, to).is_some_and(|needed| needed <= context)
}

/// Returns the strictest place that allows the cast.
fn least(from: &DataType, to: &DataType) -> Option<CastContext> {
    use CastContext::{Assignment, Explicit, Implicit};
    use DataType::*;
    if std::mem::discriminant(from) == std::mem::discriminant(to) && from.element().is_none() {
        return Some(Implicit);
    }
    if let (Some(left), Some(right)) = (number_rank(from), number_rank(to)) {
        return Some(if left < right { Implicit } else { Assignment });
    }
    match (from, to) {
        (Unknown, _) => Some(Implicit),
        (Array(left), Array(right)) => least(left, right),
        (Int2 | Int4 | Int8, Oid) => Some(Implicit),
        (Oid, Int8 | Int4) => Some(Assignment),
        (Text | Varchar(_) | Char(_), Oid) => Some(Explicit),
        (Int4, Bool) | (Bool, Int4) => Some(Explicit),
        (left, Name) if is_string(left) => Some(Assignment),
        (left, right) if is_string(left) && is_string(right) => Some(Implicit),
        (Date, Timestamp | TimestampTz) | (Timestamp, TimestampTz) | (Time, Interval) => {
            Some(Implicit)
        }
        (TimestampTz, Timestamp | Date | Time)
        | (Timestamp, Date | Time)
        | (Interval, Time)
        | (Json, Jsonb)
        | (Jsonb, Json) => Some(Assignment),
        (Jsonb, Bool) => Some(Explicit),
        (Jsonb, right) if number_rank(right).is_some() => Some(Explicit),
        (_, right) if is_string(right) => Some(Assignment),
        (left, _) if is_string(left) => Some(Explicit),
        _ => None,
    }
}

/// Returns the error of a cast that does not exist.
fn no_cast(from: &DataType, to: &DataType) -> Error {
    let message = format!("cannot cast type {} to {}", type_name(from), type_name(to));
    error(SqlState::CANNOT_COERCE, message)
}

fn out_of_range(to: &DataType) -> Error {
    error(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", type_name(to)))
}

/// Returns the value as an explicit cast gives it. Errors: 42846 if there is no such cast, 22003 if
/// the number does not fit, and errors of reading a text.
pub fn cast(value: Value, to: &DataType, settings: &Settings) -> Result<Value> {
    cast_with(value, to, CastContext::Explicit, settings)
}

/// Returns the value as a cast in a place gives it. The caller knows that the place allows it.
pub fn cast_with(
    value: Value,
    to: &DataType,
    context: CastContext,
    settings: &Settings,
) -> Result<Value> {
    let converted = convert(value, to, context, settings)?;
    match context {
        CastContext::Explicit => shorten(converted, to),
        _ => fit(converted, to),
    }
}

fn convert(
    value: Value,
    to: &DataType,
    context: CastContext,
    settings: &Settings,
) -> Result<Value> {
    use DataType as T;
    Ok(match (value, to) {
        (Value::Null, _) => Value::Null,
        (Value::Array(array), T::Array(element)) => {
            let values = array.values.iter().cloned();
            let values: Result<Vec<Value>> =
                values.map(|value| cast_with(value, element, context, settings)).collect();
            let dimensions = array.dimensions.clone();
            Value::Array(Arc::new(Array {
                element: (**element).clone(),
                dimensions,
                values: values?,
            }))
        }
        (value @ Value::Text(_), T::Text | T::Varchar(_) | T::Char(_) | T::Name | T::Unknown) => {
            value
        }
        (Value::Text(text), _) => parse_value(&text, to, settings)?,
        (Value::Jsonb(text), T::Jsonb) => Value::Jsonb(text),
        (Value::Jsonb(text), T::Json) => Value::Text(text),
        (
            Value::Jsonb(text),
            T::Bool | T::Numeric(_) | T::Int2 | T::Int4 | T::Int8 | T::Float4 | T::Float8,
        ) => from_jsonb(&text, to, settings)?,
        (
            value,
            T::Bool | T::Int2 | T::Int4 | T::Int8 | T::Oid | T::Float4 | T::Float8 | T::Numeric(_),
        ) => to_number(value, to)?,
        (value, T::Text | T::Varchar(_) | T::Char(_) | T::Name) => {
            let text = match value {
                Value::Bool(value) => value.to_string(),
                other => value_text(&other, settings),
            };
            Value::Text(Arc::from(text))
        }
        (value, T::Date | T::Time | T::Timestamp | T::TimestampTz | T::Interval) => {
            to_moment(value, to, settings)?
        }
        (value @ Value::Bytea(_), T::Bytea) | (value @ Value::Uuid(_), T::Uuid) => value,
        (value, to) => return Err(no_cast(&value.data_type(), to)),
    })
}

fn from_jsonb(text: &str, to: &DataType, settings: &Settings) -> Result<Value> {
    match (json::parse(text)?, to) {
        (json::Json::Bool(value), DataType::Bool) => Ok(Value::Bool(value)),
        (json::Json::Number(number), to) if *to != DataType::Bool => {
            convert(Value::Numeric(number), to, CastContext::Explicit, settings)
        }
        (other, to) => {
            let message = format!("cannot cast jsonb {} to type {}", other.kind(), type_name(to));
            Err(error(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// Returns an integer that a number or a truth value stands for.
fn whole(value: &Value, to: &DataType) -> Result<i64> {
    Ok(match value {
        Value::Bool(value) => i64::from(*value),
        Value::Int2(value) => i64::from(*value),
        Value::Int4(value) => i64::from(*value),
        Value::Int8(value) => *value,
        Value::Oid(value) => i64::from(*value),
        Value::Float4(value) => round_float(f64::from(*value), to)?,
        Value::Float8(value) => round_float(*value, to)?,
        Value::Numeric(Numeric::Finite(_)) => match value {
            Value::Numeric(number) => number.to_i64().map_err(|_| out_of_range(to))?,
            _ => 0,
        },
        Value::Numeric(Numeric::NaN) => {
            let message = format!("cannot convert NaN to {}", type_name(to));
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        Value::Numeric(_) => {
            let message = format!("cannot convert infinity to {}", type_name(to));
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        other => return Err(no_cast(&other.data_type(), to)),
    })
}

fn round_float(value: f64, to: &DataType) -> Result<i64> {
    let rounded = value.round_ties_even();
    // 2^63 is the first number above all.
    if !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
        return Err(out_of_range(to));
    }
    Ok(rounded as i64)
}

fn to_number(value: Value, to: &DataType) -> Result<Value> {
    Ok(match (to, value) {
        (DataType::Bool, Value::Bool(value)) => Value::Bool(value),
        (DataType::Bool, value @ Value::Int4(_)) => Value::Bool(whole(&value, to)? != 0),
        (DataType::Int2, value) => {
            Value::Int2(i16::try_from(whole(&value, to)?).map_err(|_| out_of_range(to))?)
        }
        (DataType::Int4, Value::Oid(value)) => Value::Int4(value as i32),
        (DataType::Int4, value) => {
            Value::Int4(i32::try_from(whole(&value, to)?).map_err(|_| out_of_range(to))?)
        }
        (DataType::Int8, value) => Value::Int8(whole(&value, to)?),
        (DataType::Oid, value) => {
            let number = whole(&value, to)?;
            let negative = i32::try_from(number).map(|number| number as u32);
            let number = u32::try_from(number).or(negative);
            Value::Oid(
                number
                    .map_err(|_| error(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "OID out of range"))?,
            )
        }
        (DataType::Float4, value) => {
            let wide = float(&value, to)?;
            let narrow = match &value {
                Value::Numeric(Numeric::Finite(_)) => {
                    value_text(&value, &Settings::default()).parse().unwrap_or(wide as f32)
                }
                _ => wide as f32,
            };
            let problem = match narrow {
                narrow if narrow.is_infinite() && wide.is_finite() => "overflow",
                narrow if narrow == 0.0 && wide != 0.0 => "underflow",
                narrow => return Ok(Value::Float4(narrow)),
            };
            let message = match &value {
                Value::Numeric(number) => {
                    format!("\"{number}\" is out of range for type {}", type_name(to))
                }
                _ => format!("value out of range: {problem}"),
            };
            return Err(error(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        (DataType::Float8, value) => Value::Float8(float(&value, to)?),
        (DataType::Numeric(_), Value::Numeric(number)) => Value::Numeric(number),
        (DataType::Numeric(_), Value::Float4(value)) => {
            Value::Numeric(from_float(value.into(), 6)?)
        }
        (DataType::Numeric(_), Value::Float8(value)) => Value::Numeric(from_float(value, 15)?),
        (DataType::Numeric(_), value @ (Value::Int2(_) | Value::Int4(_) | Value::Int8(_))) => {
            Value::Numeric(Numeric::from(whole(&value, to)?))
        }
        (to, value) => return Err(no_cast(&value.data_type(), to)),
    })
}

fn float(value: &Value, to: &DataType) -> Result<f64> {
    Ok(match value {
        Value::Float4(value) => f64::from(*value),
        Value::Float8(value) => *value,
        Value::Numeric(number) => {
            let near = number.to_f64();
            let is_lost = near.is_infinite() || (near == 0.0 && !number.is_zero());
            if is_lost && number.finite().is_some() {
                let message = format!("\"{number}\" is out of range for type {}", type_name(to));
                return Err(error(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
            }
            near
        }
        Value::Bool(_) => return Err(no_cast(&DataType::Bool, to)),
        other => whole(other, to)? as f64,
    })
}

/// Returns the number with as many digits as the type of floating point surely holds.
fn from_float(value: f64, digits: usize) -> Result<Numeric> {
    if value.is_nan() {
        return Ok(Numeric::NaN);
    }
    if value.is_infinite() {
        return Ok(if value > 0.0 { Numeric::Infinity } else { Numeric::NegativeInfinity });
    }
    let text = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mantissa = match mantissa.contains('.') {
        true => mantissa.trim_end_matches('0').trim_end_matches('.'),
        false => mantissa,
    };
    format!("{mantissa}e{exponent}").parse()
}

fn to_moment(value: Value, to: &DataType, settings: &Settings) -> Result<Value> {
    use DataType as T;
    let local = |micros: i64| settings.zone.to_local(micros);
    let universal = |micros: i64| settings.zone.to_universal(micros);
    let of_date = time::timestamp_of_date;
    let day = |micros: i64| match micros {
        i64::MIN => i32::MIN,
        i64::MAX => i32::MAX,
        micros => time::split_timestamp(micros).0 as i32,
    };
    Ok(match (value, to) {
        (value @ Value::Date(_), T::Date)
        | (value @ Value::Time(_), T::Time)
        | (value @ Value::Timestamp(_), T::Timestamp)
        | (value @ Value::TimestampTz(_), T::TimestampTz)
        | (value @ Value::Interval { .. }, T::Interval) => value,
        (Value::Date(days), T::Timestamp) => Value::Timestamp(of_date(days)?),
        (Value::Date(days), T::TimestampTz) => Value::TimestampTz(universal(of_date(days)?)?),
        (Value::Timestamp(micros), T::Date) => Value::Date(day(micros)),
        (Value::Timestamp(micros), T::TimestampTz) => Value::TimestampTz(universal(micros)?),
        (Value::TimestampTz(micros), T::Timestamp) => Value::Timestamp(local(micros)),
        (Value::TimestampTz(micros), T::Date) => Value::Date(day(local(micros))),
        (Value::Timestamp(micros), T::Time) if !time::is_infinite(micros) => {
            Value::Time(time::split_timestamp(micros).1)
        }
        (Value::TimestampTz(micros), T::Time) if !time::is_infinite(micros) => {
            Value::Time(time::split_timestamp(local(micros)).1)
        }
        (Value::Timestamp(_) | Value::TimestampTz(_), T::Time) => Value::Null,
        (Value::Time(micros), T::Interval) => Value::Interval { months: 0, days: 0, micros },
        (Value::Interval { micros, .. }, T::Time) => Value::Time(micros.rem_euclid(time::DAY)),
        (value, to) => return Err(no_cast(&value.data_type(), to)),
    })
}

/// Returns the value as a column of the type keeps it. Errors: 22001 for text that is too long
/// other than by blanks, 22003 for a number beyond the precision.
pub fn fit(value: Value, to: &DataType) -> Result<Value> {
    match (&value, to) {
        (Value::Text(text), DataType::Varchar(Some(length))) => {
            let Some((at, _)) = text.char_indices().nth(*length as usize) else { return Ok(value) };
            if text[at..].bytes().any(|byte| byte != b' ') {
                return Err(too_long(to));
            }
            Ok(Value::text(&text[..at]))
        }
        (Value::Text(text), DataType::Char(length)) => {
            let trimmed = text.trim_end_matches(' ');
            if trimmed.chars().count() > *length as usize {
                return Err(too_long(to));
            }
            Ok(Value::text(trimmed))
        }
        _ => shorten(value, to),
    }
}

/// Returns a time, a moment or an interval rounded to so many digits of a second, and other values as they are.
pub fn round_moment(value: Value, digits: u8) -> Value {
    let unit = 10_i64.pow(u32::from(6_u8.saturating_sub(digits)));
    let round = |micros: i64| {
        let near = (micros.saturating_abs().saturating_add(unit / 2)) / unit * unit;
        if micros < 0 { -near } else { near }
    };
    match value {
        Value::Time(micros) => Value::Time(round(micros)),
        Value::Timestamp(micros) if !time::is_infinite(micros) => Value::Timestamp(round(micros)),
        Value::TimestampTz(micros) if !time::is_infinite(micros) => {
            Value::TimestampTz(round(micros))
        }
        Value::Interval { months, days, micros } => {
            Value::Interval { months, days, micros: round(micros) }
        }
        other => other,
    }
}

fn too_long(to: &DataType) -> Error {
    let message = format!("value too long for type {}", type_name(to));
    error(SqlState::STRING_DATA_RIGHT_TRUNCATION, message)
}

/// Returns the value cut or rounded to the type's length, precision or scale.
fn shorten(value: Value, to: &DataType) -> Result<Value> {
    let cut = |text: &str, length: u32| {
        let end = text.char_indices().nth(length as usize).map_or(text.len(), |(at, _)| at);
        text[..end].to_owned()
    };
    Ok(match (&value, to) {
        (Value::Numeric(number), DataType::Numeric(Some((precision, scale)))) => {
            Value::Numeric(number.fit(*precision, *scale)?)
        }
        (Value::Text(text), DataType::Varchar(Some(length))) => Value::text(cut(text, *length)),
        (Value::Text(text), DataType::Char(length)) => {
            Value::text(cut(text, *length).trim_end_matches(' '))
        }
        (Value::Text(text), DataType::Name) if text.len() > 63 => {
            let end = (0..=63).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            Value::text(&text[..end])
        }
        _ => value,
    })
}
