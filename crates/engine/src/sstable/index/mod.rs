//! The index: partitions with the first key of every data block (docs/format/sstable.md); what
//! leads to the partitions is in top_index.rs.
//!
//! A **first key** is a row, and for a block that continues a row begun earlier also the first
//! column the block has of it.
//!
//! Invariants of a partition, checked once by `IndexMeta::check`; the top index has the same:
//! 1. First rows do not descend. Equal rows mean that the later block continues the row, and then
//!    first columns do not descend.
//! 2. Blocks lie in the file in the order of the index.
//! 3. No entry of a block has a timestamp newer than the block's `timestamp_max`.

mod packed_meta;
pub(super) mod prefix_index;
pub(super) mod top_index;

use super::format::Handle;
use super::format::damage::{Damage, ensure};
use super::format::ints::{
    fraction, guess, guessed_lower_bound, int_at, pad_to, partition, put_int, u32_at, u64_at,
    width_for,
};
use super::format::key_heads::{
    HEAD_LEN, TailForm, Target, check_key, common_prefix, head_of, put_suffix, put_tail, suffix_len,
};
use crate::batch::ROW_BYTES_MAX;
use crate::cache::Hint;
use crate::cell::{Column, Timestamp};
use crate::request::RowRange;
use crate::sstable::block::{decode_column, put_column};
use base::checksum::xxh3;
use base::codec::PutBytes;
use base::memory::prefetch;
pub(super) use packed_meta::IndexMeta;
use packed_meta::{Header, Layout};
use prefix_index::{Buckets, PrefixIndexBuilder};
use std::cmp::Ordering;
use std::ops::{Range, RangeInclusive};

/// Data blocks of a partition at most.
pub(super) const PARTITION_BLOCKS_MAX: usize = 256;

const HEADER_LEN: usize = 64;

/// Index entry of a block, as its builder gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// The block's first row.
    pub(super) row: Vec<u8>,
    /// For a block that continues a row: its first column, encoded as in dictionaries.
    pub(super) column: Option<Vec<u8>>,
    /// Place of the block.
    pub(super) handle: Handle,
    /// The newest timestamp of its entries.
    pub(super) timestamp_max: i64,
}

/// What the prefix index of a partition is made of.
#[derive(Debug, Default)]
pub(super) struct RowPrefixes {
    /// Length of the prefixes.
    pub(super) bytes: u16,
    /// Those of the rows that begin in the partition.
    pub(super) blocks: PrefixIndexBuilder,
}

/// Encodes a partition. The entries are in order and not empty. Without prefixes the partition has
/// no prefix index.
///
/// ```text
/// 0 blocks u16  2 flags u8  3 offset width u8  4 prefix len u32  8 tails len u32
/// 12 columns len u32  16 offset base u64  24 timestamp base i64  32 timestamp width u8
/// 33 zero   34 row prefix len u16   36 buckets u32   40 zero, 24 bytes
/// 64 prefix | heads u64[n] | offsets[n] | timestamps[n] | lengths u32[n]
///    | tail offsets u32[n+1] | column offsets u32[n+1] (flag) | tails | columns
///    | buckets (flag)
/// ```
pub(super) fn encode_partition(entries: &[IndexEntry], prefixes: &RowPrefixes) -> Vec<u8> {
    let first = entries.first().expect("a partition has a block");
    let last = entries.last().expect("a partition has a block");
    assert!(entries.len() <= PARTITION_BLOCKS_MAX, "a partition is cut when it is full");
    let prefix_len = common_prefix(&first.row, &last.row);
    let short = entries.iter().any(|entry| entry.row.len() - prefix_len < HEAD_LEN);
    let form = if short { TailForm::Marked } else { TailForm::Plain };
    let (mut tails, mut tail_offsets) = (Vec::new(), vec![0]);
    let (mut columns, mut column_offsets) = (Vec::new(), vec![0]);
    for entry in entries {
        put_tail(&mut tails, form, &entry.row[prefix_len..]);
        tail_offsets.push(tails.len());
        columns.extend_from_slice(entry.column.as_deref().unwrap_or_default());
        column_offsets.push(columns.len());
    }
    let offset_base = first.handle.offset;
    let timestamps = entries.iter().map(|entry| entry.timestamp_max);
    let timestamp_base = timestamps.clone().min().expect("a partition has a block");
    let timestamp_range = timestamps.max().expect("a partition has a block");
    let buckets = prefixes.blocks.buckets();
    let header = Header {
        blocks: entries.len(),
        form,
        has_columns: !columns.is_empty(),
        offset_width: width_for(last.handle.offset - offset_base),
        prefix_len,
        tails_len: tails.len(),
        columns_len: columns.len(),
        offset_base,
        timestamp_base,
        timestamp_width: width_for(timestamp_range.abs_diff(timestamp_base)),
        row_prefix_len: if buckets > 0 { prefixes.bytes.into() } else { 0 },
        buckets,
    };
    let layout = Layout::of(&header);
    let mut out = Vec::with_capacity(layout.end);
    header.encode(&mut out);
    out.extend_from_slice(&first.row[..prefix_len]);
    pad_to(&mut out, layout.heads);
    entries.iter().for_each(|entry| out.put_u64(head_of(&entry.row[prefix_len..])));
    for entry in entries {
        put_int(&mut out, header.offset_width, entry.handle.offset - offset_base);
    }
    pad_to(&mut out, layout.timestamps);
    for entry in entries {
        let delta = entry.timestamp_max.abs_diff(timestamp_base);
        put_int(&mut out, header.timestamp_width, delta);
    }
    entries.iter().for_each(|entry| out.put_u32(entry.handle.len));
    tail_offsets.iter().for_each(|offset| put_int(&mut out, 4, *offset as u64));
    if header.has_columns {
        column_offsets.iter().for_each(|offset| put_int(&mut out, 4, *offset as u64));
    }
    out.extend_from_slice(&tails);
    out.extend_from_slice(&columns);
    prefixes.blocks.encode(&mut out);
    assert_eq!(out.len(), layout.end, "the sections are the layout's");
    out
}

