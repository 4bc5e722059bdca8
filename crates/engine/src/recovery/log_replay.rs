//! The replay of the log: what it holds beyond the SSTables goes to memtables again.
//!
//! 1. Batches are applied in log order, each at most once: those up to a tree's flushed position
//!    are in its SSTables. Batches of trees that do not exist any more are passed over.
//! 2. Memtables keep to their share of the budget, which may be less than it was when the log was
//!    written: when they fill three quarters of it, the tree with the most is flushed, into one run
//!    of level 0, however many runs it has. Before that the log is made durable up to the batch
//!    applied last: a power loss may take the newest batches, not some from their midst.
//! 3. A full disk does not stop the opening, nor do numbers that are used up: memtables then take
//!    more than their share. What a flush wrote that was not installed, the opening removes.

use super::Trees;
use crate::batch::FrozenBatch;
use crate::cell::SequenceNumber;
use crate::compaction::execute::{self, Written};
use crate::compaction::writing::Writing;
use crate::counters::engine_counters::Counters;
use crate::counters::tree_counters::WorkCount;
use crate::error::{Error, Result};
use crate::files::open_files::OpenFiles;
use crate::log::{self, LogEnd, LogItem, LogReader, SegmentNumber};
use crate::manifest::{Edit, LogPosition, ManifestSet, State};
use crate::options::Options;
use crate::sstable::BlockCache;
use crate::tree::TreeState;
use crate::write::numbered_log::LogStart;
use base::env::Env;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a replay works on.
pub(super) struct Replay<'a> {
    pub(super) env: &'a Env,
    pub(super) dir: &'a Path,
    pub(super) manifest: &'a ManifestSet,
    pub(super) trees: &'a Trees,
    pub(super) open_files: &'a Arc<OpenFiles>,
    pub(super) cache: &'a Arc<BlockCache>,
    pub(super) options: &'a Options,
    pub(super) counters: &'a Counters,
}

/// Where a replay has come.
struct Reached {
    start: LogStart,
    /// The segment of the batch applied last, and where that ends.
    segment: SegmentNumber,
    end: u64,
    /// Up to where that segment was made durable.
    durable: u64,
    /// True if there was no room, or no number, for a flush.
    is_full: bool,
}

