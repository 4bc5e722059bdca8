//! The prefix index: an optional section of an index partition that leads from the hash of a row
//! prefix to data blocks (docs/format/sstable.md).
//!
//! ```text
//! { first block u8 | last block u8 }     one bucket for each range of hashes
//! ```
//! A bucket holds block ids and no prefix: the first and the last block in which rows begin that
//! have any of its prefixes, or 255 and 0 if there are none. Prefixes that share a bucket widen
//! it.
//!
//! A search asks a bucket only if heads tie that hold less than a prefix. Heads are fetched ahead,
//! but a bucket is a cache miss of its own.
//!
//! Invariant: a bucket is a hint. A search within it is checked against the first rows of the
//! blocks around what it found, and made again over all blocks if they say otherwise
//! (`IndexPartition::lower_bound`); so no bucket whatever can make an answer wrong.

use crate::sstable::format::damage::{Damage, ensure};
use std::ops::RangeInclusive;

/// Buckets for each distinct prefix: of the prefixes that share a bucket with another one there are
/// then 39 %.
const BUCKETS_PER_PREFIX: usize = 2;
/// Bytes of a bucket.
pub(crate) const BUCKET_LEN: usize = 2;
const EMPTY: [u8; BUCKET_LEN] = [u8::MAX, 0];

/// Collects the prefixes of the rows that begin in a partition.
#[derive(Debug, Default)]
pub(crate) struct PrefixIndexBuilder {
    /// Hash, first block, last block, in the order of the rows.
    prefixes: Vec<(u64, u8, u8)>,
}

impl PrefixIndexBuilder {
    /// Adds the prefix, by its hash, of a row that begins in `block`. Rows come in order.
    pub(crate) fn add(&mut self, prefix: u64, block: usize) {
        let block = u8::try_from(block).expect("a partition has at most 256 blocks");
        match self.prefixes.last_mut() {
            Some((hash, _, last)) if *hash == prefix => *last = block,
            _ => self.prefixes.push((prefix, block, block)),
        }
    }

    /// Forgets all prefixes.
    pub(crate) fn clear(&mut self) {
        self.prefixes.clear();
    }

    /// The buckets; 0 without prefixes.
    pub(crate) fn buckets(&self) -> usize {
        self.prefixes.len() * BUCKETS_PER_PREFIX
    }

    /// Appends the buckets.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (start, buckets) = (out.len(), self.buckets());
        out.resize(start + buckets * BUCKET_LEN, 0);
        let (all, _) = out[start..].as_chunks_mut::<BUCKET_LEN>();
        all.fill(EMPTY);
        for (hash, first, last) in &self.prefixes {
            let bucket = &mut all[bucket_of(*hash, buckets)];
            *bucket = [bucket[0].min(*first), bucket[1].max(*last)];
        }
    }
}

/// The buckets of a checked partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buckets<'a>(&'a [[u8; BUCKET_LEN]]);

impl<'a> Buckets<'a> {
    /// The buckets in `bytes`.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes.as_chunks().0)
    }

    /// Checks buckets, which begin at byte `at` of a partition of `blocks` blocks.
    pub(crate) fn check(self, blocks: usize, at: usize) -> Result<(), Damage> {
        let sound = |bucket: &[u8; BUCKET_LEN]| {
            *bucket == EMPTY || (bucket[0] <= bucket[1] && usize::from(bucket[1]) < blocks)
        };
        ensure(self.0.iter().all(sound), at, "a bucket of blocks that are not there")
    }

    /// The blocks in which rows can begin whose prefix has this hash; `None` if there are none.
    pub(crate) fn find(self, prefix: u64) -> Option<RangeInclusive<usize>> {
        let [first, last] = *self.0.get(bucket_of(prefix, self.0.len()))?;
        (first <= last).then(|| first.into()..=last.into())
    }
}

/// One of `buckets` by the high bits of `hash`.
fn bucket_of(hash: u64, buckets: usize) -> usize {
    ((hash >> 32) as usize * buckets) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_block_of_a_prefix_is_in_its_bucket(
            counts in proptest::collection::vec(1usize..4, 1..200),
        ) {
            let mut builder = PrefixIndexBuilder::default();
            let prefix = |at: usize| base::checksum::xxh3(&at.to_le_bytes());
            let blocks = |at: usize| counts[..at].iter().sum::<usize>() / 3..counts[..=at].iter().sum::<usize>() / 3;
            for at in 0..counts.len() {
                blocks(at).for_each(|block| builder.add(prefix(at), block.min(255)));
            }
            let mut bytes = Vec::new();
            builder.encode(&mut bytes);
            prop_assert_eq!(bytes.len(), builder.buckets() * BUCKET_LEN);
            let buckets = Buckets::of(&bytes);
            buckets.check(256, 0).unwrap();
            for at in 0..counts.len() {
                for block in blocks(at) {
                    prop_assert!(buckets.find(prefix(at)).unwrap().contains(&block.min(255)));
                }
            }
        }
    }

    #[test]
    fn buckets_of_blocks_that_are_not_there_are_refused() {
        for (bucket, sound) in [([255, 0], true), ([0, 9], true), ([0, 10], false), ([3, 2], false)]
        {
            assert_eq!(Buckets::of(&bucket).check(10, 0).is_ok(), sound, "{bucket:?}");
        }
        assert!(Buckets::of(&[]).find(7).is_none());
    }
}
