//! Background work: when memtables are frozen, and how jobs run and end.
//!
//! In: trees whose memtables are full or whose shape asks for a compaction. Out: new SSTables, edits
//! of the manifest, and new views of the trees. `flush_jobs` flushes, `compaction_jobs` decides when
//! compactions start, `subcompaction_threads` divides one among threads, `io_rate` limits how fast
//! they write, and `obsolete_files` deletes what nobody needs. May use `compaction`, `tree`,
//! `manifest`, `health` and the rooms below them.
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
//!    (`Tasks::help`), so that a single-threaded simulation makes progress. It looks whether the
//!    engine closes, or writes were stopped.
//! 5. What marks work as under way is a value that ends with it, also by a panic, so that nobody waits
//!    for work that is gone.

pub(crate) mod compaction_jobs;
pub(crate) mod flush_jobs;
pub(crate) mod io_rate;
#[doc(hidden)]
pub(crate) mod obsolete_files;
pub(crate) mod subcompaction_threads;

use crate::compaction::execute::Writing;
use crate::compaction::pick;
use crate::engine::Shared;
use crate::error::{Error, Result};
use crate::health::failure_policy::{Kind, Task, Writers, rule};
use crate::manifest::{Edit, is_in_doubt};
use crate::marks::Mark;
use crate::memory::budget::Budget;
use crate::options::Durability;
use crate::tree::Tree;
use io_rate::{Feedback, Writer};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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
        pick::is_full(&view.version, &self.options, &work.busy)
    }

    /// Flushes the tree whose memtable keeps too much log alive.
    fn inspect(self: &Arc<Self>) {
        let trees = self.trees.read().clone();
        let flushed = |id| trees.get(&id).map(|tree| tree.look().version.flushed);
        let segments_max = self.options.shape.log_segments_max;
        if let Some(id) = self.log_segments.tree_to_flush(segments_max, flushed)
            && let Some(tree) = trees.get(&id)
        {
            Mark::LogTooLong.hit();
            self.freeze_if(tree, |_, frozen| frozen == 0);
        }
    }

    pub(crate) fn schedule(self: &Arc<Self>, tree: &Arc<Tree>) {
        if !self.health.is_over() {
            self.schedule_flush(tree);
            self.schedule_compaction(tree);
        }
    }

    /// Queues `job`, which is to do `task` for `tree`; when it has ended, notes how, and starts what
    /// follows from it.
    pub(crate) fn submit(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        task: Task,
        job: impl FnOnce(&Arc<Self>, &Arc<Tree>) -> Result<()> + Send + 'static,
    ) {
        let tree = Arc::clone(tree);
        let what = format!("a {task} of tree {}", tree.id.0);
        self.run_later(Duration::ZERO, task, "what follows a job", move |shared| {
            let outcome = shared.health.guard(task, &what, || job(shared, &tree));
            shared.note(&tree, task, outcome);
        });
    }

    /// Queues `job`, a part of `task` that `what` names, once `delay` has passed. Closing the engine waits for it from
    /// when it is queued, or begins if it is delayed; a delayed one does not keep the engine open.
    pub(crate) fn run_later(
        self: &Arc<Self>,
        delay: Duration,
        task: Task,
        what: &'static str,
        job: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        let run = move |counted: CountedJob| {
            let shared = &counted.shared;
            let done = shared.health.guard(task, what, || {
                job(shared);
                Ok(())
            });
            if done.is_err() {
                shared.progressed.notify_all();
            }
        };
        if delay.is_zero() {
            let counted = CountedJob::new(self);
            return self.env.tasks.submit(Box::new(move || run(counted)));
        }
        let shared = Arc::downgrade(self);
        let begin = move || {
            if let Some(shared) = shared.upgrade() {
                run(CountedJob::new(&shared));
            }
        };
        self.env.tasks.submit_later(delay, Box::new(begin));
    }

    fn note(self: &Arc<Self>, tree: &Arc<Tree>, task: Task, outcome: Result<()>) {
        let Err(error) = outcome else {
            tree.work.lock().attempts(task, None).succeeded();
            return self.schedule(tree);
        };
        let Some(kind) = Kind::of(&error) else { return };
        self.counters.background_failures.fetch_add(1, Ordering::Relaxed);
        tracing::error!(tree = tree.id.0, %task, %error, "background work failed");
        let now = self.env.clock.monotonic();
        let error = self.failed(task, error);
        let wait = tree.work.lock().attempts(task, Some(kind)).failed(task, error, now);
        if let Some(wait) = wait {
            self.try_again(tree, task, kind, wait);
        }
        // Of a tree whose compaction was set aside.
        self.schedule(tree);
    }

    fn try_again(self: &Arc<Self>, tree: &Arc<Tree>, task: Task, kind: Kind, wait: Duration) {
        let tree = Arc::downgrade(tree);
        self.run_later(wait, task, "another try", move |shared| {
            let Some(tree) = tree.upgrade() else { return };
            {
                let mut work = tree.work.lock();
                work.attempts(task, Some(kind)).begin_now();
                if kind == Kind::Corruption {
                    work.free_set_aside();
                }
            }
            shared.schedule(&tree);
        });
    }

    /// Does what the policy says of writers when `task` has failed. Gives `error` back.
    pub(crate) fn failed(&self, task: Task, error: Error) -> Error {
        let rule = Kind::of(&error).map(|kind| rule(task, kind));
        if rule.is_some_and(|rule| rule.writers == Writers::Stopped) {
            self.health.stop(|| match &error {
                Error::WritesStopped(why) => why.clone(),
                other => format!("{task}: {other}"),
            });
            self.progressed.notify_all();
        }
        error
    }

    /// The same when an append to the log, or a sync of it, has failed. One that it refused is its
    /// caller's affair.
    pub(crate) fn log_failed(&self, error: Error) -> Error {
        if let Error::Io { .. } = error { self.failed(Task::Log, error) } else { error }
    }

    /// The same when an edit of the manifest has failed. One that it refused is its caller's affair.
    pub(crate) fn manifest_failed(&self, error: Error) -> Error {
        if is_in_doubt(&error) { self.failed(Task::Manifest, error) } else { error }
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
        self.wait_for_rate(self.owes_rate(tree, writer, bytes));
    }

    /// The same, but does not wait: until when `writer` is to wait, by the monotonic clock.
    pub(crate) fn owes_rate(&self, tree: &Tree, writer: Writer, bytes: u64) -> Duration {
        let now = self.env.clock.monotonic();
        let wait = self.io_rate.wrote(writer, bytes, now, || Feedback {
            pressure: self.pressure_of(tree),
            slowness: self.read_waits.slowness(),
        });
        now.saturating_add(wait)
    }

    /// Waits until `until`.
    pub(crate) fn wait_for_rate(&self, until: Duration) {
        let mut at = self.env.clock.monotonic();
        while at < until && !self.health.is_over() {
            let mut progress = self.progress.lock();
            self.progressed.wait_for(&mut progress, (until - at).min(LOOK_AGAIN));
            drop(progress);
            // The clock of a simulation stands still.
            let before = std::mem::replace(&mut at, self.env.clock.monotonic());
            at = if at == before { until } else { at };
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
        if let Err(error) = retired.map_err(|error| self.manifest_failed(error)) {
            tracing::warn!(%error, "could not remove old commit log segments; retrying later");
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
        self.run_later(every, Task::Log, "a sync of the log", move |shared| {
            if shared.is_closing() {
                return;
            }
            match shared.commits.sync() {
                Ok(()) => shared.sync_after(every),
                Err(error) => {
                    shared.failed(Task::Log, error);
                }
            }
        });
    }

    /// Syncs, closes the log and waits for running jobs. Again: does nothing.
    pub(crate) fn close(&self) -> Result<()> {
        let first = !self.health.close();
        let log = self.commits.close();
        self.wait_for_jobs();
        if !first {
            return Ok(());
        }
        self.obsolete.collect();
        if let Ok(Some(end)) = &log
            && let Err(error) = self.manifest.install(&[Edit::LogClosed(*end)])
        {
            tracing::warn!(%error, "could not record the end of the log; closing it anyway");
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

#[cfg(test)]
mod tests {
    use crate::batch::WriteBatch;
    use crate::cell::{Column, FamilyId, Timestamp, TreeId};
    use crate::engine::Engine;
    use crate::options::{Options, TreeOptions};
    use crate::shape::Shape;
    use base::env::SimEnv;
    use std::path::Path;

    #[test]
    fn log_that_only_a_checkpoint_keeps_is_no_reason_to_flush() {
        const TREE: TreeId = TreeId(1);
        let shape = Shape { log_segments_max: 2, ..Shape::DEFAULT };
        let options = Options { log_segment_bytes: 64 << 10, shape, ..Options::default() };
        let machine = SimEnv::new(1);
        let engine = Engine::open(machine.env(), Path::new("/data"), options).unwrap();
        engine.create_tree(TREE, TreeOptions::default()).unwrap();
        let (shared, tree) = (engine.shared(), engine.shared().tree(TREE).unwrap());
        let write = |batches: u8| {
            for row in 0..batches {
                let mut batch = WriteBatch::new();
                batch.put(&[row], Column::of(FamilyId(1), b"q"), Timestamp(1), &[7; 20 << 10]);
                engine.write(TREE, &batch).unwrap();
            }
        };
        let pinned = shared.log_segments.pin();
        write(20);
        engine.flush(TREE).unwrap();
        assert!(shared.log_segments.numbers().len() > 5, "they are kept for the checkpoint");
        write(1);
        assert!(tree.look().frozen.is_empty() && !tree.look().active.is_empty());
        write(20);
        assert!(!tree.look().frozen.is_empty(), "the tree itself needs too much log");
        drop(pinned);
    }
}
