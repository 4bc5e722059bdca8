//! Reads of one tree: what a program calls, and the blocking driver of point reads. Writes of the
//! same handle lie in `engine::tree`.
//!
//! A point read is planned without I/O (`read::point`). While what it needs is resident it runs to
//! its end here, pinned, without a lock. Otherwise the driver unpins, brings in what is missing
//! (`block_loads`: all blocks of all reads of a group at once), holds it, and has the read planned again;
//! what needs merging is scanned. `get_pipeline` drives gets of one thread without waiting for each;
//! `async_rows` drives reads of rows without a thread.

mod async_rows;
pub(crate) mod get_pipeline;

pub use async_rows::{RowEnd, RowReads};

use crate::batch::TimestampRange;
use crate::block_loads::LoadContext;
use crate::block_loads::blocking_loads::{Missed, fetch};
use crate::cache::BlockRef;
use crate::cell::{Column, FamilyId, SequenceNumber, Timestamp, TreeId};
use crate::counters::perf_context::{self, PerfCount};
use crate::counters::point_counters::PointCount;
use crate::error::{Error, Result};
use crate::marks::Mark;
use crate::read::drivers::get_pipeline::{Answer, GetPipeline};
use crate::read::point::{PointRead, PointReads, Step, Wanted};
use crate::read::scan::Scan;
use crate::read::scan::view_scan::{self, Blocks};
use crate::request::{Cell, Columns, OwnedCell, QualifierRange, RowRange, ScanRequest};
use crate::sstable::{Block, BlockCache, FilterQuery, PinnedBlocks, RowHit, WantedCells};
use crate::state::{Handle, Shared};
use crate::tree::TreeState;
use crate::tree::read_parts::ReadParts;
use crate::tree::read_view::ReadView;
use crate::tree::snapshots::Snapshot;
use arrayvec::ArrayVec;
use crossbeam_epoch as epoch;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Reads of a multi-get that can wait for memory together.
const GROUP: usize = 32;
/// Ranges of columns for each of which a read of a row can ask the filters.
const QUESTIONS_MAX: usize = 16;

/// A tree of an open engine, looked up once; calls through it look nothing up. Keeps the engine
/// open. Cheap to clone. After the tree is dropped its calls give [`Error::UnknownTree`].
#[derive(Clone)]
pub struct Tree {
    handle: Handle,
    tree: Arc<TreeState>,
}

/// The timestamp and value of a cell that a get found.
pub type FoundCell = (Timestamp, Vec<u8>);

/// A column of a row, for [`Tree::multi_get`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnOf<'a> {
    /// The row.
    pub row: &'a [u8],
    /// The family.
    pub family: FamilyId,
    /// The qualifier.
    pub qualifier: &'a [u8],
}

/// How far resident blocks led a get.
pub(crate) enum Planned {
    /// To its answer.
    Done(Option<(Timestamp, Vec<u8>)>),
    /// To blocks that are missing; `decides` as in [`Step::Fetch`].
    Missed { missed: Vec<Missed>, decides: bool },
    /// It has to be merged.
    ToMerge,
}

impl Tree {
    pub(crate) fn new(handle: Handle, tree: Arc<TreeState>) -> Self {
        Self { handle, tree }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The store's shared state and the tree's own. [`Error::UnknownTree`] if the tree was dropped.
    pub(crate) fn parts_of_store(&self) -> Result<(&Arc<Shared>, &Arc<TreeState>)> {
        self.check()?;
        Ok((self.handle.shared(), &self.tree))
    }

    /// The tree's id.
    pub fn id(&self) -> TreeId {
        self.tree.id
    }

    fn shared(&self) -> &Shared {
        self.handle.shared()
    }

    pub(crate) fn parts(&self) -> ReadParts {
        self.shared().read_parts
    }

    fn check(&self) -> Result<()> {
        if self.tree.is_gone() { Err(Error::UnknownTree(self.tree.id)) } else { Ok(()) }
    }

    /// What a read at `snapshot` (`None`: now) sees. Taken after the view: whatever is published
    /// by then is in the view, or was written after the view's memtable was frozen and is later
    /// than this read.
    fn sequence(&self, snapshot: Option<&Snapshot>) -> SequenceNumber {
        snapshot.map_or_else(|| self.shared().snapshots.published(), Snapshot::sequence)
    }

    pub(crate) fn cache(&self) -> &Arc<BlockCache> {
        &self.shared().cache
    }

    /// The parts of the engine that loads of the tree's blocks use.
    fn loads(&self) -> LoadContext<'_> {
        self.shared().loads(&self.tree.counters.points)
    }

