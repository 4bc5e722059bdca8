//! Makes finished files part of their trees, of which there may be several.
//!
//! Steps:
//! 1. Nobody else flushes the trees from here on. What their memtables hold of the ingested rows is
//!    flushed, more than once while much is written meanwhile, so that little of it is left to do in
//!    step 3.
//! 2. The commit queue stops for a moment, with the log on disk up to here, and gives the next
//!    sequence number.
//! 3. What was written to the ingested rows since step 1 is flushed, too: sources of a view stand
//!    newest first, so no memtable below may hold those rows. Commits stop meanwhile, so it does not
//!    keep to the rate of background work: what it owes is waited for in the end, and what it leaves
//!    is cleared away then.
//! 4. In each tree the files become a new run of level 0; or join the last run, if no file of the
//!    tree overlaps them and no running compaction may write there: a fresh load ends as one run.
//! 5. The manifest takes one edit for all, the views change, the number is published: before that,
//!    no read sees entries of it. No compaction is picked between the last two: it may choose files
//!    only of what is published (snapshots.rs).
//!
//! Turns and locks of several trees are taken in order of the trees' ids.

use super::sst_writer::{IngestFiles, IngestSst};
use crate::background::by_hand::FlushTurn;
use crate::background::{flush_jobs, throttle, write_stalls};
use crate::cell::{SequenceNumber, TreeId};
use crate::compaction::pick::{LAST_RUN, overlap};
use crate::error::{Error, Result};
use crate::health::failure_policy::Task;
use crate::manifest::state::version::LEVELS;
use crate::manifest::{Edit, RunId, SstMeta, TreeVersion, is_in_doubt};
use crate::memtable::Memtable;
use crate::request::RowRange;
use crate::semantics::row_cursor::RowCursor;
use crate::sstable::SstReader;
use crate::state::Shared;
use crate::state::io_rate::Writer;
use crate::tree::TreeState;
use crate::write::numbered_log::Failure;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A memtable with no more bytes than that is flushed while commits stop; and so is a larger one after
/// so many flushes before that: somebody writes faster than flushes go.
const LATE_BYTES_MAX: usize = 1 << 20;
const EARLY_FLUSHES_MAX: usize = 4;

/// A tree that gets files.
struct Part {
    tree: Arc<TreeState>,
    /// From the first row of its files to the last.
    hull: RowRange,
}

/// See [`crate::Engine::ingest`].
pub(crate) fn ingest(shared: &Arc<Shared>, files: &mut IngestFiles) -> Result<SequenceNumber> {
    let ingested = shared.health.guard(Task::Ingest, "an ingest", || ingest_files(shared, files));
    ingested.map_err(|error| shared.failed(Task::Ingest, error))
}

/// See [`crate::Engine::ready_ingest`].
pub(crate) fn ready_ingest(shared: &Arc<Shared>, files: &mut IngestFiles) -> Result<()> {
    let act = || {
        let parts = parts(shared, files)?;
        let _turns = begin(shared, &parts, files, false)?;
        files.ready = true;
        Ok(())
    };
    let ready = shared.health.guard(Task::Ingest, "an ingest", act);
    ready.map_err(|error| shared.failed(Task::Ingest, error))
}

/// Step 1, when there is room, which there was a moment ago if it is `ready`. The turns are for
/// the steps that follow.
fn begin<'a>(
    shared: &'a Arc<Shared>,
    parts: &'a [Part],
    files: &IngestFiles,
    ready: bool,
) -> Result<Vec<FlushTurn<'a>>> {
    if !ready {
        parts.iter().try_for_each(|part| write_stalls::wait_for_room(shared, &part.tree, 0))?;
    }
    // In order of their trees, as everybody who takes several does.
    let turns = parts.iter().map(|part| FlushTurn::take(shared, &part.tree));
    let turns = turns.collect::<Result<Vec<_>>>()?;
    for Part { tree, .. } in parts {
        flush_early(shared, tree, &files.trees[&tree.id])?;
    }
    Ok(turns)
}

