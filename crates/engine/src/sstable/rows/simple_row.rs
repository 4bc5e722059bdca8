//! The cells of a row that needs no merging: a reader sees all its entries as they lie in the
//! block, so choosing columns, timestamps and versions is all that is left to do.

use crate::batch::TimestampRange;
use crate::cell::{Column, SequenceNumber};
use crate::request::{Cell, Columns, QualifierRange};
use crate::sstable::block::{BlockView, CellValue};
use crate::sstable::read::point_lookup::RowHit;
use std::ops::Range;

/// What is left to lend of such a row.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimpleCells {
    /// Entries of the row in the wanted range of columns that is being read.
    cells: Range<usize>,
    /// Entries of the row behind it.
    rest: Range<usize>,
    /// Wanted ranges of columns that come after it.
    ranges: Range<usize>,
    /// The column id of the cell lent last, and cells of that column lent so far.
    id: Option<usize>,
    versions: u32,
}

impl<'g> RowHit<'g> {
    /// Returns whether a reader at `snapshot` sees every entry of the row, and the block has them all.
    #[inline]
    pub(crate) fn is_simple(&self, snapshot: SequenceNumber) -> bool {
        self.is_whole() && self.view.all_visible(snapshot)
    }

    /// The newest cell of a column, of a simple row.
    pub(crate) fn newest(&self, column: &Column<'_>) -> Option<Cell<'g>> {
        let cells = self.view.cells_of(self.row);
        let at = self.view.find_column(cells.clone(), column);
        (at < cells.end)
            .then(|| cell(self.view, at))
            .filter(|cell| cell.family == column.family && cell.qualifier == column.qualifier)
    }

    /// Returns the number of entries of the row in the block.
    pub(crate) fn cells_len(&self) -> usize {
        self.view.cells_of(self.row).len()
    }

    /// The wanted cells of a simple row.
    #[inline]
    pub(crate) fn cells(&self, columns: &Columns) -> SimpleCells {
        SimpleCells::of(self.view.cells_of(self.row), columns)
    }

    /// The place of the next of `cells`, which are this row's.
    #[inline]
    pub(crate) fn next_of(
        &self,
        cells: &mut SimpleCells,
        columns: &Columns,
        timestamps: TimestampRange,
        versions_max: Option<u32>,
    ) -> Option<usize> {
        cells.next(self.view, columns, timestamps, versions_max)
    }

    /// The cell at a place that `next_of` gave.
    #[inline]
    pub(crate) fn cell(&self, at: usize) -> Cell<'g> {
        cell(self.view, at)
    }
}

impl SimpleCells {
    /// Those of the wanted columns among `cells`, which are all of a row.
    #[inline]
    pub(crate) fn of(cells: Range<usize>, columns: &Columns) -> Self {
        let none = cells.end..cells.end;
        match columns {
            Columns::All => Self { cells, rest: none, ranges: 0..0, id: None, versions: 0 },
            Columns::Ranges(ranges) => {
                Self { cells: none, rest: cells, ranges: 0..ranges.len(), id: None, versions: 0 }
            }
        }
    }

    /// The place of the next wanted cell.
    #[inline]
    pub(crate) fn next(
        &mut self,
        view: BlockView<'_>,
        columns: &Columns,
        timestamps: TimestampRange,
        versions_max: Option<u32>,
    ) -> Option<usize> {
        loop {
            let Some(at) = self.cells.next() else {
                self.next_range(view, columns)?;
                continue;
            };
            if versions_max.is_none() && timestamps == TimestampRange::ALL {
                return Some(at);
            }
            let id = view.id(at);
            if self.id != Some(id) {
                (self.id, self.versions) = (Some(id), 0);
            }
            let more = versions_max.is_none_or(|max| self.versions < max);
            if more && timestamps.contains(view.timestamp(at)) {
                self.versions += 1;
                return Some(at);
            }
        }
    }

    /// Goes to the next wanted range of columns; `None` if there is none.
    fn next_range(&mut self, view: BlockView<'_>, columns: &Columns) -> Option<()> {
        let Columns::Ranges(ranges) = columns else { return None };
        let QualifierRange { family, start, end } = &ranges[self.ranges.next()?];
        let first = view.find_column(self.rest.clone(), &Column::of(*family, start));
        let end = match end {
            Some(end) => view.find_column(first..self.rest.end, &Column::of(*family, end)),
            None => {
                let behind = view.first_id_after(*family);
                view.first_cell(first..self.rest.end, behind)
            }
        };
        self.cells = first..end;
        self.rest.start = end;
        Some(())
    }
}

/// An entry that is a put of an inline value.
#[inline]
pub(crate) fn cell(view: BlockView<'_>, at: usize) -> Cell<'_> {
    let CellValue::Inline(value) = view.value(at) else {
        unreachable!("plain rows have only inline values")
    };
    cell_of(view, at, value)
}

/// An entry that is a put, with its value.
#[inline]
pub(crate) fn cell_of<'a>(view: BlockView<'a>, at: usize, value: &'a [u8]) -> Cell<'a> {
    let column = view.column(view.id(at));
    Cell {
        family: column.family,
        qualifier: column.qualifier,
        timestamp: view.timestamp(at),
        value,
    }
}
