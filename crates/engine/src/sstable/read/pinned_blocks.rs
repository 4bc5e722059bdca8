//! Blocks that were brought in for a read and are held until it ends, so that the read, planned
//! again, finds them whatever the cache has done since.

use crate::cache::{CacheKey, PinnedBlock};
use crate::sstable::{Block, Content};

/// See the file header.
#[derive(Debug, Default)]
pub(crate) struct PinnedBlocks(Vec<(CacheKey, PinnedBlock<Block>)>);

impl PinnedBlocks {
    /// Holds the block of `key`.
    pub(crate) fn push(&mut self, key: CacheKey, pin: PinnedBlock<Block>) {
        self.0.push((key, pin));
    }

    /// Lets all blocks go.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The large value in the block of `key`, if that is among them.
    pub(crate) fn large_value(&self, key: CacheKey) -> Option<&[u8]> {
        let (_, pin) = self.0.iter().find(|(pinned, _)| *pinned == key)?;
        let block = pin.get();
        matches!(block.meta.0, Content::LargeValue).then_some(block.bytes)
    }
}
