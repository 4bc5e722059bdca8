//! What a compaction needs of the cache so that blocks of its outputs take the place of those they
//! came of: how warm blocks are, a way to bring others in with the same warmth, and one to be rid of
//! the former.
//!
//! 1. Nothing here counts as a read, nor as a use.
//! 2. A block that is warmed is as warm as it was told, and no warmer than a use would make it; one
//!    that was just used keeps what it has.
//! 3. The first use of a block that was warmed is counted: its lives say until then that there was
//!    none (frame_head.rs), so a look at any other block costs nothing more.

use super::cache_counters::Counted;
use super::frames::Retired;
use super::frames::free_space::Taken;
use super::load_ticket::CacheLookup;
use super::{Cache, CacheFill, CacheKey, Hint, Plain};
use crossbeam_epoch as epoch;
use std::sync::Arc;

/// Warmth of a resident block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warmth {
    /// Turns of the hand that it survives now without being used.
    pub lives: u8,
    /// Bytes of the block.
    pub bytes: usize,
}

impl<M: Plain> Cache<M> {
    /// Returns the warmth of the block of `key`, if it is in memory.
    pub fn warmth(&self, key: CacheKey, hint: &Hint) -> Option<Warmth> {
        let pinned = epoch::pin();
        let find = |place| self.arena.find(place, key, &pinned);
        let hinted = self.follow(hint).and_then(|(place, _)| find(place));
        match hinted.or_else(|| self.table.get(key).and_then(find)) {
            Some((head, block)) => Some(Warmth { lives: head.lives(), bytes: block.bytes.len() }),
            None => self.heap.warmth(key).map(|(lives, bytes)| Warmth { lives, bytes }),
        }
    }

    /// [`Self::ticket`] without counting; that it is in memory is no use of it.
    pub fn load_ticket_uncounted<'a>(
        self: &'a Arc<Self>,
        key: CacheKey,
        hint: &Hint,
        fill: CacheFill,
    ) -> CacheLookup<'a, M> {
        match self.pin(key, hint, CacheFill::Bypass) {
            Some(pin) => CacheLookup::Resident(pin),
            None => self.join(key, hint, fill),
        }
    }

    /// Gives the block of `key`, of `bytes` bytes, `lives` lives, if it is in memory and was
    /// not just used.
    pub fn warm(&self, key: CacheKey, bytes: usize, lives: u8) {
        let pinned = epoch::pin();
        let find = |place| self.arena.find(place, key, &pinned);
        let warmed = match self.table.get(key).and_then(find) {
            Some((head, _)) => head.warm(lives),
            None => self.heap.warm(key, lives),
        };
        if warmed {
            self.count(Counted::Warmed, 1);
            self.count(Counted::WarmedBytes, bytes as u64);
        }
    }

    /// Forgets the blocks of `keys`, whose file is as good as gone.
    pub fn forget(self: &Arc<Self>, keys: &[CacheKey]) {
        for keys in keys.chunks(self.shape.forgotten_at_once) {
            let mut taken = Taken::default();
            {
                let pinned = epoch::pin();
                for key in keys {
                    self.heap.remove(*key);
                    // A frame found in the table is not filled anew while we are pinned: it leaves
                    // the table before its grace period begins.
                    let Some(place) = self.table.take(*key) else { continue };
                    let Some((head, _)) = self.arena.find(place, *key, &pinned) else { continue };
                    if head.doom() {
                        taken.frames.push(Retired::told(place));
                    }
                }
            }
            self.retire(taken);
        }
    }
}
