//! Walking a memtable row by row.

use super::Memtable;
use super::skiplist::{SkipList, Target};
use crate::cell::{Column, Entry, EntryKey};
use crate::cursor::RowCursor;
use crate::error::Result;
use std::sync::Arc;

/// A cursor over a memtable; keeps it alive. Never fails.
pub struct MemtableCursor {
    memtable: Arc<Memtable>,
    /// Some node of the current row; 0 when on no row.
    row: u32,
    /// The current entry; 0 past the last of the row.
    entry: u32,
}

impl MemtableCursor {
    pub(super) fn new(memtable: Arc<Memtable>) -> Self {
        Self { memtable, row: 0, entry: 0 }
    }

    fn list(&self) -> &SkipList {
        &self.memtable.list
    }

    fn land(&mut self, node: u32) {
        (self.row, self.entry) = (node, node);
    }

    /// `node` if it belongs to the current row, else 0.
    fn in_row(&self, node: u32) -> u32 {
        let same = node != 0 && self.list().row(node) == self.list().row(self.row);
        if same { node } else { 0 }
    }

    /// Lands on the first entry of the row that `last` is an entry of.
    fn land_on_row_of(&mut self, last: u32) {
        let first = match last {
            0 => 0,
            last => self.list().first_from(Target::RowStart(self.list().row(last))),
        };
        self.land(first);
    }
}

impl RowCursor for MemtableCursor {
    fn seek(&mut self, row: &[u8]) -> Result<()> {
        let node = self.list().first_from(Target::RowStart(row));
        self.land(node);
        Ok(())
    }

    fn seek_before(&mut self, bound: Option<&[u8]>) -> Result<()> {
        let last = self.list().last_before(bound.map_or(Target::End, Target::RowStart));
        self.land_on_row_of(last);
        Ok(())
    }

    fn next_row(&mut self) -> Result<()> {
        // Most rows are short: try a step before a search.
        let next = if self.entry == 0 { 0 } else { self.list().next(self.entry) };
        let node = if next != 0 && self.in_row(next) == 0 {
            next
        } else {
            self.list().first_from(Target::RowEnd(self.list().row(self.row)))
        };
        self.land(node);
        Ok(())
    }

    fn prev_row(&mut self) -> Result<()> {
        let last = self.list().last_before(Target::RowStart(self.list().row(self.row)));
        self.land_on_row_of(last);
        Ok(())
    }

    fn row(&self) -> Option<&[u8]> {
        (self.row != 0).then(|| self.list().row(self.row))
    }

    fn entry(&self) -> Option<EntryKey<'_>> {
        (self.entry != 0).then(|| self.list().key(self.entry))
    }

    fn entry_with_value(&mut self) -> Result<Entry<'_>> {
        Ok(self.list().entry(self.entry))
    }

    fn next_entry(&mut self) -> Result<()> {
        self.entry = self.in_row(self.list().next(self.entry));
        Ok(())
    }

    fn skip_to_column(&mut self, column: Column<'_>) -> Result<()> {
        if self.entry != 0 && self.list().key(self.entry).column < column {
            let row = self.list().row(self.row);
            self.entry = self.in_row(self.list().first_from(Target::Column(row, column)));
        }
        Ok(())
    }
}
