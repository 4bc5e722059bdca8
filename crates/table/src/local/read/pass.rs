//! The way of a row from the engine to the row output: GC rules, then the filter, cell by cell.
//!
//! Cells go out as they come in, so that a row of any size needs no memory of its own. A filter with
//! conditions needs a row several times (see `filter/eval.rs`): a row of up to `Shape::held_bytes` is
//! held while it is read, a larger one is read again.
//!
//! The reader asks what a row [needs](RowPass::needs) next: more cells, room in the output, the row
//! once more, or its end.
//!
//! Invariants:
//! 1. Between two batches at most one cell is held, of whose copies only some went into the output, or
//!    the cells of one row of at most `Shape::held_bytes`.
//! 2. A batch ends after the cell copy with which it has `Shape::batch_bytes`, or as many as the output
//!    takes at once.

use crate::filter::compile::Plan;
use crate::filter::eval::{Evaluator, Shape as CopyShape};
use crate::local::Table;
use crate::marks::Mark;
use crate::row::ReadStats;
use crate::row_output::{RowOutput, YieldedCell};
use crate::shape::Shape;
use engine::{FamilyId, Skipped, Timestamp};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Approximate cost of a cell in a batch, besides its bytes.
const CELL_BYTES: usize = 16;
/// Most memory of held cells that is kept from row to row.
const KEPT_BYTES: usize = 256 << 10;

/// The rows of a read, one after the other.
pub(super) struct RowPass {
    pub(super) table: Arc<Table>,
    evaluator: Evaluator,
    /// GC rules are applied as of the read's beginning.
    now_micros: i64,
    key: Vec<u8>,
    /// True if the read is inside a row.
    open: bool,
    /// The last row without a result, if it came after the last one with a result. Told apart from
    /// `key`, whose row may be forgotten.
    barren: Option<Vec<u8>>,
    column: ColumnState,
    held: HeldCells,
    /// Copies of the cell of this pass; those before `copies_given` are in the output.
    copies: Vec<CopyShape>,
    copies_given: usize,
    /// No more cells of the row are wanted from this reading of it.
    taken: bool,
    /// The row is too large to be held.
    too_large: bool,
    /// The row is read for the first time.
    first_reading: bool,
    given: Given,
    batch_bytes: usize,
    held_bytes: usize,
}

/// The next thing that a row needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// The next cells of the row.
    Cells,
    /// Room in the output, for cells that are held.
    Output,
    /// Another reading from its start.
    Again,
    /// The end of the row.
    End,
}

/// Counts of what the row output got.
#[derive(Default)]
struct Given {
    /// True if the row has yielded a cell.
    started: bool,
    /// Bytes since the batch began, roughly: 0 only if the output got nothing.
    bytes: usize,
    /// Bytes that the output wants in a batch at most; nothing before the first row.
    bytes_max: Option<usize>,
    stats: ReadStats,
}

/// The counts before a row that may be forgotten.
pub(super) struct BeforeRow {
    stats: ReadStats,
    bytes: usize,
}

/// Position of the read in a column.
#[derive(Default)]
struct ColumnState {
    /// `None` before the first column of a row.
    family: Option<FamilyId>,
    qualifier: Vec<u8>,
    /// Cells of the column met so far.
    versions: u32,
}

/// Cells of a row that are not yet in the output.
#[derive(Default)]
struct HeldCells {
    /// The index of the next one.
    next: usize,
    cells: Vec<(FamilyId, Timestamp, Range<usize>, Range<usize>)>,
    /// Their qualifiers and values.
    bytes: Vec<u8>,
}

impl RowPass {
    /// Rows of `table` through `plan`, at the time `now_micros`.
    pub(super) fn new(
        table: Arc<Table>,
        plan: Arc<Plan>,
        seed: u64,
        now_micros: i64,
        shape: &Shape,
    ) -> Self {
        Self {
            table,
            evaluator: Evaluator::new(plan, seed),
            now_micros,
            key: Vec::new(),
            open: false,
            barren: None,
            column: ColumnState::default(),
            held: HeldCells::default(),
            copies: Vec::new(),
            copies_given: 0,
            taken: false,
            too_large: false,
            first_reading: true,
            given: Given::default(),
            batch_bytes: shape.batch_bytes,
            held_bytes: shape.held_bytes,
        }
    }

    /// Returns the statistics of the read so far.
    pub(super) fn stats(&self) -> ReadStats {
        self.given.stats
    }

    /// Returns whether the output has the bytes of a batch, roughly.
    pub(super) fn is_full(&self) -> bool {
        let output_is_full = self.given.bytes_max.is_some_and(|max| self.given.bytes >= max);
        output_is_full || self.given.bytes >= self.batch_bytes
    }

    /// Lets a batch end after its first cell.
    pub(super) fn stop_at_first_cell(&mut self) {
        self.batch_bytes = 1;
    }

    /// Returns whether the read is inside a row.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns whether the row has yielded a cell.
    pub(super) fn has_started(&self) -> bool {
        self.given.started
    }

