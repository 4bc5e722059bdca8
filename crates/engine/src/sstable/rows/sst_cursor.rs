//! Walks the entries of one SSTable under the contract of `crate::semantics::row_cursor`.
//!
//! A row that spans blocks begins in one block and continues as the first row of the blocks after
//! it. The cursor keeps both the block in which its row begins (to step to the neighbours) and
//! the one it reads (which `next_entry` and `skip_to_column` move).
//!
//! Fast paths: a seek whose answer lies in the block being read touches no index; `skip_to_column`
//! searches the dictionary once and then column ids, and finds the right block of a wide row by
//! the index alone.

use super::row_prefetch::{Ahead, ROWS_REACHED, ROWS_SOUGHT};
use super::row_span::{RowSpan, WantedCells};
use crate::cache::CacheFill;
use crate::cell::{Column, Entry, EntryKey};
use crate::error::{Error, Result};
use crate::marks::Mark;
use crate::request::Direction;
use crate::semantics::row_cursor::RowCursor;
use crate::sstable::block::{CellValue, aimed_walk, rows_left};
use crate::sstable::format::ints::partition;
use crate::sstable::read::point_lookup::RowHit;
use crate::sstable::read::sst_reader::{Place, SstReader};
use crate::sstable::read::typed_refs::{DataRef, IndexRef, ValueRef};
use crate::sstable::rows::readahead::Readahead;
use std::ops::{Bound, Range};
use std::sync::Arc;

impl SstReader {
    /// A cursor over the file's entries.
    pub fn cursor(self: &Arc<Self>, fill: CacheFill) -> SstCursor {
        SstCursor::new(Arc::clone(self), fill)
    }
}

/// A cursor over one SSTable.
pub struct SstCursor {
    sst: Arc<SstReader>,
    fill: CacheFill,
    /// The index partition used last.
    index: Option<(usize, IndexRef)>,
    at: Option<At>,
    /// The block after the one in which the row begins, of a walk forward.
    ahead: Ahead,
    readahead: Option<Readahead>,
    /// The bytes of the rows after the current one were asked for.
    reached: bool,
    /// The key of the row the cursor stands on.
    row: Vec<u8>,
    /// The large value lent last.
    value: Option<ValueRef>,
    /// Blocks that had to be loaded, since they were last asked for.
    loads: u64,
}

/// Where the cursor stands.
struct At {
    /// The block in which the row begins, and the row's place in it.
    start: Place,
    start_row: usize,
    /// That block, where it is not the one being read.
    start_block: Option<DataRef>,
    /// The block being read.
    place: Place,
    block: DataRef,
    /// The row's entries in it from the current one on. Empty: past the row's last entry.
    cells: Range<usize>,
}

impl At {
    fn new(place: Place, block: DataRef, row: usize) -> Self {
        let cells = block.view().cells_of(row);
        Self { start: place, start_row: row, start_block: None, place, block, cells }
    }

    /// The row's place in the block being read.
    #[inline]
    fn row_in_block(&self) -> usize {
        self.row_in(self.place)
    }

    /// The row's place in a block that has entries of it.
    #[inline]
    fn row_in(&self, place: Place) -> usize {
        if place == self.start { self.start_row } else { 0 }
    }

    /// Returns whether the row goes on after the block being read.
    fn continues(&self) -> bool {
        let view = self.block.view();
        view.continues() && self.row_in_block() + 1 == view.rows()
    }

    /// The block in which the row begins.
    fn start_block(&self) -> &DataRef {
        self.start_block.as_ref().unwrap_or(&self.block)
    }

    /// Stands on another row that begins in the block in which this one begins.
    #[inline]
    fn stand_in_start(&mut self, row: usize) {
        if let Some(block) = self.start_block.take() {
            self.block = block;
            self.place = self.start;
        }
        self.start_row = row;
        self.cells = self.block.view().cells_of(row);
    }

    /// Reads on in `block` at `place`, which continues the row.
    fn read_on(&mut self, place: Place, block: DataRef) {
        self.cells = block.view().cells_of(0);
        let before = std::mem::replace(&mut self.block, block);
        if self.place == self.start {
            self.start_block = Some(before);
        }
        self.place = place;
    }
}

