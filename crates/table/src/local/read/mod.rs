//! A read of rows: which scans and rows of the engine it consists of, and how they are read batch
//! by batch into a row output. Between batches a read is a value that holds no thread.
//!
//! Two ways to a batch. [`Reader::fill`] scans, and waits for the disk on its thread: for ranges. It
//! is one step, of bounded work and time ([`StepWork`]), whatever it finds.
//! [`Reader::fill_rows`] is for reads of named rows, and runs in a task: what is resident is read
//! at once, the blocks that are missing are awaited, those of several rows together. A row with
//! which that would take long, or would not do, is left to `fill`.
//!
//! Invariants:
//! 1. All scans and rows of a read see the same state, and GC rules are applied as of its
//!    beginning.
//! 2. What the engine is asked for (`request`) is a superset of what filter and GC rules need.
//!    Versions of a column are counted from the newest, so a read whose GC rules count them must
//!    not have newer ones cut off by timestamp.
//! 3. A row that a filter with conditions needs again is read again in the same snapshot.
//! 4. A step ends in time, and keeps the read's place. The key that a read without results has
//!    reached is told at the end of a step, if nothing was told for [`REPORT_AFTER`], and at the
//!    read's end.
//! 5. A task has no more than `Shape::task_steps` cells and `Shape::task_bytes` bytes to look at
//!    before it lets others run.

mod by_tablet;
mod pass;
pub(super) mod places;
pub(super) mod task;

use super::tables::parts;
use super::{ALONE, Core, Table};
use crate::error::{Error, Result};
use crate::filter::compile::Plan;
use crate::filter::reach::Reach;
use crate::marks::Mark;
use crate::meter::{Heat, TableMeter, Use};
use crate::row::RowBatch;
use crate::row_output::{Nothing, RowOutput};
use crate::row_set;
use crate::shape::Shape;
use base::env::Clock;
use by_tablet::ByTablet;
use engine::{
    Direction, Engine, RowEnd, RowRange, RowReads, RowSelection, Scan, ScanRequest, Snapshot,
    StepBudget, Stepped, TreeId,
};
use pass::{Needs, RowPass};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Time of a step. With [`REPORT_AFTER`], a read says where it is each tenth of a second.
const STEP_TIME: Duration = Duration::from_millis(50);
/// Time without output after which a read says which key it has reached.
const REPORT_AFTER: Duration = Duration::from_millis(50);
/// Units of work of the beginning of a scan.
const SCAN_WORK: u64 = 32;
/// Bytes of a value whose look costs a unit of work.
const BYTES_PER_UNIT: usize = 1 << 10;

/// A batch, and whether it is the last.
pub(super) struct Filled<B> {
    /// `None` if there is nothing to tell yet.
    pub(super) batch: Option<RowBatch<B>>,
    pub(super) done: bool,
}

/// The work of a step. It ends when its budget is spent; in a row that has no result so far, only
/// when the same was spent again, so that it ends after the row and can say so. Else wide rows would
/// keep a read without results from ever saying where it is.
struct StepWork<'a> {
    budget: StepBudget<'a>,
    again: Option<StepBudget<'a>>,
}

impl<'a> StepWork<'a> {
    fn new(shape: &Shape, clock: &'a dyn Clock) -> Self {
        let work = StepBudget::of_work(shape.batch_steps as u64);
        let again = StepBudget::of_work(shape.batch_steps as u64);
        Self {
            budget: work.within(STEP_TIME, clock),
            again: Some(again.within(2 * STEP_TIME, clock)),
        }
    }

    /// Returns whether the step is over, within a row that is open in `pass`.
    fn is_over_in_row(&mut self, pass: &RowPass) -> bool {
        if self.budget.is_spent()
            && !pass.has_started()
            && let Some(again) = self.again.take()
        {
            self.budget = again;
        }
        self.budget.is_spent()
    }
}

