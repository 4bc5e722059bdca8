//! Rows that are not plain and yet need no merging: one block has all their entries, but some are
//! tombstones, are later than the reader, or have a value with a block of its own. What a reader
//! sees of them is decided where they lie. Its meaning is specified by `crate::semantics::model`;
//! `read::visible` decides the same for merged rows.
//!
//! Invariants:
//! 1. Entries of a row are met in the order of `crate::cell`, so when a cell is met every tombstone
//!    of its block that can hide it was met before.
//! 2. Where several files have the row they are asked newest first. All entries of a newer one have
//!    larger sequence numbers (manifest/state/version.rs, invariant 3), so a tombstone found later hides
//!    no cell found before.
//! 3. What cannot be decided so ([`ToMerge`]) is found out before any cell is lent.

use super::row_span::WantedCells;
use super::simple_row::{self, SimpleCells};
use crate::cache::{BlockRef, Hint};
use crate::cell::{Column, FamilyId, Kind, Scope, SequenceNumber, Timestamp};
use crate::marks::Mark;
use crate::request::{Cell, Columns, QualifierRange};
use crate::sstable::block::{BlockView, CellValue, LargeValue};
use crate::sstable::read::pinned_blocks::PinnedBlocks;
use crate::sstable::read::point_lookup::{Descent, Missing, RowHit};
use crate::sstable::read::sst_reader::SstReader;
use crate::sstable::{Block, Content};
use arrayvec::ArrayVec;
use crossbeam_epoch::Guard;
use std::ops::{ControlFlow, Range};

/// Tombstones that a row can have, of those that hide something that no other of them hides.
const COVERS_MAX: usize = 8;

/// The row has to be merged: aggregates, or too many tombstones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ToMerge;

#[derive(Debug, Clone, Copy)]
struct Cover {
    sequence: SequenceNumber,
    oldest: Timestamp,
    newest: Timestamp,
}

/// Tombstones that were met of a row and may hide what comes next.
#[derive(Debug, Clone)]
pub(crate) struct Covers {
    all: ArrayVec<Cover, COVERS_MAX>,
    /// The largest number of them.
    max: u8,
    /// Number of entries of the whole row, and of that or of the family. They come first.
    of_row: usize,
    of_family: usize,
}

impl Covers {
    /// None, of `max` that there may be, 8 at most.
    pub(crate) fn of(max: u8) -> Self {
        Self { all: ArrayVec::new(), max, of_row: 0, of_family: 0 }
    }

    /// Notes the tombstone at `at`.
    fn meet(&mut self, view: BlockView<'_>, at: usize) -> Result<(), ToMerge> {
        let CellValue::Inline(oldest) = view.value(at) else {
            unreachable!("only puts have large values")
        };
        let oldest = oldest.try_into().expect("tombstones were checked");
        let cover = Cover {
            sequence: view.sequence(at),
            oldest: Timestamp(i64::from_le_bytes(oldest)),
            newest: view.timestamp(at),
        };
        let hides_as_much = |other: &Cover| {
            other.sequence >= cover.sequence
                && other.oldest <= cover.oldest
                && other.newest >= cover.newest
        };
        if self.all.iter().any(hides_as_much) {
            return Ok(());
        }
        if self.all.len() >= usize::from(self.max) {
            Mark::CoversTooMany.hit();
            return Err(ToMerge);
        }
        self.all.try_push(cover).map_err(|_| ToMerge)
    }

    /// Goes on to `column`: what was met of another column, and of another family, is forgotten.
    fn enter(&mut self, column: &Column<'_>, family: FamilyId) {
        self.of_family = if column.family == family { self.of_family } else { self.of_row };
        self.all.truncate(self.of_family);
    }

    /// What was met last is of this scope.
    fn met(&mut self, scope: Scope) {
        match scope {
            Scope::Row => (self.of_row, self.of_family) = (self.all.len(), self.all.len()),
            Scope::Family => self.of_family = self.all.len(),
            Scope::Column => {}
        }
    }

    fn hide(&self, sequence: SequenceNumber, timestamp: Timestamp) -> bool {
        self.all.iter().any(|cover| {
            cover.sequence > sequence && cover.oldest <= timestamp && timestamp <= cover.newest
        })
    }

    /// Returns whether one of them hides all that was written before it.
    pub(crate) fn hide_all_before(&self) -> bool {
        self.all
            .iter()
            .any(|cover| cover.oldest == Timestamp::MIN && cover.newest == Timestamp::MAX)
    }
}

