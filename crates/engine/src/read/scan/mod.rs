//! A scan in progress: rows of one view, at one snapshot, in either direction.
//!
//! Invariant: a scan whose step came to the end of its budget has lost nothing. It stands between two
//! rows ([`State::Passed`]), in a row of which it has seen no visible cell yet ([`State::Searching`]),
//! or between two cells of a row, and goes on from there.

pub(crate) mod scan_source;
pub(crate) mod span_search;
pub(crate) mod step_budget;
pub(crate) mod view_scan;

use super::visible_cells::{Search, Selection, VisibleRow};
use crate::cell::SequenceNumber;
use crate::error::Result;
use crate::marks::Mark;
use crate::merge::merge_cursor::MergeCursor;
use crate::request::{Cell, Direction, RowRange, ScanRequest};
use crate::semantics::dropped_ranges::DroppedAt;
use crate::semantics::row_cursor::RowCursor;
use crate::sstable::{RowHit, RowSpan, SimpleCells};
use crate::tree::read_parts::ReadParts;
use scan_source::Source;
use span_search::RowSpanSearch;
use std::any::Any;
use step_budget::{LOAD_WORK, Skipped, StepBudget, Stepped};

/// What a scan walks over.
pub(crate) struct ScanSources {
    /// The sources, newest first.
    pub cursors: Vec<Source>,
    /// Every range tombstone of the view, for the scan's snapshot.
    pub dropped: DroppedAt,
    /// Kept until the scan is dropped: the snapshot's pin.
    pub pin: Option<Box<dyn Any + Send>>,
}

/// A scan in progress. Call `next_row` until it yields no row; within a row, `next_cell`. Sees one
/// state of the tree from beginning to end. After an error only dropping it is of use: every later
/// call yields the end.
pub struct Scan {
    merge: MergeCursor<Source>,
    dropped: DroppedAt,
    rows: RowRange,
    direction: Direction,
    /// Where the last `seek` wants the scan to start.
    from: Option<Vec<u8>>,
    selection: Selection,
    visible: VisibleRow,
    /// The row span that the scan is in: its current row is the scan's, and the merge stands on its
    /// first row.
    row_span: Option<RowSpan>,
    search: RowSpanSearch,
    /// Of a simple row, the cells still to be lent.
    simple: SimpleCells,
    pass: Pass,
    /// Of a row span, its buffer of keys. Else a copy of the row's key where a cell has to borrow
    /// all else.
    key: Vec<u8>,
    passed: Passed,
    state: State,
    _pin: Option<Box<dyn Any + Send>>,
}

/// Rows that the scan went past, for they have no wanted cell.
#[derive(Default)]
struct Passed {
    /// The last of them, if the scan found no row since.
    any: bool,
    key: Vec<u8>,
    skipped: Skipped,
    /// Units of work on rows of row spans that no budget was charged yet.
    unpaid: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was read yet.
    Fresh,
    /// Behind a row without a wanted cell, which the merge or the row span still stands on.
    Passed,
    /// In a row outside of any row span of which no visible cell was found yet.
    Searching,
    /// On a row whose first visible cell was found and not yet lent.
    Primed,
    /// On a row, its cells being lent.
    InRow,
    /// On a row whose cells are used up.
    RowDone,
    /// At the end, or failed.
    Done,
}

/// How the cells of the current row are found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// It is in a row span.
    RowSpan,
    /// One source has the row, and all its entries are cells as they lie in a block; the place
    /// there of the cell found last.
    Simple(usize),
    /// By merging sources and hiding what is deleted.
    Merged,
}

impl Scan {
    /// A scan for `request` over `sources` that sees entries up to `snapshot`.
    pub(crate) fn new(
        sources: ScanSources,
        request: &ScanRequest,
        snapshot: SequenceNumber,
        parts: &ReadParts,
    ) -> Self {
        let selection = Selection {
            columns: request.columns.clone(),
            timestamps: request.timestamps,
            versions_max: request.versions_max,
            snapshot,
        };
        Self {
            merge: MergeCursor::new(sources.cursors),
            dropped: sources.dropped,
            rows: request.rows.clone(),
            direction: request.direction,
            from: None,
            selection,
            visible: VisibleRow::default(),
            row_span: None,
            search: RowSpanSearch::new(parts),
            simple: SimpleCells::default(),
            pass: Pass::Merged,
            key: Vec::new(),
            passed: Passed::default(),
            state: State::Fresh,
            _pin: sources.pin,
        }
    }