impl IndexMeta {
    /// Checks the partition in `bytes`.
    pub(super) fn check(bytes: &[u8]) -> Result<Self, Damage> {
        let header = Header::decode(bytes)?;
        let layout = Layout::of(&header);
        ensure(layout.end == bytes.len(), 0, "the counts do not add up to the block's length")?;
        ensure(u32::try_from(layout.end).is_ok(), 0, "an index partition of 4 GiB or more")?;
        let meta = Self::pack(&header, &layout);
        let partition = IndexPartition::of(bytes, &meta);
        partition.check_offsets()?;
        partition.buckets().check(header.blocks, layout.buckets)?;
        for block in 0..header.blocks {
            partition.check_block(block)?;
        }
        Ok(meta)
    }
}

/// A checked index partition, read in place.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexPartition<'a> {
    bytes: &'a [u8],
    meta: &'a IndexMeta,
}

impl<'a> IndexPartition<'a> {
    /// The partition in `bytes`, of which `meta` came from `IndexMeta::check`.
    pub(super) fn of(bytes: &'a [u8], meta: &'a IndexMeta) -> Self {
        Self { bytes, meta }
    }

    /// Number of data blocks; at least 1.
    pub(super) fn blocks(self) -> usize {
        self.meta.header().blocks
    }

    /// Returns the place of a block.
    pub(super) fn handle(self, block: usize) -> Handle {
        let Header { offset_width, offset_base, .. } = self.meta.header();
        let delta = int_at(self.bytes, self.meta.layout().offsets, offset_width, block);
        let len = u32_at(self.bytes, self.meta.layout().lengths + 4 * block);
        Handle { offset: offset_base.wrapping_add(delta), len }
    }

    /// A bound on the timestamps of a block.
    pub(super) fn timestamp_max(self, block: usize) -> Timestamp {
        let width = self.meta.header().timestamp_width;
        let delta = int_at(self.bytes, self.meta.layout().timestamps, width, block);
        Timestamp(self.meta.header().timestamp_base.wrapping_add(delta as i64))
    }

