//! Where a block was last seen in the arena, and its **prefetch hint**: a word of the loader's that
//! says where in the block a reader will look first, so that it can be fetched together with what
//! says which block it is. A hint may be wrong at any time; whoever follows it compares the frame's
//! own key, so a wrong one only costs the look-up it would have saved.

use std::sync::atomic::{AtomicU64, Ordering};

/// Frames of a slab are numbered in so many bits.
const FRAME_BITS: u32 = 12;

/// A frame of the arena: its slab and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) slab: u32,
    pub(crate) frame: u32,
}

impl Place {
    /// Frames of a slab at most.
    pub(crate) const FRAMES_MAX: usize = 1 << FRAME_BITS;
    /// Slabs at most.
    pub(crate) const SLABS_MAX: usize = (1 << (32 - FRAME_BITS)) - 1;

    fn encode(self) -> u32 {
        (self.slab << FRAME_BITS | self.frame) + 1
    }

    fn decode(word: u32) -> Option<Self> {
        let word = word.checked_sub(1)?;
        Some(Self { slab: word >> FRAME_BITS, frame: word & (Self::FRAMES_MAX as u32 - 1) })
    }
}

/// See the file header. Lies in index entries, beside what leads to the block on disk.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Hint(AtomicU64);

impl Hint {
    /// The place and the prefetch hint.
    #[inline]
    pub(crate) fn get(&self) -> Option<(Place, u32)> {
        let word = self.0.load(Ordering::Relaxed);
        Place::decode(word as u32).map(|place| (place, (word >> 32) as u32))
    }

    pub(crate) fn set(&self, place: Option<(Place, u32)>) {
        let word = place.map_or(0, |(place, prefetch_hint)| {
            u64::from(prefetch_hint) << 32 | u64::from(place.encode())
        });
        if self.0.load(Ordering::Relaxed) != word {
            self.0.store(word, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_gives_back_its_place() {
        let hint = Hint::default();
        assert_eq!(hint.get(), None);
        for (slab, frame) in [(0, 0), (0, 4095), (7, 1), (Place::SLABS_MAX as u32 - 1, 4095)] {
            let place = Place { slab, frame };
            hint.set(Some((place, u32::MAX - frame)));
            assert_eq!(hint.get(), Some((place, u32::MAX - frame)));
        }
        hint.set(None);
        assert_eq!(hint.get(), None);
    }
}