/// A read in progress. After an error it must not be used again.
pub(super) struct Reader {
    engine: Engine,
    /// `None` for a read of one scan or row, which sees one state by itself.
    snapshot: Option<Snapshot>,
    clock: Arc<dyn Clock>,
    /// When the read last gave a batch, or began.
    told: Duration,
    request: ScanRequest,
    /// Ranges that are still to be read.
    parts: VecDeque<(TreeId, RowRange)>,
    scan: Option<Scan>,
    /// The tree that it reads.
    tree: Option<TreeId>,
    /// The scan that goes on after the row which `scan` reads again.
    scan_after_row: Option<Scan>,
    /// `scan` has not come to its next row, nor to its end.
    searches: bool,
    /// `scan` was begun to read the row again, and has not come to it.
    seeks_row: bool,
    /// Each part is one row.
    named: bool,
    /// The filter makes few copies of a cell.
    few_copies: bool,
    /// The next row is not for a task.
    waits: bool,
    /// The first cell ends the read.
    first_only: bool,
    /// Steps by scans that were made.
    steps: usize,
    rows: Option<(TreeId, RowReads)>,
    rows_left: u64,
    pass: RowPass,
    /// Counts the rows that a read of ranges meets.
    heat: Option<Arc<Heat>>,
    /// Counts rows and bytes of a read over several tablets.
    by_tablet: Option<ByTablet>,
    shape: Shape,
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
            let ranges = parts_of(&table, &plan, ranges);
            scans.extend(ranges);
            if direction == Direction::Reverse {
                scans.make_contiguous().reverse();
            }
        }
        let may_read_again = plan.ranks > 0;
        Self {
            engine: core.engine.clone(),
            snapshot: (scans.len() > 1 || may_read_again).then(|| core.engine.snapshot()),
            clock: Arc::clone(&core.clock),
            told: core.clock.monotonic(),
            request,
            few_copies: plan.copies <= core.shape.task_copies,
            named: scans.iter().all(|(_, rows)| rows.is_single()),
            parts: scans,
            scan: None,
            tree: None,
            scan_after_row: None,
            searches: false,
            seeks_row: false,
            waits: false,
            first_only: false,
            steps: 0,
            rows: None,
            rows_left: if rows_limit == 0 { u64::MAX } else { rows_limit },
            pass: RowPass::new(table, plan, core.seed(), core.clock.now_micros(), &core.shape),
            heat: None,
            by_tablet: None,
            shape: core.shape,
        }
    }

    /// Counts the rows that are read: named rows at once, rows of ranges as the read meets them. A read that
    /// is part of a write is not counted, for its row counts as written. With `by_tablet`, rows and bytes are
    /// also counted in their tablets.
    pub(super) fn count_uses(&mut self, heat: &Arc<Heat>, by_tablet: Option<Arc<TableMeter>>) {
        self.by_tablet = by_tablet.map(ByTablet::new);
        if !self.named {
            self.heat = Some(Arc::clone(heat));
            return;
        }
        let table = &self.pass.table.schema.name;
        for (tree, row) in &self.parts {
            heat.used(table, *tree, Use::Read, &row.start);
        }
    }

    /// Returns whether the next batch is for [`Self::fill_rows`].
    pub(super) fn is_for_task(&self) -> bool {
        self.named && self.few_copies && !self.waits && self.scan.is_none()
    }

    /// Returns the number of steps by scans that were made, none of which ended the read.
    pub(super) fn steps(&self) -> usize {
        self.steps
    }

    /// Returns the clock of the read.
    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// The next step, by scans.
    pub(super) fn fill<S: RowOutput>(&mut self, output: &mut S) -> Result<Filled<S::Batch>> {
        self.fill_by(&*self.clock(), output)
    }

    /// The next step, by scans, which ends in time by `clock`.
    pub(super) fn fill_by<S: RowOutput>(
        &mut self,
        clock: &dyn Clock,
        output: &mut S,
    ) -> Result<Filled<S::Batch>> {
        let mut work = StepWork::new(&self.shape, clock);
        self.steps += 1;
        let done = loop {
            if self.pass.is_full() {
                Mark::BatchFull.hit();
                break false;
            }
            if work.budget.is_spent() {
                Mark::BatchOfSteps.hit();
                break false;
            }
            if !self.pass.is_open() {
                match self.next_row(&mut work.budget)? {
                    Stepped::Found(()) => {}
                    Stepped::End => break true,
                    Stepped::NotYet => continue,
                }
            }
            self.advance(output, &mut work)?;
            work.budget.spend(1);
        };
        if !self.pass.is_open() && self.named && !self.searches {
            // A named row has no other row after it.
            (self.scan, self.scan_after_row) = (None, None);
            self.waits = false;
        }
        Ok(self.batch(done, output))
    }

    /// Does what the row needs next.
    fn advance<S: RowOutput>(&mut self, output: &mut S, work: &mut StepWork<'_>) -> Result<()> {
        if !self.pass.is_open() {
            return Ok(()); // Nothing of the row can be yielded.
        }
        match self.pass.needs() {
            Needs::Cells => self.next_cells(output, work)?,
            Needs::Output => self.pass.drain(output),
            Needs::Again => self.read_again(&mut work.budget)?,
            Needs::End => {}
        }
        // At once, so that a batch that ends here ends after the row.
        if self.pass.needs() == Needs::End {
            self.end_row(output);
        }
        Ok(())
    }

    /// Lets the read end with its first cell.
    pub(super) fn stop_at_first_cell(&mut self) {
        self.pass.stop_at_first_cell();
        self.first_only = true;
    }

    /// Returns whether the read has yielded a cell.
    pub(super) fn has_yielded(&self) -> bool {
        self.pass.stats().cells_returned > 0
    }

    /// Returns whether the read yields any cell at all. Reads no further than the first.
    pub(super) fn yields_anything(&mut self) -> Result<bool> {
        self.stop_at_first_cell();
        loop {
            let filled = self.fill(&mut Nothing)?;
            if self.has_yielded() {
                return Ok(true);
            }
            if filled.done {
                return Ok(false);
            }
        }
    }

    /// The next batch of a read of named rows, without waiting on this thread. It may have nothing;
    /// then the next one is for `fill`.
    pub(super) async fn fill_rows<S: RowOutput>(
        &mut self,
        output: &mut S,
    ) -> Result<Filled<S::Batch>> {
        let (mut steps, mut bytes) = (0, 0);
        let done = loop {
            if self.rows_left == 0 || self.parts.is_empty() {
                break true;
            }
            if self.pass.is_full() || steps >= self.shape.task_steps {
                Mark::TaskBatchFull.hit();
                break false;
            }
            self.turn_to(self.parts.front().map(|(tree, _)| *tree));
            let before = self.pass.before_row();
            let first = steps == 0;
            steps += 1;
            if self.fill_row(output, &mut steps, &mut bytes).await? {
                self.parts.pop_front();
                self.end_row(output);
            } else {
                self.pass.forget(before, output);
                self.waits = first;
                break false;
            }
        };
        Ok(self.batch(done, output))
    }

    /// Reads the next named row; `false` if it was not read to its end, for there is too much of
    /// it or it has to wait for the disk on a thread.
    async fn fill_row<S: RowOutput>(
        &mut self,
        output: &mut S,
        steps: &mut usize,
        bytes: &mut usize,
    ) -> Result<bool> {
        let Self { engine, snapshot, request, parts, rows, pass, shape, first_only, .. } = self;
        let Some((tree, row)) = parts.front() else { return Ok(true) };
        let reads = match rows {
            Some((of, reads)) if of == tree => reads,
            _ => {
                let reader = engine.tree(*tree).map_err(|error| gone(error, &pass.table))?;
                &mut rows.insert((*tree, reader.row_reads(snapshot.as_ref()))).1
            }
        };
        let next = parts.iter().skip(1).take_while(|(of, _)| of == tree);
        let next = next.map(|(_, row)| row.start.as_slice());
        let ScanRequest { columns, timestamps, versions_max, .. } = request;
        let selection =
            RowSelection { columns, timestamps: *timestamps, versions_max: *versions_max };
        let (key, mut too_much, mut begun) = (row.start.as_slice(), false, false);
        let end = reads.read(key, next, &selection, |cell| {
            *steps += 1;
            *bytes += cell.value.len();
            too_much = *steps > shape.task_steps || *bytes > shape.task_bytes;
            if too_much || !begun && !pass.begin(key) {
                return ControlFlow::Break(());
            }
            begun = true;
            let flow = pass.cell(cell, output);
            if *first_only && pass.stats().cells_returned > 0 {
                return ControlFlow::Break(());
            }
            flow
        });
        let end = end.await.map_err(|error| gone(error, &pass.table))?;
        if begun && !too_much && end != RowEnd::Waits {
            too_much = !finish(pass, output);
        }
        if too_much {
            Mark::TaskRowTooMuch.hit();
        }
        Ok(end != RowEnd::Waits && !too_much)
    }

    /// Counts by tablet go on with the tablet of `tree`.
    fn turn_to(&mut self, tree: Option<TreeId>) {
        if let (Some(by_tablet), Some(tree)) = (&mut self.by_tablet, tree) {
            by_tablet.turn_to(tree, self.pass.stats());
        }
    }

    /// Ends a step. A read without results says where it is, but not with each step.
    fn batch<S: RowOutput>(&mut self, done: bool, output: &mut S) -> Filled<S::Batch> {
        if !done && self.pass.is_open() {
            Mark::BatchEndsInRow.hit();
        }
        if let Some(by_tablet) = &mut self.by_tablet {
            by_tablet.count(self.pass.stats());
        }
        let now = self.clock.monotonic();
        let is_due = done || now.saturating_sub(self.told) >= REPORT_AFTER;
        let told = self.pass.pause(is_due, output);
        if !told && !done {
            Mark::StepUntold.hit();
            return Filled { batch: None, done };
        }
        self.told = now;
        Filled { batch: Some(RowBatch { rows: output.take(), stats: self.pass.stats() }), done }
    }

    /// Enters the next row of the read.
    fn next_row(&mut self, budget: &mut StepBudget<'_>) -> Result<Stepped<()>> {
        if self.rows_left == 0 {
            return Ok(Stepped::End);
        }
        while !budget.is_spent() {
            if let Some(scan) = &mut self.scan {
                let found = match scan.next_row_within(budget)? {
                    Stepped::Found(key) => {
                        // A row that is read again was counted.
                        if let (Some(heat), Some(tree), None) =
                            (&self.heat, self.tree, &self.scan_after_row)
                        {
                            heat.used(&self.pass.table.schema.name, tree, Use::Read, key);
                        }
                        self.pass.begin(key);
                        Stepped::Found(())
                    }
                    Stepped::End => Stepped::End,
                    Stepped::NotYet => Stepped::NotYet,
                };
                // A scan that reads a row again skips what was counted before.
                if self.scan_after_row.is_none() {
                    self.pass.skipped(scan.take_skipped(), scan.reached());
                }
                self.searches = found == Stepped::NotYet;
                if found != Stepped::End {
                    return Ok(found);
                }
                self.scan = self.scan_after_row.take();
                continue;
            }
            let Some((tree, rows)) = self.parts.pop_front() else { return Ok(Stepped::End) };
            self.turn_to(Some(tree));
            self.scan = Some(self.start_scan(tree, rows)?);
            self.tree = Some(tree);
            self.searches = true;
            budget.spend(SCAN_WORK);
        }
        Ok(Stepped::NotYet)
    }

    fn start_scan(&mut self, tree: TreeId, rows: RowRange) -> Result<Scan> {
        self.request.rows = rows;
        let scan = self
            .engine
            .tree(tree)
            .and_then(|tree| tree.scan(&self.request, self.snapshot.as_ref()));
        scan.map_err(|error| gone(error, &self.pass.table))
    }

    /// Goes back to the first cell of the row.
    fn read_again(&mut self, budget: &mut StepBudget<'_>) -> Result<()> {
        let Some(tree) = self.tree else { return Ok(()) };
        if !self.seeks_row {
            let scan = self.start_scan(tree, RowRange::single(self.pass.key()))?;
            let scan = self.scan.replace(scan);
            if self.scan_after_row.is_none() {
                self.scan_after_row = scan;
            }
            self.seeks_row = true;
        }
        let Some(scan) = &mut self.scan else { return Ok(()) };
        let found = match scan.next_row_within(budget)? {
            Stepped::NotYet => return Ok(()),
            found => found != Stepped::End,
        };
        self.seeks_row = false;
        self.pass.begin_again();
        if !found {
            // GC rules may have taken the rest of the row meanwhile.
            self.pass.all_taken();
        }
        Ok(())
    }

    /// Takes cells of the row until it needs something else, the batch is full or the step over.
    fn next_cells<S: RowOutput>(&mut self, output: &mut S, work: &mut StepWork<'_>) -> Result<()> {
        let Self { scan: Some(scan), pass, .. } = self else { return Ok(()) };
        while !pass.is_full() && !work.is_over_in_row(pass) {
            match scan.next_cell_within(&mut work.budget)? {
                Stepped::Found(cell) => {
                    work.budget.spend(1 + (cell.value.len() / BYTES_PER_UNIT) as u64);
                    if pass.cell(&cell, output).is_break() {
                        return Ok(());
                    }
                }
                Stepped::End => {
                    pass.all_taken();
                    return Ok(());
                }
                Stepped::NotYet => {}
            }
        }
        Ok(())
    }

    fn end_row<S: RowOutput>(&mut self, output: &mut S) {
        if self.pass.end(output) {
            self.rows_left -= 1;
        }
    }
}

