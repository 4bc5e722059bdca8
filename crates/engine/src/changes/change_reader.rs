//! A reader of the changes of some trees.

use super::change::ChangeBatch;
use super::log_follower::{Followed, LogFollower, Step, Wanted};
use crate::batch::FrozenBatch;
use crate::cell::{SequenceNumber, TreeId};
use crate::error::{Error, Result};
use crate::manifest::ChangeLog;
use crate::options::Durability;
use crate::state::{Handle, Shared};
use std::collections::BTreeMap;

/// Bytes of the log that one call passes at most, wanted or not, before it gives back what it found.
const PASSED_BYTES_MAX: u64 = 8 << 20;

/// Position of a reader: it has been given everything up to here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangePosition {
    /// Everything up to this sequence number; 0 if only the time is known.
    pub sequence: SequenceNumber,
    /// Everything that was committed before this time, in microseconds since the epoch. Who goes on
    /// from a position goes by the number, if it has one: a clock may have been set back meanwhile.
    pub micros: u64,
}

impl ChangePosition {
    /// The position before everything that was committed at `micros` or later.
    pub fn at(micros: u64) -> Self {
        Self { sequence: SequenceNumber(0), micros }
    }
}

/// Bound of what a call reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadUpTo {
    /// Up to what is committed. Costs writers nothing.
    Committed,
    /// The same, and tells a time before which nothing more will come. Waits for a commit under way.
    Settled,
}

/// Changes that a call read.
#[derive(Debug)]
pub struct Changes {
    /// Whole batches, in the order of their commits. The first one may hold mutations that the reader
    /// was given before: those up to its position before the call.
    pub batches: Vec<ChangeBatch>,
    /// True if nothing more is there to be read now.
    pub caught_up: bool,
}

/// Reads changes of some trees; see [`crate::Engine::change_reader`].
pub struct ChangeReader {
    handle: Handle,
    follower: LogFollower,
    /// The trees, each with its change log as it was when the reader began.
    trees: BTreeMap<TreeId, ChangeLog>,
    /// Nothing that was committed earlier is given, in microseconds since the epoch.
    from_micros: u64,
    position: ChangePosition,
    /// Why it gives nothing more.
    failed: Option<Error>,
}

impl ChangeReader {
    pub(crate) fn new(handle: Handle, trees: &[TreeId], position: ChangePosition) -> Result<Self> {
        let shared = handle.shared();
        let state = shared.manifest.state();
        let logs = trees.iter().map(|tree| {
            let log = state.tree(*tree).and_then(|version| version.change_log);
            log.map(|log| (*tree, log)).ok_or_else(|| not_kept(*tree))
        });
        let trees = logs.collect::<Result<BTreeMap<_, _>>>()?;
        let ChangePosition { sequence, micros } = position;
        let by_time = sequence == SequenceNumber(0);
        let segments = &shared.log_segments;
        let before = segments.seek(|first| match by_time {
            true => first.commit_time < micros,
            false => first.sequence <= sequence,
        });
        let follower = LogFollower::new(shared.env.fs.clone(), segments.clone(), before);
        let from_micros = if by_time { micros } else { 0 };
        Ok(Self { follower, trees, from_micros, position, failed: None, handle })
    }

    /// Returns the position after everything that the reader has given.
    pub fn position(&self) -> ChangePosition {
        self.position
    }

