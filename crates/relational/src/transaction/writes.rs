//! Writes of a transaction that are not committed yet.
//!
//! 1. A key has one entry at most: the newest value, or a deletion.
//! 2. The maps are shared with views and copied when they change while a view is alive.
//! 3. The journal has what each write replaced, so that writes since a mark can be taken back in reverse.

use crate::error::{Error, Result};
use crate::state::SqlState;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries of one tree: a value, or nothing for a deletion.
pub(crate) type Entries = BTreeMap<Bytes, Option<Bytes>>;

/// Memory of an entry beside key and value, about, with its locks.
const ENTRY_BYTES: usize = 200;

/// Returns the bytes that count for an entry.
pub(crate) fn bytes_of(key: &[u8], value: Option<&Bytes>) -> usize {
    key.len() + value.map_or(0, Bytes::len) + ENTRY_BYTES
}

/// Entries that a transaction wrote to its trees, as of one moment. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overlay {
    trees: Vec<(u32, Arc<Entries>)>,
}

impl Overlay {
    /// Returns what was written to a tree, if anything was.
    pub(crate) fn tree(&self, tree: u32) -> Option<&Arc<Entries>> {
        self.trees.iter().find(|(id, _)| *id == tree).map(|(_, entries)| entries)
    }

    /// Returns the entry of a key, if it was written: a value, or nothing for a deletion.
    pub(crate) fn get(&self, tree: u32, key: &[u8]) -> Option<Option<&Bytes>> {
        self.tree(tree)?.get(key).map(Option::as_ref)
    }

    pub(crate) fn trees(&self) -> impl Iterator<Item = (u32, &Entries)> {
        self.trees.iter().map(|(tree, entries)| (*tree, &**entries))
    }

    fn tree_mut(&mut self, tree: u32) -> &mut Entries {
        let at = match self.trees.iter().position(|(id, _)| *id == tree) {
            Some(at) => at,
            None => {
                self.trees.push((tree, Arc::default()));
                self.trees.len() - 1
            }
        };
        Arc::make_mut(&mut self.trees[at].1)
    }
}

/// The entry that a write replaced.
#[derive(Debug)]
struct Replaced {
    tree: u32,
    key: Bytes,
    before: Option<Option<Bytes>>,
}

/// Writes of a transaction with their journal.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    overlay: Overlay,
    journal: Vec<Replaced>,
    bytes: usize,
    bytes_max: usize,
}

impl WriteSet {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    pub(crate) fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// Returns how many bytes the writes take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.overlay.trees.iter().all(|(_, entries)| entries.is_empty())
    }

    /// Writes a value, or a deletion. 54000 if the transaction has written too much.
    pub(crate) fn set(&mut self, tree: u32, key: Bytes, value: Option<Bytes>) -> Result<()> {
        self.bytes += bytes_of(&key, value.as_ref());
        self.check(0)?;
        let before = self.overlay.tree_mut(tree).insert(key.clone(), value);
        self.journal.push(Replaced { tree, key, before });
        Ok(())
    }

    /// Fails with 54000 unless entries of so many bytes, by [`bytes_of`], may be written.
    pub(crate) fn check(&self, more: usize) -> Result<()> {
        if self.bytes.saturating_add(more) <= self.bytes_max {
            return Ok(());
        }
        let max = self.bytes_max >> 20;
        let message = format!("transaction has more than {max} MiB of uncommitted changes");
        Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
            .with_hint("Commit smaller parts of the work."))
    }

    /// Returns the place in the journal up to which everything is kept by [`Self::undo_to`].
    pub(crate) fn mark(&self) -> usize {
        self.journal.len()
    }

    /// Takes back what was written since `mark`.
    pub(crate) fn undo_to(&mut self, mark: usize) {
        while self.journal.len() > mark {
            let Some(Replaced { tree, key, before }) = self.journal.pop() else { break };
            let entries = self.overlay.tree_mut(tree);
            let now = match before {
                Some(before) => entries.insert(key.clone(), before),
                None => entries.remove(&key),
            };
            let value = now.flatten().map_or(0, |value| value.len());
            self.bytes = self.bytes.saturating_sub(key.len() + value + ENTRY_BYTES);
        }
    }
}
