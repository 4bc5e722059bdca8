//! A read of rows: engine scans through GC rules and filter into batches of row pieces. Blocks,
//! but for one batch at a time; between batches a read is a value that holds no thread.
//!
//! Invariants:
//! 1. All scans of a read see the same state, and GC rules are applied as of its beginning.
//! 2. What the engine is asked for (`request`) is a superset of what filter and GC rules need.
//!    Versions of a column are counted from the newest, so a read whose GC rules count them must
//!    not have newer ones cut off by timestamp.
//! 3. Cells go out as they come in, so that a row of any size needs the memory of a batch; only a
//!    filter with a condition holds a whole row.

use super::tables::parts;
use super::{Core, Table};
use crate::error::{Error, Result};
use crate::filter::compile::Plan;
use crate::filter::eval::{Evaluator, Shape};
use crate::filter::reach::Reach;
use crate::row::{Cell, ReadStats, RowBatch, RowPiece};
use crate::row_set;
use bytes::{Bytes, BytesMut};
use engine::{
    Direction, Engine, FamilyId, RowRange, Scan, ScanRequest, Snapshot, Timestamp, TreeId,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a batch, roughly: the last cell may go beyond it. Tests cut every few cells.
const BATCH_BYTES: usize = if cfg!(test) { 200 } else { 256 << 10 };
/// Rows and cells looked at for one batch, so that a read without results still reports where it
/// is and can be cancelled.
const BATCH_STEPS: usize = if cfg!(test) { 5 } else { 32 << 10 };
/// Values from this size on get memory of their own instead of the batch's.
const OWN_BYTES: usize = 16 << 10;
/// Memory taken at a time for the bytes of a batch.
const ARENA_BYTES: usize = 8 << 10;
/// What a piece costs beside its bytes.
const PIECE_BYTES: usize = 64;

/// A batch, and whether it is the last.
pub(super) struct Filled {
    pub(super) batch: RowBatch,
    pub(super) done: bool,
}

/// A read in progress. After an error it must not be used again.
pub(super) struct Reader {
    engine: Engine,
    table: Arc<Table>,
    evaluator: Evaluator,
    /// `None` for a read of one scan, which sees one state by itself.
    snapshot: Option<Snapshot>,
    now_micros: i64,
    request: ScanRequest,
    /// What is still to be scanned.
    parts: VecDeque<(TreeId, RowRange)>,
    scan: Option<Scan>,
    rows_left: u64,
    row: RowState,
    stats: ReadStats,
}

/// Where in a row the read is.
#[derive(Default)]
struct RowState {
    key: Vec<u8>,
    /// Whether the read is inside a row.
    open: bool,
    /// Whether the row has yielded a cell.
    started: bool,
    /// Whether rows without result came after the last one with a result.
    barren: bool,
    column: ColumnState,
    /// The cells of the row, for a filter that needs all of them.
    held: Vec<Held>,
}

/// Where in a column the read is.
#[derive(Default)]
struct ColumnState {
    /// `None` before the first column of a row.
    family: Option<FamilyId>,
    qualifier: Vec<u8>,
    /// The qualifier in memory of a batch, once a cell of that name was yielded. Rows of one
    /// column share it.
    yielded: Option<Bytes>,
    /// Cells of the column met so far.
    versions: u32,
}

struct Held {
    family: FamilyId,
    qualifier: Bytes,
    timestamp: Timestamp,
    value: Bytes,
}

/// The batch being filled.
#[derive(Default)]
struct Output {
    pieces: Vec<RowPiece>,
    bytes: usize,
    arena: BytesMut,
}

impl Output {
    fn push(&mut self, piece: RowPiece) {
        self.bytes += PIECE_BYTES;
        self.pieces.push(piece);
    }

    /// A copy of `bytes` in the memory of the batch.
    fn keep(&mut self, bytes: &[u8]) -> Bytes {
        self.bytes += bytes.len();
        if bytes.is_empty() {
            return Bytes::new();
        }
        if bytes.len() >= OWN_BYTES {
            return Bytes::copy_from_slice(bytes);
        }
        if self.arena.capacity() < bytes.len() {
            self.arena = BytesMut::with_capacity(ARENA_BYTES.max(bytes.len()));
        }
        self.arena.extend_from_slice(bytes);
        self.arena.split().freeze()
    }
}

impl Reader {
    /// A read of the rows in `ranges` (sorted, disjoint), at most `rows_limit` of them (0: all).
    pub(super) fn new(
        core: &Core,
        table: Arc<Table>,
        plan: Arc<Plan>,
        ranges: &[RowRange],
        direction: Direction,
        rows_limit: u64,
    ) -> Self {
        let mut request = ScanRequest { direction, ..ScanRequest::default() };
        let mut scans = VecDeque::new();
        if !plan.reach.is_nothing() {
            narrow(&mut request, &plan.reach, &table);
            let ranges = match &plan.reach.rows {
                Some(rows) => parts(&table.schema, &row_set::intersect(ranges, rows)),
                None => parts(&table.schema, ranges),
            };
            scans.extend(ranges);
            if direction == Direction::Reverse {
                scans.make_contiguous().reverse();
            }
        }
        Self {
            engine: core.engine.clone(),
            evaluator: Evaluator::new(plan, core.seed()),
            snapshot: (scans.len() > 1).then(|| core.engine.snapshot()),
            now_micros: core.clock.now_micros(),
            table,
            request,
            parts: scans,
            scan: None,
            rows_left: if rows_limit == 0 { u64::MAX } else { rows_limit },
            row: RowState::default(),
            stats: ReadStats::default(),
        }
    }

    /// The next batch.
    pub(super) fn fill(&mut self) -> Result<Filled> {
        let mut output = Output::default();
        let mut steps = 0;
        let done = loop {
            if output.bytes >= BATCH_BYTES || steps >= BATCH_STEPS {
                break false;
            }
            steps += 1;
            if !self.row.open && !self.next_row()? {
                break true;
            }
            if !self.next_cells(&mut output, &mut steps)? {
                self.end_row(&mut output);
            }
        };
        if !done && !self.row.open && self.row.barren {
            self.row.barren = false;
            let key = output.keep(&self.row.key);
            output.push(RowPiece::Scanned(key));
        }
        let batch = RowBatch { pieces: output.pieces, stats: self.stats };
        Ok(Filled { batch, done })
    }

    /// Whether the read yields any cell at all. Reads no further than it must.
    pub(super) fn yields_anything(&mut self) -> Result<bool> {
        loop {
            let filled = self.fill()?;
            if filled.batch.stats.cells_returned > 0 {
                return Ok(true);
            }
            if filled.done {
                return Ok(false);
            }
        }
    }

    /// Enters the next row; `false` at the end of the read.
    fn next_row(&mut self) -> Result<bool> {
        if self.rows_left == 0 {
            return Ok(false);
        }
        loop {
            if let Some(scan) = &mut self.scan {
                if let Some(key) = scan.next_row()? {
                    self.row.key.clear();
                    self.row.key.extend_from_slice(key);
                    self.row.column.family = None;
                    self.stats.rows_seen += 1;
                    let wanted = self.evaluator.begin_row(&self.row.key);
                    self.row.started = false;
                    self.row.open = true;
                    if !wanted {
                        self.row.open = false;
                        self.row.barren = true;
                    }
                    return Ok(true);
                }
                self.scan = None;
            }
            let Some((tree, rows)) = self.parts.pop_front() else { return Ok(false) };
            self.request.rows = rows;
            let scan = self.engine.scan(tree, &self.request, self.snapshot.as_ref());
            self.scan = Some(scan.map_err(|error| match error {
                engine::Error::UnknownTree(_) => Error::no_table(&self.table.schema.name),
                error => error.into(),
            })?);
        }
    }

    /// Takes cells of the row until the batch is full; `false` when the row has no more.
    fn next_cells(&mut self, output: &mut Output, steps: &mut usize) -> Result<bool> {
        let Self { scan, row, table, evaluator, stats, now_micros, .. } = self;
        let Some(scan) = scan.as_mut().filter(|_| row.open) else { return Ok(false) };
        let whole_rows = evaluator.plan().whole_rows;
        let mut shapes = Vec::new();
        while whole_rows || output.bytes < BATCH_BYTES && *steps < row.steps_max() {
            let Some(cell) = scan.next_cell()? else {
                if whole_rows {
                    row.yield_held(table, evaluator, output, stats);
                }
                return Ok(false);
            };
            *steps += 1;
            let Some(Some(family)) = table.families.get(usize::from(cell.family.0)) else {
                continue; // A dropped family.
            };
            let version = row.column.enter(cell.family, cell.qualifier);
            if version == 0 {
                evaluator.begin_column();
            }
            if family.gc.elides(version, cell.timestamp, *now_micros) {
                continue;
            }
            stats.cells_seen += 1;
            if whole_rows {
                row.hold(&cell, output);
                continue;
            }
            evaluator.cell(&cell, &mut shapes);
            if !shapes.is_empty() {
                let qualifier = row.column.qualifier(output);
                let strip = shapes.iter().all(|shape| shape.strip);
                let value = if strip { Bytes::new() } else { output.keep(cell.value) };
                let held =
                    Held { family: cell.family, qualifier, timestamp: cell.timestamp, value };
                for shape in shapes.drain(..) {
                    row.yield_cell(&held, shape, &family.name, evaluator.plan(), output, stats);
                }
            }
            if evaluator.row_is_done() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn end_row(&mut self, output: &mut Output) {
        if self.row.open {
            self.row.open = false;
            self.row.barren = !self.row.started;
            if self.row.started {
                output.push(RowPiece::End);
                self.stats.rows_returned += 1;
                self.rows_left -= 1;
            }
        }
    }
}

impl RowState {
    /// Steps at which a batch may end inside this row. A row without a result so far gets as many
    /// again, so that the batch ends after it and can say so; else wide rows would keep a read
    /// without results from ever saying where it is.
    fn steps_max(&self) -> usize {
        if self.started { BATCH_STEPS } else { 2 * BATCH_STEPS }
    }

    fn hold(&mut self, cell: &engine::Cell<'_>, output: &mut Output) {
        let qualifier = self.column.qualifier(output);
        let (family, timestamp) = (cell.family, cell.timestamp);
        self.held.push(Held { family, qualifier, timestamp, value: output.keep(cell.value) });
    }

    /// Evaluates the held cells of a complete row and yields what is left of them.
    fn yield_held(
        &mut self,
        table: &Table,
        evaluator: &mut Evaluator,
        output: &mut Output,
        stats: &mut ReadStats,
    ) {
        let held = std::mem::take(&mut self.held);
        let cells: Vec<engine::Cell<'_>> = held
            .iter()
            .map(|held| engine::Cell {
                family: held.family,
                qualifier: &held.qualifier,
                timestamp: held.timestamp,
                value: &held.value,
            })
            .collect();
        for (at, shape) in evaluator.row(&cells) {
            if let Some(family) = &table.families[usize::from(held[at].family.0)] {
                let plan = evaluator.plan();
                self.yield_cell(&held[at], shape, &family.name, plan, output, stats);
            }
        }
    }

    fn yield_cell(
        &mut self,
        held: &Held,
        shape: Shape,
        family: &Arc<str>,
        plan: &Plan,
        output: &mut Output,
        stats: &mut ReadStats,
    ) {
        if !self.started {
            self.started = true;
            let key = output.keep(&self.key);
            output.push(RowPiece::Start(key));
        }
        stats.cells_returned += 1;
        let label = usize::from(shape.label).checked_sub(1).and_then(|at| plan.labels.get(at));
        output.push(RowPiece::Cell(Cell {
            family: Arc::clone(family),
            qualifier: held.qualifier.clone(),
            timestamp: held.timestamp,
            value: if shape.strip { Bytes::new() } else { held.value.clone() },
            label: label.cloned(),
        }));
    }
}

impl ColumnState {
    /// Enters the column of the next cell; returns the cell's version in it.
    fn enter(&mut self, family: FamilyId, qualifier: &[u8]) -> u32 {
        let same_name = self.qualifier == qualifier;
        if same_name && self.family == Some(family) {
            self.versions = self.versions.saturating_add(1);
            return self.versions;
        }
        if !same_name {
            self.qualifier.clear();
            self.qualifier.extend_from_slice(qualifier);
            self.yielded = None;
        }
        self.family = Some(family);
        self.versions = 0;
        0
    }

    /// The qualifier in memory that can be yielded.
    fn qualifier(&mut self, output: &mut Output) -> Bytes {
        self.yielded.get_or_insert_with(|| output.keep(&self.qualifier)).clone()
    }
}

/// Asks the engine for no more than the filter and the GC rules of its families need.
fn narrow(request: &mut ScanRequest, reach: &Reach, table: &Table) {
    let families = || {
        let families = table.schema.families.values();
        families.filter(|family| reach.has_family(family.id))
    };
    request.columns = reach.columns.clone();
    request.timestamps = reach.timestamps;
    request.versions_max = reach.versions_max;
    if reach.timestamps.end.is_some() && families().any(|family| family.gc.counts_versions()) {
        request.timestamps.end = None;
        request.versions_max = None;
    }
    let kept: Option<Vec<u32>> = families().map(|family| family.gc.versions_max()).collect();
    if let Some(kept) = kept.and_then(|kept| kept.into_iter().max()) {
        let asked = request.versions_max.unwrap_or(u32::MAX);
        request.versions_max = Some(asked.min(kept));
    }
}
