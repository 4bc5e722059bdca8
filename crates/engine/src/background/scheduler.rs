//! What starts by itself, and when: memtables are frozen, flushes and compactions are queued, and what
//! failed is tried again. A job that ends looks for what follows from it, so all of this is one file.
//!
//! Invariants:
//! 1. A plan is picked and its files are marked busy under one lock of `TreeState::work`.
//! 2. While compactions are paused, of all trees or of one at rest, none starts by itself, but for a tree
//!    that would stop its writers: pausing never stops a write. Compactions that run go on, and so do
//!    compactions by hand.
//! 3. A plan that met a damaged file is set aside: its files stay busy, so that others are picked,
//!    until it is tried again, or somebody compacts by hand.
//! 4. Every `LOOK_EVERY` each tree is looked at, also if nobody writes to it: cells expire, and
//!    reads of a quiet tree may have paid for its merging, without any event that says so.

use super::jobs::CountedJob;
use super::started::Started;
use crate::background::{compaction_jobs, flush_jobs, jobs};
use crate::compaction::pick;
use crate::error::{Error, Result};
use crate::health::failure_policy::{Kind, Task};
use crate::marks::Mark;
use crate::state::Shared;
use crate::tree::TreeState;
use crate::tree::work::Work;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often trees are looked at that ask for nothing themselves.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The turn of a job.
struct JobTurn(Arc<TreeState>);

impl Drop for JobTurn {
    fn drop(&mut self) {
        self.0.work.lock().flushing = false;
    }
}

/// Brings memory back into the budget: the largest memtables are flushed until those that take
/// writes leave room for more, and blocks give way to what is charged.
pub(crate) fn keep_to_budget(shared: &Arc<Shared>) {
    while shared.budget().wants_flush() && freeze_largest(shared) {}
    shared.cache.balance();
}

/// Freezes and flushes the largest memtable that takes writes, unless that has become
/// needless; `false` if all are empty.
fn freeze_largest(shared: &Arc<Shared>) -> bool {
    let trees: Vec<Arc<TreeState>> = shared.trees.read().values().cloned().collect();
    let bytes = |tree: &&Arc<TreeState>| tree.look().active.bytes();
    let Some(tree) = trees.iter().max_by_key(bytes).filter(|tree| bytes(tree) > 0) else {
        return false;
    };
    shared.counters.early_flushes.fetch_add(1, Ordering::Relaxed);
    freeze_if(shared, tree, |_, _| shared.budget().wants_flush());
    true
}

/// After a commit of `bytes` to `tree`: starts the flushes that are due.
pub(crate) fn after_commit(shared: &Arc<Shared>, tree: &Arc<TreeState>, bytes: usize) {
    if note_commit(shared, tree, bytes) {
        keep_up(shared, tree);
    }
}

/// Counts `bytes` that were committed to `tree`. Returns whether something is due ([`keep_up`]).
pub(crate) fn note_commit(shared: &Shared, tree: &TreeState, bytes: usize) -> bool {
    let uninspected = {
        let mut progress = shared.progress.lock();
        progress.uninspected += bytes;
        progress.uninspected
    };
    is_full(shared, tree)
        || is_inspection_due(shared, uninspected)
        || shared.budget().wants_flush()
        || shared.cache.wants_balance()
}

/// Starts the flushes that are due after commits to `tree`, and keeps to the budget. May wait for a
/// group that is being applied, and for an ingest.
pub(crate) fn keep_up(shared: &Arc<Shared>, tree: &Arc<TreeState>) {
    if is_full(shared, tree) {
        freeze_if(shared, tree, |bytes, frozen| {
            bytes >= shared.options.memtable_bytes_max && frozen == 0
        });
    }
    let due = {
        let mut progress = shared.progress.lock();
        let due = is_inspection_due(shared, progress.uninspected);
        if due {
            progress.uninspected = 0;
        }
        due
    };
    if due {
        inspect(shared);
    }
    keep_to_budget(shared);
}

