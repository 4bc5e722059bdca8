//! Which background threads compactions have, and which of them are idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Background threads that compactions have, or will have when their jobs come to run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Threads(Arc<AtomicUsize>);

/// A background thread of a compaction, as long as this lives.
pub(crate) struct Taken(Threads);

impl Threads {
    /// Takes a thread, be it there or not.
    pub(crate) fn take(&self) -> Taken {
        self.0.fetch_add(1, Ordering::Relaxed);
        Taken(self.clone())
    }

    /// Takes up to `wanted` threads that are idle, of `all`; leaves one to flushes.
    pub(crate) fn take_idle(&self, wanted: usize, all: usize) -> Vec<Taken> {
        let one_more = |taken: usize| (taken + 1 < all).then_some(taken + 1);
        let take = |_| self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        (0..wanted).map_while(|at| take(at).ok()).map(|_| Taken(self.clone())).collect()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_threads_are_lent_and_one_is_left() {
        let threads = Threads::default();
        assert!(threads.take_idle(5, 1).is_empty(), "one thread, for flushes");
        let by_hand = threads.take_idle(5, 4);
        assert_eq!(by_hand.len(), 3);
        drop(by_hand);
        let _compaction = threads.take();
        assert!(threads.take_idle(5, 2).is_empty());
        let first = threads.take_idle(1, 4);
        assert_eq!((first.len(), threads.take_idle(5, 4).len()), (1, 1));
        drop(first);
        assert_eq!(threads.take_idle(0, 4).len(), 0);
        let _another = (threads.take(), threads.take(), threads.take());
        assert!(threads.take_idle(1, 4).is_empty(), "more compactions than threads");
    }
}
