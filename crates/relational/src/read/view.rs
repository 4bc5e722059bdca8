//! The view that one statement has.

use super::projection::Projection;
use super::scan::{RowScan, ScanSpec};
use crate::Row;
use crate::catalog::{Catalog, Table};
use crate::error::{Error, Result};
use crate::state::SqlState;
use crate::transaction::{Entries, Overlay};
use crate::types::{Oid, Value};
use engine::Snapshot;
use std::fmt;
use std::sync::Arc;

/// The view of one statement: committed rows of one moment, and what its transaction had written by then.
/// Cheap to clone. While it lives, all that it sees is kept on disk.
#[derive(Clone)]
pub struct View {
    catalog: Arc<Catalog>,
    snapshot: Snapshot,
    overlay: Overlay,
}

impl View {
    pub(crate) fn new(catalog: Arc<Catalog>, snapshot: Snapshot, overlay: Overlay) -> Self {
        Self { catalog, snapshot, overlay }
    }

    /// Returns the catalog of the view.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the moment of the view, by which snapshots are told apart.
    pub fn sequence(&self) -> u64 {
        self.snapshot.sequence().0
    }

    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns what the transaction wrote to a tree, if anything.
    pub(super) fn own_entries(&self, tree: u32) -> Option<&Arc<Entries>> {
        self.overlay.tree(tree)
    }

    /// Returns a table by its number. 42P01 if the view has none.
    pub fn table(&self, table: Oid) -> Result<&Arc<Table>> {
        self.catalog.table(table).ok_or_else(|| {
            let message = format!("relation with OID {table} does not exist");
            Error::new(SqlState::UNDEFINED_TABLE, message)
        })
    }

    /// Returns the row with this key: the values of the primary key in its order, or the row id of a table
    /// without one. The future is ready at once if the row is in memory.
    pub async fn get(&self, table: Oid, key: &[Value]) -> Result<Option<Row>> {
        let table = self.table(table)?;
        let projection = Projection::all(table);
        self.get_projected(table, key, &projection).await
    }

    /// Returns the columns at `places` of the row with this key; otherwise as [`Self::get`].
    pub async fn get_columns(
        &self,
        table: Oid,
        key: &[Value],
        places: &[usize],
    ) -> Result<Option<Row>> {
        let table = self.table(table)?;
        let projection = Projection::of(table, places)?;
        self.get_projected(table, key, &projection).await
    }

    async fn get_projected(
        &self,
        table: &Table,
        key: &[Value],
        projection: &Projection,
    ) -> Result<Option<Row>> {
        if key.len() != table.key_places().len() {
            let (have, want) = (key.len(), table.key_places().len());
            return Err(Error::internal(format!("a key of {have} values in place of {want}")));
        }
        if key.iter().any(Value::is_null) {
            return Ok(None);
        }
        let Some(key) = table.layout.key.encode_to_find(key)? else { return Ok(None) };
        if let Some(own) = self.overlay.get(table.tree, &key) {
            return own.map(|cell| projection.row(table, &key, cell)).transpose();
        }
        let keys = &table.storage()?.keys;
        let decode = |cell: &[u8]| projection.row(table, &key, cell);
        keys.read(Some(&self.snapshot), &key, decode).await?.transpose()
    }

    /// Begins a scan. Its batches are read by blocking calls. 42P01 for a table that the view does not
    /// have, XX000 for an index that is not one of the table or not ready.
    pub fn scan(&self, spec: ScanSpec) -> Result<RowScan> {
        self.scan_of(Arc::clone(self.table(spec.table)?), spec)
    }

    /// Begins a scan of a table as another catalog of the transaction has it.
    pub(crate) fn scan_of(&self, table: Arc<Table>, spec: ScanSpec) -> Result<RowScan> {
        let entries = self.overlay.tree(table.tree).cloned();
        RowScan::new(table, self.snapshot.clone(), entries, spec)
    }

    /// Returns true if a key of a table's tree has a value. Blocks.
    pub(crate) fn has_key(&self, table: &Table, key: &[u8]) -> Result<bool> {
        if let Some(own) = self.overlay.get(table.tree, key) {
            return Ok(own.is_some());
        }
        Ok(table.storage()?.keys.get(Some(&self.snapshot), key, |_| ())?.is_some())
    }

    /// Returns true if a table has a row, in a segment or in its tree. Blocks. 42P01 for a table that the view does not
    /// have.
    pub fn has_rows(&self, table: Oid) -> Result<bool> {
        self.has_rows_of(self.table(table)?)
    }

    /// Returns true if a table, as another catalog of the transaction has it, has a row. Blocks.
    pub(crate) fn has_rows_of(&self, table: &Arc<Table>) -> Result<bool> {
        let spec = ScanSpec {
            limit: Some(1),
            columns: Some(Vec::new()),
            delta_rows: true,
            ..ScanSpec::of(table.oid)
        };
        let is_in_tree = !self.scan_of(Arc::clone(table), spec)?.next_batch(1)?.is_empty();
        Ok(is_in_tree || (table.is_columnar() && self.has_segments(table)?))
    }

    /// Returns the number of rows of a table of rows. Blocks, and reads no values of columns.
    pub fn count(&self, table: Oid) -> Result<u64> {
        let mut scan = self.scan(ScanSpec { columns: Some(Vec::new()), ..ScanSpec::of(table) })?;
        scan.count()
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("sequence", &self.sequence()).finish_non_exhaustive()
    }
}
