//! Tables out of service. Their trees are dropped by an intent, as the trees of tables are.
//!
//! 1. A table is in service, or on a shelf, or neither; the batch that moves it does both.
//! 2. A shelf has one table of a name. A table that is deleted again replaces the older one.
//! 3. A table whose time is over is not there, also before its trees are dropped.
//! 4. No compaction starts in trees on a shelf: backups share their files until one of them is rewritten.

use super::super::meta::{MetaChange, MetaStore, trees_of};
use super::super::tables::AfterDelete;
use super::super::{Core, Local, Table};
use crate::error::{Error, Result};
use crate::records::RecordChange;
use crate::schema::{TableName, TableSchema};
use crate::shelf::{BackupRecord, Shelf, ShelfMap, Shelved, Shelves};
use async_trait::async_trait;
use bytes::Bytes;
use engine::{Engine, TreeId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Returns the tables on shelves when the store opens, and takes their trees out of `trees`. `DataLoss` if
/// a tree is not among them.
pub(in crate::local) fn claim(
    engine: &Engine,
    meta: &dyn MetaStore,
    trees: &mut BTreeSet<TreeId>,
) -> Result<ShelfMap> {
    let shelf = meta.shelved()?;
    for Shelved { name, schema, .. } in shelf.values() {
        for tree in trees_of(schema) {
            if !trees.remove(&tree) {
                let text = format!("{name}, a table out of service, uses tree {}", tree.0);
                return Err(Error::DataLoss(format!("{text}, which is missing or taken")));
            }
            engine.tree(tree)?.set_at_rest(true)?;
        }
    }
    Ok(shelf)
}

impl Local {
    /// Sets the time for which deleted tables can come back; zero, the default, drops them at once.
    /// It counts from each deletion, also for tables that were deleted before. In a cluster deleted tables
    /// do not come back.
    pub fn keep_deleted_for(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        self.core.deleted_for.store(micros, Ordering::Relaxed);
    }
}

impl Core {
    /// Takes `table` out of service and with it `below`, what the front recorded below its name.
    pub(in crate::local) fn shelve_deleted(
        &self,
        table: &Table,
        below: Vec<(String, Bytes)>,
    ) -> Result<()> {
        let name = &table.schema.name;
        let removed: Vec<_> = below.iter().map(|(name, _)| RecordChange::remove(name)).collect();
        let shelved = Shelved {
            name: name.to_string(),
            at_micros: self.clock.now_micros(),
            schema: Arc::clone(&table.schema),
            records: below,
        };
        let key = (Shelf::Deleted, shelved.name.clone());
        let replaced = self.shelf.read().get(&key).map(|older| trees_of(&older.schema));
        let mut changes: Vec<_> = removed.iter().map(MetaChange::Record).collect();
        changes.push(MetaChange::RemoveTable(name));
        changes.push(MetaChange::Shelve(Shelf::Deleted, &shelved));
        changes.extend(replaced.as_deref().map(MetaChange::Intend));
        self.meta.change(&changes)?;
        self.forget_table(name);
        self.shelf.write().insert(key, shelved);
        self.publish_records(removed);
        if let Some(trees) = replaced {
            self.drop_intended(&trees);
        }
        self.set_at_rest(&table.schema, true)
    }

    /// Pauses or resumes the compactions of a table's trees.
    pub(in crate::local) fn set_at_rest(&self, schema: &TableSchema, at_rest: bool) -> Result<()> {
        let set = |tree: TreeId| self.engine.tree(tree)?.set_at_rest(at_rest);
        Ok(trees_of(schema).into_iter().try_for_each(set)?)
    }

    /// Does the work of [`Shelves::undelete_table`]; blocks.
    pub(in crate::local) fn undelete_table(&self, name: &TableName) -> Result<Arc<TableSchema>> {
        let _changing = self.schema_change.lock();
        let key = (Shelf::Deleted, name.to_string());
        let found = self.shelf.read().get(&key).cloned();
        let found = found.filter(|shelved| !self.is_over(Shelf::Deleted, shelved));
        let Some(shelved) = found else {
            return Err(Error::NotFound { what: "deleted table", name: name.to_string() });
        };
        if self.tables.read().contains_key(name) {
            return Err(Error::AlreadyExists { what: "table", name: name.to_string() });
        }
        let puts = shelved.records.into_iter().map(|(name, value)| RecordChange::put(name, value));
        let records: Vec<_> = puts.collect();
        let mut changes = vec![
            MetaChange::PutTable(&shelved.schema),
            MetaChange::Unshelve(Shelf::Deleted, &key.1),
        ];
        changes.extend(records.iter().map(MetaChange::Record));
        // The rules are there before compactions and readers see the table, and it stays at rest where the
        // change fails.
        self.set_rules(&shelved.schema)?;
        self.meta.change(&changes)?;
        self.set_at_rest(&shelved.schema, false)?;
        self.shelf.write().remove(&key);
        self.publish_records(records);
        Ok(self.publish(TableSchema::clone(&shelved.schema)))
    }

    /// Returns whether the time of a table on a shelf is over.
    pub(super) fn is_over(&self, shelf: Shelf, shelved: &Shelved) -> bool {
        let end = match shelf {
            Shelf::Deleted => {
                shelved.at_micros.saturating_add(self.deleted_for.load(Ordering::Relaxed))
            }
            Shelf::Backup => shelved.at_micros,
        };
        end <= self.clock.now_micros()
    }

    /// Does the work of [`Shelves::drop_expired`]; blocks.
    pub(in crate::local) fn drop_expired(&self) -> Result<usize> {
        self.drop_shelved(|shelf, shelved| self.is_over(shelf, shelved))
    }

    /// Drops the tables on shelves that `picked` holds for, and the front's records of their names.
    /// Returns their number.
    fn drop_shelved(&self, picked: impl Fn(Shelf, &Shelved) -> bool) -> Result<usize> {
        let _changing = self.schema_change.lock();
        let keys: Vec<_> = {
            let shelf = self.shelf.read();
            let picked = shelf.iter().filter(|((shelf, _), shelved)| picked(*shelf, shelved));
            picked.map(|(key, shelved)| (key.clone(), trees_of(&shelved.schema))).collect()
        };
        for (key, trees) in &keys {
            self.drop_one(key, trees)?;
        }
        Ok(keys.len())
    }

    /// Does the work of [`Shelves::delete_backup`]; blocks.
    pub(in crate::local) fn delete_backup(&self, backup: String) -> Result<()> {
        let _changing = self.schema_change.lock();
        let key = (Shelf::Backup, backup);
        let trees = self.shelf.read().get(&key).map(|shelved| trees_of(&shelved.schema));
        self.drop_one(&key, &trees.unwrap_or_default())
    }

    /// Drops the table on a shelf of which `key` tells, and its trees; without any, its records alone.
    pub(super) fn drop_one(&self, key: &(Shelf, String), trees: &[TreeId]) -> Result<()> {
        let record = RecordChange::remove(&key.1);
        let mut changes = vec![MetaChange::Unshelve(key.0, &key.1)];
        if !trees.is_empty() {
            changes.push(MetaChange::Intend(trees));
        }
        // A deleted table has no record of the front, and a new table of its name may have.
        if key.0 == Shelf::Backup {
            changes.push(MetaChange::Record(&record));
        }
        self.meta.change(&changes)?;
        self.shelf.write().remove(key);
        if key.0 == Shelf::Backup {
            self.publish_records(vec![record]);
        }
        if !trees.is_empty() {
            self.drop_intended(trees);
        }
        Ok(())
    }
}

#[async_trait]
impl Shelves for Local {
    async fn undelete_table(&self, table: &TableName) -> Result<Arc<TableSchema>> {
        self.core.check_alone("bringing back a deleted table")?;
        let table = table.clone();
        self.change(move |core| core.undelete_table(&table)).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<()> {
        if self.core.replicated().is_some() {
            return self.delete_in_groups(table).await;
        }
        let table = table.clone();
        self.change(move |core| core.delete_table(&table, AfterDelete::Gone)).await
    }

    async fn purge_deleted(&self, prefix: &str) -> Result<()> {
        let prefix = prefix.to_owned();
        let is_below = move |shelf: Shelf, shelved: &Shelved| {
            shelf == Shelf::Deleted && shelved.name.starts_with(&prefix)
        };
        self.change(move |core| core.drop_shelved(is_below).map(|_| ())).await
    }

    async fn back_up_table(
        &self,
        table: &TableName,
        backup: String,
        expire_micros: i64,
        record: BackupRecord,
    ) -> Result<()> {
        self.core.check_alone("backups of tables")?;
        let table = table.clone();
        self.change(move |core| core.back_up_table(&table, backup, expire_micros, record)).await
    }

    async fn copy_backup(
        &self,
        from: String,
        backup: String,
        expire_micros: i64,
        record: BackupRecord,
    ) -> Result<()> {
        self.core.check_alone("backups of tables")?;
        self.change(move |core| core.copy_backup(&from, backup, expire_micros, record)).await
    }

    async fn restore_table(
        &self,
        backup: String,
        table: TableName,
        records: Vec<RecordChange>,
    ) -> Result<Arc<TableSchema>> {
        self.core.check_alone("backups of tables")?;
        self.change(move |core| core.restore_table(&backup, table, records)).await
    }

    async fn set_backup_expiry(
        &self,
        backup: String,
        expire_micros: i64,
        record: RecordChange,
    ) -> Result<()> {
        self.core.check_alone("backups of tables")?;
        self.change(move |core| core.set_backup_expiry(&backup, expire_micros, record)).await
    }

    async fn delete_backup(&self, backup: String) -> Result<()> {
        self.core.check_alone("backups of tables")?;
        self.change(move |core| core.delete_backup(backup)).await
    }

    async fn drop_expired(&self) -> Result<usize> {
        self.change(Core::drop_expired).await
    }
}
