//! The counters of a store and its tables, for metrics.

use super::meta::trees_of;
use super::{Core, Local};
use crate::meter::{Heat, StoreMeter, TableReading};
use crate::schema::TableSchema;
use engine::TreeId;
use std::sync::Arc;

impl Local {
    /// Returns the counters of the store.
    pub fn meter(&self) -> &Arc<StoreMeter> {
        &self.core.meter
    }

    /// Returns the samples of the rows that requests use.
    pub fn heat(&self) -> &Heat {
        &self.core.heat
    }

    /// The same tables, of whose rows no samples are taken.
    pub fn without_heat(self) -> Self {
        self.core.heat.turn_off();
        self
    }

    /// Returns the tables that have counters of their own, with the trees that this node has of them.
    pub fn named_tables(&self) -> Vec<TableReading> {
        let named = self.core.meter.named();
        let tables = self.core.tables.read();
        let reading = |(table, counters)| {
            // The counters may be of a deleted table of this name that is still being read.
            let found = tables.get(&table).filter(|found| found.kept.meter.has(&counters));
            let trees = self.core.trees_here(&found?.schema);
            Some(TableReading { table, trees, counters })
        };
        named.into_iter().filter_map(reading).collect()
    }

    /// The same tables, of which so many may have counters of their own.
    pub fn with_named_tables_max(self, named_max: usize) -> Self {
        self.core.meter.set_named_max(named_max);
        self
    }
}

impl Core {
    /// Returns the trees of a table. In a cluster other nodes may have some of them, which are left out; a tree that
    /// goes is not.
    fn trees_here(&self, schema: &TableSchema) -> Vec<TreeId> {
        let mut trees = trees_of(schema);
        if self.replicated().is_some() {
            trees.retain(|tree| self.engine.tree(*tree).is_ok());
        }
        trees
    }
}
