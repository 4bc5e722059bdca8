//! Background work without threads: a queue that is worked off when somebody helps.

use super::clock::SimClock;
use crate::env::Clock;
use crate::env::rng::Rng;
use crate::env::task::{Job, Tasks};
use crate::sync::{Io, before_io};
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    /// Jobs that run on this thread, one within the other.
    static JOBS: Cell<usize> = const { Cell::new(0) };
}

/// Returns whether this thread runs a job.
pub(super) fn in_job() -> bool {
    JOBS.get() > 0
}

/// A job that runs on this thread, as long as this lives.
struct Running;

impl Running {
    fn begin() -> Self {
        JOBS.set(JOBS.get() + 1);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        JOBS.set(JOBS.get() - 1);
    }
}

/// A queue of jobs that run on the thread that calls `help`, in an order drawn from the seed.
pub struct SimTasks {
    queue: Mutex<Queue>,
    clock: Arc<SimClock>,
}

struct Queue {
    rng: Rng,
    ready: Vec<Job>,
    /// Jobs that wait for a time of the monotonic clock.
    later: Vec<(Duration, Job)>,
    closed: bool,
}

impl SimTasks {
    pub(super) fn new(seed: u64, clock: Arc<SimClock>) -> Self {
        let (ready, later) = (Vec::new(), Vec::new());
        let queue = Queue { rng: Rng::new(seed), ready, later, closed: false };
        Self { queue: Mutex::new(queue), clock }
    }

    /// Jobs that could run now, without advancing the clock.
    pub fn ready(&self) -> usize {
        let mut queue = self.queue.lock();
        queue.collect_due(self.clock.monotonic());
        queue.ready.len()
    }

    /// Runs one job that is ready; `false` if there is none. Never advances the clock.
    pub fn run_ready(&self) -> bool {
        let job = {
            let mut queue = self.queue.lock();
            queue.collect_due(self.clock.monotonic());
            queue.draw()
        };
        let Some(job) = job else { return false };
        let _running = Running::begin();
        job();
        true
    }

    /// Drops all jobs, and every one submitted later: the process is gone.
    pub(super) fn forget(&self) {
        let dropped = {
            let mut queue = self.queue.lock();
            queue.closed = true;
            (std::mem::take(&mut queue.ready), std::mem::take(&mut queue.later))
        };
        // Outside the lock: what a job holds may submit another when it is dropped.
        drop(dropped);
    }

    /// Lets time pass until the next waiting job is due; `false` if none waits.
    fn skip_to_next(&self) -> bool {
        let next = self.queue.lock().later.iter().map(|(at, _)| *at).min();
        let Some(next) = next else { return false };
        self.clock.advance(next.saturating_sub(self.clock.monotonic()));
        true
    }
}

impl Queue {
    fn collect_due(&mut self, now: Duration) {
        let due = self.later.extract_if(.., |(at, _)| *at <= now);
        self.ready.extend(due.map(|(_, job)| job));
    }

    fn draw(&mut self) -> Option<Job> {
        if self.ready.is_empty() {
            return None;
        }
        let index = self.rng.index(self.ready.len());
        Some(self.ready.remove(index))
    }
}

impl Tasks for SimTasks {
    fn submit(&self, job: Job) {
        let mut queue = self.queue.lock();
        if !queue.closed {
            queue.ready.push(job);
        }
    }

    fn submit_later(&self, delay: Duration, job: Job) {
        let at = self.clock.monotonic() + delay;
        let mut queue = self.queue.lock();
        if !queue.closed {
            queue.later.push((at, job));
        }
    }

    /// Some, although one job ends before the next begins: what real threads divide is divided.
    fn threads(&self) -> usize {
        4
    }

    /// Runs one job. If none is ready but some wait for their time, time passes.
    fn help(&self) -> bool {
        before_io(Io::Wait, || "a wait for background work".to_owned());
        self.run_ready() || self.skip_to_next() && self.run_ready()
    }
}
