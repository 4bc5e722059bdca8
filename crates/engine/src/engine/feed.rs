//! Batches that come from the log of a replication group, for the engine of a node.
//!
//! 1. A batch comes with its position in that log. Positions of a tree rise; a batch at or below the
//!    newest one was applied before, and is passed over. So after a restart
//!    everything after [`Tree::flushed`] is fed again, in order, and gives the same state.
//! 2. The engine logs nothing. What is not flushed is lost with the process.
//! 3. A batch is seen whole or not at all, and so are all batches of one call together.

use super::Engine;
use crate::background::{scheduler, write_stalls};
use crate::batch::{FrozenBatch, ReadyBatch};
use crate::cell::{SequenceNumber, TreeId};
use crate::error::{Error, Result};
use crate::manifest::LogPosition;
use crate::tree::TreeState;
use std::sync::Arc;

/// A position of a group's log, and what it brings for one tree.
#[derive(Debug, Clone, Copy)]
pub struct Fed<'a> {
    /// The tree that the position is of.
    pub tree: TreeId,
    /// Index of the entry, from 1 upwards.
    pub position: LogPosition,
    /// The batch; `None` for an entry that changes nothing here, such as one of consensus itself.
    pub batch: Option<&'a ReadyBatch>,
}

/// A [`Fed`] that was checked.
struct Ready {
    tree: Arc<TreeState>,
    position: LogPosition,
    batch: Option<FrozenBatch>,
}

impl Ready {
    fn count(&self) -> u64 {
        self.batch.as_ref().map_or(0, |batch| batch.len() as u64)
    }

    fn bytes(&self) -> usize {
        self.batch.as_ref().map_or(0, |batch| batch.encoding().len())
    }

    fn apply(&self, first: SequenceNumber) {
        if self.position <= self.tree.applied() {
            return;
        }
        match &self.batch {
            Some(batch) => self.tree.apply(batch, first, self.position),
            None => self.tree.note_position(self.position),
        }
    }
}

impl Engine {
    /// Applies batches of the logs of groups, in order, for an engine that was opened by
    /// [`Self::open_member`]. When it returns they are visible to every later read, and in memory only:
    /// see [`Tree::flushed`](crate::Tree::flushed) for what a restart keeps. A position at or below the
    /// newest one of its tree is passed over. Blocks while flushes and compactions of one of the trees are too
    /// far behind: feed trees apart that should not wait for each other.
    ///
    /// `InvalidArgument`: a position of 0 or above 2^56 - 1, a batch with open timestamps, or an engine of
    /// no cluster. `UnknownTree`: a tree does not exist. `Unavailable`, `NoSpace`, `WritesStopped` as
    /// [`Tree::write`](crate::Tree::write) has them. After an error nothing of the call was applied.
    pub fn apply(&self, fed: &[Fed<'_>]) -> Result<()> {
        let shared = self.shared();
        if shared.member.is_none() {
            let text = "batches with positions are for the engine of a node of a cluster";
            return Err(Error::InvalidArgument(text.to_owned()));
        }
        shared.check_owner()?;
        shared.health.check()?;
        let ready = fed.iter().map(|fed| self.ready(fed)).collect::<Result<Vec<Ready>>>()?;
        for one in ready.iter().filter(|one| one.batch.is_some()) {
            write_stalls::wait_for_room(shared, &one.tree, one.bytes())?;
        }
        let count = ready.iter().map(Ready::count).sum();
        shared.commits.feed(count, |first| {
            let mut next = first.0;
            for one in &ready {
                one.apply(SequenceNumber(next));
                next += one.count();
            }
        })?;
        for one in ready.iter().filter(|one| one.batch.is_some()) {
            scheduler::after_commit(shared, &one.tree, one.bytes());
        }
        Ok(())
    }

    fn ready(&self, fed: &Fed<'_>) -> Result<Ready> {
        if fed.position.0 == 0 || fed.position.0 > SequenceNumber::MAX.0 {
            let text = format!("position {} is not in 1..=2^56 - 1", fed.position.0);
            return Err(Error::InvalidArgument(text));
        }
        let tree = self.shared().tree(fed.tree)?;
        let batch = fed.batch.filter(|batch| !batch.is_empty());
        if batch.is_some_and(|batch| batch.open_times() > 0) {
            return Err(Error::InvalidArgument("timestamps of the batch are not set".to_owned()));
        }
        let batch = batch.map(|batch| batch.frozen.clone());
        Ok(Ready { tree, position: fed.position, batch })
    }
}