fn ingest_files(shared: &Arc<Shared>, files: &mut IngestFiles) -> Result<SequenceNumber> {
    // It holds for one ingest: who tries again may find the trees full.
    let ready = std::mem::take(&mut files.ready);
    let parts = parts(shared, files)?;
    if parts.is_empty() {
        return Ok(shared.snapshots.published());
    }
    let _turns = begin(shared, &parts, files, ready)?;
    let bytes = files.bytes();
    let owed = Cell::new(Duration::ZERO);
    let number = shared.commits.number_apart(|number| {
        for Part { tree, .. } in &parts {
            flush_late(shared, tree, &files.trees[&tree.id], &owed).map_err(Failure::Undone)?;
        }
        install_ingested(shared, &parts, files, number)
    });
    throttle::wait_for_rate(shared, owed.get());
    flush_jobs::clear_away(shared, number.is_ok());
    let number = number?;
    shared.counters.ingests.fetch_add(1, Ordering::Relaxed);
    shared.counters.ingested_bytes.fetch_add(bytes, Ordering::Relaxed);
    Ok(number)
}

/// The trees of `files`, which are of this engine, in order; their files are then in order, too.
fn parts(shared: &Shared, files: &mut IngestFiles) -> Result<Vec<Part>> {
    if !std::ptr::eq(shared, Arc::as_ptr(&files.shared)) {
        return Err(Error::InvalidArgument("files of another engine".to_owned()));
    }
    let mut parts = Vec::with_capacity(files.trees.len());
    for (id, ssts) in &mut files.trees {
        let tree = shared.tree(*id)?;
        sort(ssts)?;
        let (Some(first), Some(last)) = (ssts.first(), ssts.last()) else { continue };
        let start = first.meta.first_row.clone();
        let end = RowRange::single(&last.meta.last_row).end;
        parts.push(Part { tree, hull: RowRange { start, end } });
    }
    Ok(parts)
}

/// Step 1.
fn flush_early(shared: &Shared, tree: &TreeState, ssts: &[IngestSst]) -> Result<()> {
    for round in 0..EARLY_FLUSHES_MAX {
        let little = round > 0 && tree.look().memtable_bytes() <= LATE_BYTES_MAX;
        if little || !in_memory(tree, ssts)? {
            break;
        }
        shared.commits.between_groups(|| tree.freeze());
        flush_jobs::flush_frozen(shared, tree, || shared.commits.sync())?;
    }
    Ok(())
}

/// Step 3. Only while no group is being committed. Sets `owed` to the time until which whoever
/// wrote this is to wait, if it is later.
fn flush_late(
    shared: &Shared,
    tree: &TreeState,
    ssts: &[IngestSst],
    owed: &Cell<Duration>,
) -> Result<()> {
    if in_memory(tree, ssts)? {
        tree.freeze();
        let wrote = |bytes| {
            owed.set(owed.get().max(throttle::owes_rate(shared, tree, Writer::Flush, bytes)));
        };
        flush_jobs::write_frozen(shared, tree, || Ok(()), &wrote)?;
    }
    Ok(())
}

