//! The row keys that a condition can hold for.
//!
//! Invariant: a row whose key lies in none of the ranges does not fulfil the condition. If the ranges
//! are exact, every other row does.

use super::sql::expr::{Comparison, Expr, LikePart, Row, like_parts};
use super::sql::functions::{Function, raw};
use super::sql::types::Value;
use bytes::Bytes;
use engine::RowRange;
use table::limits::ROW_KEY_BYTES_MAX;
use table::row_set::{intersect, merge};

/// Ranges of row keys, sorted and disjoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) ranges: Vec<RowRange>,
    /// True if the condition holds for every row in the ranges.
    pub(super) exact: bool,
}

impl Keys {
    /// Returns the keys of every row, among which the condition has still to choose.
    fn some() -> Self {
        Self { ranges: vec![RowRange::ALL], exact: false }
    }

    fn none() -> Self {
        Self { ranges: Vec::new(), exact: true }
    }

    fn of(ranges: Vec<RowRange>) -> Self {
        Self { ranges: merge(ranges), exact: true }
    }
}

/// Returns the keys that a condition can hold for, after its parameters are bound.
pub(super) fn keys(condition: &Expr) -> Keys {
    match condition {
        Expr::And(parts) => {
            let all = Keys { ranges: vec![RowRange::ALL], exact: true };
            parts.iter().map(keys).fold(all, |left, right| Keys {
                ranges: intersect(&left.ranges, &right.ranges),
                exact: left.exact && right.exact,
            })
        }
        Expr::Or(parts) => {
            let parts: Vec<Keys> = parts.iter().map(keys).collect();
            let exact = parts.iter().all(|part| part.exact);
            Keys { ranges: merge(parts.into_iter().flat_map(|part| part.ranges).collect()), exact }
        }
        Expr::Compare(how, sides) => {
            let [left, right] = &**sides;
            let (key, how, other) = match is_key(right) {
                true => (right, how.swapped(), left),
                false => (left, *how, right),
            };
            of_key(key, &[other], |values| match values {
                [Some(value)] => compared(how, value),
                _ => Keys::none(),
            })
        }
        Expr::Between(parts) => {
            let [key, low, high] = &**parts;
            of_key(key, &[low, high], |values| match values {
                [Some(low), Some(high)] => {
                    Keys::of(vec![RowRange { start: at(low), end: Some(after(high)) }])
                }
                _ => Keys::none(),
            })
        }
        Expr::InSet(key, set) => {
            of_key(key, &[], |_| any_of(set.values().iter().filter_map(bytes)))
        }
        Expr::Like(sides) => {
            let [key, pattern] = &**sides;
            of_key(key, &[pattern], |values| match values {
                [Some(pattern)] => like(pattern),
                _ => Keys::none(),
            })
        }
        Expr::Call(Function::StartsWith, args) => match &args[..] {
            [key, prefix] => of_key(key, &[prefix], |values| match values {
                [Some(prefix)] => Keys::of(vec![prefixed(prefix)]),
                _ => Keys::none(),
            }),
            _ => Keys::some(),
        },
        Expr::Literal(Value::Bool(true)) => Keys::of(vec![RowRange::ALL]),
        Expr::Literal(Value::Bool(false) | Value::Null) => Keys::none(),
        _ => Keys::some(),
    }
}

/// Returns whether the expression is the key, or its text.
fn is_key(expr: &Expr) -> bool {
    match expr {
        Expr::Key => true,
        Expr::Cast(cast) => cast.keeps_bytes() && is_key(&cast.expr),
        _ => false,
    }
}

/// Returns the keys of a condition that compares `key` with the constants `others`: `ranges` gets
/// their bytes, `None` for NULL. A condition on something else, or with others, says nothing of keys.
fn of_key(key: &Expr, others: &[&Expr], ranges: impl FnOnce(&[Option<Bytes>]) -> Keys) -> Keys {
    if !is_key(key) {
        return Keys::some();
    }
    let mut values = Vec::with_capacity(others.len());
    for other in others {
        match constant(other) {
            Some(value) => values.push(bytes(&value)),
            None => return Keys::some(),
        }
    }
    let keys = ranges(&values);
    // The text of a key has the order of its bytes, but not every key has one.
    Keys { exact: keys.exact && *key == Expr::Key, ..keys }
}

fn constant(expr: &Expr) -> Option<Value> {
    let value = || expr.eval(&Row::default()).ok().map(std::borrow::Cow::into_owned);
    expr.is_constant().then(value).flatten()
}

fn bytes(value: &Value) -> Option<Bytes> {
    match value {
        Value::Bytes(bytes) => Some(bytes.clone()),
        Value::String(_) => Some(Bytes::copy_from_slice(raw(value))),
        _ => None,
    }
}

fn compared(how: Comparison, value: &[u8]) -> Keys {
    let range = |start: Vec<u8>, end: Option<Vec<u8>>| Keys::of(vec![RowRange { start, end }]);
    match how {
        Comparison::Equal => range(at(value), Some(after(value))),
        Comparison::NotEqual => Keys::some(),
        Comparison::Less => range(Vec::new(), Some(at(value))),
        Comparison::LessOrEqual => range(Vec::new(), Some(after(value))),
        Comparison::Greater => range(after(value), None),
        Comparison::GreaterOrEqual => range(at(value), None),
    }
}

fn any_of(values: impl Iterator<Item = Bytes>) -> Keys {
    Keys::of(values.map(|key| RowRange { start: at(&key), end: Some(after(&key)) }).collect())
}

/// Returns the first key that is not before `key`; no row key is longer than the limit.
fn at(key: &[u8]) -> Vec<u8> {
    if key.len() > ROW_KEY_BYTES_MAX { after(&key[..ROW_KEY_BYTES_MAX]) } else { key.to_vec() }
}

/// Returns the first key after `key`.
fn after(key: &[u8]) -> Vec<u8> {
    let mut next = key[..key.len().min(ROW_KEY_BYTES_MAX)].to_vec();
    next.push(0);
    next
}

fn prefixed(prefix: &[u8]) -> RowRange {
    if prefix.len() > ROW_KEY_BYTES_MAX {
        return RowRange { start: Vec::new(), end: Some(Vec::new()) };
    }
    RowRange::prefix(prefix)
}

fn like(pattern: &[u8]) -> Keys {
    let Ok(parts) = like_parts(pattern) else { return Keys::some() };
    let byte = |part: &LikePart| match part {
        LikePart::Byte(byte) => Some(*byte),
        LikePart::One | LikePart::Any => None,
    };
    let prefix: Vec<u8> = parts.iter().map_while(byte).collect();
    match &parts[prefix.len()..] {
        [] => compared(Comparison::Equal, &prefix),
        rest => Keys { exact: *rest == [LikePart::Any], ..Keys::of(vec![prefixed(&prefix)]) },
    }
}
