//! What a reader sees of a row: the pass over its merged entries that applies deletes, snapshot
//! and merge operands. Its meaning is specified by `crate::semantics::model`.
//!
//! Invariants:
//! 1. Entries are met in the order of `crate::cell`, so when a cell is met every tombstone that
//!    can hide it was met before; `hiding` holds those of the row, of the current family and of
//!    the current column.
//! 2. A cell is hidden by a tombstone with a larger sequence number that covers its timestamp, by
//!    a newer entry of the same column and timestamp (unless that is a merge operand, which folds
//!    it in), and by a dropped range with a larger sequence number.
//! 3. A pass that came to the end of its budget stands on an entry that it has not judged, or in the
//!    operands of a cell (`Found::Operands`).

use crate::batch::TimestampRange;
use crate::cell::{Column, EntryKey, FamilyId, Kind, Scope, SequenceNumber, Timestamp};
use crate::error::Result;
use crate::marks::Mark;
use crate::merge_operator::{AnyOperand, Fold};
use crate::read::scan::step_budget::{LOAD_WORK, StepBudget};
use crate::request::{Cell, Columns, Wanted};
use crate::semantics::row_cursor::RowCursor;
use crate::sstable::WantedCells;

/// What of each row is asked for.
pub(crate) struct Selection {
    pub columns: Columns,
    pub timestamps: TimestampRange,
    /// At most this many cells of a column, the newest; `None` for all.
    pub versions_max: Option<u32>,
    /// Entries with a larger sequence number are not seen.
    pub snapshot: SequenceNumber,
}

impl Selection {
    /// The same of a row of which every entry is seen.
    #[inline]
    pub(crate) fn wanted(&self) -> WantedCells<'_> {
        WantedCells {
            columns: &self.columns,
            timestamps: self.timestamps,
            versions_max: self.versions_max,
        }
    }
}

#[derive(Clone, Copy)]
struct Cover {
    sequence: SequenceNumber,
    oldest: Timestamp,
    newest: Timestamp,
}

impl Cover {
    fn hides(&self, cell: &EntryKey<'_>) -> bool {
        self.sequence > cell.sequence
            && self.oldest <= cell.timestamp
            && cell.timestamp <= self.newest
    }
}

/// Tombstones that may hide what comes next (invariant 1).
#[derive(Default)]
struct Hiding {
    row: Vec<Cover>,
    family: Vec<Cover>,
    column: Vec<Cover>,
    /// Of the newest dropped range that covers the row.
    dropped: SequenceNumber,
}

/// Outcome of a search for the next row or cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    Found,
    /// No further row, or no further cell.
    End,
    /// The budget was spent before.
    Spent,
}

impl Search {
    /// A search that was made to its end.
    #[inline]
    pub(crate) fn of(found: bool) -> Self {
        if found { Self::Found } else { Self::End }
    }
}

/// Tombstones that cost a look at an entry a unit of work.
const COVERS_PER_UNIT: usize = 16;

impl Hiding {
    /// Returns the number of tombstones that each cell is compared with.
    #[inline]
    fn covers(&self) -> usize {
        self.row.len() + self.family.len() + self.column.len()
    }

    fn hides(&self, cell: &EntryKey<'_>) -> bool {
        cell.sequence < self.dropped
            || self.row.iter().any(|cover| cover.hides(cell))
            || self.family.iter().any(|cover| cover.hides(cell))
            || self.column.iter().any(|cover| cover.hides(cell))
    }
}

/// The pass over the rows of a cursor. Reused from row to row, so that it rarely allocates.
pub(crate) struct VisibleRow {
    hiding: Hiding,
    /// Family of `hiding.family` and of the current column.
    family: FamilyId,
    /// Qualifier of the current column, if `in_column`.
    qualifier: Vec<u8>,
    in_column: bool,
    /// Visible cells of the current column met so far, and the timestamp of the last.
    versions: u32,
    last: Option<Timestamp>,
    operands: Vec<AnyOperand>,
    /// Value of a folded cell.
    folded: Vec<u8>,
    found: Found,
    /// Cells that were met and not lent, since they were last asked for.
    skipped: u64,
}

/// Where the visible cell that was found lies.
#[derive(Clone, Copy)]
enum Found {
    Nothing,
    /// Under the cursor.
    AtCursor,
    /// Not yet: its operands are being gathered.
    Operands,
    /// In the pass itself, folded from operands: its timestamp.
    Folded(Timestamp),
}

/// What to do about the entry under the cursor.
enum Step {
    Next,
    SkipTo(FamilyId, SkipTarget),
    Tombstone,
    Operands,
    Found,
    RowDone,
}