fn is_full(shared: &Shared, tree: &TreeState) -> bool {
    tree.look().active.bytes() >= shared.options.memtable_bytes_max
}

fn is_inspection_due(shared: &Shared, uninspected: usize) -> bool {
    uninspected as u64 >= shared.options.log_segment_bytes / 4
}

/// Freezes the active memtable of `tree` if `due` (told its bytes and the number of frozen
/// ones) says so, and flushes.
fn freeze_if(shared: &Arc<Shared>, tree: &Arc<TreeState>, due: impl Fn(usize, usize) -> bool) {
    shared.commits.between_groups(|| {
        let view = tree.view();
        if due(view.active.bytes(), view.frozen.len()) {
            tree.freeze();
        }
    });
    schedule_flush(shared, tree);
    if flush_jobs::holds_flushes(shared, tree) {
        schedule_compaction(shared, tree);
    }
}

/// Flushes the tree whose memtable keeps too much log alive.
fn inspect(shared: &Arc<Shared>) {
    let trees = shared.trees.read().clone();
    let flushed = |id| trees.get(&id).map(|tree| tree.look().version.flushed);
    let segments_max = shared.options.shape.log_segments_max;
    if let Some(id) = shared.log_segments.tree_to_flush(segments_max, flushed)
        && let Some(tree) = trees.get(&id)
    {
        Mark::LogTooLong.hit();
        freeze_if(shared, tree, |_, frozen| frozen == 0);
    }
}

pub(crate) fn schedule(shared: &Arc<Shared>, tree: &Arc<TreeState>) {
    if !shared.health.is_over() {
        schedule_flush(shared, tree);
        schedule_compaction(shared, tree);
    }
}

/// Queues `job`, which is to do `task` for `tree`; when it has ended, notes how, and starts what
/// follows from it.
pub(crate) fn submit(
    shared: &Arc<Shared>,
    tree: &Arc<TreeState>,
    task: Task,
    job: impl FnOnce(&Arc<Shared>, &Arc<TreeState>) -> Result<()> + Send + 'static,
) {
    let tree = Arc::clone(tree);
    let what = format!("a {task} of tree {}", tree.id.0);
    jobs::run_later(shared, Duration::ZERO, task, "what follows a job", move |shared| {
        let outcome = shared.health.guard(task, &what, || job(shared, &tree));
        note(shared, &tree, task, outcome);
    });
}

fn note(shared: &Arc<Shared>, tree: &Arc<TreeState>, task: Task, outcome: Result<()>) {
    let Err(error) = outcome else {
        tree.work.lock().attempts(task, None).succeeded();
        return schedule(shared, tree);
    };
    let Some(kind) = Kind::of(&error) else { return };
    shared.counters.background_failures.fetch_add(1, Ordering::Relaxed);
    tracing::error!(tree = tree.id.0, %task, %error, "background work failed");
    let now = shared.env.clock.monotonic();
    let error = shared.failed(task, error);
    let wait = tree.work.lock().attempts(task, Some(kind)).failed(task, error, now);
    if let Some(wait) = wait {
        try_again(shared, tree, task, kind, wait);
    }
    // Of a tree whose compaction was set aside.
    schedule(shared, tree);
}

fn try_again(shared: &Arc<Shared>, tree: &Arc<TreeState>, task: Task, kind: Kind, wait: Duration) {
    let tree = Arc::downgrade(tree);
    jobs::run_later(shared, wait, task, "another try", move |shared| {
        let Some(tree) = tree.upgrade() else { return };
        {
            let mut work = tree.work.lock();
            work.attempts(task, Some(kind)).begin_now();
            if kind == Kind::Corruption {
                work.free_set_aside();
            }
        }
        schedule(shared, &tree);
    });
}

