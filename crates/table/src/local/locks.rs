//! Row locks: what makes read-modify-writes of a row atomic with every other write of it.
//!
//! Rows are spread over a fixed number of stripes by hash. A read-modify-write holds its row's
//! stripe alone; plain writes share theirs, since the engine orders them among themselves. Who
//! takes several stripes takes them in ascending order, so that nobody waits in a circle. Waiting
//! is asynchronous and holds no thread: many writers of one hot row leave others alone.
//!
//! A write keeps its stripes until its commit has ended, also when its task is gone: the engine has
//! them in keeping (`Tree::write_in_task`). So who reads a row under its stripe, to decide what to
//! write, meets no write that commits later and was begun before.

use engine::perf_context::{PerfTime, waiting};
use std::sync::Arc;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// The stripes of one store, or of one tablet in a cluster.
pub(crate) struct RowLocks {
    stripes: Vec<Arc<RwLock<()>>>,
}

/// Stripes held for plain writes, until dropped.
pub(crate) struct SharedRows {
    _guards: Vec<OwnedRwLockReadGuard<()>>,
}

/// A stripe held for a plain write, until dropped.
pub(crate) struct SharedRow {
    _guard: OwnedRwLockReadGuard<()>,
}

/// A stripe held alone, until dropped.
pub(crate) struct ExclusiveRow {
    _guard: OwnedRwLockWriteGuard<()>,
}

/// Stripes held alone, until dropped.
pub(crate) struct ExclusiveRows {
    _guards: Vec<OwnedRwLockWriteGuard<()>>,
}

impl RowLocks {
    /// So many stripes, at least one.
    pub(crate) fn new(stripes: usize) -> Self {
        Self { stripes: (0..stripes).map(|_| Arc::default()).collect() }
    }

    /// Returns whether a stripe is held or waited for. It may be over at once.
    pub(crate) fn is_in_use(&self) -> bool {
        self.stripes.iter().any(|stripe| Arc::strong_count(stripe) > 1)
    }

    fn stripe_of(&self, row: &[u8]) -> usize {
        (base::checksum::xxh3(row) % self.stripes.len() as u64) as usize
    }

    /// Waits for a row, to read and then write it.
    pub(crate) async fn exclusive(&self, row: &[u8]) -> ExclusiveRow {
        let stripe = Arc::clone(&self.stripes[self.stripe_of(row)]);
        ExclusiveRow { _guard: waiting(PerfTime::RowLock, stripe.write_owned()).await }
    }

    /// Waits for rows, to read and then write them.
    pub(crate) async fn exclusive_rows(
        &self,
        rows: impl IntoIterator<Item = &[u8]>,
    ) -> ExclusiveRows {
        let stripes = self.stripes_of(rows);
        let mut guards = Vec::with_capacity(stripes.len());
        for stripe in stripes {
            let stripe = Arc::clone(&self.stripes[stripe]).write_owned();
            guards.push(waiting(PerfTime::RowLock, stripe).await);
        }
        ExclusiveRows { _guards: guards }
    }

    /// Waits for a row, to write it.
    pub(crate) async fn shared_one(&self, row: &[u8]) -> SharedRow {
        let stripe = Arc::clone(&self.stripes[self.stripe_of(row)]);
        SharedRow { _guard: waiting(PerfTime::RowLock, stripe.read_owned()).await }
    }

    /// Waits for rows, to write them.
    pub(crate) async fn shared(&self, rows: impl IntoIterator<Item = &[u8]>) -> SharedRows {
        self.lock_shared(self.stripes_of(rows)).await
    }

    /// The stripes of `rows`, ascending.
    fn stripes_of<'a>(&self, rows: impl IntoIterator<Item = &'a [u8]>) -> Vec<usize> {
        let mut stripes: Vec<usize> = rows.into_iter().map(|row| self.stripe_of(row)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes
    }

    /// Waits for every row, to write any of them.
    pub(crate) async fn shared_all(&self) -> SharedRows {
        self.lock_shared((0..self.stripes.len()).collect()).await
    }

    async fn lock_shared(&self, stripes: Vec<usize>) -> SharedRows {
        let mut guards = Vec::with_capacity(stripes.len());
        for stripe in stripes {
            let stripe = Arc::clone(&self.stripes[stripe]).read_owned();
            guards.push(waiting(PerfTime::RowLock, stripe).await);
        }
        SharedRows { _guards: guards }
    }
}