/// Finishes a row that was read to its end; `false` if it is not for a task.
fn finish<S: RowOutput>(pass: &mut RowPass, output: &mut S) -> bool {
    if pass.needs() == Needs::Cells {
        pass.all_taken();
    }
    if pass.needs() == Needs::Output {
        pass.drain(output);
    }
    pass.needs() == Needs::End
}

/// The parts of `ranges` (sorted, disjoint) that a read by `plan` looks at, in row order.
pub(super) fn parts_of(table: &Table, plan: &Plan, ranges: &[RowRange]) -> Vec<(TreeId, RowRange)> {
    match &plan.reach.rows {
        _ if plan.reach.is_nothing() => Vec::new(),
        Some(rows) => parts(&table.schema, &row_set::intersect(ranges, rows)),
        None => parts(&table.schema, ranges),
    }
}

/// An error of a read of `table`, whose trees are dropped only with it. In a cluster a tree is also not there
/// where this node has no replica of the tablet.
pub(super) fn gone(error: engine::Error, table: &Table) -> Error {
    match error {
        engine::Error::UnknownTree(_) if table.version != ALONE => {
            Error::NotLeader { leader: None }
        }
        engine::Error::UnknownTree(_) => Error::no_table(&table.schema.name),
        error => error.into(),
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
