//! Writes over several trees that commit as one.
//!
//! 1. All batches of a write are in one record of the log: after a crash all of them are there, or none.
//! 2. They take consecutive sequence numbers, published together: no snapshot and no reader sees some of
//!    them only.
//! 3. A write with a batch of one tree is that of the tree itself, byte for byte.

use super::Engine;
use super::commit_threads::{self, KeepUp};
use crate::background::{scheduler, write_stalls};
use crate::batch::{BATCH_BYTES_MAX, FrozenBatch, ReadyBatch};
use crate::cell::{SequenceNumber, TreeId};
use crate::error::{Error, Result};
use crate::tree::TreeState;
use crate::write::request::{Request, TogetherBatches, Work};
use std::sync::Arc;

impl Engine {
    /// Commits batches of several trees: all of them or none, whatever happens, and no reader ever sees
    /// some of them only. Otherwise as [`Tree::write`](crate::Tree::write). Waits for room in each tree
    /// first. Returns the sequence number of the last mutation.
    ///
    /// `InvalidArgument`: two batches of one tree, open timestamps, or more than 512 MiB together.
    /// `UnknownTree`: one of the trees does not exist. Other errors are as of a write to one tree. Nothing
    /// was written.
    pub fn write_together(&self, writes: Vec<(TreeId, ReadyBatch)>) -> Result<SequenceNumber> {
        let shared = self.shared();
        shared.check_takes_writes()?;
        let parts = self.checked(writes)?;
        for (tree, batch) in &parts {
            write_stalls::wait_for_room(shared, tree, batch.encoding().len())?;
        }
        let trees: Vec<_> =
            parts.iter().map(|(tree, batch)| (Arc::clone(tree), batch.encoding().len())).collect();
        let Some(work) = work(parts) else { return Ok(shared.snapshots.published()) };
        let last = shared.commits.submit(Request::of_thread(work, 0), (), &KeepUp(shared));
        let last = last.map_err(|error| shared.log_failed(error))?;
        for (tree, bytes) in &trees {
            scheduler::after_commit(shared, tree, *bytes);
        }
        Ok(last)
    }

    /// [`Self::write_together`] for a task: no thread waits, and nothing waits for room in the trees, which
    /// [`Tree::room_for`](crate::Tree::room_for) does before. The future and `kept` behave as with
    /// [`Tree::write_in_task`](crate::Tree::write_in_task).
    pub async fn write_together_in_task<K: Send + 'static>(
        &self,
        writes: Vec<(TreeId, ReadyBatch)>,
        kept: K,
    ) -> Result<SequenceNumber> {
        let shared = self.shared();
        shared.check_takes_writes()?;
        let Some(work) = work(self.checked(writes)?) else {
            return Ok(shared.snapshots.published());
        };
        commit_threads::start(shared)?;
        shared.health.check()?;
        let request = Request::of_task(work, 0, Box::new(kept));
        let commit = commit_threads::submit(shared, request, ());
        commit.await.map_err(|error| shared.log_failed(error))
    }

    /// The batches that are not empty, with their trees, in the order of the trees.
    fn checked(
        &self,
        writes: Vec<(TreeId, ReadyBatch)>,
    ) -> Result<Vec<(Arc<TreeState>, FrozenBatch)>> {
        let refused = |text: &str| Err(Error::InvalidArgument(text.to_owned()));
        let mut bytes = 0;
        let mut parts = Vec::with_capacity(writes.len());
        for (tree, batch) in writes.into_iter().filter(|(_, batch)| !batch.is_empty()) {
            if batch.open_times() > 0 {
                return refused("timestamps of the batch are not set");
            }
            bytes += batch.encoded_len();
            parts.push((self.shared().tree(tree)?, batch.frozen));
        }
        if bytes > BATCH_BYTES_MAX {
            let text = format!("a write of {bytes} bytes is over the limit of {BATCH_BYTES_MAX}");
            return refused(&text);
        }
        parts.sort_by_key(|(tree, _)| tree.id);
        if parts.windows(2).any(|pair| pair[0].0.id == pair[1].0.id) {
            return refused("two batches of one tree in one write");
        }
        Ok(parts)
    }
}

/// The work of a request for `parts`; nothing if there are no parts.
fn work(mut parts: Vec<(Arc<TreeState>, FrozenBatch)>) -> Option<Work> {
    match parts.len() {
        0 | 1 => parts.pop().map(|(tree, batch)| Work::One(tree, batch)),
        _ => Some(Work::Several(TogetherBatches::new(parts))),
    }
}
