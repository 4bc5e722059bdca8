//! A sorted run as one cursor: its SSTables one after the other.
//!
//! Invariant: the SSTables are in row order and share no row (manifest/version.rs, invariant 2),
//! so at most one of them has a given row, and stepping off the end of one leads to the next.

use crate::cache::CacheFill;
use crate::cell::{Column, Entry, EntryKey, SequenceNumber};
use crate::cursor::RowCursor;
use crate::error::Result;
use crate::read::counters::FilterCounters;
use crate::request::RowRange;
use crate::sstable::{RowHit, SstCursor, SstRun};
use std::ops::Range;
use std::sync::Arc;

/// A cursor over the SSTables of one run. Opens only those that it comes to.
pub struct RunCursor {
    run: Arc<SstRun>,
    /// The SSTables it walks over, by their place in the run.
    part: Range<usize>,
    fill: CacheFill,
    /// The SSTable the cursor is in, with a cursor over it.
    at: Option<(usize, SstCursor)>,
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
        Self { run, part, fill, at: None, judge: None }
    }

    /// The same for a reader of `rows`, which the filter of the first SSTable let pass for their
    /// prefix. Where that SSTable turns out to have none of them, `filters` is told.
    pub(crate) fn judged(self, rows: &RowRange, filters: &Arc<FilterCounters>) -> Self {
        let judge = Judge { rows: rows.clone(), filters: Arc::clone(filters) };
        Self { judge: Some(Box::new(judge)), ..self }
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

    /// The row the cursor stands on, if it has just come to it and a reader at `snapshot` sees its
    /// entries as they lie in one block.
    #[inline]
    pub(crate) fn plain_row(&self, snapshot: SequenceNumber) -> Option<RowHit<'_>> {
        self.at.as_ref().and_then(|(_, cursor)| cursor.plain_row(snapshot))
    }

    fn enter(&mut self, index: usize) -> &mut SstCursor {
        if self.at.as_ref().is_none_or(|(at, _)| *at != index) {
            self.at = Some((index, self.run.ssts()[index].cursor(self.fill)));
        }
        &mut self.at.as_mut().expect("set just above").1
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
                self.at = None;
            } else {
                self.enter(next).seek(&[])?;
            }
        }
        Ok(())
    }

    fn roll_backward(&mut self) -> Result<()> {
        while let Some((index, cursor)) = &self.at {
            if cursor.row().is_some() {
                return Ok(());
            }
            match index.checked_sub(1).filter(|previous| *previous >= self.part.start) {
                Some(previous) => self.enter(previous).seek_before(None)?,
                None => self.at = None,
            }
        }
        Ok(())
    }

    #[inline]
    fn fail<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.at = None;
        }
        result
    }

    fn try_seek(&mut self, row: &[u8]) -> Result<()> {
        let index = self.run.first_not_before(row).max(self.part.start);
        if index >= self.part.end {
            self.at = None;
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
            self.at = None;
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
}
