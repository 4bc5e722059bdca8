//! A scan in progress: rows of one view, at one snapshot, in either direction.

pub mod scan_source;
pub(crate) mod span_search;

use super::read_parts::ReadParts;
use super::visible_cells::{Selection, VisibleRow};
use crate::cell::SequenceNumber;
use crate::error::Result;
use crate::merge::merge_cursor::MergeCursor;
use crate::request::{Cell, Direction, RowRange, ScanRequest};
use crate::semantics::dropped_ranges::DroppedAt;
use crate::semantics::row_cursor::RowCursor;
use crate::sstable::{PlainCells, RowHit, Stretch};
use scan_source::Source;
use span_search::StretchSearch;
use std::any::Any;

/// What a scan walks over.
pub struct ScanSources {
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
    /// The stretch that the scan is in: its current row is the scan's, and the merge stands on its
    /// first row.
    stretch: Option<Stretch>,
    search: StretchSearch,
    /// Of a plain row, the cells still to be lent.
    plain: PlainCells,
    pass: Pass,
    /// Of a stretch, its buffer of keys. Else a copy of the row's key where a cell has to borrow
    /// all else.
    key: Vec<u8>,
    state: State,
    _pin: Option<Box<dyn Any + Send>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was read yet.
    Fresh,
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
    /// It is in a stretch.
    Stretch,
    /// One source has the row, and all its entries are cells as they lie in a block; the place
    /// there of the cell found last.
    Plain(usize),
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
            stretch: None,
            search: StretchSearch::new(parts),
            plain: PlainCells::default(),
            pass: Pass::Merged,
            key: Vec::new(),
            state: State::Fresh,
            _pin: sources.pin,
        }
    }

    /// Moves to the next row that has a visible cell the request wants, skipping what is left of
    /// the current one, and lends its key. `None` at the end.
    #[inline]
    pub fn next_row(&mut self) -> Result<Option<&[u8]>> {
        if !self.step_in_stretch() {
            self.find_row()?;
        }
        Ok(self.row())
    }

    /// The key of the row the scan is in.
    #[inline]
    pub fn row(&self) -> Option<&[u8]> {
        match (self.state, &self.stretch) {
            (State::Fresh | State::Done, _) => None,
            (_, Some(stretch)) => self.key.get(..stretch.key_len()),
            (_, None) => self.merge.row(),
        }
    }

    /// Lends the next cell of the row. `None` at the row's end.
    #[inline]
    pub fn next_cell(&mut self) -> Result<Option<Cell<'_>>> {
        match self.state {
            State::Primed => self.state = State::InRow,
            State::InRow => match self.advance() {
                Ok(true) => {}
                Ok(false) => {
                    self.state = State::RowDone;
                    return Ok(None);
                }
                Err(error) => {
                    self.state = State::Done;
                    return Err(error);
                }
            },
            State::Fresh | State::RowDone | State::Done => return Ok(None),
        }
        match (self.pass, &self.stretch) {
            (Pass::Stretch, stretch) => return Ok(stretch.as_ref().map(Stretch::cell)),
            (Pass::Plain(at), _) => return Ok(self.plain_row().map(|row| row.cell(at))),
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
        if !self.step_in_stretch() && !self.find_row()? {
            return Ok(None);
        }
        self.state = State::InRow;
        if self.pass != Pass::Stretch {
            return self.merged_row_and_cell();
        }
        Ok(self.stretch.as_ref().map(|stretch| (&self.key[..stretch.key_len()], stretch.cell())))
    }

    /// The row outside of any stretch that was just come to, with its first cell.
    fn merged_row_and_cell(&mut self) -> Result<Option<(&[u8], Cell<'_>)>> {
        if let Pass::Plain(at) = self.pass {
            let cell = self.plain_row().map(|row| row.cell(at));
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
        self.stretch = None;
        self.state = State::Fresh;
    }

    /// The current row, which is plain.
    #[inline]
    fn plain_row(&self) -> Option<RowHit<'_>> {
        self.merge.only_source()?.row_in_block()
    }

    /// Moves to the row's next wanted cell; whether there is one.
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        Ok(match self.pass {
            Pass::Stretch => {
                let wanted = self.selection.wanted();
                self.stretch.as_mut().is_some_and(|stretch| stretch.next_cell(&wanted))
            }
            Pass::Plain(_) => self.next_plain(),
            Pass::Merged => return self.visible.advance(&mut self.merge, &self.selection),
        })
    }

    /// Moves to the plain row's next wanted cell; whether there is one.
    fn next_plain(&mut self) -> bool {
        let Some(row) = self.merge.only_source().and_then(Source::row_in_block) else {
            return false;
        };
        let Selection { columns, timestamps, versions_max, .. } = &self.selection;
        let found = row.next_of(&mut self.plain, columns, *timestamps, *versions_max);
        if let Some(at) = found {
            self.pass = Pass::Plain(at);
        }
        found.is_some()
    }

    /// Moves to the next row of the stretch that has a wanted cell; whether there is one.
    #[inline]
    fn step_in_stretch(&mut self) -> bool {
        let Some(stretch) = &mut self.stretch else { return false };
        let wanted = self.selection.wanted();
        while stretch.step(&mut self.key) {
            if stretch.nears_the_end()
                && let Some(run) = self.merge.only_source_mut().and_then(Source::as_run)
            {
                run.look_ahead(stretch.row());
            }
            if stretch.begin(&wanted) {
                self.state = State::Primed;
                return true;
            }
        }
        false
    }

    /// Ends the stretch: the merge moves to the row that was its current one.
    fn leave_stretch(&mut self) {
        if let Some(stretch) = self.stretch.take()
            && let Some(run) = self.merge.only_source_mut().and_then(Source::as_run)
        {
            run.move_in_stretch(stretch.row());
        }
    }

    /// Begins the row under the merge; whether it has a wanted cell.
    fn begin_row(&mut self) -> Result<bool> {
        let Some(row) = self.merge.row() else { return Ok(false) };
        let snapshot = self.selection.snapshot;
        let dropped = self.dropped.newest(row);
        let only = self.merge.only_source().and_then(Source::row_in_block);
        let plain = only.filter(|row| dropped == SequenceNumber(0) && row.is_plain(snapshot));
        let Some(plain) = plain else {
            self.pass = Pass::Merged;
            self.visible.begin(dropped);
            return self.visible.advance(&mut self.merge, &self.selection);
        };
        self.plain = plain.cells(&self.selection.columns);
        let (ranges, wanted) = (&self.dropped, self.selection.wanted());
        let within = (&self.rows, self.direction);
        self.stretch = self.search.find(&mut self.merge, within, ranges, &wanted, &mut self.key);
        if let Some(stretch) = &mut self.stretch {
            self.pass = Pass::Stretch;
            return Ok(stretch.begin(&wanted));
        }
        self.pass = Pass::Plain(0);
        Ok(self.next_plain())
    }

    /// Moves to the next row with a wanted cell, behind the stretch if there is one; whether there
    /// is such a row. At the end, and after an error, the scan is done.
    fn find_row(&mut self) -> Result<bool> {
        if self.state == State::Done {
            return Ok(false);
        }
        let found = self.try_find_row();
        self.state = if matches!(found, Ok(true)) { State::Primed } else { State::Done };
        if self.state == State::Done {
            self.stretch = None;
        }
        found
    }

    fn try_find_row(&mut self) -> Result<bool> {
        loop {
            self.leave_stretch();
            if !self.next_merged_row()? {
                return Ok(false);
            }
            if self.begin_row()? || self.step_in_stretch() {
                return Ok(true);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::WriteBatch;
    use crate::manifest::LogPosition;
    use crate::memtable::Memtable;
    use crate::options::Options;
    use crate::semantics::model::testing::{batches, requests};
    use crate::semantics::model::{Model, OwnedCell, OwnedRow};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn collect(mut scan: Scan) -> Vec<OwnedRow> {
        let mut rows = Vec::new();
        while let Some(row) = scan.next_row().unwrap() {
            let row = row.to_vec();
            let mut cells = Vec::new();
            while let Some(cell) = scan.next_cell().unwrap() {
                cells.push(OwnedCell {
                    family: cell.family,
                    qualifier: cell.qualifier.to_vec(),
                    timestamp: cell.timestamp,
                    value: cell.value.to_vec(),
                });
            }
            rows.push((row, cells));
        }
        rows
    }

    fn scan(memtables: &[Arc<Memtable>], request: &ScanRequest, snapshot: u64) -> Vec<OwnedRow> {
        let cursors = memtables.iter().rev().map(|m| Source::Memtable(m.cursor())).collect();
        let at = SequenceNumber(snapshot);
        let dropped = memtables.iter().flat_map(|m| m.dropped_at(at)).collect();
        let dropped = DroppedAt::new(dropped, at);
        let sources = ScanSources { cursors, dropped, pin: None };
        let parts = ReadParts::of(&Options::default());
        collect(Scan::new(sources, request, SequenceNumber(snapshot), &parts))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_scan_agrees_with_the_model(
            history in proptest::collection::vec((batches(), any::<bool>()), 0..12),
            request in requests(),
            snapshot in 0u64..80,
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
                prop_assert_eq!(scan(&memtables, &request, at), want);
            }
        }
    }
}
