//! The key of a block, and its hash.

use crate::files::FileNumber;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A block: its file and its offset there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey {
    pub file: FileNumber,
    /// Where the block starts in it.
    pub offset: u64,
}

impl CacheKey {
    /// Which of `places`, a power of two, the block's name has, and its tag, which is not 0.
    pub(super) fn name(self, places: usize) -> (usize, u16) {
        let mut mixer = Mixer::default();
        mixer.write_u64(self.offset ^ self.file.0.rotate_left(40));
        ((mixer.0 >> 16) as usize & (places - 1), mixer.0 as u16 | 1)
    }

    /// Which of `shards`, a power of two, the block belongs to.
    pub(super) fn shard(self, shards: usize) -> usize {
        let mixed = (self.offset ^ self.file.0.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 48) as usize & (shards - 1)
    }
}

/// A map of blocks.
pub(crate) type KeyMap<V> = HashMap<CacheKey, V, BuildHasherDefault<Mixer>>;

/// Multiplies and folds; keys are the engine's own numbers, not a client's.
#[derive(Debug, Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (mixed >> 64) as u64 ^ mixed as u64;
    }
}
