//! The trees of a table, for as long as a catalog names them, and what is being built in them.
//!
//! 1. A tree is dropped when no catalog names its table any more and none that did is in use: a statement
//!    that began before a DROP TABLE reads on.
//! 2. A new tree is garbage unless a commit keeps it, whatever becomes of its transaction.
//! 3. A part is never given twice while the database is open: what a build that was given up still writes
//!    meets no other index. Its entries are removed when the build has ended.
//! 4. Pages of a columnar table that no commit made part of it are removed when their transaction has ended. If it
//!    is not known whether it committed, the next open removes them or keeps them.

use super::garbage::Load;
use super::{Garbage, PageKeys, Store, TreeKeys};
use crate::catalog::Columnar;
use crate::error::{Error, Result};
use crate::format::segment::{loads, read_load_key, read_segment_key, segments};
use engine::{Direction, RowRange};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU64, Ordering};
use tokio::sync::OnceCell;

/// Numbers of segments that one writer may give: its files share no row with files of another writer.
const SEGMENTS_OF_WRITER: u64 = 1 << 20;

/// The tree of a table, and that of the pages of a columnar one.
pub struct Storage {
    pub(crate) keys: TreeKeys,
    pub(crate) pages: Option<PageKeys>,
    /// The number that the next segment gets, in a columnar table.
    next_segment: OnceLock<AtomicU64>,
    /// The row id that the next row gets, in a table without a primary key.
    pub(crate) next_row_id: OnceCell<AtomicI64>,
    /// Parts below it may have been given.
    next_part: AtomicU16,
    is_gone: AtomicBool,
    garbage: Arc<Garbage>,
}

impl Storage {
    /// Returns the storage in a tree that a committed table has.
    pub(crate) fn open(
        store: &Store,
        tree: u32,
        columnar: Option<Columnar>,
        garbage: &Arc<Garbage>,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            keys: store.keys(tree)?,
            pages: columnar.map(|columnar| store.page_keys(columnar.pages)).transpose()?,
            next_segment: OnceLock::new(),
            next_row_id: OnceCell::new(),
            next_part: AtomicU16::new(0),
            is_gone: AtomicBool::new(false),
            garbage: Arc::clone(garbage),
        }))
    }

    /// Returns the storage in new trees that are dropped again, unless [`Self::keep`] is called. Blocks.
    pub(crate) fn create(
        store: &Store,
        columnar: bool,
        garbage: &Arc<Garbage>,
    ) -> Result<Arc<Self>> {
        let pages = if columnar { Some(store.create_pages()?) } else { None };
        let made = store.create_tree().and_then(|tree| {
            let columnar = pages.map(|pages| Columnar { pages });
            Self::open(store, tree, columnar, garbage)
        });
        match (made, pages) {
            (Ok(storage), _) => {
                storage.drop_when_unused();
                Ok(storage)
            }
            (Err(error), Some(pages)) => {
                garbage.add_tree(pages);
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Returns the place of the segments, in a columnar table.
    pub(crate) fn columnar(&self) -> Option<Columnar> {
        self.pages.as_ref().map(|pages| Columnar { pages: pages.number() })
    }

    /// Returns the keys of the pages. XX000 for a table of rows.
    pub(crate) fn pages(&self) -> Result<&PageKeys> {
        self.pages.as_ref().ok_or_else(|| Error::internal("a table of rows has no pages"))
    }

    /// Returns numbers of segments that were never given, for one writer. Blocks.
    pub(crate) fn take_segments(&self) -> Result<RangeInclusive<u64>> {
        let next = match self.next_segment.get() {
            Some(next) => next,
            None => {
                let first = self.last_segment()?.map_or(0, |last| last.saturating_add(1));
                self.next_segment.get_or_init(|| AtomicU64::new(first))
            }
        };
        let taken = |next: u64| next.checked_add(SEGMENTS_OF_WRITER);
        let first = next.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken);
        let first = first.map_err(|_| Error::internal("all numbers of segments are given"))?;
        Ok(first..=first + (SEGMENTS_OF_WRITER - 1))
    }

    /// Returns the greatest number that a segment has or had: of pages, descriptors and notes of loads, since pages
    /// may have been lost with their files. Blocks.
    fn last_segment(&self) -> Result<Option<u64>> {
        let last_of = |rows: RowRange, read: fn(&[u8]) -> Result<u64>| {
            let mut scan = self.keys.scan(None, rows, Direction::Reverse)?;
            scan.next_key()?.map(read).transpose()
        };
        let described = last_of(segments(), read_segment_key)?;
        let noted = last_of(loads(), |key| Ok(*read_load_key(key)?.end()))?;
        Ok(self.pages()?.last_segment()?.max(described).max(noted))
    }

    /// Returns the number of the tree.
    pub(crate) fn number(&self) -> u32 {
        self.keys.number()
    }

    /// Lets what could not be removed be tried again.
    pub(crate) fn retry_garbage(&self) {
        self.garbage.retry();
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
            if let Some(pages) = &self.pages {
                self.garbage.add_tree(pages.number());
            }
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

/// Segments whose pages are written. They are removed when the last user is gone, unless a commit keeps them.
pub(crate) struct LoadedSegments {
    storage: Arc<Storage>,
    segments: RangeInclusive<u64>,
    is_kept: AtomicBool,
}

impl LoadedSegments {
    pub(crate) fn new(storage: &Arc<Storage>, segments: RangeInclusive<u64>) -> Self {
        Self { storage: Arc::clone(storage), segments, is_kept: AtomicBool::new(false) }
    }

    /// Returns the tree of the table, and the numbers of the segments.
    pub(crate) fn place(&self) -> (u32, RangeInclusive<u64>) {
        (self.storage.number(), self.segments.clone())
    }

    /// Keeps the pages, since a commit has them, or may have.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Release);
    }

    /// Has the pages removed: the commit that had them failed.
    pub(crate) fn give_up(&self) {
        self.is_kept.store(false, Ordering::Release);
    }
}

impl Drop for LoadedSegments {
    fn drop(&mut self) {
        if let (false, Some(columnar)) =
            (self.is_kept.load(Ordering::Acquire), self.storage.columnar())
        {
            let load = Load {
                tree: self.storage.number(),
                pages: columnar.pages,
                segments: self.segments.clone(),
            };
            self.storage.garbage.add_load(load);
        }
    }
}
