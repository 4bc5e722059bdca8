//! The time of one request.

use super::{Operation, Outcome, TableCounters, TableMeter, Volume};
use crate::error::Result;
use crate::row::{ReadStats, RowBatch};
use base::env::Clock;
use engine::perf_context::{self, PerfCount};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A request from its beginning on; counted when dropped.
pub(crate) struct Timed {
    counters: Arc<TableCounters>,
    clock: Arc<dyn Clock>,
    operation: Operation,
    begun: Duration,
    outcome: Outcome,
    volume: Volume,
    /// Rows and cells that a read met.
    seen: (u64, u64),
}

impl Timed {
    /// Begins a request to a table.
    pub(crate) fn begin(table: &TableMeter, operation: Operation, clock: &Arc<dyn Clock>) -> Self {
        Self {
            counters: Arc::clone(table.counters()),
            clock: Arc::clone(clock),
            operation,
            begun: clock.monotonic(),
            outcome: Outcome::Cancelled,
            volume: Volume::default(),
            seen: (0, 0),
        }
    }

    /// Ends a request. `volume` counts if it succeeded.
    pub(crate) fn end<T>(mut self, result: &Result<T>, volume: impl FnOnce(&T) -> Volume) {
        match result {
            Ok(done) => (self.outcome, self.volume) = (Outcome::Ok, volume(done)),
            Err(error) => self.outcome = Outcome::of(error),
        }
    }

    /// Ends a request of several entries, of which some may have failed. `bytes` has the size of each that
    /// is written if it does not fail.
    pub(crate) fn end_entries(mut self, result: &Result<Vec<Result<()>>>, bytes: &[Option<usize>]) {
        let entries = match result {
            Ok(entries) => entries,
            Err(error) => return self.outcome = Outcome::of(error),
        };
        let failed = entries.iter().find_map(|entry| entry.as_ref().err());
        self.outcome = failed.map_or(Outcome::Ok, Outcome::of);
        let written = entries.iter().zip(bytes).filter(|(entry, _)| entry.is_ok());
        for bytes in written.filter_map(|(_, bytes)| *bytes) {
            self.volume.rows_written += 1;
            self.volume.written_bytes += bytes as u64;
        }
    }

    /// Takes note of what the stream of a read gave.
    pub(crate) fn note<B>(&mut self, next: &Option<Result<RowBatch<B>>>) {
        match next {
            Some(Ok(batch)) => {
                let ReadStats { rows_seen, cells_seen, .. } = batch.stats;
                let ReadStats { rows_returned, bytes_returned, .. } = batch.stats;
                self.seen = (rows_seen, cells_seen);
                self.volume.rows_read = rows_returned;
                self.volume.read_bytes = bytes_returned;
            }
            Some(Err(error)) => self.outcome = Outcome::of(error),
            // The error stays the outcome of a read that ended with one.
            None if self.outcome == Outcome::Cancelled => self.outcome = Outcome::Ok,
            None => {}
        }
    }

    /// Ends a read with an outcome that its caller knows.
    pub(crate) fn end_as(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        let took = self.clock.monotonic().saturating_sub(self.begun);
        self.counters.count(self.operation, self.outcome, took, self.volume);
        let Volume { rows_read, read_bytes, rows_written, written_bytes } = self.volume;
        perf_context::add([
            (PerfCount::RowsSeen, self.seen.0),
            (PerfCount::CellsSeen, self.seen.1),
            (PerfCount::RowsReturned, rows_read),
            (PerfCount::BytesReturned, read_bytes),
            (PerfCount::RowsWritten, rows_written),
            (PerfCount::BytesWritten, written_bytes),
        ]);
    }
}

impl fmt::Debug for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timed").field("operation", &self.operation).finish_non_exhaustive()
    }
}