    /// Reads some of the changes that come next: batches of up to `bytes_max` bytes, or one that is
    /// larger; perhaps none, also if more is there. Blocks, and reads the log from the disk if it
    /// is not in the system's memory.
    ///
    /// `ChangesGone` if the changes of a tree are kept no longer, or began again, or the changes that
    /// come next are older than their retention and were removed. `Corruption` if they do not read.
    /// After an error the reader gives nothing more; another can begin at its position.
    pub fn read(&mut self, bytes_max: usize, up_to: ReadUpTo) -> Result<Changes> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.read_on(bytes_max, up_to).inspect_err(|error| self.failed = Some(error.clone()))
    }

    fn read_on(&mut self, bytes_max: usize, up_to: ReadUpTo) -> Result<Changes> {
        let shared = self.handle.shared().clone();
        self.check(&shared)?;
        let (last, settled) = match up_to {
            ReadUpTo::Committed => (committed(&shared)?, None),
            ReadUpTo::Settled => {
                shared.give_up_changes();
                let settled = shared.commits.settle().map_err(|error| shared.log_failed(error));
                let (last, micros) = settled?;
                (last, Some(micros))
            }
        };
        let mut changes = Changes { batches: Vec::new(), caught_up: false };
        if let Err(error) = self.collect(&mut changes, bytes_max, last) {
            if changes.batches.is_empty() {
                return Err(error);
            }
            self.failed = Some(error);
        }
        self.go_on(&changes, last, settled);
        Ok(changes)
    }

    /// Collects batches up to the sequence number `last`. Batches before an error are good.
    fn collect(
        &mut self,
        changes: &mut Changes,
        bytes_max: usize,
        last: SequenceNumber,
    ) -> Result<()> {
        let Self { follower, trees, position, from_micros, .. } = self;
        let (mut bytes, mut passed_bytes) = (0, 0);
        let is_wanted = |tree| trees.contains_key(&tree);
        let wanted = Wanted { last, is_wanted: &is_wanted };
        while bytes < bytes_max && passed_bytes < PASSED_BYTES_MAX {
            match follower.step(&wanted)? {
                Step::Batch(record) => {
                    passed_bytes += record.payload.len() as u64;
                    let Some(batch) = batch(&record, trees, position.sequence, *from_micros)?
                    else {
                        continue;
                    };
                    bytes += batch.encoded_len();
                    position.micros = position.micros.max(batch.commit_micros);
                    changes.batches.push(batch);
                }
                Step::Passed { commit_time, bytes } => {
                    passed_bytes += bytes;
                    position.micros = position.micros.max(commit_time);
                }
                Step::End => {
                    changes.caught_up = true;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Moves the position behind what was read.
    fn go_on(&mut self, changes: &Changes, last: SequenceNumber, settled: Option<u64>) {
        let read = match changes.caught_up {
            true => Some(last),
            false => changes.batches.last().map(ChangeBatch::last),
        };
        self.position.sequence = self.position.sequence.max(read.unwrap_or_default());
        if let Some(micros) = settled.filter(|_| changes.caught_up) {
            self.position.micros = self.position.micros.max(micros);
        }
    }

    /// Checks that the changes of all trees are kept as they were when the reader began.
    fn check(&self, shared: &Shared) -> Result<()> {
        let state = shared.manifest.state();
        for (tree, began) in &self.trees {
            let now = state.tree(*tree).and_then(|version| version.change_log);
            if now.is_none_or(|now| now.since_micros != began.since_micros) {
                return Err(not_kept(*tree));
            }
        }
        Ok(())
    }
}

/// The last sequence number that is published and on disk.
fn committed(shared: &Shared) -> Result<SequenceNumber> {
    let last = shared.snapshots.published();
    if shared.options.durability != Durability::Sync {
        shared.commits.sync().map_err(|error| shared.log_failed(error))?;
    }
    Ok(last)
}

/// The batch of a record; `None` if all of it was given before, or is older than what is wanted.
fn batch(
    record: &Followed<'_>,
    trees: &BTreeMap<TreeId, ChangeLog>,
    position: SequenceNumber,
    from_micros: u64,
) -> Result<Option<ChangeBatch>> {
    let damaged =
        |what: &dyn std::fmt::Display| Err(Error::corruption(record.path, record.offset, what));
    let Followed { tree, first, commit_time: commit_micros, payload, .. } = *record;
    let since = trees.get(&tree).map_or(SequenceNumber(0), |log| log.since);
    if commit_micros < from_micros || first <= since {
        return Ok(None);
    }
    let batch = match FrozenBatch::decode(payload) {
        Ok(batch) if batch.is_empty() => return damaged(&"an empty batch"),
        Ok(batch) => batch,
        Err(error) => return damaged(&error),
    };
    let batch = ChangeBatch { tree, commit_micros, first, batch };
    Ok((batch.last() > position).then_some(batch))
}

fn not_kept(tree: TreeId) -> Error {
    Error::ChangesGone(format!("the changes of tree {} are not kept, or were kept anew", tree.0))
}

impl std::fmt::Debug for ChangeReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChangeReader")
            .field("trees", &self.trees)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