impl SstCursor {
    pub(crate) fn new(sst: Arc<SstReader>, fill: CacheFill) -> Self {
        Self {
            sst,
            fill,
            index: None,
            at: None,
            ahead: Ahead::default(),
            readahead: None,
            reached: false,
            row: Vec::new(),
            value: None,
            loads: 0,
        }
    }

    /// Lets the cursor read ahead.
    pub(crate) fn read_ahead(&mut self, readahead: Option<Readahead>) {
        self.readahead = readahead;
        if let Some(readahead) = &mut self.readahead {
            readahead.enter_file();
        }
    }

    /// Takes back what it was given to read ahead.
    pub(crate) fn take_readahead(&mut self) -> Option<Readahead> {
        self.readahead.take()
    }

    /// Runs a move; after an error the cursor stands on no row.
    #[inline]
    fn moved(&mut self, moved: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let result = moved(self);
        if result.is_err() {
            self.at = None;
        }
        result
    }

    fn index(&mut self, partition: usize) -> Result<IndexRef> {
        if let Some((at, index)) = &self.index
            && *at == partition
        {
            return Ok(index.clone());
        }
        // An index has hundreds of blocks, so it counts as a load wherever it was.
        self.loads += 1;
        let index = self.sst.index(partition, self.fill)?;
        self.index = Some((partition, index.clone()));
        Ok(index)
    }

    fn block(&mut self, place: Place) -> Result<DataRef> {
        if let Some(at) = &self.at {
            if at.place == place {
                return Ok(at.block.clone());
            }
            if at.start == place {
                return Ok(at.start_block().clone());
            }
        }
        if let Some(block) =
            self.readahead.as_mut().and_then(|ahead| ahead.take(&self.sst, place, self.fill))
        {
            self.loads += 1;
            return block;
        }
        let index = self.index(place.partition)?;
        let mut missed = false;
        let block = self.sst.data_noting(&index, place.block, self.fill, &mut missed)?;
        self.loads += u64::from(missed);
        if missed && let Some(ahead) = &mut self.readahead {
            ahead.missed(&self.sst, place, self.fill);
        }
        Ok(block)
    }

    fn place_after(&self, place: Place) -> Option<Place> {
        self.sst.place_beside(place, Direction::Forward)
    }

    fn place_before(&self, place: Place) -> Option<Place> {
        self.sst.place_beside(place, Direction::Reverse)
    }

    fn disagreement(&mut self, place: Place) -> Error {
        let offset = match self.index(place.partition) {
            Ok(index) => index.view().handle(place.block).offset,
            Err(error) => return error,
        };
        self.sst.source.corruption(offset, "the blocks of a row do not follow each other")
    }

    /// Stands on a row that begins in its block.
    fn stand_on(&mut self, place: Place, block: DataRef, row: usize) {
        self.ahead = Ahead::default();
        self.reached = false;
        block.view().reach_row(row);
        block.view().copy_row(row, &mut self.row);
        self.at = Some(At::new(place, block, row));
    }

    /// Stands on a row of a block, which may have begun in an earlier block.
    fn stand_on_start_of(&mut self, place: Place, block: DataRef, row: usize) -> Result<()> {
        if row > 0 || !block.view().continued() {
            self.stand_on(place, block, row);
            return Ok(());
        }
        let mut key = Vec::new();
        block.view().copy_row(row, &mut key);
        self.at = None;
        self.seek_in_file(&key)?;
        if self.at.is_some() && self.row == key {
            return Ok(());
        }
        Err(self.disagreement(place))
    }

    /// Stands on the first row of the block at `place`, which must begin there; without a place,
    /// on no row.
    fn stand_on_first_of(&mut self, place: Option<Place>) -> Result<()> {
        let Some(place) = place else {
            self.at = None;
            return Ok(());
        };
        let block = self.block(place)?;
        self.stand_on_first_row_of(place, block)
    }

    /// Stands on the first row of a block, which must begin there.
    fn stand_on_first_row_of(&mut self, place: Place, block: DataRef) -> Result<()> {
        if block.view().continued() {
            return Err(self.disagreement(place));
        }
        self.stand_on(place, block, 0);
        Ok(())
    }

