//! Collects rows and entries column by column and writes them as a data block.

use super::{
    Header, KIND_LARGE, LargeValue, Layout, SAMPLE_EVERY, TIMESTAMP_UNIT_COARSE, ValueLayout,
};
use crate::cell::{Column, EntryKey};
use crate::sstable::heads::{HEAD_LEN, TailForm, common_prefix, head_of, put_tail};
use crate::sstable::ints::{pad_to, put_int, width_for};
use base::codec::PutBytes;
use std::collections::HashMap;

/// A data block in the making. Rows and entries come in order, which the caller checks.
#[derive(Default)]
pub(in crate::sstable) struct BlockBuilder {
    /// Row keys one after the other, and where each ends.
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    prefix_len: usize,
    key_len_min: usize,
    cell_starts: Vec<usize>,
    dictionary: Dictionary,
    /// Ids in order of first sight; `finish` renumbers them.
    ids: Vec<u16>,
    timestamps: Vec<i64>,
    timestamp_range: Option<(i64, i64)>,
    /// Whether all timestamps differ by multiples of the coarse unit.
    timestamps_coarse: bool,
    sequences: Vec<u64>,
    sequence_range: Option<(u64, u64)>,
    kinds: Vec<u8>,
    kinds_vary: bool,
    values: Vec<u8>,
    value_ends: Vec<usize>,
    /// The length of all values so far, if they have one.
    value_len: Option<usize>,
    continued: bool,
}

/// The value of an entry being added.
pub(in crate::sstable) enum NewValue<'a> {
    /// Its bytes.
    Inline(&'a [u8]),
    /// It was written apart.
    Large(LargeValue),
}

impl BlockBuilder {
    pub(in crate::sstable) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(in crate::sstable) fn cells(&self) -> usize {
        self.ids.len()
    }

    /// The block's first row.
    pub(in crate::sstable) fn first_row(&self) -> &[u8] {
        self.key(0)
    }

    /// The newest timestamp of any entry; the oldest possible of an empty block.
    pub(in crate::sstable) fn timestamp_max(&self) -> i64 {
        self.timestamp_range.map_or(i64::MIN, |(_, max)| max)
    }

    /// Starts a row; its first entry must follow.
    pub(in crate::sstable) fn start_row(&mut self, row: &[u8]) {
        if self.key_ends.is_empty() {
            self.prefix_len = row.len();
            self.key_len_min = row.len();
        } else {
            self.prefix_len = self.prefix_len.min(common_prefix(self.key(0), row));
            self.key_len_min = self.key_len_min.min(row.len());
        }
        self.keys.extend_from_slice(row);
        self.key_ends.push(self.keys.len());
        self.cell_starts.push(self.ids.len());
    }

    /// Starts the block with a row whose earlier entries are in the block before.
    pub(in crate::sstable) fn continue_row(&mut self, row: &[u8]) {
        assert!(self.key_ends.is_empty(), "only a block's first row continues another block's");
        self.continued = true;
        self.start_row(row);
    }

    /// Adds an entry to the row started last.
    pub(in crate::sstable) fn push(&mut self, key: &EntryKey<'_>, value: &NewValue<'_>) {
        assert!(!self.key_ends.is_empty(), "an entry lies in a row");
        self.ids.push(self.dictionary.id_of(&key.column));
        self.push_timestamp(key.timestamp.0);
        let sequence = key.sequence.0;
        let (min, max) = self.sequence_range.unwrap_or((sequence, sequence));
        self.sequence_range = Some((min.min(sequence), max.max(sequence)));
        self.sequences.push(sequence);
        match value {
            NewValue::Inline(bytes) => self.push_value(key.kind as u8, bytes),
            NewValue::Large(large) => {
                self.push_value(key.kind as u8 | KIND_LARGE, &large.encode());
            }
        }
    }

    fn push_timestamp(&mut self, timestamp: i64) {
        let (min, max) = self.timestamp_range.unwrap_or((timestamp, timestamp));
        self.timestamps_coarse = match self.timestamps.first() {
            None => true,
            Some(first) => {
                self.timestamps_coarse
                    && timestamp.abs_diff(*first).is_multiple_of(TIMESTAMP_UNIT_COARSE)
            }
        };
        self.timestamp_range = Some((min.min(timestamp), max.max(timestamp)));
        self.timestamps.push(timestamp);
    }

    fn push_value(&mut self, kind: u8, value: &[u8]) {
        self.kinds_vary |= self.kinds.first().is_some_and(|first| *first != kind);
        self.kinds.push(kind);
        self.value_len = match self.value_len {
            _ if self.value_ends.is_empty() => Some(value.len()),
            Some(len) if len == value.len() => Some(len),
            _ => None,
        };
        self.values.extend_from_slice(value);
        self.value_ends.push(self.values.len());
    }

