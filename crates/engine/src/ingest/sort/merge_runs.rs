//! Merges runs into one walk. A heap of the runs by the row they stand at; of equal rows the older
//! run's comes first.

use super::row_buffer::compare;
use super::sort_run::{RunFile, RunReader};
use crate::error::Result;
use std::cmp::Ordering;

/// See the file header.
pub(super) struct Merge {
    runs: Vec<RunReader>,
    /// Indexes of `runs`; no child comes before its parent.
    heap: Vec<usize>,
    /// True if the row at the top was lent, so that its run must step on first.
    lent: bool,
}

impl Merge {
    pub(super) fn open(runs: Vec<RunFile>) -> Result<Self> {
        let runs = runs.into_iter().map(RunReader::open).collect::<Result<Vec<_>>>()?;
        let heap = (0..runs.len()).collect();
        let mut merge = Self { runs, heap, lent: false };
        for place in (0..merge.heap.len() / 2).rev() {
            merge.sink(place);
        }
        Ok(merge)
    }

    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Bytes of the largest frames of all runs.
    #[cfg(test)]
    pub(super) fn frame_bytes(&self) -> usize {
        self.runs.iter().map(RunReader::frame_bytes).sum()
    }

    /// The next row and its payload.
    pub(super) fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some(&top) = self.heap.first() else { return Ok(None) };
        let top = if std::mem::replace(&mut self.lent, true) {
            self.runs[top].advance()?;
            self.sink(0);
            self.heap[0]
        } else {
            top
        };
        let run = &self.runs[top];
        Ok(run.row().map(|row| (row, run.payload())))
    }

    /// Moves what is at `place` down until it comes before its children.
    fn sink(&mut self, mut place: usize) {
        loop {
            let children = [2 * place + 1, 2 * place + 2];
            let children = children.into_iter().filter(|child| *child < self.heap.len());
            let Some(first) = children.min_by(|a, b| self.order(*a, *b)) else { return };
            if self.order(place, first) == Ordering::Less {
                return;
            }
            self.heap.swap(place, first);
            place = first;
        }
    }

    /// How the runs at two places of the heap compare; never equal.
    fn order(&self, a: usize, b: usize) -> Ordering {
        let (a, b) = (self.heap[a], self.heap[b]);
        compare(self.runs[a].row(), self.runs[b].row()).then(a.cmp(&b))
    }
}
