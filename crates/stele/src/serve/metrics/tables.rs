//! Families of tables: requests, and the trees of tables.
//!
//! Invariants:
//! 1. A label `table` has the names of a bounded number of tables (`table::meter`). All others are summed
//!    as `other`, which is the name of no table.
//! 2. No counter falls, also when a table gets its label, or is dropped. The counts that a table has when
//!    it gets its label stay with `other` for good, and the series of the table begin at 0. What was told
//!    under the label of a table that is gone is not told again under `other`.

use super::Families;
use super::families::MICROS_PER_SECOND;
use super::of_requests::{self, Scope};
use engine::{Engine, GroupedMetrics, Label, MetricKind, Metrics, QUEUE_WAIT_HELP, Reading};
use std::collections::BTreeMap;
use std::sync::Arc;
use table::meter::{StoreMeter, TableCounters, TableReading};
use table::{Local, TableName};
use tokio::sync::Mutex;

/// Label of all tables without one of their own.
pub(super) const OTHER: &str = "other";
/// Readings of trees that are told of the whole store only.
const NOT_OF_TABLES: [&str; 5] = [
    "deferred_sst_bytes",
    "deferred_ssts",
    "filtered_trees",
    "point_blocks_batched_total",
    "point_blocks_fetched_total",
];

/// The counters of trees as tables tell them.
#[derive(Default)]
pub(crate) struct Shares(Mutex<Told>);

/// Numbers in the order of the readings of a tree.
type Numbers = Vec<u64>;

#[derive(Default)]
struct Told {
    named: BTreeMap<TableName, Share>,
    /// Told under labels of tables that are gone.
    gone: Numbers,
    /// Told of all other tables.
    other: Numbers,
}

/// The part of a table.
struct Share {
    /// The table of this name is another one if they are others.
    counters: Arc<TableCounters>,
    /// Counts from before the table had its label.
    before: Numbers,
    told: Numbers,
}

/// Adds the families of the `named` tables and of all others. Returns the readings of the whole engine, which come from the same walk
/// over all trees. Blocks.
pub(super) fn add(
    store: &Local,
    engine: &Engine,
    named: &[TableReading],
    shares: &Shares,
    families: &mut Families,
) -> Metrics {
    for TableReading { table, counters, .. } in named {
        of_requests::add(Scope::Table(table.as_str()), counters, families);
    }
    of_requests::add(Scope::Table(OTHER), store.meter().other(), families);
    add_waits(store.meter(), families);
    // Scrapes take turns, so the lock is free.
    let mut told = shares.0.blocking_lock();
    let groups: Vec<_> = named.iter().map(|one| one.trees.clone()).collect();
    let GroupedMetrics { all, groups, others } = engine.metrics_by_groups(&groups);
    told.add(named, groups, others.readings, families);
    all
}

/// Adds the waits of calls for a place among the blocking ones.
fn add_waits(meter: &StoreMeter, families: &mut Families) {
    for (queue, waits) in meter.queue_waits() {
        families.histogram(
            "stele_queue_wait_seconds",
            QUEUE_WAIT_HELP,
            &[("queue", queue.label())],
            &waits,
            MICROS_PER_SECOND,
        );
    }
}

impl Told {
    /// Adds the readings of the trees of each table of `named`, and of all others.
    fn add(
        &mut self,
        named: &[TableReading],
        of_tables: Vec<Option<Metrics>>,
        others: Vec<Reading>,
        families: &mut Families,
    ) {
        self.forget_others_than(named);
        let all_there = of_tables.iter().all(Option::is_some);
        for (TableReading { table, counters, .. }, readings) in named.iter().zip(of_tables) {
            let Some(Metrics { readings, .. }) = readings else { continue };
            let share = self.named.entry(table.clone()).or_insert_with(|| Share {
                counters: Arc::clone(counters),
                before: numbers(&readings),
                told: Vec::new(),
            });
            let since = numbers(&readings).into_iter().zip(&share.before);
            let since = since.map(|(now, before)| now.saturating_sub(*before)).collect();
            share.told = rising(&share.told, since);
            tell(table.as_str(), &readings, &share.told, families);
        }
        let mut other = numbers(&others);
        for (at, number) in other.iter_mut().enumerate() {
            let before: u64 = self.named.values().map(|share| share.before[at]).sum();
            let gone = self.gone.get(at).copied().unwrap_or(0);
            *number = (*number + before).saturating_sub(gone);
        }
        // Some trees of a table that is being dropped count among the others. The next scrape knows.
        if all_there {
            self.other = rising(&self.other, other);
        } else {
            self.other.resize(others.len(), 0);
        }
        tell(OTHER, &others, &self.other, families);
    }

    /// Forgets tables that have no label any more.
    fn forget_others_than(&mut self, named: &[TableReading]) {
        let has_label = |table: &TableName, share: &Share| {
            named
                .iter()
                .any(|one| one.table == *table && Arc::ptr_eq(&one.counters, &share.counters))
        };
        for (_, share) in self.named.extract_if(.., |table, share| !has_label(table, share)) {
            self.gone.resize(share.told.len(), 0);
            for (gone, told) in self.gone.iter_mut().zip(share.told) {
                *gone += told;
            }
        }
    }
}

fn numbers(readings: &[Reading]) -> Numbers {
    readings.iter().map(|reading| reading.value).collect()
}

/// Returns the numbers of `now`, where none is below that of `before`.
fn rising(before: &[u64], now: Numbers) -> Numbers {
    let before = before.iter().copied().chain(std::iter::repeat(0));
    now.into_iter().zip(before).map(|(now, before)| now.max(before)).collect()
}

/// Adds the readings of a table's trees. Counters have the value of `counted`.
fn tell(table: &str, readings: &[Reading], counted: &[u64], families: &mut Families) {
    for (reading, counted) in readings.iter().zip(counted) {
        let Reading { name, help, kind, labels, value } = reading;
        if NOT_OF_TABLES.contains(name) {
            continue;
        }
        let name = format!("stele_table_{name}");
        let mut labels: Vec<(&str, &str)> = labels.iter().map(|(k, v): &Label| (*k, *v)).collect();
        labels.push(("table", table));
        labels.sort_unstable();
        let help = format!("{} By table.", help);
        match kind {
            MetricKind::Counter => families.counter(&name, &help, &labels, *counted as f64),
            MetricKind::Gauge => families.gauge(&name, &help, &labels, *value as f64),
        }
    }
}

#[cfg(test)]
mod tests;
