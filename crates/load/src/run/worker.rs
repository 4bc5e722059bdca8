//! A worker: takes an operation, does it, and records its outcome.
//!
//! Invariant: every operation that a worker took from the backlog is recorded, or goes back. An operation
//! whose worker is aborted counts as one without an answer.
//!
//! In a closed loop, a worker backs off after failures, so that a broken server is not hammered. In an open
//! loop the schedule alone says when operations begin: a pause would let the server look slow.

use super::Control;
use super::clocked::Clocked;
use crate::client::{Api, Failure};
use crate::measure::{End, Outcome, Recorder, Watch};
use crate::pace::Backlog;
use crate::workload::{Findings, Next, Task, Trouble, Workload};
use bench_core::SplitMix64;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Pause of a worker for which there is no work yet.
const PAUSE: Duration = Duration::from_millis(2);
/// First and longest pause after failures.
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// State that all workers of a lane share.
pub(super) struct Shared {
    pub(super) workload: Arc<Workload>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) control: Arc<Control>,
    pub(super) watch: Watch,
    /// Operations that begin earlier belong to the warm-up.
    pub(super) warm_up: Duration,
    pub(super) lane: usize,
    /// Operations of a closed loop that may still begin.
    pub(super) left: Option<AtomicI64>,
    /// Due operations of an open loop.
    pub(super) backlog: Option<Arc<Backlog>>,
    /// Streak of failures of all lanes.
    pub(super) streak: Arc<Streak>,
    /// Messages of failures, for people.
    pub(super) findings: Arc<Findings>,
}

/// Failures of all workers since their last success.
#[derive(Default)]
pub(super) struct Streak {
    /// Milliseconds at the first failure, plus 1; 0 if the last operation succeeded.
    began: AtomicU64,
}

impl Streak {
    pub(super) fn succeeded(&self) {
        if self.began.load(Ordering::Relaxed) != 0 {
            self.began.store(0, Ordering::Relaxed);
        }
    }

    /// Begins a streak at `now`, unless one began earlier.
    pub(super) fn failed(&self, now: Duration) {
        let began = u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        // An error means that the streak began earlier.
        let _ = self.began.compare_exchange(0, began, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns how long every operation has failed.
    pub(super) fn length(&self, now: Duration) -> Duration {
        match self.began.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            began => now.saturating_sub(Duration::from_millis(began - 1)),
        }
    }
}

/// Pauses that grow with each failure in a row.
pub(super) struct Backoff {
    next: Duration,
    random: SplitMix64,
}

impl Backoff {
    /// Returns the pauses before any failure.
    pub(super) fn new(random: SplitMix64) -> Self {
        Self { next: BACKOFF_MIN, random }
    }

    /// Returns the pause after another failure: half of it is random, so that workers spread.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next.mul_f64(0.5 + self.random.fraction() / 2.0);
        self.next = (self.next * 2).min(BACKOFF_MAX);
        pause
    }

    /// Forgets the failures after a success.
    pub(super) fn reset(&mut self) {
        self.next = BACKOFF_MIN;
    }
}

/// Works until the run is stopped, or no work is left.
pub(super) async fn work(
    shared: Arc<Shared>,
    number: usize,
    client: impl Api,
    mut random: SplitMix64,
) {
    let mut client = Clocked::new(client, shared.watch);
    let mut backoff = Backoff::new(SplitMix64(random.next_u64()));
    while !shared.control.is_stopped() {
        let due = match &shared.backlog {
            None if !shared.may_begin() => return,
            None => None,
            Some(backlog) => match backlog.take().await {
                Some(due) => Some(due),
                None => return,
            },
        };
        let Some(task) = shared.task(number, &mut random).await else {
            if let (Some(backlog), Some(due)) = (&shared.backlog, due) {
                backlog.give_back(due);
            }
            return;
        };
        let in_flight = shared.begin(number, &task, due);
        let result = shared.workload.perform(&task, &mut client).await;
        in_flight.end(&result, client.answered());
        match result {
            Err(Trouble::Failed(failure)) => {
                shared.findings.complain(failure.class(), &failure.message());
                shared.streak.failed(client.answered());
                if shared.backlog.is_none() {
                    shared.control.sleep(backoff.pause()).await;
                }
            }
            Ok(_) | Err(Trouble::Wrong(_)) => {
                shared.streak.succeeded();
                backoff.reset();
            }
        }
    }
}

