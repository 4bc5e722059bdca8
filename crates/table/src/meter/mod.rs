//! Counters of the tables of a store and of their tablets: latency of requests by operation and outcome, rows
//! and bytes.
//!
//! Invariants:
//! 1. A table gets counters of its own with its first request, while fewer tables than [`NAMED_MAX`], or
//!    as many as were set, have them. It keeps them until it is deleted. All other tables share one set,
//!    so that the number of sets is bounded, whatever clients create.
//! 2. A request finds the counters in its table. It looks into no map and makes no label.
//! 3. A request is counted once: when it ends, or as cancelled when it is dropped before.

mod heat;
mod queues;
mod tables;
mod tablets;
mod timed;

pub use heat::{Heat, HotTablet, SLICE, SLICES_MAX, Sample, SampledKey, Slice, Slices, Use};
pub use queues::Queue;
pub(crate) use tables::TableMeter;
pub use tables::{StoreMeter, TableReading};
pub use tablets::{TABLETS_MAX, TabletMeter};
pub(crate) use timed::{EntryBytes, Timed, Within};

use crate::error::Error;
use base::histogram::{Buckets, Histogram};
use base::striped::Striped;
use std::sync::OnceLock;
use std::time::Duration;

/// Tables with counters of their own, unless set otherwise.
pub const NAMED_MAX: usize = 50;

/// Operations on the rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    ReadRows,
    SampleRowKeys,
    MutateRow,
    MutateRows,
    CheckAndMutateRow,
    ReadModifyWriteRow,
    DropRows,
}

const OPERATIONS: usize = Operation::ALL.len();

impl Operation {
    /// All operations, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::ReadRows,
        Self::SampleRowKeys,
        Self::MutateRow,
        Self::MutateRows,
        Self::CheckAndMutateRow,
        Self::ReadModifyWriteRow,
        Self::DropRows,
    ];

    /// Returns the name of the operation in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::ReadRows => "read_rows",
            Self::SampleRowKeys => "sample_row_keys",
            Self::MutateRow => "mutate_row",
            Self::MutateRows => "mutate_rows",
            Self::CheckAndMutateRow => "check_and_mutate_row",
            Self::ReadModifyWriteRow => "read_modify_write_row",
            Self::DropRows => "drop_rows",
        }
    }
}

/// Ways in which a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The request did what it was to do.
    Ok,
    /// The request breaks a rule, or does not fit what is stored.
    Refused,
    /// There was no room for it. The same request may succeed later.
    Busy,
    /// The store could not do it.
    Failed,
    /// The client did not wait for its end. It may have had all that it wanted.
    Cancelled,
}

const OUTCOMES: usize = Outcome::ALL.len();

impl Outcome {
    /// All outcomes, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Ok, Self::Refused, Self::Busy, Self::Failed, Self::Cancelled];

    /// Returns the name of the outcome in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Busy => "busy",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the outcome of a request that ended with `error`.
    pub fn of(error: &Error) -> Self {
        match error {
            Error::NotFound { .. }
            | Error::AlreadyExists { .. }
            | Error::InvalidArgument { .. }
            | Error::FailedPrecondition(_)
            | Error::OutOfRange(_)
            | Error::Aborted(_)
            | Error::PermissionDenied(_)
            | Error::NotLeader { .. } => Self::Refused,
            Error::ResourceExhausted(_) | Error::Busy(_) => Self::Busy,
            Error::Unavailable(_) | Error::DataLoss(_) | Error::Internal(_) => Self::Failed,
        }
    }
}

/// Rows and bytes that requests read and wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Volume {
    pub rows_read: u64,
    /// Bytes of row keys and values that were read.
    pub read_bytes: u64,
    pub rows_written: u64,
    /// Bytes of mutations with their overhead.
    pub written_bytes: u64,
}

impl Volume {
    /// The volume of a request that wrote one row.
    pub(crate) fn written(bytes: usize) -> Self {
        Self { rows_written: 1, written_bytes: bytes as u64, ..Self::default() }
    }
}

/// The counters of one table or tablet, or of all that have none of their own.
#[derive(Debug, Default)]
pub struct TableCounters {
    /// Made with the first request that ends so.
    latency: [[OnceLock<Histogram>; OUTCOMES]; OPERATIONS],
    volume: Striped<4>,
}

impl TableCounters {
    /// Counts a request that has ended.
    fn count(&self, operation: Operation, outcome: Outcome, took: Duration, volume: Volume) {
        let latency = &self.latency[operation as usize][outcome as usize];
        latency.get_or_init(Histogram::of_durations).record_time(took);
        self.add(volume);
    }

    /// Adds what a request read or wrote.
    fn add(&self, volume: Volume) {
        if volume != Volume::default() {
            let Volume { rows_read, read_bytes, rows_written, written_bytes } = volume;
            let counts = [(0, rows_read), (1, read_bytes), (2, rows_written), (3, written_bytes)];
            self.volume.add_all(counts);
        }
    }

    /// Returns the latencies of requests by operation and outcome.
    pub fn latency(&self) -> impl Iterator<Item = (Operation, Outcome, Buckets)> + '_ {
        Operation::ALL.into_iter().flat_map(move |operation| {
            Outcome::ALL.into_iter().filter_map(move |outcome| {
                let histogram = self.latency[operation as usize][outcome as usize].get()?;
                Some((operation, outcome, histogram.read()))
            })
        })
    }

    /// Returns the rows and bytes of all requests.
    pub fn volume(&self) -> Volume {
        let [rows_read, read_bytes, rows_written, written_bytes] = self.volume.read_all();
        Volume { rows_read, read_bytes, rows_written, written_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_outcomes_have_the_numbers_of_their_places() {
        assert!(Operation::ALL.iter().enumerate().all(|(at, one)| *one as usize == at));
        assert!(Outcome::ALL.iter().enumerate().all(|(at, one)| *one as usize == at));
    }

    #[test]
    fn a_request_is_counted_by_operation_and_outcome() {
        let counters = TableCounters::default();
        let read = Volume { rows_read: 2, read_bytes: 30, ..Volume::default() };
        let took = Duration::from_micros(40);
        counters.count(Operation::ReadRows, Outcome::Ok, took, read);
        counters.count(Operation::ReadRows, Outcome::Ok, took, read);
        counters.count(Operation::MutateRow, Outcome::Busy, took, Volume::default());
        let told: Vec<_> =
            counters.latency().map(|(op, end, read)| (op, end, read.count())).collect();
        assert_eq!(
            told,
            [(Operation::ReadRows, Outcome::Ok, 2), (Operation::MutateRow, Outcome::Busy, 1)]
        );
        assert_eq!(counters.volume(), Volume { rows_read: 4, read_bytes: 60, ..Volume::default() });
    }
}
