//! Comparisons of values that Arrow does not compare as PostgreSQL does, and choices by them.
//!
//! The binder turns comparisons of plain types into Arrow's own; these bodies serve the others.

use std::cmp::Ordering;

use relational::{Result, Value};

use super::{Call, Definition};

pub(super) const TABLE: &[Definition] = &[
    ("op:=", "anyelement,anyelement -> bool", |call| test(call, Ordering::is_eq)),
    ("op:<>", "anyelement,anyelement -> bool", |call| test(call, Ordering::is_ne)),
    ("op:<", "anyelement,anyelement -> bool", |call| test(call, Ordering::is_lt)),
    ("op:<=", "anyelement,anyelement -> bool", |call| test(call, Ordering::is_le)),
    ("op:>", "anyelement,anyelement -> bool", |call| test(call, Ordering::is_gt)),
    ("op:>=", "anyelement,anyelement -> bool", |call| test(call, Ordering::is_ge)),
    ("op:is distinct", "anyelement,anyelement -> bool null", |call| {
        Ok(Value::Bool(call.value(0) != call.value(1)))
    }),
    ("op:is not distinct", "anyelement,anyelement -> bool null", |call| {
        Ok(Value::Bool(call.value(0) == call.value(1)))
    }),
    ("greatest", "anyelement... -> anyelement null", |call| choose(call, Ordering::Greater)),
    ("least", "anyelement... -> anyelement null", |call| choose(call, Ordering::Less)),
    ("num_nulls", "any... -> int4 null", |call| count(call, true)),
    ("num_nonnulls", "any... -> int4 null", |call| count(call, false)),
];

fn test(call: &Call<'_>, wanted: fn(Ordering) -> bool) -> Result<Value> {
    Ok(Value::Bool(wanted(call.value(0).cmp(call.value(1)))))
}

fn choose(call: &Call<'_>, wanted: Ordering) -> Result<Value> {
    let mut best = &Value::Null;
    for value in call.arguments.iter().filter(|value| !value.is_null()) {
        if best.is_null() || value.cmp(best) == wanted {
            best = value;
        }
    }
    Ok(best.clone())
}

fn count(call: &Call<'_>, nulls: bool) -> Result<Value> {
    let found = call.arguments.iter().filter(|value| value.is_null() == nulls).count();
    Ok(Value::Int4(found as i32))
}
