//! Blocks on the heap: those that no frame takes, in shards with a clock each.

pub(super) mod clock;

use super::{CacheFill, CacheKey};
use crate::files::FileNumber;
use crate::locks::CacheHeap;
use crate::shape::Shape;
use base::sync::Mutex;
use clock::{Found, Shard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// See the file header.
pub(super) struct Heap<V>(Box<[Counted<V>]>);

struct Counted<V> {
    shard: Mutex<Shard<V>, CacheHeap>,
    /// Bytes in it, written under its lock: who sees 0 need not look.
    bytes: AtomicUsize,
}

impl<V> Counted<V> {
    fn change<R>(&self, change: impl FnOnce(&mut Shard<V>) -> R) -> R {
        let mut shard = self.shard.lock();
        let result = change(&mut shard);
        self.bytes.store(shard.bytes(), Ordering::Release);
        result
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }
}

impl<V> Heap<V> {
    /// No blocks; at most `bytes_max` bytes of them.
    pub(super) fn new(bytes_max: usize, shape: &Shape) -> Self {
        let shards = bytes_max / shape.heap_shard_bytes_min;
        let shards = shards.clamp(1, shape.heap_shards_max);
        let shards = 1 << shards.ilog2();
        let shard = || Mutex::new(Shard::new(bytes_max / shards));
        Self((0..shards).map(|_| Counted { shard: shard(), bytes: AtomicUsize::new(0) }).collect())
    }

    fn shard(&self, key: CacheKey) -> &Counted<V> {
        &self.0[key.shard(self.0.len())]
    }

    /// Bytes of all blocks.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(Counted::bytes).sum()
    }

    /// The block of `key`; counts as a use unless `fill` bypasses.
    pub(super) fn get(&self, key: CacheKey, fill: CacheFill) -> Option<Found<V>> {
        let shard = self.shard(key);
        if shard.bytes() == 0 { None } else { shard.shard.lock().get(key, fill) }
    }

    /// As [`Shard::insert`].
    pub(super) fn insert(
        &self,
        key: CacheKey,
        value: &Arc<V>,
        bytes: usize,
        lives: (u8, u8),
    ) -> Option<u64> {
        self.shard(key).change(|shard| shard.insert(key, value, bytes, lives))
    }

    /// As [`Shard::warmth`].
    pub(super) fn warmth(&self, key: CacheKey) -> Option<(u8, usize)> {
        let shard = self.shard(key);
        if shard.bytes() == 0 { None } else { shard.shard.lock().warmth(key) }
    }

    /// As [`Shard::warm`].
    pub(super) fn warm(&self, key: CacheKey, lives: u8) -> bool {
        self.shard(key).shard.lock().warm(key, lives)
    }

    /// Forgets the block of `key`.
    pub(super) fn remove(&self, key: CacheKey) {
        let shard = self.shard(key);
        if shard.bytes() > 0 {
            shard.change(|shard| shard.remove(key));
        }
    }

    /// Sets how many bytes there may be, and says how many blocks were evicted for that.
    pub(super) fn set_bytes_max(&self, bytes_max: usize) -> u64 {
        let each = bytes_max / self.0.len();
        self.0.iter().map(|shard| shard.change(|shard| shard.set_bytes_max(each))).sum()
    }

    /// Forgets the blocks of `file`.
    pub(super) fn remove_file(&self, file: FileNumber) {
        for shard in &self.0 {
            shard.change(|shard| shard.retain(|key| key.file != file));
        }
    }
}
