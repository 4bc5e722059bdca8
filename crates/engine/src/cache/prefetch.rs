//! Looking for a resident block in two steps, so that the processor fetches it meanwhile: a reader
//! follows the hint to a frame, goes on with other things, and only then looks what the frame
//! holds.

use super::frames::FrameAt;
use super::{BlockRef, Cache, CacheKey, Hint, Plain};
use crossbeam_epoch::Guard;
use std::ops::Range;

/// The frame that a hint led a pinned reader to, if any.
pub struct Prefetched<'g, M>(Option<FrameAt<'g, M>>);

impl<M> Clone for Prefetched<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Prefetched<'_, M> {}

impl<M: Plain> Cache<M> {
    /// Goes where `hint` leads, if anywhere, and asks the processor to fetch what says which block
    /// is there, the first `meta` bytes of what the block is (of many blocks at once it fetches
    /// only so many lines side by side), and the parts of the block that `parts` names by the
    /// block's prefetch hint. The parts may be wrong, which only costs time.
    #[inline]
    pub fn prefetch_block<'g, const N: usize>(
        &'g self,
        hint: &Hint,
        meta: usize,
        parts: impl FnOnce(u32) -> [Range<usize>; N],
        pinned: &'g Guard,
    ) -> Prefetched<'g, M> {
        let followed = self.follow(hint);
        let frame = followed.and_then(|(place, prefetch_hint)| {
            Some((self.arena.at(place, pinned)?, prefetch_hint))
        });
        Prefetched(frame.map(|(frame, prefetch_hint)| {
            frame.prefetch(meta, parts(prefetch_hint));
            frame
        }))
    }

    /// Asks the processor to fetch the same, of a block that will be looked for without a guard.
    #[inline]
    pub fn prefetch<const N: usize>(
        &self,
        hint: &Hint,
        parts: impl FnOnce(u32) -> [Range<usize>; N],
    ) {
        if let Some((place, prefetch_hint)) = self.follow(hint) {
            self.arena.prefetch(place, parts(prefetch_hint));
        }
    }

    /// [`Self::find`] for who has followed `hint` to where it led.
    #[inline]
    pub fn find_prefetched<'g>(
        &'g self,
        prefetched: Prefetched<'g, M>,
        key: CacheKey,
        hint: &Hint,
        pinned: &'g Guard,
    ) -> Option<BlockRef<'g, M>> {
        if let Some((head, block)) = prefetched.0.and_then(|frame| frame.find(key)) {
            self.touch(head);
            return Some(block);
        }
        self.find(key, hint, pinned)
    }
}
