//! Backups of tables: copies of their trees, on a shelf.
//!
//! Steps of a copy, each harmless if the machine dies behind it:
//! 1. Note the intent to create the trees.
//! 2. Create each tree as a copy of another one.
//! 3. Write the record of the backup or table, and remove the intent, in one batch.

use super::super::Core;
use super::super::meta::{MetaChange, trees_of};
use crate::error::{Error, Result};
use crate::records::RecordChange;
use crate::schema::{TableName, TableSchema, Tablet};
use crate::shelf::{BackupRecord, Copied, Shelf, Shelved};
use engine::{RowRange, TreeId};
use std::sync::Arc;

impl Core {
    /// Does the work of [`crate::Shelves::back_up_table`]; blocks.
    pub(in crate::local) fn back_up_table(
        &self,
        table: &TableName,
        backup: String,
        expire_micros: i64,
        record: BackupRecord,
    ) -> Result<()> {
        let _changing = self.schema_change.lock();
        let schema = Arc::clone(&self.table(table)?.schema);
        self.shelve_copy(&schema, backup, expire_micros, record)
    }

    /// Does the work of [`crate::Shelves::copy_backup`]; blocks.
    pub(in crate::local) fn copy_backup(
        &self,
        from: &str,
        backup: String,
        expire_micros: i64,
        record: BackupRecord,
    ) -> Result<()> {
        let _changing = self.schema_change.lock();
        let schema = self.backup(from)?.schema;
        self.shelve_copy(&schema, backup, expire_micros, record)
    }

    fn shelve_copy(
        &self,
        schema: &TableSchema,
        backup: String,
        expire_micros: i64,
        record: BackupRecord,
    ) -> Result<()> {
        let key = (Shelf::Backup, backup.clone());
        let there = self.shelf.read().get(&key).cloned();
        match there {
            None => {}
            Some(there) if self.is_over(Shelf::Backup, &there) => {
                self.drop_one(&key, &trees_of(&there.schema))?;
            }
            Some(_) => return Err(Error::AlreadyExists { what: "backup", name: backup }),
        }
        let copy = self.copied(schema)?;
        let trees = trees_of(&copy);
        let checked = self.rest(&trees).and_then(|bytes| {
            let record = record(Copied { bytes, at_micros: self.clock.now_micros() });
            self.check_records(std::slice::from_ref(&record)).map(|()| record)
        });
        let record = checked.inspect_err(|_| self.drop_intended(&trees))?;
        let shelved = Shelved {
            name: backup,
            at_micros: expire_micros,
            schema: Arc::new(copy),
            records: Vec::new(),
        };
        self.meta.change(&[
            MetaChange::Shelve(Shelf::Backup, &shelved),
            MetaChange::Forget(&trees),
            MetaChange::Record(&record),
        ])?;
        self.shelf.write().insert(key, shelved);
        self.publish_records(vec![record]);
        Ok(())
    }

    /// Does the work of [`crate::Shelves::restore_table`]; blocks.
    pub(in crate::local) fn restore_table(
        &self,
        backup: &str,
        table: TableName,
        records: Vec<RecordChange>,
    ) -> Result<Arc<TableSchema>> {
        let _changing = self.schema_change.lock();
        self.check_records(&records)?;
        let source = self.backup(backup)?.schema;
        if self.tables.read().contains_key(&table) {
            return Err(Error::AlreadyExists { what: "table", name: table.to_string() });
        }
        let schema = TableSchema {
            name: table,
            created_micros: self.clock.now_micros(),
            deletion_protection: false,
            ..self.copied(&source)?
        };
        let trees = trees_of(&schema);
        self.set_rules(&schema).inspect_err(|_| self.drop_intended(&trees))?;
        let mut changes = vec![MetaChange::PutTable(&schema), MetaChange::Forget(&trees)];
        changes.extend(records.iter().map(MetaChange::Record));
        self.meta.change(&changes)?;
        self.publish_records(records);
        Ok(self.publish(schema))
    }

    /// Does the work of [`crate::Shelves::set_backup_expiry`]; blocks.
    pub(in crate::local) fn set_backup_expiry(
        &self,
        backup: &str,
        expire_micros: i64,
        record: RecordChange,
    ) -> Result<()> {
        let _changing = self.schema_change.lock();
        self.check_records(std::slice::from_ref(&record))?;
        let shelved = Shelved { at_micros: expire_micros, ..self.backup(backup)? };
        let changes = [MetaChange::Shelve(Shelf::Backup, &shelved), MetaChange::Record(&record)];
        self.meta.change(&changes)?;
        self.shelf.write().insert((Shelf::Backup, backup.to_owned()), shelved);
        self.publish_records(vec![record]);
        Ok(())
    }

    /// Lets no compactions start in the trees of a backup. Returns their bytes on disk.
    fn rest(&self, trees: &[TreeId]) -> Result<u64> {
        let mut bytes = 0;
        for tree in trees {
            let tree = self.engine.tree(*tree)?;
            tree.set_at_rest(true)?;
            bytes += tree.approximate_bytes(&RowRange::ALL)?;
        }
        Ok(bytes)
    }

    /// Returns a backup whose time is not over.
    fn backup(&self, name: &str) -> Result<Shelved> {
        let found = self.shelf.read().get(&(Shelf::Backup, name.to_owned())).cloned();
        let found = found.filter(|shelved| !self.is_over(Shelf::Backup, shelved));
        found.ok_or_else(|| Error::NotFound { what: "backup", name: name.to_owned() })
    }

    /// Returns the schema with copies of its trees, which are noted to be created.
    fn copied(&self, schema: &TableSchema) -> Result<TableSchema> {
        let first = self.meta.reserve_trees(schema.tablets.len() as u32)?;
        let tablets = schema.tablets.iter().zip(first.0..);
        let tablets: Vec<_> = tablets
            .map(|(tablet, tree)| Tablet { start: tablet.start.clone(), tree: TreeId(tree) })
            .collect();
        let copy = TableSchema { tablets, ..schema.clone() };
        let trees = trees_of(&copy);
        self.meta.intend(&trees)?;
        for (from, to) in schema.tablets.iter().zip(&trees) {
            let copied = self.engine.tree(from.tree).and_then(|tree| tree.copy_to(*to));
            if let Err(error) = copied {
                self.drop_intended(&trees);
                return Err(error.into());
            }
        }
        Ok(copy)
    }
}