impl Replay<'_> {
    /// Applies what the log holds beyond the SSTables.
    pub(super) fn run(&self) -> Result<(LogEnd, LogStart)> {
        let state = self.manifest.state();
        let mut reader = LogReader::open(Arc::clone(&self.env.fs), self.dir)?;
        let start = LogStart { last: state.last_sequence, commit_time: state.commit_time };
        let segment = SegmentNumber::default();
        let mut reached = Reached { start, segment, end: 0, durable: 0, is_full: false };
        let mut before = None;
        while let Some(item) = reader.next()? {
            let batch = decode(self.dir, &item)?;
            let last = SequenceNumber(item.record.first.0 + batch.len() as u64 - 1);
            if before >= Some(item.record.first) {
                let path = item.segment.path(self.dir);
                return Err(Error::corruption(&path, item.offset, "a batch that is out of order"));
            }
            check_gap(self.manifest, &state, before.replace(last), item.record.first)?;
            reached.pass(&item, last);
            self.apply(&state, &item, &batch, LogPosition(last.0))?;
            self.keep_to_budget(&mut reached)?;
        }
        Ok((reader.finish()?, reached.start))
    }

    fn apply(
        &self,
        state: &State,
        item: &LogItem<'_>,
        batch: &FrozenBatch,
        position: LogPosition,
    ) -> Result<()> {
        let Some(tree) = self.trees.get(&item.record.tree) else {
            if state.used.contains_key(&item.record.tree) {
                return Ok(());
            }
            // A tree is in the manifest, durably, before it is in the log.
            let tree = item.record.tree.0;
            let text = format!("the creation of tree {tree} is missing; the log has data of it");
            return Err(self.manifest.corruption(&text));
        };
        if tree.look().version.flushed >= position {
            return Ok(());
        }
        tree.replay(batch, item.record.first, position);
        if tree.look().active.bytes() >= self.options.memtable_bytes_max {
            tree.freeze();
        }
        Ok(())
    }

    /// Flushes what is too much for memory.
    fn keep_to_budget(&self, reached: &mut Reached) -> Result<()> {
        while !reached.is_full && self.cache.budget().replay_wants_flush() {
            let bytes = |tree: &&Arc<TreeState>| -> usize {
                tree.look().memtables().map(|memtable| memtable.bytes()).sum()
            };
            let largest = self.trees.values().max_by_key(bytes);
            let Some(tree) = largest.filter(|tree| bytes(tree) > 0) else { break };
            match self.flush(tree, reached) {
                Err(Error::NoSpace { .. }) => reached.is_full = true,
                // A manifest that failed refuses as well: then the log must not fill memory.
                Err(Error::WritesStopped(_)) if !self.manifest.has_numbers() => {
                    reached.is_full = true;
                }
                flushed => flushed?,
            }
        }
        Ok(())
    }

    /// Flushes all of `tree`.
    fn flush(&self, tree: &TreeState, reached: &mut Reached) -> Result<()> {
        tree.freeze();
        let memtables = tree.view().frozen.clone();
        let Some(newest) = memtables.first() else { return Ok(()) };
        let run = self.manifest.state().tree(tree.id).map(|version| version.next_run());
        let run = run.ok_or(Error::UnknownTree(tree.id))?;
        let mut written =
            self.writing(tree, |writing| execute::flush(writing, &memtables, run, Vec::new()))?;
        reached.make_durable(self)?;
        let position = newest.position();
        written.edits.push(Edit::Flushed { tree: tree.id, position });
        written.edits.push(Edit::LastSequence(reached.start.last));
        self.install(tree, &written)
    }

    fn writing<T>(&self, tree: &TreeState, act: impl FnOnce(&Writing<'_>) -> T) -> T {
        let version = Arc::clone(&tree.view().version);
        act(&Writing {
            fs: &*self.env.fs,
            dir: self.dir,
            options: self.options,
            tree: tree.id,
            flushed: version.flushed,
            tree_options: &version.options,
            filter_granularity: tree.learn_granularity(),
            open_files: self.open_files,
            cache: self.cache,
            new_file: &|| self.manifest.new_file(),
            cancelled: &|| false,
            wrote: &|_| (),
        })
    }

    /// If the manifest does not take it, this open or the next one removes what was written.
    fn install(&self, tree: &TreeState, written: &Written) -> Result<()> {
        let state = self.manifest.install(&written.edits)?;
        let version = state.tree(tree.id).cloned().ok_or(Error::UnknownTree(tree.id))?;
        tree.install(Arc::clone(&version), &written.readers, None);
        let counters = self.counters;
        counters.runs_most.fetch_max(version.runs().count() as u64, Ordering::Relaxed);
        counters.flushes.fetch_add(1, Ordering::Relaxed);
        counters.early_flushes.fetch_add(1, Ordering::Relaxed);
        tree.counters.add(WorkCount::FlushedBytes, written.bytes);
        Ok(())
    }
}

impl Reached {
    /// Goes on after `item`, whose last mutation is numbered `last`.
    fn pass(&mut self, item: &LogItem<'_>, last: SequenceNumber) {
        self.start.last = self.start.last.max(last);
        self.start.commit_time = self.start.commit_time.max(item.record.commit_time);
        if item.segment != self.segment {
            // Segments before it are on disk, as its name proves.
            (self.segment, self.durable) = (item.segment, 0);
        }
        self.end = item.end;
    }

    /// Makes the log durable up to here.
    fn make_durable(&mut self, replay: &Replay<'_>) -> Result<()> {
        let (fs, dir) = (&*replay.env.fs, replay.dir);
        if self.durable < self.end {
            log::make_durable(fs, dir, &self.segment.path(dir), self.durable..self.end)?;
            self.durable = self.end;
        }
        Ok(())
    }
}

/// Numbers that the log leaves out between two batches were ingested, or lost with an unsynced end
/// of the log; both are known to the manifest.
fn check_gap(
    manifest: &ManifestSet,
    state: &State,
    before: Option<SequenceNumber>,
    first: SequenceNumber,
) -> Result<()> {
    if before.is_none_or(|before| before.0 + 1 >= first.0) || first.0 <= state.last_sequence.0 + 1 {
        return Ok(());
    }
    let last = first.0 - 1;
    let text = format!("sequence number {last} is missing; the log goes on after it");
    Err(manifest.corruption(&text))
}

