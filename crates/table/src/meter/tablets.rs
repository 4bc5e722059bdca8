//! The tablets that have counters of their own, and the counters of all others.
//!
//! Invariants:
//! 1. A scrape chooses the tablets, of which at most [`TABLETS_MAX`] have counters at a time: the number of
//!    sets is bounded, whatever clients create. The counters of a tablet begin at 0 when it is chosen, stay
//!    while it is chosen again, and are gone after that.
//! 2. A request within one tablet counts there as it counts in its table. A request over several tablets has
//!    its latency in the counters of all other tablets, and its rows and bytes in the tablets that they are of.
//! 3. A request that ends finds the counters by a binary search among few numbers. It takes no lock, and writes
//!    to no memory that is shared but the counters themselves.
//! 4. A table with counters of its own and one tablet is left out: the counters of the table tell the same.

use super::{TableCounters, Volume};
use arc_swap::{ArcSwap, Guard};
use engine::TreeId;
use std::sync::Arc;

/// Tablets with counters of their own at a time.
pub const TABLETS_MAX: usize = 20;

/// Tablets by their trees, ascending, with their counters.
type Named = Vec<(TreeId, Arc<TableCounters>)>;

/// Counters of the tablets of a store.
#[derive(Debug, Default)]
pub struct TabletMeter {
    named: ArcSwap<Named>,
    other: Arc<TableCounters>,
}

impl TabletMeter {
    /// Lets the tablets of `trees` have counters of their own, the first [`TABLETS_MAX`] of them, and no
    /// others. Tablets that have counters keep them. Calls must take turns.
    pub fn choose(&self, trees: impl IntoIterator<Item = TreeId>) {
        let before = self.named.load();
        let mut chosen: Vec<TreeId> = trees.into_iter().take(TABLETS_MAX).collect();
        chosen.sort_unstable();
        chosen.dedup();
        if chosen.iter().eq(before.iter().map(|(tree, _)| tree)) {
            return;
        }
        let counters = |tree: TreeId| {
            let known = before.iter().find(|(of, _)| *of == tree);
            (tree, known.map(|(_, counters)| Arc::clone(counters)).unwrap_or_default())
        };
        self.named.store(Arc::new(chosen.into_iter().map(counters).collect()));
    }

    /// Returns the tablets that have counters of their own, by their trees.
    pub fn named(&self) -> Vec<(TreeId, Arc<TableCounters>)> {
        self.named.load().to_vec()
    }

    /// Returns the counters of all other tablets, and of requests over several tablets.
    pub fn other(&self) -> &Arc<TableCounters> {
        &self.other
    }

    /// Looks at the counters for a moment.
    pub(crate) fn look(&self) -> TabletLook<'_> {
        TabletLook { named: self.named.load(), other: &self.other }
    }
}

/// A look at the counters of tablets.
pub(crate) struct TabletLook<'a> {
    named: Guard<Arc<Named>>,
    other: &'a TableCounters,
}

impl TabletLook<'_> {
    /// Returns the counters of the tablet of `tree`.
    pub(crate) fn of(&self, tree: TreeId) -> &TableCounters {
        match self.named.binary_search_by_key(&tree, |(tree, _)| *tree) {
            Ok(at) => &self.named[at].1,
            Err(_) => self.other,
        }
    }

    /// Returns the counters of requests over several tablets.
    pub(super) fn of_several(&self) -> &TableCounters {
        self.other
    }

    /// Adds what a request over several tablets read from one of them, or wrote to it.
    pub(crate) fn add(&self, tree: TreeId, volume: Volume) {
        self.of(tree).add(volume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees(meter: &TabletMeter) -> Vec<u32> {
        meter.named().iter().map(|(tree, _)| tree.0).collect()
    }

    #[test]
    fn chosen_tablets_have_counters_until_they_are_not_chosen() {
        let meter = TabletMeter::default();
        let write = |tree| meter.look().add(TreeId(tree), Volume::written(10));
        let rows = |tree| meter.look().of(TreeId(tree)).volume().rows_written;
        write(30);
        assert_eq!((trees(&meter), rows(30), meter.other().volume().rows_written), (vec![], 1, 1));
        meter.choose([30, 20, 30].map(TreeId));
        assert_eq!((trees(&meter), rows(30)), (vec![20, 30], 0), "they begin at 0");
        write(30);
        write(40);
        meter.choose([40, 30].map(TreeId));
        assert_eq!(
            (trees(&meter), rows(30), rows(40)),
            (vec![30, 40], 1, 0),
            "30 keeps its counters"
        );
        meter.choose([TreeId(40)]);
        meter.choose([30, 40].map(TreeId));
        assert_eq!((rows(30), meter.other().volume().rows_written), (0, 2));
    }

    #[test]
    fn the_number_of_tablets_with_counters_is_bounded() {
        let meter = TabletMeter::default();
        meter.choose((0..100).rev().map(TreeId));
        assert_eq!(trees(&meter), (100 - TABLETS_MAX as u32..100).collect::<Vec<_>>());
    }
}
