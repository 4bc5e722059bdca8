//! One row in memory: its values in the order of the columns. The memory is used again for the next row.

use super::columns::{COLUMNS, ColumnType};
use std::ops::Range;

/// The value of a column. It lives until its row is filled again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A value of a [`ColumnType::SmallInt`].
    SmallInt(i16),
    /// A value of a [`ColumnType::Integer`].
    Integer(i32),
    /// A value of a [`ColumnType::BigInt`].
    BigInt(i64),
    /// A day, in days since 1970-01-01.
    Date(i32),
    /// A time, in seconds since 1970-01-01 00:00:00.
    Timestamp(i64),
    /// Text of any of the three text types.
    Text(&'a str),
}

/// A value whose text lies in the row.
#[derive(Debug, Clone)]
enum Cell {
    SmallInt(i16),
    Integer(i32),
    BigInt(i64),
    Date(i32),
    Timestamp(i64),
    Text(Range<usize>),
}

/// A row of the table, empty until [`Hits::fill`](super::Hits::fill) fills it.
#[derive(Debug, Clone, Default)]
pub struct Row {
    cells: Vec<Cell>,
    text: String,
}

impl Row {
    /// Returns the value of column `index`, which is a position in [`COLUMNS`]. Panics if the row was
    /// never filled, or there is no such column.
    pub fn value(&self, index: usize) -> Value<'_> {
        self.borrow(&self.cells[index])
    }

    /// Returns the values of all columns in their order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = Value<'_>> {
        self.cells.iter().map(|cell| self.borrow(cell))
    }

    #[inline]
    fn borrow(&self, cell: &Cell) -> Value<'_> {
        match cell {
            Cell::SmallInt(value) => Value::SmallInt(*value),
            Cell::Integer(value) => Value::Integer(*value),
            Cell::BigInt(value) => Value::BigInt(*value),
            Cell::Date(days) => Value::Date(*days),
            Cell::Timestamp(seconds) => Value::Timestamp(*seconds),
            Cell::Text(range) => Value::Text(&self.text[range.clone()]),
        }
    }

    pub(super) fn clear(&mut self) {
        self.cells.clear();
        self.text.clear();
    }

    /// Asserts that each column has its value.
    pub(super) fn finish(&self) {
        assert_eq!(self.cells.len(), COLUMNS.len(), "each column has one value");
    }

    fn push(&mut self, cell: Cell) {
        debug_assert!(fits(&cell, self.cells.len()), "column {} got {cell:?}", self.cells.len());
        self.cells.push(cell);
    }

    pub(super) fn small(&mut self, value: i16) {
        self.push(Cell::SmallInt(value));
    }

    pub(super) fn smalls(&mut self, values: &[i16]) {
        values.iter().for_each(|value| self.small(*value));
    }

    pub(super) fn integer(&mut self, value: i32) {
        self.push(Cell::Integer(value));
    }

    pub(super) fn big(&mut self, value: i64) {
        self.push(Cell::BigInt(value));
    }

    pub(super) fn date(&mut self, days: i32) {
        self.push(Cell::Date(days));
    }

    pub(super) fn timestamp(&mut self, seconds: i64) {
        self.push(Cell::Timestamp(seconds));
    }

    pub(super) fn text(&mut self, text: &str) {
        self.text_by(|out| out.push_str(text));
    }

    pub(super) fn empty_texts(&mut self, count: usize) {
        (0..count).for_each(|_| self.text(""));
    }

    /// Adds the text that `write` appends to its argument, and returns it.
    pub(super) fn text_by(&mut self, write: impl FnOnce(&mut String)) -> &str {
        let start = self.text.len();
        write(&mut self.text);
        let end = self.text.len();
        self.push(Cell::Text(start..end));
        &self.text[start..end]
    }

    /// Adds the text of column `index`, which has one already, once more.
    pub(super) fn same_text(&mut self, index: usize) {
        let cell = self.cells[index].clone();
        self.push(cell);
    }
}

fn fits(cell: &Cell, index: usize) -> bool {
    let Some(column) = COLUMNS.get(index) else { return false };
    match cell {
        Cell::SmallInt(_) => column.column_type == ColumnType::SmallInt,
        Cell::Integer(_) => column.column_type == ColumnType::Integer,
        Cell::BigInt(_) => column.column_type == ColumnType::BigInt,
        Cell::Date(_) => column.column_type == ColumnType::Date,
        Cell::Timestamp(_) => column.column_type == ColumnType::Timestamp,
        Cell::Text(_) => {
            matches!(column.column_type, ColumnType::Char | ColumnType::VarChar | ColumnType::Text)
        }
    }
}
