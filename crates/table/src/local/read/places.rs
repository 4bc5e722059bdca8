//! Places of reads among the blocking calls, shared fairly.
//!
//! A read takes a place for one step, and queues again for the next. A read that took little so far
//! comes before one that took much, as in schedulers with several queues: the first step is of the class
//! of short reads, the second of the class of middling ones, all later ones of the class of long ones.
//! The last two are each as large as the machine has cores. The first two steps have little time on a
//! core (`first_step_micros`, `second_step_micros` of the [`Shape`]), however long they wait for the disk.
//!
//! Invariants:
//! 1. A read that is answered by one step never waits for a longer read, and shares the cores with no
//!    more of each longer class than there are cores. Nor does one that is answered by two wait for a
//!    read that needs three.
//! 2. Within a class the first to ask is served first, so long reads take turns, step by step.
//! 3. A read that is given up while it queues takes no place. One that is given up while its step runs
//!    ends the step, as if its time were over.
//! 4. A read lets other tasks run before its first step on a thread. A call that its client took back at
//!    once is dropped meanwhile, and costs no step.

use super::{Filled, Reader};
use crate::error::Result;
use crate::local::Pool;
use crate::meter::{Queue, StoreMeter};
use crate::row_output::RowOutput;
use crate::shape::Shape;
use base::env::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;

/// Classes of places of blocking reads.
#[derive(Clone)]
pub(in crate::local) struct ReadPlaces {
    short: Pool,
    middling: Pool,
    long: Pool,
    /// Time on a core of the first step of a read, and of the second. Later ones have only their end in
    /// time.
    cpu_of_steps: [Duration; 2],
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
        let pool = |places, queue| Pool::new(places, queue, meter, clock);
        Self {
            short: pool(shape.reads_max, Queue::ShortReads),
            middling: pool(long, Queue::MiddlingReads),
            long: pool(long, Queue::LongReads),
            cpu_of_steps: [shape.first_step_micros, shape.second_step_micros]
                .map(|micros| Duration::from_micros(micros as u64)),
        }
    }

    /// The same places, whose steps run on the blocking threads of `runtime`.
    pub(in crate::local) fn on_threads_of(self, runtime: &Handle) -> Self {
        let [short, middling, long] =
            [self.short, self.middling, self.long].map(|pool| pool.on_threads_of(runtime));
        Self { short, middling, long, ..self }
    }

    /// Returns the class of the next step of a read that has made so many.
    fn of(&self, steps: usize) -> &Pool {
        match steps {
            0 => &self.short,
            1 => &self.middling,
            _ => &self.long,
        }
    }

    /// Runs a call that is no read of rows, as a short read.
    pub(in crate::local) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run_after(0, call).await
    }

    /// Runs the next step of a read that has made so many `steps`.
    async fn run_after<T: Send + 'static>(
        &self,
        steps: usize,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.of(steps).run(call).await
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
        let steps = reader.steps();
        if steps == 0 {
            tokio::task::yield_now().await;
        }
        let waits = Waits::default();
        let given_up = Arc::clone(&waits.given_up);
        let cpu = self.cpu_of_steps.get(steps).copied();
        self.run_after(steps, move || {
            let clock = StepClock::begin(reader.clock(), given_up, cpu.as_ref());
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

/// The clock of a step on the thread that makes it. The step's time is over when it is given up, or when
/// the thread had a core for so long as the step may have it.
struct StepClock {
    clock: Arc<dyn Clock>,
    given_up: Arc<AtomicBool>,
    cpu: Option<CpuEnd>,
}

/// The end of a step's time on a core.
struct CpuEnd {
    /// No thread had a core for longer than time has passed: before this the thread need not be asked.
    not_before: Duration,
    /// The thread's own time at the end.
    end: Duration,
}

impl StepClock {
    /// Begins a step on this thread.
    fn begin(clock: Arc<dyn Clock>, given_up: Arc<AtomicBool>, cpu_max: Option<&Duration>) -> Self {
        let cpu = cpu_max.map(|max| CpuEnd {
            not_before: clock.monotonic().saturating_add(*max),
            end: clock.thread_cpu().saturating_add(*max),
        });
        Self { clock, given_up, cpu }
    }
}

impl Clock for StepClock {
    fn now_micros(&self) -> i64 {
        self.clock.now_micros()
    }

    fn monotonic(&self) -> Duration {
        let now = self.clock.monotonic();
        let used_up = |cpu: &CpuEnd| now >= cpu.not_before && self.clock.thread_cpu() >= cpu.end;
        // Relaxed: the flag guards nothing else.
        let over = self.given_up.load(Ordering::Relaxed) || self.cpu.as_ref().is_some_and(used_up);
        if over { Duration::MAX } else { now }
    }
}

#[cfg(test)]
impl ReadPlaces {
    /// Returns the places of short reads, for tests that count them.
    pub(in crate::local) fn short_places(&self) -> Arc<tokio::sync::Semaphore> {
        Arc::clone(&self.short.places)
    }

    /// Returns the places of middling and of long reads, for tests that take them.
    pub(in crate::local) fn longer_places(&self) -> [Arc<tokio::sync::Semaphore>; 2] {
        [&self.middling, &self.long].map(|class| Arc::clone(&class.places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::SystemClock;
    use engine::StepBudget;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_step_ends_when_its_read_is_given_up() {
        let waits = Waits::default();
        let clock = StepClock::begin(Arc::new(SystemClock), Arc::clone(&waits.given_up), None);
        let hour = Duration::from_secs(3_600);
        let mut budget = StepBudget::of_work(1 << 20).within(hour, &clock);
        assert!(!budget.spend(1_000));
        drop(waits);
        assert!(budget.spend(1_000), "the next look at the clock ends the step");
    }

    /// A clock on which each look takes a millisecond, and the thread has a core for a part of it.
    struct Waiting {
        looks: AtomicU64,
        cpu_micros_per_look: u64,
    }

    impl Clock for Waiting {
        fn now_micros(&self) -> i64 {
            0
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.looks.fetch_add(1, Ordering::Relaxed))
        }

        fn thread_cpu(&self) -> Duration {
            let looks = self.looks.load(Ordering::Relaxed);
            Duration::from_micros(looks * self.cpu_micros_per_look)
        }
    }

    /// Returns after how many looks at the clock a step of 50 ms is over.
    fn looks_of_step(cpu_micros_per_look: u64, cpu_max: Option<Duration>) -> usize {
        let clock = Arc::new(Waiting { looks: AtomicU64::new(0), cpu_micros_per_look });
        let clock = StepClock::begin(clock, Arc::default(), cpu_max.as_ref());
        let step = Duration::from_millis(50);
        let mut budget = StepBudget::of_work(u64::MAX).within(step, &clock);
        (1..).find(|_| budget.spend(64)).unwrap_or_default()
    }

    #[test]
    fn a_step_ends_with_its_time_on_a_core_and_not_while_it_waits() {
        let cpu_max = Some(Duration::from_millis(10));
        let (busy, half) = (looks_of_step(1_000, cpu_max), looks_of_step(500, cpu_max));
        assert!((8..=10).contains(&busy), "{busy} looks");
        assert!((17..=20).contains(&half), "{half} looks");
        assert_eq!((looks_of_step(10, cpu_max), looks_of_step(1_000, None)), (50, 50));
    }
}
