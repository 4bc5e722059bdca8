//! Flushes and compactions: the I/O of a plan.
//!
//! 1. Nothing here changes a version. A result is a value: files that are on disk and open, and
//!    the edits that put them in the place of the inputs. On an error, and when cancelled, what
//!    was written is removed and nothing has happened.
//! 2. Inputs are read past the block cache: their blocks will not be asked for again.
//! 3. A file whose every entry is hidden by range tombstones of the same compaction is not read.
//!
//! A flush is the compaction of memtables above everything else: what newer entries of them hide
//! from every view is not written.

use super::dropped::Dropped;
use super::elide::{Depth, Elider, ElisionCounts};
use super::output::Outputs;
use super::pick::{Destination, Plan, Work};
use super::split::Splitter;
use super::stripes::Stripes;
use crate::cache::CacheFill;
use crate::cell::{SequenceNumber, TreeId};
use crate::cursor::RowCursor;
use crate::elide::{ElisionPolicy, KeepAll};
use crate::error::{Error, Result};
use crate::file::FileNumber;
use crate::manifest::{Edit, LogPosition, RunId, SstMeta};
use crate::memtable::Memtable;
use crate::open_files::OpenFiles;
use crate::options::{Compression, FilterGranularity, Options, TreeOptions};
use crate::read::merge::MergeCursor;
use crate::read::run::RunCursor;
use crate::request::RowRange;
use crate::sstable::{BlockCache, Origin, ReadaheadSource, SstOptions, SstReader, SstRun};
use base::env::FileSystem;
use std::path::Path;
use std::sync::Arc;

/// What writing files needs of the engine.
pub struct Writing<'a> {
    /// Where files are.
    pub fs: &'a dyn FileSystem,
    /// The data directory.
    pub dir: &'a Path,
    /// Sizes.
    pub options: &'a Options,
    /// The tree.
    pub tree: TreeId,
    /// Up to where the tree is in SSTables already.
    pub flushed: LogPosition,
    /// What shapes its files.
    pub tree_options: &'a TreeOptions,
    /// For which questions their filters hold keys.
    pub filter_granularity: FilterGranularity,
    /// Opens the outputs.
    pub open_files: &'a Arc<OpenFiles>,
    /// For the outputs, when they are open.
    pub cache: &'a Arc<BlockCache>,
    /// Gives a number never used before.
    pub new_file: &'a dyn Fn() -> FileNumber,
    /// Asked once a row: whether to give up, with `Error::Closed`.
    pub cancelled: &'a dyn Fn() -> bool,
    /// Told now and then how many bytes were written since it was told last. May wait.
    pub wrote: &'a dyn Fn(u64),
}

impl Writing<'_> {
    pub(crate) fn of_files(&self, compression: Compression) -> SstOptions {
        SstOptions::new(self.tree_options, compression, self.filter_granularity)
    }
}

/// What a compaction needs beside.
pub struct Inputs<'a> {
    /// An open input file. Every file of the plan is open.
    pub open: &'a dyn Fn(FileNumber) -> Arc<SstReader>,
    /// The live snapshots, asked for after the plan was made (`compaction`, last paragraph).
    pub snapshots: Vec<SequenceNumber>,
    /// What else may vanish.
    pub policy: &'a dyn ElisionPolicy,
    /// For reading ahead, if that is wanted.
    pub(crate) ahead: Option<&'a Arc<ReadaheadSource>>,
}

/// The outcome of a flush or compaction.
#[derive(Debug)]
pub struct Written {
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
}

/// Writes `memtables`, which are frozen and all published, newest first, as the run `run` of level
/// 0. `snapshots` are the live ones. Nothing is written of empty ones.
pub fn flush(
    writing: &Writing<'_>,
    memtables: &[Arc<Memtable>],
    run: RunId,
    snapshots: Vec<SequenceNumber>,
) -> Result<Written> {
    let stripes = Stripes::new(snapshots);
    let tombstones = memtables.iter().flat_map(|memtable| memtable.range_tombstones().to_vec());
    let dropped = Dropped::new(tombstones.collect(), &stripes);
    // Whatever is in the tree is older: all the rows, all the range tombstones stay.
    let older = [RowRange::ALL];
    let surviving = dropped.surviving(&older, &stripes);
    let splitter = Splitter::new(writing.options.sst_bytes_max, Vec::new(), Vec::new());
    let options = writing.of_files(writing.tree_options.compression);
    let merge = Merge { dropped: &dropped, older: &older, stripes: &stripes, policy: &KeepAll };
    let position = memtables.first().map_or(writing.flushed, |newest| newest.position()).0;
    let origin = Origin { tree: writing.tree, position, inputs: Vec::new() };
    let outputs = Outputs::new(writing, options, origin, surviving, splitter);
    let mut cursor = MergeCursor::new(memtables.iter().map(Memtable::cursor).collect());
    merge.write(&mut cursor, writing, outputs, (0, run))
}