/// A put that a reader sees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeenPut<'g> {
    hit: RowHit<'g>,
    at: usize,
}

impl<'g> SeenPut<'g> {
    pub(crate) fn timestamp(&self) -> Timestamp {
        self.hit.view.timestamp(self.at)
    }

    /// It with its value, which is in the block or is `large`.
    fn with_large(&self, large: Option<&'g [u8]>) -> Option<Cell<'g>> {
        let view = self.hit.view;
        let value = match view.value(self.at) {
            CellValue::Inline(value) => value,
            CellValue::Large(_) => large?,
        };
        Some(simple_row::cell_of(view, self.at, value))
    }
}

impl<'g> RowHit<'g> {
    /// Returns whether the block has all entries of the row.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        let view = self.view;
        let began_before = self.row == 0 && view.continued();
        let goes_on = self.row + 1 == view.rows() && view.continues();
        !began_before && !goes_on
    }

    /// The newest put of `column` that a reader at `snapshot` sees, where `covers` are the
    /// tombstones that newer files have for the column; those of this row are added. With it,
    /// whether the row has anything of the column. The row is whole.
    pub(crate) fn newest_seen(
        &self,
        column: &Column<'_>,
        snapshot: SequenceNumber,
        covers: &mut Covers,
    ) -> Result<(Option<SeenPut<'g>>, bool), ToMerge> {
        let view = self.view;
        let mut rest = view.cells_of(self.row);
        let mut met = false;
        for scope in [Column::ROW, Column::family(column.family), *column] {
            let first = view.find_column(rest.clone(), &scope);
            rest.start = first;
            while !rest.is_empty() && view.column(view.id(rest.start)) == scope {
                let at = rest.start;
                rest.start += 1;
                let sequence = view.sequence(at);
                if sequence > snapshot {
                    continue;
                }
                met = true;
                match view.kind(at) {
                    Kind::Tombstone => covers.meet(view, at)?,
                    _ if covers.hide(sequence, view.timestamp(at)) => {}
                    Kind::Merge => return Err(ToMerge),
                    Kind::Put => return Ok((Some(SeenPut { hit: *self, at }), true)),
                }
            }
        }
        Ok((None, met))
    }

    /// Returns whether a tombstone of the row that a reader at `snapshot` sees hides all that was
    /// written before it. The row is whole.
    pub(crate) fn hides_all_before(&self, snapshot: SequenceNumber, covers_max: u8) -> bool {
        let view = self.view;
        let mut covers = Covers::of(covers_max);
        let tombstones = view
            .cells_of(self.row)
            .take_while(|at| view.column(view.id(*at)) == Column::ROW)
            .filter(|at| view.sequence(*at) <= snapshot);
        for at in tombstones {
            // Where it is one too many, those before were not enough.
            if covers.meet(view, at).is_err() {
                return false;
            }
        }
        covers.hide_all_before()
    }
}

/// Who looks at a row in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeenBy {
    /// The last sequence number it sees.
    pub(crate) snapshot: SequenceNumber,
    /// Tombstones that it keeps in mind.
    pub(crate) covers_max: u8,
}

/// The puts of a whole row that a reader sees and wants, in their order.
struct SeenCells<'a, 'w> {
    view: BlockView<'a>,
    wanted: WantedCells<'w>,
    snapshot: SequenceNumber,
    /// Entries in the part of the row that is being read.
    cells: Range<usize>,
    /// Of the wanted range of columns in `ahead`, its entries, after the family's tombstones.
    ahead: Range<usize>,
    /// Entries of the row behind both.
    rest: Range<usize>,
    /// Wanted ranges of columns that come after them.
    ranges: Range<usize>,
    covers: Covers,
    family: FamilyId,
    /// The column of the entry met last; of that column, puts found and the timestamp of the last.
    id: Option<usize>,
    versions: u32,
    last: Option<Timestamp>,
}

impl<'a, 'w> SeenCells<'a, 'w> {
    fn of(hit: &RowHit<'a>, wanted: WantedCells<'w>, by: SeenBy) -> Self {
        let SeenBy { snapshot, covers_max } = by;
        let (view, all) = (hit.view, hit.view.cells_of(hit.row));
        let none = all.end..all.end;
        let (cells, rest, ranges) = match wanted.columns {
            Columns::All => (all, none.clone(), 0..0),
            Columns::Ranges(ranges) => {
                let of_row = view.first_id_after(FamilyId::ROW);
                let behind = view.first_cell(all.clone(), of_row);
                (all.start..behind, behind..all.end, 0..ranges.len())
            }
        };
        Self {
            view,
            wanted,
            snapshot,
            cells,
            ahead: none,
            rest,
            ranges,
            covers: Covers::of(covers_max),
            family: FamilyId::ROW,
            id: None,
            versions: 0,
            last: None,
        }
    }

