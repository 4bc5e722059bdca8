//! Compactions: when they start, what is known of those that run, and how they are paused.
//!
//! Invariants:
//! 1. A plan is picked and its files are marked busy under one lock of `Tree::work`.
//! 2. While compactions are paused none starts by itself, but for a tree that would stop its
//!    writers: pausing never stops a write. Those that run go on, and so do those by hand.
//! 3. A plan that met a damaged file is set aside: its files stay busy, so that others are picked,
//!    until it is tried again, or somebody compacts by hand.
//! 4. Every `LOOK_EVERY` each tree is looked at, also if nobody writes to it: cells expire, and
//!    reads of a quiet tree may have paid for its merging, without any event that says so.

use super::subcompaction_threads::Threads;
use super::{CountedJob, LOOK_AGAIN};
use crate::cell::TreeId;
use crate::compaction::cache_warming;
use crate::compaction::execute::{self, Inputs, Merging, Written};
use crate::compaction::pick::{self, Destination, Manual, Plan, Reason, Work as How};
use crate::compaction::row_elision::DeletesAbove;
use crate::compaction::signals::{Signals, garbage_share};
use crate::engine::Shared;
use crate::error::{Error, Result};
use crate::files::FileNumber;
use crate::health::failure_policy::{Attempts, Kind, Task};
use crate::locks::RunningCompactions;
use crate::manifest::Edit;
use crate::marks::Mark;
use crate::request::RowRange;
use crate::shape::Shape;
use crate::sstable::{Heirs, SstReader};
use crate::tree::{Tree, Work};
use base::sync::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often trees are looked at that ask for nothing themselves.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Why a compaction runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionReason {
    /// A level had more than it may have.
    Shape,
    /// A file was mostly tombstones and expired cells.
    Garbage,
    /// Reads looked at several runs of a tree that nobody wrote.
    Quiet,
    /// `Engine::compact_range`.
    ByHand,
}

impl From<Reason> for CompactionReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Shape => Self::Shape,
            Reason::Garbage => Self::Garbage,
            Reason::Quiet => Self::Quiet,
        }
    }
}

/// A compaction that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningCompaction {
    /// Its tree.
    pub tree: TreeId,
    /// Why it runs.
    pub reason: CompactionReason,
    /// Bytes of its inputs; what it writes is seldom more.
    pub bytes_total: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// How many files it merges.
    pub ssts: usize,
    /// Since when it runs.
    pub running_for: Duration,
}

/// Compactions of all trees.
#[derive(Debug, Default)]
pub(crate) struct Compactions {
    paused: AtomicBool,
    running: Mutex<BTreeMap<u64, Arc<Running>>, RunningCompactions>,
    next: AtomicU64,
    pub(crate) threads: Threads,
}

#[derive(Debug)]
pub(crate) struct Running {
    tree: TreeId,
    reason: CompactionReason,
    bytes_total: u64,
    /// Relaxed: stands by itself.
    bytes_written: AtomicU64,
    ssts: usize,
    since: Duration,
}

impl Running {
    /// Notes that it has written `bytes` bytes more.
    pub(crate) fn wrote(&self, bytes: u64) {
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Bytes of what runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompactionProgress {
    pub(crate) running: u64,
    pub(crate) bytes_total: u64,
    pub(crate) bytes_written: u64,
}

impl Compactions {
    pub(crate) fn progress(&self) -> CompactionProgress {
        let running = self.running.lock();
        let mut sum = CompactionProgress { running: running.len() as u64, ..Default::default() };
        for one in running.values() {
            sum.bytes_total += one.bytes_total;
            sum.bytes_written += one.bytes_written.load(Ordering::Relaxed);
        }
        sum
    }

    pub(crate) fn are_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Lists `plan` as long as `act` runs.
    fn listed<T>(
        &self,
        tree: TreeId,
        plan: &Plan,
        reason: CompactionReason,
        since: Duration,
        act: impl FnOnce(&Arc<Running>) -> T,
    ) -> T {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (bytes_total, bytes_written) = (plan.bytes(), AtomicU64::new(0));
        let ssts = plan.ssts().count();
        let one = Arc::new(Running { tree, reason, bytes_total, bytes_written, ssts, since });
        self.running.lock().insert(id, Arc::clone(&one));
        let _listed = Listed { compactions: self, id };
        act(&one)
    }
}

/// A compaction that is listed as running, until this is dropped.
struct Listed<'a> {
    compactions: &'a Compactions,
    id: u64,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.compactions.running.lock().remove(&self.id);
    }
}

