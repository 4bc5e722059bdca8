//! Flushes and compactions: the I/O of a plan.
//!
//! 1. Nothing here changes a version. A result is a value: files that are on disk and open, and
//!    the edits that put them in the place of the inputs. On an error, and when cancelled, what
//!    was written is removed and nothing has happened.
//! 2. Inputs are read past the block cache: their blocks will not be asked for again.
//! 3. A file whose every entry is hidden by range tombstones of the same compaction is not read.
//! 4. What is written of some rows is the same whoever writes it, and whichever other rows are
//!    written with it: all that decides about them is fixed when the inputs are opened (`Merging`),
//!    and entries of one row have nothing to do with another's. So subcompactions of a compaction
//!    (`subcompactions`) are written in any order, by any thread.
//!
//! A flush is the compaction of memtables above everything else: what newer entries of them hide
//! from every view is not written.

use super::covering_tombstones::{Covering, Dropped};
use super::output_split::Splitter;
use super::outputs::{self, Outputs};
use super::pick::{Destination, InputRun, Plan, Work};
use super::row_elision::{DeletesAbove, Depth, Elider, ElisionCounts};
use super::subcompactions;
use super::writing::Writing;
use crate::cache::CacheFill;
use crate::cell::{SequenceNumber, TreeId};
use crate::error::{Error, Result};
use crate::files::FileNumber;
use crate::manifest::{Edit, RunId, SstMeta};
use crate::memtable::Memtable;
use crate::merge::merge_cursor::MergeCursor;
use crate::merge::run_cursor::RunCursor;
use crate::request::RowRange;
use crate::semantics::elision_policy::{ElisionPolicy, KeepAll};
use crate::semantics::row_cursor::RowCursor;
use crate::semantics::stripes::Stripes;
use crate::sstable::{Origin, ReadaheadSource, SstOptions, SstReader, SstRun};
use std::sync::Arc;

/// What a compaction needs beside.
pub(crate) struct Inputs<'a> {
    /// An open input file. Every file of the plan is open.
    pub open: &'a dyn Fn(FileNumber) -> Arc<SstReader>,
    /// The live snapshots, asked for after the plan was made (`compaction`, last paragraph).
    pub snapshots: Vec<SequenceNumber>,
    /// What else may vanish.
    pub policy: Box<dyn ElisionPolicy>,
    /// What is newer than the inputs.
    pub above: Box<DeletesAbove<'static>>,
    /// What was published before `above` is asked: it knows all deletes up to here.
    pub published: SequenceNumber,
    /// For reading ahead, if that is wanted.
    pub(crate) ahead: Option<Arc<ReadaheadSource>>,
}

/// The outcome of a flush or compaction.
#[derive(Debug)]
pub(crate) struct Written {
    /// The outputs in the place of the inputs.
    pub edits: Vec<Edit>,
    /// The files that were written, open.
    pub readers: Vec<Arc<SstReader>>,
    /// Inputs that are of no use once the edits are installed.
    pub obsolete: Vec<FileNumber>,
    /// Bytes written; a move writes none.
    pub bytes: u64,
    /// What was dropped on the way.
    pub counts: ElisionCounts,
    /// If cells were dropped for the sake of newer versions: no delete up to this number hides
    /// those. A later one may, and bring the cells back.
    pub deletes_known: Option<SequenceNumber>,
}

/// Writes `memtables`, which are frozen and all published, newest first, as the run `run` of level
/// 0. `snapshots` are the live ones. Nothing is written of empty ones.
pub(crate) fn flush(
    writing: &Writing<'_>,
    memtables: &[Arc<Memtable>],
    run: RunId,
    snapshots: Vec<SequenceNumber>,
) -> Result<Written> {
    let stripes = Stripes::new(snapshots);
    let tombstones = memtables.iter().flat_map(|memtable| memtable.range_tombstones());
    let dropped = Dropped::new(&tombstones.collect::<Vec<_>>(), &stripes);
    // Whatever is in the tree is older: all the rows, all the range tombstones stay.
    let older = [RowRange::ALL];
    let surviving = dropped.surviving(&older, &stripes);
    let cuts = surviving.cuts(writing.options);
    let splitter = Splitter::new(writing.options, cuts, Vec::new());
    let options = writing.of_files(writing.tree_options.compression);
    // Nothing is asked of it: all is kept.
    let above: &DeletesAbove<'_> = &|_, _| Ok(true);
    let (dropped, stripes) = (&dropped, &stripes);
    let merge = Merge { dropped, older: &older, stripes, policy: &KeepAll, above };
    let position = memtables.first().map_or(writing.flushed, |newest| newest.position()).0;
    let origin = Origin { tree: writing.tree, position, inputs: Vec::new() };
    let outputs = Outputs::new(writing, options, origin, surviving, splitter);
    let mut cursor = MergeCursor::new(memtables.iter().map(Memtable::cursor).collect());
    let subcompaction = merge.write(&mut cursor, writing, outputs, &RowRange::ALL)?;
    Ok(joined(writing.tree, (0, run), vec![subcompaction]))
}

