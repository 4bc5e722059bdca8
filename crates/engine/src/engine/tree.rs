//! Writes to one tree, its upkeep, and what is known of its size. Its reads: `read::drivers`.

use super::commit_threads::{self, KeepUp};
use crate::background::{by_hand, scheduler, write_stalls};
use crate::batch::{OpenTimes, ReadyBatch, WriteBatch};
use crate::cell::{SequenceNumber, TreeId};
use crate::error::{Error, Result};
use crate::ingest::{IngestOptions, SstWriter};
use crate::manifest::LogPosition;
use crate::metrics::Metrics;
use crate::read::drivers::Tree;
use crate::request::RowRange;
use crate::semantics::elision_policy::ElisionRules;
use crate::tree::file_list::TreeFiles;
use crate::write::request::{Request, Work};
use std::sync::Arc;

impl Tree {
    /// Commits `batch`: all of it or nothing. When it returns the batch is as durable as
    /// `Options::durability` says and visible to every later read. Blocks, also while flushes and
    /// compactions are too far behind. Returns the sequence number of its last mutation.
    ///
    /// `NoSpace`, `Unavailable`: nothing was written; try again when there is space, or later.
    /// `WritesStopped`: after a failed append or sync, or a panic of background work; the batch may
    /// or may not be there after reopening. `Corruption`: nothing was written; a compaction has to
    /// make room first, and its input is damaged.
    pub fn write(&self, batch: &WriteBatch) -> Result<SequenceNumber> {
        if batch.open_times() > 0 {
            return Err(Error::InvalidArgument("timestamps of the batch are not set".to_owned()));
        }
        self.write_timed(batch, |_| ())
    }

