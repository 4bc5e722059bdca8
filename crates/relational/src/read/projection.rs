//! Rows of the wanted columns, from keys and cells.

use crate::Row;
use crate::catalog::Table;
use crate::error::{Error, Result};
use crate::format::row::decode_row;
use crate::types::Value;

/// The wanted columns of a table.
#[derive(Debug, Clone)]
pub(super) struct Projection {
    /// For each place in a row of the table, the place in the result; nothing if all places stay.
    places: Option<Vec<Option<usize>>>,
    width: usize,
    /// True if a value of the key is wanted.
    needs_key: bool,
}

impl Projection {
    /// Returns the projection on all columns, and on the row id if the table has one.
    pub(super) fn all(table: &Table) -> Self {
        Self { places: None, width: table.row_width(), needs_key: true }
    }

    /// Returns the projection on some places of a row, in this order. XX000 if a place is twice in it, or
    /// is not in the row.
    pub(super) fn of(table: &Table, wanted: &[usize]) -> Result<Self> {
        let mut places = vec![None; table.row_width()];
        for (at, place) in wanted.iter().enumerate() {
            match places.get_mut(*place) {
                Some(free @ None) => *free = Some(at),
                _ => return Err(Error::internal(format!("column {place} cannot be projected"))),
            }
        }
        let needs_key = table.key_places().iter().any(|place| places[*place].is_some());
        Ok(Self { places: Some(places), width: wanted.len(), needs_key })
    }

    #[inline]
    fn place(&self, place: usize) -> Option<usize> {
        match &self.places {
            None => Some(place),
            Some(places) => places[place],
        }
    }

    /// Returns the wanted columns of a row.
    pub(super) fn row(&self, table: &Table, key: &[u8], cell: &[u8]) -> Result<Row> {
        let mut row = vec![Value::Null; self.width];
        if self.needs_key {
            let places = table.key_places();
            table.layout.key.decode_each(key, |at, value| {
                if let Some(place) = self.place(places[at]) {
                    row[place] = value;
                }
            })?;
        }
        if self.width > 0 {
            let place = |place| self.place(place);
            decode_row(cell, &table.layout, &table.columns, place, &mut row)?;
        }
        Ok(row)
    }
}

/// Returns the row of a key and its cell. XX001 if one of them is damaged.
pub(crate) fn row_of(table: &Table, key: &[u8], cell: &[u8]) -> Result<Row> {
    Projection::all(table).row(table, key, cell)
}