/// Steps 4 and 5. Only while no group is being committed.
fn install_ingested(
    shared: &Shared,
    parts: &[Part],
    files: &mut IngestFiles,
    number: SequenceNumber,
) -> Result<(), Failure> {
    let _installing: Vec<_> = parts.iter().map(|part| part.tree.installing.lock()).collect();
    let state = shared.manifest.state();
    let mut edits = Vec::new();
    let mut reserved = Vec::new();
    for part in parts {
        let id = part.tree.id;
        let Some(version) = state.tree(id) else {
            release(&reserved);
            return Err(Failure::Undone(Error::UnknownTree(id)));
        };
        let ssts = &files.trees[&id];
        let apart = !ssts.iter().any(|sst| overlaps(version, &sst.meta));
        let last = apart && part.tree.work.lock().busy.reserve_last(&part.hull);
        reserved.extend(last.then_some(part));
        let place = if last { (LEVELS - 1, LAST_RUN) } else { (0, version.next_run()) };
        edits.extend(ssts.iter().map(|sst| edit(id, sst, place, number)));
    }
    let installed = shared.manifest.install(&edits);
    // Nothing is picked in any of them before the number is published.
    let mut works: Vec<_> = parts.iter().map(|part| part.tree.work.lock()).collect();
    for (part, work) in parts.iter().zip(&mut works) {
        if reserved.iter().any(|reserved| reserved.tree.id == part.tree.id) {
            work.busy.release_last(&part.hull);
        }
    }
    let after = match installed {
        Ok(after) => after,
        Err(error) => return Err(failure(files, shared.manifest_failed(error))),
    };
    let mut ssts = std::mem::take(&mut files.trees);
    for Part { tree, .. } in parts {
        let version = after.tree(tree.id).expect("an edit that adds to a tree leaves it there");
        shared.counters.runs_most.fetch_max(version.runs().count() as u64, Ordering::Relaxed);
        let ssts = ssts.remove(&tree.id).into_iter().flatten();
        let readers: Vec<_> = ssts.map(|sst| SstReader::numbered(sst.reader, number)).collect();
        tree.install(Arc::clone(version), &readers, None);
    }
    shared.snapshots.publish(number);
    Ok(())
}

/// Gives back what was reserved of last levels.
fn release(reserved: &[&Part]) {
    for part in reserved {
        part.tree.work.lock().busy.release_last(&part.hull);
    }
}

/// Sorts files by row; `InvalidArgument` if two share a row.
fn sort(ssts: &mut [IngestSst]) -> Result<()> {
    ssts.sort_by(|a, b| a.meta.first_row.cmp(&b.meta.first_row));
    match ssts.windows(2).find(|pair| pair[0].meta.last_row >= pair[1].meta.first_row) {
        None => Ok(()),
        Some(pair) => {
            let row = pair[1].meta.first_row.escape_ascii().to_string();
            Err(Error::InvalidArgument(format!(
                "the files of two writers overlap at row {row:.64}"
            )))
        }
    }
}

/// Returns whether any memtable of `tree` has something of the rows of `ssts`.
fn in_memory(tree: &TreeState, ssts: &[IngestSst]) -> Result<bool> {
    let view = tree.view();
    for memtable in std::iter::once(&view.active).chain(&view.frozen) {
        if !memtable.is_empty() && holds(memtable, ssts)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds(memtable: &Arc<Memtable>, ssts: &[IngestSst]) -> Result<bool> {
    let mut cursor = memtable.cursor();
    for IngestSst { meta, .. } in ssts {
        cursor.seek(&meta.first_row)?;
        let entries = cursor.row().is_some_and(|row| row <= meta.last_row.as_slice());
        if entries || memtable.drops_any_of(&meta.span()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether any file of `version` knows something of the rows of `meta`.
fn overlaps(version: &TreeVersion, meta: &SstMeta) -> bool {
    let span = meta.span();
    version.runs().flat_map(|run| &run.ssts).any(|sst| overlap(&span, &sst.span()))
}

/// The edit that adds a file to the run at a place, with `number` for all entries.
fn edit(
    tree: TreeId,
    sst: &IngestSst,
    (level, run): (usize, RunId),
    number: SequenceNumber,
) -> Edit {
    let meta = SstMeta { sequence_min: number, sequence_max: number, ..sst.meta.clone() };
    Edit::AddSst { tree, level, run, meta }
}

/// How an install failed. If the manifest may name the files, nobody may remove them.
fn failure(files: &mut IngestFiles, error: Error) -> Failure {
    if !is_in_doubt(&error) {
        return Failure::Undone(error);
    }
    files.let_go();
    Failure::InDoubt(error)
}