    /// The place of the next one.
    fn next(&mut self) -> Result<Option<usize>, ToMerge> {
        loop {
            let Some(at) = self.cells.next() else {
                if !self.next_part() {
                    return Ok(None);
                }
                continue;
            };
            if self.view.sequence(at) <= self.snapshot && self.judge(at)? {
                return Ok(Some(at));
            }
        }
    }

    /// Goes to the next part of the row; `false` if there is none.
    fn next_part(&mut self) -> bool {
        if !self.ahead.is_empty() {
            self.cells = std::mem::take(&mut self.ahead);
            return true;
        }
        let Columns::Ranges(ranges) = self.wanted.columns else { return false };
        let Some(range) = self.ranges.next() else { return false };
        let QualifierRange { family, start, end } = &ranges[range];
        let (view, rest) = (self.view, self.rest.clone());
        let tombstones = view.find_column(rest.clone(), &Column::family(*family));
        let columns = view.find_column(tombstones..rest.end, &Column::of(*family, b""));
        let first = view.find_column(columns..rest.end, &Column::of(*family, start));
        let behind = match end {
            Some(end) => view.find_column(first..rest.end, &Column::of(*family, end)),
            None => view.first_cell(first..rest.end, view.first_id_after(*family)),
        };
        (self.cells, self.ahead, self.rest.start) = (tombstones..columns, first..behind, behind);
        true
    }

    /// Returns whether an entry that the reader sees is a put that it is after.
    fn judge(&mut self, at: usize) -> Result<bool, ToMerge> {
        let view = self.view;
        let id = view.id(at);
        if self.id != Some(id) {
            let column = view.column(id);
            self.covers.enter(&column, self.family);
            (self.family, self.id, self.versions, self.last) = (column.family, Some(id), 0, None);
        }
        if view.kind(at) == Kind::Tombstone {
            self.covers.meet(view, at)?;
            self.covers.met(view.column(id).scope);
            return Ok(false);
        }
        let timestamp = view.timestamp(at);
        if !self.wanted.timestamps.contains(timestamp)
            || self.last == Some(timestamp)
            || self.covers.hide(view.sequence(at), timestamp)
            || self.wanted.versions_max.is_some_and(|max| self.versions >= max)
        {
            return Ok(false);
        }
        if view.kind(at) == Kind::Merge {
            return Err(ToMerge);
        }
        self.versions += 1;
        self.last = Some(timestamp);
        Ok(true)
    }
}

/// What a read lends of a row that needs no merging.
pub(crate) enum RowCells<'g> {
    /// The row is simple.
    Plain(RowHit<'g>),
    /// It is decided in place. All large values that are wanted, in the order of their cells.
    InBlock(RowHit<'g>, SeenBy, Vec<&'g [u8]>),
}

impl RowCells<'_> {
    /// Lends the cells, which are to be what was wanted when they were looked for, until `use_cell`
    /// breaks off. Gives how many it lent.
    pub(crate) fn lend(
        &self,
        wanted: &WantedCells<'_>,
        mut use_cell: impl FnMut(&Cell<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<u64, u64> {
        let mut lent = 0;
        let mut lend = |cell: &Cell<'_>| {
            lent += 1;
            use_cell(cell)
        };
        let ended = match self {
            Self::Plain(hit) => {
                let WantedCells { columns, timestamps, versions_max } = *wanted;
                let mut cells = hit.cells(columns);
                let mut next = || hit.next_of(&mut cells, columns, timestamps, versions_max);
                std::iter::from_fn(&mut next).try_for_each(|at| lend(&hit.cell(at)))
            }
            Self::InBlock(hit, by, large) => {
                let mut cells = SeenCells::of(hit, *wanted, *by);
                let mut next = || cells.next().expect("the row was walked before");
                let mut large = large.iter();
                std::iter::from_fn(&mut next).try_for_each(|at| {
                    let is_large = matches!(hit.view.value(at), CellValue::Large(_));
                    let value = if is_large { large.next().copied() } else { None };
                    let cell = SeenPut { hit: *hit, at }.with_large(value);
                    lend(&cell.expect("every large value was found"))
                })
            }
        };
        if ended.is_break() { ControlFlow::Break(lent) } else { ControlFlow::Continue(lent) }
    }
}

