//! Point reads of rows that are not plain, decided in place: the way on from the first such row that
//! a read met. Apart from the path of simple rows, so that it costs that path nothing.

use super::{Candidate, PointRead, Step, Wanted};
use crate::cell::{Column, Timestamp};
use crate::marks::Mark;
use crate::request::Cell;
use crate::sstable::FilterCounters;
use crate::sstable::{
    Covers, Descent, LargeValues, Missing, PinnedBlocks, RowCells, RowHit, SeenBy, SeenPut,
    ToMerge, WantedCells,
};
use crossbeam_epoch::Guard;

/// The first row that is not plain.
pub(super) struct NotSimple<'a, 'g, 'k> {
    /// The run that it was found in, and how.
    pub(super) run: usize,
    pub(super) descent: &'a Descent<'g, 'k>,
    pub(super) hit: RowHit<'g>,
    /// The candidates of older runs.
    pub(super) older: &'a [(usize, Candidate<'g>)],
}

/// What a plan looks at.
#[derive(Clone, Copy)]
pub(super) struct Memory<'a, 'g> {
    pub(super) pinned_blocks: &'g PinnedBlocks,
    pub(super) pinned: &'g Guard,
    pub(super) counters: &'a FilterCounters,
}

/// The newest cell so far.
struct Newest<'g> {
    timestamp: Timestamp,
    /// The block of its value and the run of that, if it is not in memory.
    cell: Result<Cell<'g>, Wanted>,
}

/// What is known of a column while the files that may have it are asked, newest first.
struct Asked<'a, 'g> {
    column: &'a Column<'a>,
    newest: Option<Newest<'g>>,
    covers: Covers,
    memory: Memory<'a, 'g>,
}

impl<'g> Asked<'_, 'g> {
    /// Takes in what a file has for the column; whether it has anything.
    fn take(
        &mut self,
        run: usize,
        descent: &Descent<'g, '_>,
        hit: RowHit<'g>,
        read: &PointRead<'_>,
    ) -> Result<bool, ToMerge> {
        if !hit.is_whole() {
            return Err(ToMerge);
        }
        let (put, met) = hit.newest_seen(self.column, read.snapshot, &mut self.covers)?;
        let newer = |put: &SeenPut<'g>| {
            self.newest.as_ref().is_none_or(|newest| newest.timestamp < put.timestamp())
        };
        if let Some(put) = put.filter(newer) {
            let cell = descent.cell(&put, self.memory.pinned_blocks, self.memory.pinned);
            let cell = cell.map_err(|missing| (run, missing));
            self.newest = Some(Newest { timestamp: put.timestamp(), cell });
        }
        Ok(met)
    }
}

impl<'k> PointRead<'k> {
    /// The newest cell of `column`, where `newest` is what newer files have, all plain, and `wanted`
    /// what they miss.
    #[inline(never)]
    pub(super) fn newest_in_block<'g>(
        &self,
        met: NotSimple<'_, 'g, 'k>,
        column: &Column<'_>,
        (newest, mut wanted): (Option<Cell<'g>>, Vec<Wanted>),
        memory: Memory<'_, 'g>,
    ) -> Step<Option<Cell<'g>>> {
        let NotSimple { run, descent, hit, older } = met;
        let Memory { pinned, counters, .. } = memory;
        let newest = newest.map(|cell| Newest { timestamp: cell.timestamp, cell: Ok(cell) });
        Mark::GetInBlock.hit();
        let covers = Covers::of(self.parts.covers_max);
        let mut asked = Asked { column, newest, covers, memory };
        match asked.take(run, descent, hit, self) {
            Ok(met) => counters.judge(self.queries, met),
            Err(ToMerge) => return Step::Merge,
        }
        for &(run, candidate) in older {
            if asked.covers.hide_all_before() {
                break;
            }
            let at_most = candidate.timestamp_max();
            if asked.newest.as_ref().is_some_and(|newest| newest.timestamp >= at_most) {
                continue;
            }
            match self.search(candidate, pinned) {
                Ok(descent) => {
                    let taken = match descent.row() {
                        Some(hit) => asked.take(run, &descent, hit, self),
                        None => Ok(false),
                    };
                    match taken {
                        Ok(met) => counters.judge(self.queries, met),
                        Err(ToMerge) => return Step::Merge,
                    }
                }
                Err(missing) => wanted.push((run, missing)),
            }
        }
        if !wanted.is_empty() {
            return Step::of(wanted);
        }
        match asked.newest.map(|newest| newest.cell).transpose() {
            Ok(cell) => Step::Done(cell),
            Err(missing) => Step::of(vec![missing]),
        }
    }

    /// What is `cells_wanted` of a row that no newer file has; `wanted` is what those miss.
    #[inline(never)]
    pub(super) fn whole_in_block<'g>(
        &self,
        met: NotSimple<'_, 'g, 'k>,
        cells_wanted: &WantedCells<'_>,
        mut wanted: Vec<Wanted>,
        memory: Memory<'_, 'g>,
    ) -> Step<Option<RowCells<'g>>> {
        let NotSimple { run, descent, hit, older } = met;
        let Memory { pinned_blocks, pinned, counters } = memory;
        if !hit.is_whole() {
            return Step::Merge;
        }
        let covers_max = self.parts.covers_max;
        if !hit.hides_all_before(self.snapshot, covers_max) {
            for &(run, candidate) in older {
                match self.search(candidate, pinned).map(|descent| descent.row()) {
                    Ok(Some(_)) => return Step::Merge,
                    Ok(None) => counters.judge(self.queries, false),
                    Err(missing) => wanted.push((run, missing)),
                }
            }
        }
        if !wanted.is_empty() {
            return Step::of(wanted);
        }
        let seen = SeenBy { snapshot: self.snapshot, covers_max };
        let most = self.parts.large_bytes_max;
        match descent.large_values(&hit, cells_wanted, seen, most, pinned_blocks, pinned) {
            Ok(LargeValues::Found(large)) => {
                Mark::RowInBlock.hit();
                Step::Done(Some(RowCells::InBlock(hit, seen, large)))
            }
            Ok(LargeValues::Missing(missing)) => {
                Step::of(missing.into_iter().map(|missing: Missing| (run, missing)).collect())
            }
            Err(ToMerge) => Step::Merge,
        }
    }
}
