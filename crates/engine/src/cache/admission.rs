//! Admission: decides which blocks are worth the place of another.
//!
//! While there is room, every block is kept. Once there is none, a block that nobody asked for lately
//! would cost another its place, and the copy and the locks that this takes; of data far larger than
//! the cache, most blocks are gone before they are asked for again. Who can do without keeping a
//! block ([`Cache::is_worth_keeping`]) leaves its name instead, and the block is kept if it is read
//! again while the name is still there: about as many names as the cache has blocks of 4 KiB.
//!
//! That is the queue of names (A1out) of Johnson and Shasha, "2Q: A Low Overhead High Performance
//! Buffer Management Replacement Algorithm" (VLDB 1994), in a table: a name is a tag of 16 bits in
//! the one place that its key has, and goes when another comes there.
//!
//! 1. Nothing here is exact, and nothing has to be: a wrong answer costs a read or a place.
//! 2. No lock is taken, and nothing shared is written while there is room.

use super::cache_counters::{BlockKind, Counted};
use super::frames::free_space::Space;
use super::{Cache, CacheKey, Plain};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

/// Bytes of the cache for each name.
const BYTES_A_NAME: usize = 4 << 10;
/// Names at most: they take 2 bytes each.
const NAMES_MAX: usize = 4 << 20;

/// See the file header.
pub(super) struct Admission {
    names_max: usize,
    /// Made when the first block is asked about for which there is no room.
    names: OnceLock<Box<[AtomicU16]>>,
    /// By class of frames: there are hardly free ones, and no slab to cut.
    full: Box<[AtomicBool]>,
}

impl Admission {
    /// For a cache of at most `bytes_max` bytes in `classes` sizes of frames.
    pub(super) fn new(bytes_max: usize, classes: usize) -> Self {
        let names_max = (bytes_max / BYTES_A_NAME).next_power_of_two().min(NAMES_MAX);
        let full = (0..classes).map(|_| AtomicBool::new(false)).collect();
        Self { names_max, names: OnceLock::new(), full }
    }

    /// Takes note of which classes of frames have room.
    pub(super) fn note(&self, space: &Space) {
        for (class, full) in self.full.iter().enumerate() {
            let now = space.is_full(class);
            if full.load(Ordering::Relaxed) != now {
                full.store(now, Ordering::Relaxed);
            }
        }
    }

    /// Returns whether the name of `key` is there; it is afterwards, or was taken away if it was.
    fn was_named(&self, key: CacheKey) -> bool {
        let new = || (0..self.names_max).map(|_| AtomicU16::new(0)).collect();
        let (place, tag) = key.name(self.names_max);
        let name = &self.names.get_or_init(new)[place];
        let was = name.load(Ordering::Relaxed) == tag;
        name.store(if was { 0 } else { tag }, Ordering::Relaxed);
        was
    }
}

impl<M: Plain> Cache<M> {
    /// Returns whether a block of `len` bytes, read from disk and not in memory, is worth keeping:
    /// there is room, or somebody asked for it lately. Asked once for each time the block was read.
    /// Who does not keep it says so ([`Self::rejected`]).
    pub fn is_worth_keeping(&self, key: CacheKey, len: usize) -> bool {
        let Some(class) = self.arena.class_for(len, 0) else { return true };
        let full = self.admission.full[class].load(Ordering::Relaxed);
        !full || self.admission.was_named(key)
    }

    /// Counts a data block of `len` bytes that was read and not kept, for which the cache grows if it may.
    pub fn rejected(self: &Arc<Self>, len: usize) {
        self.looked_up(BlockKind::Data, false);
        self.count(Counted::Rejected, 1);
        if self.bytes_max() < self.budget.blocks_limit() {
            self.grow_for(len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::FileNumber;

    fn key(offset: u64) -> CacheKey {
        CacheKey { file: FileNumber(3), offset: offset * 4117 }
    }

    #[test]
    fn a_name_is_there_once_and_until_others_have_come() {
        let admission = Admission::new(4 << 20, 1);
        assert!(!admission.was_named(key(0)));
        assert!(admission.was_named(key(0)));
        assert!(!admission.was_named(key(0)), "it was taken away");
        // Two of 15 bits are taken for each other now and then.
        let others = if cfg!(miri) { 10_000 } else { 100_000 };
        let found = (1..others).filter(|offset| admission.was_named(key(*offset))).count();
        assert!(found < 20, "{found}");
        assert!(!admission.was_named(key(0)), "1024 names are kept, and {others} came");
    }

    #[test]
    fn most_of_as_many_names_as_there_are_blocks_are_found_again() {
        let names = if cfg!(miri) { 512 } else { 4096 };
        let admission = Admission::new(4 * names as usize * BYTES_A_NAME, 1);
        let named = |offset| admission.was_named(key(offset));
        assert_eq!((0..names).filter(|offset| named(*offset)).count(), 0);
        // 4 places a name: every ninth is another's after the first time, and one that is named again
        // in its place costs that other its name too.
        let found = (0..names).filter(|offset| named(*offset)).count() as u64;
        assert!((names * 71 / 100..names * 93 / 100).contains(&found), "{found}");
    }
}
