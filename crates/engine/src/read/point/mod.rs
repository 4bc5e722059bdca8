//! Reads of one row, planned without I/O: which files can have it, and where in them.
//!
//! The plan goes in stages over all candidate files (`crate::sstable`'s point reads): filters are
//! fetched together, then asked; a file that may have the row is searched down to the row itself.
//! While all of it is resident, nothing here takes a lock, allocates, or looks a block up by its
//! key. What is not resident is named (`Step::Fetch`); the caller unpins, brings it in and asks
//! again. What needs merging (memtables that may have the row, aggregates, whole rows that several
//! files have, rows over several blocks) is left to `read::scan` ([`Step::Merge`]).
//!
//! Invariant: an answer given here is the one that `read::scan` gives. Of a simple row all entries
//! are puts visible to the reader, so the newest cell of a column is the one with the largest
//! timestamp; among equal ones, that of the newest source. A row with tombstones, later entries or
//! large values is decided where it lies (`sstable/rows/resolve_in_block.rs`); the path of simple
//! rows ends where the first such row is met (`resolve_in_block`).

mod resolve_in_block;

use crate::cell::{Column, SequenceNumber};
use crate::counters::perf_context::{self, PerfCount};
use crate::marks::Mark;
use crate::request::Cell;
use crate::sstable::{
    Ahead, Candidate, Descent, FilterCounters, FilterQuery, Missing, PinnedBlocks, RowBits,
    RowCells, WantedCells, filtered,
};
use crate::tree::read_parts::{RUNS_MAX, ReadParts};
use crate::tree::read_view::ReadView;
use arrayvec::ArrayVec;
use crossbeam_epoch::Guard;
use resolve_in_block::{Memory, NotSimple};

/// A block to be brought in: of which run, for which row, and which.
pub(crate) type Wanted = (usize, Missing);

/// What came of looking.
pub(crate) enum Step<T> {
    /// The answer.
    Done(T),
    /// These blocks are needed first.
    Fetch {
        /// Which.
        wanted: Vec<Wanted>,
        /// True if there is one, and the answer is what it has of the row, whatever that be.
        decides: bool,
    },
    /// The row has to be merged.
    Merge,
}

impl<T> Step<T> {
    /// These blocks are needed first, and perhaps others.
    fn of(wanted: Vec<Wanted>) -> Self {
        Self::Fetch { wanted, decides: false }
    }
}

/// A read of one row.
pub(crate) struct PointRead<'k> {
    /// What the filters are asked; the first names the row. If each answer is no, a file has
    /// nothing for the read.
    queries: &'k [FilterQuery<'k>],
    snapshot: SequenceNumber,
    parts: ReadParts,
}

type Candidates<'g> = ArrayVec<(usize, Candidate<'g>), RUNS_MAX>;

