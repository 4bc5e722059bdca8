//! The table as its users see it: lines, types, shares of values, and what the queries select.

mod lines;
mod selected;
mod shares;

use super::{COLUMNS, Row, Value};

/// Returns the position of a column.
fn at(name: &str) -> usize {
    COLUMNS.iter().position(|column| column.name == name).expect(name)
}

/// Returns the number in a column of numbers, dates or times.
fn number(row: &Row, column: usize) -> i64 {
    match row.value(column) {
        Value::SmallInt(value) => value.into(),
        Value::Integer(value) | Value::Date(value) => value.into(),
        Value::BigInt(value) | Value::Timestamp(value) => value,
        Value::Text(text) => panic!("{} is text: {text:?}", COLUMNS[column].name),
    }
}

/// Returns the text in a column of text.
fn text(row: &Row, column: usize) -> &str {
    match row.value(column) {
        Value::Text(text) => text,
        value => panic!("{} is no text: {value:?}", COLUMNS[column].name),
    }
}
