//! Checks of rows before they are written: width, types, NOT NULL.

use crate::Row;
use crate::catalog::{Catalog, Table};
use crate::error::{Error, Result};
use crate::state::SqlState;
use crate::types::{DataType, Value};

/// Longest value that an error shows, in bytes.
const SHOWN_BYTES_MAX: usize = 64;

/// Checks the values of a row. 23502 for a NULL where none may be; XX000 if the caller gives a value of
/// another type than the column, or another number of values.
pub(super) fn check_row(catalog: &Catalog, table: &Table, row: &Row) -> Result<()> {
    if row.len() != table.row_width() {
        let (have, want) = (row.len(), table.row_width());
        let text = format!("a row of {have} values for table {} of {want}", table.name);
        return Err(Error::internal(text));
    }
    for (column, value) in table.columns.iter().zip(row) {
        if value.is_null() {
            if column.not_null {
                return Err(null_violation(catalog, table, &column.name, row));
            }
        } else if !fits(value, &column.data_type) {
            let (name, data_type) = (&column.name, &column.data_type);
            let text = format!("column {name} of type {data_type} was given {value:?}");
            return Err(Error::internal(text));
        }
    }
    Ok(())
}

fn null_violation(catalog: &Catalog, table: &Table, column: &str, row: &Row) -> Error {
    let message = format!(
        "null value in column \"{column}\" of relation \"{}\" violates not-null constraint",
        table.name
    );
    let shown = row.iter().take(table.columns.len()).map(|value| shortened(value.to_string()));
    let detail = format!("Failing row contains ({}).", shown.collect::<Vec<_>>().join(", "));
    Error::new(SqlState::NOT_NULL_VIOLATION, message)
        .with_detail(detail)
        .of_table(schema_name(catalog, table), &table.name)
        .of_column(column)
}

/// Returns a value as an error shows it: with 64 bytes at most, as PostgreSQL does.
fn shortened(mut value: String) -> String {
    if value.len() > SHOWN_BYTES_MAX {
        let end = value.floor_char_boundary(SHOWN_BYTES_MAX);
        value.truncate(end);
        value.push_str("...");
    }
    value
}

/// Returns the name of the schema of a table.
pub(super) fn schema_name(catalog: &Catalog, table: &Table) -> String {
    catalog.schema(table.schema).map(|schema| schema.name.clone()).unwrap_or_default()
}

/// Returns true if a value that is not NULL is one of the type.
fn fits(value: &Value, data_type: &DataType) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) => *data_type == DataType::Bool,
        Value::Int2(_) => *data_type == DataType::Int2,
        Value::Int4(_) => *data_type == DataType::Int4,
        Value::Int8(_) => *data_type == DataType::Int8,
        Value::Float4(_) => *data_type == DataType::Float4,
        Value::Float8(_) => *data_type == DataType::Float8,
        Value::Numeric(_) => matches!(data_type, DataType::Numeric(_)),
        Value::Text(_) => data_type.is_textual(),
        Value::Bytea(_) => *data_type == DataType::Bytea,
        Value::Uuid(_) => *data_type == DataType::Uuid,
        Value::Date(_) => *data_type == DataType::Date,
        Value::Time(_) => *data_type == DataType::Time,
        Value::Timestamp(_) => *data_type == DataType::Timestamp,
        Value::TimestampTz(_) => *data_type == DataType::TimestampTz,
        Value::Interval { .. } => *data_type == DataType::Interval,
        Value::Jsonb(_) => *data_type == DataType::Jsonb,
        Value::Oid(_) => *data_type == DataType::Oid,
        Value::Array(array) => match data_type {
            DataType::Array(element) => array.values.iter().all(|value| fits(value, element)),
            _ => false,
        },
    }
}