impl<'k> PointRead<'k> {
    /// A read at `snapshot` that needs what any of `queries`, all of one row, asks for.
    pub(crate) fn new(
        queries: &'k [FilterQuery<'k>],
        snapshot: SequenceNumber,
        parts: ReadParts,
    ) -> Self {
        assert!(!queries.is_empty(), "a read asks for something");
        Self { queries, snapshot, parts }
    }

    /// The last sequence number it sees.
    pub(crate) fn snapshot(&self) -> SequenceNumber {
        self.snapshot
    }

    fn row(&self) -> &'k [u8] {
        self.queries[0].asked_row()
    }

    /// The newest cell of `column`. Large values are also looked for in `pinned_blocks`.
    pub(crate) fn newest<'g>(
        &self,
        view: &'g ReadView,
        column: &Column<'_>,
        pinned_blocks: &'g PinnedBlocks,
        pinned: &'g Guard,
        counters: &FilterCounters,
    ) -> Step<Option<Cell<'g>>> {
        // Filled in place: it is too large to be moved about.
        let mut candidates = Candidates::new();
        match self.candidates(view, pinned, counters, &mut candidates) {
            Step::Done(_) => {}
            Step::Fetch { wanted, .. } => return Step::of(wanted),
            Step::Merge => return Step::Merge,
        }
        let mut wanted = Vec::new();
        let mut newest: Option<Cell<'g>> = None;
        for (at, &(run, candidate)) in candidates.iter().enumerate() {
            // Sources come newest first, so on equal timestamps the cell in hand wins.
            if newest.is_some_and(|cell| cell.timestamp >= candidate.timestamp_max()) {
                Mark::FileOlder.hit();
                continue;
            }
            let descent = match self.search(candidate, pinned) {
                Ok(descent) => descent,
                Err(missing) => {
                    wanted.push((run, missing));
                    continue;
                }
            };
            let hit = descent.row();
            if let Some(hit) = hit.filter(|hit| !hit.is_simple(self.snapshot)) {
                let met = NotSimple { run, descent: &descent, hit, older: &candidates[at + 1..] };
                let memory = Memory { pinned_blocks, pinned, counters };
                return self.newest_in_block(met, column, (newest, wanted), memory);
            }
            let cell = hit.and_then(|hit| hit.newest(column));
            counters.judge(self.queries, cell.is_some());
            let newer =
                |cell: &Cell<'g>| newest.is_none_or(|newest| newest.timestamp < cell.timestamp);
            newest = cell.filter(newer).or(newest);
        }
        if wanted.is_empty() {
            return Step::Done(newest);
        }
        let decides = candidates.len() == 1 && matches!(wanted[..], [(_, Missing::Data(..))]);
        Step::Fetch { wanted, decides }
    }

    /// What is `cells_wanted` of the row, if a single file decides it without merging. Large values
    /// are also looked for in `pinned_blocks`.
    pub(crate) fn whole<'g>(
        &self,
        view: &'g ReadView,
        cells_wanted: &WantedCells<'_>,
        pinned_blocks: &'g PinnedBlocks,
        pinned: &'g Guard,
        counters: &FilterCounters,
    ) -> Step<Option<RowCells<'g>>> {
        // Filled in place: it is too large to be moved about.
        let mut candidates = Candidates::new();
        let in_range = match self.candidates(view, pinned, counters, &mut candidates) {
            Step::Done(in_range) => in_range,
            Step::Fetch { wanted, .. } => return Step::of(wanted),
            Step::Merge => return Step::Merge,
        };
        let memory = Memory { pinned_blocks, pinned, counters };
        let step = self.whole_of(&candidates, cells_wanted, memory);
        // A read that fetches blocks, or merges, is counted when it has them, or by its scan.
        if matches!(step, Step::Done(_)) {
            self.count_files(view, in_range, candidates.len());
        }
        step
    }

    /// The same of `candidates` alone.
    fn whole_of<'g>(
        &self,
        candidates: &Candidates<'g>,
        cells_wanted: &WantedCells<'_>,
        memory: Memory<'_, 'g>,
    ) -> Step<Option<RowCells<'g>>> {
        let Memory { pinned, counters, .. } = memory;
        let mut wanted = Vec::new();
        let mut found = None;
        for (at, &(run, candidate)) in candidates.iter().enumerate() {
            let descent = match self.search(candidate, pinned) {
                Ok(descent) => descent,
                Err(missing) => {
                    wanted.push((run, missing));
                    continue;
                }
            };
            let hit = descent.row();
            counters.judge(self.queries, hit.is_some());
            match hit {
                None => {}
                Some(_) if found.is_some() => return Step::Merge,
                Some(hit) if hit.is_simple(self.snapshot) => found = Some(hit),
                Some(hit) => {
                    let older = &candidates[at + 1..];
                    let met = NotSimple { run, descent: &descent, hit, older };
                    return self.whole_in_block(met, cells_wanted, wanted, memory);
                }
            }
        }
        if wanted.is_empty() {
            return Step::Done(found.map(RowCells::Plain));
        }
        Step::of(wanted)
    }

    /// Counts the files that the read looked at for its request. Of the files `in_range`, so many `passed`
    /// their filters.
    fn count_files(&self, view: &ReadView, in_range: usize, passed: usize) {
        perf_context::add_with(|| {
            let files: usize = view.runs().iter().map(|run| run.ssts().len()).sum();
            let filters = if self.parts.path.filters { in_range } else { 0 };
            // A file that passed adds the index and the data block.
            let blocks = filters + 2 * passed;
            [
                (PerfCount::Files, files as u64),
                (PerfCount::FilesOutOfRange, (files - in_range) as u64),
                (filtered(self.queries), (in_range - passed) as u64),
                (PerfCount::Blocks, blocks as u64),
            ]
        });
    }

    /// Finds the files that the filters let pass, newest first. Returns how many files have the row in
    /// their range.
    fn candidates<'g>(
        &self,
        view: &'g ReadView,
        pinned: &'g Guard,
        counters: &FilterCounters,
        candidates: &mut Candidates<'g>,
    ) -> Step<usize> {
        if !self.begin(view, pinned, candidates) {
            return Step::Merge;
        }
        let probed = candidates.len();
        if !self.parts.path.filters {
            return Step::Done(probed);
        }
        let (mut wanted, mut bits) = (Vec::new(), RowBits::default());
        candidates.retain(|(run, candidate)| {
            let probed = candidate.probe(self.queries, &mut bits, pinned);
            probed.unwrap_or_else(|missing| {
                wanted.push((*run, missing));
                true
            })
        });
        if !wanted.is_empty() {
            return Step::of(wanted);
        }
        if self.parts.path.counters {
            counters.probed(self.queries, probed, probed - candidates.len());
        }
        Step::Done(probed)
    }

    /// Adds the files whose range has the row; `false` if it has to be merged.
    fn begin<'g>(
        &self,
        view: &'g ReadView,
        pinned: &'g Guard,
        candidates: &mut Candidates<'g>,
    ) -> bool {
        let row = self.row();
        if !self.parts.path.point_reads
            || view.may_have_in_memory(self.queries[0].row_hash())
            || view.runs().len() > usize::from(self.parts.runs_max)
            || view.drops(row, self.snapshot)
        {
            if view.runs().len() > usize::from(self.parts.runs_max) {
                Mark::RunsTooMany.hit();
            }
            return false;
        }
        for (at, run) in view.runs().iter().enumerate() {
            let candidate = run.sst_around(row);
            let candidate =
                candidate.and_then(|sst| Candidate::begin(sst, &self.queries[0], pinned));
            candidates.extend(candidate.map(|candidate| (at, candidate)));
        }
        true
    }

    /// The blocks that a merge of what is `cells_wanted` of the row needs first and that are
    /// neither resident nor `pinned_blocks`: of each file that may have the row, the next on the
    /// way to it, or the large values there. Not counted.
    pub(crate) fn missing(
        &self,
        view: &ReadView,
        cells_wanted: &WantedCells<'_>,
        pinned_blocks: &PinnedBlocks,
        pinned: &Guard,
    ) -> Vec<Wanted> {
        let (mut wanted, mut bits) = (Vec::new(), RowBits::default());
        for (at, run) in view.runs().iter().enumerate().take(self.parts.runs_max.into()) {
            let sst = run.sst_around(self.row());
            let candidate = sst.and_then(|sst| Candidate::begin(sst, &self.queries[0], pinned));
            let Some(mut candidate) = candidate else { continue };
            let passes = !self.parts.path.filters
                || match candidate.probe(self.queries, &mut bits, pinned) {
                    Ok(passes) => passes,
                    Err(missing) => {
                        wanted.push((at, missing));
                        false
                    }
                };
            if !passes {
                continue;
            }
            match self.search(candidate, pinned) {
                Err(missing) => wanted.push((at, missing)),
                Ok(descent) => {
                    if let Some(hit) = descent.row().filter(|hit| !hit.is_simple(self.snapshot)) {
                        let most = self.parts.large_bytes_max;
                        let large = descent.missing_large_values(
                            &hit,
                            cells_wanted,
                            most,
                            pinned_blocks,
                            pinned,
                        );
                        wanted.extend(large.into_iter().map(|missing| (at, missing)));
                    }
                }
            }
        }
        wanted
    }

    fn search<'g>(
        &self,
        candidate: Candidate<'g>,
        pinned: &'g Guard,
    ) -> Result<Descent<'g, 'k>, Missing> {
        let mut descent = candidate.descend();
        descent.find_block(self.row(), Ahead::Rows, pinned)?;
        descent.reach_row(self.row(), pinned)?;
        descent.reach_cells();
        Ok(descent)
    }
}

