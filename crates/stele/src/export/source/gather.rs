//! Gathers the cells of a read into records of a bounded size.

use interchange::rows::limits::RecordCells;
use interchange::rows::{Cell, Row};
use table::Bytes;

/// Some consecutive cells of a row.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::export) struct Piece {
    /// Key and cells, as far as they came.
    pub(in crate::export) row: Row,
    /// True if the row has no more cells.
    pub(in crate::export) last: bool,
}

/// Takes a row as [`start`](Gatherer::start), one or more [`cell`](Gatherer::cell)s and
/// [`end`](Gatherer::end).
#[derive(Default)]
pub(in crate::export) struct Gatherer {
    ready: Vec<Piece>,
    key: Bytes,
    cells: RecordCells,
    /// Pieces of the open row that are in `ready`, and that were taken.
    ready_of_row: usize,
    taken_of_row: bool,
}

impl Gatherer {
    /// Begins a row. The row before it must have ended, or its cells would become cells of this one.
    pub(in crate::export) fn start(&mut self, key: Bytes) {
        assert!(self.cells.is_empty(), "a row begins before the end of the last one");
        self.key = key;
        self.taken_of_row = false;
        self.ready_of_row = 0;
    }

    pub(in crate::export) fn cell(&mut self, cell: Cell) {
        if self.cells.is_full() {
            let row = self.cells.take(&self.key);
            self.ready.push(Piece { row, last: false });
            self.ready_of_row += 1;
        }
        self.cells.push(cell);
    }

    pub(in crate::export) fn end(&mut self) {
        let row = self.cells.take(&self.key);
        self.ready.push(Piece { row, last: true });
    }

    /// Forgets the open row. Returns `false` if some of its pieces were taken.
    pub(in crate::export) fn forget(&mut self) -> bool {
        self.cells.take(&self.key);
        self.ready.truncate(self.ready.len() - self.ready_of_row);
        self.ready_of_row = 0;
        !self.taken_of_row
    }

    /// Returns the pieces that are ready.
    pub(in crate::export) fn take(&mut self) -> Vec<Piece> {
        self.taken_of_row |= self.ready_of_row > 0;
        self.ready_of_row = 0;
        std::mem::take(&mut self.ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interchange::rows::limits::RECORD_CELLS;

    fn cell() -> Cell {
        let (qualifier, value) = (Bytes::new(), Bytes::new());
        Cell { family: "f".into(), qualifier, timestamp_micros: 0, value }
    }

    fn add(gatherer: &mut Gatherer, key: &'static str, cells: usize) {
        gatherer.start(key.into());
        (0..cells).for_each(|_| gatherer.cell(cell()));
    }

    fn taken(gatherer: &mut Gatherer) -> Vec<(Bytes, usize, bool)> {
        let piece = |piece: Piece| (piece.row.key, piece.row.cells.len(), piece.last);
        gatherer.take().into_iter().map(piece).collect()
    }

    #[test]
    fn a_row_is_cut_where_a_record_is_full() {
        let mut gatherer = Gatherer::default();
        add(&mut gatherer, "a", RECORD_CELLS);
        gatherer.end();
        add(&mut gatherer, "b", RECORD_CELLS + 1);
        let want = [("a".into(), RECORD_CELLS, true), ("b".into(), RECORD_CELLS, false)];
        assert_eq!(taken(&mut gatherer), want);
        gatherer.end();
        assert_eq!(taken(&mut gatherer), [("b".into(), 1, true)]);
    }

    #[test]
    fn a_forgotten_row_leaves_nothing_unless_it_was_taken() {
        let mut gatherer = Gatherer::default();
        add(&mut gatherer, "a", 1);
        gatherer.end();
        add(&mut gatherer, "b", RECORD_CELLS + 1);
        assert!(gatherer.forget());
        add(&mut gatherer, "c", RECORD_CELLS + 1);
        assert_eq!(taken(&mut gatherer).len(), 2);
        assert!(!gatherer.forget());
        assert_eq!(taken(&mut gatherer), []);
    }
}
