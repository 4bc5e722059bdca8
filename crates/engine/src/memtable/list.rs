//! Ordered lists of nodes: skip lists (Pugh 1990) whose upper links carry the **head** of the node
//! they lead to, so that a search compares integers and does not touch the nodes it passes by.
//!
//! Nodes and links lie in one arena of words, in safe code: links are indices of words. Whoever
//! uses a list says what a node is; the list knows of it
//!
//! ```text
//! word n          the node's own head; its index n stands for the node
//! word n+1        level 0: the node after it
//! words n+2l, +1  level l, if the node is so high: head of a node further on; that node
//! ```
//!
//! A head is any function of the order: of two nodes the earlier one's is not greater. Where heads
//! are equal the caller compares nodes.
//!
//! Invariants:
//! 1. 0 is no node; as a link it means "none". Links of level 1 and up that lead nowhere have the
//!    largest head.
//! 2. What a node holds is stored before any link to it (`Release`, met by the readers'
//!    `Acquire`), and its head never changes.
//! 3. A list only grows, so the node a link leads to only comes nearer, and the head of an upper
//!    link only falls. The writer changes the node first and then the head; readers read the head
//!    first. The node they then read has at most that head: to go on to it is right if the head
//!    is before what they look for. To stop too early costs steps on the level below and nothing
//!    else; level 0 has no heads beside its links and is exact.

use super::arena::Arena;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

const HEIGHT_MAX: usize = 12;
/// Words of the upper links where a list starts.
const UPPER_WORDS: u32 = words_above(HEIGHT_MAX);

/// The words of all nodes and links.
#[derive(Default)]
pub(super) struct Words {
    arena: Arena<AtomicU64>,
}

/// Where a list starts.
#[derive(Clone, Copy)]
pub(super) struct Start {
    /// The word that is the first link of level 0.
    pub(super) first: u32,
    /// The first of the links of the other levels; 0 while the list has no other levels.
    pub(super) upper: u32,
}

/// What a search looks for: the place before the first node that is not behind it.
pub(super) struct Target<F> {
    /// Its head.
    pub(super) head: u64,
    /// Whether a node, whose head is the same, is before the target.
    pub(super) is_after: F,
}

/// The last nodes before a place, by level; 0 is the start of the list.
#[derive(Default)]
pub(super) struct Path {
    before: [u32; HEIGHT_MAX],
}

/// What only the writer knows.
pub(super) struct Growth {
    next_word: u32,
    random: u64,
}

/// Words of the links above level 0 of a node of `height`.
const fn words_above(height: usize) -> u32 {
    2 * (height as u32 - 1)
}

impl Words {
    /// No words, and the only writer of those to come.
    pub(super) fn new() -> (Self, Growth) {
        // Word 0 stays unused (invariant 1).
        (Self::default(), Growth { next_word: 1, random: 0x9e37_79b9 })
    }

    /// The words from `index` on, at least those reserved together with it.
    pub(super) fn from(&self, index: u32) -> &[AtomicU64] {
        self.arena.from(index)
    }

    /// Reserves `count` words, all 0.
    pub(super) fn reserve(&self, growth: &mut Growth, count: u32) -> u32 {
        let words = self.arena.reserve(&mut growth.next_word, count);
        words.expect("a memtable is frozen long before it holds 4 billion words")
    }

    /// Reserves and fills the upper links of a list's start.
    pub(super) fn reserve_upper(&self, growth: &mut Growth) -> u32 {
        let upper = self.reserve(growth, UPPER_WORDS);
        let heads = self.from(upper)[..UPPER_WORDS as usize].iter().step_by(2);
        heads.for_each(|head| head.store(u64::MAX, Relaxed));
        upper
    }

    /// Reserves a node with `fields` words before its head, and fills all but the fields and the
    /// links.
    pub(super) fn reserve_node(
        &self,
        growth: &mut Growth,
        fields: u32,
        head: u64,
        height: usize,
    ) -> u32 {
        let node = self.reserve(growth, fields + 2 + words_above(height)) + fields;
        self.from(node)[0].store(head, Relaxed);
        node
    }

    /// The head of `node`.
    pub(super) fn head(&self, node: u32) -> u64 {
        self.from(node)[0].load(Relaxed)
    }