/// Reads of many cells at once: stage by stage over all of them, so that the processor fetches
/// what they wait for together.
pub(crate) struct PointReads<'g, 'k, const N: usize> {
    reads: ArrayVec<(PointRead<'k>, Column<'k>, Progress<'g, 'k>), N>,
}

impl<const N: usize> Default for PointReads<'_, '_, N> {
    fn default() -> Self {
        Self { reads: ArrayVec::new() }
    }
}

/// How far a read of many has come.
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation")]
enum Progress<'g, 'k> {
    /// Its candidates; their filters are being fetched.
    Asking(Candidates<'g>),
    /// The one file that may have it.
    Searching(usize, Descent<'g, 'k>),
    /// Nothing has it.
    Nothing,
    /// It takes more than one file, or a block that is missing: it is planned by itself.
    Alone,
}

impl<'g, 'k, const N: usize> PointReads<'g, 'k, N> {
    /// Adds the read of a column, up to `N` of them.
    pub(crate) fn push(
        &mut self,
        read: PointRead<'k>,
        column: Column<'k>,
        view: &'g ReadView,
        pinned: &'g Guard,
    ) {
        let mut candidates = Candidates::new();
        let progress = match read.begin(view, pinned, &mut candidates) {
            true => Progress::Asking(candidates),
            false => Progress::Alone,
        };
        self.reads.push((read, column, progress));
    }

