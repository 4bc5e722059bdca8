//! Looking for a resident block in two steps, so that the processor fetches it meanwhile: a reader
//! follows the hint to a frame, goes on with other things, and only then looks what the frame holds.

use super::frames::FrameAt;
use super::{BlockRef, Cache, CacheKey, Hint, Plain};
use crossbeam_epoch::Guard;
use std::ops::Range;

/// Where a hint led a pinned reader, if anywhere.
pub struct Approached<'g, M>(Option<FrameAt<'g, M>>);

impl<M> Clone for Approached<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Approached<'_, M> {}

impl<M: Plain> Cache<M> {
    /// Goes where `hint` leads, if anywhere, and asks the processor to fetch what says which block is
    /// there, the first `meta` bytes of what the block is (of many blocks at once it fetches only so
    /// many lines side by side), and the parts of the block that `parts` names by the block's aim.
    /// The parts may be wrong, which only costs time.
    #[inline]
    pub fn approach<'g, const N: usize>(
        &'g self,
        hint: &Hint,
        meta: usize,
        parts: impl FnOnce(u32) -> [Range<usize>; N],
        pinned: &'g Guard,
    ) -> Approached<'g, M> {
        let followed = self.follow(hint);
        let frame = followed.and_then(|(place, aim)| Some((self.arena.at(place, pinned)?, aim)));
        Approached(frame.map(|(frame, aim)| {
            frame.prefetch(meta, parts(aim));
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
        if let Some((place, aim)) = self.follow(hint) {
            self.arena.prefetch(place, parts(aim));
        }
    }

    /// [`Self::find`] for who has followed `hint` to where it led.
    #[inline]
    pub fn find_approached<'g>(
        &'g self,
        approached: Approached<'g, M>,
        key: CacheKey,
        hint: &Hint,
        pinned: &'g Guard,
    ) -> Option<BlockRef<'g, M>> {
        if let Some((head, block)) = approached.0.and_then(|frame| frame.find(key)) {
            self.touch(head);
            return Some(block);
        }
        self.find(key, hint, pinned)
    }
}