impl Work {
    fn start(&mut self, plan: &Plan) {
        self.busy.start(plan);
        self.compactions += 1;
    }

    fn finish(&mut self, plan: &Plan) {
        self.busy.finish(plan);
        self.compactions -= 1;
    }

    /// Ends `plan`, which met a damaged file (invariant 3 of the file header).
    fn set_aside(&mut self, plan: &Arc<Plan>) {
        self.set_aside.push(Arc::clone(plan));
        self.compactions -= 1;
    }

    /// How `task`, a flush or a compaction, went lately; those that fail like `kind` are apart.
    pub(crate) fn attempts(&mut self, task: Task, kind: Option<Kind>) -> &mut Attempts {
        match (task, kind) {
            (Task::Compaction, Some(Kind::Corruption)) => &mut self.damaged,
            (Task::Compaction, _) => &mut self.compaction,
            _ => &mut self.flush,
        }
    }

    /// Lets what was set aside be picked again.
    pub(crate) fn free_set_aside(&mut self) {
        for plan in std::mem::take(&mut self.set_aside) {
            self.busy.finish(&plan);
        }
        self.damaged.begin_now();
    }

    /// Whether work of the tree failed and is to be tried again.
    pub(crate) fn is_failing(&self) -> bool {
        self.flush.is_failing() || self.compaction.is_failing() || !self.set_aside.is_empty()
    }

    /// What a writer is told who cannot go on before the tree is flushed or compacted; `None` if it
    /// is to wait.
    pub(crate) fn refusal(&self) -> Option<Error> {
        if self.flushing {
            return None;
        }
        let compaction = || self.compaction.refusal().or_else(|| self.damaged.refusal());
        let idle = self.compactions == 0;
        self.flush.refusal().or_else(|| idle.then(compaction).flatten())
    }
}

/// A plan that runs, until this is dropped.
struct Started {
    tree: Arc<Tree>,
    plan: Arc<Plan>,
    /// Whether it is then set aside.
    damaged: bool,
}

impl Started {
    /// A plan that was just marked as running.
    fn new(tree: &Arc<Tree>, plan: Plan) -> Self {
        Self { tree: Arc::clone(tree), plan: Arc::new(plan), damaged: false }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let mut work = self.tree.work.lock();
        if self.damaged {
            work.set_aside(&self.plan);
        } else {
            work.finish(&self.plan);
        }
    }
}

/// What of `tree` is newer than the inputs of `plan`, as long as those stay: at the bottom nothing
/// else is older.
fn deletes_above(tree: &Arc<Tree>, plan: &Plan) -> Box<DeletesAbove<'static>> {
    let tree = Arc::clone(tree);
    let inputs: HashSet<FileNumber> = plan.ssts().map(|sst| sst.number).collect();
    Box::new(move |row, newest_range| tree.view().may_delete(row, newest_range, &inputs))
}

impl Shared {
    /// Pauses or resumes compactions; what became due meanwhile starts when they are resumed.
    pub(crate) fn set_compactions_paused(self: &Arc<Self>, paused: bool) {
        self.compactions.paused.store(paused, Ordering::Relaxed);
        let _counted = CountedJob::new(self);
        if !paused && !self.is_closing() {
            let trees: Vec<_> = self.trees.read().values().cloned().collect();
            trees.iter().for_each(|tree| self.schedule(tree));
        }
    }

    /// Those that run, oldest first.
    pub(crate) fn running_compactions(&self) -> Vec<RunningCompaction> {
        let now = self.env.clock.monotonic();
        let running = self.compactions.running.lock();
        let one = |one: &Arc<Running>| RunningCompaction {
            tree: one.tree,
            reason: one.reason,
            bytes_total: one.bytes_total,
            bytes_written: one.bytes_written.load(Ordering::Relaxed),
            ssts: one.ssts,
            running_for: now.saturating_sub(one.since),
        };
        running.values().map(one).collect()
    }

