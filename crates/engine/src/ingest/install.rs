//! Makes finished files part of their tree.
//!
//! Steps:
//! 1. Nobody else flushes the tree from here on. What its memtables hold of the ingested rows is
//!    flushed, so that little of it is left to do in step 3.
//! 2. The commit queue stops for a moment, with the log on disk up to here, and gives the next
//!    sequence number.
//! 3. What was written to the ingested rows since step 1 is flushed, too: sources of a view stand
//!    newest first, so no memtable below may hold those rows.
//! 4. The files become a new run of level 0; or join the last run, if no file of the tree overlaps
//!    them and no running compaction may write there: a fresh load ends as one run.
//! 5. The manifest takes the edit, the view changes, the number is published. No compaction is
//!    picked between the last two: it may choose files only of what is published (snapshot.rs).

use super::writer::{IngestFiles, IngestSst};
use crate::background::LOOK_AGAIN;
use crate::cell::SequenceNumber;
use crate::commit::Failure;
use crate::compaction::pick::{LAST_RUN, overlap};
use crate::cursor::RowCursor;
use crate::engine::Shared;
use crate::error::{Error, Result};
use crate::manifest::version::LEVELS;
use crate::manifest::{Edit, RunId, SstMeta, TreeVersion};
use crate::memtable::Memtable;
use crate::request::RowRange;
use crate::sstable::SstReader;
use crate::tree::Tree;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Shared {
    /// See [`crate::Engine::ingest`].
    pub(crate) fn ingest(self: &Arc<Self>, files: &mut IngestFiles) -> Result<SequenceNumber> {
        if !std::ptr::eq(Arc::as_ptr(self), Arc::as_ptr(&files.shared)) {
            return Err(Error::InvalidArgument("files of another engine".to_owned()));
        }
        let tree = self.tree(files.tree)?;
        sort(&mut files.ssts)?;
        let (Some(first), Some(last)) = (files.ssts.first(), files.ssts.last()) else {
            return Ok(self.snapshots.published());
        };
        let start = first.meta.first_row.clone();
        let hull = RowRange { start, end: RowRange::single(&last.meta.last_row).end };
        self.wait_for_room(&tree, 0)?;
        let _turn = FlushTurn::take(self, &tree)?;
        if in_memory(&tree, &files.ssts)? {
            self.commits.between_groups(|| tree.freeze());
            self.flush_frozen(&tree, || self.commits.sync())?;
        }
        let bytes = files.bytes();
        let number = self.commits.number_apart(|number| {
            let undone = |error| Failure::Undone(error);
            if in_memory(&tree, &files.ssts).map_err(undone)? {
                tree.freeze();
                self.flush_frozen(&tree, || Ok(())).map_err(undone)?;
            }
            self.install_ingested(&tree, files, &hull, number)
        })?;
        self.counters.ingests.fetch_add(1, Ordering::Relaxed);
        self.counters.ingested_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(number)
    }

    /// Steps 4 and 5. Only while no group is being committed.
    fn install_ingested(
        &self,
        tree: &Tree,
        files: &mut IngestFiles,
        hull: &RowRange,
        number: SequenceNumber,
    ) -> Result<(), Failure> {
        let _installing = tree.installing.lock();
        let state = self.manifest.state();
        let version = state.tree(tree.id).ok_or(Failure::Undone(Error::UnknownTree(tree.id)))?;
        let apart = !files.ssts.iter().any(|sst| overlaps(version, &sst.meta));
        let last = apart && tree.work.lock().busy.reserve_last(hull);
        let place = if last { (LEVELS - 1, LAST_RUN) } else { (0, version.next_run()) };
        let installed = self.manifest.install(&edits(tree, files, place, number));
        let mut work = tree.work.lock();
        if last {
            work.busy.release_last(hull);
        }
        let after = match installed {
            Ok(after) => after,
            Err(error) => return Err(failure(files, error)),
        };
        let version = after.tree(tree.id).expect("an edit that adds to a tree leaves it there");
        let ssts = std::mem::take(&mut files.ssts).into_iter();
        let readers: Vec<_> = ssts.map(|sst| SstReader::numbered(sst.reader, number)).collect();
        tree.install(Arc::clone(version), &readers);
        self.snapshots.publish(number);
        Ok(())
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

/// Whether any memtable of `tree` has something of the rows of `ssts`.
fn in_memory(tree: &Tree, ssts: &[IngestSst]) -> Result<bool> {
    let view = tree.view();
    for memtable in std::iter::once(&view.active).chain(&view.frozen) {
        if !memtable.is_empty() && holds(memtable, ssts)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds(memtable: &Arc<Memtable>, ssts: &[IngestSst]) -> Result<bool> {
    let dropped = memtable.range_tombstones();
    let mut cursor = memtable.cursor();
    for IngestSst { meta, .. } in ssts {
        cursor.seek(&meta.first_row)?;
        let entries = cursor.row().is_some_and(|row| row <= meta.last_row.as_slice());
        let span = meta.span();
        let ranges = dropped.iter().any(|range| {
            overlap(&span, &RowRange { start: range.start.clone(), end: range.end.clone() })
        });
        if entries || ranges {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether any file of `version` knows something of the rows of `meta`.
fn overlaps(version: &TreeVersion, meta: &SstMeta) -> bool {
    let span = meta.span();
    version.runs().flat_map(|run| &run.ssts).any(|sst| overlap(&span, &sst.span()))
}

/// The edits that add `files` to the run at `place`, with `number` for all entries.
fn edits(
    tree: &Tree,
    files: &IngestFiles,
    (level, run): (usize, RunId),
    number: SequenceNumber,
) -> Vec<Edit> {
    let add = |sst: &IngestSst| {
        let meta = SstMeta { sequence_min: number, sequence_max: number, ..sst.meta.clone() };
        Edit::AddSst { tree: tree.id, level, run, meta }
    };
    files.ssts.iter().map(add).collect()
}

/// How an install failed. If the manifest may name the files, nobody may remove them.
fn failure(files: &mut IngestFiles, error: Error) -> Failure {
    match error {
        Error::NoSpace { .. }
        | Error::UnknownTree(_)
        | Error::InvalidArgument(_)
        | Error::WritesStopped(_)
        | Error::Closed => Failure::Undone(error),
        _ => {
            files.let_go();
            Failure::InDoubt(error)
        }
    }
}

/// The right to flush a tree, which only one has at a time (`Work::flushing`). What became due
/// meanwhile is started when it is given back.
struct FlushTurn<'a> {
    shared: &'a Arc<Shared>,
    tree: &'a Arc<Tree>,
}

impl<'a> FlushTurn<'a> {
    /// Waits for it.
    fn take(shared: &'a Arc<Shared>, tree: &'a Arc<Tree>) -> Result<Self> {
        loop {
            if shared.is_closing() {
                return Err(Error::Closed);
            }
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
        self.shared.progressed.notify_all();
        self.shared.schedule(self.tree);
    }
}
