//! Families of tablets: requests and trees of the tablets whose rows are used most.
//!
//! Invariants:
//! 1. At most [`TABLETS_MAX`] tablets have series, whatever clients create. A tablet keeps its place while it
//!    is among the [`CANDIDATES`] hottest, or while no hotter one needs the place.
//! 2. No counter of a tree falls: its series has the count since the server opened the tree, also when the
//!    tablet had no series for a while. The series of requests begin at 0 whenever the tablet gets a place
//!    (`table::meter`); until then its requests are told under `other`, where they stay.
//! 3. A table with a label and one tablet has no series by tablet: the series of the table tell the same.

use super::Families;
use super::of_requests::{self, Scope};
use super::tables::OTHER;
use engine::{Engine, Label, MetricKind, Reading, TreeId};
use std::collections::BTreeSet;
use table::meter::{HotTablet, TABLETS_MAX, TableReading};
use table::{Local, TableName};
use tokio::sync::Mutex;

/// Hottest tablets that are looked at.
const CANDIDATES: usize = 3 * TABLETS_MAX;
/// Readings of trees that are told by tablet.
const OF_TABLETS: [&str; 16] = [
    "compacted_bytes_total",
    "compaction_debt_bytes",
    "filter_checks_total",
    "filter_false_positives_total",
    "flushed_bytes_total",
    "level_bytes",
    "level_runs",
    "memtable_bytes",
    "point_disk_bytes_total",
    "point_disk_reads_total",
    "point_reads_merged_total",
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
    let of_one_tablet = named.iter().filter(|one| one.tablets == 1);
    let told: BTreeSet<TreeId> = of_one_tablet.flat_map(|one| one.trees.iter().copied()).collect();
    let mut candidates = store.heat().hottest_tablets(CANDIDATES);
    candidates.retain(|one| !told.contains(&one.tree));
    // Scrapes take turns, so the lock is free.
    let mut labelled = hot.0.blocking_lock();
    labelled.retain(|one| !told.contains(&one.tree) && engine.tree(one.tree).is_ok());
    choose(&mut labelled, &candidates);
    add_requests(store, &labelled, families);
    for Labelled { tree, table } in labelled.iter() {
        // A tablet that was dropped a moment ago has no readings.
        let Ok(metrics) = engine.tree(*tree).and_then(|tree| tree.metrics()) else { continue };
        for reading in metrics.readings.iter().filter(|one| OF_TABLETS.contains(&one.name)) {
            tell(table.as_str(), *tree, reading, families);
        }
    }
}

/// Adds the requests of the tablets that have places, which are counted apart from now on, and of all others.
fn add_requests(store: &Local, labelled: &[Labelled], families: &mut Families) {
    let meter = store.meter().tablets();
    meter.choose(labelled.iter().map(|one| one.tree));
    for (tree, counters) in meter.named() {
        let Some(one) = labelled.iter().find(|one| one.tree == tree) else { continue };
        let tablet = tree.0.to_string();
        of_requests::add(Scope::Tablet(one.table.as_str(), &tablet), &counters, families);
    }
    of_requests::add(Scope::Tablet(OTHER, OTHER), meter.other(), families);
}

/// Gives places to the candidates, which come with the hottest first.
fn choose(labelled: &mut Vec<Labelled>, candidates: &[HotTablet]) {
    for hot in candidates.iter().take(TABLETS_MAX) {
        if labelled.iter().any(|one| one.tree == hot.tree) {
            continue;
        }
        if labelled.len() >= TABLETS_MAX {
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
mod tests;