    /// Stands on the first row not less than `row` if the block being read tells which it is.
    fn seek_in_block(&mut self, row: &[u8]) -> bool {
        let Some(at) = &self.at else { return false };
        let found = at.block.view().lower_bound(row);
        let begins_here = found < at.block.view().rows()
            && (found > 0 || !at.block.view().continued() && at.block.view().row_is(0, row));
        if begins_here {
            let (place, block) = (at.place, at.block.clone());
            self.stand_on(place, block, found);
        }
        begins_here
    }

    fn seek_in_file(&mut self, row: &[u8]) -> Result<()> {
        let Some(partition) = self.sst.top.partition_of(row) else {
            let any = !self.sst.top.partitions().is_empty();
            return self.stand_on_first_of(any.then_some(Place { partition: 0, block: 0 }));
        };
        let index = self.index(partition)?;
        let (block, fraction) = index.view().place_of(row, index.hints());
        let place = Place { partition, block };
        let mut left = 0;
        self.sst.prefetch_data(&index, block, |prefetch_hint| {
            left = rows_left(prefetch_hint, fraction);
            aimed_walk(prefetch_hint)
        });
        let sought = left <= ROWS_SOUGHT && block + 1 < index.view().blocks();
        if sought {
            self.sst.prefetch_data(&index, block + 1, |_| []);
        }
        let block = self.block(place)?;
        let found = block.view().lower_bound_of_walk(row);
        if found < block.view().rows() {
            self.stand_on_start_of(place, block, found)?;
            if sought {
                self.ahead = Ahead::Sought;
            }
            return Ok(());
        }
        let next = self.place_after(place);
        self.stand_on_first_of(next)
    }

    fn seek_before_in_file(&mut self, bound: Option<&[u8]>) -> Result<()> {
        let partitions = self.sst.top.partitions().len();
        let after = bound.map_or(partitions, |bound| self.sst.top.lower_bound(bound));
        let Some(partition) = after.checked_sub(1) else {
            self.at = None;
            return Ok(());
        };
        let index = self.index(partition)?;
        let after = bound.map_or(index.view().blocks(), |bound| index.view().lower_bound(bound));
        let place = Place { partition, block: after.saturating_sub(1) };
        let block = self.block(place)?;
        let after = bound.map_or(block.view().rows(), |bound| block.view().lower_bound(bound));
        self.stand_on_start_of(place, block, after.saturating_sub(1))
    }

    /// The last block after `place` that continues the current row and, if `before` is given, has
    /// a first column less than it; `place` if there is none.
    fn last_place_of_row(&mut self, place: Place, before: Option<&Column<'_>>) -> Result<Place> {
        let mut last = place;
        while let Some(next) = self.place_after(last) {
            let index = self.index(next.partition)?;
            let end = partition(next.block, index.view().blocks(), |block| {
                let column = index.view().first_column(block);
                column.is_some_and(|column| before.is_none_or(|before| column < *before))
                    && index.view().row_is(block, &self.row)
            });
            if end == next.block {
                break;
            }
            last = Place { partition: next.partition, block: end - 1 };
            if end < index.view().blocks() {
                break;
            }
        }
        Ok(last)
    }

    /// Reads on in a block that continues the current row.
    fn read_on_in(&mut self, place: Place) -> Result<()> {
        let block = self.block(place)?;
        if !block.view().continued() || !block.view().row_is(0, &self.row) {
            return Err(self.disagreement(place));
        }
        if let Some(at) = &mut self.at {
            at.read_on(place, block);
        }
        Ok(())
    }

    /// Where no entries of the row are left in the block being read but the row continues, goes
    /// to the first entry in the next block.
    fn settle(&mut self) -> Result<()> {
        let Some(at) = &self.at else { return Ok(()) };
        if !at.cells.is_empty() || !at.continues() {
            return Ok(());
        }
        let place = at.place;
        match self.place_after(place) {
            Some(next) => self.read_on_in(next),
            None => Err(self.disagreement(place)),
        }
    }

