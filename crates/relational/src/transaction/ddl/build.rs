//! Building what depends on all rows of a table: entries of an index, or the rows under another key.
//!
//! The result goes to the tree in small batches while no catalog names it. Rows that the transaction wrote
//! itself are among the rows that are read, and their entries are written the same way: if the transaction
//! rolls back, all of it is removed. A build whose future is dropped ends soon; what it writes until then is
//! at a place of its own.

use super::super::Transaction;
use super::super::rows::{index_entry, unique_violation};
use crate::Row;
use crate::catalog::Table;
use crate::database::{self, Batches, BuiltPart, Storage, Store, TreeKeys, blocking};
use crate::error::{Error, Result};
use crate::format::row::encode_row;
use crate::read::{CancelFlag, RowScan, ScanSpec, View};
use crate::types::{Oid, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// Bytes that are written together.
const BATCH_BYTES: usize = 1 << 20;
/// Rows that are read together.
const ROWS: usize = 1024;

/// Writes keys that are new to a tree, and finds keys that come twice.
pub(super) struct Builder {
    store: Arc<Store>,
    keys: TreeKeys,
    batches: Batches,
    /// Distinct keys of the batch, which the tree does not show yet.
    open: HashSet<Vec<u8>>,
}

impl Builder {
    pub(super) fn new(store: &Arc<Store>, storage: &Storage) -> Self {
        let (store, keys) = (Arc::clone(store), storage.keys.clone());
        Self { batches: store.batches(), store, keys, open: HashSet::new() }
    }

    /// Removes what an earlier build left in a part of the tree.
    fn clear(&mut self, part: u16) -> Result<()> {
        database::clear_part(&mut self.batches, self.keys.number(), part);
        self.flush()
    }

    /// Writes an entry. Returns false if the key is distinct and was written before.
    fn put(&mut self, key: Vec<u8>, value: &[u8], is_distinct: bool) -> Result<bool> {
        let is_there = |builder: &Self| {
            Ok::<_, Error>(
                builder.open.contains(&key) || builder.keys.get(None, &key, |_| ())?.is_some(),
            )
        };
        if is_distinct && is_there(self)? {
            return Ok(false);
        }
        self.batches.put(self.keys.number(), &key, value);
        if is_distinct {
            self.open.insert(key);
        }
        if self.batches.bytes() >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(true)
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        let batches = std::mem::replace(&mut self.batches, self.store.batches());
        self.store.write_blocking(batches)?;
        self.open.clear();
        Ok(())
    }
}

impl Transaction {
    /// Builds the entries of an index that the table has in this transaction's catalog. 23505 if it is
    /// unique and two rows have one key.
    pub(super) async fn build_index(&mut self, view: View, table: Oid, index: Oid) -> Result<()> {
        let table = self.table(table)?;
        let at = table.indexes.iter().position(|found| found.oid == index);
        let at = at.ok_or_else(|| Error::internal("the index is gone"))?;
        let part = Arc::new(BuiltPart::new(table.storage()?, table.indexes[at].part));
        self.built.push(Arc::clone(&part));
        let store = Arc::clone(&self.database.store);
        let built = until_dropped(move |cancel| {
            let mut builder = Builder::new(&store, table.storage()?);
            builder.clear(table.indexes[at].part)?;
            for_each_row(&view, &table, cancel, |row| put_entry(&mut builder, &table, at, row))?;
            let built = builder.flush();
            // Until here the entries are kept from being removed.
            drop(part);
            built
        });
        built.await
    }

    /// Writes all rows of a table to a new tree, in the order of the key of `after`, with the entries of all
    /// its indexes. `before` is the table up to now; both have the same columns.
    pub(super) async fn rebuild(
        &mut self,
        view: View,
        before: Arc<Table>,
        after: Table,
    ) -> Result<(Arc<Storage>, Table)> {
        let storage = self.new_storage(false).await?;
        let (store, target) = (Arc::clone(&self.database.store), Arc::clone(&storage));
        let rebuilt = until_dropped(move |cancel| {
            let mut builder = Builder::new(&store, &target);
            let mut row_id = 0;
            for_each_row(&view, &before, cancel, |row| {
                let mut row = row.clone();
                row.truncate(after.columns.len());
                if after.primary_key.is_none() {
                    row_id += 1;
                    row.push(Value::Int8(row_id));
                }
                put_row(&mut builder, &after, &row)
            })?;
            builder.flush()?;
            Ok(after)
        });
        Ok((storage, rebuilt.await?))
    }
}

/// Cancels a flag when it is dropped.
#[derive(Default)]
pub(super) struct CancelOnDrop(CancelFlag);

impl CancelOnDrop {
    /// Returns the flag that it cancels.
    pub(super) fn flag(&self) -> CancelFlag {
        self.0.clone()
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs a call that scans on a thread for it. If the future is dropped, the flag that the call was given is
/// cancelled.
pub(super) async fn until_dropped<T: Send + 'static>(
    call: impl FnOnce(CancelFlag) -> Result<T> + Send + 'static,
) -> Result<T> {
    let guard = CancelOnDrop::default();
    let cancel = guard.flag();
    blocking(move || call(cancel)).await
}

/// Calls `each` with every row of a table in a view. 57014 once it is cancelled.
pub(super) fn for_each_row(
    view: &View,
    table: &Arc<Table>,
    cancel: CancelFlag,
    mut each: impl FnMut(&Row) -> Result<()>,
) -> Result<()> {
    let spec = ScanSpec { cancel, ..ScanSpec::of(table.oid) };
    let mut scan = view.scan_of(Arc::clone(table), spec)?;
    for_each_of(&mut scan, &mut each)
}

fn for_each_of(scan: &mut RowScan, each: &mut impl FnMut(&Row) -> Result<()>) -> Result<()> {
    loop {
        let rows = scan.next_batch(ROWS)?;
        if rows.is_empty() {
            return Ok(());
        }
        rows.iter().try_for_each(&mut *each)?;
    }
}

fn put_entry(builder: &mut Builder, table: &Table, at: usize, row: &Row) -> Result<()> {
    let row_key = table.layout.key.encode(table.key_places().iter().map(|place| &row[*place]))?;
    let (index, layout) = (&table.indexes[at], &table.layout.indexes[at]);
    let (key, value, is_distinct) = index_entry(index, layout, row, &row_key[2..])?;
    match builder.put(key, &value, is_distinct)? {
        true => Ok(()),
        false => Err(could_not_create(table, &index.name, &layout.places, row)),
    }
}

fn put_row(builder: &mut Builder, table: &Table, row: &Row) -> Result<()> {
    let key = table.layout.key.encode(table.key_places().iter().map(|place| &row[*place]))?;
    let cell = encode_row(&table.layout, &table.columns, row);
    if !builder.put(key, &cell, true)? {
        let name = table.primary_key.as_ref().map_or("", |key| &key.name);
        return Err(could_not_create(table, name, table.key_places(), row));
    }
    (0..table.indexes.len()).try_for_each(|at| put_entry(builder, table, at, row))
}

fn could_not_create(table: &Table, name: &str, places: &[usize], row: &Row) -> Error {
    let mut error = unique_violation(table, name, places, row);
    error.message = format!("could not create unique index \"{name}\"");
    if let Some(detail) = &mut error.detail {
        *detail = detail.replace(" already exists.", " is duplicated.");
    }
    error
}

/// Removes what an earlier build left at the place of an index. Blocks.
pub(super) fn clear_part(store: &Arc<Store>, table: &Table, index: Oid) -> Result<()> {
    let found = table.index(index).ok_or_else(|| Error::internal("the index is gone"))?;
    Builder::new(store, table.storage()?).clear(found.part)
}
