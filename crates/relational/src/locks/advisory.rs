//! Advisory locks: keys that mean something to clients only, held by sessions.
//!
//! 1. A session holds a key for itself, for its transaction, or for both; another one has to wait until both ended.
//!    Holds for itself are counted: each is given back by itself.
//! 2. A session asks for one key at a time: a request that was cancelled is taken back before the next one.
//! 3. A session's advisory locks and its transaction are two owners, which are joined while it holds or asks for a
//!    key. So a circle of waits that goes over keys, rows and tables ends with 40P01.

use super::mode::Mode;
use super::{LockKey, LockTable, Owner, Wait};
use crate::error::{Error, Result};
use crate::state::SqlState;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Most keys that one session holds.
const KEYS_MAX: usize = 100_000;

/// A key: one number or two, which never mean the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AdvisoryKey {
    /// One number of 64 bits.
    One(i64),
    /// Two numbers of 32 bits.
    Two(i32, i32),
}

/// A request of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdvisoryHold {
    /// True beside others who share the key.
    pub is_shared: bool,
    /// True until the transaction ends, false until it is given back.
    pub is_of_transaction: bool,
}

/// The numbers of holds that a session has of a key: shared, and for itself alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    session: [u32; 2],
    transaction: [u32; 2],
}

impl Counts {
    fn of(&mut self, hold: AdvisoryHold) -> &mut u32 {
        let counts = match hold.is_of_transaction {
            true => &mut self.transaction,
            false => &mut self.session,
        };
        &mut counts[usize::from(!hold.is_shared)]
    }

    fn modes(&self) -> u8 {
        let has = |at: usize| self.session[at] > 0 || self.transaction[at] > 0;
        let shared = if has(0) { Mode::Share.bit() } else { 0 };
        shared | if has(1) { Mode::Update.bit() } else { 0 }
    }
}

/// The advisory locks of one session. Dropping it lets go of all of them.
pub struct AdvisoryLocks {
    table: Arc<LockTable>,
    owner: Owner,
    held: Mutex<HashMap<AdvisoryKey, Counts>>,
    /// The transaction of the session that these are joined with.
    transaction: Mutex<Option<Owner>>,
    /// Held by the request that is under way.
    request: tokio::sync::Mutex<()>,
}

/// Sets a key back to what the session holds of it, unless it was granted and counted.
struct Asking<'a> {
    locks: &'a AdvisoryLocks,
    key: AdvisoryKey,
    is_over: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.locks.settle(self.key, &self.locks.held.lock());
        }
    }
}

impl AdvisoryLocks {
    pub(super) fn new(table: Arc<LockTable>, owner: Owner) -> Self {
        Self {
            table,
            owner,
            held: Mutex::default(),
            transaction: Mutex::default(),
            request: tokio::sync::Mutex::default(),
        }
    }

    /// Takes a key. Returns false if `wait` is `Skip` and others are in the way. 55P03 after `timeout`, 40P01 if
    /// waiting would never end, also as the session's `transaction` holds what others wait for; 53200 if the
    /// session holds too many keys.
    pub async fn take(
        &self,
        key: AdvisoryKey,
        hold: AdvisoryHold,
        wait: Wait,
        timeout: Option<Duration>,
        transaction: u64,
    ) -> Result<bool> {
        if self.held.lock().len() >= KEYS_MAX {
            let message = format!("a session holds at most {KEYS_MAX} advisory locks");
            return Err(Error::new(SqlState::OUT_OF_MEMORY, message));
        }
        let _request = self.request.lock().await;
        self.join(transaction);
        let mode = if hold.is_shared { Mode::Share } else { Mode::Update };
        let mut asking = Asking { locks: self, key, is_over: false };
        let lock = LockKey::Advisory(key);
        let is_taken = self.table.acquire(self.owner, &lock, mode, wait, timeout).await?;
        if is_taken {
            *self.held.lock().entry(key).or_default().of(hold) += 1;
        }
        asking.is_over = true;
        Ok(is_taken)
    }

    /// Gives one hold of the session back. Returns false if it has none.
    pub fn give_back(&self, key: AdvisoryKey, is_shared: bool) -> bool {
        let mut held = self.held.lock();
        let hold = AdvisoryHold { is_shared, is_of_transaction: false };
        let Some(counts) = held.get_mut(&key) else { return false };
        let count = counts.of(hold);
        if *count == 0 {
            return false;
        }
        *count -= 1;
        let is_free = counts.modes() == 0;
        self.settle(key, &held);
        if is_free {
            held.remove(&key);
        }
        true
    }