    #[inline]
    fn step_to_next_row(&mut self) -> Result<()> {
        let at = self.at.as_mut().expect("the cursor stands on a row");
        if at.place == at.start && at.start_row + 1 < at.block.view().rows() {
            at.stand_in_start(at.start_row + 1);
            let (view, row) = (at.block.view(), at.start_row);
            view.reach_row(row + ROWS_REACHED);
            view.replace_row(row, &mut self.row);
            if view.rows() - row <= ROWS_SOUGHT {
                self.look_ahead(row);
            }
            return Ok(());
        }
        let (near, mut place, mut block) = (at.start.following(), at.place, at.block.clone());
        if at.continues() {
            place = self.last_place_of_row(place, None)?;
            block = self.block(place)?;
        }
        let row = standing(self.at.as_ref()).row_in(place);
        if row + 1 < block.view().rows() {
            self.stand_on(place, block, row + 1);
            return Ok(());
        }
        let next = self.place_after(place);
        match (next, self.ahead.take()) {
            (Some(next), Some(block)) if next == near => {
                self.stand_on_first_row_of(next, block)?;
                self.reached = true;
                Ok(())
            }
            _ => self.stand_on_first_of(next),
        }
    }

    #[inline]
    fn step_to_previous_row(&mut self) -> Result<()> {
        let at = self.at.as_mut().expect("the cursor stands on a row");
        if at.start_row > 1 {
            at.stand_in_start(at.start_row - 1);
            let view = at.block.view();
            view.reach_row(at.start_row.wrapping_sub(ROWS_REACHED));
            view.replace_row(at.start_row, &mut self.row);
            return Ok(());
        }
        if let Some(row) = at.start_row.checked_sub(1) {
            let (place, block) = (at.start, at.start_block().clone());
            return self.stand_on_start_of(place, block, row);
        }
        let start = at.start;
        let Some(place) = self.place_before(start) else {
            self.at = None;
            return Ok(());
        };
        let block = self.block(place)?;
        let last = block.view().rows() - 1;
        self.stand_on_start_of(place, block, last)
    }

    fn skip_in_row(&mut self, column: &Column<'_>) -> Result<()> {
        let at = self.at.as_mut().expect("the cursor stands on a row");
        if at.cells.is_empty() {
            return Ok(());
        }
        at.cells.start = at.block.view().find_column(at.cells.clone(), column);
        if !at.cells.is_empty() || !at.continues() {
            return Ok(());
        }
        let place = at.place;
        let target = self.last_place_of_row(place, Some(column))?;
        if target != place {
            self.read_on_in(target)?;
            let at = self.at.as_mut().expect("the cursor stands on a row");
            at.cells.start = at.block.view().find_column(at.cells.clone(), column);
        }
        self.settle()
    }
}

fn standing(at: Option<&At>) -> &At {
    at.expect("the cursor stands on a row")
}

impl SstCursor {
    /// The row the cursor stands on, with the block being read.
    #[inline]
    pub(crate) fn row_in_block(&self) -> Option<RowHit<'_>> {
        let at = self.at.as_ref()?;
        Some(RowHit { view: at.block.view(), row: at.row_in_block() })
    }

    /// A row span that begins with the current row, a plain one, and goes on in `direction` within
    /// `limit`; `None` if it would have fewer than `rows_min` rows. The first row's key is put into
    /// `key`.
    pub(crate) fn row_span(
        &mut self,
        rows_min: u32,
        direction: Direction,
        limit: Bound<&[u8]>,
        wanted: &WantedCells<'_>,
        key: &mut Vec<u8>,
    ) -> Option<RowSpan> {
        let left = self.simple_rows_ahead(direction, limit);
        if left + 1 < rows_min as usize {
            Mark::RowSpanTooShort.hit();
            return None;
        }
        let at = standing(self.at.as_ref());
        if !std::mem::replace(&mut self.reached, true) {
            for ahead in 1..left.min(ROWS_REACHED) {
                at.block.view().reach_row(match direction {
                    Direction::Forward => at.start_row + ahead,
                    Direction::Reverse => at.start_row - ahead,
                });
            }
        }
        Some(RowSpan::new(at.block.clone(), direction, (at.start_row, left), wanted, key))
    }

    /// Moves to row `row` of a row span that begins with the current row.
    pub(crate) fn move_in_row_span(&mut self, row: usize) {
        let at = self.at.as_mut().expect("the cursor stands on a row");
        at.stand_in_start(row);
        at.block.view().replace_row(row, &mut self.row);
    }

    /// Looks for the block after the one in which the row begins, from row `row` of it.
    pub(crate) fn look_ahead(&mut self, row: usize) {
        let at = standing(self.at.as_ref());
        let next = index_of(self.index.as_ref(), at.start.partition);
        let next = next.map(|index| (index, at.start.block + 1));
        let next = next.filter(|(index, block)| *block < index.view().blocks());
        self.ahead.look(&self.sst, at.block.view().rows() - row, next);
    }

    /// Returns the number of rows after a plain one, in `direction` and within `limit`, that are plain
    /// as well and lie in the same block.
    fn simple_rows_ahead(&self, direction: Direction, limit: Bound<&[u8]>) -> usize {
        let Some(RowHit { view, row }) = self.row_in_block() else { return 0 };
        match direction {
            Direction::Forward => {
                let rows = row + 1..view.rows() - usize::from(view.continues());
                match limit {
                    Bound::Unbounded => rows.len(),
                    Bound::Included(_) => unreachable!("ranges of rows end before a row"),
                    Bound::Excluded(end) => view.rows_before(rows, end),
                }
            }
            Direction::Reverse => {
                let rows = usize::from(view.continued())..row;
                match limit {
                    Bound::Unbounded => rows.len(),
                    Bound::Included(start) => rows.len() - view.rows_before(rows, start),
                    Bound::Excluded(other) => {
                        let before = view.rows_before(rows.clone(), other);
                        let equal = before < rows.len() && view.row_is(rows.start + before, other);
                        rows.len() - before - usize::from(equal)
                    }
                }
            }
        }
    }
}

