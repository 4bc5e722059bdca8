//! The time of one request.

use super::{Operation, Outcome, TableMeter, Volume};
use crate::error::Result;
use crate::row::{ReadStats, RowBatch};
use base::env::Clock;
use engine::TreeId;
use engine::perf_context::{self, PerfCount};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Rows of a request, as the tablets of its table count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Within {
    /// Rows of a table whose own counters tell the same as its tablet's.
    Table,
    /// Rows that are all of one tablet.
    Tablet(TreeId),
    /// Rows of several tablets, or of tablets that are not known so far.
    Tablets,
}

/// An entry of a request that writes several rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryBytes {
    pub(crate) tree: TreeId,
    /// The bytes that are written if the entry does not fail; `None` of an entry that was written before.
    pub(crate) bytes: Option<usize>,
}

/// A request from its beginning on; counted when dropped.
pub(crate) struct Timed {
    meter: Arc<TableMeter>,
    within: Within,
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
    pub(crate) fn begin(
        table: &Arc<TableMeter>,
        within: Within,
        operation: Operation,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        // The order in which requests begin decides which tables get counters of their own.
        table.counters();
        Self {
            meter: Arc::clone(table),
            within,
            clock: Arc::clone(clock),
            operation,
            begun: clock.monotonic(),
            outcome: Outcome::Cancelled,
            volume: Volume::default(),
            seen: (0, 0),
        }
    }

    /// Takes note of the tablet of all rows of the request, or that they are of several tablets. Returns true
    /// if tablets are to count rows and bytes one by one.
    pub(crate) fn find_tablet(&mut self, tree: Option<TreeId>) -> bool {
        if self.within != Within::Table {
            self.within = tree.map_or(Within::Tablets, Within::Tablet);
        }
        self.within == Within::Tablets
    }

    /// Ends a request. `volume` counts if it succeeded.
    pub(crate) fn end<T>(mut self, result: &Result<T>, volume: impl FnOnce(&T) -> Volume) {
        match result {
            Ok(done) => (self.outcome, self.volume) = (Outcome::Ok, volume(done)),
            Err(error) => self.outcome = Outcome::of(error),
        }
    }

    /// Ends a request of several `entries`, of which some may have failed.
    pub(crate) fn end_entries(mut self, result: &Result<Vec<Result<()>>>, entries: &[EntryBytes]) {
        let results = match result {
            Ok(results) => results,
            Err(error) => return self.outcome = Outcome::of(error),
        };
        let failed = results.iter().find_map(|result| result.as_ref().err());
        self.outcome = failed.map_or(Outcome::Ok, Outcome::of);
        let tablets = (self.within == Within::Tablets).then(|| self.meter.tablets().look());
        for (_, EntryBytes { tree, bytes }) in
            results.iter().zip(entries).filter(|(r, _)| r.is_ok())
        {
            let Some(bytes) = *bytes else { continue };
            self.volume.rows_written += 1;
            self.volume.written_bytes += bytes as u64;
            if let Some(tablets) = &tablets {
                tablets.add(*tree, Volume::written(bytes));
            }
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
        let (operation, outcome) = (self.operation, self.outcome);
        self.meter.counters().count(operation, outcome, took, self.volume);
        match self.within {
            Within::Table => {}
            Within::Tablet(tree) => {
                self.meter.tablets().look().of(tree).count(operation, outcome, took, self.volume);
            }
            Within::Tablets => {
                // Rows and bytes were counted in their tablets.
                let none = Volume::default();
                self.meter.tablets().look().of_several().count(operation, outcome, took, none);
            }
        }
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