    /// The first column of a block that continues a row.
    pub(super) fn first_column(self, block: usize) -> Option<Column<'a>> {
        let bytes = self.column_bytes(block);
        (!bytes.is_empty()).then(|| decode_column(bytes).expect("columns were checked"))
    }

    /// Returns whether a block's first row began in an earlier block.
    pub(super) fn continued(self, block: usize) -> bool {
        !self.column_bytes(block).is_empty()
    }

    /// Replaces `out` by the first row of a block.
    pub(super) fn copy_row(self, block: usize, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.prefix());
        put_suffix(out, self.meta.header().form, self.head(block), self.tail(block));
    }

    /// Returns whether a block's first row is `row`.
    pub(super) fn row_is(self, block: usize, row: &[u8]) -> bool {
        Target::against(row, self.prefix())
            .is_ok_and(|target| self.cmp_row(block, &target) == Ordering::Equal)
    }

    /// The first block whose first row is not less than `row`; `blocks()` if there is none.
    pub(super) fn lower_bound(self, row: &[u8]) -> usize {
        let target = match Target::against(row, self.prefix()) {
            Ok(target) => target,
            Err(Ordering::Greater) => return self.blocks(),
            Err(_) => return 0,
        };
        let len = self.meta.header().row_prefix_len;
        let found = self.by_heads(&target, len).or_else(|| self.by_bucket(row, len, &target));
        found.unwrap_or_else(|| self.search(&target, 0, self.blocks()))
    }

    /// The lower bound, unless heads tie that hold less than a prefix of `len` bytes. Heads are
    /// fetched ahead ([`Self::reach_block`]) and buckets of prefixes are not. If heads hold whole
    /// prefixes, a bucket tells no more than they do.
    #[inline]
    fn by_heads(self, target: &Target<'_>, len: usize) -> Option<usize> {
        let at = self.search_heads(target.head, 0, self.blocks());
        if at == self.blocks() || self.head(at) != target.head {
            return Some(at);
        }
        let known = len <= self.prefix().len() + HEAD_LEN;
        known.then(|| self.search_tails(target, at, self.blocks()))
    }

    /// The lower bound, if the bucket of the first `len` bytes of `row` leads to it.
    #[inline(never)]
    fn by_bucket(self, row: &[u8], len: usize, target: &Target<'_>) -> Option<usize> {
        self.search_among(target, self.buckets().find(xxh3(row.get(..len)?))?)
    }

    /// The lower bound among `blocks` and the one after, if the first rows beside it say that it is
    /// the one of the partition.
    fn search_among(self, target: &Target<'_>, blocks: RangeInclusive<usize>) -> Option<usize> {
        let (first, end) = (*blocks.start(), *blocks.end() + 1);
        let at = self.search(target, first, end);
        let less = |block| self.cmp_row(block, target) == Ordering::Less;
        let all_before = at > first || at == 0 || less(at - 1);
        let none_after = at < end || at == self.blocks() || !less(at);
        (all_before && none_after).then_some(at)
    }

    /// Returns whether the prefix index, if there is one, leads from a row of prefixes' length or
    /// more to `block`, in which it begins.
    pub(super) fn prefix_index_knows(self, row: &[u8], block: usize) -> bool {
        let len = self.meta.header().row_prefix_len;
        let Some(prefix) = row.get(..len).filter(|_| len > 0) else { return true };
        self.buckets().find(xxh3(prefix)).is_some_and(|blocks| blocks.contains(&block))
    }

    /// Length of the prefixes in the prefix index; `None` without one.
    pub(super) fn row_prefix_len(self) -> Option<usize> {
        Some(self.meta.header().row_prefix_len).filter(|len| *len > 0)
    }

    fn buckets(self) -> Buckets<'a> {
        Buckets::of(&self.bytes[self.meta.layout().buckets..self.meta.layout().end])
    }

    /// The first of the blocks `from..to` whose first row is not less than the target; `to` if there
    /// is none.
    fn search(self, target: &Target<'_>, from: usize, to: usize) -> usize {
        let at = self.search_heads(target.head, from, to);
        if at == to || self.head(at) != target.head {
            return at;
        }
        // Heads tie: only now do the tails decide.
        self.search_tails(target, at, to)
    }

    /// The first of the blocks `from..to` whose head is not less than `head`; `to` without one.
    #[inline]
    fn search_heads(self, head: u64, from: usize, to: usize) -> usize {
        let start = self.meta.layout().heads;
        from + guessed_lower_bound(&self.bytes[start + 8 * from..start + 8 * to], head)
    }

    /// The same by whole first rows, in steps of half the blocks.
    fn search_tails(self, target: &Target<'_>, from: usize, to: usize) -> usize {
        partition(from, to, |block| self.cmp_row(block, target) == Ordering::Less)
    }

    /// Returns whether the block at `block` may have a row of `rows`, as far as first rows tell.
    pub(super) fn may_have(self, block: usize, rows: &RowRange) -> bool {
        let begins_behind = rows.end.as_deref().is_some_and(|end| block >= self.lower_bound(end));
        let ends_before = block + 1 < self.lower_bound(&rows.start);
        !begins_behind && !ends_before
    }

    /// The block in which `row` begins if the partition has it. `row` is not less than the
    /// partition's first row.
    pub(super) fn block_of(self, row: &[u8]) -> usize {
        let after = self.lower_bound(row);
        let begins = after < self.blocks() && self.row_is(after, row) && !self.continued(after);
        if begins { after } else { after.saturating_sub(1) }
    }

    /// The same, and where in the block the row lies, in parts of 2^32, if rows are spread evenly.
    /// Asks the processor to fetch what of `hints`, the blocks' own, will be looked at.
    #[inline]
    pub(super) fn place_of(self, row: &[u8], hints: &[Hint]) -> (usize, u32) {
        let Some(suffix) = row.strip_prefix(self.prefix()) else {
            return (self.block_of(row), u32::MAX);
        };
        self.reach_block(head_of(suffix), hints);
        let block = self.block_of(row);
        let last = self.blocks() - 1;
        let first = self.head(block);
        let end = match block < last {
            true => self.head(block + 1),
            // Nothing says where the last block ends: it may be as long as the others.
            false => first.saturating_add((first - self.head(0)) / last.max(1) as u64),
        };
        (block, fraction(first, end, head_of(suffix)))
    }

    /// Asks the processor to fetch what a search for `head` probably looks at.
    #[inline]
    fn reach_block(self, head: u64, hints: &[Hint]) {
        let Layout { heads, offsets, .. } = self.meta.layout();
        let Range { start, end } = guess(&self.bytes[heads..heads + 8 * self.blocks()], head);
        prefetch(self.bytes[heads + 8 * start..].as_ptr(), 8 * (end - start));
        prefetch(hints[start..].as_ptr().cast(), size_of::<Hint>() * (end - start));
        let width = self.meta.header().offset_width;
        prefetch(self.bytes[offsets + width * start..].as_ptr(), width * (end - start));
    }

    fn prefix(self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..HEADER_LEN + self.meta.header().prefix_len]
    }

    fn cmp_row(self, block: usize, target: &Target<'_>) -> Ordering {
        let head = self.head(block);
        match head.cmp(&target.head) {
            Ordering::Equal => target.cmp_key(self.meta.header().form, head, self.tail(block)),
            order => order,
        }
    }

    fn head(self, block: usize) -> u64 {
        u64_at(self.bytes, self.meta.layout().heads + 8 * block)
    }

    fn tail_offset(self, block: usize) -> usize {
        u32_at(self.bytes, self.meta.layout().tail_offsets + 4 * block) as usize
    }

    fn tail(self, block: usize) -> &'a [u8] {
        let start = self.meta.layout().tails;
        &self.bytes[start + self.tail_offset(block)..start + self.tail_offset(block + 1)]
    }

    fn column_offset(self, block: usize) -> usize {
        match self.meta.header().has_columns {
            true => u32_at(self.bytes, self.meta.layout().column_offsets + 4 * block) as usize,
            false => 0,
        }
    }

    fn column_bytes(self, block: usize) -> &'a [u8] {
        let start = self.meta.layout().columns;
        &self.bytes[start + self.column_offset(block)..start + self.column_offset(block + 1)]
    }

    fn check_offsets(self) -> Result<(), Damage> {
        let Layout { heads, timestamps, tail_offsets, column_offsets, offsets, .. } =
            self.meta.layout();
        let Header { blocks, prefix_len, offset_width, offset_base, .. } = self.meta.header();
        let gaps =
            [(HEADER_LEN + prefix_len, heads), (offsets + offset_width * blocks, timestamps)];
        for (from, to) in gaps {
            let zero = self.bytes[from..to].iter().all(|byte| *byte == 0);
            ensure(zero, from, "bytes between sections are not zero")?;
        }
        ensure(self.tail_offset(0) == 0, tail_offsets, "tails do not start at 0")?;
        ensure(
            self.tail_offset(blocks) == self.meta.header().tails_len,
            tail_offsets,
            "tails' end",
        )?;
        ensure(self.column_offset(0) == 0, column_offsets, "columns do not start at 0")?;
        let columns_end = self.column_offset(blocks);
        ensure(columns_end == self.meta.header().columns_len, column_offsets, "columns' end")?;
        let timestamp_room = i64::MAX.abs_diff(self.meta.header().timestamp_base);
        for block in 0..blocks {
            let ordered = self.tail_offset(block) <= self.tail_offset(block + 1)
                && self.tail_offset(block + 1) <= self.meta.header().tails_len;
            ensure(ordered, tail_offsets, "tail offsets descend")?;
            let ordered = self.column_offset(block) <= self.column_offset(block + 1)
                && self.column_offset(block + 1) <= columns_end;
            ensure(ordered, column_offsets, "column offsets descend")?;
            let width = self.meta.header().timestamp_width;
            let delta = int_at(self.bytes, timestamps, width, block);
            ensure(delta <= timestamp_room, timestamps, "a timestamp out of range")?;
            let delta = int_at(self.bytes, offsets, offset_width, block);
            let in_range = offset_base.checked_add(delta).is_some();
            ensure(in_range, offsets, "a block past the end of any file")?;
        }
        Ok(())
    }

    fn check_block(self, block: usize) -> Result<(), Damage> {
        let at = self.meta.layout().tails + self.tail_offset(block);
        check_key(self.meta.header().form, self.head(block), self.tail(block), at)?;
        let row_len =
            self.meta.header().prefix_len + suffix_len(self.meta.header().form, self.tail(block));
        ensure(row_len <= ROW_BYTES_MAX, at, "a row key over its limit")?;
        let column = self.column_bytes(block);
        let column_at = self.meta.layout().columns + self.column_offset(block);
        let column_fits = column.is_empty() || decode_column(column).is_some();
        ensure(column_fits, column_at, "a first column that is none")?;
        let Some(before) = block.checked_sub(1) else { return Ok(()) };
        let end = self.handle(before).end();
        let after = end.is_some_and(|end| end <= self.handle(block).offset);
        ensure(after, self.meta.layout().offsets, "blocks out of order")?;
        let rows =
            (self.head(before), self.tail(before)).cmp(&(self.head(block), self.tail(block)));
        let ordered = match rows {
            Ordering::Less => true,
            Ordering::Equal => {
                self.continued(block) && self.first_column(before) <= self.first_column(block)
            }
            Ordering::Greater => false,
        };
        ensure(ordered, at, "first keys out of order")
    }
}

