//! Rows that reference rows of another table by a foreign key.
//!
//! They are found by an index, or the primary key, whose first columns are the foreign key's in any order. Without one
//! the whole table is scanned, once for all keys.

use super::scan::{CancelFlag, KeyRange, RowScan, ScanSpec};
use super::view::View;
use crate::Row;
use crate::catalog::{ForeignKey, IndexPart, Table};
use crate::error::Result;
use crate::types::{Oid, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// A search for rows that reference one of some keys, read batch by batch. Its calls block.
#[derive(Debug)]
pub struct ReferencingScan {
    table: Arc<Table>,
    view: View,
    /// Places of the referencing columns in a row.
    places: Vec<usize>,
    /// The wanted values at these places.
    wanted: HashSet<Vec<Value>>,
    /// The index that is read, with the places of its first values among the foreign key's.
    index: Option<(Oid, Vec<usize>)>,
    /// Values that were not looked for by the index yet.
    left: Vec<Vec<Value>>,
    scan: Option<RowScan>,
    cancel: CancelFlag,
}

impl View {
    /// Begins a search for the rows of `table` that reference one of `keys` by a foreign key. Keys are in the order
    /// of its columns, with the values of the referenced table.
    pub fn referencing(
        &self,
        table: &Arc<Table>,
        key: &ForeignKey,
        keys: &[Vec<Value>],
        cancel: CancelFlag,
    ) -> Result<ReferencingScan> {
        let wanted = keys.iter().filter_map(|values| key.referencing(table, values));
        let wanted: HashSet<Vec<Value>> = wanted.collect();
        let index = index_of(table, key);
        let (left, scan) = match &index {
            Some(_) => (wanted.iter().cloned().collect(), None),
            None if wanted.is_empty() => (Vec::new(), None),
            None => {
                let spec = ScanSpec { cancel: cancel.clone(), ..ScanSpec::of(table.oid) };
                (Vec::new(), Some(self.scan_of(Arc::clone(table), spec)?))
            }
        };
        let (table, view, places) = (Arc::clone(table), self.clone(), key.places(table));
        Ok(ReferencingScan { table, view, places, wanted, index, left, scan, cancel })
    }
}

impl ReferencingScan {
    /// Returns the next rows, about `max_rows`; an empty batch at the end. Blocks. 57014 once it is cancelled.
    pub fn next_batch(&mut self, max_rows: usize) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        while rows.len() < max_rows {
            if self.scan.is_none() && !self.begin_next()? {
                break;
            }
            let Some(scan) = &mut self.scan else { break };
            let found = scan.next_batch(max_rows)?;
            if found.is_empty() {
                self.scan = None;
            }
            rows.extend(found.into_iter().filter(|row| is_wanted(&self.places, &self.wanted, row)));
        }
        Ok(rows)
    }

    /// Begins to read the rows of the next values. Returns false if there are no more.
    fn begin_next(&mut self) -> Result<bool> {
        let Some((index, order)) = &self.index else { return Ok(false) };
        let Some(values) = self.left.pop() else { return Ok(false) };
        let values = order.iter().map(|place| values[*place].clone()).collect();
        let ranges = vec![KeyRange::prefix(values)];
        let (index, cancel) = (Some(*index), self.cancel.clone());
        let spec = ScanSpec { index, ranges, cancel, ..ScanSpec::of(self.table.oid) };
        self.scan = Some(self.view.scan_of(Arc::clone(&self.table), spec)?);
        Ok(true)
    }
}

fn is_wanted(places: &[usize], wanted: &HashSet<Vec<Value>>, row: &Row) -> bool {
    let values: Vec<Value> = places.iter().map(|place| row[*place].clone()).collect();
    wanted.contains(&values)
}

/// Returns the index, or the primary key, whose first columns are these of the foreign key, with the place of each
/// among them. The shortest one if there are several.
fn index_of(table: &Table, key: &ForeignKey) -> Option<(Oid, Vec<usize>)> {
    let order = |parts: &[IndexPart]| -> Option<Vec<usize>> {
        let first = parts.get(..key.columns.len())?;
        let place = |part: &IndexPart| key.columns.iter().position(|known| *known == part.column);
        first.iter().map(place).collect()
    };
    let primary = table.primary_key.iter().map(|key| (key.oid, &key.parts));
    let ready = table.indexes.iter().filter(|index| index.ready);
    let all = primary.chain(ready.map(|index| (index.oid, &index.parts)));
    let fitting = all.filter_map(|(oid, parts)| Some((oid, parts.len(), order(parts)?)));
    let best = fitting.min_by_key(|(_, columns, _)| *columns);
    best.map(|(oid, _, order)| (oid, order))
}