    /// Length of the block as it would be now, or a little more.
    pub(in crate::sstable) fn estimated_len(&self) -> usize {
        if self.is_empty() { 0 } else { Layout::of(&self.header(false)).end }
    }

    fn key(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).map_or(0, |before| self.key_ends[before]);
        &self.keys[start..self.key_ends[row]]
    }

    fn suffix(&self, row: usize) -> &[u8] {
        &self.key(row)[self.prefix_len..]
    }

    /// The header as it would be now. Its tails' length is exact when all suffixes reach 8 bytes,
    /// else an upper bound.
    fn header(&self, continues: bool) -> Header {
        let rows = self.key_ends.len();
        let short = self.key_len_min - self.prefix_len < HEAD_LEN;
        let suffixes = self.keys.len() - rows * self.prefix_len;
        let (timestamp_width, timestamp_unit, timestamp_base) = self.timestamp_form();
        let (sequence_min, sequence_max) = self.sequence_range.unwrap_or_default();
        let constant = self.value_len.is_some();
        Header {
            rows,
            cells: self.ids.len(),
            columns: self.dictionary.entries.len(),
            continued: self.continued,
            continues,
            tail_form: if short { TailForm::Marked } else { TailForm::Plain },
            value_layout: match constant {
                true => ValueLayout::Constant,
                false if rows == self.ids.len() => ValueLayout::PerRow,
                false => ValueLayout::Offsets,
            },
            prefix_len: self.prefix_len,
            dictionary_len: self.dictionary.bytes,
            tails_len: if short { suffixes + rows } else { suffixes - rows * HEAD_LEN },
            values_len: self.values.len(),
            value_len: self.value_len.unwrap_or(0),
            timestamp_width,
            sequence_width: width_for(sequence_max - sequence_min),
            kind_width: usize::from(self.kinds_vary),
            kind: if self.kinds_vary { 0 } else { self.kinds.first().copied().unwrap_or(0) },
            timestamp_base,
            sequence_base: sequence_min,
            timestamp_unit,
        }
    }

    /// Width, unit and base of the timestamps.
    fn timestamp_form(&self) -> (usize, u64, i64) {
        let (min, max) = self.timestamp_range.unwrap_or_default();
        let range = max.abs_diff(min);
        let coarse = range / TIMESTAMP_UNIT_COARSE;
        match width_for(range) {
            8 if self.timestamps_coarse && width_for(coarse) == 4 => {
                (4, TIMESTAMP_UNIT_COARSE, min)
            }
            width => (width, 1, min),
        }
    }

    /// Appends the block to `out` and empties the builder, keeping its memory.
    pub(in crate::sstable) fn finish(&mut self, out: &mut Vec<u8>, continues: bool) {
        assert!(!self.is_empty(), "a block has an entry");
        let mut header = self.header(continues);
        let mut tails = Vec::with_capacity(header.tails_len);
        let mut tail_starts = Vec::with_capacity(header.rows + 1);
        for row in 0..header.rows {
            tail_starts.push(tails.len());
            put_tail(&mut tails, header.tail_form, self.suffix(row));
        }
        tail_starts.push(tails.len());
        header.tails_len = tails.len();
        let layout = Layout::of(&header);
        let mut block = Vec::with_capacity(layout.end);
        header.encode(&mut block);
        block.extend_from_slice(&self.key(0)[..header.prefix_len]);
        let renumbered = self.dictionary.write(&mut block, &layout);
        self.write_rows(&mut block, &layout, &tail_starts);
        block.extend_from_slice(&tails);
        self.write_cells(&mut block, &header, &layout, &renumbered);
        block.extend_from_slice(&self.values);
        assert_eq!(block.len(), layout.end, "the sections are the layout's");
        out.extend_from_slice(&block);
        self.clear();
    }

    fn write_rows(&self, out: &mut Vec<u8>, layout: &Layout, tail_starts: &[usize]) {
        let rows = self.key_ends.len();
        pad_to(out, layout.samples);
        for row in (0..rows).step_by(SAMPLE_EVERY) {
            out.put_u64(head_of(self.suffix(row)));
        }
        pad_to(out, layout.directory);
        for (row, tail_start) in tail_starts.iter().enumerate() {
            let cell = self.cell_starts.get(row).copied().unwrap_or(self.ids.len());
            out.put_u64(if row < rows { head_of(self.suffix(row)) } else { 0 });
            let width = if layout.directory_stride == 16 { 2 } else { 4 };
            put_int(out, width, *tail_start as u64);
            put_int(out, width, cell as u64);
            put_int(out, 4, self.value_start(cell) as u64);
            pad_to(out, layout.directory + (row + 1) * layout.directory_stride);
        }
    }

    fn write_cells(&self, out: &mut Vec<u8>, header: &Header, layout: &Layout, ids: &[u16]) {
        pad_to(out, layout.ids);
        for seen in &self.ids {
            let id = ids[usize::from(*seen)];
            match layout.id_width {
                1 => out.push(u8::try_from(id).expect("at most 256 columns")),
                _ => out.put_u16(id),
            }
        }
        pad_to(out, layout.timestamps);
        for timestamp in &self.timestamps {
            let delta = timestamp.abs_diff(header.timestamp_base) / header.timestamp_unit;
            put_int(out, header.timestamp_width, delta);
        }
        pad_to(out, layout.sequences);
        for sequence in &self.sequences {
            put_int(out, header.sequence_width, sequence - header.sequence_base);
        }
        pad_to(out, layout.kinds);
        if header.kind_width == 1 {
            out.extend_from_slice(&self.kinds);
        }
        pad_to(out, layout.value_offsets);
        if layout.value_offset_width > 0 {
            for cell in 0..=self.ids.len() {
                put_int(out, layout.value_offset_width, self.value_start(cell) as u64);
            }
        }
    }

    fn value_start(&self, cell: usize) -> usize {
        cell.checked_sub(1).map_or(0, |before| self.value_ends[before])
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.key_ends.clear();
        self.cell_starts.clear();
        self.dictionary.clear();
        self.ids.clear();
        self.timestamps.clear();
        self.timestamp_range = None;
        self.sequences.clear();
        self.sequence_range = None;
        self.kinds.clear();
        self.kinds_vary = false;
        self.values.clear();
        self.value_ends.clear();
        self.value_len = None;
        self.continued = false;
    }
}

