//! The counters of a store and its tables, for metrics.

use super::meta::trees_of;
use super::{Core, Local, Table};
use crate::meter::{EntryBytes, Heat, Operation, StoreMeter, TableReading, Timed, Use, Within};
use crate::mutate::RowMutations;
use crate::schema::TableSchema;
use engine::{RowRange, TreeId, perf_context};
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
            let schema = &found?.schema;
            let (trees, tablets) = (self.core.trees_here(schema), schema.tablets.len());
            Some(TableReading { table, trees, tablets, counters })
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
    /// Begins to time a request about so many `keys`, of which `key` is the first. All rows of the request are
    /// in the tablet of `tree`, or it is not known so far that they are.
    pub(super) fn time(
        &self,
        table: &Table,
        operation: Operation,
        tree: Option<TreeId>,
        (key, keys): (&[u8], usize),
    ) -> Timed {
        perf_context::about(|| table.schema.name.as_str(), key, keys);
        let within = match tree {
            _ if table.tells_all() => Within::Table,
            Some(tree) => Within::Tablet(tree),
            None => Within::Tablets,
        };
        Timed::begin(&table.kept.meter, within, operation, &self.clock)
    }

    /// Counts the use of a row that is written, which lies in `tree`.
    pub(super) fn writes(&self, table: &Table, tree: TreeId, row: &[u8]) {
        self.heat.used(&table.schema.name, tree, Use::Write, row);
    }

    /// Counts the uses of rows that are written. Returns the tablet and the size of each.
    pub(super) fn writes_all<'a>(
        &self,
        table: &Table,
        rows: impl Iterator<Item = &'a RowMutations>,
    ) -> Vec<EntryBytes> {
        let entry = |row: &RowMutations| {
            let (tree, bytes) = (table.tree_of(&row.row), Some(row.batch_bytes()));
            self.writes(table, tree, &row.row);
            EntryBytes { tree, bytes }
        };
        rows.map(entry).collect()
    }

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

impl Table {
    /// Returns whether the counters of the table tell all of its only tablet.
    fn tells_all(&self) -> bool {
        self.schema.tablets.len() == 1 && !self.kept.meter.is_other()
    }

    /// Returns the tree of the tablet that has all rows of `ranges`, which are sorted and disjoint; `None` if
    /// several tablets have them, or there is no range.
    pub(super) fn tree_of_all(&self, ranges: &[RowRange]) -> Option<TreeId> {
        let (first, last) = (ranges.first()?, ranges.last()?);
        let at = self.schema.tablet_of(&first.start);
        let is_within =
            self.schema.tablets.get(at + 1).is_none_or(|next| {
                last.end.as_deref().is_some_and(|end| end <= next.start.as_ref())
            });
        is_within.then(|| self.schema.tablets[at].tree)
    }
}

/// Returns the tree of the tablet that has all `entries`; `None` if several tablets have them.
pub(super) fn tree_of_entries(entries: &[EntryBytes]) -> Option<TreeId> {
    let first = entries.first()?.tree;
    entries.iter().all(|entry| entry.tree == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::ALONE;
    use crate::local::table::KeptState;
    use crate::schema::{TableName, Tablet};
    use crate::shape::Shape;

    /// Returns a table whose tablets begin at these rows, with the trees 100, 101 and so on.
    fn table(starts: &[&'static str]) -> Table {
        let tablet = |(at, start): (usize, &&'static str)| Tablet {
            start: (*start).into(),
            tree: TreeId(100 + at as u32),
        };
        let schema = TableSchema {
            name: TableName::new("p/t").unwrap(),
            families: Default::default(),
            next_family: 1,
            tablets: starts.iter().enumerate().map(tablet).collect(),
            deletion_protection: false,
            created_micros: 0,
            granularity: Default::default(),
            row_key_schema: None,
        };
        let kept = KeptState::new(&schema.name, &Arc::default(), &Shape::DEFAULT);
        Table::new(schema, ALONE, kept)
    }

    fn range(start: &str, end: Option<&str>) -> RowRange {
        RowRange { start: start.into(), end: end.map(Into::into) }
    }

    #[test]
    fn the_tablet_of_all_ranges_is_found() {
        let table = table(&["", "g", "m"]);
        let rows = |keys: [&str; 2]| keys.map(|key| RowRange::single(key.as_bytes())).to_vec();
        for (case, ranges, want) in [
            ("nothing", vec![], None),
            ("everything", vec![RowRange::ALL], None),
            ("up to the next tablet", vec![range("", Some("g"))], Some(100)),
            ("one row more", vec![range("", Some("g\0"))], None),
            ("two rows of a tablet", rows(["g", "h"]), Some(101)),
            ("rows of two tablets", rows(["h", "m"]), None),
            ("to the end", vec![range("m", Some("n")), range("x", None)], Some(102)),
        ] {
            assert_eq!(table.tree_of_all(&ranges), want.map(TreeId), "{case}");
        }
    }

    #[test]
    fn the_tablet_of_all_entries_is_found() {
        let entry = |tree| EntryBytes { tree: TreeId(tree), bytes: None };
        assert_eq!(tree_of_entries(&[]), None);
        assert_eq!(tree_of_entries(&[7, 7].map(entry)), Some(TreeId(7)));
        assert_eq!(tree_of_entries(&[7, 8].map(entry)), None);
    }
}
