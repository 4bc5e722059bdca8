//! Changes of trees: which are kept, and readers of them.

use super::Engine;
use crate::cell::{SequenceNumber, TreeId};
use crate::changes::{self, ChangePosition, ChangeReader};
use crate::error::Result;
use crate::manifest::ChangeLog;
use std::time::Duration;

impl Engine {
    /// Keeps the changes of `trees` for `retention`: all changes that are committed after this returns,
    /// durably when it does. A tree that keeps its changes already keeps them for so long from now
    /// on. Writers pay nothing; segments of the commit log stay on disk until all changes in them
    /// are older than the longest retention of any tree. Ingested files are no changes. Returns the
    /// change log of the first of the trees. Calls for one tree must not overlap.
    ///
    /// `InvalidArgument` if the retention is 0, or more than a hundred years; `UnknownTree` if a tree
    /// does not exist, and then nothing is changed.
    pub fn keep_changes(&self, trees: &[TreeId], retention: Duration) -> Result<ChangeLog> {
        self.shared().check_takes_writes()?;
        changes::keep(self.shared(), trees, retention)
    }

    /// Keeps the changes of `trees` no longer, durably when it returns. Their readers end.
    pub fn forget_changes(&self, trees: &[TreeId]) -> Result<()> {
        self.shared().check_takes_writes()?;
        changes::forget(self.shared(), trees)
    }

    /// Returns since when, and for how long, the changes of a tree are kept; `None` if they are not,
    /// or there is no such tree.
    pub fn change_log(&self, tree: TreeId) -> Option<ChangeLog> {
        self.shared().manifest.state().tree(tree).and_then(|version| version.change_log)
    }

    /// Returns a reader of the changes of `trees` after `position`, in the order of their commits. It
    /// keeps the data directory open until it is dropped, and nothing else. `ChangesGone` if the
    /// changes of a tree are not kept.
    ///
    /// Nothing tells here that changes after `position` were removed already: all are there if its
    /// time is within the retention of [`Self::change_log`].
    pub fn change_reader(
        &self,
        trees: &[TreeId],
        position: ChangePosition,
    ) -> Result<ChangeReader> {
        ChangeReader::new(self.handle.clone(), trees, position)
    }

    /// Returns the position after everything that is committed now. Waits for a commit under way.
    pub fn change_position(&self) -> Result<ChangePosition> {
        let settled = self.shared().commits.settle();
        let (sequence, micros) = settled.map_err(|error| self.shared().log_failed(error))?;
        Ok(ChangePosition { sequence, micros })
    }

    /// Returns the last sequence number that reads see.
    pub fn committed(&self) -> SequenceNumber {
        self.shared().snapshots.published()
    }

    /// Waits until something is committed after `sequence`, of any tree, or the engine closes.
    pub async fn committed_after(&self, sequence: SequenceNumber) {
        self.shared().snapshots.published_after(sequence).await;
    }
}
