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
use engine::{Engine, Label, MetricKind, Reading, TreeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use table::meter::{StoreMeter, TableCounters, TableReading, Volume};
use table::{Local, TableName};
use tokio::sync::Mutex;

/// Label of all tables without one of their own.
const OTHER: &str = "other";
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

/// Adds the families of tables. Blocks.
pub(super) fn add(store: &Local, engine: &Engine, shares: &Shares, families: &mut Families) {
    let named = store.named_tables();
    for TableReading { table, counters, .. } in &named {
        add_requests(table.as_str(), counters, families);
    }
    add_requests(OTHER, store.meter().other(), families);
    add_waits(store.meter(), families);
    // Scrapes take turns, so the lock is free.
    shares.0.blocking_lock().add(&named, engine, families);
}

/// Adds the requests of a table.
fn add_requests(table: &str, counters: &TableCounters, families: &mut Families) {
    for (operation, outcome, buckets) in counters.latency() {
        families.histogram(
            "stele_table_request_seconds",
            "Latency of requests to a table until the last row was taken, by operation and result: ok, \
             refused (the request breaks a rule), busy (no room; it may be tried again), failed, or \
             cancelled by the client.",
            &[("operation", operation.label()), ("result", outcome.label()), ("table", table)],
            &buckets,
            MICROS_PER_SECOND,
        );
    }
    let Volume { rows_read, read_bytes, rows_written, written_bytes } = counters.volume();
    for (direction, rows, bytes) in
        [("read", rows_read, read_bytes), ("written", rows_written, written_bytes)]
    {
        let labels = [("direction", direction), ("table", table)];
        let help = "Rows that requests read from a table, or wrote to it.";
        families.counter("stele_table_rows_total", help, &labels, rows as f64);
        let help = "Bytes of keys and values that requests read from a table, or wrote to it.";
        families.counter("stele_table_bytes_total", help, &labels, bytes as f64);
    }
}

/// Adds the waits of reads for a place on a thread.
fn add_waits(meter: &StoreMeter, families: &mut Families) {
    for (class, waits) in ["short", "long"].into_iter().zip(meter.place_waits()) {
        let help = "Time that reads of ranges, or of rows that are not in memory, waited for a thread, by \
                    class: short for the first step of a read, long for later ones.";
        let labels = [("class", class)];
        families.histogram("stele_read_wait_seconds", help, &labels, &waits, MICROS_PER_SECOND);
    }
}

impl Told {
    fn add(&mut self, named: &[TableReading], engine: &Engine, families: &mut Families) {
        self.forget_others_than(named);
        let (mut labelled, mut all_there) = (BTreeSet::new(), true);
        for TableReading { table, trees, counters } in named {
            let Some(readings) = sum_of(engine, trees) else {
                all_there = false;
                continue;
            };
            labelled.extend(trees.iter().copied());
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
        let readings = engine.metrics_of_others(&labelled).readings;
        let mut other = numbers(&readings);
        for (at, number) in other.iter_mut().enumerate() {
            let before: u64 = self.named.values().map(|share| share.before[at]).sum();
            let gone = self.gone.get(at).copied().unwrap_or(0);
            *number = (*number + before).saturating_sub(gone);
        }
        // A table that is dropped meanwhile may be counted twice. The next scrape knows.
        if all_there && labelled.iter().all(|tree| engine.tree(*tree).is_ok()) {
            self.other = rising(&self.other, other);
        } else {
            self.other.resize(readings.len(), 0);
        }
        tell(OTHER, &readings, &self.other, families);
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

/// Returns the readings of a table's trees, summed; `None` if one of them is being dropped.
fn sum_of(engine: &Engine, trees: &[TreeId]) -> Option<Vec<Reading>> {
    let mut sum: Option<Vec<Reading>> = None;
    for tree in trees {
        let readings = engine.tree(*tree).and_then(|tree| tree.metrics()).ok()?.readings;
        match &mut sum {
            None => sum = Some(readings),
            Some(sum) => {
                sum.iter_mut().zip(readings).for_each(|(sum, one)| sum.value += one.value);
            }
        }
    }
    sum
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