    /// Looks at all trees now and then, until the engine is closed.
    pub(crate) fn keep_looking(self: &Arc<Self>) {
        self.run_later(LOOK_EVERY, Task::Compaction, "a look at quiet trees", |shared| {
            if shared.health.is_over() {
                return;
            }
            let trees: Vec<_> = shared.trees.read().values().cloned().collect();
            for tree in &trees {
                tree.look_for_quiet();
                shared.schedule_compaction(tree);
            }
            shared.keep_looking();
        });
    }

    /// Whether compactions of `tree` may start by themselves now.
    fn may_compact(&self, tree: &Tree) -> bool {
        let runs = tree.look().version.levels[0].len();
        // One run before writers are slowed.
        !self.compactions.are_paused()
            || runs > self.options.l0_runs_compact
            || self.holds_flushes(tree)
    }

    /// Starts a compaction of `tree` if one is due and not too many run. The rules of the tree are
    /// asked here, whoever calls: a panic of theirs ends here, too.
    pub(crate) fn schedule_compaction(self: &Arc<Self>, tree: &Arc<Tree>) {
        if self.health.is_over() || !self.may_compact(tree) {
            return;
        }
        let started = self.health.guard(Task::Compaction, "looking for a compaction", || {
            self.start_compaction(tree);
            Ok(())
        });
        if started.is_err() {
            self.progressed.notify_all();
        }
    }

    fn start_compaction(self: &Arc<Self>, tree: &Arc<Tree>) {
        let now = self.env.clock.monotonic();
        let signals = self.signals_of(tree);
        let picked = {
            let mut work = tree.work.lock();
            let may = !work.dropped && work.compactions < self.options.shape.compactions_max;
            let picked = match may && !work.compaction.waits(now) {
                true => pick::pick(&tree.view().version, &self.options, &work.busy, &signals),
                false => None,
            };
            if let Some((plan, _)) = &picked {
                work.start(plan);
            }
            picked
        };
        if let Some((plan, reason)) = picked {
            let (started, thread) = (Started::new(tree, plan), self.compactions.threads.take());
            self.submit(tree, Task::Compaction, move |shared, tree| {
                let (mut started, _thread) = (started, thread);
                let done = shared.run_plan(tree, &started.plan, reason.into());
                started.damaged = matches!(done, Err(Error::Corruption { .. }));
                done
            });
        }
    }

    /// What asks for a compaction of `tree` although its shape does not.
    fn signals_of(&self, tree: &Tree) -> Signals {
        let view = tree.view();
        let metas = view.version.runs().flat_map(|run| &run.ssts);
        let files = view.ssts().map(|sst| (sst.number(), sst)).collect::<HashMap<_, _>>();
        let policy = tree.rules().policy(self.env.clock.now_micros());
        let published = self.snapshots.published();
        let settled = self.snapshots.live().first().copied().unwrap_or(published);
        let mut garbage = HashMap::new();
        {
            let mut work = tree.work.lock();
            work.fruitless.retain(|number| files.contains_key(number));
            for meta in metas.filter(|meta| !work.fruitless.contains(&meta.number)) {
                let ages = files[&meta.number].properties().ages.as_ref();
                let share = garbage_share(meta, ages, &*policy, settled);
                if share > 0 {
                    garbage.insert(meta.number, share);
                }
            }
        }
        Signals { garbage, settled, quiet_reads: tree.quiet_reads() }
    }

    /// Runs `plan` and installs what it wrote.
    fn run_plan(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        plan: &Arc<Plan>,
        reason: CompactionReason,
    ) -> Result<()> {
        let now = self.env.clock.monotonic();
        let written = self.compactions.listed(tree.id, plan, reason, now, |running| {
            let written = self.merge(tree, plan, running)?;
            let heirs = self.heirs(tree, plan, &written);
            let installed = self.install(tree, &written);
            self.clear_away(false);
            installed?;
            let go_on = || !self.is_closing();
            cache_warming::inherit(&self.env.fs, &self.cache, &heirs, &go_on);
            Ok::<_, Error>(written)
        })?;
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        self.counters.compacted_bytes.fetch_add(written.bytes, Ordering::Relaxed);
        match reason {
            CompactionReason::Garbage => &self.counters.compactions_for_garbage,
            CompactionReason::Quiet => &self.counters.compactions_for_reads,
            CompactionReason::Shape | CompactionReason::ByHand => return Ok(()),
        }
        .fetch_add(1, Ordering::Relaxed);
        if reason == CompactionReason::Garbage {
            note_fruitless(tree, plan, &written, &self.options.shape);
        }
        Ok(())
    }

