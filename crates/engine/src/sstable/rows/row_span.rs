//! A row span: rows of one block, all plain, that are lent one after another without a move of the
//! cursor that found them.
//!
//! Invariant: the rows from the current one to the last are plain for the reader that asked for
//! them, so every entry of them is a put of an inline value that the reader sees.

use super::row_prefetch::{ROWS_REACHED, ROWS_SOUGHT};
use super::simple_row::SimpleCells;
use crate::batch::TimestampRange;
use crate::cell::FamilyId;
use crate::request::{Cell, Columns, Direction};
use crate::sstable::block::{BlockView, RowEntry};
use crate::sstable::read::typed_refs::DataRef;
use std::ops::Range;

/// See the file header.
pub(crate) struct RowSpan {
    block: DataRef,
    direction: Direction,
    /// The current row, and how many come after it.
    row: usize,
    left: usize,
    key_len: usize,
    /// Where the current row's bytes begin, and those of the row after it: of these a step looks
    /// up one.
    from: RowEntry,
    to: RowEntry,
    /// Going forward, up to where the bytes of rows were asked for.
    reached: RowEntry,
    /// Of a block whose rows have one entry each, all of one column: the column.
    narrow: Option<(FamilyId, Range<usize>)>,
    /// Of any other, the cells still to be lent, and the place of the one found last.
    cells: SimpleCells,
    cell: usize,
}

/// What a reader wants of each row.
#[derive(Clone, Copy)]
pub(crate) struct WantedCells<'a> {
    pub(crate) columns: &'a Columns,
    pub(crate) timestamps: TimestampRange,
    pub(crate) versions_max: Option<u32>,
}

impl WantedCells<'_> {
    /// Returns whether it is the newest cell of each column, and perhaps more.
    fn all_newest(&self) -> bool {
        *self.columns == Columns::All
            && self.timestamps == TimestampRange::ALL
            && self.versions_max != Some(0)
    }
}

impl RowSpan {
    /// The row span from row `row` of `block` over the `left` rows after it in `direction`. Puts
    /// the key of the row into `key`, which is to be the buffer of all of its rows.
    pub(crate) fn new(
        block: DataRef,
        direction: Direction,
        (row, left): (usize, usize),
        wanted: &WantedCells<'_>,
        key: &mut Vec<u8>,
    ) -> Self {
        let view = block.view();
        view.copy_prefix(key);
        let (from, to) = (view.entry(row), view.entry(row + 1));
        let reached = view.entry((row + ROWS_REACHED).min(view.rows()));
        let key_len = view.put_row(row, (from, to), key);
        let narrow = if wanted.all_newest() { view.narrow() } else { None };
        let cells = SimpleCells::default();
        Self { block, direction, row, left, key_len, from, to, reached, narrow, cells, cell: 0 }
    }

    /// Moves to the next row and puts its key into `key`; `false` if there is none.
    #[inline]
    pub(crate) fn step(&mut self, key: &mut Vec<u8>) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let view = self.block.view();
        match self.direction {
            Direction::Forward => {
                self.row += 1;
                (self.from, self.to) = (self.to, view.entry(self.row + 1));
                let ahead = self.row + ROWS_REACHED;
                if ahead < view.rows() {
                    let from = std::mem::replace(&mut self.reached, view.entry(ahead + 1));
                    view.reach_on(from, self.reached);
                }
            }
            Direction::Reverse => {
                self.row -= 1;
                (self.from, self.to) = (view.entry(self.row), self.from);
                view.reach_row(self.row.wrapping_sub(ROWS_REACHED));
            }
        }
        self.key_len = view.put_row(self.row, (self.from, self.to), key);
        true
    }

    /// The current row's place in its block.
    #[inline]
    pub(crate) fn row(&self) -> usize {
        self.row
    }

    /// Returns whether so few rows of the block are left that what comes after it should be looked for.
    #[inline]
    pub(crate) fn nears_the_end(&self) -> bool {
        self.direction == Direction::Forward && self.block.view().rows() - self.row <= ROWS_SOUGHT
    }

    /// Returns the number of cells of the current row.
    pub(crate) fn cells_of_row(&self) -> usize {
        self.block.view().cells_of(self.row).len()
    }

    /// Bytes of the buffer that are the current row's key.
    #[inline]
    pub(crate) fn key_len(&self) -> usize {
        self.key_len
    }

    /// Begins the current row; whether it has a wanted cell, which is then found.
    #[inline]
    pub(crate) fn begin(&mut self, wanted: &WantedCells<'_>) -> bool {
        if self.narrow.is_some() {
            return true;
        }
        self.cells = SimpleCells::of(self.block.view().cells_of(self.row), wanted.columns);
        self.next_cell(wanted)
    }

    /// Finds the current row's next wanted cell; whether there is one.
    #[inline]
    pub(crate) fn next_cell(&mut self, wanted: &WantedCells<'_>) -> bool {
        if self.narrow.is_some() {
            return false;
        }
        let WantedCells { columns, timestamps, versions_max } = *wanted;
        let found = self.cells.next(self.block.view(), columns, timestamps, versions_max);
        self.cell = found.unwrap_or_default();
        found.is_some()
    }

    /// The cell found last.
    #[inline(always)]
    pub(crate) fn cell(&self) -> Cell<'_> {
        let view: BlockView<'_> = self.block.view();
        match &self.narrow {
            Some((family, qualifier)) => Cell {
                family: *family,
                qualifier: view.part(qualifier),
                timestamp: view.timestamp(self.row),
                value: view.values_between(self.from, self.to),
            },
            None => self.wide_cell(view),
        }
    }

    /// The same where rows have several cells; apart, so that the other form is short enough to be
    /// inlined.
    #[inline(never)]
    fn wide_cell<'a>(&self, view: BlockView<'a>) -> Cell<'a> {
        super::simple_row::cell(view, self.cell)
    }
}
