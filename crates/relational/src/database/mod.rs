//! An open database: catalog, locks, sequences and trees, over the store of one machine or of a replication
//! group.
//!
//! 1. The catalog is published after its change is durable and visible, and before the locks of the change
//!    end. Catalog and snapshot of a statement are of one moment: [`Database::look`].
//! 2. One transaction at a time changes the catalog.
//! 3. The catalog also lists the Bigtable tables of the store, as of the last look at it.
//! 4. Catalog, ownership of trees and rows of one transaction are one atomic write.
//! 5. In a group a database is of one term, and starts without locks and sequences of an earlier one.

mod batches;
mod conflicts;
mod garbage;
mod group;
mod open;
mod page_keys;
mod published;
mod restarts;
mod secret;
mod sequences;
mod storage;
mod store;
mod tree_keys;

pub(crate) use batches::Batches;
pub(crate) use conflicts::Conflicts;
pub(crate) use garbage::{Garbage, clear_part};
pub use group::GroupTerm;
pub(crate) use page_keys::{PageKeys, PagesWriter};
use published::Published;
pub use restarts::Restarts;
use sequences::SequenceState;
pub(crate) use sequences::{decode_state, put_state};
pub use storage::Storage;
pub(crate) use storage::{BuiltPart, LoadedSegments};
pub(crate) use store::Store;
pub(crate) use tree_keys::{KeyScan, TreeKeys};

use crate::error::{Error, Result};
use crate::locks::{AdvisoryLocks, LockTable};
use crate::transaction::{Isolation, Transaction};
use crate::types::Oid;
use engine::{Engine, TreeId};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tree of the catalog.
pub const CATALOG_TREE: TreeId = TreeId(2);

/// Values that are fixed when a database is opened.
#[derive(Debug, Clone)]
pub struct DatabaseOptions {
    /// Name of a new database. One that exists keeps its name.
    pub name: String,
    /// Name of the superuser of a new database.
    pub owner: String,
    /// Most bytes that one transaction may have written and not committed. More takes more memory; the
    /// engine takes 512 MiB in one write at most.
    pub transaction_bytes_max: usize,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            name: "stele".to_owned(),
            owner: "stele".to_owned(),
            transaction_bytes_max: 256 << 20,
        }
    }
}

/// A database that is open.
pub struct Database {
    pub(crate) store: Arc<Store>,
    catalog_keys: TreeKeys,
    published: Published,
    catalog_version: AtomicU64,
    pub(crate) locks: Arc<LockTable>,
    pub(crate) conflicts: Arc<Conflicts>,
    sequences: Mutex<HashMap<Oid, Arc<SequenceState>>>,
    pub(crate) garbage: Arc<Garbage>,
    secret: [u8; secret::SECRET_LEN],
    pub(crate) options: DatabaseOptions,
}

impl Database {
    /// Begins a transaction. It sees nothing until its first statement begins.
    pub fn begin(self: &Arc<Self>, isolation: Isolation, read_only: bool) -> Transaction {
        Transaction::new(Arc::clone(self), isolation, read_only)
    }

    /// Returns the time of the store's clock, in microseconds since the Unix epoch.
    pub fn now_micros(&self) -> i64 {
        table::Store::now_micros(self.store.local())
    }

    /// Returns the advisory locks of a new session.
    pub fn advisory_locks(&self) -> AdvisoryLocks {
        self.locks.advisory()
    }

    /// Returns random bytes that the database was made with, and that no client is told.
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// Returns the engine with the rows, for its metrics.
    pub fn engine(&self) -> &Engine {
        self.store.engine()
    }

    /// Returns a version that no catalog ever had in this process.
    pub(crate) fn next_catalog_version(&self) -> u64 {
        self.catalog_version.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.garbage.close();
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("catalog", &self.catalog().version).finish_non_exhaustive()
    }
}

/// Runs a blocking call on a thread for such calls.
pub(crate) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => result,
        Err(error) => Err(Error::internal(format!("a blocking call ended: {error}"))),
    }
}