    /// Moves to the next row that has a visible cell the request wants, skipping what is left of
    /// the current one, and lends its key. `None` at the end.
    #[inline]
    pub fn next_row(&mut self) -> Result<Option<&[u8]>> {
        if !self.step_in_row_span() {
            self.find_row(&mut StepBudget::unlimited())?;
        }
        Ok(self.row())
    }

    /// Moves to the next row as `next_row` does, until `budget` is spent on rows that are skipped.
    /// Then [`Self::reached`] tells how far the scan is, and the same call goes on.
    #[inline]
    pub fn next_row_within(&mut self, budget: &mut StepBudget<'_>) -> Result<Stepped<&[u8]>> {
        let found = if self.step_in_row_span() { Search::Found } else { self.find_row(budget)? };
        Ok(match (found, self.row()) {
            (Search::Spent, _) => Stepped::NotYet,
            (Search::Found, Some(row)) => Stepped::Found(row),
            _ => Stepped::End,
        })
    }

    /// The last row that the scan went past since it last found one, for it has no wanted cell. All
    /// rows up to it, in the scan's direction, were found or skipped.
    pub fn reached(&self) -> Option<&[u8]> {
        self.passed.any.then_some(&*self.passed.key)
    }

    /// Returns what was skipped since this was last asked.
    pub fn take_skipped(&mut self) -> Skipped {
        let Skipped { rows, cells } = std::mem::take(&mut self.passed.skipped);
        Skipped { rows, cells: cells + self.visible.take_skipped() }
    }

    /// The key of the row the scan is in.
    #[inline]
    pub fn row(&self) -> Option<&[u8]> {
        match (self.state, &self.row_span) {
            (State::Fresh | State::Passed | State::Searching | State::Done, _) => None,
            (_, Some(row_span)) => self.key.get(..row_span.key_len()),
            (_, None) => self.merge.row(),
        }
    }

