//! Families of tablets: the trees of the tablets whose rows are used most.
//!
//! Invariants:
//! 1. At most [`LABELLED_MAX`] tablets have series, whatever clients create. A tablet keeps its place while it
//!    is among the [`CANDIDATES`] hottest, or while no hotter one needs the place.
//! 2. No counter falls: a series has the count of the tablet's tree since the server opened it, also when the
//!    tablet had no series for a while.
//! 3. A table with a label and one tablet has no series by tablet: the series of the table tell the same.

use super::Families;
use engine::{Engine, Label, MetricKind, Reading, TreeId};
use std::collections::BTreeSet;
use table::meter::{HotTablet, TableReading};
use table::{Local, TableName};
use tokio::sync::Mutex;

/// Greatest number of tablets with series.
const LABELLED_MAX: usize = 20;
/// Hottest tablets that are looked at.
const CANDIDATES: usize = 3 * LABELLED_MAX;
/// Readings of trees that are told by tablet.
const OF_TABLETS: [&str; 13] = [
    "compacted_bytes_total",
    "compaction_debt_bytes",
    "flushed_bytes_total",
    "level_bytes",
    "level_runs",
    "memtable_bytes",
    "point_disk_bytes_total",
    "point_disk_reads_total",
    "point_reads_total",
    "scans_total",
    "write_slowdowns_total",
    "write_stalls_total",
    "written_bytes_total",
];

/// A tablet that has series of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Labelled {
    tree: TreeId,
    table: TableName,
}

/// The tablets that have series.
#[derive(Default)]
pub(crate) struct HotTablets(Mutex<Vec<Labelled>>);

/// Adds the families of the hottest tablets, besides `named` tables of one tablet. Blocks.
pub(super) fn add(
    store: &Local,
    engine: &Engine,
    named: &[TableReading],
    hot: &HotTablets,
    families: &mut Families,
) {
    let told: BTreeSet<TreeId> =
        named.iter().filter(|one| one.trees.len() == 1).map(|one| one.trees[0]).collect();
    let mut candidates = store.heat().hottest_tablets(CANDIDATES);
    candidates.retain(|one| !told.contains(&one.tree));
    // Scrapes take turns, so the lock is free.
    let mut labelled = hot.0.blocking_lock();
    labelled.retain(|one| !told.contains(&one.tree) && engine.tree(one.tree).is_ok());
    choose(&mut labelled, &candidates);
    for Labelled { tree, table } in labelled.iter() {
        // A tablet that was dropped a moment ago has no readings.
        let Ok(metrics) = engine.tree(*tree).and_then(|tree| tree.metrics()) else { continue };
        for reading in metrics.readings.iter().filter(|one| OF_TABLETS.contains(&one.name)) {
            tell(table.as_str(), *tree, reading, families);
        }
    }
}

/// Gives places to the candidates, which come with the hottest first.
fn choose(labelled: &mut Vec<Labelled>, candidates: &[HotTablet]) {
    for hot in candidates.iter().take(LABELLED_MAX) {
        if labelled.iter().any(|one| one.tree == hot.tree) {
            continue;
        }
        if labelled.len() >= LABELLED_MAX {
            let is_cold =
                |one: &Labelled| candidates.iter().all(|candidate| candidate.tree != one.tree);
            let Some(cold) = labelled.iter().position(is_cold) else { return };
            labelled.remove(cold);
        }
        labelled.push(Labelled { tree: hot.tree, table: hot.table.clone() });
    }
}

fn tell(table: &str, tree: TreeId, reading: &Reading, families: &mut Families) {
    let Reading { name, help, kind, labels, value } = reading;
    let name = format!("stele_tablet_{name}");
    let tablet = tree.0.to_string();
    let mut labels: Vec<(&str, &str)> = labels.iter().map(|(k, v): &Label| (*k, *v)).collect();
    labels.extend([("table", table), ("tablet", tablet.as_str())]);
    let help = format!("{help} Of the hottest tablets, by the number of their trees.");
    match kind {
        MetricKind::Counter => families.counter(&name, &help, &labels, *value as f64),
        MetricKind::Gauge => families.gauge(&name, &help, &labels, *value as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hot(trees: impl IntoIterator<Item = u32>) -> Vec<HotTablet> {
        let table = TableName::new("projects/p/instances/i/tables/t").unwrap();
        let hot =
            |tree| HotTablet { table: table.clone(), tree: TreeId(tree), reads: 1.0, writes: 0.0 };
        trees.into_iter().map(hot).collect()
    }

    fn trees(labelled: &[Labelled]) -> Vec<u32> {
        labelled.iter().map(|one| one.tree.0).collect()
    }

    #[test]
    fn tablets_keep_their_places_until_hotter_ones_need_them() {
        let (most, mut labelled) = (LABELLED_MAX as u32, Vec::new());
        choose(&mut labelled, &hot(0..2));
        choose(&mut labelled, &hot(5..6));
        assert_eq!(trees(&labelled), [0, 1, 5], "cold ones stay while there is room");
        choose(&mut labelled, &hot(10..10 + most - 2));
        assert_eq!(labelled.len(), LABELLED_MAX);
        assert!(!trees(&labelled).contains(&0) && trees(&labelled).contains(&1));
        // Ranks change among hot tablets, and series do not.
        let before = trees(&labelled);
        choose(&mut labelled, &hot(before.iter().rev().copied()));
        assert_eq!(trees(&labelled), before);
        choose(&mut labelled, &hot(100..100 + 3 * most));
        assert_eq!(labelled.len(), LABELLED_MAX);
        assert!(trees(&labelled).iter().all(|tree| (100..100 + most).contains(tree)));
    }
}
