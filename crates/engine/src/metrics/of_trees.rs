//! Readings of trees: of one, and of many as a sum.

use super::reading::{Gathered, Label};
use crate::cell::TreeId;
use crate::manifest::state::version::LEVELS;
use crate::options::{FilterGranularity, Options};
use crate::state::Shared;
use crate::tree::TreeState;
use crate::tree::counts::{TREE_COUNTS, TreeCounts};
use crate::write::pressure::{Backlog, debt_bytes};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Trees that are taken from the map of trees at once. A reader that needs the map meanwhile waits for
/// some microseconds.
const TREES_AT_ONCE: usize = 256;

/// The sum of the counters and gauges of some trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TreeSums {
    pub(super) trees: u64,
    pub(super) counts: TreeCounts,
    pub(super) failing: u64,
    pub(super) granularities: [u64; 3],
    pub(super) memtable_bytes: u64,
    pub(super) deferred_ssts: u64,
    pub(super) deferred_bytes: u64,
    pub(super) level_runs: [u64; LEVELS],
    pub(super) level_bytes: [u64; LEVELS],
    pub(super) debt_bytes: u64,
}

impl TreeSums {
    /// Adds a tree to the sums.
    pub(super) fn add(&mut self, tree: &TreeState, options: &Options) {
        let view = tree.view();
        self.trees += 1;
        self.count(&tree.counts());
        self.failing += u64::from(tree.work.lock().is_failing());
        self.granularities[tree.granularity() as usize] += 1;
        self.memtable_bytes += view.memtable_bytes() as u64;
        for sst in view.ssts().filter(|sst| sst.properties().deferred.is_any()) {
            self.deferred_ssts += 1;
            self.deferred_bytes += sst.bytes();
        }
        let levels = &view.version.levels;
        let bytes: [u64; LEVELS] =
            std::array::from_fn(|level| levels[level].iter().map(|run| run.bytes()).sum());
        for (level, runs) in levels.iter().enumerate() {
            self.level_runs[level] += runs.len() as u64;
            self.level_bytes[level] += bytes[level];
        }
        let backlog = Backlog {
            l0_runs: levels[0].len() as u64,
            l1_bytes: view.l1_bytes,
            last_bytes: view.last_bytes,
            ..Backlog::default()
        };
        self.debt_bytes += debt_bytes(&backlog, bytes[0], options);
    }

    /// Adds the sums over other trees.
    pub(super) fn merge(&mut self, other: &Self) {
        self.trees += other.trees;
        self.count(&other.counts);
        self.failing += other.failing;
        self.memtable_bytes += other.memtable_bytes;
        self.deferred_ssts += other.deferred_ssts;
        self.deferred_bytes += other.deferred_bytes;
        self.debt_bytes += other.debt_bytes;
        for (sums, others) in [
            (&mut self.granularities, &other.granularities),
            (&mut self.level_runs, &other.level_runs),
            (&mut self.level_bytes, &other.level_bytes),
        ] {
            sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        }
    }

    /// Adds counters without the gauges of a tree.
    pub(super) fn count(&mut self, counts: &TreeCounts) {
        for (sum, count) in self.counts.iter_mut().zip(counts) {
            *sum = sum.wrapping_add(*count);
        }
    }

