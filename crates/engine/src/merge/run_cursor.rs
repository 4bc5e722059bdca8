//! A sorted run as one cursor: its SSTables one after the other.
//!
//! Invariant: the SSTables are in row order and share no row (manifest/state/version.rs, invariant 2),
//! so at most one of them has a given row, and stepping off the end of one leads to the next.

use crate::cache::CacheFill;
use crate::cell::{Column, Entry, EntryKey};
use crate::error::Result;
use crate::request::{Direction, RowRange};
use crate::semantics::row_cursor::RowCursor;
use crate::sstable::FilterCounters;
use crate::sstable::{Readahead, ReadaheadSource, RowHit, RowSpan, SstCursor, SstRun, WantedCells};
use std::ops::{Bound, Range};
use std::sync::Arc;

/// A cursor over the SSTables of one run. Opens only those that it comes to.
pub(crate) struct RunCursor {
    run: Arc<SstRun>,
    /// The SSTables it walks over, by their place in the run.
    part: Range<usize>,
    fill: CacheFill,
    /// The SSTable the cursor is in, with a cursor over it.
    at: Option<(usize, SstCursor)>,
    /// While it is in none, what lets it read ahead.
    readahead: Option<Readahead>,
    /// Loads in SSTables that the cursor has left.
    loads: u64,
    judge: Option<Box<Judge>>,
}

/// Finds out whether a filter that let a range of rows pass was right.
struct Judge {
    rows: RowRange,
    filters: Arc<FilterCounters>,
}

impl RunCursor {
    /// A cursor over the SSTables of `run` in `part`; what it reads enters the cache as `fill`
    /// says.
    pub(crate) fn new(run: Arc<SstRun>, part: Range<usize>, fill: CacheFill) -> Self {
        Self { run, part, fill, at: None, readahead: None, loads: 0, judge: None }
    }

    /// The same for a reader of `rows`, which the filter of the first SSTable let pass for their
    /// prefix. Where that SSTable turns out to have none of them, `filters` is told.
    pub(crate) fn judged(self, rows: &RowRange, filters: &Arc<FilterCounters>) -> Self {
        let judge = Judge { rows: rows.clone(), filters: Arc::clone(filters) };
        Self { judge: Some(Box::new(judge)), ..self }
    }

    /// The same, reading ahead of walks over `rows`.
    pub(crate) fn reading_ahead(self, source: &Arc<ReadaheadSource>, rows: &Arc<RowRange>) -> Self {
        Self { readahead: Some(Readahead::new(source, rows)), ..self }
    }

    /// Judges by the row that the first move led to, if it `decides`: if it would lead to a row of
    /// the first SSTable in the range wherever there is one.
    fn judge(&mut self, decides: impl FnOnce(&Judge) -> bool) {
        let Some(judge) = self.judge.take().filter(|judge| decides(judge)) else { return };
        let first = self.at.as_ref().filter(|(index, _)| *index == self.part.start);
        let row = first.and_then(|(_, cursor)| cursor.row());
        if !row.is_some_and(|row| judge.rows.contains(row)) {
            judge.filters.wrong_of_prefix();
        }
    }

