//! The data block: rows as columns of fixed-width integers (docs/format/sstable.md).
//!
//! ```text
//! header 64 B | prefix | dictionary offsets | dictionary | row samples | row directory
//!             | row tails | column ids | timestamps | sequences | kinds | value offsets | values
//! ```
//!
//! Where a section lies follows from the counts and lengths in the header alone ([`Layout`]), so
//! there are no section offsets to check. Integer sections start at multiples of 8 and the row
//! directory at a multiple of 64; the bytes between are zero.
//!
//! Invariants of a block, checked once by `DataMeta::check`:
//! 1. Rows ascend strictly; every row has an entry. Columns of the dictionary ascend strictly.
//! 2. Within a row column ids do not descend; entries of one column ascend in the order of
//!    `crate::cell` strictly.
//! 3. Every entry passes `batch::check_entry`, or is a put whose value lies apart.
//! 4. If `continued`, the first row's earlier entries are in the block before; if `continues`,
//!    the last row's later entries are in the block after.

mod block_builder;
mod packed_meta;
mod view;
pub(super) use block_builder::put_column;
pub(super) use view::decode_column;

pub(super) use block_builder::{BlockBuilder, NewValue};
pub(super) use packed_meta::{DataMeta, aimed, aimed_walk, rows_left};
pub(super) use view::{BlockView, CellValue, RowEntry, Search};

use super::format::damage::{Damage, ensure};
use super::format::ints::{align, offset_width, u16_at, u32_at, u64_at};
use super::format::key_heads::TailForm;
use crate::cell::Kind;
use base::codec::PutBytes;

const HEADER_LEN: usize = 64;
/// Bytes of a row in the directory.
const DIRECTORY_STRIDE: u8 = 16;
/// The same where tails exceed 65,535 bytes.
const DIRECTORY_STRIDE_WIDE: u8 = 24;
/// One row in so many has its head in the samples.
const SAMPLE_EVERY: usize = 8;
const FLAG_CONTINUED: u8 = 1;
const FLAG_CONTINUES: u8 = 2;
const FLAG_MARKED_TAILS: u8 = 4;
/// In a kind byte: the value is a handle to a large-value block.
const KIND_LARGE: u8 = 0x80;
/// Length of the handle of a large value: offset u64, stored length u32, raw length u32.
const LARGE_HANDLE_LEN: usize = 16;

/// Encoding of the place of a value. The byte on disk is frozen; 0 stays invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum ValueLayout {
    /// All values have one length, in the header.
    Constant = 1,
    /// Every row has one entry: the row directory has the offset.
    PerRow = 2,
    /// One offset per entry and one past the last.
    Offsets = 3,
}

/// The header.
///
/// ```text
/// 0 rows u16  2 entries u16  4 dictionary columns u16  6 flags u8  7 value layout u8
/// 8 prefix len u32  12 dictionary len u32  16 tails len u32  20 values len u32
/// 24 constant value len u32  28 timestamp width u8  29 sequence width u8  30 kind width u8
/// 31 constant kind u8  32 timestamp base i64  40 sequence base u64  48 timestamp unit u32
/// 52 zero, 12 bytes
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    rows: usize,
    cells: usize,
    columns: usize,
    continued: bool,
    continues: bool,
    tail_form: TailForm,
    value_layout: ValueLayout,
    prefix_len: usize,
    dictionary_len: usize,
    tails_len: usize,
    values_len: usize,
    value_len: usize,
    timestamp_width: usize,
    sequence_width: usize,
    kind_width: usize,
    kind: u8,
    timestamp_base: i64,
    sequence_base: u64,
    timestamp_unit: u64,
}

