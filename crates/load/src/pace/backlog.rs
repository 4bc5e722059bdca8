//! Operations that are due and that no worker has begun, in order of their scheduled times.
//!
//! Invariants:
//! 1. Every operation that arrived was taken, waits, or was left out because the queue was full. A taken
//!    one that is not begun comes back.
//! 2. After the last operation of a limit was taken nothing arrives, and no waiting operation was due.
//! 3. After the backlog was closed, operations still arrive if they are due before the end, and none is taken.

use super::moments::Moments;
use crate::measure::Distribution;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::Semaphore;

/// A bounded queue of due operations. An operation that finds it full is counted and never begun.
pub(crate) struct Backlog {
    queue: Mutex<Queue>,
    /// One permit for each operation in the queue. Closed when no more will come.
    ready: Semaphore,
    bound: usize,
    /// Operations that are due earlier belong to the warm-up.
    warm_up: Duration,
}

struct Queue {
    due: VecDeque<Duration>,
    /// Operations that may still be taken; `None` without a limit.
    left: Option<u64>,
    /// The last operation of the limit was taken.
    complete: bool,
    /// Time of the end, when the backlog is closed.
    end: Option<Duration>,
    arrived: u64,
    left_out: u64,
    longest: u64,
    /// Scheduled times of the operations that were left out, from the end of the warm-up on.
    left_out_at: Moments,
}

/// State of a backlog at some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BacklogState {
    pub(crate) arrived: u64,
    /// Operations that were not begun, because the queue was full.
    pub(crate) left_out: u64,
    /// Operations in the queue now.
    pub(crate) waiting: u64,
    /// Most operations in the queue at any time.
    pub(crate) longest: u64,
}

impl Backlog {
    /// Returns an empty backlog of at most `bound` operations at a time and `limit` in all.
    pub(crate) fn new(bound: usize, limit: Option<u64>, warm_up: Duration) -> Self {
        let queue = Queue {
            due: VecDeque::new(),
            left: limit,
            complete: false,
            end: None,
            arrived: 0,
            left_out: 0,
            longest: 0,
            left_out_at: Moments::new(),
        };
        Self { queue: Mutex::new(queue), ready: Semaphore::new(0), bound, warm_up }
    }

    /// Adds the operation that is scheduled for `at`. Returns false if it and all later ones are not wanted.
    pub(crate) fn push(&self, at: Duration) -> bool {
        let mut queue = self.queue.lock();
        if queue.complete || queue.end.is_some_and(|end| at > end) {
            return false;
        }
        queue.arrived += 1;
        if queue.due.len() >= self.bound {
            queue.left_out += 1;
            if let Some(at) = at.checked_sub(self.warm_up) {
                queue.left_out_at.add(at);
            }
            return true;
        }
        queue.due.push_back(at);
        queue.longest = queue.longest.max(queue.due.len() as u64);
        drop(queue);
        self.ready.add_permits(1);
        true
    }

    /// Waits for an operation and returns its scheduled time. Returns `None` when no more will come.
    pub(crate) async fn take(&self) -> Option<Duration> {
        self.ready.acquire().await.ok()?.forget();
        let mut queue = self.queue.lock();
        let at = queue.due.pop_front()?;
        if let Some(left) = &mut queue.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                queue.arrived -= queue.due.len() as u64;
                queue.due.clear();
                queue.complete = true;
                self.ready.close();
            }
        }
        Some(at)
    }

    /// Takes back an operation that was taken and not begun.
    pub(crate) fn give_back(&self, at: Duration) {
        let mut queue = self.queue.lock();
        queue.due.push_front(at);
        if let Some(left) = &mut queue.left {
            *left += 1;
        }
        drop(queue);
        self.ready.add_permits(1);
    }

    /// Ends all waiting for operations at `end`, unless it ended earlier. Operations in the queue are
    /// not begun.
    pub(crate) fn close(&self, end: Duration) {
        self.queue.lock().end.get_or_insert(end);
        self.ready.close();
    }

    /// Returns the state at this moment.
    pub(crate) fn state(&self) -> BacklogState {
        let queue = self.queue.lock();
        BacklogState {
            arrived: queue.arrived,
            left_out: queue.left_out,
            waiting: queue.due.len() as u64,
            longest: queue.longest,
        }
    }

    /// Returns the times from due to `end` of the operations that were left out or wait, without the
    /// warm-up. Each is at least the time that the operation waited.
    pub(crate) fn unanswered(&self, end: Duration) -> Distribution {
        let queue = self.queue.lock();
        let mut times = Distribution::new();
        for at in queue.due.iter().filter(|at| **at >= self.warm_up) {
            times.record(end.saturating_sub(*at));
        }
        for (at, count) in queue.left_out_at.intervals() {
            times.record_many(end.saturating_sub(self.warm_up).saturating_sub(at), count);
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test(start_paused = true)]
    async fn operations_beyond_the_bound_are_counted_and_never_begun() {
        let backlog = Backlog::new(2, None, Duration::ZERO);
        (0..5).for_each(|at| assert!(backlog.push(ms(at))));
        let want = BacklogState { arrived: 5, left_out: 3, waiting: 2, longest: 2 };
        assert_eq!(backlog.state(), want);
        assert_eq!(backlog.take().await, Some(ms(0)));
        assert_eq!(backlog.take().await, Some(ms(1)));
        let waiting = tokio::time::timeout(Duration::from_secs(60), backlog.take()).await;
        assert!(waiting.is_err(), "nothing is due");
        backlog.push(ms(9));
        assert_eq!(backlog.take().await, Some(ms(9)));
        backlog.push(ms(10));
        backlog.close(ms(12));
        backlog.close(ms(99));
        assert!(backlog.push(ms(12)) && !backlog.push(ms(13)));
        assert_eq!(backlog.take().await, None);
        assert_eq!((backlog.state().arrived, backlog.state().waiting), (8, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn operations_without_an_answer_waited_from_due_to_the_end() {
        let backlog = Backlog::new(2, None, ms(1000));
        // One of the warm-up waits and one is left out; one waits, and two are left out.
        for at in [900, 1500, 950, 2000, 3000] {
            backlog.push(ms(at));
        }
        let times = backlog.unanswered(ms(5000));
        let near = |q, want: u64| times.quantile(q).abs_diff(want * 1000) <= want;
        assert_eq!(times.count(), 3);
        assert!(near(0.0, 2000) && near(0.5, 3000) && near(1.0, 3500), "{times:?}");
        // A taken operation is begun, or comes back.
        let taken = backlog.take().await.unwrap();
        backlog.give_back(taken);
        assert_eq!(backlog.unanswered(ms(5000)), times);
        assert_eq!(backlog.take().await, Some(taken));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_due_after_the_last_operation_of_a_limit() {
        let backlog = Backlog::new(10, Some(2), Duration::ZERO);
        (0..5).for_each(|at| assert!(backlog.push(ms(at))));
        assert_eq!(backlog.take().await, Some(ms(0)));
        let second = backlog.take().await;
        assert_eq!((second, backlog.take().await), (Some(ms(1)), None));
        assert!(!backlog.push(ms(6)));
        let want = BacklogState { arrived: 2, left_out: 0, waiting: 0, longest: 5 };
        assert_eq!(backlog.state(), want);
        assert_eq!(backlog.unanswered(ms(9)).count(), 0);
    }
}
