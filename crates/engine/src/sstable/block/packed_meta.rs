//! What a checked data block is, in few bytes: a read of a block that is in no processor cache
//! waits for memory once for each line of it.
//!
//! Invariant: `header()` and `layout()` give back what `pack` was given.

use super::{DIRECTORY_STRIDE, DIRECTORY_STRIDE_WIDE, Header, Layout, ValueLayout};
use crate::cell::{SequenceNumber, Timestamp};
use crate::sstable::format::ints::{scale, spread};
use crate::sstable::format::key_heads::TailForm;
use std::ops::Range;

/// State of a check of all entries.
pub(super) struct Seen {
    /// The newest timestamp of any entry.
    pub(super) timestamp_max: Timestamp,
    /// The largest sequence number.
    pub(super) sequence_max: SequenceNumber,
    /// No two entries of a row have the same column and timestamp.
    pub(super) distinct: bool,
}

const CONTINUED: u8 = 1;
const CONTINUES: u8 = 2;
const MARKED_TAILS: u8 = 4;
const PLAIN: u8 = 8;

const LINE_LEN: usize = 64;
const AIM_LINE_MAX: u32 = (1 << 15) - 1;

/// See the file header. Lengths and offsets of a block fit 32 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataMeta {
    flags: u8,
    value_layout: ValueLayout,
    directory_stride: u8,
    dictionary_offset_width: u8,
    value_offset_width: u8,
    id_width: u8,
    timestamp_width: u8,
    sequence_width: u8,
    kind_width: u8,
    kind: u8,
    timestamp_unit: u16,
    rows: u16,
    cells: u16,
    columns: u16,
    prefix_len: u32,
    dictionary_len: u32,
    tails_len: u32,
    values_len: u32,
    value_len: u32,
    dictionary_offsets: u32,
    dictionary: u32,
    samples: u32,
    directory: u32,
    tails: u32,
    ids: u32,
    timestamps: u32,
    sequences: u32,
    kinds: u32,
    value_offsets: u32,
    values: u32,
    timestamp_base: i64,
    sequence_base: u64,
    timestamp_max: Timestamp,
    sequence_max: SequenceNumber,
}

const _: () = assert!(size_of::<DataMeta>() <= 128, "two lines");

/// The rows of a block of `rows` rows among which one probably is that lies at `fraction` of them.
#[inline]
pub(super) fn probable_rows(rows: usize, fraction: u32) -> Range<usize> {
    let (guess, around) = (scale(fraction, rows), spread(rows));
    guess.saturating_sub(around)..(guess + around).min(rows)
}

/// Returns the approximate start of the directory, and the bytes of a row there.
#[inline]
fn directory_by(prefetch_hint: u32) -> (usize, usize) {
    let stride = if prefetch_hint & 1 == 0 { DIRECTORY_STRIDE } else { DIRECTORY_STRIDE_WIDE };
    ((prefetch_hint >> 1 & AIM_LINE_MAX) as usize * LINE_LEN, stride as usize)
}

/// The bytes of a block that a search looks at first, by the block's prefetch hint and where in it
/// the row probably lies: prefix, dictionary and samples, and part of the directory.
#[inline]
pub(crate) fn aimed(prefetch_hint: u32, fraction: u32) -> [Range<usize>; 2] {
    let rows = (prefetch_hint >> 16) as usize;
    let (directory, stride) = directory_by(prefetch_hint);
    let probable = probable_rows(rows, fraction);
    let before = probable.start.saturating_sub(1);
    [
        super::HEADER_LEN..super::HEADER_LEN + LINE_LEN,
        directory + before * stride..directory + (probable.end + 1) * stride,
    ]
}

/// Returns the number of rows of a block, by its prefetch hint, that lie from `fraction` of them on.
#[inline]
pub(crate) fn rows_left(prefetch_hint: u32, fraction: u32) -> usize {
    let rows = (prefetch_hint >> 16) as usize;
    rows - scale(fraction, rows)
}

/// The bytes of a block that a walk which begins in it looks at first, by the block's prefetch
/// hint: prefix, dictionary and samples, and the directory.
#[inline]
pub(crate) fn aimed_walk(prefetch_hint: u32) -> [Range<usize>; 2] {
    let (directory, stride) = directory_by(prefetch_hint);
    [
        super::HEADER_LEN..super::HEADER_LEN + LINE_LEN,
        directory..directory + ((prefetch_hint >> 16) as usize + 1) * stride,
    ]
}