/// The index of `partition`, if it is the one used last.
#[inline]
fn index_of(used: Option<&(usize, IndexRef)>, partition: usize) -> Option<&IndexRef> {
    used.filter(|(at, _)| *at == partition).map(|(_, index)| index)
}

impl RowCursor for SstCursor {
    fn seek(&mut self, row: &[u8]) -> Result<()> {
        if self.seek_in_block(row) {
            return Ok(());
        }
        self.moved(|cursor| cursor.seek_in_file(row))
    }

    fn seek_before(&mut self, bound: Option<&[u8]>) -> Result<()> {
        self.moved(|cursor| cursor.seek_before_in_file(bound))
    }

    #[inline]
    fn next_row(&mut self) -> Result<()> {
        self.moved(Self::step_to_next_row)
    }

    #[inline]
    fn prev_row(&mut self) -> Result<()> {
        self.moved(Self::step_to_previous_row)
    }

    #[inline]
    fn row(&self) -> Option<&[u8]> {
        self.at.is_some().then_some(self.row.as_slice())
    }

    fn entry(&self) -> Option<EntryKey<'_>> {
        let at = self.at.as_ref()?;
        (!at.cells.is_empty()).then(|| at.block.view().key(at.cells.start))
    }

    fn entry_with_value(&mut self) -> Result<Entry<'_>> {
        let at = standing(self.at.as_ref());
        if let CellValue::Large(large) = at.block.view().value(at.cells.start) {
            let hint = at.block.hint_of_large_value(at.cells.start);
            match self.sst.large_value(large, hint, self.fill) {
                Ok(value) => self.value = Some(value),
                Err(error) => {
                    self.at = None;
                    return Err(error);
                }
            }
        }
        let at = standing(self.at.as_ref());
        let value = match at.block.view().value(at.cells.start) {
            CellValue::Inline(value) => value,
            CellValue::Large(_) => self.value.as_ref().expect("it was just read").view(),
        };
        Ok(at.block.view().key(at.cells.start).with_value(value))
    }

    fn next_entry(&mut self) -> Result<()> {
        let at = self.at.as_mut().expect("the cursor stands on a row");
        assert!(!at.cells.is_empty(), "next_entry past the row's last entry");
        at.cells.start += 1;
        if at.cells.is_empty() { self.moved(Self::settle) } else { Ok(()) }
    }

    fn skip_to_column(&mut self, column: Column<'_>) -> Result<()> {
        self.moved(|cursor| cursor.skip_in_row(&column))
    }

    #[inline]
    fn take_loads(&mut self) -> u64 {
        std::mem::take(&mut self.loads)
    }
}

impl std::fmt::Debug for SstCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SstCursor").field("sst", &self.sst).finish_non_exhaustive()
    }
}
