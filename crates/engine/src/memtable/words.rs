//! The words of which the nodes of lists and the pages of their trees are made.

use super::arena::Arena;
use std::sync::atomic::AtomicU64;

/// A place in a list.
pub(super) struct Target<F> {
    /// The head of nodes there.
    pub(super) head: u64,
    /// Whether the place is behind a node that has this head.
    pub(super) is_after: F,
}

impl<F: Fn(u32) -> bool> Target<F> {
    /// Returns whether the place is behind `node`, whose head is `head`.
    pub(super) fn is_behind(&self, head: u64, node: impl FnOnce() -> u32) -> bool {
        head < self.head || head == self.head && (self.is_after)(node())
    }
}

/// Words by index; 0 is none.
#[derive(Default)]
pub(super) struct Words {
    arena: Arena<AtomicU64>,
}

/// The words in use. Whoever has it may reserve more.
pub(super) struct Growth {
    next: u32,
}

impl Words {
    /// No words, and the only writer of those to come.
    pub(super) fn new() -> (Self, Growth) {
        (Self::default(), Growth { next: 1 })
    }

    /// The words from `index` on, at least those reserved together with it.
    pub(super) fn from(&self, index: u32) -> &[AtomicU64] {
        self.arena.from(index)
    }

    /// Reserves `count` neighbouring words, all 0.
    pub(super) fn reserve(&self, growth: &mut Growth, count: usize) -> u32 {
        let words = self.arena.reserve(&mut growth.next, count as u32);
        words.expect("a memtable is frozen long before it holds 4 billion words")
    }
}

impl Growth {
    /// Bytes of the words in use.
    pub(super) fn bytes(&self) -> usize {
        8 * self.next as usize
    }

    /// Bytes allocated for words.
    pub(super) fn bytes_allocated(&self) -> usize {
        Arena::<AtomicU64>::bytes_allocated(self.next)
    }
}

/// A word of two halves.
pub(super) fn join(upper: u32, lower: u32) -> u64 {
    u64::from(upper) << 32 | u64::from(lower)
}

/// The halves of a word.
pub(super) fn split(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}
