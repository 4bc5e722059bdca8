//! Keys that were written since the snapshots of REPEATABLE READ transactions were taken.
//!
//! 1. A snapshot is taken and noted under one lock. A commit notes its keys under the same lock, after it
//!    is visible and before its locks end: the next holder of a key knows of every commit that its snapshot
//!    does not see.
//! 2. Keys that every snapshot in use sees are forgotten. While no such transaction runs nothing is noted.
//! 3. The oldest keys beyond the limit of memory are forgotten too: then a snapshot of before counts as out
//!    of date for every key.

use super::Store;
use crate::locks::LockKey;
use crate::transaction::Overlay;
use engine::{SequenceNumber, Snapshot};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Most memory of the keys, about.
const BYTES_MAX: usize = 64 << 20;
/// Memory of a key beside its bytes, about.
const KEY_BYTES: usize = 150;

/// Commits that running transactions may be in conflict with.
#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Snapshots in use, with the number of transactions.
    snapshots: BTreeMap<SequenceNumber, usize>,
    /// Sequence number of the last commit of each key, or a later one.
    written: HashMap<LockKey, SequenceNumber>,
    /// The notes in their order; one that a later note of its key replaced is still among them.
    order: VecDeque<(SequenceNumber, LockKey)>,
    /// Memory of the notes, about.
    bytes: usize,
    /// Any key may have been written up to here.
    forgotten_up_to: Option<SequenceNumber>,
}

impl Conflicts {
    /// Takes a snapshot by `look`, with what else that returns, and notes it until [`Self::end`].
    pub(crate) fn begin<T>(&self, look: impl FnOnce() -> (T, Snapshot)) -> (T, Snapshot) {
        let mut state = self.state.lock();
        let (seen, snapshot) = look();
        *state.snapshots.entry(snapshot.sequence()).or_default() += 1;
        (seen, snapshot)
    }

    /// Forgets a snapshot that [`Self::begin`] took.
    pub(crate) fn end(&self, snapshot: SequenceNumber) {
        let mut state = self.state.lock();
        if let Some(count) = state.snapshots.get_mut(&snapshot) {
            *count -= 1;
            if *count == 0 {
                state.snapshots.remove(&snapshot);
            }
        }
        state.forget_what_all_see();
    }

    /// Notes that the keys of a commit were written, which is visible.
    pub(crate) fn note(&self, store: &Store, written: &Overlay) {
        let mut state = self.state.lock();
        if state.snapshots.is_empty() {
            return;
        }
        let at = store.snapshot().sequence();
        for (tree, entries) in written.trees() {
            entries.keys().for_each(|key| state.note(LockKey::Row(tree, key.clone()), at));
        }
        state.forget_beyond(BYTES_MAX);
    }

    /// Returns true if the key may have been written by a commit that the snapshot does not see.
    pub(crate) fn is_newer(&self, key: &LockKey, snapshot: SequenceNumber) -> bool {
        let state = self.state.lock();
        state.forgotten_up_to.is_some_and(|up_to| up_to > snapshot)
            || state.written.get(key).is_some_and(|at| *at > snapshot)
    }
}

impl State {
    fn note(&mut self, key: LockKey, at: SequenceNumber) {
        self.bytes += key.bytes() + KEY_BYTES;
        self.order.push_back((at, key.clone()));
        self.written.insert(key, at);
    }

    /// Takes the oldest note away, and returns its moment.
    fn forget_first(&mut self) -> Option<SequenceNumber> {
        let (at, key) = self.order.pop_front()?;
        self.bytes = self.bytes.saturating_sub(key.bytes() + KEY_BYTES);
        if self.written.get(&key) == Some(&at) {
            self.written.remove(&key);
        }
        Some(at)
    }

    fn forget_what_all_see(&mut self) {
        let Some(oldest) = self.snapshots.keys().next().copied() else {
            *self = Self::default();
            return;
        };
        while self.order.front().is_some_and(|(at, _)| *at <= oldest) {
            self.forget_first();
        }
        if self.forgotten_up_to.is_some_and(|up_to| up_to <= oldest) {
            self.forgotten_up_to = None;
        }
    }

    fn forget_beyond(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some(at) = self.forget_first()
        {
            self.forgotten_up_to = Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn key(number: u64) -> LockKey {
        LockKey::Row(16, Bytes::from(number.to_string()))
    }

    #[test]
    fn what_all_snapshots_see_is_forgotten() {
        let mut state = State::default();
        state.snapshots.insert(SequenceNumber(5), 1);
        state.snapshots.insert(SequenceNumber(9), 1);
        for at in [6, 7, 10] {
            state.note(key(at % 2), SequenceNumber(at));
        }
        state.snapshots.remove(&SequenceNumber(5));
        state.forget_what_all_see();
        assert_eq!(state.order.len(), 1);
        assert_eq!(state.written, HashMap::from([(key(0), SequenceNumber(10))]));
        state.snapshots.clear();
        state.forget_what_all_see();
        assert_eq!((state.bytes, state.written.len()), (0, 0));
    }

    #[test]
    fn the_oldest_notes_give_way_to_the_limit() {
        let mut state = State::default();
        state.snapshots.insert(SequenceNumber(1), 1);
        (2..12).for_each(|at| state.note(key(at), SequenceNumber(at)));
        let half = state.bytes / 2;
        state.forget_beyond(half);
        assert!(state.bytes <= half && state.written.len() == state.order.len());
        assert!(state.written.contains_key(&key(11)) && !state.written.contains_key(&key(2)));
        let up_to = state.forgotten_up_to.unwrap();
        assert!(up_to > SequenceNumber(2) && up_to < SequenceNumber(11));
        state.snapshots = BTreeMap::from([(SequenceNumber(20), 1)]);
        state.forget_what_all_see();
        assert_eq!(state.forgotten_up_to, None);
    }
}