/// A place in a family to skip to.
enum SkipTarget {
    /// Its tombstones.
    Family,
    /// The wanted column whose qualifier was put into the buffer.
    Buffered,
    /// Behind the current column.
    AfterColumn,
}

impl Default for VisibleRow {
    fn default() -> Self {
        Self {
            hiding: Hiding::default(),
            family: FamilyId::ROW,
            qualifier: Vec::new(),
            in_column: false,
            versions: 0,
            last: None,
            operands: Vec::new(),
            folded: Vec::new(),
            found: Found::Nothing,
            skipped: 0,
        }
    }
}

impl VisibleRow {
    /// Begins a row, of which `dropped` is the newest dropped range that the reader sees.
    pub(crate) fn begin(&mut self, dropped: SequenceNumber) {
        self.hiding.row.clear();
        self.hiding.family.clear();
        self.hiding.column.clear();
        self.hiding.dropped = dropped;
        self.family = FamilyId::ROW;
        self.in_column = false;
        self.found = Found::Nothing;
    }

    /// Returns the number of cells that were met and not lent, since this was last asked.
    pub(crate) fn take_skipped(&mut self) -> u64 {
        std::mem::take(&mut self.skipped)
    }

    /// Moves to the row's next visible cell that `selection` wants, until `budget` is spent on others.
    pub(crate) fn advance<C: RowCursor + ?Sized>(
        &mut self,
        cursor: &mut C,
        selection: &Selection,
        budget: &mut StepBudget<'_>,
    ) -> Result<Search> {
        match self.found {
            Found::AtCursor => cursor.next_entry()?,
            Found::Operands => return self.fold(cursor, selection, budget),
            Found::Nothing | Found::Folded(..) => {}
        }
        self.found = Found::Nothing;
        let mut scratch = Vec::new();
        loop {
            let Some(entry) = cursor.entry() else { return Ok(Search::End) };
            let mut loads = 0;
            match self.judge(&entry, selection, &mut scratch) {
                Step::Next => {
                    self.skipped += 1;
                    cursor.next_entry()?;
                }
                Step::SkipTo(family, target) => {
                    self.skipped += 1;
                    self.skip(cursor, family, target, &mut scratch)?;
                    loads = cursor.take_loads();
                }
                Step::Tombstone => {
                    self.take_tombstone(cursor)?;
                    cursor.next_entry()?;
                }
                Step::Operands => {
                    self.operands.clear();
                    return self.fold(cursor, selection, budget);
                }
                Step::Found => {
                    self.found = Found::AtCursor;
                    return Ok(Search::Found);
                }
                Step::RowDone => {
                    self.skipped += 1;
                    return Ok(Search::End);
                }
            }
            let covers = self.hiding.covers() / COVERS_PER_UNIT;
            if budget.spend(1 + covers as u64 + LOAD_WORK * loads) {
                return Ok(Search::Spent);
            }
        }
    }

    /// Skips to a place in `family`.
    fn skip<C: RowCursor + ?Sized>(
        &mut self,
        cursor: &mut C,
        family: FamilyId,
        target: SkipTarget,
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        let column = match target {
            SkipTarget::Family => Column::family(family),
            SkipTarget::Buffered => Column::of(family, scratch),
            SkipTarget::AfterColumn => {
                // The first qualifier greater than this one.
                scratch.clear();
                scratch.extend_from_slice(&self.qualifier);
                scratch.push(0);
                Column::of(family, scratch)
            }
        };
        cursor.skip_to_column(column)
    }

    /// The cell that `advance` found.
    pub(crate) fn cell<'a, C: RowCursor + ?Sized>(&'a self, cursor: &'a mut C) -> Result<Cell<'a>> {
        match &self.found {
            Found::AtCursor => {
                let entry = cursor.entry_with_value()?;
                Ok(Cell {
                    family: entry.column.family,
                    qualifier: entry.column.qualifier,
                    timestamp: entry.timestamp,
                    value: entry.value,
                })
            }
            Found::Folded(timestamp) => Ok(Cell {
                family: self.family,
                qualifier: &self.qualifier,
                timestamp: *timestamp,
                value: &self.folded,
            }),
            Found::Nothing | Found::Operands => {
                panic!("a cell is asked for only after advance found one")
            }
        }
    }