    /// Lends the next cell of the row. `None` at the row's end.
    #[inline]
    pub fn next_cell(&mut self) -> Result<Option<Cell<'_>>> {
        match self.move_to_cell(&mut StepBudget::unlimited())? {
            Search::Found => self.lend_cell(),
            Search::End | Search::Spent => Ok(None),
        }
    }

    /// Lends the next cell of the row as `next_cell` does, until `budget` is spent on cells that are
    /// skipped. Then the same call goes on.
    #[inline]
    pub fn next_cell_within(&mut self, budget: &mut StepBudget<'_>) -> Result<Stepped<Cell<'_>>> {
        match self.move_to_cell(budget)? {
            Search::Found => Ok(self.lend_cell()?.map_or(Stepped::End, Stepped::Found)),
            Search::End => Ok(Stepped::End),
            Search::Spent => {
                Mark::StepSpentInRow.hit();
                Ok(Stepped::NotYet)
            }
        }
    }

    /// Moves to the cell that is lent next.
    #[inline]
    fn move_to_cell(&mut self, budget: &mut StepBudget<'_>) -> Result<Search> {
        match self.state {
            State::Primed => {
                self.state = State::InRow;
                Ok(Search::Found)
            }
            State::InRow => {
                let found = self.advance(budget);
                match found {
                    Ok(Search::Found | Search::Spent) => {}
                    Ok(Search::End) => self.state = State::RowDone,
                    Err(_) => self.state = State::Done,
                }
                found
            }
            _ => Ok(Search::End),
        }
    }

    /// Lends the cell that the scan stands on.
    #[inline]
    fn lend_cell(&mut self) -> Result<Option<Cell<'_>>> {
        match (self.pass, &self.row_span) {
            (Pass::RowSpan, row_span) => return Ok(row_span.as_ref().map(RowSpan::cell)),
            (Pass::Simple(at), _) => return Ok(self.simple_row().map(|row| row.cell(at))),
            (Pass::Merged, _) => {}
        }
        let cell = self.visible.cell(&mut self.merge);
        if cell.is_err() {
            self.state = State::Done;
        }
        cell.map(Some)
    }

    /// Moves to the next row as `next_row` does, and lends its key with its first cell. `None` at
    /// the end. `next_cell` then lends the row's other cells.
    #[inline]
    pub fn next_row_and_cell(&mut self) -> Result<Option<(&[u8], Cell<'_>)>> {
        if !self.step_in_row_span() && self.find_row(&mut StepBudget::unlimited())? != Search::Found
        {
            return Ok(None);
        }
        self.lend_row_and_cell()
    }

    /// Moves to the next row as `next_row_within` does, and lends nothing: `row_and_cell` lends the row.
    #[inline]
    pub fn step_to_row(&mut self, budget: &mut StepBudget<'_>) -> Result<Stepped<()>> {
        let found = if self.step_in_row_span() { Search::Found } else { self.find_row(budget)? };
        Ok(match found {
            Search::Found => Stepped::Found(()),
            Search::End => Stepped::End,
            Search::Spent => Stepped::NotYet,
        })
    }

    /// Lends the key of the row that the scan has just moved to, with its first cell. `None` if the
    /// scan is in no row, or has lent that cell. `next_cell` then lends the row's other cells.
    #[inline]
    pub fn row_and_cell(&mut self) -> Result<Option<(&[u8], Cell<'_>)>> {
        if self.state != State::Primed {
            return Ok(None);
        }
        self.lend_row_and_cell()
    }

    /// The row that was just come to, with its first cell.
    #[inline]
    fn lend_row_and_cell(&mut self) -> Result<Option<(&[u8], Cell<'_>)>> {
        self.state = State::InRow;
        if self.pass != Pass::RowSpan {
            return self.merged_row_and_cell();
        }
        Ok(self
            .row_span
            .as_ref()
            .map(|row_span| (&self.key[..row_span.key_len()], row_span.cell())))
    }

    /// The row outside of any row span that was just come to, with its first cell.
    fn merged_row_and_cell(&mut self) -> Result<Option<(&[u8], Cell<'_>)>> {
        if let Pass::Simple(at) = self.pass {
            let cell = self.simple_row().map(|row| row.cell(at));
            return Ok(self.merge.row().zip(cell));
        }
        self.key.clear();
        self.key.extend_from_slice(self.merge.row().unwrap_or_default());
        match self.visible.cell(&mut self.merge) {
            Ok(cell) => Ok(Some((&self.key, cell))),
            Err(error) => {
                self.state = State::Done;
                Err(error)
            }
        }
    }

    /// Starts again at the first row of the range that is not less than `row` (of a reverse scan:
    /// at the last that is less). Much cheaper than a new scan; it sees the same state of the tree.
    pub fn seek(&mut self, row: &[u8]) {
        let from = self.from.get_or_insert_default();
        from.clear();
        from.extend_from_slice(row);
        self.row_span = None;
        self.passed.any = false;
        self.state = State::Fresh;
    }

    /// The current row, which is plain.
    #[inline]
    fn simple_row(&self) -> Option<RowHit<'_>> {
        self.merge.only_source()?.row_in_block()
    }

    /// Moves to the row's next wanted cell. Only a merge may need many looks to find it.
    #[inline]
    fn advance(&mut self, budget: &mut StepBudget<'_>) -> Result<Search> {
        Ok(Search::of(match self.pass {
            Pass::RowSpan => {
                let wanted = self.selection.wanted();
                self.row_span.as_mut().is_some_and(|row_span| row_span.next_cell(&wanted))
            }
            Pass::Simple(_) => self.next_simple(),
            Pass::Merged => return self.visible.advance(&mut self.merge, &self.selection, budget),
        }))
    }

    /// Moves to the simple row's next wanted cell; whether there is one.
    fn next_simple(&mut self) -> bool {
        let Some(row) = self.merge.only_source().and_then(Source::row_in_block) else {
            return false;
        };
        let Selection { columns, timestamps, versions_max, .. } = &self.selection;
        let found = row.next_of(&mut self.simple, columns, *timestamps, *versions_max);
        if let Some(at) = found {
            self.pass = Pass::Simple(at);
        }
        found.is_some()
    }

    /// Moves to the next row of the row span that has a wanted cell; whether there is one.
    #[inline]
    fn step_in_row_span(&mut self) -> bool {
        let Some(row_span) = &mut self.row_span else { return false };
        let wanted = self.selection.wanted();
        let mut passed = false;
        while row_span.step(&mut self.key) {
            if row_span.nears_the_end()
                && let Some(run) = self.merge.only_source_mut().and_then(Source::as_run)
            {
                run.look_ahead(row_span.row());
            }
            if row_span.begin(&wanted) {
                self.state = State::Primed;
                return true;
            }
            self.passed.skip(row_span.cells_of_row());
            passed = true;
        }
        if passed {
            self.passed.note(&self.key[..row_span.key_len()]);
        }
        false
    }

    /// Ends the row span: the merge moves to the row that was its current one.
    fn leave_row_span(&mut self) {
        if let Some(row_span) = self.row_span.take()
            && let Some(run) = self.merge.only_source_mut().and_then(Source::as_run)
        {
            run.move_in_row_span(row_span.row());
        }
    }

    /// Begins the row under the merge, and searches it for its first wanted cell.
    fn begin_row(&mut self, budget: &mut StepBudget<'_>) -> Result<Search> {
        let Some(row) = self.merge.row() else { return Ok(Search::End) };
        let snapshot = self.selection.snapshot;
        let dropped = self.dropped.newest(row);
        let only = self.merge.only_source().and_then(Source::row_in_block);
        let simple = only.filter(|row| dropped == SequenceNumber(0) && row.is_simple(snapshot));
        let Some(simple) = simple else {
            self.pass = Pass::Merged;
            self.visible.begin(dropped);
            return self.visible.advance(&mut self.merge, &self.selection, budget);
        };
        self.simple = simple.cells(&self.selection.columns);
        let (ranges, wanted) = (&self.dropped, self.selection.wanted());
        let within = (&self.rows, self.direction);
        self.row_span = self.search.find(&mut self.merge, within, ranges, &wanted, &mut self.key);
        if let Some(row_span) = &mut self.row_span {
            self.pass = Pass::RowSpan;
            return Ok(Search::of(row_span.begin(&wanted)));
        }
        self.pass = Pass::Simple(0);
        Ok(Search::of(self.next_simple()))
    }

    /// Moves to the next row with a wanted cell, behind the row span if there is one. At the end,
    /// and after an error, the scan is done.
    fn find_row(&mut self, budget: &mut StepBudget<'_>) -> Result<Search> {
        if self.state == State::Done {
            return Ok(Search::End);
        }
        let found = self.try_find_row(budget);
        match found {
            Ok(Search::Found) => {
                self.passed.any = false;
                self.state = State::Primed;
            }
            Ok(Search::Spent) => {}
            Ok(Search::End) | Err(_) => {
                self.state = State::Done;
                self.row_span = None;
                // The seek may have loaded blocks of a range without rows.
                self.passed.unpaid += LOAD_WORK * self.merge.take_loads();
            }
        }
        budget.spend(std::mem::take(&mut self.passed.unpaid));
        found
    }

    fn try_find_row(&mut self, budget: &mut StepBudget<'_>) -> Result<Search> {
        loop {
            let found = if self.state == State::Searching {
                self.visible.advance(&mut self.merge, &self.selection, budget)?
            } else {
                self.leave_row_span();
                if !self.next_merged_row()? {
                    return Ok(Search::End);
                }
                self.begin_row(budget)?
            };
            match found {
                Search::Found => return Ok(Search::Found),
                Search::Spent => {
                    Mark::StepSpentInRow.hit();
                    self.state = State::Searching;
                    return Ok(Search::Spent);
                }
                Search::End => {}
            }
            self.state = State::Passed;
            if self.pass_row() {
                return Ok(Search::Found);
            }
            let loads = self.merge.take_loads();
            if budget.spend(std::mem::take(&mut self.passed.unpaid) + LOAD_WORK * loads) {
                Mark::StepSpentBetweenRows.hit();
                return Ok(Search::Spent);
            }
        }
    }

    /// Goes past a row without a wanted cell, and past its row span; whether one of the row
    /// span has a wanted cell.
    fn pass_row(&mut self) -> bool {
        let cells = match (&self.row_span, self.pass) {
            (Some(row_span), _) => row_span.cells_of_row(),
            (None, Pass::Merged) => 0,
            (None, _) => self.simple_row().map_or(0, |row| row.cells_len()),
        };
        self.passed.skip(cells);
        if self.step_in_row_span() {
            return true;
        }
        let row = match &self.row_span {
            Some(row_span) => self.key.get(..row_span.key_len()),
            None => self.merge.row(),
        };
        self.passed.note(row.unwrap_or_default());
        false
    }

    /// Moves the merge to the next row; whether there is one in the range.
    fn next_merged_row(&mut self) -> Result<bool> {
        if self.rows.is_empty() {
            return Ok(false);
        }
        match (self.state, self.direction) {
            (State::Fresh, Direction::Forward) => {
                let from = self.from.as_ref().filter(|from| **from > self.rows.start);
                self.merge.seek(from.unwrap_or(&self.rows.start))?;
            }
            (State::Fresh, Direction::Reverse) => {
                let end = self.rows.end.as_deref();
                let from = self.from.as_deref();
                let from = from.filter(|from| end.is_none_or(|end| *from < end));
                self.merge.seek_before(from.or(end))?;
            }
            (_, Direction::Forward) => self.merge.next_row()?,
            (_, Direction::Reverse) => self.merge.prev_row()?,
        }
        self.state = State::RowDone;
        let Some(row) = self.merge.row() else { return Ok(false) };
        // The seek saw to the other bound.
        Ok(match self.direction {
            Direction::Forward => self.rows.end.as_deref().is_none_or(|end| row < end),
            Direction::Reverse => self.rows.start.as_slice() <= row,
        })
    }
}

