//! Counters of one tree. They stand in the tree, so that a read or a write finds them at once.

use super::point_counters::PointCounters;
use std::sync::atomic::{AtomicU64, Ordering};

/// Work on a tree that is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WorkCount {
    /// Bytes of the batches that were committed.
    WrittenBytes,
    /// Bytes that flushes have written.
    FlushedBytes,
    /// Bytes that compactions have written.
    CompactedBytes,
    /// Writes that had to stop until background work made room.
    Stalls,
    /// Writes that were slowed down.
    Slowdowns,
}

/// Number of kinds of [`WorkCount`].
pub(crate) const WORK_COUNTS: usize = 5;

/// Counters of a tree. Its filters have counters of their own.
#[derive(Debug, Default)]
pub(crate) struct TreeCounters {
    pub(crate) points: PointCounters,
    /// By [`WorkCount`], which is counted seldom or by one thread. Relaxed: each stands by itself.
    work: [AtomicU64; WORK_COUNTS],
}

impl TreeCounters {
    /// Adds to a count of work.
    pub(crate) fn add(&self, work: WorkCount, count: u64) {
        self.work[work as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the counts of work.
    pub(crate) fn work(&self) -> [u64; WORK_COUNTS] {
        std::array::from_fn(|at| self.work[at].load(Ordering::Relaxed))
    }
}
