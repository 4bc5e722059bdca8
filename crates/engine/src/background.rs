//! Background work: when memtables are frozen and flushed, and how jobs run and end. When
//! compactions start is decided in `compactions`, when writers wait in `stalls`.
//!
//! Invariants:
//! 1. Per tree at most one flush runs at a time (`Work::flushing`), and compactions whose inputs and
//!    outputs have nothing to do with each other (`Work::busy`).
//! 2. New files are opened before the manifest names them, so installing cannot fail half-way:
//!    the edit is durable, then the view changes, both under the manifest's lock.
//! 3. A flush that nobody asked for starts only while its tree has a place for one more sorted run
//!    (`pick::is_full`); then it writes all memtables that wait, as one run. While it waits a
//!    compaction that makes the place runs or has failed, and writers wait as memory fills
//!    (`pressure`). So a scan meets `pick::runs_max` runs at most, but for runs made by
//!    `Engine::flush`, by ingests, and by a replay that memory was too small for.
//! 4. Whoever waits (a stalled writer, a flush on demand) waits on `progressed`, which is
//!    signalled after every change of a flag; before sleeping it offers to run a queued job itself
//!    (`Tasks::help`), so that a single-threaded simulation makes progress.

pub(crate) mod compactions;
pub(crate) mod io_rate;
mod pieces;
mod pressure;
pub(crate) mod stalls;

use crate::budget::Budget;
use crate::compaction::pick;
use crate::compaction::run::{self, Writing, Written};
use crate::engine::Shared;
use crate::error::{Error, Result};
use crate::manifest::Edit;
use crate::marks::Mark;
use crate::options::Durability;
use crate::tree::Tree;
use io_rate::{Feedback, Writer};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a failed flush or compaction waits before it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Longest sleep of a waiter before it looks again.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// What the waiters of an engine wait on.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Jobs queued or running.
    pub(crate) jobs: usize,
    /// Bytes committed since the last look at the log's length.
    uninspected: usize,
}

/// A job that is queued or runs. Counted until it is dropped, also if it never ran, so that
/// `close` waits for it and not for ever.
struct CountedJob {
    shared: Arc<Shared>,
}

impl CountedJob {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.progress.lock().jobs += 1;
        Self { shared: Arc::clone(shared) }
    }
}

impl Drop for CountedJob {
    fn drop(&mut self) {
        self.shared.progress.lock().jobs -= 1;
        self.shared.progressed.notify_all();
    }
}

/// As long as it lives flushes of its tree do not wait for compactions (invariant 3).
struct FlushWanted<'a> {
    tree: &'a Tree,
}

impl<'a> FlushWanted<'a> {
    fn by_hand(tree: &'a Tree) -> Self {
        tree.work.lock().flushes_wanted += 1;
        Self { tree }
    }
}

impl Drop for FlushWanted<'_> {
    fn drop(&mut self) {
        self.tree.work.lock().flushes_wanted -= 1;
    }
}