/// A plan to move files, done: the inputs are the outputs.
pub(crate) fn moved(tree: TreeId, plan: &Plan) -> Written {
    let mut edits = plan.removals(tree);
    let place = plan.place();
    edits.extend(plan.ssts().map(|meta| addition(tree, place, SstMeta::clone(meta))));
    let counts = ElisionCounts::default();
    let (readers, obsolete) = (Vec::new(), Vec::new());
    Written { edits, readers, obsolete, bytes: 0, counts, deletes_known: None }
}

/// A plan to merge files, with all that writing any subcompaction of it takes. The inputs stay as
/// they are; they are of no use once the edits are installed.
pub(crate) struct Merging {
    plan: Arc<Plan>,
    tree: TreeId,
    /// The inputs that have something visible, newest run first.
    runs: Vec<Arc<SstRun>>,
    ahead: Option<Arc<ReadaheadSource>>,
    stripes: Stripes,
    policy: Box<dyn ElisionPolicy>,
    above: Box<DeletesAbove<'static>>,
    published: SequenceNumber,
    dropped: Dropped,
    /// Of what is dropped, what is written.
    surviving: Dropped,
    /// Those of the plan, and where range tombstones would be too many for one file.
    cuts: Vec<Vec<u8>>,
    sst_bytes_max: u64,
    options: SstOptions,
    origin: Origin,
}

/// What was written of the rows of one subcompaction.
#[derive(Debug)]
pub(crate) struct Subcompaction {
    metas: Vec<SstMeta>,
    readers: Vec<Arc<SstReader>>,
    counts: ElisionCounts,
}

impl Merging {
    /// The merge that `plan` says. Of `writing` counts what is of the tree and its files.
    pub(crate) fn new(writing: &Writing<'_>, plan: Arc<Plan>, inputs: Inputs<'_>) -> Self {
        assert!(plan.work == Work::Merge, "there is something to write");
        let stripes = Stripes::new(inputs.snapshots);
        let tombstones = plan.ssts().filter(|sst| sst.range_tombstones > 0);
        let tombstones =
            tombstones.flat_map(|sst| (inputs.open)(sst.number).range_tombstones().to_vec());
        let dropped = Dropped::new(&tombstones.collect::<Vec<_>>(), &stripes);
        let compression = match plan.destination {
            Destination::Level0 | Destination::NewRun | Destination::Older(_) => {
                writing.tree_options.compression
            }
            Destination::LastRun => writing.tree_options.compression_last,
        };
        let numbers = plan.ssts().map(|sst| sst.number).collect();
        let surviving = dropped.surviving(&plan.older, &stripes);
        let mut cuts = surviving.cuts(writing.options);
        cuts.extend(plan.cuts.iter().cloned());
        cuts.sort_unstable();
        cuts.dedup();
        Self {
            runs: open_runs(&plan, inputs.open, &dropped, &stripes),
            tree: writing.tree,
            ahead: inputs.ahead,
            policy: inputs.policy,
            above: inputs.above,
            published: inputs.published,
            surviving,
            cuts,
            sst_bytes_max: writing.options.sst_bytes_max,
            options: writing.of_files(compression),
            origin: Origin { tree: writing.tree, position: writing.flushed.0, inputs: numbers },
            stripes,
            dropped,
            plan,
        }
    }

    /// The rows of at most `count_max` subcompactions; see `subcompactions`.
    pub(crate) fn subcompactions(&self, count_max: usize) -> Vec<RowRange> {
        let ssts = self.runs.iter().flat_map(|run| run.ssts().iter());
        let weights = ssts.flat_map(|sst| sst.partition_rows()).collect();
        let least = subcompactions::bytes_min(self.sst_bytes_max, &self.options.shape);
        subcompactions::divide(weights, least, count_max)
    }

    /// Writes what stays of `rows`.
    pub(crate) fn write(&self, writing: &Writing<'_>, rows: &RowRange) -> Result<Subcompaction> {
        let inside = |cut: &&Vec<u8>| rows.start < **cut && rows.contains(cut);
        let cuts = self.cuts.iter().filter(inside).cloned().collect();
        let splitter = Splitter::new(writing.options, cuts, self.plan.below.clone());
        let (options, origin) = (self.options.clone(), self.origin.clone());
        let outputs = Outputs::new(writing, options, origin, self.surviving.clone(), splitter);
        let merge = Merge {
            dropped: &self.dropped,
            older: &self.plan.older,
            stripes: &self.stripes,
            policy: &*self.policy,
            above: &*self.above,
        };
        merge.write(&mut self.cursor(rows), writing, outputs.of_rows(rows), rows)
    }