    /// Gives back all that the session holds for itself.
    pub fn give_back_all(&self) {
        self.reset(|counts| counts.session = [0; 2]);
    }

    /// Notes the transaction that the session begins. It counts for circles of waits if the session holds a key.
    pub fn begin_transaction(&self, transaction: u64) {
        if !self.held.lock().is_empty() {
            self.join(transaction);
        }
    }

    fn join(&self, transaction: Owner) {
        let mut joined = self.transaction.lock();
        if *joined != Some(transaction) {
            self.part(joined.replace(transaction));
            self.table.state.lock().join(self.owner, transaction);
        }
    }

    fn part(&self, joined: Option<Owner>) {
        if let Some(transaction) = joined {
            self.table.state.lock().part(self.owner, transaction);
        }
    }

    /// Gives back all that the session holds for its transaction.
    pub fn end_transaction(&self) {
        let joined = self.transaction.lock().take();
        self.part(joined);
        self.reset(|counts| counts.transaction = [0; 2]);
    }

    fn reset(&self, reset: impl Fn(&mut Counts)) {
        let mut held = self.held.lock();
        if held.is_empty() {
            return;
        }
        held.values_mut().for_each(reset);
        for key in held.keys() {
            self.settle(*key, &held);
        }
        held.retain(|_, counts| counts.modes() != 0);
    }

    /// Leaves the session what it counts of a key.
    fn settle(&self, key: AdvisoryKey, held: &HashMap<AdvisoryKey, Counts>) {
        let modes = held.get(&key).map_or(0, Counts::modes);
        self.table.state.lock().restore(self.owner, &LockKey::Advisory(key), modes);
    }
}

impl Drop for AdvisoryLocks {
    fn drop(&mut self) {
        let joined = self.transaction.get_mut().take();
        self.part(joined);
        let keys: Vec<_> = self.held.get_mut().drain().map(|(key, _)| key).collect();
        self.table.release(self.owner, keys.into_iter().map(LockKey::Advisory));
    }
}

