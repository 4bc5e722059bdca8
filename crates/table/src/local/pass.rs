//! The way of a row from the engine to the row output: GC rules, then the filter, cell by cell.
//!
//! Cells go out as they come in, so that a row of any size needs no memory of its own; only a
//! filter with a condition holds a whole row.

use super::Table;
use crate::filter::compile::Plan;
use crate::filter::eval::{Evaluator, Shape};
use crate::row::ReadStats;
use crate::row_output::{RowOutput, YieldedCell};
use engine::{FamilyId, Timestamp};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// Approximate cost of a cell in a batch, besides its bytes.
const CELL_BYTES: usize = 16;

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
    /// Empty; kept for its memory.
    shapes: Vec<Shape>,
    given: Given,
}

/// Counts of what the row output got.
#[derive(Default)]
struct Given {
    /// True if the row has yielded a cell.
    started: bool,
    /// Bytes since the batch began, roughly.
    bytes: usize,
    stats: ReadStats,
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

/// The cells of a row, for a filter that needs all of them.
#[derive(Default)]
struct HeldCells {
    cells: Vec<(FamilyId, Timestamp, Range<usize>, Range<usize>)>,
    /// Their qualifiers and values.
    bytes: Vec<u8>,
}

impl RowPass {
    /// Rows of `table` through `plan`, at the time `now_micros`.
    pub(super) fn new(table: Arc<Table>, plan: Arc<Plan>, seed: u64, now_micros: i64) -> Self {
        Self {
            table,
            evaluator: Evaluator::new(plan, seed),
            now_micros,
            key: Vec::new(),
            open: false,
            barren: None,
            column: ColumnState::default(),
            held: HeldCells::default(),
            shapes: Vec::new(),
            given: Given::default(),
        }
    }

    /// Returns the statistics of the read so far.
    pub(super) fn stats(&self) -> ReadStats {
        self.given.stats
    }

    /// Bytes given to the row output since the batch began, and held for it, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.given.bytes
    }

    /// Returns whether the read is inside a row.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns whether the row has yielded a cell.
    pub(super) fn has_started(&self) -> bool {
        self.given.started
    }

    /// Returns whether the filter needs all cells of a row before it yields any.
    pub(super) fn holds_rows(&self) -> bool {
        self.evaluator.plan().whole_rows
    }

    /// Begins a row; `false` if nothing of it can be yielded, and then it is over.
    pub(super) fn begin(&mut self, key: &[u8]) -> bool {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.column.family = None;
        self.given.stats.rows_seen += 1;
        self.given.started = false;
        self.open = self.evaluator.begin_row(key);
        if !self.open {
            self.note_barren();
        }
        self.open
    }

    /// Takes the row's next cell; breaks off when the row can yield no more.
    pub(super) fn cell<S: RowOutput>(
        &mut self,
        cell: &engine::Cell<'_>,
        output: &mut S,
    ) -> ControlFlow<()> {
        let Self { table, evaluator, column, shapes, given, key, .. } = self;
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
        given.stats.cells_seen += 1;
        if evaluator.plan().whole_rows {
            given.bytes += self.held.push(cell) + CELL_BYTES;
            return ControlFlow::Continue(());
        }
        evaluator.cell(cell, shapes);
        for shape in shapes.drain(..) {
            given.cell(key, &family.name, cell, shape, evaluator.plan(), output);
        }
        match evaluator.row_is_done() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Ends the row, all of whose cells were taken; whether it had a result.
    pub(super) fn end<S: RowOutput>(&mut self, output: &mut S) -> bool {
        if !self.open {
            return false;
        }
        if !self.held.cells.is_empty() {
            self.yield_held(output);
        }
        self.open = false;
        let started = std::mem::take(&mut self.given.started);
        if started {
            self.barren = None;
            output.end();
            self.given.stats.rows_returned += 1;
        } else {
            self.note_barren();
        }
        started
    }

    /// Takes back the row that is open, if one is: it was not read to its end. `stats` are those
    /// before it.
    pub(super) fn forget<S: RowOutput>(&mut self, stats: ReadStats, output: &mut S) {
        self.given.stats = stats;
        self.held.clear();
        self.open = false;
        if std::mem::take(&mut self.given.started) {
            output.forget();
        }
    }

    /// Ends a batch which is not the read's last: says how far the read is, if it has not said so
    /// by a row.
    pub(super) fn pause<S: RowOutput>(&mut self, output: &mut S) {
        if !self.open
            && let Some(key) = self.barren.take()
        {
            output.scanned(&key);
        }
        self.given.bytes = 0;
    }

    fn note_barren(&mut self) {
        let barren = self.barren.get_or_insert_default();
        barren.clear();
        barren.extend_from_slice(&self.key);
    }

    /// Evaluates the held cells of the complete row and yields what is left of them.
    fn yield_held<S: RowOutput>(&mut self, output: &mut S) {
        let Self { table, evaluator, held, given, key, .. } = self;
        let cells: Vec<engine::Cell<'_>> = held.cells().collect();
        for (at, shape) in evaluator.row(&cells) {
            if let Some(family) = &table.families[usize::from(cells[at].family.0)] {
                given.cell(key, &family.name, &cells[at], shape, evaluator.plan(), output);
            }
        }
        held.clear();
    }
}

impl Given {
    fn cell<S: RowOutput>(
        &mut self,
        key: &[u8],
        family: &Arc<str>,
        cell: &engine::Cell<'_>,
        shape: Shape,
        plan: &Plan,
        output: &mut S,
    ) {
        if !self.started {
            self.started = true;
            self.bytes += key.len();
            output.start(key);
        }
        let value = if shape.strip { &[] } else { cell.value };
        let label = usize::from(shape.label).checked_sub(1).and_then(|at| plan.labels.get(at));
        let (qualifier, timestamp) = (cell.qualifier, cell.timestamp);
        output.cell(&YieldedCell { family, qualifier, timestamp, value, label });
        self.bytes += CELL_BYTES + value.len();
        self.stats.cells_returned += 1;
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
    /// Adds a copy of `cell`; returns the bytes it takes.
    fn push(&mut self, cell: &engine::Cell<'_>) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(cell.qualifier);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(cell.value);
        let end = self.bytes.len();
        self.cells.push((cell.family, cell.timestamp, start..middle, middle..end));
        end - start
    }

    fn cells(&self) -> impl Iterator<Item = engine::Cell<'_>> {
        self.cells.iter().map(|(family, timestamp, qualifier, value)| engine::Cell {
            family: *family,
            qualifier: &self.bytes[qualifier.clone()],
            timestamp: *timestamp,
            value: &self.bytes[value.clone()],
        })
    }

    fn clear(&mut self) {
        self.cells.clear();
        self.bytes.clear();
    }
}