impl Passed {
    /// Counts a row of `cells` cells. The cells of a merged row are counted as they are met.
    #[inline]
    fn skip(&mut self, cells: usize) {
        self.skipped.rows += 1;
        self.skipped.cells += cells as u64;
        self.unpaid += 1 + cells as u64;
    }

    /// Notes the last row that was passed.
    fn note(&mut self, row: &[u8]) {
        self.any = true;
        self.key.clear();
        self.key.extend_from_slice(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::WriteBatch;
    use crate::manifest::LogPosition;
    use crate::memtable::Memtable;
    use crate::options::Options;
    use crate::request::OwnedCell;
    use crate::semantics::model::testing::{batches, requests};
    use crate::semantics::model::{Model, OwnedRow};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Runs a call in steps of `work` units until it comes to something.
    fn in_steps<T>(
        work: u64,
        mut call: impl FnMut(&mut StepBudget<'_>) -> Stepped<T>,
    ) -> Option<T> {
        loop {
            let mut budget = StepBudget::of_work(work);
            match call(&mut budget) {
                Stepped::Found(found) => return Some(found),
                Stepped::End => return None,
                Stepped::NotYet => assert!(budget.is_spent()),
            }
        }
    }

    /// All rows of `scan`, in steps. What it has reached lies between the rows before and after.
    fn collect(mut scan: Scan, work: u64) -> Vec<OwnedRow> {
        let mut rows: Vec<OwnedRow> = Vec::new();
        let mut reached: Option<Vec<u8>> = None;
        let direction = scan.direction;
        let in_order = |before: &[u8], after: &[u8]| match direction {
            Direction::Forward => before < after,
            Direction::Reverse => before > after,
        };
        while let Some(row) = in_steps(work, |budget| {
            let found = scan.next_row_within(budget).unwrap();
            let found = match found {
                Stepped::Found(row) => Stepped::Found(row.to_vec()),
                Stepped::End => Stepped::End,
                Stepped::NotYet => Stepped::NotYet,
            };
            if let Some(key) = scan.reached().filter(|_| !matches!(found, Stepped::Found(_))) {
                let last = rows.last().map(|(row, _)| row);
                assert!(last.is_none_or(|last| in_order(last, key)), "it went past the key");
                reached = Some(key.to_vec());
            }
            found
        }) {
            assert!(reached.as_ref().is_none_or(|reached| in_order(reached, &row)));
            let mut cells = Vec::new();
            while let Some(cell) =
                in_steps(work, |budget| match scan.next_cell_within(budget).unwrap() {
                    Stepped::Found(cell) => Stepped::Found(OwnedCell {
                        family: cell.family,
                        qualifier: cell.qualifier.to_vec(),
                        timestamp: cell.timestamp,
                        value: cell.value.to_vec(),
                    }),
                    Stepped::End => Stepped::End,
                    Stepped::NotYet => Stepped::NotYet,
                })
            {
                cells.push(cell);
            }
            rows.push((row, cells));
        }
        rows
    }

    /// The first cell of each row of `scan`, in steps.
    fn collect_firsts(mut scan: Scan, work: u64) -> Vec<OwnedRow> {
        let mut rows = Vec::new();
        while in_steps(work, |budget| scan.step_to_row(budget).unwrap()).is_some() {
            let (row, cell) = scan.row_and_cell().unwrap().unwrap();
            let cell = OwnedCell {
                family: cell.family,
                qualifier: cell.qualifier.to_vec(),
                timestamp: cell.timestamp,
                value: cell.value.to_vec(),
            };
            rows.push((row.to_vec(), vec![cell]));
            assert!(scan.row_and_cell().unwrap().is_none(), "it is lent once");
        }
        assert!(scan.row_and_cell().unwrap().is_none(), "the end");
        rows
    }

    fn scan(memtables: &[Arc<Memtable>], request: &ScanRequest, snapshot: u64) -> Scan {
        let cursors = memtables.iter().rev().map(|m| Source::Memtable(m.cursor())).collect();
        let at = SequenceNumber(snapshot);
        let dropped = memtables.iter().flat_map(|m| m.dropped_at(at)).collect();
        let dropped = DroppedAt::new(dropped, at);
        let sources = ScanSources { cursors, dropped, pin: None };
        let parts = ReadParts::of(&Options::default());
        Scan::new(sources, request, SequenceNumber(snapshot), &parts)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_scan_agrees_with_the_model(
            history in proptest::collection::vec((batches(), any::<bool>()), 0..12),
            request in requests(),
            snapshot in 0u64..80,
            work in prop_oneof![0u64..8, Just(u64::MAX)],
        ) {
            let mut model = Model::default();
            let mut memtables = vec![Arc::new(Memtable::default())];
            let mut last = 0;
            for (batch, freeze) in &history {
                let batch: &WriteBatch = batch;
                model.apply(batch, SequenceNumber(last + 1));
                let memtable = memtables.last().unwrap();
                let end = last + batch.len() as u64;
                if !batch.is_empty() {
                    memtable.apply(&batch.freeze().unwrap(), SequenceNumber(last + 1), LogPosition(end));
                }
                last = end;
                if *freeze {
                    memtables.push(Arc::new(Memtable::default()));
                }
            }
            for at in [snapshot, last] {
                let want = model.scan(&request, SequenceNumber(at));
                let have = collect(scan(&memtables, &request, at), work);
                prop_assert_eq!(&have, &want);
                let firsts = want.into_iter().map(|(row, mut cells)| {
                    cells.truncate(1);
                    (row, cells)
                });
                let have = collect_firsts(scan(&memtables, &request, at), work);
                prop_assert_eq!(have, firsts.collect::<Vec<_>>());
            }
        }
    }
}
