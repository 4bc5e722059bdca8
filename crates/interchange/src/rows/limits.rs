//! Limits of rows in files. They are above the limits of any Bigtable table, so that a table refuses what
//! is too large for it by its own words.

use super::{Cell, Row};
use bytes::Bytes;

/// Bytes of a row key.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Bytes of the name of a family.
pub const FAMILY_BYTES_MAX: usize = 1 << 10;
/// Most bytes of a qualifier in a file.
pub const QUALIFIER_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a value in a file.
pub const VALUE_BYTES_MAX: usize = 128 << 20;

/// Bytes of cells that are written and read as one record, unless one cell has more.
pub const RECORD_BYTES: usize = 8 << 20;
/// Cells that are written and read as one record.
pub const RECORD_CELLS: usize = 50_000;

/// Bytes of a record, a block or a line of a file that others wrote: a row of 256 MiB, which is the
/// largest that Bigtable has, with what surrounds it.
pub(super) const BLOCK_BYTES_MAX: usize = 288 << 20;

/// Bytes of a cell beside its names and its value, rounded up.
const CELL_BYTES: usize = 32;

impl Cell {
    /// Returns about how many bytes the cell takes in a file.
    pub fn bytes(&self) -> usize {
        CELL_BYTES + self.family.len() + self.qualifier.len() + self.value.len()
    }
}

/// Returns how many of the first `cells` are written as one record.
pub(super) fn record_len(cells: &[Cell]) -> usize {
    let mut bytes = 0;
    let fits = |cell: &&Cell| {
        let fits = bytes < RECORD_BYTES;
        bytes += cell.bytes();
        fits
    };
    cells.iter().take(RECORD_CELLS).take_while(fits).count()
}

/// Gathers cells of one row up to the size of a record.
#[derive(Debug)]
pub struct RecordCells {
    cells: Vec<Cell>,
    bytes: usize,
}

impl RecordCells {
    /// Returns a gatherer without cells.
    pub fn new() -> Self {
        Self { cells: Vec::new(), bytes: 0 }
    }

    /// Adds a cell behind the earlier ones.
    pub fn push(&mut self, cell: Cell) {
        self.bytes += cell.bytes();
        self.cells.push(cell);
    }

    /// Returns whether the cells make a record, so that no other should be added.
    pub fn is_full(&self) -> bool {
        self.cells.len() >= RECORD_CELLS || self.bytes >= RECORD_BYTES
    }

    /// Returns whether there is no cell.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Removes all cells and returns them as cells of row `key`.
    pub fn take(&mut self, key: &Bytes) -> Row {
        self.bytes = 0;
        Row { key: key.clone(), cells: std::mem::take(&mut self.cells) }
    }
}

impl Default for RecordCells {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns `part` of a block of `block_bytes`, as it is if it is most of the block, else as a copy. So a small
/// cell does not keep a large block in memory.
pub(super) fn kept(part: Bytes, block_bytes: usize) -> Bytes {
    if part.len() > block_bytes / 2 { part } else { Bytes::copy_from_slice(&part) }
}

/// Names a part of a row, and refuses one that is too long. `Err` has the reason.
pub(super) fn check(what: &'static str, len: usize, max: usize) -> Result<(), String> {
    if len > max { Err(format!("a {what} of {len} bytes; the limit is {max}")) } else { Ok(()) }
}