/// Starts flushing `tree` unless that is under way, there is nothing to flush, or it has to wait
/// (`background`, invariant 3; `health::failure_policy`, invariant 2).
pub(crate) fn schedule_flush(shared: &Arc<Shared>, tree: &Arc<TreeState>) {
    if shared.health.is_over() {
        return;
    }
    if flush_jobs::holds_flushes(shared, tree) {
        Mark::FlushHeld.hit();
        return;
    }
    let now = shared.env.clock.monotonic();
    let due = {
        let mut work = tree.work.lock();
        let due = !work.dropped && !work.flushing && !tree.view().frozen.is_empty();
        let due = due && !work.flush.waits(now);
        work.flushing |= due;
        due
    };
    if due {
        let turn = JobTurn(Arc::clone(tree));
        submit(shared, tree, Task::Flush, move |shared, tree| {
            let _turn = turn;
            while !tree.view().frozen.is_empty() && !flush_jobs::holds_flushes(shared, tree) {
                flush_jobs::flush_frozen(shared, tree, || shared.commits.sync())?;
            }
            Ok(())
        });
    }
}

/// Pauses or resumes compactions; what became due meanwhile starts when they are resumed.
pub(crate) fn set_compactions_paused(shared: &Arc<Shared>, paused: bool) {
    shared.compactions.pause(paused);
    let _counted = CountedJob::new(shared);
    if !paused && !shared.is_closing() {
        let trees: Vec<_> = shared.trees.read().values().cloned().collect();
        trees.iter().for_each(|tree| schedule(shared, tree));
    }
}

/// Looks at all trees now and then, until the engine is closed.
pub(crate) fn keep_looking(shared: &Arc<Shared>) {
    jobs::run_later(shared, LOOK_EVERY, Task::Compaction, "a look at quiet trees", |shared| {
        if shared.health.is_over() {
            return;
        }
        let trees: Vec<_> = shared.trees.read().values().cloned().collect();
        for tree in &trees {
            tree.look_for_quiet();
            schedule_compaction(shared, tree);
        }
        keep_looking(shared);
    });
}

/// Returns whether compactions of `tree` may start by themselves now.
fn may_compact(shared: &Shared, tree: &TreeState) -> bool {
    let runs = tree.look().version.levels[0].len();
    // One run before writers are slowed.
    !(shared.compactions.are_paused() || tree.is_at_rest())
        || runs > shared.options.l0_runs_compact
        || flush_jobs::holds_flushes(shared, tree)
}

/// Starts a compaction of `tree` if one is due and not too many run. The rules of the tree are
/// asked here, whoever calls: a panic of theirs ends here, too.
pub(crate) fn schedule_compaction(shared: &Arc<Shared>, tree: &Arc<TreeState>) {
    if shared.health.is_over() || !may_compact(shared, tree) {
        return;
    }
    let started = shared.health.guard(Task::Compaction, "looking for a compaction", || {
        start_compaction(shared, tree);
        Ok(())
    });
    if started.is_err() {
        shared.progress_made();
    }
}

fn start_compaction(shared: &Arc<Shared>, tree: &Arc<TreeState>) {
    let now = shared.env.clock.monotonic();
    let may_start = |work: &Work| {
        let room = work.compactions < shared.options.shape.compactions_max;
        room && !work.dropped && !work.compaction.waits(now)
    };
    // The signals cost a look at every file.
    if !may_start(&tree.work.lock()) {
        return;
    }
    let signals = compaction_jobs::signals_of(shared, tree);
    let picked = {
        let mut work = tree.work.lock();
        let picked = match may_start(&work) {
            true => pick::pick(&tree.view().version, &shared.options, &work.busy, &signals),
            false => None,
        };
        if let Some((plan, _)) = &picked {
            work.start(plan);
        }
        picked
    };
    if let Some((plan, reason)) = picked {
        let (started, thread) = (Started::new(tree, plan), shared.compactions.threads.take());
        submit(shared, tree, Task::Compaction, move |shared, tree| {
            let (mut started, _thread) = (started, thread);
            let done = compaction_jobs::run_plan(shared, tree, &started.plan, reason.into());
            started.damaged = matches!(done, Err(Error::Corruption(_)));
            done
        });
    }
}