/// Does what `plan` says. The inputs stay as they are; they are of no use once the edits are
/// installed.
pub fn compact(writing: &Writing<'_>, plan: &Plan, inputs: &Inputs<'_>) -> Result<Written> {
    if plan.work == Work::Move {
        return Ok(moved(writing, plan));
    }
    let stripes = Stripes::new(inputs.snapshots.clone());
    let tombstones = plan.ssts().filter(|sst| sst.range_tombstones > 0);
    let tombstones =
        tombstones.flat_map(|sst| (inputs.open)(sst.number).range_tombstones().to_vec());
    let dropped = Dropped::new(tombstones.collect(), &stripes);
    let mut cursor = open_inputs(plan, inputs, &dropped, &stripes);
    let surviving = dropped.surviving(&plan.older, &stripes);
    let splitter =
        Splitter::new(writing.options.sst_bytes_max, plan.cuts.clone(), plan.below.clone());
    let compression = match plan.destination {
        Destination::Level0 | Destination::NewRun | Destination::Older(_) => {
            writing.tree_options.compression
        }
        Destination::LastRun => writing.tree_options.compression_last,
    };
    let options = writing.of_files(compression);
    let merge =
        Merge { dropped: &dropped, older: &plan.older, stripes: &stripes, policy: inputs.policy };
    let inputs = plan.ssts().map(|sst| sst.number).collect();
    let origin = Origin { tree: writing.tree, position: writing.flushed.0, inputs };
    let outputs = Outputs::new(writing, options, origin, surviving, splitter);
    let mut written = merge.write(&mut cursor, writing, outputs, plan.place())?;
    written.edits.splice(..0, plan.removals(writing.tree));
    written.obsolete = plan.ssts().map(|sst| sst.number).collect();
    Ok(written)
}

/// The inputs are the outputs.
fn moved(writing: &Writing<'_>, plan: &Plan) -> Written {
    let mut edits = plan.removals(writing.tree);
    edits.extend(plan.ssts().map(|meta| addition(writing, plan.place(), SstMeta::clone(meta))));
    let counts = ElisionCounts::default();
    Written { edits, readers: Vec::new(), obsolete: Vec::new(), bytes: 0, counts }
}

fn addition(writing: &Writing<'_>, (level, run): (usize, RunId), meta: SstMeta) -> Edit {
    Edit::AddSst { tree: writing.tree, level, run, meta }
}

/// The merge of all inputs that have something visible, newest first.
fn open_inputs(
    plan: &Plan,
    inputs: &Inputs<'_>,
    dropped: &Dropped,
    stripes: &Stripes,
) -> MergeCursor<RunCursor> {
    let useful = |sst: &&Arc<SstMeta>| {
        let mut rows = RowRange::single(&sst.last_row);
        rows.start.clone_from(&sst.first_row);
        let (oldest, newest) = (sst.sequence_min, sst.sequence_max);
        sst.entries > 0 && !dropped.hides_all(&rows, oldest, newest, stripes)
    };
    let rows = Arc::new(RowRange::ALL);
    let mut cursors = Vec::with_capacity(plan.inputs.len());
    for run in &plan.inputs {
        let ssts = run.ssts.iter().filter(useful).map(|sst| (inputs.open)(sst.number));
        let ssts: Arc<[Arc<SstReader>]> = ssts.collect();
        if !ssts.is_empty() {
            let all = 0..ssts.len();
            let cursor = RunCursor::new(Arc::new(SstRun::new(ssts)), all, CacheFill::Bypass);
            cursors.push(match inputs.ahead {
                Some(source) => cursor.reading_ahead(source, &rows),
                None => cursor,
            });
        }
    }
    MergeCursor::new(cursors)
}

/// How entries become outputs.
struct Merge<'a> {
    dropped: &'a Dropped,
    /// Hulls of what lies below.
    older: &'a [RowRange],
    stripes: &'a Stripes,
    policy: &'a dyn ElisionPolicy,
}

impl Merge<'_> {
    fn write(
        &self,
        cursor: &mut dyn RowCursor,
        writing: &Writing<'_>,
        mut outputs: Outputs<'_>,
        place: (usize, RunId),
    ) -> Result<Written> {
        let mut elider = Elider::new(self.stripes, self.policy);
        let written = self
            .write_rows(cursor, writing, &mut elider, &mut outputs)
            .and_then(|()| outputs.finish());
        match written {
            Ok((metas, readers)) => {
                let bytes = metas.iter().map(|meta| meta.bytes).sum();
                let add = |meta| addition(writing, place, meta);
                let (edits, counts) = (metas.into_iter().map(add).collect(), elider.counts());
                Ok(Written { edits, readers, obsolete: Vec::new(), bytes, counts })
            }
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
    ) -> Result<()> {
        cursor.seek(&[])?;
        while let Some(row) = cursor.row() {
            if (writing.cancelled)() {
                return Err(Error::Closed);
            }
            let below = self.older.iter().any(|hull| hull.contains(row));
            let depth = if below { Depth::Above } else { Depth::Bottom };
            outputs.start_row(row)?;
            let ranges = self.dropped.covering(row);
            elider.row(cursor, ranges, depth, outputs)?;
            cursor.next_row()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
