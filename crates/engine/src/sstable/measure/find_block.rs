//! From a row, or a row prefix alone, to a data block of a file, in three ways: by heads, by the
//! prefix index of partitions, and by one table of prefixes for the file. The last exists only to
//! be compared with.

use super::super::format::Handle;
use super::super::format::ints::partition;
use super::super::format::key_heads::{common_prefix, head_of};
use super::super::index::prefix_index::PrefixIndexBuilder;
use super::super::index::top_index::{Partition, TopIndex};
use super::super::index::{
    IndexEntry, IndexMeta, IndexPartition, PARTITION_BLOCKS_MAX, RowPrefixes, encode_partition,
};
use super::Damage;
use crate::cache::Hint;
use base::checksum::xxh3;

/// Method by which a [`BlockFinder`] finds blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindBy {
    /// The top index, then the heads of a partition.
    Heads,
    /// The top index, then the partition's heads with its prefix index.
    PartitionBuckets,
    /// A table of the file from prefixes to block ids; the heads where it does not decide.
    FileTable,
}

impl FindBy {
    /// All ways.
    pub const ALL: [Self; 3] = [Self::Heads, Self::PartitionBuckets, Self::FileTable];
}

/// The index of a file and a way to search it.
#[derive(Debug)]
pub struct BlockFinder {
    top: TopIndex,
    partitions: Vec<ResidentPartition>,
    table: Option<FileTable>,
}

#[derive(Debug)]
struct ResidentPartition {
    bytes: Vec<u8>,
    meta: IndexMeta,
    hints: Vec<Hint>,
}

/// Bytes of memory of a [`BlockFinder`], without the hints that all ways need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinderBytes {
    /// The top index and all index partitions.
    pub partitions: usize,
    /// The file's table of prefixes.
    pub table: usize,
}

impl BlockFinder {
    /// A finder for blocks of `block_rows` of `rows`, which ascend and have `prefix_bytes` bytes or
    /// more each.
    pub fn new<R: AsRef<[u8]>>(
        rows: impl Iterator<Item = R>,
        block_rows: usize,
        prefix_bytes: u16,
        by: FindBy,
    ) -> Result<Self, Damage> {
        let mut building = Building::new(prefix_bytes, by);
        for (at, row) in rows.enumerate() {
            building.add(row.as_ref(), at % block_rows == 0)?;
        }
        building.finish()
    }

    /// The offset of the block in which `row` begins if it is there, or the first row that has
    /// `row` as its prefix. `row` is not less than the first row.
    pub fn offset_of(&self, row: &[u8]) -> u64 {
        let by_table = self.table.as_ref().and_then(|table| table.offset_of(row));
        by_table.unwrap_or_else(|| {
            let at = self.top.partition_of(row).expect("the row is not before all rows");
            let ResidentPartition { bytes, meta, hints } = &self.partitions[at];
            let index = IndexPartition::of(bytes, meta);
            index.handle(index.place_of(row, hints).0).offset
        })
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> FinderBytes {
        let partitions: usize = self.partitions.iter().map(|one| one.bytes.len()).sum();
        FinderBytes {
            partitions: self.top.memory_bytes() + partitions,
            table: self.table.as_ref().map_or(0, FileTable::bytes),
        }
    }
}

/// An index that is being built.
struct Building {
    by: FindBy,
    prefix_bytes: u16,
    last_prefix: Option<(Vec<u8>, u64)>,
    blocks: usize,
    entries: Vec<IndexEntry>,
    buckets: PrefixIndexBuilder,
    top: Vec<Partition>,
    partitions: Vec<ResidentPartition>,
    table: FileTableBuilder,
}

impl Building {
    fn new(prefix_bytes: u16, by: FindBy) -> Self {
        Self {
            by,
            prefix_bytes,
            last_prefix: None,
            blocks: 0,
            entries: Vec::new(),
            buckets: PrefixIndexBuilder::default(),
            top: Vec::new(),
            partitions: Vec::new(),
            table: FileTableBuilder::default(),
        }
    }