    /// Returns the key of the row.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns what the open row needs next.
    pub(super) fn needs(&self) -> Needs {
        if self.taken && self.too_large {
            return Needs::Again;
        }
        match (self.taken, self.evaluator.is_deciding() || self.held.cells.is_empty()) {
            (_, false) => Needs::Output,
            (false, true) => Needs::Cells,
            (true, true) => Needs::End,
        }
    }

    /// Begins a row; `false` if nothing of it can be yielded, and then it is over.
    pub(super) fn begin(&mut self, key: &[u8]) -> bool {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.column.family = None;
        (self.taken, self.too_large, self.first_reading) = (false, false, true);
        self.given.stats.rows_seen += 1;
        self.given.started = false;
        self.open = self.evaluator.begin_row(key);
        if !self.open {
            self.note_barren();
        }
        self.open
    }

    /// Begins to read the row again, from its first cell.
    pub(super) fn begin_again(&mut self) {
        Mark::RowReadAgain.hit();
        self.column.family = None;
        (self.taken, self.first_reading) = (false, false);
        self.too_large = self.evaluator.is_deciding();
    }

    /// Takes the row's next cell; breaks off when it [needs](Self::needs) something else then.
    pub(super) fn cell<S: RowOutput>(
        &mut self,
        cell: &engine::Cell<'_>,
        output: &mut S,
    ) -> ControlFlow<()> {
        let Self { table, evaluator, column, copies, given, .. } = self;
        let Some(Some(family)) = table.families.get(usize::from(cell.family.0)) else {
            return ControlFlow::Continue(()); // A dropped family.
        };
        let version = column.enter(cell.family, cell.qualifier);
        if version == 0 {
            evaluator.begin_column();
        }
        if family.gc.elides(version, cell.timestamp, self.now_micros) {
            return ControlFlow::Continue(());
        }
        given.stats.cells_seen += u64::from(self.first_reading);
        if evaluator.is_deciding() {
            return self.decide(cell);
        }
        evaluator.cell(cell, copies);
        if !self.give_copies(cell, output) {
            Mark::CopiesInBatches.hit();
            self.held.push(cell);
            return ControlFlow::Break(());
        }
        self.stop_if_done()
    }

