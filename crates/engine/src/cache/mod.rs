//! The block cache: validated blocks of SSTables, shared by all trees of an engine.
//!
//! Plain first version behind the final seam: sharded, each shard a CLOCK over entries charged by
//! their bytes. Frames in an arena and hints in index entries replace the inside, not the face.
//!
//! Invariants:
//! 1. A key names bytes that never change: file numbers are never reused and SSTables are
//!    immutable. An entry therefore never goes stale; it is only evicted.
//! 2. While one thread loads a key, others that ask for it wait for that load and share its
//!    outcome; no block is read twice at the same time. No shard lock is held during a load.
//! 3. A shard's `bytes` is the sum of its entries' charges, and is at most its budget after every
//!    insertion.
//!
//! The cache knows nothing of cells: it keeps any value that can say what it weighs.

mod clock;
#[cfg(test)]
mod tests;

use crate::error::Result;
use crate::file::FileNumber;
use clock::Shard;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A block: its file and its offset there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey {
    /// The file.
    pub file: FileNumber,
    /// Where the block starts in it.
    pub offset: u64,
}

/// How long an entry is worth keeping compared with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachePriority {
    /// Data blocks and large values.
    Normal,
    /// Index and filter partitions: many reads go through each.
    High,
}

/// Whether what a read loads stays in the cache. A block that is already there is used either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheFill {
    /// Loaded blocks are kept: point reads and ordinary scans.
    #[default]
    Insert,
    /// Data blocks are not kept and hits do not count as use: compaction, checks.
    Bypass,
}

/// What a cached value weighs.
pub trait CacheCharge: Send + Sync + 'static {
    /// Bytes of memory the value holds.
    fn charge(&self) -> usize;
}

/// A reading of the cache's counters and gauges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Reads answered from memory.
    pub hits: u64,
    /// Reads that had to load, those that joined another's load included.
    pub misses: u64,
    /// Entries put in.
    pub inserted: u64,
    /// Entries removed to make room.
    pub evicted: u64,
    /// Bytes held now.
    pub bytes: u64,
    /// Bytes it may hold.
    pub bytes_max: u64,
}

/// Keeps values by file and offset, up to a number of bytes.
pub struct Cache<V> {
    shards: Box<[Mutex<Shard<V>>]>,
    loading: Box<[Loads<V>]>,
    bytes_max: u64,
    hits: AtomicU64,
    misses: AtomicU64,
    inserted: AtomicU64,
    evicted: AtomicU64,
}

/// The loads in progress of a share of all keys.
type Loads<V> = Mutex<HashMap<CacheKey, Arc<Load<V>>>>;

/// A load in progress; others wait for its outcome. `None` in `Done` means it was abandoned.
struct Load<V> {
    outcome: Mutex<Outcome<V>>,
    done: Condvar,
}

enum Outcome<V> {
    Pending,
    Done(Option<Result<Arc<V>>>),
}

/// Smallest budget worth a shard of its own.
const SHARD_BYTES_MIN: usize = 4 << 20;
const SHARDS_MAX: usize = 16;

