//! The locks of one transaction, let go of together or back to a mark.
//!
//! 1. A key is noted before its lock is asked for: if the future that waits is dropped at the moment of the grant,
//!    the lock ends with the transaction.
//! 2. The journal has the modes of a key before each request, so that locks since a mark can be given back in
//!    reverse.

use super::mode::Mode;
use super::{LockKey, LockTable, Owner, Wait};
use crate::error::{Error, Result};
use crate::state::SqlState;
use foldhash::{HashMap, HashMapExt};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Memory of a lock beside the bytes of its key, about: in the table, here and in the journal.
const LOCK_BYTES: usize = 200;

/// The locks that one transaction holds. Dropping it lets go of all of them.
pub(crate) struct HeldLocks {
    table: Arc<LockTable>,
    owner: Owner,
    /// Modes of each key that are certainly held, as bits.
    keys: HashMap<LockKey, u8>,
    journal: Vec<(LockKey, u8)>,
    bytes: usize,
    /// Most bytes of memory that the locks may take.
    pub(crate) bytes_max: usize,
    /// Longest time to wait for one lock.
    pub(crate) timeout: Option<Duration>,
}

impl HeldLocks {
    pub(super) fn new(table: Arc<LockTable>, owner: Owner) -> Self {
        Self {
            table,
            owner,
            keys: HashMap::new(),
            journal: Vec::new(),
            bytes: 0,
            bytes_max: usize::MAX,
            timeout: None,
        }
    }

    /// Takes a lock, or makes one stronger. Returns false if `wait` is `Skip` and others are in the way.
    /// 55P03 if it does not wait or waited too long, 40P01 if waiting would never end, 53200 if the
    /// transaction has too many locks.
    pub(crate) async fn take(&mut self, key: LockKey, mode: Mode, wait: Wait) -> Result<bool> {
        let before = self.keys.get(&key).copied().unwrap_or_default();
        if mode.is_covered_by(before) {
            return Ok(true);
        }
        self.note(&key, before)?;
        match self.table.acquire(self.owner, &key, mode, wait, self.timeout).await {
            Ok(true) => {
                if let Some(modes) = self.keys.get_mut(&key) {
                    *modes = before | mode.bit();
                }
                Ok(true)
            }
            refused => {
                self.unnote();
                refused
            }
        }
    }

    fn note(&mut self, key: &LockKey, before: u8) -> Result<()> {
        let bytes = self.bytes + key.bytes() + LOCK_BYTES;
        if bytes > self.bytes_max {
            let message =
                format!("locks of a transaction take more than {} MiB", self.bytes_max >> 20);
            return Err(Error::new(SqlState::OUT_OF_MEMORY, message)
                .with_hint("Commit smaller parts of the work."));
        }
        self.bytes = bytes;
        self.journal.push((key.clone(), before));
        self.keys.insert(key.clone(), before);
        Ok(())
    }

    /// Takes the last note back, of a lock that was not granted.
    fn unnote(&mut self) -> Option<(LockKey, u8)> {
        let (key, before) = self.journal.pop()?;
        self.bytes = self.bytes.saturating_sub(key.bytes() + LOCK_BYTES);
        match before {
            0 => drop(self.keys.remove(&key)),
            before => drop(self.keys.insert(key.clone(), before)),
        }
        Some((key, before))
    }

    /// Returns true if the transaction holds a lock that covers `mode`.
    pub(crate) fn has(&self, key: &LockKey, mode: Mode) -> bool {
        self.keys.get(key).is_some_and(|modes| mode.is_covered_by(*modes))
    }

    /// Returns true if no other transaction holds a lock that excludes `mode`. Waiters do not count.
    pub(crate) fn would_fit(&self, key: &LockKey, mode: Mode) -> bool {
        self.table.state.lock().would_fit(self.owner, key, mode)
    }

    /// Returns the place in the journal up to which locks are kept by [`Self::undo_to`].
    pub(crate) fn mark(&self) -> usize {
        self.journal.len()
    }

    /// Gives back the locks, and the stronger modes, that were taken since `mark`.
    pub(crate) fn undo_to(&mut self, mark: usize) {
        while self.journal.len() > mark
            && let Some((key, before)) = self.unnote()
        {
            self.table.state.lock().restore(self.owner, &key, before);
        }
    }

    /// Returns the number of the transaction.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        if !self.keys.is_empty() {
            self.table.release(self.owner, self.keys.drain().map(|(key, _)| key));
        }
    }
}

impl fmt::Debug for HeldLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldLocks")
            .field("owner", &self.owner)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}
