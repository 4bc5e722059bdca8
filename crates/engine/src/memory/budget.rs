//! One budget of memory for what an engine keeps: blocks of SSTables, memtables, and what open
//! files and trees pin.
//!
//! Memtables, pinned metadata and what SSTables being written gather are **charged** as they are
//! allocated; the block cache takes what they leave (`Cache::balance`). The shares, in bytes:
//!
//! ```text
//! blocks      what the others leave; never less than an eighth, never more than their own limit
//! memtables   a half; less where metadata is large, but never less than an eighth
//! ```
//!
//! Memory of the process that is not charged (buffers of reads, requests, memory that the allocator
//! retains) is **untracked**. The program may report how much memory it has outside of blocks
//! (`set_outside`); the block cache shrinks by it as well.
//!
//! Invariants:
//! 1. A charge ends with the memory it stands for, so that the sum of charges is what is allocated
//!    but for the allocator's own overhead.
//! 2. `Active` and `Frozen` are memory that a flush gives back; writers wait for nothing else, so a
//!    reader that keeps a flushed memtable alive never stops a writer. It costs blocks.
//! 3. Nothing here is touched by reads.
//! 4. Untracked memory is measured, not charged: it takes from blocks alone, so that no allocator
//!    can stop a writer. A report includes the memory charged at that time, and the larger of the
//!    two counts: a memtable that reuses freed memory is not counted twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Blocks keep at least this part of the budget.
const BLOCKS_MIN_PART: usize = 8;
/// Of what is outside of blocks no more, this part is believed each time it is told.
const OUTSIDE_PARTS: usize = 16;
/// Memtables may take this part, and keep at least that one.
const MEMTABLES_PART: usize = 2;
const MEMTABLES_MIN_PART: usize = 8;

/// What charged memory is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Memtables that take writes.
    Active,
    /// Memtables that wait for their flush.
    Frozen,
    /// Memtables that were flushed, or whose tree was dropped, and are still being read.
    Outlived,
    /// What open files and trees need whatever is read or written.
    Metadata,
    /// Indexes and filters of SSTables that flushes and compactions are writing.
    Building,
}

impl Use {
    const COUNT: usize = 5;
}

/// See the file header.
#[derive(Debug)]
pub struct Budget {
    bytes_max: usize,
    blocks_min: usize,
    blocks_limit: usize,
    /// By [`Use`]. Relaxed: each stands by itself.
    charged: [AtomicUsize; Use::COUNT],
    /// Bytes that the process has outside of blocks as far as it was told; 0 if never. Relaxed:
    /// stands by itself.
    outside: AtomicUsize,
}

impl Budget {
    /// A budget of `bytes_max` bytes, of which blocks take at most `blocks_limit` (`None`: all that
    /// is left).
    pub fn new(bytes_max: usize, blocks_limit: Option<usize>) -> Arc<Self> {
        let blocks_limit = blocks_limit.unwrap_or(bytes_max).min(bytes_max);
        let blocks_min = (bytes_max / BLOCKS_MIN_PART).min(blocks_limit);
        Self::shared(bytes_max, blocks_min, blocks_limit)
    }

    /// A budget of which `bytes` bytes are for blocks, whatever else is charged.
    pub fn of_blocks(bytes: usize) -> Arc<Self> {
        Self::shared(bytes, bytes, bytes)
    }

    fn shared(bytes_max: usize, blocks_min: usize, blocks_limit: usize) -> Arc<Self> {
        let (charged, outside) = Default::default();
        Arc::new(Self { bytes_max, blocks_min, blocks_limit, charged, outside })
    }

    /// All of it.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes charged for `what`.
    pub fn charged(&self, what: Use) -> usize {
        self.charged[what as usize].load(Ordering::Relaxed)
    }

    /// Bytes that blocks always have.
    pub(crate) fn blocks_min(&self) -> usize {
        self.blocks_min
    }

    /// Bytes that blocks can ever have.
    pub(crate) fn blocks_limit(&self) -> usize {
        self.blocks_limit
    }