    /// A walk over all inputs that reads ahead within `rows`.
    fn cursor(&self, rows: &RowRange) -> MergeCursor<RunCursor> {
        let rows = Arc::new(rows.clone());
        let cursor = |run: &Arc<SstRun>| {
            let all = 0..run.ssts().len();
            let cursor = RunCursor::new(Arc::clone(run), all, CacheFill::Bypass);
            match &self.ahead {
                Some(source) => cursor.reading_ahead(source, &rows),
                None => cursor,
            }
        };
        MergeCursor::new(self.runs.iter().map(cursor).collect())
    }

    /// The outcome, if `subcompactions` are all that there are, in the order of their rows.
    pub(crate) fn finish(&self, subcompactions: Vec<Subcompaction>) -> Written {
        let mut written = joined(self.tree, self.plan.place(), subcompactions);
        written.edits.splice(..0, self.plan.removals(self.tree));
        written.obsolete = self.plan.ssts().map(|sst| sst.number).collect();
        written.deletes_known = (written.counts.outnumbered > 0).then_some(self.published);
        written
    }
}

impl Subcompaction {
    /// Removes what was written, which nobody knows of.
    pub(crate) fn discard(self, writing: &Writing<'_>) {
        drop(self.readers);
        outputs::remove(writing, self.metas.iter().map(|meta| meta.number));
    }
}

/// What all of `subcompactions` add to a run.
fn joined(tree: TreeId, place: (usize, RunId), subcompactions: Vec<Subcompaction>) -> Written {
    let (edits, readers, obsolete) = (Vec::new(), Vec::new(), Vec::new());
    let counts = ElisionCounts::default();
    let mut written = Written { edits, readers, obsolete, bytes: 0, counts, deletes_known: None };
    for subcompaction in subcompactions {
        written.bytes += subcompaction.metas.iter().map(|meta| meta.bytes).sum::<u64>();
        written
            .edits
            .extend(subcompaction.metas.into_iter().map(|meta| addition(tree, place, meta)));
        written.readers.extend(subcompaction.readers);
        written.counts += subcompaction.counts;
    }
    written
}

fn addition(tree: TreeId, (level, run): (usize, RunId), meta: SstMeta) -> Edit {
    Edit::AddSst { tree, level, run, meta }
}

/// The inputs that have something visible.
fn open_runs(
    plan: &Plan,
    open: &dyn Fn(FileNumber) -> Arc<SstReader>,
    dropped: &Dropped,
    stripes: &Stripes,
) -> Vec<Arc<SstRun>> {
    let useful = |sst: &&Arc<SstMeta>| {
        let mut rows = RowRange::single(&sst.last_row);
        rows.start.clone_from(&sst.first_row);
        let (oldest, newest) = (sst.sequence_min, sst.sequence_max);
        sst.entries > 0 && !dropped.hides_all(&rows, oldest, newest, stripes)
    };
    let useful_of = |run: &InputRun| -> Arc<[Arc<SstReader>]> {
        run.ssts.iter().filter(useful).map(|sst| open(sst.number)).collect()
    };
    let runs = plan.inputs.iter().map(useful_of).filter(|ssts| !ssts.is_empty());
    runs.map(|ssts| Arc::new(SstRun::new(ssts))).collect()
}

/// How entries become outputs.
struct Merge<'a> {
    dropped: &'a Dropped,
    /// Hulls of what lies below.
    older: &'a [RowRange],
    stripes: &'a Stripes,
    policy: &'a dyn ElisionPolicy,
    above: &'a DeletesAbove<'a>,
}

impl Merge<'_> {
    /// Writes what stays of `rows`, which are those of `outputs`.
    fn write(
        &self,
        cursor: &mut dyn RowCursor,
        writing: &Writing<'_>,
        mut outputs: Outputs<'_>,
        rows: &RowRange,
    ) -> Result<Subcompaction> {
        let mut elider = Elider::new(self.stripes, self.policy, self.above);
        let written = self
            .write_rows(cursor, writing, &mut elider, &mut outputs, rows)
            .and_then(|()| outputs.finish());
        match written {
            Ok((metas, readers)) => Ok(Subcompaction { metas, readers, counts: elider.counts() }),
            Err(error) => {
                outputs.discard();
                Err(error)
            }
        }
    }

    fn write_rows(
        &self,
        cursor: &mut dyn RowCursor,
        writing: &Writing<'_>,
        elider: &mut Elider<'_>,
        outputs: &mut Outputs<'_>,
        rows: &RowRange,
    ) -> Result<()> {
        let mut covering = Covering::default();
        cursor.seek(&rows.start)?;
        while let Some(row) = cursor.row()
            && rows.end.as_deref().is_none_or(|end| row < end)
        {
            if (writing.cancelled)() {
                return Err(Error::Closed);
            }
            let below = self.older.iter().any(|hull| hull.contains(row));
            let depth = if below { Depth::Above } else { Depth::Bottom };
            outputs.start_row(row)?;
            let ranges = self.dropped.covering(row, &mut covering);
            elider.row(cursor, ranges, depth, outputs)?;
            cursor.next_row()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