impl Shared {
    /// Counts one operation; returns whether it may begin.
    fn may_begin(&self) -> bool {
        let Some(left) = &self.left else { return true };
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left > 0).then_some(left - 1)
        })
        .is_ok()
    }

    /// Waits for a task of worker `number`. Returns `None` at the end of the work.
    async fn task(&self, number: usize, random: &mut SplitMix64) -> Option<Task> {
        loop {
            match self.workload.next(self.lane, number, random) {
                Next::Do(task) => return Some(task),
                Next::Done => return None,
                Next::Later if self.control.is_stopped() => return None,
                Next::Later => self.control.sleep(PAUSE).await,
            }
        }
    }

    /// Begins an operation, which was due at `due` in an open loop.
    fn begin(&self, number: usize, task: &Task, due: Option<Duration>) -> InFlight<'_> {
        let begun = self.watch.elapsed();
        let due = due.unwrap_or(begun);
        let outcome = Outcome {
            operation: self.workload.operation(task),
            latency: Duration::ZERO,
            delay: begun.saturating_sub(due),
            rows: 0,
            end: End::Unanswered(Failure::Timeout.class()),
            measured: due >= self.warm_up,
        };
        InFlight { shared: self, number, due, ended: None, outcome }
    }
}

/// An operation that began. It is recorded when it is dropped: without an answer, unless it ended before.
struct InFlight<'a> {
    shared: &'a Shared,
    number: usize,
    due: Duration,
    ended: Option<Duration>,
    outcome: Outcome,
}

impl InFlight<'_> {
    /// Ends the operation, whose answer came at `ended`.
    fn end(mut self, result: &Result<u64, Trouble>, ended: Duration) {
        self.ended = Some(ended);
        self.outcome.rows = *result.as_ref().unwrap_or(&0);
        self.outcome.end = match result {
            Ok(_) => End::Success,
            Err(Trouble::Failed(failure)) if failure.is_timeout() => {
                End::Unanswered(failure.class())
            }
            Err(Trouble::Failed(failure)) => End::Failure(failure.class()),
            Err(Trouble::Wrong(problem)) => End::Failure(problem.name()),
        };
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let ended = self.ended.unwrap_or_else(|| self.shared.watch.elapsed());
        self.outcome.latency = ended.saturating_sub(self.due);
        self.shared.recorder.record(self.number, &self.outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streak_lasts_from_the_first_failure_to_the_next_success() {
        let streak = Streak::default();
        let at = Duration::from_secs;
        assert_eq!(streak.length(at(100)), Duration::ZERO);
        streak.failed(at(100));
        streak.failed(at(110));
        assert_eq!(streak.length(at(130)), at(30));
        assert_eq!(streak.length(at(90)), Duration::ZERO);
        streak.succeeded();
        assert_eq!(streak.length(at(500)), Duration::ZERO);
    }

    #[test]
    fn pauses_grow_to_a_second_and_start_over_after_a_success() {
        let mut backoff = Backoff::new(SplitMix64(1));
        let pauses: Vec<Duration> = (0..12).map(|_| backoff.pause()).collect();
        assert!(pauses[0] >= BACKOFF_MIN / 2 && pauses[0] <= BACKOFF_MIN);
        assert!(pauses[11] >= BACKOFF_MAX / 2 && pauses[11] <= BACKOFF_MAX);
        backoff.reset();
        assert!(backoff.pause() <= BACKOFF_MIN);
    }
}
