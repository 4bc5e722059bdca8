//! Jobs: work that is queued, counted until it ends, and guarded against panics.

use crate::health::failure_policy::Task;
use crate::state::Shared;
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

impl Drop for CountedJob {
    fn drop(&mut self) {
        self.shared.progress.lock().jobs -= 1;
        self.shared.progress_made();
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
        let counted = CountedJob::new(shared);
        return shared.env.tasks.submit(Box::new(move || run(counted)));
    }
    let weak = Arc::downgrade(shared);
    let begin = move || {
        if let Some(shared) = weak.upgrade() {
            run(CountedJob::new(&shared));
        }
    };
    shared.env.tasks.submit_later(delay, Box::new(begin));
}