    fn add(&mut self, row: &[u8], starts_block: bool) -> Result<(), Damage> {
        if starts_block {
            if self.entries.len() == PARTITION_BLOCKS_MAX {
                self.end_partition()?;
            }
            let handle = Handle { offset: self.blocks as u64 * 16_390, len: 16_384 };
            let row = row.to_vec();
            self.table.first_rows.push((row.clone(), handle.offset));
            self.entries.push(IndexEntry { row, column: None, handle, timestamp_max: 0 });
            self.blocks += 1;
        }
        let prefix = &row[..self.prefix_bytes.into()];
        let known = self.last_prefix.as_ref().filter(|(last, _)| last == prefix);
        let hash = known.map_or_else(|| xxh3(prefix), |(_, hash)| *hash);
        if known.is_none() {
            self.last_prefix = Some((prefix.to_vec(), hash));
        }
        match self.by {
            FindBy::Heads => {}
            FindBy::PartitionBuckets => self.buckets.add(hash, self.entries.len() - 1),
            FindBy::FileTable => self.table.add(hash, self.blocks - 1),
        }
        Ok(())
    }

    fn end_partition(&mut self) -> Result<(), Damage> {
        let entries = std::mem::take(&mut self.entries);
        let blocks = std::mem::take(&mut self.buckets);
        let bytes = encode_partition(&entries, &RowPrefixes { bytes: self.prefix_bytes, blocks });
        let meta = IndexMeta::check(&bytes)?;
        self.top.push(Partition {
            row: entries[0].row.clone(),
            column: None,
            index: Handle { offset: (self.blocks as u64) << 20, len: 1 },
            filter: None,
            timestamp_max: 0,
            blocks: entries.len() as u16,
        });
        let hints = entries.iter().map(|_| Hint::default()).collect();
        self.partitions.push(ResidentPartition { bytes, meta, hints });
        Ok(())
    }

    fn finish(mut self) -> Result<BlockFinder, Damage> {
        self.end_partition()?;
        let table = (self.by == FindBy::FileTable).then(|| self.table.finish(self.prefix_bytes));
        let top = TopIndex::decode(&TopIndex::encode(&self.top))?;
        Ok(BlockFinder { top, partitions: self.partitions, table })
    }
}

/// Collects what a [`FileTable`] is made of.
#[derive(Debug, Default)]
struct FileTableBuilder {
    /// Hash, first block, last block, in the order of the rows.
    prefixes: Vec<(u64, u32, u32)>,
    first_rows: Vec<(Vec<u8>, u64)>,
}

impl FileTableBuilder {
    fn add(&mut self, hash: u64, block: usize) {
        let block = u32::try_from(block).expect("a file has fewer blocks");
        match self.prefixes.last_mut() {
            Some((of, _, last)) if *of == hash => *last = block,
            _ => self.prefixes.push((hash, block, block)),
        }
    }