/// What came of looking for the large values of a row.
pub(crate) enum LargeValues<'g> {
    /// All are in memory.
    Found(Vec<&'g [u8]>),
    /// These are not.
    Missing(Vec<Missing>),
}

impl<'g> Descent<'g, '_> {
    /// A put of the row that was found, if its value is in memory.
    pub(crate) fn cell(
        &self,
        put: &SeenPut<'g>,
        pinned_blocks: &'g PinnedBlocks,
        pinned: &'g Guard,
    ) -> Result<Cell<'g>, Missing> {
        let large = match put.hit.view.value(put.at) {
            CellValue::Inline(_) => None,
            CellValue::Large(large) => {
                let found = self.large_value(put.hit.view, put.at, large, pinned_blocks, pinned);
                Some(found.ok_or(Missing::Large(large))?)
            }
        };
        Ok(put.with_large(large).expect("its large value was found"))
    }

    /// The large values among what a reader wants of the row that was found, of which it brings in
    /// `bytes_max` bytes together, and merges more, one after the other. The row is
    /// whole.
    pub(crate) fn large_values(
        &self,
        hit: &RowHit<'g>,
        wanted: &WantedCells<'_>,
        by: SeenBy,
        bytes_max: usize,
        pinned_blocks: &'g PinnedBlocks,
        pinned: &'g Guard,
    ) -> Result<LargeValues<'g>, ToMerge> {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        let mut cells = SeenCells::of(hit, *wanted, by);
        while let Some(at) = cells.next()? {
            let CellValue::Large(large) = hit.view.value(at) else { continue };
            bytes += large.len as usize;
            match self.large_value(hit.view, at, large, pinned_blocks, pinned) {
                Some(value) => found.push(value),
                None => missing.push(Missing::Large(large)),
            }
        }
        match missing.is_empty() {
            true => Ok(LargeValues::Found(found)),
            false if bytes > bytes_max && found.len() + missing.len() > 1 => {
                Mark::LargeValuesTooMany.hit();
                Err(ToMerge)
            }
            false => Ok(LargeValues::Missing(missing)),
        }
    }

    /// The large values that a merge may want of the row that was found and that are not in memory.
    /// None where they are too many to be brought in together.
    pub(crate) fn missing_large_values(
        &self,
        hit: &RowHit<'g>,
        wanted: &WantedCells<'_>,
        bytes_max: usize,
        pinned_blocks: &'g PinnedBlocks,
        pinned: &'g Guard,
    ) -> Vec<Missing> {
        let view = hit.view;
        let mut cells = SimpleCells::of(view.cells_of(hit.row), wanted.columns);
        let mut missing = Vec::new();
        let mut bytes = 0;
        while let Some(at) = cells.next(view, wanted.columns, wanted.timestamps, None) {
            let CellValue::Large(large) = view.value(at) else { continue };
            bytes += large.len as usize;
            if self.large_value(view, at, large, pinned_blocks, pinned).is_none() {
                missing.push(Missing::Large(large));
            }
        }
        if bytes > bytes_max { Vec::new() } else { missing }
    }

    /// The value `large` of the entry at `at` of the data block `view`, if it is in memory.
    fn large_value(
        &self,
        view: BlockView<'_>,
        at: usize,
        large: LargeValue,
        pinned_blocks: &'g PinnedBlocks,
        pinned: &'g Guard,
    ) -> Option<&'g [u8]> {
        // The block is where it just was, and the hints of its large values lie behind it.
        let hint =
            self.data_block(pinned).and_then(|block| block.hints.get(view.large_values_before(at)));
        self.sst().lent_large_value(large, hint, pinned_blocks, pinned)
    }
}

impl SstReader {
    fn lent_large_value<'g>(
        &'g self,
        large: LargeValue,
        hint: Option<&Hint>,
        pinned_blocks: &'g PinnedBlocks,
        pinned: &'g Guard,
    ) -> Option<&'g [u8]> {
        let key = self.key(large.handle);
        let block: Option<BlockRef<'g, Block>> = match hint {
            Some(hint) => self.cache().find(key, hint, pinned),
            None => self.cache().find(key, &Hint::default(), pinned),
        };
        match block {
            Some(block) if matches!(block.meta.0, Content::LargeValue) => Some(block.bytes),
            _ => pinned_blocks.large_value(key),
        }
    }
}
