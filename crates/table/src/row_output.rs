//! Where the rows of a read go. Whoever asks for a read brings a row output, and the read lends it each
//! cell where it lies in memory, so that a front can encode rows without a copy in between.
//!
//! A row output is told of a row by [`start`](RowOutput::start), one or more [`cell`](RowOutput::cell)s, and
//! [`end`](RowOutput::end). Between any two calls it may be moved to another thread, and a batch may
//! be taken, also within a row.

use crate::row::{Cell, RowPiece};
use bytes::Bytes;
use engine::Timestamp;
use std::sync::Arc;

/// A cell that a read yields, lent for one call.
#[derive(Debug, Clone, Copy)]
pub struct YieldedCell<'a> {
    /// Name of its family.
    pub family: &'a Arc<str>,
    pub qualifier: &'a [u8],
    pub timestamp: Timestamp,
    /// Its value; empty if a filter stripped it.
    pub value: &'a [u8],
    /// The label a filter applied, if any.
    pub label: Option<&'a Arc<str>>,
}

/// Takes the rows of one read. Its calls must not wait: they may come from a thread that serves
/// others, while the block cache waits to reuse memory.
pub trait RowOutput: Send + 'static {
    /// Output for some consecutive rows.
    type Batch: Send + 'static;

    /// A row with at least one cell begins; its key.
    fn start(&mut self, key: &[u8]);

    /// The row's next cell.
    fn cell(&mut self, cell: &YieldedCell<'_>);

    /// The row is complete.
    fn end(&mut self);

    /// Forgets the row that was begun and not ended: it comes again from its start, or not at all.
    /// No batch was taken since its start.
    fn forget(&mut self);

    /// The read went past every row up to and including this key without a result since the last
    /// row; a read that is resumed may start after it. Only between rows.
    fn scanned(&mut self, key: &[u8]);

    /// Hands over what is ready to be used.
    fn take(&mut self) -> Self::Batch;

    /// Bytes that a batch may have, roughly, if the output wants less than the store gives. Asked for
    /// at the start of each row.
    fn batch_bytes_max(&self) -> usize {
        usize::MAX
    }
}

/// Keeps rows in memory, piece by piece.
#[derive(Debug, Default)]
pub struct Pieces {
    pieces: Vec<RowPiece>,
    /// The qualifier of the last cell; cells of one column share it.
    qualifier: Bytes,
}

impl RowOutput for Pieces {
    type Batch = Vec<RowPiece>;

    fn start(&mut self, key: &[u8]) {
        self.pieces.push(RowPiece::Start(Bytes::copy_from_slice(key)));
    }

    fn cell(&mut self, cell: &YieldedCell<'_>) {
        if self.qualifier != cell.qualifier {
            self.qualifier = Bytes::copy_from_slice(cell.qualifier);
        }
        self.pieces.push(RowPiece::Cell(Cell {
            family: Arc::clone(cell.family),
            qualifier: self.qualifier.clone(),
            timestamp: cell.timestamp,
            value: Bytes::copy_from_slice(cell.value),
            label: cell.label.cloned(),
        }));
    }

    fn end(&mut self) {
        self.pieces.push(RowPiece::End);
    }

    fn forget(&mut self) {
        let start = self.pieces.iter().rposition(|piece| matches!(piece, RowPiece::Start(_)));
        self.pieces.truncate(start.unwrap_or_default());
    }

    fn scanned(&mut self, key: &[u8]) {
        self.pieces.push(RowPiece::Scanned(Bytes::copy_from_slice(key)));
    }

    fn take(&mut self) -> Vec<RowPiece> {
        std::mem::take(&mut self.pieces)
    }
}

/// Wants to know only what the read counts.
#[derive(Debug, Default)]
pub(crate) struct Nothing;

impl RowOutput for Nothing {
    type Batch = ();

    fn start(&mut self, _: &[u8]) {}

    fn cell(&mut self, _: &YieldedCell<'_>) {}

    fn end(&mut self) {}

    fn forget(&mut self) {}

    fn scanned(&mut self, _: &[u8]) {}

    fn take(&mut self) {}
}