    fn judge(
        &mut self,
        entry: &EntryKey<'_>,
        selection: &Selection,
        scratch: &mut Vec<u8>,
    ) -> Step {
        self.enter(&entry.column);
        if entry.sequence > selection.snapshot {
            return Step::Next;
        }
        if entry.kind == Kind::Tombstone {
            return Step::Tombstone;
        }
        if let Some(step) = self.unwanted(entry, selection, scratch) {
            return step;
        }
        if self.last == Some(entry.timestamp) || self.hiding.hides(entry) {
            return Step::Next;
        }
        if selection.versions_max.is_some_and(|max| self.versions >= max) {
            return Step::SkipTo(self.family, SkipTarget::AfterColumn);
        }
        self.versions += 1;
        self.last = Some(entry.timestamp);
        if entry.kind == Kind::Merge { Step::Operands } else { Step::Found }
    }

    /// Notes a change of family or column.
    fn enter(&mut self, column: &Column<'_>) {
        if column.family != self.family {
            self.family = column.family;
            self.hiding.family.clear();
            self.in_column = false;
        }
        let same = self.in_column && self.qualifier == column.qualifier;
        if column.scope == Scope::Column && !same {
            self.in_column = true;
            self.qualifier.clear();
            self.qualifier.extend_from_slice(column.qualifier);
            self.hiding.column.clear();
            self.versions = 0;
            self.last = None;
        }
    }

    /// What to do with a cell outside the selection.
    fn unwanted(
        &self,
        entry: &EntryKey<'_>,
        selection: &Selection,
        scratch: &mut Vec<u8>,
    ) -> Option<Step> {
        match selection.columns.wants(entry.column) {
            Wanted::Yes => {}
            Wanted::NoMore => return Some(Step::RowDone),
            Wanted::NotBefore(next) if next.family != entry.column.family => {
                return Some(Step::SkipTo(next.family, SkipTarget::Family));
            }
            Wanted::NotBefore(next) => {
                scratch.clear();
                scratch.extend_from_slice(next.qualifier);
                return Some(Step::SkipTo(next.family, SkipTarget::Buffered));
            }
        }
        if entry.timestamp < selection.timestamps.start {
            return Some(Step::SkipTo(self.family, SkipTarget::AfterColumn));
        }
        (!selection.timestamps.contains(entry.timestamp)).then_some(Step::Next)
    }

    fn take_tombstone<C: RowCursor + ?Sized>(&mut self, cursor: &mut C) -> Result<()> {
        let entry = cursor.entry_with_value()?;
        let oldest = entry.tombstone_oldest();
        let oldest = oldest.expect("tombstones are checked when they enter memory");
        let cover = Cover { sequence: entry.sequence, oldest, newest: entry.timestamp };
        match entry.column.scope {
            Scope::Row => self.hiding.row.push(cover),
            Scope::Family => self.hiding.family.push(cover),
            Scope::Column => {
                // Timestamps descend within a column: what covers only newer ones is done.
                self.hiding.column.retain(|cover| cover.oldest <= entry.timestamp);
                self.hiding.column.push(cover);
            }
        }
        Ok(())
    }

    /// Folds the operands of the cell under the cursor, down to its base, and moves behind them.
    fn fold<C: RowCursor + ?Sized>(
        &mut self,
        cursor: &mut C,
        selection: &Selection,
        budget: &mut StepBudget<'_>,
    ) -> Result<Search> {
        let timestamp = self.last.expect("set for the cell that is being folded");
        self.found = Found::Operands;
        let mut fold = Fold::default();
        while let Some(key) = cursor.entry() {
            let same_cell = key.timestamp == timestamp
                && key.column == Column::of(self.family, &self.qualifier);
            if !same_cell {
                break;
            }
            if key.kind == Kind::Tombstone {
                // Older than the operands above it; it may hide those below.
                if key.sequence <= selection.snapshot {
                    self.take_tombstone(cursor)?;
                }
            } else if key.sequence <= selection.snapshot {
                if self.hiding.hides(&key) {
                    break;
                }
                let entry = cursor.entry_with_value()?;
                if entry.kind == Kind::Put {
                    fold = Fold::from_put(entry.value);
                    break;
                }
                let operand = AnyOperand::decode(entry.value);
                self.operands.push(operand.expect("operands are checked when they enter memory"));
            }
            cursor.next_entry()?;
            if budget.spend(1 + (self.hiding.covers() / COVERS_PER_UNIT) as u64) {
                Mark::StepSpentInOperands.hit();
                return Ok(Search::Spent);
            }
        }
        self.operands.drain(..).rev().for_each(|operand| fold.push(operand));
        self.folded.clear();
        fold.finish(&mut self.folded);
        self.found = Found::Folded(timestamp);
        Ok(Search::Found)
    }
}
