//! The inserted keys of a run: all keys below the frontier are written.
//!
//! Invariants:
//! 1. Every key below `written` was acknowledged.
//! 2. A key that failed is tried again before a new key begins, so at most as many keys wait for that
//!    as there are workers.
//! 3. No key at or beyond `written` plus [`WINDOW`] is given out, which bounds the keys above the
//!    frontier that are remembered.

use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys that may be given out beyond the frontier.
const WINDOW: u64 = 1 << 16;

/// The state of all inserts of this process.
pub(crate) struct Frontier {
    state: Mutex<State>,
    /// Copy of the number of written keys, for readers. Published with Release.
    written: AtomicU64,
}

struct State {
    /// First key that was never given out.
    next: u64,
    written: u64,
    end: u64,
    /// Written keys above the frontier.
    above: BTreeSet<u64>,
    /// Keys that failed and wait for another attempt.
    failed: VecDeque<u64>,
}

/// Answer to a request for a key to insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The key to insert now.
    Key(u64),
    /// No key can begin until others end.
    Later,
    /// All keys were given out.
    Exhausted,
}

impl Frontier {
    /// Returns the frontier of keys up to `end`, of which the first `written` exist.
    pub(crate) fn new(written: u64, end: u64) -> Self {
        let (above, failed) = (BTreeSet::new(), VecDeque::new());
        let written = written.min(end);
        let state = State { next: written, written, end, above, failed };
        Self { state: Mutex::new(state), written: AtomicU64::new(written) }
    }

    /// Takes a key to insert, below `end`.
    pub(crate) fn take(&self, end: u64) -> Taken {
        let mut state = self.state.lock();
        if let Some(key) = state.failed.pop_front() {
            return Taken::Key(key);
        }
        if state.next >= state.end.min(end) {
            let open = state.written < state.next;
            return if open { Taken::Later } else { Taken::Exhausted };
        }
        if state.next - state.written >= WINDOW {
            return Taken::Later;
        }
        state.next += 1;
        Taken::Key(state.next - 1)
    }

    /// Records that the insert of a taken key was acknowledged.
    pub(crate) fn done(&self, key: u64) {
        let mut state = self.state.lock();
        state.above.insert(key);
        while let Some(first) = state.above.first().copied() {
            if first > state.written {
                break;
            }
            state.above.pop_first();
            state.written = state.written.max(first + 1);
        }
        self.written.store(state.written, Ordering::Release);
    }

    /// Records that the insert of a taken key failed or was not made.
    pub(crate) fn failed(&self, key: u64) {
        self.state.lock().failed.push_back(key);
    }

    /// Returns whether all keys are written.
    pub(crate) fn is_exhausted(&self) -> bool {
        let state = self.state.lock();
        state.written >= state.end
    }

    /// Returns the number of keys that are written: all below it are.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_see_keys_in_order_whatever_the_order_of_answers() {
        let frontier = Frontier::new(0, 4);
        let keys: Vec<Taken> = (0..5).map(|_| frontier.take(u64::MAX)).collect();
        let want = [Taken::Key(0), Taken::Key(1), Taken::Key(2), Taken::Key(3), Taken::Later];
        assert_eq!(keys, want);
        frontier.done(1);
        frontier.done(3);
        assert_eq!((frontier.written(), frontier.is_exhausted()), (0, false));
        frontier.done(0);
        assert_eq!(frontier.written(), 2);
        frontier.failed(2);
        assert_eq!(frontier.take(u64::MAX), Taken::Key(2));
        frontier.done(2);
        assert_eq!((frontier.written(), frontier.take(u64::MAX)), (4, Taken::Exhausted));
        assert!(frontier.is_exhausted());
    }

    #[test]
    fn a_key_that_never_succeeds_stops_new_ones_at_the_window() {
        let frontier = Frontier::new(5, u64::MAX);
        assert_eq!(frontier.take(u64::MAX), Taken::Key(5));
        let mut given = 0;
        while let Taken::Key(key) = frontier.take(u64::MAX) {
            frontier.done(key);
            given += 1;
        }
        assert_eq!((given, frontier.written()), (WINDOW - 1, 5));
        frontier.done(5);
        assert_eq!(frontier.written(), 5 + WINDOW);
        assert_eq!(frontier.take(3), Taken::Exhausted);
    }
}
