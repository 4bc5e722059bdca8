//! The top index: the first key of every index partition and what leads to the partition's blocks
//! (docs/format/sstable.md). It stays in memory while the file is open.
//!
//! Its invariants are those of a partition (sstable/index/mod.rs), with partitions in the place of blocks;
//! `TopIndex::decode` checks them. In the file the newest timestamp of a partition is that of its
//! own blocks. A point read asks for more, that of the rows that begin in it: a row may go on in
//! the partitions behind, so `newest_of_rows` takes the bounds of these in.

use super::PARTITION_BLOCKS_MAX;
use crate::batch::ROW_BYTES_MAX;
use crate::cache::Hint;
use crate::cell::Column;
use crate::sstable::block::decode_column;
use crate::sstable::format::Handle;
use crate::sstable::format::damage::Damage;
use crate::sstable::format::ints::partition;
use crate::sstable::format::key_heads::{common_prefix, head_of, heads_below, suffix_of};
use base::codec::{ByteReader, PutBytes};
use std::cmp::Ordering;

/// Entry of a partition in the top index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    /// The first row of its first block.
    pub(crate) row: Vec<u8>,
    /// The first column of its first block, if that continues a row; encoded.
    pub(crate) column: Option<Vec<u8>>,
    /// Its index partition.
    pub(crate) index: Handle,
    /// The filter of the rows that begin in it; `None` if none does or filters are off.
    pub(crate) filter: Option<Handle>,
    /// The newest timestamp of its entries. A row that begins in it may have newer ones in the
    /// partitions behind.
    pub(crate) timestamp_max: i64,
    /// Its data blocks.
    pub(crate) blocks: u16,
}

/// Reference from the top index to a partition's blocks, in one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot {
    pub(crate) index: Handle,
    pub(crate) filter: Option<Handle>,
    /// The newest timestamp of any entry of the rows that begin in the partition.
    pub(crate) newest_of_rows: i64,
    pub(crate) index_hint: Hint,
    pub(crate) filter_hint: Hint,
}

const _: () = assert!(size_of::<Slot>() == 64, "one line");

/// All partitions of a file, in order; kept in memory while the file is open.
#[derive(Debug, Default)]
pub(crate) struct TopIndex {
    partitions: Vec<Partition>,
    slots: Box<[Slot]>,
    /// What all first rows begin with, and the heads of what follows (key_heads.rs).
    prefix: Box<[u8]>,
    heads: Vec<u64>,
}

impl TopIndex {
    /// Encodes the partitions: a count, then for each its first key and what it leads to.
    pub(crate) fn encode(partitions: &[Partition]) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_varint(partitions.len() as u64);
        for partition in partitions {
            out.put_string(&partition.row);
            out.put_string(partition.column.as_deref().unwrap_or_default());
            partition.index.put(&mut out);
            partition.filter.unwrap_or_default().put(&mut out);
            out.put_i64(partition.timestamp_max);
            out.put_u16(partition.blocks);
        }
        out
    }

    /// The top index in `bytes`, checked. Allocates in proportion to `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let mut reader = ByteReader::new(bytes);
        let at = |reader: &ByteReader<'_>| bytes.len() - reader.rest().len();
        let count = reader.varint("partition count").map_err(|e| Damage::decode(0, e))?;
        let mut partitions: Vec<Partition> = Vec::new();
        for _ in 0..count {
            let start = at(&reader);
            let partition =
                Partition::read(&mut reader).map_err(|e| Damage::decode(at(&reader), e))?;
            partition.check(partitions.last()).map_err(|what| Damage::new(start, what))?;
            partitions.push(partition);
        }
        reader.finish().map_err(|e| Damage::decode(at(&reader), e))?;
        Ok(Self::new(partitions))
    }

    fn new(partitions: Vec<Partition>) -> Self {
        let prefix_len = match (partitions.first(), partitions.last()) {
            (Some(first), Some(last)) => common_prefix(&first.row, &last.row),
            _ => 0,
        };
        let heads =
            partitions.iter().map(|partition| head_of(&partition.row[prefix_len..])).collect();
        let slot = |(partition, newest_of_rows): (&Partition, i64)| Slot {
            index: partition.index,
            filter: partition.filter,
            newest_of_rows,
            index_hint: Hint::default(),
            filter_hint: Hint::default(),
        };
        let slots = partitions.iter().zip(newest_of_rows(&partitions)).map(slot).collect();
        let prefix = partitions.first().map_or(&[][..], |first| &first.row[..prefix_len]).into();
        Self { partitions, slots, prefix, heads }
    }

    /// The way to each partition's blocks.
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The partitions in order.
    pub(crate) fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// The first partition whose first row is not less than `row`; their count if there is none.
    pub(crate) fn lower_bound(&self, row: &[u8]) -> usize {
        let Some(first) = self.partitions.first() else { return 0 };
        let Some(suffix) = row.strip_prefix(&*self.prefix) else {
            let before = row < first.row.as_slice();
            return if before { 0 } else { self.partitions.len() };
        };
        let head = head_of(suffix);
        partition(0, self.partitions.len(), |index| {
            let order = self.heads[index].cmp(&head);
            order.then_with(|| self.partitions[index].row.as_slice().cmp(row)) == Ordering::Less
        })
    }

    /// The partition in which `row` begins if the file has it; `None` if it is before all rows.
    #[inline]
    pub(crate) fn partition_of(&self, row: &[u8]) -> Option<usize> {
        let Some(suffix) = suffix_of(row, &self.prefix) else { return self.last_if_before(row) };
        let head = head_of(suffix);
        let behind = heads_below(&self.heads, head);
        if self.heads.get(behind) == Some(&head) {
            return self.partition_of_tied(row, behind);
        }
        behind.checked_sub(1)
    }

    /// The last partition, if its first row is before `row`, which has not the prefix.
    #[inline(never)]
    fn last_if_before(&self, row: &[u8]) -> Option<usize> {
        // All first rows have the prefix, so `row` is before or after them all.
        (row > &*self.prefix).then(|| self.partitions.len() - 1)
    }

    /// The partition of `row`, whose head is that of the partition at `first`: only now do the rows
    /// decide.
    #[inline(never)]
    fn partition_of_tied(&self, row: &[u8], first: usize) -> Option<usize> {
        let behind = partition(first, self.partitions.len(), |at| {
            match self.partitions[at].row.as_slice().cmp(row) {
                Ordering::Less => true,
                Ordering::Equal => self.partitions[at].column.is_none(),
                Ordering::Greater => false,
            }
        });
        behind.checked_sub(1)
    }

    /// Bytes of memory it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        let keys: usize = self.partitions.iter().map(|partition| partition.row.len()).sum();
        keys + self.partitions.len() * (size_of::<Partition>() + size_of::<Slot>() + 8)
    }
}

