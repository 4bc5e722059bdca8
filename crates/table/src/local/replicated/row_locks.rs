//! Row locks of replicated tablets ([`super::super::locks`]).
//!
//! A write keeps its stripes until its outcome is known, and a tablet that has lost the majority of its
//! replicas gives no outcome for as long as that lasts.
//!
//! 1. Each tablet has stripes of its own, so that it stops no row of another one. A request over several
//!    tablets keeps with the write of a tablet the stripes of that tablet only.
//! 2. A wait ends with the office: who waits is refused when another node leads the tablet.
//! 3. It ends after [`WAIT_MAX`] in any case. Who gives up leaves the queue, and shared locks behind it go on.
//! 4. Stripes of a tree stay the same for as long as one of them is held or waited for. Others are dropped
//!    now and then, and made again when they are needed.

use super::super::Local;
use super::super::locks::{ExclusiveRow, ExclusiveRows, RowLocks, SharedRow, SharedRows};
use super::Replicated;
use crate::error::{Error, Result};
use engine::TreeId;
use futures::poll;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Longest wait for rows: as long as a write waits for its outcome.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Pause between two looks at the office of leader, by who waits.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Tablets with stripes, up to which none are dropped.
const KEPT_MIN: usize = 64;

/// The stripes of a node's tablets.
pub(super) struct TabletLocks {
    stripes: usize,
    state: Mutex<State>,
}

struct State {
    of: HashMap<TreeId, Arc<RowLocks>>,
    /// Number of tablets at which those without use are dropped.
    drop_at: usize,
}

impl TabletLocks {
    /// So many stripes for each tablet.
    pub(super) fn new(stripes: usize) -> Self {
        Self { stripes, state: Mutex::new(State { of: HashMap::new(), drop_at: KEPT_MIN }) }
    }

    fn of(&self, tree: TreeId) -> Arc<RowLocks> {
        let mut state = self.state.lock();
        if let Some(locks) = state.of.get(&tree) {
            return Arc::clone(locks);
        }
        if state.of.len() >= state.drop_at {
            // No other task can get at stripes that only this map has.
            state.of.retain(|_, locks| Arc::strong_count(locks) > 1 || locks.is_in_use());
            state.drop_at = KEPT_MIN.max(2 * state.of.len());
        }
        let locks = Arc::new(RowLocks::new(self.stripes));
        state.of.insert(tree, Arc::clone(&locks));
        locks
    }
}

impl Replicated {
    /// Waits for `lock`, which is of rows of `tree`. Nothing was written after an error: `NotLeader` if this node
    /// does not lead the tablet any more, `Unavailable` if another write of the rows has no outcome in time.
    async fn wait<T>(&self, tree: TreeId, lock: impl Future<Output = T>) -> Result<T> {
        let mut lock = pin!(lock);
        if let Poll::Ready(held) = poll!(&mut lock) {
            return Ok(held);
        }
        let refused = async {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                if let Err(error) = self.groups.writable(tree).await {
                    return error;
                }
            }
        };
        tokio::select! {
            biased;
            held = lock => Ok(held),
            error = refused => Err(error),
            () = tokio::time::sleep(WAIT_MAX) => Err(Error::Unavailable(format!(
                "an earlier write of the row has no outcome after {} s; send the request again",
                WAIT_MAX.as_secs()
            ))),
        }
    }

    /// Waits for rows of `tree`, to read and then write them.
    pub(in crate::local) async fn exclusive_rows(
        &self,
        tree: TreeId,
        rows: impl IntoIterator<Item = &[u8]>,
    ) -> Result<ExclusiveRows> {
        let locks = self.locks.of(tree);
        self.wait(tree, locks.exclusive_rows(rows)).await
    }

    /// Waits for rows of `tree`, to write them.
    pub(in crate::local) async fn shared(
        &self,
        tree: TreeId,
        rows: impl IntoIterator<Item = &[u8]>,
    ) -> Result<SharedRows> {
        let locks = self.locks.of(tree);
        self.wait(tree, locks.shared(rows)).await
    }

    /// Waits for every row of `tree`, to write any of them.
    pub(in crate::local) async fn shared_all(&self, tree: TreeId) -> Result<SharedRows> {
        let locks = self.locks.of(tree);
        self.wait(tree, locks.shared_all()).await
    }
}

impl Local {
    /// Waits for a row of `tree`, to read and then write it. Errors are of replicated tablets; nothing was
    /// written then.
    pub(in crate::local) async fn exclusive(
        &self,
        tree: TreeId,
        row: &[u8],
    ) -> Result<ExclusiveRow> {
        let Some(replicated) = self.core.replicated() else {
            return Ok(self.locks.exclusive(row).await);
        };
        let locks = replicated.locks.of(tree);
        Box::pin(replicated.wait(tree, locks.exclusive(row))).await
    }

    /// Waits for a row of `tree`, to write it. Errors are as of [`Self::exclusive`].
    pub(in crate::local) async fn shared_one(&self, tree: TreeId, row: &[u8]) -> Result<SharedRow> {
        let Some(replicated) = self.core.replicated() else {
            return Ok(self.locks.shared_one(row).await);
        };
        let locks = replicated.locks.of(tree);
        Box::pin(replicated.wait(tree, locks.shared_one(row))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stripes_that_are_held_or_waited_for_stay_the_same_and_others_are_dropped() {
        let locks = TabletLocks::new(4);
        let held = locks.of(TreeId(0)).exclusive(b"a").await;
        for tree in 1..10 * KEPT_MIN as u32 {
            locks.of(TreeId(tree));
            assert!(locks.state.lock().of.len() <= 2 * KEPT_MIN);
        }
        let mut second = Box::pin(async { locks.of(TreeId(0)).exclusive(b"a").await });
        assert!(poll!(&mut second).is_pending(), "the row is held");
        drop(held);
        assert!(poll!(&mut second).is_ready());
    }
}
