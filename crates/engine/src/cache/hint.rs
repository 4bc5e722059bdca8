//! Where a block was last seen in the arena. A hint may be wrong at any time; whoever follows it
//! compares the frame's own key, so a wrong one only costs the look-up it would have saved.

use std::sync::atomic::{AtomicU32, Ordering};

/// Frames of a slab are numbered in so many bits.
const FRAME_BITS: u32 = 12;

/// A frame of the arena: its slab and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) slab: u32,
    pub(super) frame: u32,
}

impl Place {
    /// Frames of a slab at most.
    pub(super) const FRAMES_MAX: usize = 1 << FRAME_BITS;
    /// Slabs at most.
    pub(super) const SLABS_MAX: usize = (1 << (32 - FRAME_BITS)) - 1;

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
pub struct Hint(AtomicU32);

impl Hint {
    #[inline]
    pub(super) fn place(&self) -> Option<Place> {
        Place::decode(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn set(&self, place: Option<Place>) {
        let word = place.map_or(0, Place::encode);
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
        assert_eq!(hint.place(), None);
        for (slab, frame) in [(0, 0), (0, 4095), (7, 1), (Place::SLABS_MAX as u32 - 1, 4095)] {
            let place = Place { slab, frame };
            hint.set(Some(place));
            assert_eq!(hint.place(), Some(place));
        }
        hint.set(None);
        assert_eq!(hint.place(), None);
    }
}
