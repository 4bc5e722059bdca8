//! Functions and operators of arrays.

use std::sync::Arc;

use relational::{Array, ArrayDimension, DataType, Error, Result, SqlState, Value};

use super::{Call, Definition, array, int4, text};
use crate::values::value_text;

/// Elements of the largest array that a function makes.
const ELEMENTS_MAX: i64 = 10_000_000;

pub(super) const TABLE: &[Definition] = &[
    ("__array", "anyelement... -> anyarray null", |call| {
        array(call.returns.element().unwrap_or(&DataType::Text), call.arguments.to_vec())
    }),
    ("__subscript", "anyarray,int4 -> anyelement", subscript),
    ("__pair_part", "anyarray,int4 -> anyelement", subscript),
    ("__subscript", "jsonb,text -> jsonb", super::json::child),
    ("__subscript", "jsonb,int4 -> jsonb", super::json::nth),
    ("__slice", "anyarray,int4,int4 -> anyarray", |call| {
        let items = call.items(0);
        let from = call.int(1).max(1) as usize - 1;
        let to = (call.int(2).max(0) as usize).min(items.len());
        let part = if from < to { items[from..to].to_vec() } else { Vec::new() };
        array(call.returns.element().unwrap_or(&DataType::Text), part)
    }),
    ("op:||", "anyarray,anyarray -> anyarray null", concat),
    ("op:||", "anyarray,anyelement -> anyarray null", append),
    ("op:||", "anyelement,anyarray -> anyarray null", prepend),
    ("array_cat", "anyarray,anyarray -> anyarray null", concat),
    ("array_append", "anyarray,anyelement -> anyarray null", append),
    ("array_prepend", "anyelement,anyarray -> anyarray null", prepend),
    ("array_length", "anyarray,int4 -> int4", |call| {
        Ok(dimension(call).map_or(Value::Null, |found| Value::Int4(found.length as i32)))
    }),
    ("array_lower", "anyarray,int4 -> int4", |call| {
        Ok(dimension(call).map_or(Value::Null, |found| Value::Int4(found.lower)))
    }),
    ("array_upper", "anyarray,int4 -> int4", |call| {
        let upper = |found: ArrayDimension| found.lower + found.length as i32 - 1;
        Ok(dimension(call).map_or(Value::Null, |found| Value::Int4(upper(found))))
    }),
    ("array_ndims", "anyarray -> int4", |call| match call.value(0) {
        Value::Array(whole) if !whole.dimensions.is_empty() => int4(whole.dimensions.len() as i64),
        _ => Ok(Value::Null),
    }),
    ("cardinality", "anyarray -> int4", |call| int4(call.items(0).len() as i64)),
    ("array_position", "anyarray,anyelement -> int4 null", |call| {
        let found = call.items(0).iter().position(|item| item == call.value(1));
        found.map_or(Ok(Value::Null), |at| int4(at as i64 + 1))
    }),
    ("array_positions", "anyarray,anyelement -> int4[] null", |call| {
        let pairs = call.items(0).iter().enumerate();
        let found = pairs.filter(|(_, item)| *item == call.value(1));
        array(&DataType::Int4, found.map(|(at, _)| Value::Int4(at as i32 + 1)).collect())
    }),
    ("array_remove", "anyarray,anyelement -> anyarray null", |call| {
        let kept = call.items(0).iter().filter(|item| *item != call.value(1)).cloned();
        rebuilt(call, kept.collect())
    }),
    ("array_replace", "anyarray,anyelement,anyelement -> anyarray null", |call| {
        let item = |item: &Value| if item == call.value(1) { call.value(2) } else { item }.clone();
        rebuilt(call, call.items(0).iter().map(item).collect())
    }),
    ("array_to_string", "anyarray,text -> text stable", |call| join(call, None)),
    ("array_to_string", "anyarray,text,text -> text null stable", |call| {
        let null = call.arguments.get(2).filter(|value| !value.is_null()).map(|_| call.text(2));
        if call.value(0).is_null() || call.value(1).is_null() {
            return Ok(Value::Null);
        }
        join(call, null)
    }),
    ("op:@>", "anyarray,anyarray -> bool", |call| Ok(Value::Bool(contains(call, 0, 1)))),
    ("op:<@", "anyarray,anyarray -> bool", |call| Ok(Value::Bool(contains(call, 1, 0)))),
    ("op:&&", "anyarray,anyarray -> bool", |call| {
        let shared =
            call.items(0).iter().any(|item| !item.is_null() && call.items(1).contains(item));
        Ok(Value::Bool(shared))
    }),
    ("array_dims", "anyarray -> text", |call| {
        let Value::Array(whole) = call.value(0) else { return Ok(Value::Null) };
        if whole.dimensions.is_empty() {
            return Ok(Value::Null);
        }
        let bounds = whole.dimensions.iter().map(|dimension| {
            let upper = i64::from(dimension.lower) + dimension.length as i64 - 1;
            format!("[{}:{upper}]", dimension.lower)
        });
        text(bounds.collect::<String>())
    }),
    ("array_fill", "anyelement,int4[] -> anyarray null", |call| {
        let counts = call.items(1);
        let [Value::Int4(count)] = counts else {
            return Err(Error::unsupported("array_fill() of several dimensions is not supported"));
        };
        if i64::from(*count) > ELEMENTS_MAX {
            return Err(too_many());
        }
        let count = usize::try_from(*count).unwrap_or(0);
        array(call.returns.element().unwrap_or(&DataType::Text), vec![call.value(0).clone(); count])
    }),
    ("__ordinals", "anyarray -> int8[]", |call| {
        let count = call.items(0).len() as i64;
        array(&DataType::Int8, (1..=count).map(Value::Int8).collect())
    }),
    ("__places", "anyarray -> int4[]", |call| {
        let count = i32::try_from(call.items(0).len()).unwrap_or(i32::MAX);
        array(&DataType::Int4, (1..=count).map(Value::Int4).collect())
    }),
    ("__series", "numeric,numeric -> numeric[]", decimals),
    ("__series", "numeric,numeric,numeric -> numeric[]", decimals),
    ("__series", "int4,int4 -> int4[]", series),
    ("__series", "int4,int4,int4 -> int4[]", series),
    ("__series", "int8,int8 -> int8[]", series),
    ("__series", "int8,int8,int8 -> int8[]", series),
    ("__series", "timestamp,timestamp,interval -> timestamp[]", moments),
    ("__series", "timestamptz,timestamptz,interval -> timestamptz[] stable", moments),
    ("__subscripts", "anyarray,int4 -> int4[]", |call| {
        let length = dimension(call).map_or(0, |found| found.length as i32);
        array(&DataType::Int4, (1..=length).map(Value::Int4).collect())
    }),
];