    /// Writes what `plan` says. Holds the inputs no longer than it takes, so that they can be
    /// deleted once the outputs are installed.
    fn merge(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        plan: &Arc<Plan>,
        running: &Arc<Running>,
    ) -> Result<Written> {
        if plan.work == How::Move {
            Mark::FilesMoved.hit();
            return Ok(execute::moved(tree.id, plan));
        }
        let merging = {
            let view = tree.view();
            let open: HashMap<FileNumber, &Arc<SstReader>> =
                view.ssts().map(|sst| (sst.number(), sst)).collect();
            let inputs = Inputs {
                open: &|number| Arc::clone(open[&number]),
                snapshots: self.snapshots.live(),
                policy: tree.rules().policy(self.env.clock.now_micros()),
                above: deletes_above(tree, plan),
                published: self.snapshots.published(),
                ahead: self.options.read_path.readahead.then(|| Arc::clone(&self.readahead)),
            };
            self.writing(tree, &|_| (), |writing| Merging::new(writing, Arc::clone(plan), inputs))
        };
        self.write_subcompactions(tree, merging, running)
    }

    /// Which blocks of what was written are to take the place of those in memory that they came of.
    /// To be asked before the inputs are let go.
    fn heirs(&self, tree: &Tree, plan: &Plan, written: &Written) -> Heirs {
        if !self.options.read_path.cache_warming || written.obsolete.is_empty() {
            return Heirs::default();
        }
        let view = tree.view();
        let replaced = plan.ssts().map(|sst| sst.number).collect::<HashSet<_>>();
        let inputs = view.ssts().filter(|sst| replaced.contains(&sst.number()));
        let inputs: Vec<_> = inputs.cloned().collect();
        Heirs::find(&inputs, &written.readers, &|| !self.is_closing()).unwrap_or_else(|error| {
            tracing::debug!(%error, "could not load blocks of a compaction's outputs into the cache");
            Heirs::default()
        })
    }

    /// Merges `rows` down to the last level, one plan after the other.
    pub(crate) fn compact_and_wait(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        rows: &RowRange,
    ) -> Result<()> {
        loop {
            if self.is_closing() {
                return Err(Error::Closed);
            }
            self.health.check()?;
            let next = {
                let mut work = tree.work.lock();
                if work.dropped {
                    return Err(Error::UnknownTree(tree.id));
                }
                // Whoever compacts by hand waits for what runs, not for what was set aside.
                work.free_set_aside();
                let next = pick::manual(&tree.view().version, rows, &self.options, &work.busy);
                if let Manual::Plan(plan) = &next {
                    work.start(plan);
                }
                next
            };
            match next {
                Manual::Nothing => return Ok(()),
                Manual::Blocked => self.pause(LOOK_AGAIN),
                Manual::Plan(plan) => {
                    let started = Started::new(tree, plan);
                    let what = format!("a manual compaction of tree {}", tree.id.0);
                    let done = self.health.guard(Task::ByHand, &what, || {
                        self.run_plan(tree, &started.plan, CompactionReason::ByHand)
                    });
                    drop(started);
                    if done.is_ok() {
                        tree.work.lock().compaction.succeeded();
                    }
                    self.progressed.notify_all();
                    self.schedule(tree);
                    return done.map_err(|error| self.failed(Task::ByHand, error));
                }
            }
        }
    }
}

/// Remembers outputs that are as much garbage as the inputs were, so that they are not written
/// again and again for nothing.
fn note_fruitless(tree: &Tree, plan: &Plan, written: &Written, shape: &Shape) {
    if plan.destination != Destination::LastRun || plan.work == How::Move {
        return;
    }
    let added = || {
        written.edits.iter().filter_map(|edit| match edit {
            Edit::AddSst { meta, .. } => Some(meta),
            _ => None,
        })
    };
    let before: u64 = plan.ssts().map(|sst| sst.entries).sum();
    let after: u64 = added().map(|meta| meta.entries).sum();
    if after.saturating_mul(8) >= before.saturating_mul(shape.fruitless_eighths as u64) {
        tree.work.lock().fruitless.extend(added().map(|meta| meta.number));
    }
}
