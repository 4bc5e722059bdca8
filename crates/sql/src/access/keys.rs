//! Keys of an access, with the values of parameters.
//!
//! Invariants:
//! 1. Ranges are disjoint and in the order of the key.
//! 2. A value that is not of the column's type, such as 1.5 for an integer, narrows nothing.

use super::{Access, Part};
use crate::statement::Eval;
use crate::values;
use relational::{DataType, KeyRange, Result, Value};
use std::cmp::Ordering;
use std::ops::Bound as Limit;

/// Most combinations of values that are looked up one by one.
const COMBINATIONS_MAX: usize = 10_000;

/// The keys that an access reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Keys {
    /// Whole keys of the table.
    Points(Vec<Vec<Value>>),
    /// Ranges of keys of the table or of an index.
    Ranges(Vec<KeyRange>),
}

/// A constant as a value of a column.
enum Fitted {
    Exact(Value),
    /// The constant is NULL, which nothing compares with.
    Null,
    /// The type of the column does not have the value.
    Unfit,
}

pub(super) fn resolve(access: &Access, eval: &Eval) -> Result<Keys> {
    let mut prefixes: Vec<Vec<Value>> = vec![Vec::new()];
    let mut used = 0;
    for part in &access.parts[..access.equal] {
        let Some(values) = equal_values(access, part, eval)? else { break };
        if prefixes.len().saturating_mul(values.len()) > COMBINATIONS_MAX {
            break;
        }
        used += 1;
        let longer = prefixes.iter().flat_map(|prefix| {
            values.iter().map(move |value| {
                let mut prefix = prefix.clone();
                prefix.push(value.clone());
                prefix
            })
        });
        prefixes = longer.collect();
    }
    prefixes.sort_by(|a, b| compare(access, a, b));
    prefixes.dedup();
    if access.is_point() && used == access.parts.len() {
        return Ok(Keys::Points(prefixes));
    }
    let next = access.parts.get(used).filter(|_| used == access.equal);
    let Some((lower, upper)) =
        next.map_or(Ok(Some(Default::default())), |p| range(access, p, eval))?
    else {
        return Ok(Keys::Ranges(Vec::new()));
    };
    let with = |prefix: &[Value], value: &Option<(Value, bool)>| match value {
        None if prefix.is_empty() => Limit::Unbounded,
        None => Limit::Included(prefix.to_vec()),
        Some((value, is_included)) => {
            let mut key = prefix.to_vec();
            key.push(value.clone());
            if *is_included { Limit::Included(key) } else { Limit::Excluded(key) }
        }
    };
    let is_descending = next.is_some_and(|part| part.part.descending);
    let (first, last) = if is_descending { (&upper, &lower) } else { (&lower, &upper) };
    let ranges = prefixes
        .iter()
        .map(|prefix| KeyRange { lower: with(prefix, first), upper: with(prefix, last) });
    Ok(Keys::Ranges(ranges.collect()))
}

/// Returns the values that a part of the key is one of, or nothing if they do not narrow it.
fn equal_values(access: &Access, part: &Part, eval: &Eval) -> Result<Option<Vec<Value>>> {
    let data_type = &access.table.columns[part.place].data_type;
    let Some(wanted) = part.bounds.as_ref().and_then(|bounds| bounds.equal.as_ref()) else {
        return Ok(None);
    };
    let mut values = Vec::with_capacity(wanted.len());
    for bound in wanted {
        match fitted(bound.value(&[], eval)?, data_type, eval.settings()) {
            Fitted::Exact(value) => values.push(value),
            Fitted::Null => {}
            Fitted::Unfit => return Ok(None),
        }
    }
    Ok(Some(values))
}

/// A limit of a range, and whether it is part of it.
type Edge = Option<(Value, bool)>;