    /// Lets conditions see a cell, and holds it for the passes to come.
    fn decide(&mut self, cell: &engine::Cell<'_>) -> ControlFlow<()> {
        let decided = self.evaluator.decide(cell, &mut self.copies);
        if !self.too_large {
            self.too_large = self.held.bytes_with(cell) > self.held_bytes;
            match self.too_large {
                true => self.held.clear(),
                false => self.held.push(cell),
            }
        }
        if self.too_large && decided {
            self.all_taken();
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Tells that the row has no more cells.
    pub(super) fn all_taken(&mut self) {
        self.taken = true;
        if self.evaluator.is_deciding() {
            self.evaluator.end_pass();
        }
        if self.too_large {
            return;
        }
        while self.evaluator.is_deciding() {
            let mut column = ColumnState::default();
            for cell in self.held.cells() {
                if column.enter(cell.family, cell.qualifier) == 0 {
                    self.evaluator.begin_column();
                }
                if self.evaluator.decide(&cell, &mut self.copies) {
                    break;
                }
            }
            self.evaluator.end_pass();
        }
        self.column.family = None;
    }

    /// Gives held cells to the output until it is full.
    pub(super) fn drain<S: RowOutput>(&mut self, output: &mut S) {
        let mut held = std::mem::take(&mut self.held);
        while let Some(cell) = held.next() {
            if self.copies.is_empty() {
                if self.column.enter(cell.family, cell.qualifier) == 0 {
                    self.evaluator.begin_column();
                }
                self.evaluator.cell(&cell, &mut self.copies);
            }
            if !self.give_copies(&cell, output) {
                self.held = held;
                return;
            }
            held.next += 1;
            if self.stop_if_done().is_break() {
                break;
            }
        }
        held.clear();
        self.held = held;
    }

    /// Gives copies of `cell` to the output; `false` if it became full before the last of them.
    fn give_copies<S: RowOutput>(&mut self, cell: &engine::Cell<'_>, output: &mut S) -> bool {
        let family = self.table.families[usize::from(cell.family.0)].as_ref();
        let plan = self.evaluator.plan();
        while let (Some(family), Some(copy)) = (family, self.copies.get(self.copies_given)) {
            if self.copies_given > 0 && self.is_full() {
                return false;
            }
            self.given.cell(&self.key, &family.name, cell, *copy, plan, output);
            self.copies_given += 1;
        }
        self.copies.clear();
        self.copies_given = 0;
        true
    }

    fn stop_if_done(&mut self) -> ControlFlow<()> {
        if self.evaluator.row_is_done() {
            self.taken = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Ends the row, which needs nothing else; whether it had a result.
    pub(super) fn end<S: RowOutput>(&mut self, output: &mut S) -> bool {
        if !self.open {
            return false;
        }
        self.open = false;
        let started = std::mem::take(&mut self.given.started);
        if started {
            self.barren = None;
            output.end();
            self.given.bytes += 1;
            self.given.stats.rows_returned += 1;
        } else {
            self.note_barren();
        }
        started
    }

    /// Returns what the output got, to go back to by [`Self::forget`].
    pub(super) fn before_row(&self) -> BeforeRow {
        BeforeRow { stats: self.given.stats, bytes: self.given.bytes }
    }

    /// Takes back the row that is open, if one is: it was not read to its end.
    pub(super) fn forget<S: RowOutput>(&mut self, before: BeforeRow, output: &mut S) {
        (self.given.stats, self.given.bytes) = (before.stats, before.bytes);
        self.held.clear();
        self.copies.clear();
        self.copies_given = 0;
        self.open = false;
        if std::mem::take(&mut self.given.started) {
            output.forget();
        }
    }

    /// Ends a step: if it `is_due`, says how far the read is, unless a row says so. Returns whether the
    /// output got anything in this batch.
    pub(super) fn pause<S: RowOutput>(&mut self, is_due: bool, output: &mut S) -> bool {
        let mut told = std::mem::take(&mut self.given.bytes) > 0;
        if is_due
            && !self.open
            && let Some(key) = self.barren.take()
        {
            output.scanned(&key);
            told = true;
        }
        told
    }

    /// Counts what the engine skipped since it was last asked; `reached` is the last row that it skipped,
    /// if it comes after all others. That one may have been told before.
    pub(super) fn skipped(&mut self, skipped: Skipped, reached: Option<&[u8]>) {
        self.given.stats.rows_seen += skipped.rows;
        self.given.stats.cells_seen += skipped.cells;
        if let Some(key) = reached.filter(|_| skipped.rows > 0) {
            note(&mut self.barren, key);
        }
    }

    fn note_barren(&mut self) {
        note(&mut self.barren, &self.key);
    }
}

fn note(barren: &mut Option<Vec<u8>>, key: &[u8]) {
    let barren = barren.get_or_insert_default();
    barren.clear();
    barren.extend_from_slice(key);
}

impl Given {
    fn cell<S: RowOutput>(
        &mut self,
        key: &[u8],
        family: &Arc<str>,
        cell: &engine::Cell<'_>,
        shape: CopyShape,
        plan: &Plan,
        output: &mut S,
    ) {
        if !self.started {
            self.started = true;
            self.bytes += key.len();
            self.stats.bytes_returned += key.len() as u64;
            self.bytes_max = Some(output.batch_bytes_max());
            output.start(key);
        }
        let value = if shape.strip { &[] } else { cell.value };
        let label = usize::from(shape.label).checked_sub(1).and_then(|at| plan.labels.get(at));
        let (qualifier, timestamp) = (cell.qualifier, cell.timestamp);
        output.cell(&YieldedCell { family, qualifier, timestamp, value, label });
        self.bytes += CELL_BYTES + value.len();
        self.stats.cells_returned += 1;
        self.stats.bytes_returned += value.len() as u64;
    }
}

impl ColumnState {
    /// Enters the column of the next cell; returns the cell's version in it.
    fn enter(&mut self, family: FamilyId, qualifier: &[u8]) -> u32 {
        if self.family == Some(family) && self.qualifier == qualifier {
            self.versions = self.versions.saturating_add(1);
            return self.versions;
        }
        self.qualifier.clear();
        self.qualifier.extend_from_slice(qualifier);
        self.family = Some(family);
        self.versions = 0;
        0
    }
}

impl HeldCells {
    /// Adds a copy of `cell`.
    fn push(&mut self, cell: &engine::Cell<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(cell.qualifier);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(cell.value);
        let end = self.bytes.len();
        self.cells.push((cell.family, cell.timestamp, start..middle, middle..end));
    }

    /// Returns the bytes of all cells and `cell`, roughly.
    fn bytes_with(&self, cell: &engine::Cell<'_>) -> usize {
        let cells = self.cells.len() + 1;
        self.bytes.len() + cell.qualifier.len() + cell.value.len() + cells * CELL_BYTES
    }

    fn cells(&self) -> impl Iterator<Item = engine::Cell<'_>> {
        (0..self.cells.len()).filter_map(|at| self.get(at))
    }

    fn get(&self, at: usize) -> Option<engine::Cell<'_>> {
        let (family, timestamp, qualifier, value) = self.cells.get(at)?;
        Some(engine::Cell {
            family: *family,
            qualifier: &self.bytes[qualifier.clone()],
            timestamp: *timestamp,
            value: &self.bytes[value.clone()],
        })
    }

    fn next(&self) -> Option<engine::Cell<'_>> {
        self.get(self.next)
    }

    fn clear(&mut self) {
        self.next = 0;
        self.cells.clear();
        self.bytes.clear();
        // The memory of a large value is not kept for the rest of the read.
        self.bytes.shrink_to(KEPT_BYTES);
    }
}
