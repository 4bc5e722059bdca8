//! Operations that are due and that no worker has begun, in order of their scheduled times.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// A bounded queue of due operations. An operation that finds it full is counted and never begun.
pub(crate) struct Backlog {
    due: Mutex<VecDeque<Duration>>,
    /// One permit for each operation in the queue. Closed when no more will come.
    ready: Semaphore,
    bound: usize,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    arrived: AtomicU64,
    overflowed: AtomicU64,
    longest: AtomicU64,
}

/// State of a backlog at some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BacklogState {
    pub(crate) arrived: u64,
    /// Operations that were not begun, because the queue was full.
    pub(crate) overflowed: u64,
    /// Operations in the queue now.
    pub(crate) waiting: u64,
    /// Most operations in the queue at any time.
    pub(crate) longest: u64,
}

impl Backlog {
    /// Returns an empty backlog of at most `bound` operations.
    pub(crate) fn new(bound: usize) -> Self {
        let (due, counts) = (Mutex::new(VecDeque::new()), Counts::default());
        Self { due, ready: Semaphore::new(0), bound, counts }
    }

    /// Adds the operation that is scheduled for `at`.
    pub(crate) fn push(&self, at: Duration) {
        self.counts.arrived.fetch_add(1, Ordering::Relaxed);
        let mut due = self.due.lock();
        if due.len() >= self.bound {
            self.counts.overflowed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        due.push_back(at);
        self.counts.longest.fetch_max(due.len() as u64, Ordering::Relaxed);
        drop(due);
        self.ready.add_permits(1);
    }

    /// Waits for an operation and returns its scheduled time. Returns `None` when the backlog is closed.
    pub(crate) async fn take(&self) -> Option<Duration> {
        self.ready.acquire().await.ok()?.forget();
        self.due.lock().pop_front()
    }

    /// Ends all waiting for operations. Operations in the queue are not begun.
    pub(crate) fn close(&self) {
        self.ready.close();
    }

    /// Returns the state at this moment.
    pub(crate) fn state(&self) -> BacklogState {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        BacklogState {
            arrived: count(&self.counts.arrived),
            overflowed: count(&self.counts.overflowed),
            waiting: self.due.lock().len() as u64,
            longest: count(&self.counts.longest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn operations_beyond_the_bound_are_counted_and_never_begun() {
        let backlog = Backlog::new(2);
        (0..5).for_each(|at| backlog.push(Duration::from_millis(at)));
        let want = BacklogState { arrived: 5, overflowed: 3, waiting: 2, longest: 2 };
        assert_eq!(backlog.state(), want);
        assert_eq!(backlog.take().await, Some(Duration::from_millis(0)));
        assert_eq!(backlog.take().await, Some(Duration::from_millis(1)));
        let waiting = tokio::time::timeout(Duration::from_secs(60), backlog.take()).await;
        assert!(waiting.is_err(), "nothing is due");
        backlog.push(Duration::from_millis(9));
        assert_eq!(backlog.take().await, Some(Duration::from_millis(9)));
        backlog.push(Duration::from_millis(10));
        backlog.close();
        assert_eq!(backlog.take().await, None);
    }
}
