//! Writes to trees of a database that become one atomic write.

use super::tree_keys::{shared_end, shared_key};
use crate::error::{Error, Result};
use crate::format::FAMILY;
use crate::state::SqlState;
use engine::{Column, ReadyBatch, Timestamp, TreeId, WriteBatch};

/// Writes to several trees, each with its batch, or all in the batch of the tree that they share. Writes to one key
/// or to a range of keys take effect in the order of the calls.
pub(crate) struct Batches {
    batches: Vec<(TreeId, WriteBatch)>,
    /// The tree of the engine that all trees share, if they do.
    shared: Option<TreeId>,
}

/// Batches within the limits of the engine, by trees of the engine.
pub(crate) type ReadyBatches = Vec<(TreeId, ReadyBatch)>;

impl Batches {
    pub(super) fn new(shared: Option<TreeId>) -> Self {
        Self { batches: Vec::new(), shared }
    }

    /// Returns the batch of a tree of the engine.
    pub(super) fn of_tree(&mut self, tree: TreeId) -> &mut WriteBatch {
        let at = match self.batches.iter().position(|(id, _)| *id == tree) {
            Some(at) => at,
            None => {
                self.batches.push((tree, WriteBatch::new()));
                self.batches.len() - 1
            }
        };
        &mut self.batches[at].1
    }

    /// Sets the value of a key.
    pub(crate) fn put(&mut self, tree: u32, key: &[u8], value: &[u8]) {
        let column = Column::of(FAMILY, b"");
        match self.shared {
            Some(shared) => {
                let key = shared_key(tree, key);
                self.of_tree(shared).put(&key, column, Timestamp(0), value);
            }
            None => self.of_tree(TreeId(tree)).put(key, column, Timestamp(0), value),
        }
    }

    /// Removes a key, if it is there.
    pub(crate) fn delete(&mut self, tree: u32, key: &[u8]) {
        match self.shared {
            Some(shared) => self.of_tree(shared).delete_row(&shared_key(tree, key)),
            None => self.of_tree(TreeId(tree)).delete_row(key),
        }
    }

    /// Removes all keys of `[start, end)`; without an end, all from `start` on.
    pub(crate) fn delete_range(&mut self, tree: u32, start: &[u8], end: Option<&[u8]>) {
        match self.shared {
            Some(shared) => {
                let (start, end) = (shared_key(tree, start), shared_end(tree, end));
                self.of_tree(shared).drop_row_range(&start, end.as_deref());
            }
            None => self.of_tree(TreeId(tree)).drop_row_range(start, end),
        }
    }

    /// Returns true if there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.iter().all(|(_, batch)| batch.is_empty())
    }

    /// Returns the bytes that are to be written.
    pub(crate) fn bytes(&self) -> usize {
        self.batches.iter().map(|(_, batch)| batch.encoded_len()).sum()
    }

    /// Returns the batches as they are written. 54000 if one is too large.
    pub(crate) fn ready(self) -> Result<ReadyBatches> {
        let batches = self.batches.into_iter().filter(|(_, batch)| !batch.is_empty());
        let ready = batches.map(|(tree, batch)| {
            let too_large = |error: String| Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, error);
            Ok((tree, batch.ready().map_err(|error| too_large(error.to_string()))?))
        });
        ready.collect()
    }
}