    /// Adds the sums to the readings.
    pub(super) fn tell(&self, gathered: &mut Gathered) {
        for (Counter { name, help, labels }, value) in COUNTERS.iter().zip(self.counts) {
            gathered.labelled(name, help, labels, value);
        }
        gathered.gauge(
            "trees_failing",
            "Trees whose last flush or compaction failed.",
            self.failing,
        );
        for granularity in FilterGranularity::ALL {
            let help = "Trees whose next SSTables get filters of this granularity.";
            let labels = [("granularity", granularity_name(granularity))];
            let count = self.granularities[granularity as usize];
            gathered.labelled("filtered_trees", help, &labels, count);
        }
        gathered.gauge("memtable_bytes", "Bytes in memtables.", self.memtable_bytes);
        let help = "SSTables with deferred compression or filters.";
        gathered.gauge("deferred_ssts", help, self.deferred_ssts);
        let help = "Bytes of SSTables with deferred compression or filters.";
        gathered.gauge("deferred_sst_bytes", help, self.deferred_bytes);
        for (level, runs) in LEVEL_NAMES.iter().zip(self.level_runs) {
            gathered.labelled(
                "level_runs",
                "Sorted runs of this level.",
                &[("level", level)],
                runs,
            );
        }
        for (level, bytes) in LEVEL_NAMES.iter().zip(self.level_bytes) {
            let help = "Bytes of SSTables of this level.";
            gathered.labelled("level_bytes", help, &[("level", level)], bytes);
        }
        let help = "Bytes that compactions are behind with: of level 0 once it is to be compacted, and \
                    of level 1 above its target.";
        gathered.gauge("compaction_debt_bytes", help, self.debt_bytes);
    }
}

/// Values of the label `level`.
const LEVEL_NAMES: [&str; LEVELS] = ["0", "1", "2"];

fn granularity_name(granularity: FilterGranularity) -> &'static str {
    match granularity {
        FilterGranularity::Row => "row",
        FilterGranularity::Family => "family",
        FilterGranularity::Column => "column",
    }
}

/// A counter of a tree as it is told.
struct Counter {
    name: &'static str,
    help: &'static str,
    labels: &'static [Label],
}

const fn plain(name: &'static str, help: &'static str) -> Counter {
    Counter { name, help, labels: &[] }
}

const fn checked(labels: &'static [Label]) -> Counter {
    let help = "Filter checks by reads, by the kind of question and the result: useful if the check \
                avoided reading a file, passed if not.";
    Counter { name: "filter_checks_total", help, labels }
}

const fn wrong(labels: &'static [Label]) -> Counter {
    let help = "Passed filter checks of files that turned out to have nothing that was asked for.";
    Counter { name: "filter_false_positives_total", help, labels }
}

/// The counters in the order of [`TreeCounts`].
const COUNTERS: [Counter; TREE_COUNTS] = [
    plain("point_reads_total", "Reads of a column or a row."),
    plain("point_reads_merged_total", "Point reads that merged several sources."),
    plain("point_blocks_fetched_total", "Blocks that point reads loaded."),
    plain("point_disk_reads_total", "Blocks that point reads read from disk."),
    plain("point_disk_bytes_total", "Bytes that point reads read from disk."),
    plain("point_blocks_batched_total", "Blocks that point reads loaded in parallel."),
    plain("scans_total", "Scans of one or more rows."),
    checked(&[("granularity", "row"), ("result", "passed")]),
    checked(&[("granularity", "row"), ("result", "useful")]),
    wrong(&[("granularity", "row")]),
    checked(&[("granularity", "family"), ("result", "passed")]),
    checked(&[("granularity", "family"), ("result", "useful")]),
    wrong(&[("granularity", "family")]),
    checked(&[("granularity", "column"), ("result", "passed")]),
    checked(&[("granularity", "column"), ("result", "useful")]),
    wrong(&[("granularity", "column")]),
    checked(&[("granularity", "prefix"), ("result", "passed")]),
    checked(&[("granularity", "prefix"), ("result", "useful")]),
    wrong(&[("granularity", "prefix")]),
    plain(
        "written_bytes_total",
        "Bytes of write batches that were committed since the engine was opened.",
    ),
    plain("flushed_bytes_total", "Bytes written by flushes."),
    plain("compacted_bytes_total", "Bytes written by compactions."),
    plain("write_stalls_total", "Writes that stopped until background work had made room."),
    plain("write_slowdowns_total", "Writes that were slowed down."),
];