impl DataMeta {
    /// A block of `header`, whose layout is `layout` and ends within 32 bits.
    pub(super) fn pack(header: &Header, layout: &Layout) -> Self {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let u32_of = |len: usize| u32::try_from(len).expect("within a block");
        let u16_of = |count: usize| u16::try_from(count).expect("counts are 16 bits");
        Self {
            flags: flag(header.continued, CONTINUED)
                | flag(header.continues, CONTINUES)
                | flag(header.tail_form == TailForm::Marked, MARKED_TAILS),
            value_layout: header.value_layout,
            directory_stride: layout.directory_stride as u8,
            dictionary_offset_width: layout.dictionary_offset_width as u8,
            value_offset_width: layout.value_offset_width as u8,
            id_width: layout.id_width as u8,
            timestamp_width: header.timestamp_width as u8,
            sequence_width: header.sequence_width as u8,
            kind_width: header.kind_width as u8,
            kind: header.kind,
            timestamp_unit: header.timestamp_unit as u16,
            rows: u16_of(header.rows),
            cells: u16_of(header.cells),
            columns: u16_of(header.columns),
            prefix_len: u32_of(header.prefix_len),
            dictionary_len: u32_of(header.dictionary_len),
            tails_len: u32_of(header.tails_len),
            values_len: u32_of(header.values_len),
            value_len: u32_of(header.value_len),
            dictionary_offsets: u32_of(layout.dictionary_offsets),
            dictionary: u32_of(layout.dictionary),
            samples: u32_of(layout.samples),
            directory: u32_of(layout.directory),
            tails: u32_of(layout.tails),
            ids: u32_of(layout.ids),
            timestamps: u32_of(layout.timestamps),
            sequences: u32_of(layout.sequences),
            kinds: u32_of(layout.kinds),
            value_offsets: u32_of(layout.value_offsets),
            values: u32_of(layout.values),
            timestamp_base: header.timestamp_base,
            sequence_base: header.sequence_base,
            timestamp_max: Timestamp::MIN,
            sequence_max: SequenceNumber(0),
        }
    }

    /// The same with what a check of all entries has seen; `plain`: every entry is a put of an
    /// inline value, and no two are of the same cell.
    pub(super) fn seen(mut self, seen: &Seen, plain: bool) -> Self {
        self.flags |= if plain { PLAIN } else { 0 };
        self.timestamp_max = seen.timestamp_max;
        self.sequence_max = seen.sequence_max;
        self
    }

    /// The same, all its entries having this sequence number.
    pub(super) fn given(mut self, sequence: SequenceNumber) -> Self {
        (self.sequence_base, self.sequence_max) = (sequence.0, sequence);
        self
    }

    /// The header. What is not asked of it costs nothing.
    #[inline(always)]
    pub(super) fn header(&self) -> Header {
        let marked = self.flags & MARKED_TAILS != 0;
        Header {
            rows: self.rows.into(),
            cells: self.cells.into(),
            columns: self.columns.into(),
            continued: self.flags & CONTINUED != 0,
            continues: self.flags & CONTINUES != 0,
            tail_form: if marked { TailForm::Marked } else { TailForm::Plain },
            value_layout: self.value_layout,
            prefix_len: self.prefix_len as usize,
            dictionary_len: self.dictionary_len as usize,
            tails_len: self.tails_len as usize,
            values_len: self.values_len as usize,
            value_len: self.value_len as usize,
            timestamp_width: self.timestamp_width.into(),
            sequence_width: self.sequence_width.into(),
            kind_width: self.kind_width.into(),
            kind: self.kind,
            timestamp_base: self.timestamp_base,
            sequence_base: self.sequence_base,
            timestamp_unit: self.timestamp_unit.into(),
        }
    }

    /// Returns the start of each section. What is not asked of it costs nothing.
    #[inline(always)]
    pub(super) fn layout(&self) -> Layout {
        Layout {
            dictionary_offset_width: self.dictionary_offset_width.into(),
            dictionary_offsets: self.dictionary_offsets as usize,
            dictionary: self.dictionary as usize,
            samples: self.samples as usize,
            directory_stride: self.directory_stride.into(),
            directory: self.directory as usize,
            tails: self.tails as usize,
            id_width: self.id_width.into(),
            ids: self.ids as usize,
            timestamps: self.timestamps as usize,
            sequences: self.sequences as usize,
            kinds: self.kinds as usize,
            value_offset_width: self.value_offset_width.into(),
            value_offsets: self.value_offsets as usize,
            values: self.values as usize,
            end: self.values as usize + self.values_len as usize,
        }
    }

    /// The prefetch hint of hints that lead to the block (`crate::cache`): rows, where the
    /// directory starts in lines, and its stride. 0 where that does not fit.
    pub(crate) fn prefetch_hint(&self) -> u32 {
        let line = self.directory / LINE_LEN as u32;
        let wide = u32::from(self.directory_stride != DIRECTORY_STRIDE);
        if line > AIM_LINE_MAX { 0 } else { u32::from(self.rows) << 16 | line << 1 | wide }
    }

    /// The newest timestamp of any entry.
    pub(super) fn timestamp_max(&self) -> Timestamp {
        self.timestamp_max
    }

    /// Returns whether every entry is a put of an inline value visible at `snapshot`, and no two
    /// are of the same cell.
    #[inline]
    pub(super) fn all_visible(&self, snapshot: SequenceNumber) -> bool {
        self.flags & PLAIN != 0 && self.sequence_max <= snapshot
    }
}
