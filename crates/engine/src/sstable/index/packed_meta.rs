//! What an index partition is beside its bytes: its header, and where its sections lie
//! (docs/format/sstable.md).

use super::{HEADER_LEN, PARTITION_BLOCKS_MAX};
use crate::options::ROW_PREFIX_BYTES_MAX;
use crate::sstable::format::damage::{Damage, ensure};
use crate::sstable::format::ints::{align, u16_at, u32_at, u64_at};
use crate::sstable::format::key_heads::TailForm;
use crate::sstable::index::prefix_index::BUCKET_LEN;
use base::codec::PutBytes;

const FLAG_MARKED_TAILS: u8 = 1;
const FLAG_COLUMNS: u8 = 2;
const FLAG_PREFIX_INDEX: u8 = 4;

/// The header of a partition, decoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) blocks: usize,
    pub(super) form: TailForm,
    pub(super) has_columns: bool,
    pub(super) offset_width: usize,
    pub(super) prefix_len: usize,
    pub(super) tails_len: usize,
    pub(super) columns_len: usize,
    pub(super) offset_base: u64,
    pub(super) timestamp_base: i64,
    pub(super) timestamp_width: usize,
    /// 0 without a prefix index, or where it is not used.
    pub(super) row_prefix_len: usize,
    pub(super) buckets: usize,
}

impl Header {
    /// Appends its bytes.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let u32_of = |len: usize| u32::try_from(len).expect("256 keys are below 4 GiB");
        out.put_u16(u16::try_from(self.blocks).expect("at most 256"));
        out.push(
            (u8::from(self.form == TailForm::Marked) * FLAG_MARKED_TAILS)
                | (u8::from(self.has_columns) * FLAG_COLUMNS)
                | (u8::from(self.buckets > 0) * FLAG_PREFIX_INDEX),
        );
        out.push(self.offset_width as u8);
        out.put_u32(u32_of(self.prefix_len));
        out.put_u32(u32_of(self.tails_len));
        out.put_u32(u32_of(self.columns_len));
        out.put_u64(self.offset_base);
        out.put_i64(self.timestamp_base);
        out.push(self.timestamp_width as u8);
        out.push(0);
        out.put_u16(u16::try_from(self.row_prefix_len).expect("at most 1024"));
        out.put_u32(u32_of(self.buckets));
        out.resize(HEADER_LEN, 0);
    }

    /// The header of the partition in `bytes`, checked for itself.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        ensure(bytes.len() >= HEADER_LEN, 0, "an index partition shorter than its header")?;
        let flags = bytes[2];
        let known = FLAG_MARKED_TAILS | FLAG_COLUMNS | FLAG_PREFIX_INDEX;
        ensure(flags & !known == 0, 2, "unknown index partition flags")?;
        let marked = flags & FLAG_MARKED_TAILS != 0;
        let header = Self {
            blocks: u16::from_le_bytes([bytes[0], bytes[1]]).into(),
            form: if marked { TailForm::Marked } else { TailForm::Plain },
            has_columns: flags & FLAG_COLUMNS != 0,
            offset_width: bytes[3].into(),
            prefix_len: u32_at(bytes, 4) as usize,
            tails_len: u32_at(bytes, 8) as usize,
            columns_len: u32_at(bytes, 12) as usize,
            offset_base: u64_at(bytes, 16),
            timestamp_base: u64_at(bytes, 24) as i64,
            timestamp_width: bytes[32].into(),
            row_prefix_len: u16_at(bytes, 34).into(),
            buckets: u32_at(bytes, 36) as usize,
        };
        let blocks = 1..=PARTITION_BLOCKS_MAX;
        ensure(blocks.contains(&header.blocks), 0, "a partition of 0 or over 256 blocks")?;
        ensure(matches!(header.offset_width, 0 | 4 | 8), 3, "offset width")?;
        ensure(matches!(header.timestamp_width, 0 | 4 | 8), 32, "timestamp width")?;
        ensure(header.has_columns == (header.columns_len > 0), 12, "columns without their flag")?;
        let has_buckets = flags & FLAG_PREFIX_INDEX != 0;
        let agree =
            has_buckets == (header.buckets > 0) && has_buckets == (header.row_prefix_len > 0);
        ensure(agree, 34, "a prefix index without its flag, or in part")?;
        let in_range = header.row_prefix_len <= usize::from(ROW_PREFIX_BYTES_MAX);
        ensure(in_range, 34, "a length of row prefixes out of range")?;
        let zero = bytes[33] == 0 && bytes[40..HEADER_LEN].iter().all(|byte| *byte == 0);
        ensure(zero, 33, "reserved bytes are not zero")?;
        Ok(header)
    }
}