    /// Bytes charged for anything.
    fn charged_in_all(&self) -> usize {
        self.charged.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Tells that the process has `bytes` bytes outside of blocks, charged or not. More counts at
    /// once; less only in parts, so that blocks do not come and go with every buffer.
    pub fn set_outside(&self, bytes: usize) {
        let settle = |before: usize| match before.checked_sub(bytes) {
            Some(less) => Some(before - less.div_ceil(OUTSIDE_PARTS)),
            None => Some(bytes),
        };
        let _ = self.outside.fetch_update(Ordering::Relaxed, Ordering::Relaxed, settle);
    }

    /// Bytes that nobody charges, by what was told last.
    pub fn untracked(&self) -> usize {
        self.outside.load(Ordering::Relaxed).saturating_sub(self.charged_in_all())
    }

    /// Bytes that blocks may have now.
    pub fn blocks_max(&self) -> usize {
        let others = self.charged_in_all().max(self.outside.load(Ordering::Relaxed));
        self.bytes_max.saturating_sub(others).clamp(self.blocks_min, self.blocks_limit)
    }

    /// Bytes that memtables may take until they are flushed, those of all trees together.
    pub fn memtables_max(&self) -> usize {
        let pinned = self.charged(Use::Metadata) + self.charged(Use::Outlived);
        let left = self.bytes_max.saturating_sub(pinned + self.blocks_min);
        (self.bytes_max / MEMTABLES_PART).min(left).max(self.bytes_max / MEMTABLES_MIN_PART)
    }

    /// Bytes that memtables take until they are flushed.
    fn unflushed(&self) -> usize {
        self.charged(Use::Active) + self.charged(Use::Frozen)
    }

    /// Returns whether memtables are to be flushed before more is replayed into them.
    pub(crate) fn replay_wants_flush(&self) -> bool {
        self.unflushed() >= self.memtables_max() / 4 * 3
    }

    /// Whether a memtable is to be flushed although it is not full: those that take writes fill
    /// three quarters of what memtables may take, and what is left is for writes until it is
    /// flushed.
    pub(crate) fn wants_flush(&self) -> bool {
        self.charged(Use::Active) >= self.memtables_max() / 4 * 3
    }

    /// Bytes that memtables take until they are flushed, of those that they may; `None` while none
    /// is being flushed, and so nothing to wait for.
    pub(crate) fn behind(&self) -> Option<(usize, usize)> {
        (self.charged(Use::Frozen) > 0).then(|| (self.unflushed(), self.memtables_max()))
    }

    /// Returns whether writers are to wait for the flushes that run.
    pub(crate) fn stops_writers(&self) -> bool {
        self.charged(Use::Frozen) > 0 && self.unflushed() >= self.memtables_max()
    }

    /// Charges nothing as yet for `what`.
    pub fn charge(self: &Arc<Self>, what: Use) -> Charge {
        Charge { budget: Arc::clone(self), what, bytes: 0 }
    }
}

/// Memory that its owner keeps. Ends when it is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    what: Use,
    bytes: usize,
}

impl Charge {
    /// Sets how many bytes it is for.
    pub fn set(&mut self, bytes: usize) {
        let charged = &self.budget.charged[self.what as usize];
        // Never below 0: what is taken off was added before.
        match bytes.checked_sub(self.bytes) {
            Some(more) => charged.fetch_add(more, Ordering::Relaxed),
            None => charged.fetch_sub(self.bytes - bytes, Ordering::Relaxed),
        };
        self.bytes = bytes;
    }

    /// The same, for a charge as it is made.
    #[must_use]
    pub fn of(mut self, bytes: usize) -> Self {
        self.set(bytes);
        self
    }

    /// The same memory is used for something else from now on.
    pub fn turn(&mut self, what: Use) {
        let bytes = self.bytes;
        self.set(0);
        self.what = what;
        self.set(bytes);
    }

