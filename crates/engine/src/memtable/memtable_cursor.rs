//! Walking a memtable row by row.

use super::Memtable;
use super::rows::Rows;
use crate::cell::{Column, Entry, EntryKey};
use crate::error::Result;
use crate::semantics::row_cursor::RowCursor;
use std::ops::Deref;
use std::sync::Arc;

/// A cursor over a memtable that it borrows or keeps alive. Never fails.
pub struct MemtableCursor<M = Arc<Memtable>> {
    memtable: M,
    /// The current row; 0 when on none.
    row: u32,
    /// The current cell; 0 past the last of the row.
    cell: u32,
}

impl<M: Deref<Target = Memtable>> MemtableCursor<M> {
    /// A cursor over the entries of `memtable`, including those added while it walks.
    pub fn new(memtable: M) -> Self {
        Self { memtable, row: 0, cell: 0 }
    }

    /// Moves to exactly `row`, whose hash is `hash` (`base::checksum::xxh3`), or to no row. Tells
    /// whether it is there. Does not search the order: the cost does not grow with the memtable.
    pub fn seek_row(&mut self, row: &[u8], hash: u64) -> bool {
        let row = self.rows().find(row, hash);
        self.land(row);
        row != 0
    }

    fn rows(&self) -> &Rows {
        &self.memtable.rows
    }

    fn land(&mut self, row: u32) {
        self.row = row;
        self.cell = if row == 0 { 0 } else { self.rows().first_cell(row) };
    }
}

impl<M: Deref<Target = Memtable>> RowCursor for MemtableCursor<M> {
    fn seek(&mut self, row: &[u8]) -> Result<()> {
        let rows = self.rows();
        let row = if row.is_empty() { rows.first() } else { rows.first_from(row) };
        self.land(row);
        Ok(())
    }

    fn seek_before(&mut self, bound: Option<&[u8]>) -> Result<()> {
        let row = self.rows().last_before(bound);
        self.land(row);
        Ok(())
    }

    fn next_row(&mut self) -> Result<()> {
        let row = self.rows().next(self.row);
        self.land(row);
        Ok(())
    }

    fn prev_row(&mut self) -> Result<()> {
        let row = self.rows().last_before(Some(self.rows().row(self.row)));
        self.land(row);
        Ok(())
    }

    fn row(&self) -> Option<&[u8]> {
        (self.row != 0).then(|| self.rows().row(self.row))
    }

    fn entry(&self) -> Option<EntryKey<'_>> {
        (self.cell != 0).then(|| self.rows().key(self.cell))
    }

    fn entry_with_value(&mut self) -> Result<Entry<'_>> {
        Ok(self.rows().entry(self.cell))
    }

    fn next_entry(&mut self) -> Result<()> {
        self.cell = self.rows().next(self.cell);
        Ok(())
    }

    fn skip_to_column(&mut self, column: Column<'_>) -> Result<()> {
        self.cell = self.rows().cell_from(self.row, self.cell, &column);
        Ok(())
    }
}
