//! Rows as reads yield them: a stream of batches, of whatever the read's sink makes of rows.

use crate::error::Result;
use crate::meter::{Outcome, Timed};
use bytes::Bytes;
use engine::Timestamp;
use futures::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;

/// A cell in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Name of its family.
    pub family: Arc<str>,
    pub qualifier: Bytes,
    pub timestamp: Timestamp,
    /// Its value; empty if a filter stripped it.
    pub value: Bytes,
    /// The label a filter applied, if any.
    pub label: Option<Arc<str>>,
}

/// A row in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: Bytes,
    /// Its cells: families in order of creation, qualifiers ascending, timestamps descending.
    pub cells: Vec<Cell>,
}

/// One step of a read. A row is `Start`, one or more `Cell`s, `End`, and may run over several
/// batches. `Scanned` comes only between rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowPiece {
    /// A row with at least one cell begins; its key.
    Start(Bytes),
    /// Its next cell.
    Cell(Cell),
    /// The row is complete.
    End,
    /// The read went past every row up to and including this key without a result since the last
    /// row; a read that is resumed may start after it.
    Scanned(Bytes),
}

/// Statistics of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadStats {
    /// Rows met.
    pub rows_seen: u64,
    /// Rows yielded.
    pub rows_returned: u64,
    /// Cells met.
    pub cells_seen: u64,
    /// Cells yielded.
    pub cells_returned: u64,
    /// Bytes of the row keys and the values yielded.
    pub bytes_returned: u64,
}

/// Output of a read for some consecutive rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowBatch<B> {
    /// The batch of the row output.
    pub rows: B,
    /// The read's counts from its beginning to the end of this batch.
    pub stats: ReadStats,
}

/// The batches of one read. Ends after the last row, or after the first error. The reader is at
/// most a few batches ahead of its caller; dropping the stream ends the read.
#[derive(Debug)]
pub struct RowStream<B> {
    ready: Option<RowBatch<B>>,
    more: Option<mpsc::Receiver<Result<RowBatch<B>>>>,
    /// Counts the read when it ends.
    timed: Option<Timed>,
}

impl<B> RowStream<B> {
    /// A stream of what is already there.
    pub fn ready(batch: impl Into<Option<RowBatch<B>>>) -> Self {
        Self { ready: batch.into(), more: None, timed: None }
    }

    /// A stream of what is sent, `ahead` batches of it in memory (at least one). The sender's
    /// `send` waits for the caller and fails once the stream is dropped.
    pub fn channel(ahead: usize) -> (mpsc::Sender<Result<RowBatch<B>>>, Self) {
        let (sender, receiver) = mpsc::channel(ahead.max(1));
        (sender, Self { ready: None, more: Some(receiver), timed: None })
    }

    /// As [`RowStream::channel`], with a first batch if one is already there.
    pub fn channel_after(
        first: Option<RowBatch<B>>,
        ahead: usize,
    ) -> (mpsc::Sender<Result<RowBatch<B>>>, Self) {
        let (sender, mut stream) = Self::channel(ahead);
        stream.ready = first;
        (sender, stream)
    }

    /// The same stream, which counts its read when it ends or is dropped.
    pub(crate) fn timed(self, timed: Timed) -> Self {
        Self { timed: Some(timed), ..self }
    }

    /// Ends the read and counts it with `outcome`, which its caller knows: [`Outcome::Ok`] if the caller
    /// has all that it wants, or why what came is of no use. A stream that is dropped counts as cancelled
    /// unless it came to its end.
    pub fn end(&mut self, outcome: Outcome) {
        (self.ready, self.more) = (None, None);
        if let Some(timed) = self.timed.take() {
            timed.end_as(outcome);
        }
    }

    /// The next batch; `None` at the end.
    pub async fn next_batch(&mut self) -> Option<Result<RowBatch<B>>> {
        std::future::poll_fn(|context| self.poll_batch(context)).await
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RowBatch<B>>>> {
        let next = ready!(self.poll_untimed(context));
        if let Some(timed) = &mut self.timed {
            timed.note(&next);
        }
        Poll::Ready(next)
    }

    fn poll_untimed(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RowBatch<B>>>> {
        if let Some(batch) = self.ready.take() {
            return Poll::Ready(Some(Ok(batch)));
        }
        match &mut self.more {
            Some(more) => more.poll_recv(context),
            None => Poll::Ready(None),
        }
    }
}

impl RowStream<Vec<RowPiece>> {
    /// All rows, in memory: for tests and small reads.
    pub async fn collect_rows(mut self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let mut row = None;
        while let Some(batch) = self.next_batch().await {
            for piece in batch?.rows {
                match piece {
                    RowPiece::Start(key) => row = Some(Row { key, cells: Vec::new() }),
                    RowPiece::Cell(cell) => {
                        if let Some(row) = &mut row {
                            row.cells.push(cell);
                        }
                    }
                    RowPiece::End => rows.extend(row.take()),
                    RowPiece::Scanned(_) => {}
                }
            }
        }
        Ok(rows)
    }
}

impl<B: Unpin> Stream for RowStream<B> {
    type Item = Result<RowBatch<B>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_batch(context)
    }
}