impl fmt::Debug for AdvisoryLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdvisoryLocks").field("owner", &self.owner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const KEY: AdvisoryKey = AdvisoryKey::One(7);
    const OTHER: AdvisoryKey = AdvisoryKey::Two(0, 7);
    /// Transactions of the first session and of the second.
    const ONE: Owner = 101;
    const TWO: Owner = 102;

    fn hold(is_shared: bool, is_of_transaction: bool) -> AdvisoryHold {
        AdvisoryHold { is_shared, is_of_transaction }
    }

    fn is_pending<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> bool {
        matches!(future.poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
    }

    #[tokio::test]
    async fn a_key_is_held_until_its_last_hold_ends() {
        let table = Arc::<LockTable>::default();
        let (one, two) = (table.advisory(), table.advisory());
        let exclusive = hold(false, false);
        assert!(one.take(KEY, exclusive, Wait::Wait, None, ONE).await.unwrap());
        assert!(one.take(KEY, exclusive, Wait::Wait, None, ONE).await.unwrap());
        assert!(one.take(KEY, hold(false, true), Wait::Wait, None, ONE).await.unwrap());
        let mut waiting = pin!(two.take(KEY, exclusive, Wait::Wait, None, TWO));
        assert!(is_pending(waiting.as_mut()));
        assert!(one.give_back(KEY, false) && one.give_back(KEY, false));
        assert!(!one.give_back(KEY, false) && !one.give_back(KEY, true));
        assert!(is_pending(waiting.as_mut()));
        let three = table.advisory();
        assert!(!three.take(KEY, hold(true, false), Wait::Skip, None, 103).await.unwrap());
        drop(three);
        one.end_transaction();
        assert!(waiting.await.unwrap());
        assert!(two.take(OTHER, exclusive, Wait::Skip, None, TWO).await.unwrap());
        two.give_back_all();
        two.end_transaction();
        assert_eq!(table.keys(), 0);
    }

    #[tokio::test]
    async fn shared_holds_stay_beside_each_other_and_below_an_own_one() {
        let table = Arc::<LockTable>::default();
        let (one, two) = (table.advisory(), table.advisory());
        for locks in [&one, &two] {
            assert!(
                locks
                    .take(KEY, hold(true, false), Wait::Skip, None, locks.owner + 100)
                    .await
                    .unwrap()
            );
        }
        assert!(!one.take(KEY, hold(false, false), Wait::Skip, None, ONE).await.unwrap());
        assert!(two.give_back(KEY, true));
        assert!(one.take(KEY, hold(false, false), Wait::Skip, None, ONE).await.unwrap());
        assert!(one.give_back(KEY, false));
        assert!(two.take(KEY, hold(true, true), Wait::Skip, None, TWO).await.unwrap());
        drop(one);
        assert!(two.take(KEY, hold(false, true), Wait::Skip, None, TWO).await.unwrap());
        drop(two);
        assert_eq!(table.keys(), 0);
    }

    #[tokio::test]
    async fn a_request_that_ends_late_leaves_the_next_one_alone() {
        let table = Arc::<LockTable>::default();
        let (one, two) = (table.advisory(), table.advisory());
        let exclusive = hold(false, false);
        assert!(one.take(KEY, exclusive, Wait::Wait, None, ONE).await.unwrap());
        let mut late = Box::pin(two.take(KEY, exclusive, Wait::Wait, None, TWO));
        assert!(is_pending(late.as_mut()));
        let mut next = pin!(two.take(KEY, exclusive, Wait::Wait, None, TWO));
        assert!(is_pending(next.as_mut()));
        drop(late);
        assert!(is_pending(next.as_mut()));
        assert!(one.give_back(KEY, false));
        assert!(next.await.unwrap());
    }

    #[tokio::test]
    async fn a_circle_of_waits_is_refused_and_a_wait_that_is_dropped_holds_nothing() {
        let table = Arc::<LockTable>::default();
        let (one, two) = (table.advisory(), table.advisory());
        let exclusive = hold(false, false);
        assert!(one.take(KEY, exclusive, Wait::Wait, None, ONE).await.unwrap());
        assert!(two.take(OTHER, exclusive, Wait::Wait, None, TWO).await.unwrap());
        {
            let mut waiting = pin!(one.take(OTHER, exclusive, Wait::Wait, None, ONE));
            assert!(is_pending(waiting.as_mut()));
            let refused = two.take(KEY, exclusive, Wait::Wait, None, TWO).await.unwrap_err();
            assert_eq!(refused.state, SqlState::DEADLOCK_DETECTED);
            // It is granted now, and its future is dropped.
            assert!(two.give_back(OTHER, false));
        }
        assert!(two.take(OTHER, exclusive, Wait::Skip, None, TWO).await.unwrap());
        assert!(!two.take(KEY, exclusive, Wait::Skip, None, TWO).await.unwrap());
    }

    #[tokio::test]
    async fn a_circle_of_waits_over_keys_and_rows_is_refused() {
        let table = Arc::<LockTable>::default();
        let (one, two) = (table.advisory(), table.advisory());
        let (mut of_one, mut of_two) = (table.holder(), table.holder());
        let row = LockKey::Row(1, bytes::Bytes::from_static(b"row"));
        let exclusive = hold(false, false);
        // The first session got its key in an earlier transaction.
        assert!(one.take(KEY, exclusive, Wait::Wait, None, ONE).await.unwrap());
        one.end_transaction();
        one.begin_transaction(of_one.owner());
        assert!(of_two.take(row.clone(), Mode::Update, Wait::Wait).await.unwrap());
        let mut waiting = Box::pin(of_one.take(row.clone(), Mode::Update, Wait::Wait));
        assert!(is_pending(waiting.as_mut()));
        let refused = two.take(KEY, exclusive, Wait::Wait, None, of_two.owner()).await;
        assert_eq!(refused.unwrap_err().state, SqlState::DEADLOCK_DETECTED);
        drop(waiting);
        // The other way round: the session of the row waits first.
        let owner = of_two.owner();
        let mut waiting = Box::pin(two.take(KEY, exclusive, Wait::Wait, None, owner));
        assert!(is_pending(waiting.as_mut()));
        let refused = of_one.take(row, Mode::Update, Wait::Wait).await.unwrap_err();
        assert_eq!(refused.state, SqlState::DEADLOCK_DETECTED);
        drop(waiting);
        drop((one, two, of_one, of_two));
        assert_eq!(table.keys(), 0);
    }
}
