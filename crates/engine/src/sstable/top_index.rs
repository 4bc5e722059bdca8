//! The top index: the first key of every index partition and what leads to the partition's blocks
//! (docs/format/sstable.md). It stays in memory while the file is open.
//!
//! Its invariants are those of a partition (index.rs), with partitions in the place of blocks;
//! `TopIndex::decode` checks them.

use super::damage::Damage;
use super::format::Handle;
use super::heads::{common_prefix, head_of, heads_below, suffix_of};
use super::index::PARTITION_BLOCKS_MAX;
use super::ints::partition;
use crate::batch::ROW_BYTES_MAX;
use crate::cache::Hint;
use crate::cell::Column;
use crate::sstable::block::decode_column;
use base::codec::{ByteReader, PutBytes};
use std::cmp::Ordering;

/// What the top index knows of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Partition {
    /// The first row of its first block.
    pub(super) row: Vec<u8>,
    /// The first column of its first block, if that continues a row; encoded.
    pub(super) column: Option<Vec<u8>>,
    /// Its index partition.
    pub(super) index: Handle,
    /// The filter of the rows that begin in it; `None` if none does or filters are off.
    pub(super) filter: Option<Handle>,
    /// The newest timestamp of its entries.
    pub(super) timestamp_max: i64,
    /// Its data blocks.
    pub(super) blocks: u16,
}

/// What leads from the top index to a partition's blocks, in one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) index: Handle,
    pub(super) filter: Option<Handle>,
    pub(super) timestamp_max: i64,
    pub(super) index_hint: Hint,
    pub(super) filter_hint: Hint,
}

const _: () = assert!(size_of::<Slot>() == 64, "one line");

/// All partitions of a file, in order; kept in memory while the file is open.
#[derive(Debug, Default)]
pub(super) struct TopIndex {
    partitions: Vec<Partition>,
    slots: Box<[Slot]>,
    /// What all first rows begin with, and the heads of what follows (heads.rs).
    prefix: Box<[u8]>,
    heads: Vec<u64>,
}

impl TopIndex {
    /// Encodes the partitions: a count, then for each its first key and what it leads to.
    pub(super) fn encode(partitions: &[Partition]) -> Vec<u8> {
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
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Damage> {
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
        let slot = |partition: &Partition| Slot {
            index: partition.index,
            filter: partition.filter,
            timestamp_max: partition.timestamp_max,
            index_hint: Hint::default(),
            filter_hint: Hint::default(),
        };
        let slots = partitions.iter().map(slot).collect();
        let prefix = partitions.first().map_or(&[][..], |first| &first.row[..prefix_len]).into();
        Self { partitions, slots, prefix, heads }
    }

    /// The way to each partition's blocks.
    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The partitions in order.
    pub(super) fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// The first partition whose first row is not less than `row`; their count if there is none.
    pub(super) fn lower_bound(&self, row: &[u8]) -> usize {
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
    pub(super) fn partition_of(&self, row: &[u8]) -> Option<usize> {
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
    pub(super) fn memory_bytes(&self) -> usize {
        let keys: usize = self.partitions.iter().map(|partition| partition.row.len()).sum();
        keys + self.partitions.len() * (size_of::<Partition>() + size_of::<Slot>() + 8)
    }
}

impl Partition {
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
