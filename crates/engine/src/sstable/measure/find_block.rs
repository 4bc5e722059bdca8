//! From a row to its data block, in three ways: the search of an index partition, its prefix index,
//! and a prefix index that stores the prefixes. The last exists only to be compared with.

use super::super::format::Handle;
use super::super::index::prefix_index::PrefixIndexBuilder;
use super::super::index::{IndexEntry, IndexMeta, IndexPartition, RowPrefixes, encode_partition};
use super::Damage;
use base::checksum::xxh3;
use std::ops::RangeInclusive;

/// Method by which a [`BlockFinder`] finds blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindBy {
    /// A search of the first rows' heads.
    Heads,
    /// The prefix index: buckets of block ids.
    BlockIds,
    /// A hash table of prefixes, which it stores.
    StoredPrefixes,
}

impl FindBy {
    /// All ways.
    pub const ALL: [Self; 3] = [Self::Heads, Self::BlockIds, Self::StoredPrefixes];
}

/// An index partition and a way to search it.
#[derive(Debug, Clone)]
pub struct BlockFinder {
    bytes: Vec<u8>,
    meta: IndexMeta,
    stored: Option<StoredPrefixes>,
}

impl BlockFinder {
    /// A finder for blocks of `block_rows` of `rows`, which ascend, are at least `prefix_bytes`
    /// long and fill at most 256 blocks.
    pub fn new(
        rows: &[Vec<u8>],
        block_rows: usize,
        prefix_bytes: u16,
        by: FindBy,
    ) -> Result<Self, Damage> {
        let mut entries = Vec::new();
        for (block, rows) in rows.chunks(block_rows).enumerate() {
            let handle = Handle { offset: block as u64 * 16_390, len: 16_384 };
            entries.push(IndexEntry {
                row: rows[0].clone(),
                column: None,
                handle,
                timestamp_max: 0,
            });
        }
        let mut blocks = PrefixIndexBuilder::default();
        let mut stored = StoredPrefixes::default();
        for (at, row) in rows.iter().enumerate() {
            let prefix = &row[..prefix_bytes.into()];
            match by {
                FindBy::Heads => {}
                FindBy::BlockIds => blocks.add(xxh3(prefix), at / block_rows),
                FindBy::StoredPrefixes => stored.add(prefix, at / block_rows),
            }
        }
        stored.finish();
        let bytes = encode_partition(&entries, &RowPrefixes { bytes: prefix_bytes, blocks });
        let meta = IndexMeta::check(&bytes)?;
        let stored = (by == FindBy::StoredPrefixes)
            .then_some(StoredPrefixes { len: prefix_bytes.into(), ..stored });
        Ok(Self { bytes, meta, stored })
    }

    /// The block in which `row`, not less than the first row, begins if it is there.
    pub fn block_of(&self, row: &[u8]) -> usize {
        let index = IndexPartition::of(&self.bytes, &self.meta);
        match &self.stored {
            Some(stored) => index.block_of_among(row, stored.find(row)),
            None => index.block_of(row),
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.stored.as_ref().map_or(0, StoredPrefixes::bytes)
    }
}

/// Prefixes of one length with the first and the last block in which rows begin that have them, and
/// an open-addressed table of half as many entries as slots that finds them.
#[derive(Debug, Clone, Default)]
struct StoredPrefixes {
    len: usize,
    /// Place of a prefix plus 1; 0 is empty.
    slots: Vec<u32>,
    prefixes: Vec<u8>,
    blocks: Vec<[u8; 2]>,
}

impl StoredPrefixes {
    fn add(&mut self, prefix: &[u8], block: usize) {
        self.len = prefix.len();
        let block = u8::try_from(block).expect("at most 256 blocks");
        match self.blocks.last_mut() {
            Some([_, last]) if self.prefixes.ends_with(prefix) => *last = block,
            _ => {
                self.prefixes.extend_from_slice(prefix);
                self.blocks.push([block, block]);
            }
        }
    }

    fn finish(&mut self) {
        self.slots = vec![0; 2 * self.blocks.len()];
        for at in 0..self.blocks.len() {
            let mut slot = self.slot_of(self.prefix(at));
            while self.slots[slot] != 0 {
                slot = (slot + 1) % self.slots.len();
            }
            self.slots[slot] = at as u32 + 1;
        }
        self.prefixes.shrink_to_fit();
        self.blocks.shrink_to_fit();
    }

    fn prefix(&self, at: usize) -> &[u8] {
        &self.prefixes[at * self.len..][..self.len]
    }

    fn slot_of(&self, prefix: &[u8]) -> usize {
        ((xxh3(prefix) >> 32) as usize * self.slots.len()) >> 32
    }

    fn find(&self, row: &[u8]) -> Option<RangeInclusive<usize>> {
        let prefix = row.get(..self.len)?;
        let mut slot = self.slot_of(prefix);
        loop {
            let at = self.slots[slot].checked_sub(1)? as usize;
            if self.prefix(at) == prefix {
                let [first, last] = self.blocks[at];
                return Some(first.into()..=last.into());
            }
            slot = (slot + 1) % self.slots.len();
        }
    }

    fn bytes(&self) -> usize {
        4 * self.slots.len() + self.prefixes.len() + 2 * self.blocks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_lead_to_the_same_block() {
        for per_prefix in [1u64, 3, 40, 700] {
            let row = |at: u64| {
                [(at / per_prefix).wrapping_mul(2).to_be_bytes(), (at * 2).to_be_bytes()].concat()
            };
            let rows: Vec<Vec<u8>> = (0..2560).map(row).collect();
            let finders = FindBy::ALL.map(|by| BlockFinder::new(&rows, 10, 8, by).unwrap());
            for (at, row) in rows.iter().enumerate() {
                assert_eq!(finders.each_ref().map(|finder| finder.block_of(row)), [at / 10; 3]);
                for absent in [&row[..15], &[row, &[0][..]].concat(), &[&row[..8], &[9]].concat()] {
                    let absent = absent.max(&rows[0]);
                    let found = finders.each_ref().map(|finder| finder.block_of(absent));
                    assert_eq!(found, [found[0]; 3], "{absent:?}");
                }
            }
        }
    }
}
