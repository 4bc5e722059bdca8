//! Sizes of tables, indexes and the database.
//!
//! 1. Sizes are rough: what a table has in memory counts for its rows.

use super::functions::relation;
use crate::expression::registry::Call;
use relational::catalog::{Relation, Table};
use relational::{Result, Value};

/// The part of a table whose size is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Rows of a table, or entries of an index.
    Own,
    /// Entries of all indexes of a table.
    Indexes,
    /// Rows and the entries of indexes.
    Whole,
}

/// Returns the bytes of a relation; NULL for a number that names no relation.
pub(super) fn of(call: &Call<'_>, size: Size) -> Result<Value> {
    let Some(catalog) = &call.context.catalog else { return Ok(Value::Null) };
    let found = match call.value(0) {
        Value::Oid(oid) => catalog.relation(*oid),
        Value::Int4(oid) => catalog.relation(*oid as u32),
        Value::Int8(oid) => u32::try_from(*oid).ok().and_then(|oid| catalog.relation(oid)),
        Value::Null => None,
        name => relation(call, &name.to_string()),
    };
    let indexes = |table: &Table| -> u64 {
        table.indexes.iter().map(|index| table.bytes_of_index(index.oid)).sum()
    };
    let bytes = match (found, size) {
        (None, _) => return Ok(Value::Null),
        (Some(Relation::Table(table)), Size::Own) => table.bytes().saturating_sub(indexes(&table)),
        (Some(Relation::Table(table)), Size::Indexes) => indexes(&table),
        (Some(Relation::Table(table)), Size::Whole) => table.bytes(),
        (Some(Relation::Index(_, _)), Size::Indexes) => 0,
        (Some(Relation::Index(oid, table)), _) => table.bytes_of_index(oid),
        (Some(_), _) => 0,
    };
    Ok(Value::Int8(i64::try_from(bytes).unwrap_or(i64::MAX)))
}

/// Returns the bytes of all tables.
pub(super) fn of_database(call: &Call<'_>) -> Result<Value> {
    let Some(catalog) = &call.context.catalog else { return Ok(Value::Null) };
    let bytes = catalog.tables().map(|table| table.bytes()).sum::<u64>();
    Ok(Value::Int8(i64::try_from(bytes).unwrap_or(i64::MAX)))
}

/// Returns a number of bytes with a unit.
pub(super) fn pretty(call: &Call<'_>) -> Result<Value> {
    let mut size = match call.value(0) {
        Value::Int8(size) => *size,
        other => {
            other.to_string().split('.').next().and_then(|n| n.parse().ok()).unwrap_or(i64::MAX)
        }
    };
    let mut unit = "bytes";
    for larger in ["kB", "MB", "GB", "TB", "PB"] {
        if size.abs() < 10 * 1024 {
            break;
        }
        size = (size + size.signum() * 512) / 1024;
        unit = larger;
    }
    Ok(Value::text(format!("{size} {unit}")))
}