/// Calls `each` with every tree. Holds the lock of the trees for a few of them at a time, and none while
/// `each` runs.
pub(super) fn for_each_tree(shared: &Shared, mut each: impl FnMut(&Arc<TreeState>)) {
    let mut after: Bound<TreeId> = Bound::Unbounded;
    loop {
        let part: Vec<Arc<TreeState>> = {
            let trees = shared.trees.read();
            let rest = trees.range((after, Bound::Unbounded));
            rest.take(TREES_AT_ONCE).map(|(_, tree)| Arc::clone(tree)).collect()
        };
        let Some(last) = part.last() else { return };
        after = Bound::Excluded(last.id);
        part.iter().for_each(&mut each);
    }
}

/// Sums over all trees, from one walk.
pub(super) struct GroupedSums {
    /// The sum over all trees. No counter of it ever falls.
    pub(super) all: TreeSums,
    /// The sum over each group of trees.
    pub(super) groups: Vec<TreeSums>,
    /// The sum over the trees of no group, and the counters of dropped trees.
    pub(super) others: TreeSums,
}

/// Returns the sums over all trees and over groups of trees, which have no tree in common.
pub(super) fn of_groups(shared: &Shared, groups: &[Vec<TreeId>]) -> GroupedSums {
    let of = |(group, trees): (usize, &Vec<TreeId>)| {
        trees.iter().map(|tree| (*tree, group)).collect::<Vec<_>>()
    };
    let group_of: BTreeMap<TreeId, usize> = groups.iter().enumerate().flat_map(of).collect();
    let mut groups = vec![TreeSums::default(); groups.len()];
    let mut others = TreeSums::default();
    // Before the trees: a tree that is dropped meanwhile is missing and not counted twice.
    others.count(&shared.past_trees.read());
    for_each_tree(shared, |tree| {
        let sums = group_of.get(&tree.id).map_or(&mut others, |group| &mut groups[*group]);
        sums.add(tree, &shared.options);
    });
    let mut all = others.clone();
    groups.iter().for_each(|group| all.merge(group));
    all.counts = shared.past_trees.rising(all.counts);
    GroupedSums { all, groups, others }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::point_counters::PointCount;
    use crate::counters::tree_counters::WorkCount;
    use crate::sstable::{Asked, FilterCounters, FilterQuery};

    /// The counters of a tree are told by their place in an array.
    #[test]
    fn each_counter_has_its_own_name() {
        assert_eq!(COUNTERS[PointCount::DiskReads as usize].name, "point_disk_reads_total");
        assert_eq!(COUNTERS[PointCount::Batched as usize].name, "point_blocks_batched_total");
        assert_eq!(COUNTERS[PointCount::Scans as usize].name, "scans_total");
        let filters = FilterCounters::default();
        filters.wrong_of_prefix();
        let query = FilterQuery::row(b"row");
        filters.probed(&[query], 5, 2);
        let first = PointCount::Scans as usize + 1;
        for (at, count) in filters.counts().into_iter().enumerate().filter(|(_, count)| *count > 0)
        {
            let Counter { name, labels, .. } = &COUNTERS[first + at];
            let told = (*name, labels[0].1, labels.get(1).map(|label| label.1), count);
            assert!(
                [
                    ("filter_checks_total", "row", Some("passed"), 3),
                    ("filter_checks_total", "row", Some("useful"), 2),
                    ("filter_false_positives_total", "prefix", None, 1),
                ]
                .contains(&told),
                "{told:?}"
            );
        }
        assert_eq!(Asked::ALL.map(|asked| asked as usize), [0, 1, 2, 3]);
        let work = TREE_COUNTS - WorkCount::Slowdowns as usize - 1;
        assert_eq!(COUNTERS[work + WorkCount::WrittenBytes as usize].name, "written_bytes_total");
        assert_eq!(COUNTERS[work + WorkCount::Stalls as usize].name, "write_stalls_total");
    }
}