    /// Takes all reads, which were pushed for `view`, as far as resident blocks lead, and gives
    /// what came of each.
    pub(crate) fn run(
        &mut self,
        view: &'g ReadView,
        pinned_blocks: &'g PinnedBlocks,
        pinned: &'g Guard,
        counters: &FilterCounters,
        mut step: impl FnMut(usize, Step<Option<Cell<'g>>>),
    ) {
        for (read, _, progress) in &mut self.reads {
            read.ask(progress, pinned, counters);
        }
        for (read, _, progress) in &mut self.reads {
            progress.go_on(|descent| descent.find_block(read.row(), Ahead::Keys, pinned).is_ok());
        }
        for (read, _, progress) in &mut self.reads {
            progress.go_on(|descent| descent.reach_row(read.row(), pinned).is_ok());
        }
        for (_, _, progress) in &mut self.reads {
            progress.go_on(|descent| {
                descent.reach_cells();
                true
            });
        }
        for (at, (read, column, progress)) in self.reads.drain(..).enumerate() {
            let concluded = read.conclude(&column, &progress, pinned_blocks, pinned, counters);
            let alone = || read.newest(view, &column, pinned_blocks, pinned, counters);
            step(at, concluded.unwrap_or_else(alone));
        }
    }
}

impl<'g, 'k> Progress<'g, 'k> {
    /// Takes a search on; one that cannot go on is planned by itself.
    fn go_on(&mut self, go_on: impl FnOnce(&mut Descent<'g, 'k>) -> bool) {
        if let Self::Searching(_, descent) = self
            && !go_on(descent)
        {
            *self = Self::Alone;
        }
    }
}

impl<'k> PointRead<'k> {
    /// Asks the filters of all candidates.
    fn ask<'g>(
        &self,
        progress: &mut Progress<'g, 'k>,
        pinned: &'g Guard,
        counters: &FilterCounters,
    ) {
        let Progress::Asking(candidates) = progress else { return };
        if !self.parts.path.filters {
            *progress = Progress::Alone;
            return;
        }
        let (mut passed, mut several, mut bits) = (None, false, RowBits::default());
        for (run, candidate) in candidates.iter_mut() {
            match candidate.probe(self.queries, &mut bits, pinned) {
                Ok(false) => {}
                Ok(true) if passed.is_none() => passed = Some((*run, candidate.descend())),
                Ok(true) | Err(_) => several = true,
            }
        }
        if several {
            // Asked and counted again when it is planned by itself.
            *progress = Progress::Alone;
            return;
        }
        let useful = candidates.len() - usize::from(passed.is_some());
        if self.parts.path.counters {
            counters.probed(self.queries, candidates.len(), useful);
        }
        *progress =
            passed.map_or(Progress::Nothing, |(run, descent)| Progress::Searching(run, descent));
    }

    /// The answer of a read of many, if it came to one.
    fn conclude<'g>(
        &self,
        column: &Column<'_>,
        progress: &Progress<'g, 'k>,
        pinned_blocks: &'g PinnedBlocks,
        pinned: &'g Guard,
        counters: &FilterCounters,
    ) -> Option<Step<Option<Cell<'g>>>> {
        let (run, descent) = match progress {
            Progress::Nothing => return Some(Step::Done(None)),
            Progress::Asking(_) | Progress::Alone => return None,
            Progress::Searching(run, descent) => (*run, descent),
        };
        let hit = descent.row();
        if let Some(hit) = hit.filter(|hit| !hit.is_simple(self.snapshot)) {
            let met = NotSimple { run, descent, hit, older: &[] };
            let memory = Memory { pinned_blocks, pinned, counters };
            return Some(self.newest_in_block(met, column, (None, Vec::new()), memory));
        }
        let cell = hit.and_then(|hit| hit.newest(column));
        counters.judge(self.queries, cell.is_some());
        Some(Step::Done(cell))
    }
}
