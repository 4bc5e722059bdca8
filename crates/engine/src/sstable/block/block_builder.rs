//! Collects rows and entries column by column and writes them as a data block.

use super::{
    Header, KIND_LARGE, LargeValue, Layout, SAMPLE_EVERY, TIMESTAMP_UNIT_COARSE, ValueLayout,
    decode_column,
};
use crate::cell::{Column, EntryKey, SequenceNumber, Timestamp};
use crate::sstable::format::DATA_BLOCK_BYTES_MAX;
use crate::sstable::format::ints::{put_ints, width_for};
use crate::sstable::format::key_heads::{HEAD_LEN, TailForm, common_prefix, head_of};
use base::codec::PutBytes;
use std::cmp::Ordering;

/// Bytes of all keys of a block, what they share counted each time, at most. The block is shorter,
/// but the keys lie whole in memory while it is built.
const KEYS_BYTES_MAX: usize = DATA_BLOCK_BYTES_MAX;
/// Bytes that a row takes in the block beside its key and its entries, at most.
const ROW_LEN_MAX: usize = 26;

/// A data block in the making. Rows come in order, which the caller checks; the order of the
/// entries of a row is checked here. Its memory is kept from block to block.
#[derive(Default)]
pub(crate) struct BlockBuilder {
    /// Row keys one after the other.
    keys: Vec<u8>,
    rows: Vec<NewRow>,
    key_len_min: usize,
    dictionary: Dictionary,
    cells: Vec<NewCell>,
    timestamps: Option<Timestamps>,
    /// Smallest and largest.
    sequences: Option<(u64, u64)>,
    kinds_vary: bool,
    values: Vec<u8>,
    /// The length of all values so far, if they have one.
    value_len: Option<usize>,
    continued: bool,
}

/// The row keys of a block.
#[derive(Clone, Copy)]
struct Keys {
    rows: usize,
    /// Total bytes of all keys.
    bytes: usize,
    /// Length of the shortest.
    len_min: usize,
    /// Length of what all begin with.
    prefix_len: usize,
}

/// A row of the block.
struct NewRow {
    /// Where its key ends in `keys`.
    key_end: usize,
    /// Its first entry.
    cell: usize,
}

/// An entry of the block.
struct NewCell {
    timestamp: i64,
    sequence: u64,
    /// Where its value ends in `values`.
    value_end: u32,
    /// Of its column, in order of first sight; `finish` renumbers them.
    id: u16,
    kind: u8,
}

/// Statistics of the timestamps of the block.
#[derive(Clone, Copy)]
struct Timestamps {
    first: i64,
    min: i64,
    max: i64,
    /// True if all differ by multiples of the coarse unit.
    coarse: bool,
}

impl Timestamps {
    fn with(self, timestamp: i64) -> Self {
        let away = timestamp.abs_diff(self.first);
        Self {
            first: self.first,
            min: self.min.min(timestamp),
            max: self.max.max(timestamp),
            coarse: self.coarse && away.is_multiple_of(TIMESTAMP_UNIT_COARSE),
        }
    }
}

/// The value of an entry being added.
pub(crate) enum NewValue<'a> {
    /// Its bytes.
    Inline(&'a [u8]),
    /// It was written apart.
    Large(LargeValue),
}

