//! The tables that have counters of their own, and the counters of all others.

use super::queues::{Queue, QueueWaits};
use super::{NAMED_MAX, TableCounters, TabletMeter};
use crate::schema::TableName;
use base::histogram::Buckets;
use engine::TreeId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Counters of a store and its tables.
#[derive(Debug)]
pub struct StoreMeter {
    /// Tables that may have counters of their own. Relaxed: guards nothing else.
    named_max: AtomicUsize,
    named: Mutex<BTreeMap<TableName, Arc<TableCounters>>>,
    other: Arc<TableCounters>,
    tablets: TabletMeter,
    queue_waits: QueueWaits,
}

/// A table with counters of its own.
#[derive(Debug, Clone)]
pub struct TableReading {
    pub table: TableName,
    /// Trees of the table, one for each tablet that is here.
    pub trees: Vec<TreeId>,
    /// Number of its tablets, which other nodes of a cluster may have.
    pub tablets: usize,
    pub counters: Arc<TableCounters>,
}

impl Default for StoreMeter {
    fn default() -> Self {
        Self {
            named_max: AtomicUsize::new(NAMED_MAX),
            named: Mutex::default(),
            other: Arc::default(),
            tablets: TabletMeter::default(),
            queue_waits: QueueWaits::default(),
        }
    }
}

impl StoreMeter {
    /// Lets so many tables have counters of their own. Tables that have them keep them.
    pub(crate) fn set_named_max(&self, named_max: usize) {
        self.named_max.store(named_max, Ordering::Relaxed);
    }

    /// Returns the counters of all tables that have none of their own.
    pub fn other(&self) -> &Arc<TableCounters> {
        &self.other
    }

    /// Returns the tables that have counters of their own.
    pub(crate) fn named(&self) -> Vec<(TableName, Arc<TableCounters>)> {
        let named = self.named.lock();
        named.iter().map(|(name, counters)| (name.clone(), Arc::clone(counters))).collect()
    }

    /// Returns the counters of tablets.
    pub fn tablets(&self) -> &TabletMeter {
        &self.tablets
    }

    /// Returns the waits of calls for a place, in microseconds, by queue.
    pub fn queue_waits(&self) -> impl Iterator<Item = (Queue, Buckets)> + '_ {
        self.queue_waits.read()
    }

    /// Counts the wait of a call for its place.
    pub(crate) fn waited(&self, queue: Queue, waited: Duration) {
        self.queue_waits.record(queue, waited);
    }

    /// Returns counters for a table that had its first request: its own, if one more may have them.
    fn admit(&self, table: &TableName) -> Arc<TableCounters> {
        let mut named = self.named.lock();
        let is_known = named.contains_key(table);
        if !is_known && named.len() >= self.named_max.load(Ordering::Relaxed) {
            return Arc::clone(&self.other);
        }
        // A table of this name that was deleted, and is still being read, loses its place.
        let counters = Arc::<TableCounters>::default();
        named.insert(table.clone(), Arc::clone(&counters));
        counters
    }

    fn release(&self, table: &TableName, counters: &Arc<TableCounters>) {
        let mut named = self.named.lock();
        if named.get(table).is_some_and(|known| Arc::ptr_eq(known, counters)) {
            named.remove(table);
        }
    }
}

/// The place of a table in the meter, kept over schema changes.
#[derive(Debug)]
pub(crate) struct TableMeter {
    table: TableName,
    meter: Arc<StoreMeter>,
    /// Set by the first request.
    counters: OnceLock<Arc<TableCounters>>,
}

impl TableMeter {
    pub(crate) fn new(table: TableName, meter: &Arc<StoreMeter>) -> Self {
        Self { table, meter: Arc::clone(meter), counters: OnceLock::new() }
    }

    /// Returns whether the table had a request, and `counters` are its own.
    pub(crate) fn has(&self, counters: &Arc<TableCounters>) -> bool {
        self.counters.get().is_some_and(|own| Arc::ptr_eq(own, counters))
    }

    /// Returns whether the table shares its counters with all that have none of their own.
    pub(crate) fn is_other(&self) -> bool {
        Arc::ptr_eq(self.counters(), &self.meter.other)
    }

    /// Returns the counters of the tablets of all tables.
    pub(crate) fn tablets(&self) -> &TabletMeter {
        &self.meter.tablets
    }

    /// Returns the counters of the table.
    pub(super) fn counters(&self) -> &Arc<TableCounters> {
        self.counters.get_or_init(|| self.meter.admit(&self.table))
    }
}

impl Drop for TableMeter {
    fn drop(&mut self) {
        if let Some(counters) = self.counters.get() {
            self.meter.release(&self.table, counters);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(table: &str) -> TableName {
        TableName::new(table).unwrap()
    }

    #[test]
    fn tables_get_counters_of_their_own_in_the_order_of_their_first_requests() {
        let meter = Arc::new(StoreMeter::default());
        meter.set_named_max(2);
        let [a, b, c] = ["a", "b", "c"].map(|table| TableMeter::new(name(table), &meter));
        let (of_c, of_a) = (Arc::clone(c.counters()), Arc::clone(a.counters()));
        assert!(Arc::ptr_eq(b.counters(), meter.other()) && !Arc::ptr_eq(&of_a, meter.other()));
        let names = || meter.named().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(), ["a", "c"].map(name));
        assert!(Arc::ptr_eq(c.counters(), &of_c), "a table keeps what it has");
        // A table of the same name takes the place of one that is still being read.
        let again = TableMeter::new(name("a"), &meter);
        let of_again = Arc::clone(again.counters());
        drop(a);
        assert_eq!(names(), ["a", "c"].map(name));
        assert!(Arc::ptr_eq(&meter.named()[0].1, &of_again));
        drop((again, c));
        assert!(names().is_empty(), "deleted tables leave their places");
        assert!(Arc::ptr_eq(b.counters(), meter.other()), "counters never move");
    }

    #[test]
    fn a_meter_may_name_no_table() {
        let meter = Arc::new(StoreMeter::default());
        meter.set_named_max(0);
        let table = TableMeter::new(name("a"), &meter);
        assert!(Arc::ptr_eq(table.counters(), meter.other()));
        assert!(meter.named().is_empty());
    }
}