    pub(crate) fn count(&self, what: PointCount, count: u64) {
        if self.parts().path.counters {
            self.tree.counters.points.add(what as usize, count);
        }
    }

    /// Lends the newest visible cell of a column at `snapshot` (`None`: now) to `use_cell`: its
    /// timestamp and value. `None` if there is none. `use_cell` should be short: while it runs,
    /// the cache may have to wait before it reuses memory.
    pub fn get_with<R>(
        &self,
        of: ColumnOf<'_>,
        snapshot: Option<&Snapshot>,
        use_cell: impl FnOnce(Timestamp, &[u8]) -> R,
    ) -> Result<Option<R>> {
        self.check()?;
        self.count(PointCount::Reads, 1);
        let view = self.tree.look_at(snapshot);
        self.get_in(&view, self.sequence(snapshot), of, use_cell)
    }

    /// The newest visible cell of a column at `snapshot` (`None`: now): its timestamp and value.
    pub fn get(
        &self,
        of: ColumnOf<'_>,
        snapshot: Option<&Snapshot>,
    ) -> Result<Option<(Timestamp, Vec<u8>)>> {
        self.get_with(of, snapshot, |timestamp, value| (timestamp, value.to_vec()))
    }

    /// Reads many columns, of any rows, at one moment; faster than one after the other, since they
    /// wait for memory together. Lends each cell to `use_cell` with its place in `wanted`, `None`
    /// for one that is not there, in any order. After an error some were not lent.
    pub fn multi_get_with(
        &self,
        wanted: &[ColumnOf<'_>],
        snapshot: Option<&Snapshot>,
        mut use_cell: impl FnMut(usize, Option<(Timestamp, &[u8])>),
    ) -> Result<()> {
        self.check()?;
        self.count(PointCount::Reads, wanted.len() as u64);
        let view = self.tree.look_at(snapshot);
        let at = self.sequence(snapshot);
        let size = usize::from(self.parts().group);
        if wanted.len() > size {
            Mark::GetsInGroups.hit();
        }
        for (group, columns) in wanted.chunks(size).enumerate() {
            let mut lend = |index: usize, cell: Option<Cell<'_>>| {
                let cell = cell.map(|cell| (cell.timestamp, cell.value));
                use_cell(group * size + index, cell);
            };
            for index in self.get_group(&view, at, columns, &mut lend)? {
                let mut found = false;
                self.merge_newest(&view, at, columns[index], |timestamp, value| {
                    found = true;
                    use_cell(group * size + index, Some((timestamp, value)));
                })?;
                if !found {
                    use_cell(group * size + index, None);
                }
            }
        }
        Ok(())
    }

