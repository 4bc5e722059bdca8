//! The workloads: what each worker does next, and what an answer must be.
//!
//! `keys.rs` is a table of keys with one row each, which all workloads but time series use; `presets.rs`
//! turns the flags of a workload into its mix of operations. `series.rs` is the time series.
//! `verify.rs` compares rows with what they must be, and `findings.rs` collects the differences.

mod findings;
mod keys;
mod lane;
mod presets;
mod scan;
mod series;
#[cfg(test)]
mod tests;
mod verify;

pub use findings::Sink;
pub(crate) use findings::{Example, Findings, Problem};
pub(crate) use lane::Lane;
pub(crate) use presets::{Plan, plan};

use crate::client::{Api, Failure, NewRow};
use crate::measure::Operation;
use bench_core::SplitMix64;
use keys::{KeyBatch, KeyTask, Keys};
use series::{Series, SeriesBatch, SeriesTask};

/// A workload with its data.
pub(crate) enum Workload {
    /// Rows with keys that are numbers.
    Keys(Keys),
    /// Series of points in time.
    Series(Series),
}

/// Answer to a worker that asks for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next<T> {
    /// The work to do now.
    Do(T),
    /// No work can begin until other workers end theirs.
    Later,
    Done,
}

impl<T> Next<T> {
    fn map<U>(self, of: impl FnOnce(T) -> U) -> Next<U> {
        match self {
            Self::Do(task) => Next::Do(of(task)),
            Self::Later => Next::Later,
            Self::Done => Next::Done,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Task {
    Keys(KeyTask),
    Series(SeriesTask),
}

/// Rows to write before the run.
#[derive(Debug)]
pub(crate) enum Batch {
    Keys(KeyBatch),
    Series(SeriesBatch),
}

/// Reason why an operation does not count as a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    Failed(Failure),
    /// The answer was wrong; the finding is recorded already.
    Wrong(Problem),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Workload {
    /// Returns the next operation of a worker.
    pub(crate) fn next(&self, lane: usize, worker: usize, random: &mut SplitMix64) -> Next<Task> {
        match self {
            Self::Keys(keys) => keys.next(lane, random).map(Task::Keys),
            Self::Series(series) => series.next(lane, worker, random).map(Task::Series),
        }
    }

    /// Returns the kind of an operation.
    pub(crate) fn operation(&self, task: &Task) -> Operation {
        match task {
            Task::Keys(task) => task.operation(),
            Task::Series(task) => task.operation(),
        }
    }

    /// Returns the kinds of operation of a lane with their weights, as far as they are known beforehand.
    pub(crate) fn kinds(&self, lane: usize) -> Vec<(Operation, f64)> {
        match self {
            Self::Keys(keys) => keys.kinds(lane),
            Self::Series(_) if lane == series::WRITERS => vec![(Operation::Insert, 1.0)],
            Self::Series(_) => vec![(Operation::ReadSeries, 1.0)],
        }
    }

    /// Does an operation and verifies its answer. Returns the number of rows.
    pub(crate) async fn perform(&self, task: &Task, client: &mut impl Api) -> Result<u64, Trouble> {
        match (self, task) {
            (Self::Keys(keys), Task::Keys(task)) => keys.perform(task, client).await,
            (Self::Series(series), Task::Series(task)) => series.perform(task, client).await,
            _ => unreachable!("a workload makes tasks of its own kind"),
        }
    }

    /// Returns the next rows to write before the run.
    pub(crate) fn fill(&self) -> Next<Batch> {
        match self {
            Self::Keys(keys) => keys.fill().map(Batch::Keys),
            Self::Series(series) => series.fill().map(Batch::Series),
        }
    }

    /// Returns the number of rows that the fill writes.
    pub(crate) fn fill_rows(&self) -> u64 {
        match self {
            Self::Keys(keys) => keys.fill_rows(),
            Self::Series(series) => series.fill_rows(),
        }
    }

    /// Records the outcome of each row of a batch. Returns how many rows were written.
    pub(crate) fn filled(&self, batch: &Batch, outcomes: &[bool]) -> u64 {
        match (self, batch) {
            (Self::Keys(keys), Batch::Keys(batch)) => keys.filled(batch, outcomes),
            (Self::Series(series), Batch::Series(batch)) => series.filled(batch, outcomes),
            _ => unreachable!("a workload makes batches of its own kind"),
        }
    }
}

impl Batch {
    /// Returns the rows to write.
    pub(crate) fn rows(&self) -> &[NewRow] {
        match self {
            Self::Keys(batch) => &batch.rows,
            Self::Series(batch) => &batch.rows,
        }
    }
}
