//! Where each block in the arena is, for readers without a good hint.

use super::CacheKey;
use super::hint::Place;
use crate::file::FileNumber;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const SHARDS: usize = 64;

/// A sharded map from blocks to frames.
pub(super) struct Table {
    shards: Box<[Mutex<Shard>]>,
}

type Shard = HashMap<CacheKey, Place, BuildHasherDefault<Mixer>>;

/// Multiplies and folds; keys are the engine's own numbers, not a client's.
#[derive(Default)]
pub(super) struct Mixer(u64);

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

impl Table {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, key: CacheKey) -> &Mutex<Shard> {
        let mixed = (key.offset ^ key.file.0.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 48) as usize % SHARDS]
    }

    pub(super) fn get(&self, key: CacheKey) -> Option<Place> {
        self.shard(key).lock().get(&key).copied()
    }

    pub(super) fn insert(&self, key: CacheKey, place: Place) {
        self.shard(key).lock().insert(key, place);
    }

    /// Removes `key` if it is still at `place`.
    pub(super) fn remove(&self, key: CacheKey, place: Place) {
        let mut shard = self.shard(key).lock();
        if shard.get(&key) == Some(&place) {
            shard.remove(&key);
        }
    }

    /// Removes all blocks of `file` and gives their places.
    pub(super) fn remove_file(&self, file: FileNumber) -> Vec<Place> {
        let mut places = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            places.extend(shard.extract_if(|key, _| key.file == file).map(|(_, place)| place));
        }
        places
    }
}
