//! The tree of a table, for as long as a catalog names it, and the parts of it that are being built.
//!
//! 1. A tree is dropped when no catalog names its table any more and none that did is in use: a statement
//!    that began before a DROP TABLE reads on.
//! 2. A new tree is garbage unless a commit keeps it, whatever becomes of its transaction.
//! 3. A part is never given twice while the database is open: what a build that was given up still writes
//!    meets no other index. Its entries are removed when the build has ended.

use super::{Garbage, Store, TreeKeys};
use crate::error::Result;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, Ordering};
use tokio::sync::OnceCell;

/// The tree of a table.
pub struct Storage {
    pub(crate) keys: TreeKeys,
    /// The row id that the next row gets, in a table without a primary key.
    pub(crate) next_row_id: OnceCell<AtomicI64>,
    /// Parts below it may have been given.
    next_part: AtomicU16,
    is_gone: AtomicBool,
    garbage: Arc<Garbage>,
}

impl Storage {
    /// Returns the storage in a tree that a committed table has.
    pub(crate) fn open(store: &Store, tree: u32, garbage: &Arc<Garbage>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            keys: store.keys(tree)?,
            next_row_id: OnceCell::new(),
            next_part: AtomicU16::new(0),
            is_gone: AtomicBool::new(false),
            garbage: Arc::clone(garbage),
        }))
    }

    /// Returns the storage in a tree that is dropped again, unless [`Self::keep`] is called.
    pub(crate) fn create(store: &Store, tree: u32, garbage: &Arc<Garbage>) -> Result<Arc<Self>> {
        let storage = Self::open(store, tree, garbage)?;
        storage.drop_when_unused();
        Ok(storage)
    }

    /// Returns the number of the tree.
    pub(crate) fn number(&self) -> u32 {
        self.keys.number()
    }

    /// Keeps a tree that a commit gave to a table.
    pub(crate) fn keep(&self) {
        self.is_gone.store(false, Ordering::Release);
    }

    /// Lets the tree be dropped once no catalog in use names it. Its intent is written.
    pub(crate) fn drop_when_unused(&self) {
        self.is_gone.store(true, Ordering::Release);
    }

    /// Returns a part that was never given, `at_least` or a later one; nothing if all are given.
    pub(crate) fn take_part(&self, at_least: u16) -> Option<u16> {
        let next = |next: u16| next.max(at_least).checked_add(1);
        let before = self.next_part.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        before.ok().map(|before| before.max(at_least))
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.is_gone.load(Ordering::Acquire) {
            self.garbage.add_tree(self.number());
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage({})", self.number())
    }
}

/// A part of a tree whose entries are being built. They are removed when its last user is gone, unless a commit
/// keeps them.
pub(crate) struct BuiltPart {
    storage: Arc<Storage>,
    part: u16,
    is_kept: AtomicBool,
}

impl BuiltPart {
    pub(crate) fn new(storage: &Arc<Storage>, part: u16) -> Self {
        Self { storage: Arc::clone(storage), part, is_kept: AtomicBool::new(false) }
    }

    /// Returns tree and part of the entries.
    pub(crate) fn place(&self) -> (u32, u16) {
        (self.storage.number(), self.part)
    }

    /// Keeps the entries, since a committed index has them.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Release);
    }
}

impl Drop for BuiltPart {
    fn drop(&mut self) {
        if !self.is_kept.load(Ordering::Acquire) {
            let (tree, part) = self.place();
            self.storage.garbage.add_part(tree, part);
        }
    }
}
