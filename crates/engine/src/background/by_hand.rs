//! Flushes and compactions that a caller asks for, and does in its own thread.

use super::started::Started;
use crate::background::{compaction_jobs, flush_jobs, scheduler};
use crate::compaction::pick;
use crate::compaction::pick::Manual;
use crate::error::{Error, Result};
use crate::health::failure_policy::Task;
use crate::manifest::Edit;
use crate::request::RowRange;
use crate::state::running_compactions::CompactionReason;
use crate::state::{LOOK_AGAIN, Shared};
use crate::tree::TreeState;
use std::sync::Arc;

/// The turn of a caller. What became due meanwhile is started when it is given back.
pub(crate) struct FlushTurn<'a> {
    shared: &'a Arc<Shared>,
    tree: &'a Arc<TreeState>,
}

impl<'a> FlushTurn<'a> {
    /// Waits for it.
    pub(crate) fn take(shared: &'a Arc<Shared>, tree: &'a Arc<TreeState>) -> Result<Self> {
        loop {
            if shared.is_closing() {
                return Err(Error::Closed);
            }
            shared.health.check()?;
            {
                let mut work = tree.work.lock();
                if work.dropped {
                    return Err(Error::UnknownTree(tree.id));
                }
                if !work.flushing {
                    work.flushing = true;
                    return Ok(Self { shared, tree });
                }
            }
            shared.pause(LOOK_AGAIN);
        }
    }
}

impl Drop for FlushTurn<'_> {
    fn drop(&mut self) {
        self.tree.work.lock().flushing = false;
        self.shared.progress_made();
        scheduler::schedule(self.shared, self.tree);
    }
}

/// Freezes and flushes what `tree` holds in memory.
pub(crate) fn flush_and_wait(shared: &Arc<Shared>, tree: &Arc<TreeState>) -> Result<()> {
    let mut last = None;
    shared.commits.between_groups(|| {
        tree.freeze();
        last = tree.view().frozen.first().map(|memtable| memtable.position());
    });
    let Some(last) = last else { return Ok(()) };
    let _turn = FlushTurn::take(shared, tree)?;
    let what = format!("a manual flush of tree {}", tree.id.0);
    let flushed = shared.health.guard(Task::ByHand, &what, || {
        while tree.view().version.flushed < last {
            flush_jobs::flush_frozen(shared, tree, || shared.commits.sync())?;
        }
        Ok(())
    });
    match flushed {
        Ok(()) => {
            tree.work.lock().flush.succeeded();
            Ok(())
        }
        Err(error) => Err(shared.failed(Task::ByHand, error)),
    }
}

/// Tells the manifest the newest position of `tree` if none of its batches is in memory: the positions
/// after the last flush had no batch.
pub(crate) fn flush_position(shared: &Arc<Shared>, tree: &Arc<TreeState>) -> Result<()> {
    let _turn = FlushTurn::take(shared, tree)?;
    let Some(position) = shared.commits.between_groups(|| tree.position_without_batches()) else {
        return Ok(());
    };
    let last = Edit::LastSequence(shared.snapshots.published());
    let edits = [Edit::Flushed { tree: tree.id, position }, last];
    let _installing = tree.installing.lock();
    let installed = shared.manifest.install(&edits).and_then(|state| {
        let version = state.tree(tree.id).cloned().ok_or(Error::UnknownTree(tree.id))?;
        tree.install(version, &[], None);
        Ok(())
    });
    installed.map_err(|error| shared.manifest_failed(error))
}

/// Merges `rows` down to the last level, one plan after the other.
pub(crate) fn compact_and_wait(
    shared: &Arc<Shared>,
    tree: &Arc<TreeState>,
    rows: &RowRange,
) -> Result<()> {
    loop {
        if shared.is_closing() {
            return Err(Error::Closed);
        }
        shared.health.check()?;
        let next = {
            let mut work = tree.work.lock();
            if work.dropped {
                return Err(Error::UnknownTree(tree.id));
            }
            // Whoever compacts by hand waits for what runs, not for what was set aside.
            work.free_set_aside();
            let next = pick::manual(&tree.view().version, rows, &shared.options, &work.busy);
            if let Manual::Plan(plan) = &next {
                work.start(plan);
            }
            next
        };
        match next {
            Manual::Nothing => return Ok(()),
            Manual::Blocked => shared.pause(LOOK_AGAIN),
            Manual::Plan(plan) => {
                let started = Started::new(tree, plan);
                let what = format!("a manual compaction of tree {}", tree.id.0);
                let done = shared.health.guard(Task::ByHand, &what, || {
                    compaction_jobs::run_plan(shared, tree, &started.plan, CompactionReason::ByHand)
                });
                drop(started);
                if done.is_ok() {
                    tree.work.lock().compaction.succeeded();
                }
                shared.progress_made();
                scheduler::schedule(shared, tree);
                return done.map_err(|error| shared.failed(Task::ByHand, error));
            }
        }
    }
}