impl Header {
    fn encode(&self, out: &mut Vec<u8>) {
        let u16_of = |count: usize| u16::try_from(count).expect("the builder keeps to u16 counts");
        let u32_of = |len: usize| u32::try_from(len).expect("blocks are below 4 GiB");
        let start = out.len();
        out.put_u16(u16_of(self.rows));
        out.put_u16(u16_of(self.cells));
        out.put_u16(u16_of(self.columns));
        out.push(
            (u8::from(self.continued) * FLAG_CONTINUED)
                | (u8::from(self.continues) * FLAG_CONTINUES)
                | (u8::from(self.tail_form == TailForm::Marked) * FLAG_MARKED_TAILS),
        );
        out.push(self.value_layout as u8);
        for len in [self.prefix_len, self.dictionary_len, self.tails_len, self.values_len] {
            out.put_u32(u32_of(len));
        }
        out.put_u32(u32_of(self.value_len));
        for width in [self.timestamp_width, self.sequence_width, self.kind_width] {
            out.push(width as u8);
        }
        out.push(self.kind);
        out.put_i64(self.timestamp_base);
        out.put_u64(self.sequence_base);
        out.put_u32(u32_of(self.timestamp_unit as usize));
        out.resize(start + HEADER_LEN, 0);
    }

    fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        ensure(bytes.len() >= HEADER_LEN, 0, "a data block shorter than its header")?;
        let flags = bytes[6];
        let known = FLAG_CONTINUED | FLAG_CONTINUES | FLAG_MARKED_TAILS;
        ensure(flags & !known == 0, 6, "unknown data block flags")?;
        let marked = flags & FLAG_MARKED_TAILS != 0;
        let header = Self {
            rows: u16_at(bytes, 0).into(),
            cells: u16_at(bytes, 2).into(),
            columns: u16_at(bytes, 4).into(),
            continued: flags & FLAG_CONTINUED != 0,
            continues: flags & FLAG_CONTINUES != 0,
            tail_form: if marked { TailForm::Marked } else { TailForm::Plain },
            value_layout: match bytes[7] {
                1 => ValueLayout::Constant,
                2 => ValueLayout::PerRow,
                3 => ValueLayout::Offsets,
                _ => return Err(Damage::new(7, "a byte that names no value layout")),
            },
            prefix_len: u32_at(bytes, 8) as usize,
            dictionary_len: u32_at(bytes, 12) as usize,
            tails_len: u32_at(bytes, 16) as usize,
            values_len: u32_at(bytes, 20) as usize,
            value_len: u32_at(bytes, 24) as usize,
            timestamp_width: bytes[28].into(),
            sequence_width: bytes[29].into(),
            kind_width: bytes[30].into(),
            kind: bytes[31],
            timestamp_base: u64_at(bytes, 32) as i64,
            sequence_base: u64_at(bytes, 40),
            timestamp_unit: u32_at(bytes, 48).into(),
        };
        header.check(&bytes[52..HEADER_LEN])?;
        Ok(header)
    }

    fn check(&self, reserved: &[u8]) -> Result<(), Damage> {
        ensure(self.rows >= 1, 0, "a data block without rows")?;
        ensure(self.cells >= self.rows, 2, "fewer entries than rows")?;
        ensure((1..=self.cells).contains(&self.columns), 4, "more columns than entries, or none")?;
        let constant = self.value_layout == ValueLayout::Constant;
        let lengths_fit = match self.value_layout {
            ValueLayout::Constant => self.cells * self.value_len == self.values_len,
            ValueLayout::PerRow => self.cells == self.rows,
            ValueLayout::Offsets => true,
        };
        ensure(lengths_fit, 7, "the value layout does not fit the counts")?;
        ensure(constant || self.value_len == 0, 24, "a constant length where values vary")?;
        ensure(matches!(self.timestamp_width, 0 | 4 | 8), 28, "timestamp width")?;
        ensure(matches!(self.sequence_width, 0 | 4 | 8), 29, "sequence width")?;
        ensure(matches!(self.kind_width, 0 | 1), 30, "kind width")?;
        let kind_given = self.kind != 0;
        ensure(kind_given == (self.kind_width == 0), 31, "a constant kind where kinds vary")?;
        let unit_fits = matches!(self.timestamp_unit, 1 | TIMESTAMP_UNIT_COARSE);
        ensure(unit_fits, 48, "timestamp unit")?;
        ensure(reserved.iter().all(|byte| *byte == 0), 52, "reserved bytes are not zero")
    }
}