/// A column as indexes keep it.
pub(super) fn encode_column(column: &Column<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(3 + column.qualifier.len());
    put_column(&mut bytes, column);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partition of a block for each of `rows`, with a prefix index of their first `len` bytes
    /// whose buckets all lead to the first block, and thus to nothing.
    fn misled(rows: &[Vec<u8>], len: usize) -> Vec<u8> {
        let mut blocks = PrefixIndexBuilder::default();
        let mut entries = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            blocks.add(xxh3(&row[..len]), 0);
            let handle = Handle { offset: at as u64 * 1000, len: 100 };
            entries.push(IndexEntry { row: row.clone(), column: None, handle, timestamp_max: 0 });
        }
        encode_partition(&entries, &RowPrefixes { bytes: len as u16, blocks })
    }

    /// The share of searches in which the buckets are not asked, for rows between first rows that
    /// differ from them in their last byte. Each search finds its block, whatever the buckets say.
    fn share_without_buckets(rows: &[Vec<u8>], len: usize) -> f64 {
        let bytes = misled(rows, len);
        let meta = IndexMeta::check(&bytes).unwrap();
        let index = IndexPartition::of(&bytes, &meta);
        let mut without = 0;
        for (at, first) in rows.iter().enumerate() {
            let mut row = first.clone();
            *row.last_mut().unwrap() += 1;
            assert_eq!([first, &row].map(|row| index.lower_bound(row)), [at, at + 1]);
            let target = Target::against(&row, index.prefix()).unwrap();
            without += usize::from(index.by_heads(&target, len).is_some());
        }
        without as f64 / rows.len() as f64
    }

    #[test]
    fn buckets_are_asked_only_where_heads_do_not_decide() {
        let mut spread: Vec<_> =
            (0..250u64).map(|at| (xxh3(&at.to_le_bytes()) << 8).to_be_bytes().to_vec()).collect();
        spread.sort();
        assert!(share_without_buckets(&spread, 8) > 0.99, "no head ties");
        let tied = |at: u64| [at / 5, at].map(u64::to_le_bytes).concat();
        let mut tied: Vec<_> = (0..250).map(tied).collect();
        tied.sort();
        assert!(share_without_buckets(&tied, 16) < 0.01, "a head holds half of a prefix");
        assert!(share_without_buckets(&tied, 8) > 0.99, "a head holds a prefix");
    }
}
