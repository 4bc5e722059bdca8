//! Jobs: work that is queued, counted until it ends, and guarded against panics.

use crate::health::failure_policy::Task;
use crate::state::Shared;
use base::histogram::Histogram;
use std::sync::Arc;
use std::time::Duration;

/// A job that is queued or runs. Counted until it is dropped, also if it never ran, so that
/// `close` waits for it and not for ever.
pub(super) struct CountedJob {
    shared: Arc<Shared>,
}

impl CountedJob {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        shared.progress.lock().jobs += 1;
        Self { shared: Arc::clone(shared) }
    }
}

impl CountedJob {
    /// Counts the wait of this job, which was queued at `since` and begins now.
    fn waited(&self, task: Task, since: Duration) {
        if let Some(waits) = waits_of(&self.shared, task) {
            waits.record_time(self.shared.env.clock.monotonic().saturating_sub(since));
        }
    }
}

impl Drop for CountedJob {
    fn drop(&mut self) {
        self.shared.progress.lock().jobs -= 1;
        self.shared.progress_made();
    }
}

/// Returns the waits of jobs that are a part of `task`, if they are counted.
fn waits_of(shared: &Shared, task: Task) -> Option<&Histogram> {
    let waits = &shared.counters.job_waits;
    match task {
        Task::Flush => Some(&waits.flushes),
        Task::Compaction => Some(&waits.compactions),
        Task::Log | Task::Manifest | Task::ByHand | Task::Ingest | Task::Checkpoint => None,
    }
}

/// Queues `job`, a part of `task` that `what` names, once `delay` has passed. Closing the engine waits for it from
/// when it is queued, or begins if it is delayed; a delayed one does not keep the engine open.
pub(crate) fn run_later(
    shared: &Arc<Shared>,
    delay: Duration,
    task: Task,
    what: &'static str,
    job: impl FnOnce(&Arc<Shared>) + Send + 'static,
) {
    let run = move |counted: CountedJob| {
        let shared = &counted.shared;
        let done = shared.health.guard(task, what, || {
            job(shared);
            Ok(())
        });
        if done.is_err() {
            shared.progress_made();
        }
    };
    if delay.is_zero() {
        let (counted, since) = (CountedJob::new(shared), shared.env.clock.monotonic());
        let begin = move || {
            counted.waited(task, since);
            run(counted);
        };
        return shared.env.tasks.submit(Box::new(begin));
    }
    let weak = Arc::downgrade(shared);
    let begin = move || {
        if let Some(shared) = weak.upgrade() {
            run(CountedJob::new(&shared));
        }
    };
    shared.env.tasks.submit_later(delay, Box::new(begin));
}