/// The batch of a record, which has numbers that can be.
pub(crate) fn decode(dir: &Path, item: &LogItem<'_>) -> Result<FrozenBatch> {
    let damaged = |what: &dyn std::fmt::Display| {
        Error::corruption(&item.segment.path(dir), item.offset, what)
    };
    let batch = FrozenBatch::decode(item.record.payload).map_err(|error| damaged(&error))?;
    if batch.is_empty() {
        return Err(damaged(&"an empty batch"));
    }
    // The largest first number and the longest batch do not wrap around.
    let (first, last) = (item.record.first.0, item.record.first.0 + batch.len() as u64 - 1);
    if first == 0 || last > SequenceNumber::MAX.0 {
        return Err(damaged(&"a batch whose numbers are impossible"));
    }
    Ok(batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::WriteBatch;
    use crate::cell::{Column, FamilyId, Timestamp, TreeId};
    use crate::engine::Engine;
    use crate::log::{LogRecord, LogWriter};
    use crate::options::TreeOptions;
    use base::env::sim::SimEnv;

    const TREE: TreeId = TreeId(1);

    /// Opens a store whose log has a batch of two mutations, and then others that claim these
    /// numbers, at `commit_time`.
    fn open_after(firsts: &[u64], commit_time: u64) -> Result<Engine> {
        let machine = SimEnv::new(1);
        let dir = Path::new("/data");
        let engine = Engine::open_with_env(machine.env(), dir, Options::default()).unwrap();
        engine.create_tree(TREE, TreeOptions::default()).unwrap();
        let mut batch = WriteBatch::new();
        for qualifier in [b"a", b"b"] {
            batch.put(b"row", Column::of(FamilyId(1), qualifier), Timestamp(1), b"");
        }
        engine.tree(TREE).unwrap().write(&batch).unwrap();
        let machine = machine.kill();
        drop(engine);
        let env = machine.env();
        let mut reader = LogReader::open(Arc::clone(&env.fs), dir).unwrap();
        while reader.next().unwrap().is_some() {}
        let end = reader.finish().unwrap();
        let mut writer = LogWriter::open(Arc::clone(&env.fs), dir, 1 << 20, end).unwrap();
        let batch = batch.freeze().unwrap();
        for first in firsts {
            let first = SequenceNumber(*first);
            let record = LogRecord::new(TREE, first, commit_time, batch.encoding());
            writer.append(&[record]).unwrap();
        }
        writer.sync().unwrap();
        drop(writer);
        Engine::open_with_env(env, dir, Options::default())
    }

    #[test]
    fn batches_whose_numbers_cannot_be_are_corruption() {
        assert!(open_after(&[3, 5], 7).is_ok());
        for firsts in [&[0][..], &[1], &[2], &[3, 3], &[3, 4], &[3, 1], &[SequenceNumber::MAX.0]] {
            let opened = open_after(firsts, 7).map(|_| ());
            assert!(matches!(opened, Err(Error::Corruption(_))), "{firsts:?}: {opened:?}");
        }
        for time in [u64::MAX, u64::MAX - 1, 3 << 62] {
            let opened = open_after(&[3], time).map(|_| ());
            assert!(matches!(opened, Err(Error::Corruption(_))), "{time}: {opened:?}");
        }
    }

    /// Commit times count on from the newest; a reader of the log would refuse the one after the last.
    #[test]
    fn no_commit_is_written_at_a_time_that_the_next_open_refuses() {
        let engine = open_after(&[3], (3 << 62) - 1).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(b"row", Column::of(FamilyId(1), b"c"), Timestamp(1), b"");
        let written = engine.tree(TREE).and_then(|tree| tree.write(&batch));
        assert!(matches!(written, Err(Error::WritesStopped(_))), "{written:?}");
        let engine = open_after(&[3], 7).unwrap();
        engine.note_commit_micros(u64::MAX);
        let written = engine.tree(TREE).and_then(|tree| tree.write(&batch));
        assert!(matches!(written, Err(Error::WritesStopped(_))), "{written:?}");
    }
}