    /// The first node of the list; 0 if there is none.
    pub(super) fn first(&self, start: Start) -> u32 {
        self.from(start.first)[0].load(Acquire) as u32
    }

    /// The node after `node`; 0 if there is none.
    pub(super) fn next(&self, node: u32) -> u32 {
        self.from(node)[1].load(Acquire) as u32
    }

    fn level_zero(&self, start: Start, node: u32) -> &AtomicU64 {
        if node == 0 { &self.from(start.first)[0] } else { &self.from(node)[1] }
    }

    /// Head and node of a link above level 0.
    fn upper(&self, start: Start, node: u32, level: usize) -> (&AtomicU64, &AtomicU64) {
        let first = if node == 0 { start.upper } else { node + 2 };
        let [head, next, ..] = self.from(first + words_above(level)) else {
            unreachable!("a link is two words of one chunk")
        };
        (head, next)
    }

    /// Whether `node` is before `target`.
    pub(super) fn is_before(&self, node: u32, target: &Target<impl Fn(u32) -> bool>) -> bool {
        let head = self.head(node);
        head < target.head || head == target.head && (target.is_after)(node)
    }

    /// The last node before `target`, 0 if there is none, and the one after it, 0 if there is
    /// none. They come from one look at the link between them: by a second look the writer may
    /// have put a node there that lies before `target`.
    pub(super) fn search(&self, start: Start, target: &Target<impl Fn(u32) -> bool>) -> (u32, u32) {
        self.descend(start, target, |_, _| {})
    }

    /// Likewise, and the way there.
    pub(super) fn path(&self, start: Start, target: &Target<impl Fn(u32) -> bool>) -> Path {
        let mut path = Path::default();
        self.descend(start, target, |level, node| path.before[level] = node);
        path
    }

    fn descend(
        &self,
        start: Start,
        target: &Target<impl Fn(u32) -> bool>,
        mut visit: impl FnMut(usize, u32),
    ) -> (u32, u32) {
        let mut node = 0;
        let levels = if start.upper == 0 { 1 } else { HEIGHT_MAX };
        for level in (1..levels).rev() {
            while let Some(next) = self.step(start, node, level, target) {
                node = next;
            }
            visit(level, node);
        }
        loop {
            let after = self.level_zero(start, node).load(Acquire) as u32;
            if after == 0 || !self.is_before(after, target) {
                visit(0, node);
                return (node, after);
            }
            node = after;
        }
    }

    /// The node that `node` leads to on `level` (1 or more), if it is before `target`.
    fn step(
        &self,
        start: Start,
        node: u32,
        level: usize,
        target: &Target<impl Fn(u32) -> bool>,
    ) -> Option<u32> {
        let (head, next) = self.upper(start, node, level);
        let head = head.load(Acquire);
        if head > target.head {
            return None;
        }
        let next = next.load(Acquire) as u32;
        (next != 0 && (head < target.head || (target.is_after)(next))).then_some(next)
    }

    /// Links `node`, reserved with `height`, behind `path`.
    pub(super) fn link(&self, start: Start, path: &Path, node: u32, height: usize) {
        let own_head = self.head(node);
        let after = self.level_zero(start, path.before[0]).load(Relaxed);
        self.from(node)[1].store(after, Relaxed);
        for level in 1..height {
            let (head, next) = self.upper(start, path.before[level], level);
            let (own, own_next) = self.upper(start, node, level);
            own.store(head.load(Relaxed), Relaxed);
            own_next.store(next.load(Relaxed), Relaxed);
        }
        self.level_zero(start, path.before[0]).store(u64::from(node), Release);
        for level in 1..height {
            let (head, next) = self.upper(start, path.before[level], level);
            next.store(u64::from(node), Release);
            head.store(own_head, Release);
        }
    }
}

impl Growth {
    /// Words in use.
    pub(super) fn words(&self) -> usize {
        self.next_word as usize
    }

    /// 1 with probability 3/4, 2 with 3/16, and so on (xorshift; the seed is fixed, since the
    /// keys are not chosen by someone who sees the heights).
    pub(super) fn draw_height(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (1 + (self.random.trailing_zeros() / 2) as usize).min(HEIGHT_MAX)
    }
}