    /// The row the cursor stands on, with the block that it reads.
    #[inline]
    pub(crate) fn row_in_block(&self) -> Option<RowHit<'_>> {
        self.at.as_ref().and_then(|(_, cursor)| cursor.row_in_block())
    }

    /// A row span that begins with the current row: see [`SstCursor::row_span`].
    pub(crate) fn row_span(
        &mut self,
        rows_min: u32,
        direction: Direction,
        limit: Bound<&[u8]>,
        wanted: &WantedCells<'_>,
        key: &mut Vec<u8>,
    ) -> Option<RowSpan> {
        self.inside_mut().row_span(rows_min, direction, limit, wanted, key)
    }

    /// Moves to row `row` of a row span that begins with the current row.
    pub(crate) fn move_in_row_span(&mut self, row: usize) {
        self.inside_mut().move_in_row_span(row);
    }

    /// Looks for what comes after the block of a row span, from row `row` of it.
    pub(crate) fn look_ahead(&mut self, row: usize) {
        self.inside_mut().look_ahead(row);
    }

    fn enter(&mut self, index: usize) -> &mut SstCursor {
        if self.at.as_ref().is_none_or(|(at, _)| *at != index) {
            self.leave();
            let mut cursor = self.run.ssts()[index].cursor(self.fill);
            cursor.read_ahead(self.readahead.take());
            self.at = Some((index, cursor));
        }
        &mut self.at.as_mut().expect("set just above").1
    }

    /// Stands in no SSTable.
    fn leave(&mut self) {
        if let Some((_, mut cursor)) = self.at.take() {
            self.readahead = cursor.take_readahead();
            self.loads += cursor.take_loads();
        }
    }

    #[inline]
    fn inside(&self) -> &SstCursor {
        &self.at.as_ref().expect("called only on a row").1
    }

    #[inline]
    fn inside_mut(&mut self) -> &mut SstCursor {
        &mut self.at.as_mut().expect("called only on a row").1
    }

    /// Leaves an SSTable that has no further row forwards for the first row of the next one.
    #[inline]
    fn roll_forward(&mut self) -> Result<()> {
        while let Some((index, cursor)) = &self.at {
            if cursor.row().is_some() {
                return Ok(());
            }
            let next = index + 1;
            if next == self.part.end {
                self.leave();
            } else {
                self.enter(next).seek(&[])?;
            }
        }
        Ok(())
    }

    #[inline]
    fn roll_backward(&mut self) -> Result<()> {
        while let Some((index, cursor)) = &self.at {
            if cursor.row().is_some() {
                return Ok(());
            }
            match index.checked_sub(1).filter(|previous| *previous >= self.part.start) {
                Some(previous) => self.enter(previous).seek_before(None)?,
                None => self.leave(),
            }
        }
        Ok(())
    }

    #[inline]
    fn fail<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.leave();
        }
        result
    }

    fn try_seek(&mut self, row: &[u8]) -> Result<()> {
        let index = self.run.first_not_before(row).max(self.part.start);
        if index >= self.part.end {
            self.leave();
            return Ok(());
        }
        self.enter(index).seek(row)?;
        self.roll_forward()?;
        self.judge(|judge| judge.rows.start == row);
        Ok(())
    }

    fn try_seek_before(&mut self, bound: Option<&[u8]>) -> Result<()> {
        let end = bound.map_or(self.part.end, |bound| self.run.first_beginning_at(bound));
        let end = end.min(self.part.end);
        let Some(index) = end.checked_sub(1).filter(|index| *index >= self.part.start) else {
            self.leave();
            return Ok(());
        };
        self.enter(index).seek_before(bound)?;
        self.roll_backward()?;
        let alone = self.part.len() == 1;
        self.judge(|judge| alone && judge.rows.end.as_deref() == bound);
        Ok(())
    }

    #[inline]
    fn try_next_row(&mut self) -> Result<()> {
        self.inside_mut().next_row()?;
        self.roll_forward()
    }

    #[inline]
    fn try_prev_row(&mut self) -> Result<()> {
        self.inside_mut().prev_row()?;
        self.roll_backward()
    }
}

impl RowCursor for RunCursor {
    fn seek(&mut self, row: &[u8]) -> Result<()> {
        let done = self.try_seek(row);
        self.fail(done)
    }

    fn seek_before(&mut self, bound: Option<&[u8]>) -> Result<()> {
        let done = self.try_seek_before(bound);
        self.fail(done)
    }

    #[inline]
    fn next_row(&mut self) -> Result<()> {
        let done = self.try_next_row();
        self.fail(done)
    }

    #[inline]
    fn prev_row(&mut self) -> Result<()> {
        let done = self.try_prev_row();
        self.fail(done)
    }

    #[inline]
    fn row(&self) -> Option<&[u8]> {
        self.at.as_ref().and_then(|(_, cursor)| cursor.row())
    }

    fn entry(&self) -> Option<EntryKey<'_>> {
        self.inside().entry()
    }

    fn entry_with_value(&mut self) -> Result<Entry<'_>> {
        self.inside_mut().entry_with_value()
    }

    fn next_entry(&mut self) -> Result<()> {
        let done = self.inside_mut().next_entry();
        self.fail(done)
    }

    fn skip_to_column(&mut self, column: Column<'_>) -> Result<()> {
        let done = self.inside_mut().skip_to_column(column);
        self.fail(done)
    }

    #[inline]
    fn take_loads(&mut self) -> u64 {
        let inside = self.at.as_mut().map_or(0, |(_, cursor)| cursor.take_loads());
        inside + std::mem::take(&mut self.loads)
    }
}