impl<V: CacheCharge> Cache<V> {
    /// An empty cache of at most `bytes_max` bytes (0 keeps nothing).
    pub fn new(bytes_max: usize) -> Self {
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX).next_power_of_two();
        let shards = shards.min(SHARDS_MAX);
        Self {
            shards: (0..shards).map(|_| Mutex::new(Shard::new(bytes_max / shards))).collect(),
            loading: (0..shards).map(|_| Mutex::default()).collect(),
            bytes_max: bytes_max as u64,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            inserted: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    /// The value of `key` if it is in memory. Counts as a hit or a miss.
    pub fn get(&self, key: CacheKey) -> Option<Arc<V>> {
        let value = self.shards[self.shard_of(key)].lock().get(key, CacheFill::Insert);
        let counter = if value.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        value
    }

    /// The value of `key`, loaded by `load` if it is not in memory. An error is given to every
    /// reader that waited for the same load, and is not remembered.
    pub fn get_or_load(
        &self,
        key: CacheKey,
        priority: CachePriority,
        fill: CacheFill,
        load: impl FnOnce() -> Result<V>,
    ) -> Result<Arc<V>> {
        if let Some(value) = self.shards[self.shard_of(key)].lock().get(key, fill) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(value);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        loop {
            match self.join(key) {
                Joined::Leader(guard) => {
                    // The load before ours may have ended between our lookup and our joining.
                    let present = self.shards[self.shard_of(key)].lock().get(key, fill);
                    let result = present.map_or_else(|| load().map(Arc::new), Ok);
                    if let Ok(value) = &result
                        && (fill == CacheFill::Insert || priority == CachePriority::High)
                    {
                        self.insert(key, value, priority);
                    }
                    guard.finish(result.clone());
                    return result;
                }
                Joined::Follower(Some(result)) => return result,
                Joined::Follower(None) => {}
            }
        }
    }

    /// Forgets every entry of `file`, which is about to be removed.
    pub fn remove_file(&self, file: FileNumber) {
        for shard in &self.shards {
            shard.lock().retain(|key| key.file != file);
        }
    }

    /// The counters since the cache was made.
    pub fn counters(&self) -> CacheCounters {
        CacheCounters {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            inserted: self.inserted.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
            bytes: self.shards.iter().map(|shard| shard.lock().bytes() as u64).sum(),
            bytes_max: self.bytes_max,
        }
    }

    fn insert(&self, key: CacheKey, value: &Arc<V>, priority: CachePriority) {
        let inserted = self.shards[self.shard_of(key)].lock().insert(key, value, priority);
        if let Some(evicted) = inserted {
            self.inserted.fetch_add(1, Ordering::Relaxed);
            self.evicted.fetch_add(evicted, Ordering::Relaxed);
        }
    }

    fn shard_of(&self, key: CacheKey) -> usize {
        let mixed = (key.offset ^ key.file.0.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 48) as usize & (self.shards.len() - 1)
    }

    /// Becomes the loader of `key`, or waits for the one there is.
    fn join(&self, key: CacheKey) -> Joined<'_, V> {
        let loading = &self.loading[self.shard_of(key)];
        let load = {
            let mut loads = loading.lock();
            match loads.get(&key) {
                Some(load) => Arc::clone(load),
                None => {
                    let load = Arc::new(Load {
                        outcome: Mutex::new(Outcome::Pending),
                        done: Condvar::new(),
                    });
                    loads.insert(key, Arc::clone(&load));
                    return Joined::Leader(Leader { loading, key, load });
                }
            }
        };
        let mut outcome = load.outcome.lock();
        loop {
            match &*outcome {
                Outcome::Pending => load.done.wait(&mut outcome),
                Outcome::Done(result) => return Joined::Follower(result.clone()),
            }
        }
    }
}

impl<V> std::fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("bytes_max", &self.bytes_max).finish_non_exhaustive()
    }
}

enum Joined<'a, V> {
    Leader(Leader<'a, V>),
    /// The outcome of the load waited for; `None` if its thread panicked.
    Follower(Option<Result<Arc<V>>>),
}

/// The duty to end a load: dropping it, also by a panic, lets the waiters go.
struct Leader<'a, V> {
    loading: &'a Loads<V>,
    key: CacheKey,
    load: Arc<Load<V>>,
}

impl<V> Leader<'_, V> {
    fn finish(self, result: Result<Arc<V>>) {
        *self.load.outcome.lock() = Outcome::Done(Some(result));
    }
}

impl<V> Drop for Leader<'_, V> {
    fn drop(&mut self) {
        self.loading.lock().remove(&self.key);
        let mut outcome = self.load.outcome.lock();
        if matches!(*outcome, Outcome::Pending) {
            *outcome = Outcome::Done(None);
        }
        self.load.done.notify_all();
    }
}
