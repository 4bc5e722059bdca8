//! Rows of a page, put together from the chunks of `ReadRows`.
//!
//! Invariants:
//! 1. A value is held up to the bytes that are shown of it, however long it is.
//! 2. A page ends at its bounds, within a row if need be. It has at least one row if there is one.
//! 3. A page that ends within a value has its cell, with the bytes that came and the length of the whole
//!    value. The next page begins after the cell.

use super::super::request::shown::{Allowance, Shown};
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2::read_rows_response::CellChunk;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2::read_rows_response::cell_chunk::RowStatus;
use serde::Serialize;

/// Bounds of a page of rows or cells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Cells of a row that are shown; the read asks for one more, to know whether there are more.
    pub(super) row_cells: usize,
    /// Bytes of a value that are shown.
    pub(super) value_bytes: usize,
    /// Bytes of keys, qualifiers and values that the page has.
    pub(super) page_bytes: usize,
    /// Bytes of values that the read may yield, shown or not.
    pub(super) read_bytes: usize,
}

/// A cell of a page.
#[derive(Debug, Serialize)]
pub(super) struct CellView {
    family: String,
    qualifier: Shown,
    /// Microseconds as a text: a number of JavaScript is not exact.
    timestamp_micros: String,
    value: Shown,
}

/// A row of a page.
#[derive(Debug, Serialize)]
pub(super) struct RowView {
    /// The whole key, which is needed to ask for the row.
    key: Shown,
    cells: Vec<CellView>,
    /// True if the row has more cells.
    pub(super) more_cells: bool,
    #[serde(skip)]
    pub(super) raw_key: Vec<u8>,
}

impl RowView {
    /// Returns the number of cells that the page has of the row.
    pub(super) fn cell_count(&self) -> usize {
        self.cells.len()
    }
}

/// A cell whose value comes in parts.
#[derive(Debug, Default)]
struct Cell {
    timestamp_micros: i64,
    first: Vec<u8>,
    /// Bytes that came, and bytes of the whole value if it comes in parts.
    came: usize,
    whole: usize,
}

/// Puts rows together from the chunks that come.
#[derive(Debug)]
pub(super) struct Page {
    bounds: Bounds,
    left: Allowance,
    read_left: usize,
    rows: Vec<RowView>,
    row: Option<RowView>,
    family: String,
    qualifier: Vec<u8>,
    cell: Option<Cell>,
}

impl Page {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            left: Allowance::of(bounds.page_bytes),
            read_left: bounds.read_bytes,
            bounds,
            rows: Vec::new(),
            row: None,
            family: String::new(),
            qualifier: Vec::new(),
            cell: None,
        }
    }

    /// Adds the next chunk. Returns whether the page is full.
    pub(super) fn add(&mut self, chunk: CellChunk) -> bool {
        if !chunk.row_key.is_empty() && self.row.is_none() {
            let key = chunk.row_key.to_vec();
            let shown = self.left.whole(&key);
            let row = RowView { key: shown, cells: Vec::new(), more_cells: false, raw_key: key };
            self.row = Some(row);
        }
        if let Some(family) = chunk.family_name {
            self.family = family;
        }
        if let Some(qualifier) = chunk.qualifier {
            self.qualifier = qualifier;
        }
        let cell = self.cell.get_or_insert_with(|| Cell {
            timestamp_micros: chunk.timestamp_micros,
            ..Cell::default()
        });
        let room = self.bounds.value_bytes.saturating_sub(cell.first.len());
        cell.first.extend_from_slice(&chunk.value[..chunk.value.len().min(room)]);
        cell.came += chunk.value.len();
        cell.whole = cell.whole.max(usize::try_from(chunk.value_size).unwrap_or(0));
        self.read_left = self.read_left.saturating_sub(chunk.value.len());
        if chunk.value_size <= 0 {
            self.end_cell();
        }
        match chunk.row_status {
            Some(RowStatus::ResetRow(true)) => (self.row, self.cell) = (None, None),
            Some(RowStatus::CommitRow(true)) => self.rows.extend(self.row.take()),
            _ => {}
        }
        self.left.is_spent() || self.read_left == 0
    }

    fn end_cell(&mut self) {
        let (Some(cell), Some(row)) = (self.cell.take(), &mut self.row) else { return };
        if row.cells.len() >= self.bounds.row_cells {
            row.more_cells = true;
            return;
        }
        let qualifier = self.left.whole(&self.qualifier);
        let bytes = cell.came.max(cell.whole);
        let value = self.left.show(&cell.first, bytes, self.bounds.value_bytes);
        self.left.take(self.family.len());
        let (family, timestamp_micros) = (self.family.clone(), cell.timestamp_micros.to_string());
        row.cells.push(CellView { family, qualifier, timestamp_micros, value });
    }

    /// Returns the rows. A row that has not ended has more cells.
    pub(super) fn rows(mut self) -> Vec<RowView> {
        self.end_cell();
        if let Some(mut row) = self.row.take() {
            row.more_cells = true;
            self.rows.push(row);
        }
        self.rows
    }
}

#[cfg(test)]
mod tests;