/// For each partition, the newest timestamp of any entry of the rows that begin in it, or a little
/// more: its own bound, and the bounds of the partitions in which its last row goes on.
fn newest_of_rows(partitions: &[Partition]) -> Vec<i64> {
    let mut newest = Vec::with_capacity(partitions.len());
    // The partition behind, and the newest timestamp from there on of the row that it continues.
    let mut behind: Option<(&Partition, i64)> = None;
    for partition in partitions.iter().rev() {
        let goes_on = behind.filter(|(next, _)| next.column.is_some());
        let bound_with = |rest: Option<(&Partition, i64)>| {
            rest.map_or(partition.timestamp_max, |(_, rest)| rest.max(partition.timestamp_max))
        };
        newest.push(bound_with(goes_on));
        // A row that ends in this partition has nothing in the next one.
        behind =
            Some((partition, bound_with(goes_on.filter(|(next, _)| next.row == partition.row))));
    }
    newest.reverse();
    newest
}

impl Partition {
    /// Bytes that it takes in the top index, or a few more.
    pub(crate) fn encoded_len(&self) -> usize {
        // Two lengths, two handles, a timestamp and a count.
        const FIXED_LEN: usize = 2 * 5 + 2 * 12 + 8 + 2;
        FIXED_LEN + self.row.len() + self.column.as_ref().map_or(0, Vec::len)
    }

    fn read(reader: &mut ByteReader<'_>) -> Result<Self, base::codec::DecodeError> {
        let row = reader.string("partition's first row")?.to_vec();
        let column = reader.string("partition's first column")?;
        let index = Handle::read(reader)?;
        let filter = Handle::read(reader)?;
        Ok(Self {
            row,
            column: (!column.is_empty()).then(|| column.to_vec()),
            index,
            filter: (filter != Handle::default()).then_some(filter),
            timestamp_max: reader.i64("newest timestamp")?,
            blocks: reader.u16("block count")?,
        })
    }

    fn check(&self, before: Option<&Self>) -> Result<(), &'static str> {
        let must = |ok: bool, what| if ok { Ok(()) } else { Err(what) };
        must(self.row.len() <= ROW_BYTES_MAX, "a row key over its limit")?;
        let column = self.decoded_column();
        must(self.column.is_none() == column.is_none(), "a first column that is none")?;
        let blocks = 1..=PARTITION_BLOCKS_MAX;
        must(blocks.contains(&self.blocks.into()), "a partition of 0 or over 256 blocks")?;
        let Some(before) = before else { return Ok(()) };
        let ordered = match before.row.cmp(&self.row) {
            Ordering::Less => true,
            Ordering::Equal => column.is_some() && before.decoded_column() <= column,
            Ordering::Greater => false,
        };
        must(ordered, "partitions out of order")?;
        let after = before.index.end().is_some_and(|end| end <= self.index.offset);
        must(after, "index partitions out of order")
    }

    fn decoded_column(&self) -> Option<Column<'_>> {
        self.column.as_deref().and_then(decode_column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sstable::index::encode_column;

    #[test]
    fn the_bound_of_a_row_takes_in_the_partitions_that_continue_it_and_no_others() {
        // First row, whether it began before, the newest timestamp of the partition's own blocks,
        // and that of the rows that begin in it.
        let cases = [
            ("a", false, 1, 1),
            ("b", false, 2, 9),
            ("c", true, 9, 9),
            ("d", false, 3, 8),
            ("e", true, 4, 8),
            ("e", true, 8, 8),
            ("f", true, 5, 6),
            // `f` ends in it, and `g`, which goes on, begins.
            ("f", true, 6, 7),
            ("g", true, 7, 7),
        ];
        let column = encode_column(&Column::of(crate::cell::FamilyId(1), b"q"));
        let partition = |(row, continued, timestamp_max, _): &(&str, bool, i64, i64)| Partition {
            row: row.as_bytes().to_vec(),
            column: continued.then(|| column.clone()),
            index: Handle::default(),
            filter: None,
            timestamp_max: *timestamp_max,
            blocks: 1,
        };
        let partitions: Vec<Partition> = cases.iter().map(partition).collect();
        let want: Vec<i64> = cases.iter().map(|case| case.3).collect();
        assert_eq!(newest_of_rows(&partitions), want);
    }
}
