//! Places of reads among the blocking calls, shared fairly.
//!
//! A read takes a place for one step, and queues again for the next. Its first step is of the class of
//! short reads, all later ones of the class of long reads, which is as large as the machine has cores.
//!
//! Invariants:
//! 1. A read that is answered by one step never waits for a long read, and shares the cores with no
//!    more of them than there are cores.
//! 2. Within a class the first to ask is served first, so long reads take turns, step by step.
//! 3. A read that is given up while it queues takes no place. One that is given up while its step runs
//!    ends the step, as if its time were over.
//! 4. A read lets other tasks run before its first step on a thread. A call that its client took back at
//!    once is dropped meanwhile, and costs no step.

use super::{Filled, Reader};
use crate::error::Result;
use crate::local::Pool;
use crate::meter::StoreMeter;
use crate::row_output::RowOutput;
use crate::shape::Shape;
use base::env::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Classes of places of blocking reads.
#[derive(Clone)]
pub(in crate::local) struct ReadPlaces {
    short: Pool,
    long: Pool,
    /// Counts how long reads wait for their places.
    meter: Arc<StoreMeter>,
    clock: Arc<dyn Clock>,
}

impl ReadPlaces {
    /// The places of a store of this shape on a machine with so many `cores`.
    pub(in crate::local) fn new(
        shape: &Shape,
        cores: usize,
        meter: &Arc<StoreMeter>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let long = cores.max(shape.long_reads_min).min(shape.reads_max);
        Self {
            short: Pool::new(shape.reads_max),
            long: Pool::new(long),
            meter: Arc::clone(meter),
            clock: Arc::clone(clock),
        }
    }

    /// Runs a call that is no read of rows, as a short read.
    pub(in crate::local) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run_in(false, call).await
    }

    /// Runs a call in a place of short reads, or of long ones.
    async fn run_in<T: Send + 'static>(
        &self,
        is_long: bool,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let places = if is_long { &self.long } else { &self.short };
        let came = self.clock.monotonic();
        let place = places.place().await?;
        self.meter.waited_for_place(is_long, self.clock.monotonic().saturating_sub(came));
        Pool::run_in(place, call).await
    }

    /// Returns the next batch of a read: in this task if it can be, else on a blocking thread.
    pub(in crate::local) async fn fill<S: RowOutput>(
        &self,
        mut reader: Reader,
        mut output: S,
    ) -> Result<(Reader, S, Filled<S::Batch>)> {
        if reader.is_for_task() {
            let filled = reader.fill_rows(&mut output).await?;
            if filled.done || filled.batch.is_some() || reader.is_for_task() {
                return Ok((reader, output, filled));
            }
        }
        if !reader.is_long() {
            tokio::task::yield_now().await;
        }
        let waits = Waits::default();
        let clock = StepClock { clock: reader.clock(), given_up: Arc::clone(&waits.given_up) };
        self.run_in(reader.is_long(), move || {
            let filled = reader.fill_by(&clock, &mut output)?;
            Ok((reader, output, filled))
        })
        .await
    }
}

/// A task that waits for a step. When it is dropped, the step is given up.
#[derive(Default)]
struct Waits {
    given_up: Arc<AtomicBool>,
}

impl Drop for Waits {
    fn drop(&mut self) {
        // Relaxed: the step needs to see nothing but the flag.
        self.given_up.store(true, Ordering::Relaxed);
    }
}

/// The clock of a step, whose time is over when the step is given up.
struct StepClock {
    clock: Arc<dyn Clock>,
    given_up: Arc<AtomicBool>,
}

impl Clock for StepClock {
    fn now_micros(&self) -> i64 {
        self.clock.now_micros()
    }

    fn monotonic(&self) -> Duration {
        if self.given_up.load(Ordering::Relaxed) { Duration::MAX } else { self.clock.monotonic() }
    }
}

#[cfg(test)]
impl ReadPlaces {
    /// Returns the places of short reads, for tests that count them.
    pub(in crate::local) fn short_places(&self) -> Arc<tokio::sync::Semaphore> {
        Arc::clone(&self.short.places)
    }

    /// Returns the places of long reads, for tests that take them.
    pub(in crate::local) fn long_places(&self) -> Arc<tokio::sync::Semaphore> {
        Arc::clone(&self.long.places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::SystemClock;
    use engine::StepBudget;

    #[test]
    fn a_step_ends_when_its_read_is_given_up() {
        let waits = Waits::default();
        let given_up = Arc::clone(&waits.given_up);
        let clock = StepClock { clock: Arc::new(SystemClock), given_up };
        let hour = Duration::from_secs(3_600);
        let mut budget = StepBudget::of_work(1 << 20).within(hour, &clock);
        assert!(!budget.spend(1_000));
        drop(waits);
        assert!(budget.spend(1_000), "the next look at the clock ends the step");
    }
}