    /// Returns the newest visible cells of many columns, of any rows, at one moment, in the order of
    /// `wanted`. Errors as [`Self::get`].
    pub fn multi_get(
        &self,
        wanted: &[ColumnOf<'_>],
        snapshot: Option<&Snapshot>,
    ) -> Result<Vec<Option<FoundCell>>> {
        let mut cells = vec![None; wanted.len()];
        self.multi_get_with(wanted, snapshot, |at, cell| {
            cells[at] = cell.map(|(timestamp, value)| (timestamp, value.to_vec()));
        })?;
        Ok(cells)
    }

    /// Returns the visible cells of `row` that `selection` wants, in their order, at `snapshot`
    /// (`None`: now); none for a row that is not there.
    pub fn read_row(
        &self,
        row: &[u8],
        selection: &RowSelection<'_>,
        snapshot: Option<&Snapshot>,
    ) -> Result<Vec<OwnedCell>> {
        let mut cells = Vec::new();
        self.read_row_with(row, selection, snapshot, |cell| cells.push(cell.into()))?;
        Ok(cells)
    }

    /// Lends the visible cells of `row` that `selection` wants, in their order, to `use_cell`, at
    /// `snapshot` (`None`: now). Gives their number; 0 for a row that is not there. After an error
    /// some were lent. `use_cell` should be short, as for [`Self::get_with`].
    pub fn read_row_with(
        &self,
        row: &[u8],
        selection: &RowSelection<'_>,
        snapshot: Option<&Snapshot>,
        mut use_cell: impl FnMut(&Cell<'_>),
    ) -> Result<u64> {
        self.check()?;
        self.count(PointCount::Reads, 1);
        let parts = self.parts();
        let queries = selection.questions(row, parts);
        let cells = selection.wanted();
        let filters = &self.tree.filter_counters;
        let view = self.tree.look_at(snapshot);
        let read = PointRead::new(&queries, self.sequence(snapshot), parts);
        let mut pinned_blocks = PinnedBlocks::default();
        for _ in 0..parts.fetches_max {
            let missed = {
                let pinned = epoch::pin();
                match read.whole(&view, &cells, &pinned_blocks, &pinned, filters) {
                    Step::Done(None) => return Ok(0),
                    Step::Done(Some(row)) => {
                        let lent = row.lend(&cells, |cell| {
                            use_cell(cell);
                            ControlFlow::Continue(())
                        });
                        let (ControlFlow::Continue(lent) | ControlFlow::Break(lent)) = lent;
                        return Ok(lent);
                    }
                    Step::Fetch { wanted, .. } => missed(&view, row, &wanted),
                    Step::Merge => break,
                }
            };
            fetch(self.loads(), missed, &mut pinned_blocks)?;
        }
        self.count(PointCount::Merged, 1);
        let request = selection.request(row);
        let filters = &self.tree.filter_counters;
        let mut scan = view_scan::scan(
            &view,
            &request,
            read.snapshot(),
            self.parts(),
            filters,
            Blocks::Waits,
            None,
        )?;
        let mut lent = 0;
        if scan.next_row()?.is_some() {
            while let Some(cell) = scan.next_cell()? {
                use_cell(&cell);
                lent += 1;
            }
        }
        Ok(lent)
    }

    /// Gets that one thread keeps in flight, up to `depth` of them reading from disk at once
    /// (1..=4096; a depth outside is brought inside), at `snapshot`; `None`: each sees the tree as
    /// it is at some moment between its submission and its answer.
    pub fn in_flight(&self, depth: usize, snapshot: Option<&Snapshot>) -> GetPipeline {
        let queue = self.shared().env.fs.read_queue(depth);
        GetPipeline::new(self.clone(), snapshot.cloned(), queue)
    }

    /// Starts a scan at `snapshot` (`None`: now). It sees one state of the tree from beginning to
    /// end.
    pub fn scan(&self, request: &ScanRequest, snapshot: Option<&Snapshot>) -> Result<Scan> {
        self.check()?;
        self.count(PointCount::Scans, 1);
        perf_context::add([(PerfCount::Scans, 1)]);
        let view = arc_swap::Guard::into_inner(self.tree.look_at(snapshot));
        let at = self.sequence(snapshot);
        let pin = snapshot.cloned().map(|snapshot| Box::new((snapshot, Arc::clone(&view))) as _);
        let pin = pin.unwrap_or_else(|| Box::new(Arc::clone(&view)) as _);
        let (filters, ahead) = (&self.tree.filter_counters, &self.shared().readahead);
        view_scan::scan(&view, request, at, self.parts(), filters, Blocks::Ahead(ahead), Some(pin))
    }

    /// Takes the get of a column at `snapshot` as far as resident blocks, and what is
    /// `pinned_blocks`, lead.
    pub(crate) fn plan_get(
        &self,
        of: ColumnOf<'_>,
        snapshot: Option<&Snapshot>,
        pinned_blocks: &PinnedBlocks,
    ) -> Result<Planned> {
        self.check()?;
        let view = self.tree.look_at(snapshot);
        let queries = [of.query()];
        let read = PointRead::new(&queries, self.sequence(snapshot), self.parts());
        let pinned = epoch::pin();
        let filters = &self.tree.filter_counters;
        Ok(match read.newest(&view, &of.column(), pinned_blocks, &pinned, filters) {
            Step::Done(cell) => {
                Planned::Done(cell.map(|cell| (cell.timestamp, cell.value.to_vec())))
            }
            Step::Fetch { wanted, decides } => {
                Planned::Missed { missed: missed(&view, of.row, &wanted), decides }
            }
            Step::Merge => Planned::ToMerge,
        })
    }

    /// The get of a column at `snapshot` to its end, which a block decides that has been brought in;
    /// `None` if it has to be planned again. It is answered as of when it was planned, or later.
    pub(crate) fn get_decided(
        &self,
        of: ColumnOf<'_>,
        snapshot: Option<&Snapshot>,
        block: BlockRef<'_, Block>,
    ) -> Option<Answer> {
        if let Err(error) = self.check() {
            return Some(Err(error));
        }
        let hit = match RowHit::in_block(block, of.row)? {
            Some(hit) if !hit.is_simple(self.sequence(snapshot)) => return None,
            hit => hit,
        };
        let cell = hit.and_then(|hit| hit.newest(&of.column()));
        self.tree.filter_counters.judge(&[of.query()], cell.is_some());
        Some(Ok(cell.map(|cell| (cell.timestamp, cell.value.to_vec()))))
    }

    /// The same to its end, by a merge.
    pub(crate) fn get_merged(
        &self,
        of: ColumnOf<'_>,
        snapshot: Option<&Snapshot>,
    ) -> Result<Option<(Timestamp, Vec<u8>)>> {
        self.check()?;
        let view = self.tree.look_at(snapshot);
        let at = self.sequence(snapshot);
        self.merge_newest(&view, at, of, |timestamp, value| (timestamp, value.to_vec()))
    }

    /// The newest cell of a column that a reader of `view` at `at` sees.
    fn get_in<R>(
        &self,
        view: &ReadView,
        at: SequenceNumber,
        of: ColumnOf<'_>,
        use_cell: impl FnOnce(Timestamp, &[u8]) -> R,
    ) -> Result<Option<R>> {
        let queries = [of.query()];
        let parts = self.parts();
        let read = PointRead::new(&queries, at, parts);
        let mut pinned_blocks = PinnedBlocks::default();
        for _ in 0..parts.fetches_max {
            let missed = {
                let pinned = epoch::pin();
                let filters = &self.tree.filter_counters;
                match read.newest(view, &of.column(), &pinned_blocks, &pinned, filters) {
                    Step::Done(cell) => {
                        return Ok(cell.map(|cell| use_cell(cell.timestamp, cell.value)));
                    }
                    Step::Fetch { wanted, .. } => missed(view, of.row, &wanted),
                    Step::Merge => break,
                }
            };
            fetch(self.loads(), missed, &mut pinned_blocks)?;
        }
        self.merge_newest(view, at, of, use_cell)
    }

    /// The same by a merge of all sources.
    fn merge_newest<R>(
        &self,
        view: &ReadView,
        at: SequenceNumber,
        of: ColumnOf<'_>,
        use_cell: impl FnOnce(Timestamp, &[u8]) -> R,
    ) -> Result<Option<R>> {
        self.count(PointCount::Merged, 1);
        let columns = Columns::Ranges(vec![QualifierRange::column(of.family, of.qualifier)]);
        let rows = ScanRequest::rows(RowRange::single(of.row));
        let request = ScanRequest { columns, versions_max: Some(1), ..rows };
        let filters = &self.tree.filter_counters;
        let mut scan =
            view_scan::scan(view, &request, at, self.parts(), filters, Blocks::Waits, None)?;
        if scan.next_row()?.is_none() {
            return Ok(None);
        }
        Ok(scan.next_cell()?.map(|cell| use_cell(cell.timestamp, cell.value)))
    }

    /// Reads up to [`GROUP`] columns together and lends their cells. Gives those that have to be
    /// merged.
    fn get_group(
        &self,
        view: &ReadView,
        at: SequenceNumber,
        columns: &[ColumnOf<'_>],
        lend: &mut dyn FnMut(usize, Option<Cell<'_>>),
    ) -> Result<ArrayVec<usize, GROUP>> {
        let mut open: ArrayVec<usize, GROUP> = (0..columns.len()).collect();
        let mut to_merge = ArrayVec::new();
        let mut pinned_blocks = PinnedBlocks::default();
        for _ in 0..self.parts().fetches_max {
            let mut all_missed = Vec::new();
            let mut missing = ArrayVec::new();
            self.plan_group(view, at, columns, (&open, &pinned_blocks), |index, step| match step {
                Step::Done(cell) => lend(index, cell),
                Step::Merge => to_merge.push(index),
                Step::Fetch { wanted, .. } => {
                    all_missed.extend(missed(view, columns[index].row, &wanted));
                    missing.push(index);
                }
            });
            open = missing;
            if open.is_empty() {
                return Ok(to_merge);
            }
            fetch(self.loads(), all_missed, &mut pinned_blocks)?;
        }
        Mark::FetchesSpent.hit();
        to_merge.extend(open);
        Ok(to_merge)
    }

    /// Takes the reads of the columns at the places `open` as far as resident blocks, and what is
    /// `pinned_blocks`, lead.
    fn plan_group(
        &self,
        view: &ReadView,
        at: SequenceNumber,
        columns: &[ColumnOf<'_>],
        (open, pinned_blocks): (&[usize], &PinnedBlocks),
        mut step: impl FnMut(usize, Step<Option<Cell<'_>>>),
    ) {
        let queries: ArrayVec<_, GROUP> = open.iter().map(|at| [columns[*at].query()]).collect();
        let pinned = epoch::pin();
        let parts = self.parts();
        let mut reads = PointReads::<'_, '_, GROUP>::default();
        for (index, query) in open.iter().zip(&queries) {
            let read = PointRead::new(query, at, parts);
            reads.push(read, columns[*index].column(), view, &pinned);
        }
        let filters = &self.tree.filter_counters;
        reads.run(view, pinned_blocks, &pinned, filters, |at, of_one| step(open[at], of_one));
    }
}

/// The files of the blocks that a read of `row` wants.
fn missed(view: &ReadView, row: &[u8], wanted: &[Wanted]) -> Vec<Missed> {
    let of = |(run, missing): &Wanted| {
        let sst = view.runs()[*run].shared_sst_of(row).expect("the candidate came from here");
        (Arc::clone(sst), *missing)
    };
    wanted.iter().map(of).collect()
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("id", &self.id()).finish_non_exhaustive()
    }
}

impl<'a> ColumnOf<'a> {
    /// The column `qualifier` of `family` in `row`.
    pub fn new(row: &'a [u8], family: FamilyId, qualifier: &'a [u8]) -> Self {
        Self { row, family, qualifier }
    }

    fn query(&self) -> FilterQuery<'a> {
        FilterQuery::column(self.row, self.family, self.qualifier)
    }

    fn column(&self) -> Column<'a> {
        Column::of(self.family, self.qualifier)
    }
}

/// Which cells of a row are wanted.
#[derive(Debug, Clone, Copy)]
pub struct RowSelection<'a> {
    /// Which columns.
    pub columns: &'a Columns,
    /// Which timestamps.
    pub timestamps: TimestampRange,
    /// At most this many cells of a column, the newest of those in `timestamps`. `None`: all.
    pub versions_max: Option<u32>,
}

impl<'a> RowSelection<'a> {
    /// All cells of `columns`.
    pub fn of(columns: &'a Columns) -> Self {
        Self { columns, timestamps: TimestampRange::ALL, versions_max: None }
    }

    fn wanted(&self) -> WantedCells<'a> {
        let Self { columns, timestamps, versions_max } = *self;
        WantedCells { columns, timestamps, versions_max }
    }

    /// The same as a scan of `row`.
    fn request(&self, row: &[u8]) -> ScanRequest {
        ScanRequest {
            columns: self.columns.clone(),
            timestamps: self.timestamps,
            versions_max: self.versions_max,
            ..ScanRequest::rows(RowRange::single(row))
        }
    }

    /// What a read of `row` asks the filters. A filter's line has the answers to all, and is read
    /// once.
    fn questions(
        &self,
        row: &'a [u8],
        parts: ReadParts,
    ) -> ArrayVec<FilterQuery<'a>, QUESTIONS_MAX> {
        let most = QUESTIONS_MAX.min(parts.questions_max.into());
        let whole = FilterQuery::row(row);
        let mut questions = ArrayVec::new();
        match self.columns {
            Columns::Ranges(ranges) if (1..=most).contains(&ranges.len()) => {
                questions.extend(ranges.iter().map(|range| match range.single() {
                    Some(qualifier) => whole.column_of(range.family, qualifier),
                    None => whole.family_of(range.family),
                }));
            }
            Columns::Ranges(ranges) if !ranges.is_empty() => {
                Mark::QuestionsTooMany.hit();
                questions.push(whole);
            }
            _ => questions.push(whole),
        }
        questions
    }
}

#[cfg(test)]
mod tests;
