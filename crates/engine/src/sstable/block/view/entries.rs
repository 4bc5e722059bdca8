//! The entries of a checked data block: their columns, timestamps, sequence numbers, kinds, values.

use super::{BlockView, CellValue, split_column};
use crate::cell::{Column, EntryKey, FamilyId, Kind, SequenceNumber, Timestamp};
use crate::sstable::block::{KIND_LARGE, LargeValue, Layout, ValueLayout, split_kind};
use crate::sstable::format::ints::{int_at, partition, u16_at};
use std::ops::Range;

impl<'a> BlockView<'a> {
    /// The entries of `row`.
    #[inline]
    pub(crate) fn cells_of(self, row: usize) -> Range<usize> {
        self.cell_start(row)..self.cell_start(row + 1)
    }

    /// The first entry in `cells`, all of one row, whose column is not less than `column`.
    pub(crate) fn find_column(&self, cells: Range<usize>, column: &Column<'_>) -> usize {
        let id = self.first_id(column);
        self.first_cell(cells, id)
    }

    /// The first id of the dictionary whose column is not less than `column`.
    pub(crate) fn first_id(self, column: &Column<'_>) -> usize {
        partition(0, self.meta.header().columns, |id| self.column(id) < *column)
    }

    /// The first id of the dictionary that is of a later family.
    pub(crate) fn first_id_after(self, family: FamilyId) -> usize {
        partition(0, self.meta.header().columns, |id| self.column(id).family <= family)
    }

    /// The first entry in `cells`, all of one row, whose column id is not less than `id`.
    pub(crate) fn first_cell(self, cells: Range<usize>, id: usize) -> usize {
        partition(cells.start, cells.end, |cell| self.id(cell) < id)
    }

    /// The dictionary id of an entry's column: equal within the block for equal columns.
    #[inline]
    pub(crate) fn id(self, cell: usize) -> usize {
        // A line of memory less where there is nothing to tell apart.
        if self.meta.header().columns == 1 { 0 } else { self.stored_id(cell) }
    }

    #[inline]
    pub(super) fn stored_id(self, cell: usize) -> usize {
        let Layout { ids, id_width, .. } = self.meta.layout();
        match id_width {
            1 => self.bytes[ids + cell].into(),
            _ => u16_at(self.bytes, ids + 2 * cell).into(),
        }
    }

    /// Returns the sort key of an entry, and its kind.
    pub(crate) fn key(self, cell: usize) -> EntryKey<'a> {
        EntryKey {
            column: self.column(self.id(cell)),
            timestamp: self.timestamp(cell),
            sequence: self.sequence(cell),
            kind: self.kind(cell),
        }
    }

    /// Returns the kind of an entry.
    pub(crate) fn kind(self, cell: usize) -> Kind {
        split_kind(self.kind_byte(cell)).expect("kinds were checked").0
    }

    /// The value of an entry.
    #[inline]
    pub(crate) fn value(self, cell: usize) -> CellValue<'a> {
        let bytes = self.value_bytes(cell);
        if self.kind_byte(cell) & KIND_LARGE == 0 {
            return CellValue::Inline(bytes);
        }
        CellValue::Large(LargeValue::decode(bytes).expect("handles were checked"))
    }

    /// Returns the number of entries before `cell` that have a value with a block of its own. Of
    /// `cells()`: how many have one at all.
    pub(crate) fn large_values_before(self, cell: usize) -> usize {
        let header = self.meta.header();
        match header.kind_width {
            0 if header.kind & KIND_LARGE == 0 => 0,
            0 => cell,
            _ => {
                let kinds = &self.bytes[self.meta.layout().kinds..][..cell];
                kinds.iter().map(|kind| usize::from(kind & KIND_LARGE != 0)).sum()
            }
        }
    }

    /// The column of a dictionary id.
    #[inline]
    pub(crate) fn column(self, id: usize) -> Column<'a> {
        split_column(self.dictionary_entry(id)).expect("the dictionary was checked")
    }

    /// The timestamp of an entry.
    #[inline]
    pub(crate) fn timestamp(self, cell: usize) -> Timestamp {
        let delta = int_at(
            self.bytes,
            self.meta.layout().timestamps,
            self.meta.header().timestamp_width,
            cell,
        );
        let offset = delta.wrapping_mul(self.meta.header().timestamp_unit);
        Timestamp(self.meta.header().timestamp_base.wrapping_add(offset as i64))
    }

    /// The sequence number of an entry.
    pub(crate) fn sequence(self, cell: usize) -> SequenceNumber {
        let delta = int_at(
            self.bytes,
            self.meta.layout().sequences,
            self.meta.header().sequence_width,
            cell,
        );
        SequenceNumber(self.meta.header().sequence_base.wrapping_add(delta))
    }

    #[inline]
    pub(super) fn kind_byte(self, cell: usize) -> u8 {
        match self.meta.header().kind_width {
            0 => self.meta.header().kind,
            _ => self.bytes[self.meta.layout().kinds + cell],
        }
    }

    #[inline]
    pub(super) fn value_start(self, cell: usize) -> usize {
        match self.meta.header().value_layout {
            ValueLayout::Constant => cell * self.meta.header().value_len,
            ValueLayout::PerRow => self.row_value_start(cell),
            ValueLayout::Offsets => {
                let Layout { value_offset_width, value_offsets, .. } = self.meta.layout();
                int_at(self.bytes, value_offsets, value_offset_width, cell) as usize
            }
        }
    }

    #[inline]
    pub(super) fn value_bytes(self, cell: usize) -> &'a [u8] {
        let start = self.meta.layout().values;
        &self.bytes[start + self.value_start(cell)..start + self.value_start(cell + 1)]
    }
}