    fn finish(self, prefix_bytes: u16) -> FileTable {
        let rows = &self.first_rows;
        let (first, last) = (&rows[0].0, &rows[rows.len() - 1].0);
        let prefix = first[..common_prefix(first, last)].to_vec();
        let block = |(row, offset): &(Vec<u8>, u64)| (head_of(&row[prefix.len()..]), *offset);
        let blocks: Vec<(u64, u64)> = rows.iter().map(block).collect();
        let buckets = self.prefixes.len() * 2;
        let ids = if u16::try_from(blocks.len()).is_ok() {
            Ids::Narrow(fill(&self.prefixes, [u16::MAX, 0], buckets, |block| block as u16))
        } else {
            Ids::Wide(fill(&self.prefixes, [u32::MAX, 0], buckets, |block| block))
        };
        FileTable { len: prefix_bytes.into(), ids, prefix, blocks }
    }
}

fn fill<I: Copy + Ord>(
    prefixes: &[(u64, u32, u32)],
    empty: [I; 2],
    buckets: usize,
    id: impl Fn(u32) -> I,
) -> Vec<[I; 2]> {
    let mut ids = vec![empty; buckets];
    for (hash, first, last) in prefixes {
        let bucket = &mut ids[bucket_of(*hash, buckets)];
        *bucket = [bucket[0].min(id(*first)), bucket[1].max(id(*last))];
    }
    ids
}

fn bucket_of(hash: u64, buckets: usize) -> usize {
    ((u128::from(hash) * buckets as u128) >> 64) as usize
}

/// First and last block of each bucket of prefixes, two buckets a prefix.
#[derive(Debug)]
enum Ids {
    /// Ids in a file with fewer than 65,536 blocks.
    Narrow(Vec<[u16; 2]>),
    /// Ids in a file of any size.
    Wide(Vec<[u32; 2]>),
}

/// Buckets of block ids over all prefixes of a file, and for each block its first row's head and
/// its offset, so that a block is reached past the index partitions.
#[derive(Debug)]
struct FileTable {
    len: usize,
    ids: Ids,
    /// The bytes with which all first rows begin.
    prefix: Vec<u8>,
    /// The head of what follows in the first row, and the offset.
    blocks: Vec<(u64, u64)>,
}

impl FileTable {
    /// The offset of the block, if the bucket and the heads beside it decide it.
    fn offset_of(&self, row: &[u8]) -> Option<u64> {
        let (first, last) = self.bucket(xxh3(row.get(..self.len)?))?;
        let head = head_of(row.strip_prefix(self.prefix.as_slice())?);
        let at = |block: usize| self.blocks[block].0;
        // The first block of a prefix needs no search, unless the bucket is shared.
        let is_prefix = row.len() == self.len;
        let begins_after = |block: usize| block == self.blocks.len() || at(block) >= head;
        if is_prefix && at(first) <= head && begins_after(first + 1) {
            return Some(self.blocks[first].1);
        }
        let after = partition(first, last + 1, |block| at(block) < head);
        let tied = after < self.blocks.len() && at(after) == head;
        let block = after.checked_sub(1)?;
        (!tied && begins_after(after) && at(block) < head).then(|| self.blocks[block].1)
    }

    fn bucket(&self, hash: u64) -> Option<(usize, usize)> {
        let (first, last) = match &self.ids {
            Ids::Narrow(ids) => {
                let [first, last] = *ids.get(bucket_of(hash, ids.len()))?;
                (usize::from(first), usize::from(last))
            }
            Ids::Wide(ids) => {
                let [first, last] = *ids.get(bucket_of(hash, ids.len()))?;
                (first as usize, last as usize)
            }
        };
        (first <= last).then_some((first, last))
    }

    fn bytes(&self) -> usize {
        let ids = match &self.ids {
            Ids::Narrow(ids) => size_of_val(ids.as_slice()),
            Ids::Wide(ids) => size_of_val(ids.as_slice()),
        };
        ids + self.prefix.len() + size_of_val(self.blocks.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of 16 bytes of which `per_prefix` share 8; prefixes are even numbers.
    fn rows(count: u64, per_prefix: u64) -> Vec<Vec<u8>> {
        let row = |at: u64| [(at / per_prefix * 2).to_be_bytes(), (at * 2).to_be_bytes()].concat();
        (0..count).map(row).collect()
    }

    #[test]
    fn all_ways_lead_a_row_to_its_block() {
        for (count, per_prefix) in [(2560, 1), (9000, 3), (9000, 40), (9000, 700), (600_000, 9)] {
            let rows = rows(count, per_prefix);
            let finders = FindBy::ALL.map(|by| BlockFinder::new(rows.iter(), 9, 8, by).unwrap());
            for (at, row) in rows.iter().enumerate().step_by(count as usize / 2000) {
                let found = finders.each_ref().map(|finder| finder.offset_of(row));
                assert_eq!(found, [(at / 9) as u64 * 16_390; 3], "{at} of {per_prefix}");
            }
        }
    }

    #[test]
    fn all_ways_lead_a_prefix_to_its_first_row_or_to_the_block_before() {
        for per_prefix in [1u64, 3, 40, 700] {
            let rows = rows(9000, per_prefix);
            let finders = FindBy::ALL.map(|by| BlockFinder::new(rows.iter(), 9, 8, by).unwrap());
            for prefix in 0..9000 / per_prefix * 2 {
                let bytes = [&prefix.to_be_bytes()[..]].concat().max(rows[0].clone());
                let first = rows.partition_point(|row| *row < bytes) / 9;
                for finder in &finders {
                    let found = finder.offset_of(&bytes) / 16_390;
                    assert!(found <= first as u64 && first as u64 <= found + 1, "{prefix}");
                }
            }
        }
    }
}
