//! Compactions: runs a plan that was picked, installs what it wrote, and finds the signals by which
//! the next plan is picked. When compactions start is decided in `scheduler` and `by_hand`.

use crate::background::{flush_jobs, subcompaction_threads};
use crate::compaction::execute::{Inputs, Merging, Written};
use crate::compaction::pick::{Destination, Plan, Work as How};
use crate::compaction::row_elision::DeletesAbove;
use crate::compaction::signals::{Signals, garbage_share};
use crate::compaction::{cache_warming, execute};
use crate::counters::tree_counters::WorkCount;
use crate::error::{Error, Result};
use crate::files::FileNumber;
use crate::manifest::Edit;
use crate::marks::Mark;
use crate::shape::Shape;
use crate::sstable::{SstReader, WarmBlocks};
use crate::state::Shared;
use crate::state::running_compactions::{CompactionReason, Running};
use crate::tree::TreeState;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What of `tree` is newer than the inputs of `plan`, as long as those stay: at the bottom nothing
/// else is older.
fn deletes_above(tree: &Arc<TreeState>, plan: &Plan) -> Box<DeletesAbove<'static>> {
    let tree = Arc::clone(tree);
    let inputs: HashSet<FileNumber> = plan.ssts().map(|sst| sst.number).collect();
    Box::new(move |row, newest_range| tree.view().may_delete(row, newest_range, &inputs))
}

/// What asks for a compaction of `tree` although its shape does not.
pub(super) fn signals_of(shared: &Shared, tree: &TreeState) -> Signals {
    let view = tree.view();
    let metas = view.version.runs().flat_map(|run| &run.ssts);
    let files = view.ssts().map(|sst| (sst.number(), sst)).collect::<HashMap<_, _>>();
    let policy = tree.rules().policy(shared.env.clock.now_micros());
    let published = shared.snapshots.published();
    let settled = shared.snapshots.live().first().copied().unwrap_or(published);
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
pub(super) fn run_plan(
    shared: &Arc<Shared>,
    tree: &Arc<TreeState>,
    plan: &Arc<Plan>,
    reason: CompactionReason,
) -> Result<()> {
    let now = shared.env.clock.monotonic();
    let written = shared.compactions.listed(tree.id, plan, reason, now, |running| {
        let written = merge(shared, tree, plan, running)?;
        let warm_blocks = warm_blocks(shared, tree, plan, &written);
        let installed = flush_jobs::install(shared, tree, &written);
        flush_jobs::clear_away(shared, false);
        installed?;
        let go_on = || !shared.is_closing();
        cache_warming::warm(&shared.env.fs, &shared.cache, &warm_blocks, &go_on);
        Ok::<_, Error>(written)
    })?;
    shared.counters.compactions[reason as usize].fetch_add(1, Ordering::Relaxed);
    tree.counters.add(WorkCount::CompactedBytes, written.bytes);
    if reason == CompactionReason::Garbage {
        note_fruitless(tree, plan, &written, &shared.options.shape);
    }
    Ok(())
}

/// Writes what `plan` says. Holds the inputs no longer than it takes, so that they can be
/// deleted once the outputs are installed.
fn merge(
    shared: &Arc<Shared>,
    tree: &Arc<TreeState>,
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
            snapshots: shared.snapshots.live(),
            policy: tree.rules().policy(shared.env.clock.now_micros()),
            above: deletes_above(tree, plan),
            published: shared.snapshots.published(),
            ahead: shared.options.read_path.readahead.then(|| Arc::clone(&shared.readahead)),
        };
        shared.writing(tree, &|_| (), |writing| Merging::new(writing, Arc::clone(plan), inputs))
    };
    subcompaction_threads::write_subcompactions(shared, tree, merging, running)
}

/// Which blocks of what was written are to take the place of those in memory that they came of.
/// To be asked before the inputs are let go.
fn warm_blocks(shared: &Shared, tree: &TreeState, plan: &Plan, written: &Written) -> WarmBlocks {
    if !shared.options.read_path.cache_warming || written.obsolete.is_empty() {
        return WarmBlocks::default();
    }
    let view = tree.view();
    let replaced = plan.ssts().map(|sst| sst.number).collect::<HashSet<_>>();
    let inputs = view.ssts().filter(|sst| replaced.contains(&sst.number()));
    let inputs: Vec<_> = inputs.cloned().collect();
    WarmBlocks::find(&inputs, &written.readers, &|| !shared.is_closing()).unwrap_or_else(|error| {
        tracing::debug!(%error, "could not load blocks of a compaction's outputs into the cache");
        WarmBlocks::default()
    })
}

/// Remembers outputs that are as much garbage as the inputs were, so that they are not written
/// again and again for nothing.
fn note_fruitless(tree: &TreeState, plan: &Plan, written: &Written, shape: &Shape) {
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
