//! Cells on their way into an engine, made a chunk at a time.
//!
//! Making a chunk is timed apart, and the harness takes that time off the load: an engine pays
//! for what it does with cells and not for drawing them.

use crate::data::{Cell, Data, What};
use bench_core::{KeyKind, Spent, Stopwatch};
use std::ops::Range;

/// Rows in one chunk: few enough for a core's cache.
const CHUNK_ROWS: usize = 1_024;

/// Cells of a data set, in the order of a list of key numbers.
pub(crate) struct Source<'a> {
    data: &'a Data,
    what: What,
    numbers: Box<dyn Iterator<Item = u64> + 'a>,
    keys: Vec<u8>,
    rows: Vec<(u64, Range<usize>)>,
    making: Spent,
    cells: u64,
}

impl<'a> Source<'a> {
    /// The cells `what` of the rows `numbers` of `data`, in that order.
    pub(crate) fn new(data: &'a Data, what: What, numbers: impl Iterator<Item = u64> + 'a) -> Self {
        let (keys, rows) = (Vec::new(), Vec::new());
        Self {
            data,
            what,
            numbers: Box::new(numbers),
            keys,
            rows,
            making: Spent::default(),
            cells: 0,
        }
    }

    /// The next chunk of at least one cell, whole rows; `None` at the end.
    pub(crate) fn next_chunk(&mut self) -> Option<Vec<Cell<'_>>> {
        let watch = Stopwatch::start();
        self.draw_rows();
        let (data, what) = (self.data, self.what);
        let mut cells = Vec::with_capacity(self.rows.len() * data.cells_per_row(what) as usize);
        for (number, span) in &self.rows {
            let row = &self.keys[span.clone()];
            let indexes = 0..data.cells_per_row(what);
            cells.extend(indexes.map(|index| data.cell(what, *number, index, row)));
        }
        self.making.add(watch.spent());
        self.cells += cells.len() as u64;
        (!cells.is_empty()).then_some(cells)
    }

    /// What making cells cost so far.
    pub(crate) fn making(&self) -> Spent {
        self.making
    }

    /// How many cells were handed out.
    pub(crate) fn cells(&self) -> u64 {
        self.cells
    }

    fn draw_rows(&mut self) {
        self.keys.clear();
        self.rows.clear();
        for number in self.numbers.by_ref().take(CHUNK_ROWS) {
            let start = self.keys.len();
            self.data.append_key(number, KeyKind::Present, &mut self.keys);
            self.rows.push((number, start..self.keys.len()));
        }
    }
}