fn subscript(call: &Call<'_>) -> Result<Value> {
    let Value::Array(whole) = call.value(0) else { return Ok(Value::Null) };
    let lower = whole.dimensions.first().map_or(1, |dimension| i64::from(dimension.lower));
    if whole.dimensions.len() != 1 {
        return Ok(Value::Null);
    }
    let at = usize::try_from(call.int(1) - lower).ok();
    Ok(at.and_then(|at| whole.values.get(at)).cloned().unwrap_or_default())
}

fn dimension(call: &Call<'_>) -> Option<ArrayDimension> {
    let Value::Array(whole) = call.value(0) else { return None };
    let at = usize::try_from(call.int(1) - 1).ok()?;
    whole.dimensions.get(at).copied()
}

fn rebuilt(call: &Call<'_>, values: Vec<Value>) -> Result<Value> {
    if call.value(0).is_null() {
        return Ok(Value::Null);
    }
    array(call.returns.element().unwrap_or(&DataType::Text), values)
}

fn concat(call: &Call<'_>) -> Result<Value> {
    match (call.value(0), call.value(1)) {
        (Value::Null, other) | (other, Value::Null) => Ok(other.clone()),
        (Value::Array(left), Value::Array(right)) => {
            if left.dimensions.len().max(right.dimensions.len()) > 1 {
                return join_levels(left, right);
            }
            let all = left.values.iter().chain(&right.values).cloned().collect();
            array(call.returns.element().unwrap_or(&DataType::Text), all)
        }
        _ => Ok(Value::Null),
    }
}

