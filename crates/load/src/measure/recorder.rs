//! Collects outcomes from all workers. Workers spread over shards, so that few of them meet at a lock;
//! once a second the run drains all shards.

use super::{Distribution, Operation};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

const SHARDS: usize = 8;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) operation: Operation,
    /// Time from the scheduled begin to the end.
    pub(crate) latency: Duration,
    /// Time from the scheduled begin to the real one; zero in a closed loop.
    pub(crate) delay: Duration,
    /// Rows that were read or written.
    pub(crate) rows: u64,
    pub(crate) end: End,
    /// The operation began after the warm-up.
    pub(crate) measured: bool,
}

/// End of an operation. Failures have the class that they are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    /// The server failed it, or answered wrongly.
    Failure(&'static str),
    /// No answer came in time, so the latency is that of an answer at least.
    Unanswered(&'static str),
}

/// Outcomes of one kind of operation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tally {
    /// Latencies of the successful ones.
    pub(crate) latency: Distribution,
    /// Times that operations without an answer waited for it.
    pub(crate) unanswered: Distribution,
    /// Delays before the begin of all operations.
    pub(crate) delay: Distribution,
    pub(crate) rows: u64,
    pub(crate) errors: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Returns a tally of nothing.
    pub(crate) fn new() -> Self {
        let [latency, unanswered, delay] = std::array::from_fn(|_| Distribution::new());
        Self { latency, unanswered, delay, rows: 0, errors: BTreeMap::new() }
    }

    fn record(&mut self, outcome: &Outcome) {
        if !outcome.delay.is_zero() {
            self.delay.record(outcome.delay);
        }
        match outcome.end {
            End::Success => {
                self.latency.record(outcome.latency);
                self.rows += outcome.rows;
            }
            End::Failure(class) => *self.errors.entry(class).or_default() += 1,
            End::Unanswered(class) => {
                self.unanswered.record(outcome.latency);
                *self.errors.entry(class).or_default() += 1;
            }
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency);
        self.unanswered.add(&other.unanswered);
        self.delay.add(&other.delay);
        self.rows += other.rows;
        for (class, count) in &other.errors {
            *self.errors.entry(class).or_default() += count;
        }
    }

    fn clear(&mut self) {
        self.latency.clear();
        self.unanswered.clear();
        self.delay.clear();
        self.rows = 0;
        self.errors.clear();
    }
}

/// Tallies by kind of operation, measured ones and warm-up apart.
type Shard = BTreeMap<(Operation, bool), Box<Tally>>;

/// Outcomes that were not drained yet.
pub(crate) struct Recorder {
    shards: Vec<Mutex<Shard>>,
}

/// Tallies since the last drain.
#[derive(Debug)]
pub(crate) struct Drained {
    /// Operations that began after the warm-up, by kind.
    pub(crate) measured: BTreeMap<Operation, Tally>,
    pub(crate) all: BTreeMap<Operation, Tally>,
}

impl Recorder {
    /// Returns a recorder without outcomes.
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// Adds an outcome of `worker`.
    pub(crate) fn record(&self, worker: usize, outcome: &Outcome) {
        let mut shard = self.shards[worker % SHARDS].lock();
        let tally = shard.entry((outcome.operation, outcome.measured));
        tally.or_insert_with(|| Box::new(Tally::new())).record(outcome);
    }

    /// Returns all outcomes since the last call.
    pub(crate) fn drain(&self) -> Drained {
        let mut drained = Drained { measured: BTreeMap::new(), all: BTreeMap::new() };
        for shard in &self.shards {
            for ((operation, measured), tally) in shard.lock().iter_mut() {
                drained.all.entry(*operation).or_insert_with(Tally::new).add(tally);
                if *measured {
                    drained.measured.entry(*operation).or_insert_with(Tally::new).add(tally);
                }
                tally.clear();
            }
        }
        drained
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_drained_once_and_warm_up_stays_apart() {
        let recorder = Recorder::new();
        let ms = Duration::from_millis;
        let good = Outcome {
            operation: Operation::Read,
            latency: ms(3),
            delay: ms(1),
            rows: 2,
            end: End::Success,
            measured: true,
        };
        recorder.record(0, &good);
        recorder.record(9, &Outcome { measured: false, latency: ms(90), ..good });
        recorder.record(3, &Outcome { end: End::Failure("UNAVAILABLE"), ..good });
        recorder.record(3, &Outcome { end: End::Unanswered("TIMEOUT"), latency: ms(700), ..good });
        let drained = recorder.drain();
        let (measured, all) = (&drained.measured[&Operation::Read], &drained.all[&Operation::Read]);
        assert_eq!((measured.latency.count(), all.latency.count()), (1, 2));
        assert_eq!((measured.latency.max() / 10, measured.rows, all.rows), (300, 2, 4));
        assert_eq!((measured.errors["UNAVAILABLE"], measured.errors["TIMEOUT"]), (1, 1));
        assert_eq!((measured.unanswered.count(), measured.unanswered.max() / 10_000), (1, 70));
        assert_eq!((measured.delay.count(), all.delay.count()), (3, 4));
        let again = recorder.drain();
        assert!(
            again.all.values().all(|tally| tally.latency.count() == 0 && tally.errors.is_empty())
        );
    }
}