impl BlockBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    pub(crate) fn cells(&self) -> usize {
        self.cells.len()
    }

    /// The block's first row.
    pub(crate) fn first_row(&self) -> &[u8] {
        self.key(0)
    }

    /// The oldest and the newest timestamp of its entries, of which there is one.
    pub(crate) fn timestamp_range(&self) -> (i64, i64) {
        let all = self.timestamps.expect("the block has an entry");
        (all.min, all.max)
    }

    /// The smallest and the largest sequence number of its entries, of which there is one.
    pub(crate) fn sequence_range(&self) -> (u64, u64) {
        self.sequences.expect("the block has an entry")
    }

    /// Starts a row; its first entry must follow.
    pub(crate) fn start_row(&mut self, row: &[u8]) {
        let shortest = if self.rows.is_empty() { row.len() } else { self.key_len_min };
        self.key_len_min = shortest.min(row.len());
        self.keys.extend_from_slice(row);
        self.rows.push(NewRow { key_end: self.keys.len(), cell: self.cells.len() });
    }

    /// Starts the block with a row whose earlier entries are in the block before.
    pub(crate) fn continue_row(&mut self, row: &[u8]) {
        assert!(self.rows.is_empty(), "only a block's first row continues another block's");
        self.continued = true;
        self.start_row(row);
    }

    /// Returns whether an entry of `key` comes after all that the block has of the row started last.
    pub(crate) fn comes_last(&self, key: &EntryKey<'_>) -> bool {
        let Some(last) = self.last_of_row() else { return true };
        let column = decode(self.dictionary.column(last.id));
        let last = EntryKey {
            column,
            timestamp: Timestamp(last.timestamp),
            sequence: SequenceNumber(last.sequence),
            kind: key.kind,
        };
        last.cmp_in_row(key) == Ordering::Less
    }

    /// The last entry of the row started last, if the block has one of it.
    fn last_of_row(&self) -> Option<&NewCell> {
        let row = self.rows.last().expect("an entry lies in a row");
        self.cells.last().filter(|_| row.cell < self.cells.len())
    }

    /// Adds an entry to the row started last, if it comes after all of the row; whether it does.
    #[must_use]
    pub(crate) fn push(&mut self, key: &EntryKey<'_>, value: &NewValue<'_>) -> bool {
        let found = self.dictionary.find(&key.column);
        let (timestamp, sequence) = (key.timestamp.0, key.sequence.0);
        if let Some(last) = self.last_of_row() {
            let later = || (timestamp, sequence) < (last.timestamp, last.sequence);
            let ordered = match found.after_last {
                Ordering::Greater => true,
                Ordering::Equal => later(),
                Ordering::Less => false,
            };
            if !ordered {
                return false;
            }
        }
        let id = self.dictionary.take(&key.column, found);
        self.timestamps = Some(match self.timestamps {
            Some(all) => all.with(timestamp),
            None => Timestamps { first: timestamp, min: timestamp, max: timestamp, coarse: true },
        });
        let (min, max) = self.sequences.unwrap_or((sequence, sequence));
        self.sequences = Some((min.min(sequence), max.max(sequence)));
        let (kind, value_end) = match value {
            NewValue::Inline(bytes) => (key.kind as u8, self.push_value(bytes)),
            NewValue::Large(large) => {
                (key.kind as u8 | KIND_LARGE, self.push_value(&large.encode()))
            }
        };
        self.kinds_vary |= self.cells.first().is_some_and(|first| first.kind != kind);
        self.cells.push(NewCell { timestamp, sequence, value_end, id, kind });
        true
    }

    /// Appends a value and tells where it ends.
    fn push_value(&mut self, value: &[u8]) -> u32 {
        self.value_len = match self.value_len {
            _ if self.cells.is_empty() => Some(value.len()),
            Some(len) if len == value.len() => Some(len),
            _ => None,
        };
        self.values.extend_from_slice(value);
        u32::try_from(self.values.len()).expect("blocks are below 4 GiB")
    }

    /// Length of the block as it would be now, or a little more.
    pub(crate) fn estimated_len(&self) -> usize {
        if self.is_empty() { 0 } else { Layout::of(&self.header(false)).end }
    }

    /// Returns whether `estimated_len` is `len` or more, `len` being more than 0. Mostly known
    /// without it.
    pub(crate) fn reaches(&self, len: usize) -> bool {
        self.len_at_most() >= len && self.estimated_len() >= len
    }

    /// Returns whether the block would be `len` bytes or longer with `row`, which comes after its
    /// rows, or would gather too many bytes of keys. A block keeps what its keys share once: a row
    /// that shares less makes every key longer. Never so of a block without entries.
    pub(crate) fn reaches_with(&self, row: &[u8], len: usize) -> bool {
        if self.is_empty() || self.len_at_most() + ROW_LEN_MAX + row.len() < len {
            return false;
        }
        let keys = Keys {
            rows: self.rows.len() + 1,
            bytes: self.keys.len() + row.len(),
            len_min: self.key_len_min.min(row.len()),
            prefix_len: common_prefix(self.key(0), row),
        };
        keys.bytes > KEYS_BYTES_MAX || Layout::of(&self.header_with(keys, false)).end >= len
    }

    /// Length that the block does not exceed; cheap.
    fn len_at_most(&self) -> usize {
        // What rows, columns and entries take at most beside keys, columns and values, and the
        // header with all gaps.
        let (rows, columns) = (self.rows.len(), self.dictionary.len());
        let fixed = 256 + ROW_LEN_MAX * rows + 4 * columns + 23 * self.cells.len();
        fixed + self.keys.len() + self.dictionary.bytes.len() + self.values.len()
    }

    fn key(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).map_or(0, |before| self.rows[before].key_end);
        &self.keys[start..self.rows[row].key_end]
    }

    /// Length of what all row keys begin with: what the first and the last of them share.
    fn prefix_len(&self) -> usize {
        match self.rows.len() {
            0 => 0,
            rows => common_prefix(self.key(0), self.key(rows - 1)),
        }
    }

    /// The header as it would be now. Its tails' length is exact when all suffixes reach 8 bytes,
    /// else an upper bound.
    fn header(&self, continues: bool) -> Header {
        let keys = Keys {
            rows: self.rows.len(),
            bytes: self.keys.len(),
            len_min: self.key_len_min,
            prefix_len: self.prefix_len(),
        };
        self.header_with(keys, continues)
    }

    /// The same with other keys.
    fn header_with(&self, keys: Keys, continues: bool) -> Header {
        let Keys { rows, bytes, len_min, prefix_len } = keys;
        let short = len_min - prefix_len < HEAD_LEN;
        let suffixes = bytes - rows * prefix_len;
        let (timestamp_width, timestamp_unit, timestamp_base) = self.timestamp_form();
        let (sequence_min, sequence_max) = self.sequences.unwrap_or_default();
        let constant = self.value_len.is_some();
        let kind = self.cells.first().map_or(0, |first| first.kind);
        Header {
            rows,
            cells: self.cells.len(),
            columns: self.dictionary.len(),
            continued: self.continued,
            continues,
            tail_form: if short { TailForm::Marked } else { TailForm::Plain },
            value_layout: match constant {
                true => ValueLayout::Constant,
                false if self.rows.len() == self.cells.len() => ValueLayout::PerRow,
                false => ValueLayout::Offsets,
            },
            prefix_len,
            dictionary_len: self.dictionary.bytes.len(),
            tails_len: if short { suffixes + rows } else { suffixes - rows * HEAD_LEN },
            values_len: self.values.len(),
            value_len: self.value_len.unwrap_or(0),
            timestamp_width,
            sequence_width: width_for(sequence_max - sequence_min),
            kind_width: usize::from(self.kinds_vary),
            kind: if self.kinds_vary { 0 } else { kind },
            timestamp_base,
            sequence_base: sequence_min,
            timestamp_unit,
        }
    }

    /// Width, unit and base of the timestamps.
    fn timestamp_form(&self) -> (usize, u64, i64) {
        let Some(Timestamps { min, max, coarse, .. }) = self.timestamps else { return (0, 1, 0) };
        let range = max.abs_diff(min);
        match width_for(range) {
            8 if coarse && width_for(range / TIMESTAMP_UNIT_COARSE) == 4 => {
                (4, TIMESTAMP_UNIT_COARSE, min)
            }
            width => (width, 1, min),
        }
    }

    /// Appends the block to `out` and empties the builder, keeping its memory. A block that no
    /// reader accepts is a bug of the caller, who cuts blocks, and panics.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>, continues: bool) {
        assert!(!self.is_empty(), "a block has an entry");
        let mut header = self.header(continues);
        if header.tail_form == TailForm::Marked {
            let head_end = header.prefix_len + HEAD_LEN;
            let rest = |row| self.key(row).len().saturating_sub(head_end);
            header.tails_len = (0..header.rows).map(|row| 1 + rest(row)).sum();
        }
        let layout = Layout::of(&header);
        assert!(layout.end <= DATA_BLOCK_BYTES_MAX, "a data block of {} bytes", layout.end);
        let start = out.len();
        out.reserve(layout.end);
        header.encode(out);
        out.extend_from_slice(&self.keys[..header.prefix_len]);
        // The zeroes between the sections, and for now in them.
        out.resize(start + layout.values, 0);
        let block = &mut out[start..];
        self.dictionary.write(block, &layout);
        self.write_rows(block, &header, &layout);
        self.write_cells(block, &header, &layout);
        out.extend_from_slice(&self.values);
        assert_eq!(out.len() - start, layout.end, "the sections are the layout's");
        self.clear();
    }

    fn write_rows(&self, block: &mut [u8], header: &Header, layout: &Layout) {
        let mut key_start = 0;
        let mut tail = layout.tails;
        for (at, row) in self.rows.iter().enumerate() {
            let suffix = &self.keys[key_start + header.prefix_len..row.key_end];
            key_start = row.key_end;
            let head = head_of(suffix);
            if at.is_multiple_of(SAMPLE_EVERY) {
                put_ints(block, layout.samples + at / SAMPLE_EVERY * HEAD_LEN, 8, [head]);
            }
            self.write_directory(block, layout, at, (head, tail - layout.tails, row.cell));
            let rest = suffix.get(HEAD_LEN..).unwrap_or_default();
            if header.tail_form == TailForm::Marked {
                block[tail] = (suffix.len() - rest.len()) as u8;
                tail += 1;
            }
            block[tail..tail + rest.len()].copy_from_slice(rest);
            tail += rest.len();
        }
        let sentinel = (0, tail - layout.tails, self.cells.len());
        self.write_directory(block, layout, self.rows.len(), sentinel);
    }

    /// Writes head, tail offset and first entry of a row, and where its values start.
    fn write_directory(
        &self,
        block: &mut [u8],
        layout: &Layout,
        row: usize,
        (head, tail, cell): (u64, usize, usize),
    ) {
        let at = layout.directory + row * layout.directory_stride;
        let entry = &mut block[at..at + layout.directory_stride];
        let value = self.value_start(cell).to_le_bytes();
        entry[..HEAD_LEN].copy_from_slice(&head.to_le_bytes());
        match layout.directory_stride {
            16 => {
                entry[8..10].copy_from_slice(&(tail as u16).to_le_bytes());
                entry[10..12].copy_from_slice(&(cell as u16).to_le_bytes());
                entry[12..16].copy_from_slice(&value);
            }
            _ => {
                entry[8..12].copy_from_slice(&(tail as u32).to_le_bytes());
                entry[12..16].copy_from_slice(&(cell as u32).to_le_bytes());
                entry[16..20].copy_from_slice(&value);
            }
        }
    }

    fn write_cells(&self, block: &mut [u8], header: &Header, layout: &Layout) {
        let cells = &self.cells;
        let id = |cell: &NewCell| self.dictionary.sorted_id(cell.id);
        match layout.id_width {
            1 => {
                let ids = &mut block[layout.ids..layout.ids + cells.len()];
                ids.iter_mut().zip(cells).for_each(|(to, cell)| *to = id(cell) as u8);
            }
            _ => put_ints(block, layout.ids, 2, cells.iter().map(|cell| u64::from(id(cell)))),
        }
        let Header { timestamp_base, timestamp_width, sequence_width, .. } = *header;
        let deltas = cells.iter().map(|cell| cell.timestamp.abs_diff(timestamp_base));
        match header.timestamp_unit {
            1 => put_ints(block, layout.timestamps, timestamp_width, deltas),
            unit => put_ints(block, layout.timestamps, timestamp_width, deltas.map(|d| d / unit)),
        }
        let sequences = cells.iter().map(|cell| cell.sequence - header.sequence_base);
        put_ints(block, layout.sequences, sequence_width, sequences);
        if header.kind_width == 1 {
            let kinds = &mut block[layout.kinds..layout.kinds + cells.len()];
            kinds.iter_mut().zip(cells).for_each(|(to, cell)| *to = cell.kind);
        }
        let ends = cells.iter().map(|cell| u64::from(cell.value_end));
        let offsets = std::iter::once(0).chain(ends);
        put_ints(block, layout.value_offsets, layout.value_offset_width, offsets);
    }

    fn value_start(&self, cell: usize) -> u32 {
        cell.checked_sub(1).map_or(0, |before| self.cells[before].value_end)
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.rows.clear();
        self.dictionary.clear();
        self.cells.clear();
        self.timestamps = None;
        self.sequences = None;
        self.kinds_vary = false;
        self.values.clear();
        self.value_len = None;
        self.continued = false;
    }
}