/// The distinct columns of a block in order of first sight. A column is looked up by guessing
/// that it follows the one before as it did last time, which rows of one shape make true.
#[derive(Default)]
struct Dictionary {
    entries: Vec<Box<[u8]>>,
    bytes: usize,
    ids: HashMap<Box<[u8]>, u16>,
    followers: Vec<u16>,
    last: u16,
    scratch: Vec<u8>,
}

impl Dictionary {
    fn id_of(&mut self, column: &Column<'_>) -> u16 {
        self.scratch.clear();
        put_column(&mut self.scratch, column);
        let id = match self.guess() {
            Some(id) => id,
            None => self.look_up(),
        };
        if let Some(follower) = self.followers.get_mut(usize::from(self.last)) {
            *follower = id;
        }
        self.last = id;
        id
    }

    fn guess(&self) -> Option<u16> {
        let matches = |id: u16| {
            self.entries.get(usize::from(id)).is_some_and(|entry| **entry == *self.scratch)
        };
        if matches(self.last) {
            return Some(self.last);
        }
        let follower = *self.followers.get(usize::from(self.last))?;
        matches(follower).then_some(follower)
    }

    fn look_up(&mut self) -> u16 {
        if let Some(id) = self.ids.get(self.scratch.as_slice()) {
            return *id;
        }
        let id = u16::try_from(self.entries.len()).expect("no more columns than entries");
        let entry: Box<[u8]> = self.scratch.as_slice().into();
        self.bytes += entry.len();
        self.ids.insert(entry.clone(), id);
        self.entries.push(entry);
        self.followers.push(id);
        id
    }

    /// Writes offsets and columns in the columns' order; gives the new id of each old one.
    fn write(&self, out: &mut Vec<u8>, layout: &Layout) -> Vec<u16> {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_unstable_by_key(|id| column_order(&self.entries[*id]));
        pad_to(out, layout.dictionary_offsets);
        let mut renumbered = vec![0; order.len()];
        let mut offset = 0;
        for (new, old) in order.iter().enumerate() {
            put_int(out, layout.dictionary_offset_width, offset);
            offset += self.entries[*old].len() as u64;
            renumbered[*old] = new as u16;
        }
        put_int(out, layout.dictionary_offset_width, offset);
        for old in order {
            out.extend_from_slice(&self.entries[old]);
        }
        renumbered
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
        self.ids.clear();
        self.followers.clear();
        self.last = 0;
    }
}

/// Appends a column as dictionaries and indexes keep it: family u16, scope u8, qualifier.
pub(in crate::sstable) fn put_column(out: &mut Vec<u8>, column: &Column<'_>) {
    out.put_u16(column.family.0);
    out.push(column.scope as u8);
    out.extend_from_slice(column.qualifier);
}

fn column_order(entry: &[u8]) -> (u16, u8, &[u8]) {
    (u16::from_le_bytes([entry[0], entry[1]]), entry[2], &entry[3..])
}