/// Returns the limits of a part of the key; nothing if no value is between them.
fn range(access: &Access, part: &Part, eval: &Eval) -> Result<Option<(Edge, Edge)>> {
    let Some(bounds) = &part.bounds else { return Ok(Some((None, None))) };
    let data_type = &access.table.columns[part.place].data_type;
    let (mut lower, mut upper): (Edge, Edge) = (None, None);
    let sides = [
        (&bounds.lower, &mut lower, Ordering::Greater),
        (&bounds.upper, &mut upper, Ordering::Less),
    ];
    for (limits, edge, better) in sides {
        for limit in limits {
            match fitted(limit.value.value(&[], eval)?, data_type, eval.settings()) {
                Fitted::Exact(value) => {
                    let is_better = edge.as_ref().is_none_or(|(known, is_included)| {
                        let order = value.cmp(known);
                        order == better || (order == Ordering::Equal && *is_included)
                    });
                    if is_better {
                        *edge = Some((value, limit.is_included));
                    }
                }
                Fitted::Null => return Ok(None),
                Fitted::Unfit => {}
            }
        }
    }
    if let Some(prefix) = &bounds.prefix
        && lower.is_none()
        && upper.is_none()
    {
        lower = Some((Value::Text(prefix.as_str().into()), true));
        upper = after(prefix).map(|text| (Value::Text(text.into()), false));
    }
    Ok(Some((lower, upper)))
}

/// Returns the first text, in the order of bytes, behind all texts that begin with `prefix`.
fn after(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(last as u32 + 1),
        };
        if let Some(next) = next {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

fn compare(access: &Access, a: &[Value], b: &[Value]) -> Ordering {
    for ((a, b), part) in a.iter().zip(b).zip(&access.parts) {
        let order = a.cmp(b);
        let order = if part.part.descending { order.reverse() } else { order };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

/// Returns a constant as a value of `data_type` that compares as the constant does.
fn fitted(value: Value, data_type: &DataType, settings: &values::Settings) -> Fitted {
    if value == Value::Null {
        return Fitted::Null;
    }
    let is_same = |value: &Value| {
        matches!(
            (value, data_type),
            (Value::Bool(_), DataType::Bool)
                | (Value::Int2(_), DataType::Int2)
                | (Value::Int4(_), DataType::Int4)
                | (Value::Int8(_), DataType::Int8)
                | (Value::Float4(_), DataType::Float4)
                | (Value::Float8(_), DataType::Float8)
                | (Value::Numeric(_), DataType::Numeric(_))
                | (Value::Text(_), DataType::Text | DataType::Varchar(_) | DataType::Name)
                | (Value::Bytea(_), DataType::Bytea)
                | (Value::Uuid(_), DataType::Uuid)
                | (Value::Date(_), DataType::Date)
                | (Value::Time(_), DataType::Time)
                | (Value::Timestamp(_), DataType::Timestamp)
                | (Value::TimestampTz(_), DataType::TimestampTz)
                | (Value::Oid(_), DataType::Oid)
        )
    };
    if is_same(&value) {
        return Fitted::Exact(value);
    }
    if let (Value::Text(text), DataType::Char(_)) = (&value, data_type) {
        // Keys have no blanks at the end, and a text may be compared with them or without.
        return match text.ends_with(' ') {
            true => Fitted::Unfit,
            false => Fitted::Exact(value),
        };
    }
    let is_integer = matches!(value, Value::Int2(_) | Value::Int4(_) | Value::Int8(_));
    let is_exact = match (&value, data_type) {
        (_, DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Oid) => {
            is_integer || is_whole(&value)
        }
        (_, DataType::Numeric(_)) => is_integer,
        (Value::Int2(_) | Value::Int4(_), DataType::Float8) => true,
        _ => false,
    };
    if !is_exact {
        return Fitted::Unfit;
    }
    match values::cast(value, &unbounded(data_type), settings) {
        Ok(value) if is_same(&value) => Fitted::Exact(value),
        _ => Fitted::Unfit,
    }
}

fn unbounded(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Numeric(_) => DataType::Numeric(None),
        other => other.clone(),
    }
}

/// Returns whether a number without integer type is an integer.
fn is_whole(value: &Value) -> bool {
    match value {
        Value::Numeric(number) => {
            number.finite().is_some() && number.truncate(0).is_ok_and(|whole| whole == *number)
        }
        Value::Float8(number) => number.fract() == 0.0 && number.abs() < 9e15,
        Value::Float4(number) => number.fract() == 0.0 && number.abs() < 9e6,
        _ => false,
    }
}