/// The distinct columns of a block, numbered in order of first sight. A column is looked up by
/// guessing that it follows the one before as it did last time, which rows of one shape make
/// true; the guess knows how the two compare, so that nothing more is compared.
#[derive(Default)]
struct Dictionary {
    /// Columns as the block keeps them, one after the other.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Ids in the columns' order.
    sorted: Vec<u16>,
    /// By id, its place in `sorted`. Only `write` sets it.
    places: Vec<u16>,
    /// By id, the column that followed it last time.
    followers: Vec<Follower>,
    last: u16,
}

#[derive(Clone, Copy)]
struct Follower {
    id: u16,
    /// Order relative to the preceding column.
    order: Ordering,
}

/// Result of a column lookup.
#[derive(Clone, Copy)]
struct Found {
    /// Its id, or its place among the sorted ones if it is new.
    id: Result<u16, usize>,
    /// Order relative to the column looked up before; equal if there is none.
    after_last: Ordering,
}

impl Dictionary {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn column(&self, id: u16) -> &[u8] {
        let id = usize::from(id);
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[id]]
    }

    /// Looks for `column`. Nothing is changed before `take`.
    fn find(&self, column: &Column<'_>) -> Found {
        if let Some(Follower { id, order }) = self.followers.get(usize::from(self.last))
            && is_column(self.column(*id), column)
        {
            return Found { id: Ok(*id), after_last: *order };
        }
        if self.ends.is_empty() {
            // It will follow itself, until another does.
            return Found { id: Err(0), after_last: Ordering::Equal };
        }
        let after_last = column.cmp(&decode(self.column(self.last)));
        if after_last == Ordering::Equal {
            return Found { id: Ok(self.last), after_last };
        }
        let place = self.sorted.partition_point(|id| decode(self.column(*id)) < *column);
        let known = self.sorted.get(place).filter(|id| is_column(self.column(**id), column));
        Found { id: known.copied().ok_or(place), after_last }
    }

    /// The id of `column`, which was just `found`; it is the last one from now on.
    fn take(&mut self, column: &Column<'_>, found: Found) -> u16 {
        let id = match found.id {
            Ok(id) => id,
            Err(place) => self.add(column, place),
        };
        self.followers[usize::from(self.last)] = Follower { id, order: found.after_last };
        self.last = id;
        id
    }

    fn add(&mut self, column: &Column<'_>, place: usize) -> u16 {
        let id = u16::try_from(self.ends.len()).expect("no more columns than entries");
        put_column(&mut self.bytes, column);
        self.ends.push(self.bytes.len());
        self.sorted.insert(place, id);
        self.followers.push(Follower { id, order: Ordering::Equal });
        id
    }

    /// Writes offsets and columns in the columns' order, and renumbers the ids.
    fn write(&mut self, block: &mut [u8], layout: &Layout) {
        self.places.resize(self.ends.len(), 0);
        let width = layout.dictionary_offset_width;
        let mut at = layout.dictionary;
        for place in 0..self.sorted.len() {
            let id = self.sorted[place];
            let offset = (at - layout.dictionary) as u64;
            put_ints(block, layout.dictionary_offsets + place * width, width, [offset]);
            let column = self.column(id);
            block[at..at + column.len()].copy_from_slice(column);
            at += column.len();
            self.places[usize::from(id)] = place as u16;
        }
        let end = layout.dictionary_offsets + self.sorted.len() * width;
        put_ints(block, end, width, [(at - layout.dictionary) as u64]);
    }

    /// The id in the columns' order, once they are written.
    fn sorted_id(&self, id: u16) -> u16 {
        self.places[usize::from(id)]
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.sorted.clear();
        self.places.clear();
        self.followers.clear();
        self.last = 0;
    }
}

/// Appends a column as dictionaries and indexes keep it: family u16, scope u8, qualifier.
pub(crate) fn put_column(out: &mut Vec<u8>, column: &Column<'_>) {
    out.put_u16(column.family.0);
    out.push(column.scope as u8);
    out.extend_from_slice(column.qualifier);
}

/// The column in bytes that `put_column` made.
fn decode(bytes: &[u8]) -> Column<'_> {
    decode_column(bytes).expect("the dictionary holds columns")
}

/// Returns whether `bytes` are what `put_column` makes of `column`.
fn is_column(bytes: &[u8], column: &Column<'_>) -> bool {
    let Some((&[low, high, scope], qualifier)) = bytes.split_first_chunk::<3>() else {
        return false;
    };
    u16::from_le_bytes([low, high]) == column.family.0
        && scope == column.scope as u8
        && qualifier.len() == column.qualifier.len()
        && (qualifier.is_empty() || qualifier == column.qualifier)
}