/// Returns two arrays of several dimensions one after the other.
fn join_levels(left: &Array, right: &Array) -> Result<Value> {
    let same = left.dimensions.len() == right.dimensions.len()
        && left.dimensions.iter().skip(1).eq(right.dimensions.iter().skip(1));
    if !same {
        let message = "cannot concatenate incompatible arrays";
        return Err(Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
    }
    let mut whole = left.clone();
    whole.dimensions[0].length += right.dimensions[0].length;
    whole.values.extend(right.values.iter().cloned());
    Ok(Value::Array(Arc::new(whole)))
}

fn append(call: &Call<'_>) -> Result<Value> {
    let all = call.items(0).iter().chain([call.value(1)]).cloned().collect();
    array(call.returns.element().unwrap_or(&DataType::Text), all)
}

fn prepend(call: &Call<'_>) -> Result<Value> {
    let all = [call.value(0)].into_iter().chain(call.items(1)).cloned().collect();
    array(call.returns.element().unwrap_or(&DataType::Text), all)
}

fn join(call: &Call<'_>, null: Option<&str>) -> Result<Value> {
    let parts: Vec<String> = call
        .items(0)
        .iter()
        .filter_map(|item| match item {
            Value::Null => null.map(str::to_owned),
            item => Some(value_text(item, &call.context.settings)),
        })
        .collect();
    text(parts.join(call.text(1)))
}

fn contains(call: &Call<'_>, whole: usize, part: usize) -> bool {
    call.items(part).iter().all(|item| !item.is_null() && call.items(whole).contains(item))
}

fn zero_step() -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero")
}

fn too_many() -> Error {
    let message = format!("generate_series() has a limit of {ELEMENTS_MAX} rows");
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

fn decimals(call: &Call<'_>) -> Result<Value> {
    let number = |at: usize| match call.value(at) {
        Value::Numeric(number) => number.clone(),
        _ => relational::Numeric::from(1),
    };
    let (mut here, last, step) = (number(0), number(1), number(2));
    if step.is_zero() {
        let message = "step size cannot equal zero";
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let down = step.is_negative();
    let mut out = Vec::new();
    while if down { here >= last } else { here <= last } {
        if out.len() as i64 >= ELEMENTS_MAX {
            return Err(too_many());
        }
        out.push(Value::Numeric(here.clone()));
        here = here.add(&step)?;
    }
    array(&DataType::Numeric(None), out)
}

fn series(call: &Call<'_>) -> Result<Value> {
    let (start, end) = (call.int(0), call.int(1));
    let step = if call.arguments.len() > 2 { call.int(2) } else { 1 };
    if step == 0 {
        return Err(zero_step());
    }
    let count = (i128::from(end) - i128::from(start)) / i128::from(step);
    if count >= i128::from(ELEMENTS_MAX) {
        return Err(too_many());
    }
    let backwards = (step > 0 && start > end) || (step < 0 && start < end);
    let count = if backwards { 0 } else { count as i64 + 1 };
    let element = call.returns.element().unwrap_or(&DataType::Int8);
    let value = |at: i64| match element {
        DataType::Int4 => Value::Int4((start + at * step) as i32),
        _ => Value::Int8(start + at * step),
    };
    array(element, (0..count).map(value).collect())
}

fn moments(call: &Call<'_>) -> Result<Value> {
    let element = call.returns.element().unwrap_or(&DataType::Timestamp);
    let zone = (*element == DataType::TimestampTz).then_some(call.context.settings.zone);
    let (end, step) = (call.moment(1), call.span(2));
    let total = crate::values::time::interval_total(step);
    if total == 0 {
        return Err(zero_step());
    }
    let mut here = call.moment(0);
    let mut values = Vec::new();
    while (total > 0 && here <= end) || (total < 0 && here >= end) {
        if values.len() as i64 >= ELEMENTS_MAX {
            return Err(too_many());
        }
        values.push(match zone {
            Some(_) => Value::TimestampTz(here),
            None => Value::Timestamp(here),
        });
        here = crate::values::time::plus_interval(here, step, zone)?;
    }
    array(element, values)
}