/// Start of each section of a partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) heads: usize,
    pub(super) offsets: usize,
    pub(super) timestamps: usize,
    pub(super) lengths: usize,
    pub(super) tail_offsets: usize,
    pub(super) column_offsets: usize,
    pub(super) tails: usize,
    pub(super) columns: usize,
    pub(super) buckets: usize,
    pub(super) end: usize,
}

impl Layout {
    /// The layout that follows from a header.
    pub(super) fn of(header: &Header) -> Self {
        let n = header.blocks;
        let heads = align(HEADER_LEN + header.prefix_len, 8);
        let offsets = heads + 8 * n;
        let timestamps = align(offsets + header.offset_width * n, 8);
        let lengths = timestamps + header.timestamp_width * n;
        let tail_offsets = lengths + 4 * n;
        let column_offsets = tail_offsets + 4 * (n + 1);
        let tails = column_offsets + if header.has_columns { 4 * (n + 1) } else { 0 };
        let columns = tails + header.tails_len;
        let buckets = columns + header.columns_len;
        let end = buckets + BUCKET_LEN * header.buckets;
        Self {
            heads,
            offsets,
            timestamps,
            lengths,
            tail_offsets,
            column_offsets,
            tails,
            columns,
            buckets,
            end,
        }
    }
}

/// What a checked index partition is, beside its bytes, in few bytes: a read that finds it in no
/// processor cache waits for each line. Lengths and offsets fit 32 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexMeta {
    blocks: u16,
    marked_tails: bool,
    has_columns: bool,
    offset_width: u8,
    timestamp_width: u8,
    row_prefix_len: u16,
    prefix_len: u32,
    tails_len: u32,
    columns_len: u32,
    buckets_count: u32,
    offset_base: u64,
    timestamp_base: i64,
    heads: u32,
    offsets: u32,
    timestamps: u32,
    lengths: u32,
    tail_offsets: u32,
    column_offsets: u32,
    tails: u32,
    columns: u32,
    buckets: u32,
    end: u32,
}

impl IndexMeta {
    /// The same, its prefix index not used.
    pub(crate) fn without_prefix_index(mut self) -> Self {
        self.row_prefix_len = 0;
        self
    }

    /// What `header()` and `layout()` then give back.
    pub(super) fn pack(header: &Header, layout: &Layout) -> Self {
        let u32_of = |len: usize| u32::try_from(len).expect("within a block");
        let u16_of = |count: usize| u16::try_from(count).expect("checked with the header");
        Self {
            blocks: u16_of(header.blocks),
            marked_tails: header.form == TailForm::Marked,
            has_columns: header.has_columns,
            offset_width: header.offset_width as u8,
            timestamp_width: header.timestamp_width as u8,
            row_prefix_len: u16_of(header.row_prefix_len),
            prefix_len: u32_of(header.prefix_len),
            tails_len: u32_of(header.tails_len),
            columns_len: u32_of(header.columns_len),
            buckets_count: u32_of(header.buckets),
            offset_base: header.offset_base,
            timestamp_base: header.timestamp_base,
            heads: u32_of(layout.heads),
            offsets: u32_of(layout.offsets),
            timestamps: u32_of(layout.timestamps),
            lengths: u32_of(layout.lengths),
            tail_offsets: u32_of(layout.tail_offsets),
            column_offsets: u32_of(layout.column_offsets),
            tails: u32_of(layout.tails),
            columns: u32_of(layout.columns),
            buckets: u32_of(layout.buckets),
            end: u32_of(layout.end),
        }
    }

    /// The header. What is not asked of it costs nothing.
    #[inline(always)]
    pub(super) fn header(&self) -> Header {
        Header {
            blocks: self.blocks.into(),
            form: if self.marked_tails { TailForm::Marked } else { TailForm::Plain },
            has_columns: self.has_columns,
            offset_width: self.offset_width.into(),
            prefix_len: self.prefix_len as usize,
            tails_len: self.tails_len as usize,
            columns_len: self.columns_len as usize,
            offset_base: self.offset_base,
            timestamp_base: self.timestamp_base,
            timestamp_width: self.timestamp_width.into(),
            row_prefix_len: self.row_prefix_len.into(),
            buckets: self.buckets_count as usize,
        }
    }

    /// Returns the start of each section. What is not asked of it costs nothing.
    #[inline(always)]
    pub(super) fn layout(&self) -> Layout {
        Layout {
            heads: self.heads as usize,
            offsets: self.offsets as usize,
            timestamps: self.timestamps as usize,
            lengths: self.lengths as usize,
            tail_offsets: self.tail_offsets as usize,
            column_offsets: self.column_offsets as usize,
            tails: self.tails as usize,
            columns: self.columns as usize,
            buckets: self.buckets as usize,
            end: self.end as usize,
        }
    }
}