/// The coarse unit of timestamp differences: milliseconds among microseconds.
const TIMESTAMP_UNIT_COARSE: u64 = 1000;

/// Start of each section, and the widths that follow from lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    dictionary_offset_width: usize,
    dictionary_offsets: usize,
    dictionary: usize,
    samples: usize,
    /// Bytes per row: head u64 | tail offset u16 | first entry u16 | value offset u32; or where
    /// tails exceed 65,535 bytes: head u64 | u32 | u32 | u32 | zero u32.
    directory_stride: usize,
    directory: usize,
    tails: usize,
    id_width: usize,
    ids: usize,
    timestamps: usize,
    sequences: usize,
    kinds: usize,
    value_offset_width: usize,
    value_offsets: usize,
    values: usize,
    end: usize,
}

impl Layout {
    /// The layout of a block with `header`. Counts are u16 and lengths u32, so no sum overflows
    /// 64 bits.
    fn of(header: &Header) -> Self {
        let dictionary_offset_width = offset_width(header.dictionary_len);
        let dictionary_offsets = align(HEADER_LEN + header.prefix_len, 8);
        let dictionary = dictionary_offsets + (header.columns + 1) * dictionary_offset_width;
        let samples = align(dictionary + header.dictionary_len, 8);
        let wide = offset_width(header.tails_len) != 2;
        let directory_stride = if wide { DIRECTORY_STRIDE_WIDE } else { DIRECTORY_STRIDE }.into();
        let directory = align(samples + 8 * header.rows.div_ceil(SAMPLE_EVERY), 64);
        let tails = directory + (header.rows + 1) * directory_stride;
        let id_width = if header.columns <= 256 { 1 } else { 2 };
        let ids = align(tails + header.tails_len, 8);
        let timestamps = align(ids + header.cells * id_width, 8);
        let sequences = align(timestamps + header.cells * header.timestamp_width, 8);
        let kinds = align(sequences + header.cells * header.sequence_width, 8);
        let value_offset_width = match header.value_layout {
            ValueLayout::Offsets => offset_width(header.values_len),
            ValueLayout::Constant | ValueLayout::PerRow => 0,
        };
        let value_offsets = align(kinds + header.cells * header.kind_width, 8);
        let values = value_offsets + (header.cells + 1) * value_offset_width;
        Self {
            dictionary_offset_width,
            dictionary_offsets,
            dictionary,
            samples,
            directory_stride,
            directory,
            tails,
            id_width,
            ids,
            timestamps,
            sequences,
            kinds,
            value_offset_width,
            value_offsets,
            values,
            end: values + header.values_len,
        }
    }
}

const _: () = assert!(usize::BITS >= 64, "offsets are computed in usize");

/// The kind in a kind byte and whether its value lies apart, which only a put's may.
fn split_kind(byte: u8) -> Option<(Kind, bool)> {
    let large = byte & KIND_LARGE != 0;
    let kind = Kind::from_byte(byte & !KIND_LARGE)?;
    (!large || kind == Kind::Put).then_some((kind, large))
}

/// A value that lies in a block of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LargeValue {
    /// Its block.
    pub(super) handle: super::format::Handle,
    /// Length of the value.
    pub(crate) len: u32,
}

impl LargeValue {
    pub(super) fn encode(self) -> [u8; LARGE_HANDLE_LEN] {
        let mut bytes = [0; LARGE_HANDLE_LEN];
        bytes[..8].copy_from_slice(&self.handle.offset.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.handle.len.to_le_bytes());
        bytes[12..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LARGE_HANDLE_LEN] = bytes.try_into().ok()?;
        let handle = super::format::Handle { offset: u64_at(bytes, 0), len: u32_at(bytes, 8) };
        Some(Self { handle, len: u32_at(bytes, 12) })
    }
}