    /// How many bytes it is for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The budget it is charged to.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_from_what_is_charged() {
        const MIB: usize = 1 << 20;
        for (case, limit, charged, blocks, memtables) in [
            ("nothing charged", None, [0, 0, 0, 0, 0], 64, 32),
            ("blocks have a limit", Some(10), [0, 0, 0, 0, 0], 10, 32),
            ("memtables take from blocks", None, [10, 6, 0, 0, 0], 48, 32),
            ("not below the limit of blocks", Some(10), [10, 6, 0, 0, 0], 10, 32),
            ("old memtables that are read", None, [10, 6, 5, 0, 0], 43, 32),
            ("metadata takes from both", None, [4, 0, 0, 40, 0], 20, 16),
            ("files being written take from blocks", None, [10, 6, 0, 0, 5], 43, 32),
            ("blocks keep an eighth", None, [20, 20, 20, 20, 0], 8, 16),
            ("memtables keep an eighth", None, [0, 0, 0, 100, 0], 8, 8),
        ] {
            let budget = Budget::new(64 * MIB, limit.map(|limit: usize| limit * MIB));
            let uses = [Use::Active, Use::Frozen, Use::Outlived, Use::Metadata, Use::Building];
            let charges = charged.into_iter().zip(uses);
            let charges: Vec<Charge> =
                charges.map(|(bytes, what)| budget.charge(what).of(bytes * MIB)).collect();
            assert_eq!(budget.blocks_max(), blocks * MIB, "{case}");
            assert_eq!(budget.memtables_max(), memtables * MIB, "{case}");
            drop(charges);
            assert_eq!(budget.blocks_max(), budget.blocks_limit(), "{case}");
        }
    }

    #[test]
    fn writers_wait_for_flushes_and_for_nothing_else() {
        let budget = Budget::new(800, None);
        let mut active = budget.charge(Use::Active).of(299);
        assert!(!budget.wants_flush());
        active.set(300);
        assert!(budget.wants_flush() && budget.behind().is_none());
        active.set(10_000);
        assert!(!budget.stops_writers(), "nothing is being flushed that could end the wait");
        let mut old = budget.charge(Use::Frozen).of(1);
        assert!(budget.stops_writers());
        active.set(349);
        assert!(!budget.stops_writers());
        assert_eq!(budget.behind(), Some((350, 400)));
        active.set(399);
        assert!(budget.stops_writers());
        old.turn(Use::Outlived);
        assert!(!budget.stops_writers() && budget.behind().is_none());
        assert_eq!((budget.charged(Use::Frozen), budget.charged(Use::Outlived)), (0, 1));
    }

    #[test]
    fn untracked_memory_shrinks_blocks_but_not_memtables() {
        for (case, outside, untracked, blocks) in [
            ("never told", 0, 0, 540),
            ("less than is charged", 60, 0, 540),
            ("as much as is charged", 100, 0, 540),
            ("more", 250, 150, 390),
            ("so much that an eighth is left", 560, 460, 80),
            ("more than that", 600, 500, 80),
            ("more than all", 6_400, 6_300, 80),
        ] {
            let budget = Budget::new(640, None);
            let _active = budget.charge(Use::Active).of(100);
            budget.set_outside(outside);
            assert_eq!((budget.untracked(), budget.blocks_max()), (untracked, blocks), "{case}");
            assert_eq!(budget.memtables_max(), 320, "{case}");
        }
    }

    #[test]
    fn what_was_told_includes_what_was_charged() {
        let budget = Budget::new(640, None);
        let mut active = budget.charge(Use::Active).of(100);
        budget.set_outside(250);
        // What is charged later is taken for memory that was there already, up to what was told.
        active.set(250);
        assert_eq!((budget.untracked(), budget.blocks_max()), (0, 390));
        active.set(300);
        assert_eq!((budget.untracked(), budget.blocks_max()), (0, 340));
    }

    #[test]
    fn untracked_memory_falls_gradually() {
        let budget = Budget::new(640, None);
        budget.set_outside(320);
        budget.set_outside(0);
        assert_eq!(budget.untracked(), 300);
        budget.set_outside(310);
        assert_eq!(budget.untracked(), 310, "more counts at once");
        (0..100).for_each(|_| budget.set_outside(0));
        assert_eq!((budget.untracked(), budget.blocks_max()), (0, 640));
    }

    #[test]
    fn a_share_for_blocks_alone_stays() {
        let budget = Budget::of_blocks(100);
        let _charge = budget.charge(Use::Metadata).of(1_000);
        budget.set_outside(1_000);
        assert_eq!(budget.blocks_max(), 100);
    }
}