    /// [`Self::write`] of a batch whose open timestamps ([`WriteBatch::put_timed`]) `set_times`
    /// sets when all waiting is done but that for the commit. What it returns is dropped when the
    /// batch has its place in the order of commits: batches whose callers exclude each other by it
    /// commit in the order in which their times were set. It must be quick, and must not call the
    /// engine. No later time of a commit is below the times it sets, nor at the next open: see
    /// [`Engine::commit_micros`](crate::Engine::commit_micros).
    pub fn write_timed<H>(
        &self,
        batch: &WriteBatch,
        set_times: impl FnOnce(&mut OpenTimes<'_>) -> H,
    ) -> Result<SequenceNumber> {
        let frozen = batch.freeze().map_err(|error| Error::InvalidArgument(error.to_string()));
        let mut frozen = frozen?;
        let (shared, tree) = self.parts_of_store()?;
        shared.check_takes_writes()?;
        if batch.is_empty() {
            return Ok(shared.snapshots.published());
        }
        write_stalls::wait_for_room(shared, tree, batch.encoded_len())?;
        let mut times = OpenTimes::of(batch.open_positions(), &mut frozen);
        let held = set_times(&mut times);
        let newest = times.newest();
        let request = Request::of_thread(Work::One(Arc::clone(tree), frozen), newest);
        let last = shared.commits.submit(request, held, &KeepUp(shared));
        let last = last.map_err(|error| shared.log_failed(error))?;
        scheduler::after_commit(shared, tree, batch.encoded_len());
        Ok(last)
    }

    /// Waits until background work lets a write of `bytes` bytes go on, as [`Self::write`] does before it
    /// writes. For a task: no thread waits. Errors are as of a write that was not begun.
    pub async fn room_for(&self, bytes: usize) -> Result<()> {
        let (shared, tree) = self.parts_of_store()?;
        write_stalls::room_for_task(shared, tree, bytes).await
    }

    /// [`Self::write_timed`] for a task: no thread waits. It does not wait for background work:
    /// [`Self::room_for`] does, before the caller takes what it must not hold for so long. The future needs
    /// no runtime: it only has to be polled when it is woken.
    ///
    /// A future that is dropped before its first poll writes nothing. Dropped later, it changes nothing:
    /// the batch is committed, or refused, as a whole. `kept` lives until the write has ended, however
    /// long that is after the future: what it excludes meets no write under way. It is dropped when the
    /// batch is visible, before the future is ready.
    pub async fn write_in_task<H, K: Send + 'static>(
        &self,
        batch: ReadyBatch,
        set_times: impl FnOnce(&mut OpenTimes<'_>) -> H,
        kept: K,
    ) -> Result<SequenceNumber> {
        let ReadyBatch { mut frozen, open } = batch;
        let (shared, tree) = self.parts_of_store()?;
        shared.check_takes_writes()?;
        if frozen.is_empty() {
            return Ok(shared.snapshots.published());
        }
        commit_threads::start(shared)?;
        shared.health.check()?;
        let commit = {
            let mut times = OpenTimes::of(&open, &mut frozen);
            let held = set_times(&mut times);
            let newest = times.newest();
            let work = Work::One(Arc::clone(tree), frozen);
            let request = Request::of_task(work, newest, Box::new(kept));
            commit_threads::submit(shared, request, held)
        };
        commit.await.map_err(|error| shared.log_failed(error))
    }

    /// Sets what compactions of the tree may elide, from the next one on. Not kept on disk: the
    /// layer above sets it after every open. Until then everything is kept.
    pub fn set_elision_rules(&self, rules: Arc<dyn ElisionRules>) -> Result<()> {
        self.parts_of_store()?.1.set_rules(rules);
        Ok(())
    }

    /// Pauses the compactions of this tree, or resumes them, as [`crate::Engine::pause_compactions`] does
    /// for all trees. It suits a tree without readers. The pause is not kept on disk.
    pub fn set_at_rest(&self, at_rest: bool) -> Result<()> {
        let (shared, tree) = self.parts_of_store()?;
        tree.set_at_rest(at_rest);
        if !at_rest {
            scheduler::schedule(shared, tree);
        }
        Ok(())
    }

    /// Returns whether the compactions of the tree are paused by [`Tree::set_at_rest`].
    pub fn is_at_rest(&self) -> bool {
        self.parts_of_store().is_ok_and(|(_, tree)| tree.is_at_rest())
    }

    /// Writes the memtable into an SSTable. Positions without a batch that follow, of a tree of a node, are
    /// flushed with it. An error is that of this try, whatever failed before;
    /// the memtable is kept, and the engine goes on trying.
    pub fn flush(&self) -> Result<()> {
        let (shared, tree) = self.parts_of_store()?;
        by_hand::flush_and_wait(shared, tree)?;
        match shared.member {
            Some(_) => by_hand::flush_position(shared, tree),
            None => Ok(()),
        }
    }

    /// The position of the newest batch of the tree, in memory or in SSTables. For a node of a cluster also
    /// that of the newest position without a batch.
    pub fn applied(&self) -> Result<LogPosition> {
        Ok(self.parts_of_store()?.1.applied())
    }

    /// The position up to which every batch of the tree is in SSTables, durably: what it has after a
    /// restart, if it is a tree of a node of a cluster. Never above [`Self::applied`], never falls.
    pub fn flushed(&self) -> Result<LogPosition> {
        Ok(self.parts_of_store()?.1.look().version.flushed)
    }

    /// Merges all runs that overlap `rows` down to the last level, applying the elision rules. What
    /// is still in the memtable is flushed first. An error is that of this try, which leaves all as
    /// it was.
    pub fn compact_range(&self, rows: &RowRange) -> Result<()> {
        let (shared, tree) = self.parts_of_store()?;
        by_hand::flush_and_wait(shared, tree)?;
        by_hand::compact_and_wait(shared, tree, rows)
    }

    /// Returns a writer of sorted cells, for bulk loads: see [`SstWriter`]. Any number may write at
    /// the same time. It keeps the data directory open until it, or the files it finished, are
    /// dropped.
    pub fn sst_writer(&self, options: &IngestOptions) -> Result<SstWriter> {
        self.parts_of_store()?;
        SstWriter::new(self.handle().clone(), self.id(), options)
    }

    /// Makes a second tree, `to`, with the cells of this one: all that were committed before the call,
    /// and of later commits those up to some moment. SSTables get a second name and take no more room
    /// until one of the trees is compacted. What is in memory is flushed first. Durable when it returns.
    /// The new tree has no elision rules yet.
    ///
    /// `InvalidArgument` if the id was ever used, or is smaller than that of this tree. After an error there is no new tree, but after a failed
    /// write or sync of the manifest there may be one when the engine is opened again.
    pub fn copy_to(&self, to: TreeId) -> Result<()> {
        let (shared, tree) = self.parts_of_store()?;
        shared.check_takes_writes()?;
        crate::ingest::copy::copy_tree(shared, tree, to)
    }

    /// Row keys that cut the tree into parts of about `part_bytes` bytes on disk, ascending, each
    /// with the approximate bytes before it. Empty for a small tree.
    pub fn sample_rows(&self, part_bytes: u64) -> Result<Vec<(Vec<u8>, u64)>> {
        self.parts_of_store()?.1.view().sample_rows(part_bytes)
    }

    /// Returns the counters and gauges of the tree. The counters begin when the engine is opened.
    pub fn metrics(&self) -> Result<Metrics> {
        let (shared, tree) = self.parts_of_store()?;
        Ok(crate::metrics::of_tree(shared, tree))
    }

    /// Lists the files of the tree, level by level, and its memtables. Takes memory for two keys of each
    /// file.
    pub fn files(&self) -> Result<TreeFiles> {
        Ok(TreeFiles::of(&self.parts_of_store()?.1.view()))
    }

    /// Approximate bytes on disk and in memory of the rows in `rows`.
    pub fn approximate_bytes(&self, rows: &RowRange) -> Result<u64> {
        self.parts_of_store()?.1.view().approximate_bytes(rows)
    }
}
