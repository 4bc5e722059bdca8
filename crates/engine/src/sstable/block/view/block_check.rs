//! The check of a data block by `DataMeta::check`, once, when it enters the cache.

use super::{BlockView, Seen, decode_column};
use crate::batch::{ROW_BYTES_MAX, VALUE_BYTES_MAX, check_entry};
use crate::cell::{Kind, Scope, SequenceNumber, Timestamp};
use crate::sstable::block::{HEADER_LEN, Header, LargeValue, Layout, SAMPLE_EVERY, split_kind};
use crate::sstable::format::damage::{Damage, ensure};
use crate::sstable::format::ints::{int_at, u32_at, u64_at};
use crate::sstable::format::key_heads::{HEAD_LEN, check_key, suffix_len};
use std::cmp::Reverse;

impl BlockView<'_> {
    pub(super) fn check_padding(self) -> Result<(), Damage> {
        let (header, layout) = (self.meta.header(), self.meta.layout());
        let gaps = [
            (HEADER_LEN + header.prefix_len, layout.dictionary_offsets),
            (layout.dictionary + header.dictionary_len, layout.samples),
            (layout.samples + 8 * header.rows.div_ceil(SAMPLE_EVERY), layout.directory),
            (layout.tails + header.tails_len, layout.ids),
            (layout.ids + header.cells * layout.id_width, layout.timestamps),
            (layout.timestamps + header.cells * header.timestamp_width, layout.sequences),
            (layout.sequences + header.cells * header.sequence_width, layout.kinds),
            (layout.kinds + header.cells * header.kind_width, layout.value_offsets),
        ];
        for (from, to) in gaps {
            let zero = self.bytes[from..to].iter().all(|byte| *byte == 0);
            ensure(zero, from, "bytes between sections are not zero")?;
        }
        Ok(())
    }

    pub(super) fn check_dictionary(self) -> Result<(), Damage> {
        let at = self.meta.layout().dictionary_offsets;
        ensure(self.dictionary_offset(0) == 0, at, "the dictionary does not start at 0")?;
        let end = self.dictionary_offset(self.meta.header().columns);
        ensure(
            end == self.meta.header().dictionary_len,
            at,
            "the dictionary does not end at its end",
        )?;
        let mut previous = None;
        for id in 0..self.meta.header().columns {
            let (start, end) = (self.dictionary_offset(id), self.dictionary_offset(id + 1));
            let ordered = start <= end && end <= self.meta.header().dictionary_len;
            ensure(ordered, at, "dictionary offsets descend")?;
            let at = self.meta.layout().dictionary + start;
            let column = decode_column(self.dictionary_entry(id))
                .ok_or(Damage::new(at, "a dictionary entry that is no column"))?;
            ensure(previous < Some(column), at, "columns out of order")?;
            previous = Some(column);
        }
        Ok(())
    }

    pub(super) fn check_directory(self) -> Result<(), Damage> {
        let rows = self.rows();
        let form = self.meta.header().tail_form;
        let last = self.directory(rows);
        ensure(self.tail_start(0) == 0, self.directory(0), "row tails do not start at 0")?;
        ensure(self.cell_start(0) == 0, self.directory(0), "entries do not start at 0")?;
        ensure(self.tail_start(rows) == self.meta.header().tails_len, last, "row tails' end")?;
        ensure(self.cell_start(rows) == self.meta.header().cells, last, "entries' end")?;
        ensure(self.row_value_start(rows) == self.meta.header().values_len, last, "values' end")?;
        ensure(self.head(rows) == 0, last, "the sentinel has a head")?;
        for row in 0..rows {
            let at = self.directory(row);
            let tails = (self.tail_start(row), self.tail_start(row + 1));
            let tails_ordered = tails.0 <= tails.1 && tails.1 <= self.meta.header().tails_len;
            ensure(tails_ordered, at, "row tails out of order")?;
            let cells = self.cells_of(row);
            let cells_ordered = cells.start < cells.end && cells.end <= self.meta.header().cells;
            ensure(cells_ordered, at, "a row without entries, or rows' entries out of order")?;
            check_key(form, self.head(row), self.tail(row), self.meta.layout().tails + tails.0)?;
            let len = self.meta.header().prefix_len + suffix_len(form, self.tail(row));
            ensure(len <= ROW_BYTES_MAX, at, "a row key over its limit")?;
            if row > 0 {
                let before = (self.head(row - 1), self.tail(row - 1));
                ensure(before < (self.head(row), self.tail(row)), at, "rows out of order")?;
            }
            if row.is_multiple_of(SAMPLE_EVERY) {
                let sample = self.meta.layout().samples + HEAD_LEN * (row / SAMPLE_EVERY);
                let equal = u64_at(self.bytes, sample) == self.head(row);
                ensure(equal, sample, "a sample is not its row's head")?;
            }
        }
        if self.meta.layout().directory_stride == 24 {
            let zero = (0..=rows).all(|row| u32_at(self.bytes, self.directory(row) + 20) == 0);
            ensure(
                zero,
                self.meta.layout().directory,
                "reserved bytes of the directory are not zero",
            )?;
        }
        Ok(())
    }

    pub(super) fn check_value_offsets(self) -> Result<(), Damage> {
        let (at, cells) = (self.meta.layout().value_offsets, self.meta.header().cells);
        ensure(self.value_start(0) == 0, at, "values do not start at 0")?;
        ensure(self.value_start(cells) == self.meta.header().values_len, at, "values' end")?;
        for cell in 0..cells {
            let ordered = self.value_start(cell) <= self.value_start(cell + 1);
            ensure(ordered, at, "value offsets descend")?;
        }
        for row in 0..self.rows() {
            let equal = self.row_value_start(row) == self.value_start(self.cell_start(row));
            ensure(equal, self.directory(row), "a row's values start elsewhere")?;
        }
        Ok(())
    }

    /// Checks the entries and says what was seen of them.
    pub(super) fn check_cells(self, only_puts: bool) -> Result<Seen, Damage> {
        self.check_ranges()?;
        let mut seen =
            Seen { timestamp_max: Timestamp::MIN, sequence_max: SequenceNumber(0), distinct: true };
        for row in 0..self.rows() {
            let mut before = None;
            for cell in self.cells_of(row) {
                let at = self.meta.layout().ids + cell * self.meta.layout().id_width;
                let id = self.stored_id(cell);
                ensure(id < self.meta.header().columns, at, "a column id past the last")?;
                if !only_puts {
                    self.check_entry(cell)?;
                }
                let (timestamp, sequence) = (self.timestamp(cell), self.sequence(cell));
                seen.timestamp_max = seen.timestamp_max.max(timestamp);
                seen.sequence_max = seen.sequence_max.max(sequence);
                let place = (id, Reverse((timestamp, sequence)));
                ensure(before < Some(place), at, "entries of a row out of order")?;
                let same_cell =
                    |(id_before, Reverse((before, _)))| id_before == id && before == timestamp;
                seen.distinct &= !before.is_some_and(same_cell);
                before = Some(place);
            }
        }
        Ok(seen)
    }

    /// Returns whether every entry is a put of an inline value in a column, which needs no look at each.
    pub(super) fn has_only_puts(self) -> bool {
        let cells = |id| self.column(id).scope == Scope::Column;
        let puts = self.meta.header().kind_width == 0 && self.meta.header().kind == Kind::Put as u8;
        puts && (0..self.meta.header().columns).all(cells)
    }

    /// Checks that no difference leaves the range of timestamps or sequence numbers.
    fn check_ranges(self) -> Result<(), Damage> {
        let Header { timestamp_base, sequence_base, timestamp_unit, .. } = self.meta.header();
        let timestamp_room = i64::MAX.abs_diff(timestamp_base) / timestamp_unit;
        let sequence_room = SequenceNumber::MAX.0.checked_sub(sequence_base);
        let sequence_room = sequence_room.ok_or(Damage::new(40, "sequence base"))?;
        for cell in 0..self.meta.header().cells {
            let Layout { timestamps, sequences, .. } = self.meta.layout();
            let delta = int_at(self.bytes, timestamps, self.meta.header().timestamp_width, cell);
            ensure(delta <= timestamp_room, timestamps, "a timestamp out of range")?;
            let delta = int_at(self.bytes, sequences, self.meta.header().sequence_width, cell);
            ensure(delta <= sequence_room, sequences, "a sequence number out of range")?;
        }
        Ok(())
    }

    fn check_entry(self, cell: usize) -> Result<(), Damage> {
        let at = self.meta.layout().kinds + cell * self.meta.header().kind_width;
        let (_, large) =
            split_kind(self.kind_byte(cell)).ok_or(Damage::new(at, "a byte that names no kind"))?;
        let value = self.value_bytes(cell);
        if large {
            let handle = LargeValue::decode(value);
            let fits = handle.is_some_and(|large| large.len as usize <= VALUE_BYTES_MAX);
            ensure(fits, self.meta.layout().values, "a malformed handle of a large value")?;
        }
        check_entry(&self.key(cell).with_value(value))
            .map_err(|error| Damage::new(at, error.to_string()))
    }
}
