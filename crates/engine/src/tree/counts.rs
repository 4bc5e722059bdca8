//! The counters of trees as numbers, and the sums of dropped trees.
//!
//! Invariant: what is told of all trees together never falls. A tree that is dropped while its
//! neighbours are read is missing from that sum, so the sum is told only where it is above all before.

use crate::counters::point_counters::POINT_COUNTS;
use crate::counters::tree_counters::WORK_COUNTS;
use crate::sstable::FILTER_COUNTS;
use crate::tree::TreeState;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of counters of a tree.
pub(crate) const TREE_COUNTS: usize = POINT_COUNTS + FILTER_COUNTS + WORK_COUNTS;

/// Counters of a tree, or sums of them: of reads, then of filters, then of work.
pub(crate) type TreeCounts = [u64; TREE_COUNTS];

impl TreeState {
    /// Returns the counters since the engine was opened.
    pub(crate) fn counts(&self) -> TreeCounts {
        let mut counts = [0; TREE_COUNTS];
        let (points, filters) = (self.counters.points.read_all(), self.filter_counters.counts());
        let all = points.into_iter().chain(filters).chain(self.counters.work());
        counts.iter_mut().zip(all).for_each(|(count, of)| *count = of);
        counts
    }
}

/// Counts of trees that were dropped, and the largest sums that were told.
#[derive(Debug)]
pub(crate) struct PastTrees {
    counts: [AtomicU64; TREE_COUNTS],
    told: [AtomicU64; TREE_COUNTS],
}

impl Default for PastTrees {
    fn default() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Self { counts: zeros(), told: zeros() }
    }
}

impl PastTrees {
    /// Adds the counts of a tree that is gone.
    pub(crate) fn absorb(&self, tree: &TreeState) {
        for (sum, count) in self.counts.iter().zip(tree.counts()) {
            sum.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Returns the counts of trees that are gone.
    pub(crate) fn read(&self) -> TreeCounts {
        std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed))
    }

    /// Returns `sums`, of all trees, where none is below what was told before.
    pub(crate) fn rising(&self, sums: TreeCounts) -> TreeCounts {
        std::array::from_fn(|at| self.told[at].fetch_max(sums[at], Ordering::Relaxed).max(sums[at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_that_lacks_a_tree_is_not_told() {
        let past = PastTrees::default();
        assert_eq!(past.rising([7; TREE_COUNTS]), [7; TREE_COUNTS]);
        assert_eq!(past.rising([5; TREE_COUNTS]), [7; TREE_COUNTS]);
        assert_eq!(past.rising([8; TREE_COUNTS]), [8; TREE_COUNTS]);
    }
}
