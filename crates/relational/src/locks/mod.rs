//! Locks of rows, index keys, tables and the catalog, held by transactions to their end.
//!
//! 1. One lock guards all state, for as long as it takes to change it. Waiting is asynchronous.
//! 2. Waiters of one key are served in the order in which they came, as far as their modes exclude each other. A
//!    holder that asks for more goes before them, since they wait for it anyway.
//! 3. A transaction waits for one key at a time. One whose waiting would close a circle of waits fails with
//!    40P01, and the others go on.
//! 4. A waiter that gives up, or whose future is dropped, holds nothing of what it waited for.

mod advisory;
mod held;
mod mode;
mod state;

pub use advisory::{AdvisoryHold, AdvisoryKey, AdvisoryLocks};
pub(crate) use held::HeldLocks;
pub(crate) use mode::Mode;
pub use mode::{LockMode, TableLock};
pub(crate) use state::LockKey;

use crate::error::{Error, Result};
use crate::state::SqlState;
use parking_lot::Mutex;
use state::{Outcome, State};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// Locks that end together, at most, while the table of locks is held.
const RELEASED_TOGETHER: usize = 1024;

/// Number of a transaction, while it runs.
pub(crate) type Owner = u64;

/// Waiting for a lock that another transaction holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// Waits for the lock, as long as the transaction's lock timeout says.
    #[default]
    Wait,
    /// Fails with 55P03 at once.
    NoWait,
    /// Returns at once without the lock.
    Skip,
}

/// Locks of all transactions of a database.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    state: Mutex<State>,
    next_owner: AtomicU64,
}

/// Removes a waiter from its queue when its future ends without the lock.
struct Waiting<'a> {
    table: &'a LockTable,
    owner: Owner,
    key: &'a LockKey,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.table.state.lock().give_up(self.owner, self.key);
        }
    }
}

impl LockTable {
    /// Returns a holder of locks that has none yet.
    pub(crate) fn holder(self: &Arc<Self>) -> HeldLocks {
        let owner = self.next_owner.fetch_add(1, Ordering::Relaxed) + 1;
        HeldLocks::new(Arc::clone(self), owner)
    }

    /// Returns the advisory locks of a session that has none yet.
    pub(crate) fn advisory(self: &Arc<Self>) -> AdvisoryLocks {
        let owner = self.next_owner.fetch_add(1, Ordering::Relaxed) + 1;
        AdvisoryLocks::new(Arc::clone(self), owner)
    }

    /// Takes a lock. Returns false if `wait` is `Skip` and another transaction is in the way.
    async fn acquire(
        &self,
        owner: Owner,
        key: &LockKey,
        mode: Mode,
        wait: Wait,
        timeout: Option<Duration>,
    ) -> Result<bool> {
        let granted = match self.state.lock().ask(owner, key, mode, wait == Wait::Wait) {
            Outcome::Granted => return Ok(true),
            Outcome::Refused if wait == Wait::Skip => return Ok(false),
            Outcome::Refused => return Err(not_available(key)),
            Outcome::Deadlock(other) => return Err(deadlock(owner, other)),
            Outcome::Waits(granted) => granted,
        };
        let mut waiting = Waiting { table: self, owner, key, is_over: false };
        let outcome = wait_for(granted, timeout).await;
        waiting.is_over = true;
        if outcome.is_ok() {
            return Ok(true);
        }
        let mut state = self.state.lock();
        // A lock that was granted in the last moment counts.
        if state.has(owner, key, mode) {
            return Ok(true);
        }
        state.give_up(owner, key);
        outcome.map(|()| true)
    }

    /// Lets go of keys, a few at a time: others get their turn in between.
    fn release(&self, owner: Owner, mut keys: impl Iterator<Item = LockKey>) {
        let mut next = keys.next();
        while next.is_some() {
            let mut state = self.state.lock();
            for key in next.take().into_iter().chain(keys.by_ref().take(RELEASED_TOGETHER)) {
                state.release(owner, &key);
            }
            drop(state);
            next = keys.next();
        }
    }

    /// Returns how many keys are locked or waited for.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.state.lock().keys()
    }
}

async fn wait_for(granted: oneshot::Receiver<()>, timeout: Option<Duration>) -> Result<()> {
    let closed = || Error::internal("a lock was lost while it was waited for");
    let Some(timeout) = timeout else { return granted.await.map_err(|_| closed()) };
    match tokio::time::timeout(timeout, granted).await {
        Ok(granted) => granted.map_err(|_| closed()),
        Err(_) => {
            let message = "canceling statement due to lock timeout";
            Err(Error::new(SqlState::LOCK_NOT_AVAILABLE, message))
        }
    }
}

fn not_available(key: &LockKey) -> Error {
    let message = match key.is_row() {
        true => "could not obtain lock on row",
        false => "could not obtain lock on relation",
    };
    Error::new(SqlState::LOCK_NOT_AVAILABLE, message)
}

fn deadlock(owner: Owner, other: Owner) -> Error {
    let detail = format!("Transaction {owner} waits for transaction {other}, which waits for it.");
    Error::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
        .with_detail(detail)
        .with_hint("Try the transaction again.")
}

#[cfg(test)]
mod tests;
