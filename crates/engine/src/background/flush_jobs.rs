//! Flushes: how frozen memtables become a run of level 0.
//!
//! 1. Only who has the tree's turn (`Work::flushing`) flushes it, and gives the turn back however the
//!    flush ends. The engine's own flushes come as jobs (`scheduler`); who asks for a flush, or
//!    ingests, takes the turn itself (`by_hand`): so it is told how its own try went.
//! 2. What was written and is not installed is removed, unless the manifest may name it.

use crate::background::throttle;
use crate::compaction::execute::Written;
use crate::compaction::{execute, pick};
use crate::counters::tree_counters::WorkCount;
use crate::error::{Error, Result};
use crate::health::failure_policy::Task;
use crate::manifest::{Edit, is_in_doubt};
use crate::state::Shared;
use crate::state::io_rate::Writer;
use crate::tree::TreeState;
use std::sync::atomic::Ordering;

/// Writes what is frozen of `tree` into one run of level 0, at the rate of background work. Only
/// for whoever has the turn. `sync_log` makes durable what was committed up to now.
pub(crate) fn flush_frozen(
    shared: &Shared,
    tree: &TreeState,
    sync_log: impl Fn() -> Result<()>,
) -> Result<()> {
    let wrote = |bytes| throttle::keep_to_rate(shared, tree, Writer::Flush, bytes);
    let flushed = write_frozen(shared, tree, sync_log, &wrote);
    clear_away(shared, flushed.is_ok());
    flushed
}

/// Removes files that nothing needs any more and brings the cache to its size; where something
/// was `flushed`, retires segments of the log. Only for a caller who holds no lock.
pub(crate) fn clear_away(shared: &Shared, flushed: bool) {
    shared.obsolete.collect();
    shared.cache.balance();
    if flushed {
        shared.retire_log();
    }
}

/// The same without waiting for the rate, and without clearing away what it leaves; `wrote` is
/// told now and then how many bytes more were written.
pub(crate) fn write_frozen(
    shared: &Shared,
    tree: &TreeState,
    sync_log: impl Fn() -> Result<()>,
    wrote: &dyn Fn(u64),
) -> Result<()> {
    let memtables = tree.view().frozen.clone();
    let Some(newest) = memtables.first() else { return Ok(()) };
    let run = shared.manifest.state().tree(tree.id).map(|version| version.next_run());
    let run = run.ok_or(Error::UnknownTree(tree.id))?;
    // All that was committed before the newest memtable's last batch is durable before the SSTable is there: a
    // power loss may take the newest batches, not some from their midst, nor half of one that went to
    // several trees. A repair that has no manifest takes the SSTables that it finds.
    sync_log().map_err(|error| shared.failed(Task::Log, error))?;
    let mut written = shared.writing(tree, wrote, |writing| {
        execute::flush(writing, &memtables, run, shared.snapshots.live())
    })?;
    let position = newest.position();
    written.edits.push(Edit::Flushed { tree: tree.id, position });
    install(shared, tree, &written)?;
    shared.counters.flushes.fetch_add(1, Ordering::Relaxed);
    tree.counters.add(WorkCount::FlushedBytes, written.bytes);
    Ok(())
}

/// Makes `written` part of `tree`: first in the manifest, then in the view. If the manifest
/// does not take it, the next `clear_away` removes what was written.
pub(crate) fn install(shared: &Shared, tree: &TreeState, written: &Written) -> Result<()> {
    let mut edits = written.edits.clone();
    edits.push(Edit::LastSequence(shared.snapshots.published()));
    if let Err(error) = install_edits(shared, tree, written, &edits) {
        // If the manifest may name the files, the next open decides.
        if !is_in_doubt(&error) {
            give_up(shared, written);
        }
        return Err(shared.manifest_failed(error));
    }
    Ok(())
}

fn install_edits(
    shared: &Shared,
    tree: &TreeState,
    written: &Written,
    edits: &[Edit],
) -> Result<()> {
    let _installing = tree.installing.lock();
    let state = shared.manifest.install(edits)?;
    let version = state.tree(tree.id).cloned().ok_or(Error::UnknownTree(tree.id))?;
    let before = tree.view();
    shared.counters.runs_most.fetch_max(version.runs().count() as u64, Ordering::Relaxed);
    tree.install(version, &written.readers, written.deletes_known);
    let gone = before.ssts().filter(|sst| written.obsolete.contains(&sst.number()));
    shared.obsolete.add(gone.cloned());
    Ok(())
}

/// Lets files be removed that were not installed, once their writer has let go of them.
fn give_up(shared: &Shared, written: &Written) {
    shared.obsolete.add(written.readers.iter().cloned());
}

/// Returns whether memtables of `tree` wait until a compaction leaves a place for a run.
pub(crate) fn holds_flushes(shared: &Shared, tree: &TreeState) -> bool {
    let view = tree.look();
    if view.frozen.is_empty() {
        return false;
    }
    let work = tree.work.lock();
    pick::is_full(&view.version, &shared.options, &work.busy)
}