impl Shared {
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        self.cache.budget()
    }

    /// Brings memory back into the budget: the largest memtables are flushed until those that take
    /// writes leave room for more, and blocks give way to what is charged.
    fn keep_to_budget(self: &Arc<Self>) {
        while self.budget().wants_flush() && self.freeze_largest() {}
        self.cache.balance();
    }

    /// See [`crate::Engine::note_process_memory`].
    pub(crate) fn note_process_memory(self: &Arc<Self>, bytes: usize) {
        self.budget().set_outside(bytes.saturating_sub(self.cache.memory_bytes()));
        self.cache.balance();
    }

    /// Freezes and flushes the largest memtable that takes writes, unless that has become
    /// needless; `false` if all are empty.
    fn freeze_largest(self: &Arc<Self>) -> bool {
        let trees: Vec<Arc<Tree>> = self.trees.read().values().cloned().collect();
        let bytes = |tree: &&Arc<Tree>| tree.look().active.bytes();
        let Some(tree) = trees.iter().max_by_key(bytes).filter(|tree| bytes(tree) > 0) else {
            return false;
        };
        self.counters.early_flushes.fetch_add(1, Ordering::Relaxed);
        self.freeze_if(tree, |_, _| self.budget().wants_flush());
        true
    }

    /// Sleeps until background work ends, at most `longest`; or does some of it.
    pub(crate) fn pause(&self, longest: Duration) {
        if !self.env.tasks.help() {
            let mut progress = self.progress.lock();
            self.progressed.wait_for(&mut progress, longest);
        }
    }

    /// After a commit of `bytes` to `tree`: starts the flushes that are due.
    pub(crate) fn after_commit(self: &Arc<Self>, tree: &Arc<Tree>, bytes: usize) {
        if tree.view().active.bytes() >= self.options.memtable_bytes_max {
            self.freeze_if(tree, |bytes, frozen| {
                bytes >= self.options.memtable_bytes_max && frozen == 0
            });
        }
        let inspect = {
            let mut progress = self.progress.lock();
            progress.uninspected += bytes;
            let due = progress.uninspected as u64 >= self.options.log_segment_bytes / 4;
            if due {
                progress.uninspected = 0;
            }
            due
        };
        if inspect {
            self.inspect();
        }
        self.keep_to_budget();
    }

    /// Freezes the active memtable of `tree` if `due` (told its bytes and the number of frozen
    /// ones) says so, and flushes.
    fn freeze_if(self: &Arc<Self>, tree: &Arc<Tree>, due: impl Fn(usize, usize) -> bool) {
        self.commits.between_groups(|| {
            let view = tree.view();
            if due(view.active.bytes(), view.frozen.len()) {
                tree.freeze();
            }
        });
        self.schedule_flush(tree);
        if self.holds_flushes(tree) {
            self.schedule_compaction(tree);
        }
    }

    /// Whether memtables of `tree` wait until a compaction leaves a place for a run.
    pub(crate) fn holds_flushes(&self, tree: &Tree) -> bool {
        let view = tree.look();
        if view.frozen.is_empty() {
            return false;
        }
        let work = tree.work.lock();
        work.flushes_wanted == 0 && pick::is_full(&view.version, &self.options, &work.busy)
    }

    /// Flushes the tree whose memtable keeps too much log alive.
    fn inspect(self: &Arc<Self>) {
        let trees = self.trees.read().clone();
        let flushed = |id| trees.get(&id).map(|tree| tree.look().version.flushed);
        if self.log_segments.numbers().len() > self.options.shape.log_segments_max
            && let Some((_, id)) = self.log_segments.oldest_needed(flushed)
            && let Some(tree) = trees.get(&id)
        {
            Mark::LogTooLong.hit();
            self.freeze_if(tree, |_, frozen| frozen == 0);
        }
    }

    /// Starts flushing `tree` unless that is under way, there is nothing to flush, or it has to wait
    /// (invariant 3).
    pub(crate) fn schedule_flush(self: &Arc<Self>, tree: &Arc<Tree>) {
        if self.holds_flushes(tree) {
            Mark::FlushHeld.hit();
            return;
        }
        let due = {
            let mut work = tree.work.lock();
            let due = !work.dropped && !work.flushing && !tree.view().frozen.is_empty();
            work.flushing |= due;
            due
        };
        if due {
            self.submit(tree, |shared, tree| {
                let mut done = Ok(());
                while done.is_ok() && !tree.view().frozen.is_empty() && !shared.holds_flushes(tree)
                {
                    done = shared.flush_frozen(tree, || shared.commits.sync());
                }
                tree.work.lock().flushing = false;
                done
            });
        }
    }

    pub(crate) fn schedule(self: &Arc<Self>, tree: &Arc<Tree>) {
        if !self.is_closing() {
            self.schedule_flush(tree);
            self.schedule_compaction(tree);
        }
    }

    /// Queues `job`; when it has ended, notes how, and starts what follows from it.
    pub(crate) fn submit(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        job: impl FnOnce(&Arc<Self>, &Arc<Tree>) -> Result<()> + Send + 'static,
    ) {
        let (counted, tree) = (CountedJob::new(self), Arc::clone(tree));
        self.env.tasks.submit(Box::new(move || {
            let shared = &counted.shared;
            let outcome = job(shared, &tree);
            shared.note(&tree, outcome);
        }));
    }

    fn note(self: &Arc<Self>, tree: &Arc<Tree>, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                tree.work.lock().failure = None;
                self.schedule(tree);
            }
            Err(Error::Closed) => {}
            Err(error) => {
                self.counters.background_failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!(tree = tree.id.0, %error, "background work failed");
                tree.work.lock().failure = Some(error);
                self.retry_later(tree);
            }
        }
    }

    /// Only a lack of space passes by itself.
    fn retry_later(self: &Arc<Self>, tree: &Arc<Tree>) {
        if !matches!(tree.work.lock().failure, Some(Error::NoSpace { .. })) {
            return;
        }
        let (shared, tree) = (Arc::downgrade(self), Arc::downgrade(tree));
        self.env.tasks.submit_later(
            RETRY_AFTER,
            Box::new(move || {
                if let (Some(shared), Some(tree)) = (shared.upgrade(), tree.upgrade()) {
                    shared.schedule(&tree);
                }
            }),
        );
    }

    /// Writes what is frozen of `tree` into one run of level 0. Only for whoever set
    /// `Work::flushing`. `sync_log` makes durable what was committed up to now.
    pub(crate) fn flush_frozen(
        &self,
        tree: &Tree,
        sync_log: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let memtables = tree.view().frozen.clone();
        let Some(newest) = memtables.first() else { return Ok(()) };
        let run = self.manifest.state().tree(tree.id).map(|version| version.next_run());
        let run = run.ok_or(Error::UnknownTree(tree.id))?;
        let wrote = |bytes| self.keep_to_rate(tree, Writer::Flush, bytes);
        let mut written = self.writing(tree, &wrote, |writing| {
            run::flush(writing, &memtables, run, self.snapshots.live())
        })?;
        // What was committed before the newest memtable's last batch must be as durable as the
        // SSTable: a power loss may take the newest batches, not some from their midst.
        sync_log()?;
        let position = newest.position();
        written.edits.push(Edit::Flushed { tree: tree.id, position });
        self.install(tree, &written)?;
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        self.counters.flushed_bytes.fetch_add(written.bytes, Ordering::Relaxed);
        self.retire_log();
        Ok(())
    }

    /// Lends `act` what a flush or compaction of `tree` needs of the engine.
    pub(crate) fn writing<T>(
        &self,
        tree: &Tree,
        wrote: &dyn Fn(u64),
        act: impl FnOnce(&Writing<'_>) -> T,
    ) -> T {
        let version = Arc::clone(&tree.view().version);
        act(&Writing {
            fs: &*self.env.fs,
            dir: &self.dir,
            options: &self.options,
            tree: tree.id,
            flushed: version.flushed,
            tree_options: &version.options,
            filter_granularity: tree.learn_granularity(),
            open_files: &self.open_files,
            cache: &self.cache,
            new_file: &|| self.manifest.new_file(),
            cancelled: &|| self.is_closing(),
            wrote,
        })
    }

    /// Waits as the rate of background work demands of `writer`, who has just written `bytes` bytes
    /// for `tree`.
    pub(crate) fn keep_to_rate(&self, tree: &Tree, writer: Writer, bytes: u64) {
        let now = self.env.clock.monotonic();
        let wait = self.io_rate.wrote(writer, bytes, now, || Feedback {
            pressure: self.pressure_of(tree),
            slowness: self.read_waits.slowness(),
        });
        let until = now + wait;
        let mut at = now;
        while at < until && !self.is_closing() {
            let mut progress = self.progress.lock();
            self.progressed.wait_for(&mut progress, (until - at).min(LOOK_AGAIN));
            drop(progress);
            // The clock of a simulation stands still.
            let before = std::mem::replace(&mut at, self.env.clock.monotonic());
            at = if at == before { until } else { at };
        }
    }

    /// Makes `written` part of `tree`: first in the manifest, then in the view. If the manifest
    /// does not take it, what was written is removed.
    pub(crate) fn install(&self, tree: &Tree, written: &Written) -> Result<()> {
        let mut edits = written.edits.clone();
        edits.push(Edit::LastSequence(self.snapshots.published()));
        let _installing = tree.installing.lock();
        let installed = self.manifest.install(&edits);
        let version = installed
            .and_then(|state| state.tree(tree.id).cloned().ok_or(Error::UnknownTree(tree.id)));
        match version {
            Ok(version) => {
                let before = tree.view();
                self.counters.runs_most.fetch_max(version.runs().count() as u64, Ordering::Relaxed);
                tree.install(version, &written.readers);
                let gone = before.ssts().filter(|sst| written.obsolete.contains(&sst.number()));
                self.obsolete.add(gone.cloned());
            }
            Err(error) => {
                self.give_up(written, &error);
                return Err(error);
            }
        }
        self.obsolete.collect();
        self.cache.balance();
        Ok(())
    }

    /// Removes files that were not installed. After a failure of the manifest it is not known
    /// whether it names them: the next open decides.
    fn give_up(&self, written: &Written, error: &Error) {
        if matches!(error, Error::NoSpace { .. } | Error::UnknownTree(_) | Error::Closed) {
            self.obsolete.add(written.readers.iter().cloned());
        }
    }

    /// Gives up the segments of the log that no tree needs.
    pub(crate) fn retire_log(&self) {
        let from = self.manifest.change(|state| {
            let flushed = |tree| state.tree(tree).map(|version| version.flushed);
            let first = self.log_segments.first_needed(flushed);
            let Some(first) = first.filter(|first| *first > state.log_from) else {
                return Ok(Vec::new());
            };
            // The segments may hold the only trace of their numbers: those of a tree that was
            // dropped before it was flushed. They are not to be given out again.
            let last = Edit::LastSequence(self.snapshots.published());
            Ok(vec![last, Edit::LogFrom(first)])
        });
        let retired = from.and_then(|state| self.log_segments.retire(state.log_from));
        if let Err(error) = retired {
            tracing::warn!(%error, "old commit log segments could not be removed; tried again later");
        }
    }

    /// Freezes and flushes what `tree` holds in memory, and waits for it.
    pub(crate) fn flush_and_wait(self: &Arc<Self>, tree: &Arc<Tree>) -> Result<()> {
        let mut last = None;
        self.commits.between_groups(|| {
            tree.freeze();
            last = tree.view().frozen.first().map(|memtable| memtable.position());
        });
        let Some(last) = last else { return Ok(()) };
        let _wanted = FlushWanted::by_hand(tree);
        loop {
            if tree.view().version.flushed >= last {
                return Ok(());
            }
            if self.is_closing() {
                return Err(Error::Closed);
            }
            let failure = tree.work.lock().failure.take();
            if let Some(error) = failure {
                return Err(error);
            }
            self.schedule_flush(tree);
            self.pause(LOOK_AGAIN);
        }
    }

    /// After open: starts what is due, and the regular sync if the durability mode has one.
    pub(crate) fn start_background(self: &Arc<Self>) {
        let trees: Vec<_> = self.trees.read().values().cloned().collect();
        trees.iter().for_each(|tree| self.schedule(tree));
        self.keep_to_budget();
        self.keep_looking();
        if let Durability::Interval(every) = self.options.durability {
            self.sync_after(every);
        }
    }

    fn sync_after(self: &Arc<Self>, every: Duration) {
        let shared = Arc::downgrade(self);
        let job = move || {
            let Some(shared) = shared.upgrade().filter(|shared| !shared.is_closing()) else {
                return;
            };
            if let Err(error) = shared.commits.sync() {
                tracing::error!(%error, "the commit log could not be synced; writes are stopped");
            }
            shared.sync_after(every);
        };
        self.env.tasks.submit_later(every, Box::new(job));
    }

    /// Syncs, closes the log and waits for running jobs. Again: does nothing.
    pub(crate) fn close(&self) -> Result<()> {
        let first = !self.closing.swap(true, Ordering::AcqRel);
        let log = self.commits.close();
        self.wait_for_jobs();
        if !first {
            return Ok(());
        }
        self.obsolete.collect();
        if let Ok(Some(end)) = &log
            && let Err(error) = self.manifest.install(&[Edit::LogClosed(*end)])
        {
            tracing::warn!(%error, "where the log ends was not noted; it is closed all the same");
        }
        log.and(self.manifest.close())
    }

    fn wait_for_jobs(&self) {
        loop {
            // Before helping: on a simulated machine other engines always have something to do.
            if self.progress.lock().jobs == 0 {
                return;
            }
            if !self.env.tasks.help() {
                let mut progress = self.progress.lock();
                if progress.jobs > 0 {
                    self.progressed.wait_for(&mut progress, LOOK_AGAIN);
                }
            }
        }
    }
}
