//! The table of blocks in the arena, for readers without a valid hint.

use super::hint::Place;
use crate::cache::{CacheKey, KeyMap};
use crate::files::FileNumber;
use crate::locks::CacheTable;
use base::sync::Mutex;
use crossbeam_utils::CachePadded;

/// Each on lines of its own, so many that two threads seldom meet.
const SHARDS: usize = 128;

/// A sharded map from blocks to frames.
pub(crate) struct Table {
    shards: Box<[CachePadded<Mutex<Shard, CacheTable>>]>,
}

type Shard = KeyMap<Place>;

impl Table {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| CachePadded::default()).collect() }
    }

    fn shard(&self, key: CacheKey) -> &Mutex<Shard, CacheTable> {
        &self.shards[key.shard(SHARDS)]
    }

    pub(crate) fn get(&self, key: CacheKey) -> Option<Place> {
        self.shard(key).lock().get(&key).copied()
    }

    pub(crate) fn insert(&self, key: CacheKey, place: Place) {
        self.shard(key).lock().insert(key, place);
    }

    /// Removes `key` if it is still at `place`.
    pub(crate) fn remove(&self, key: CacheKey, place: Place) {
        let mut shard = self.shard(key).lock();
        if shard.get(&key) == Some(&place) {
            shard.remove(&key);
        }
    }

    /// Removes `key` and gives its place.
    pub(crate) fn take(&self, key: CacheKey) -> Option<Place> {
        self.shard(key).lock().remove(&key)
    }

    /// Removes all blocks of `file` and gives their places.
    pub(crate) fn remove_file(&self, file: FileNumber) -> Vec<Place> {
        let mut places = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            places.extend(shard.extract_if(|key, _| key.file == file).map(|(_, place)| place));
        }
        places
    }
}
