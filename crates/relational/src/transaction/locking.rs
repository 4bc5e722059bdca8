//! Locks of tables and rows, and what a locked row is.

use super::Transaction;
use crate::Row;
use crate::catalog::{Column, Table};
use crate::error::{Error, Result};
use crate::locks::{LockKey, LockMode, Mode, TableLock, Wait};
use crate::read::row_of;
use crate::state::SqlState;
use crate::types::{Oid, Value};
use bytes::Bytes;
use std::sync::Arc;

impl Transaction {
    /// Locks a table, and returns it as it is then. A statement that writes calls it before it is planned:
    /// afterwards the definition of the table does not change. In READ COMMITTED the catalog and the
    /// snapshot of the statement are taken again if it had to wait for a change of the table.
    ///
    /// 42P01 if the table is gone. 40001 in REPEATABLE READ if the table was changed.
    pub async fn lock_table(&mut self, table: Oid, lock: TableLock) -> Result<Arc<Table>> {
        if self.snapshot.is_none() {
            self.see_now();
        }
        self.locks.take(LockKey::Table(table), lock.into(), Wait::Wait).await?;
        let is_changed = self.base.is_none() && {
            let newest = self.database.catalog();
            match (newest.table(table), self.catalog.table(table)) {
                (Some(newest), Some(seen)) => !Arc::ptr_eq(newest, seen),
                (None, None) => false,
                _ => true,
            }
        };
        if is_changed {
            if self.conflict_snapshot().is_some() {
                return Err(changed_table());
            }
            self.see_now();
        }
        self.table(table)
    }

    /// Returns a table with the lock of writers. Rows of the statement's definition are rows of it.
    /// 40001 if the columns or the key were changed since the statement began.
    pub(super) async fn table_to_write(&mut self, table: Oid) -> Result<Arc<Table>> {
        let key = LockKey::Table(table);
        if !self.locks.has(&key, Mode::TableWrite) {
            let seen = self.table(table)?;
            let now = self.lock_table(table, TableLock::Write).await?;
            if !has_same_rows(&seen, &now) {
                return Err(changed_table());
            }
            return Ok(now);
        }
        self.table(table)
    }

    pub(super) fn table(&self, table: Oid) -> Result<Arc<Table>> {
        self.catalog.table(table).cloned().ok_or_else(|| {
            let message = format!("relation with OID {table} does not exist");
            Error::new(SqlState::UNDEFINED_TABLE, message)
        })
    }

    /// Locks a row by its key and returns it as the last commit, or this transaction, left it. Returns
    /// nothing if there is no such row, or if `wait` is `Skip` and others are in the way. The row may
    /// differ from the one that the statement's view has: READ COMMITTED checks its conditions again.
    ///
    /// 40001 in REPEATABLE READ if a commit after the snapshot wrote the row. 55P03 without waiting, or
    /// after the lock timeout. 40P01 if waiting would never end.
    pub async fn lock(
        &mut self,
        table: Oid,
        key: &[Value],
        mode: LockMode,
        wait: Wait,
    ) -> Result<Option<Row>> {
        self.check_writable("SELECT FOR UPDATE")?;
        let table = self.table_to_write(table).await?;
        let Some(key) = table.layout.key.encode_to_find(key)? else { return Ok(None) };
        let key = Bytes::from(key);
        if !self.lock_key(&table, &key, mode.into(), wait).await? {
            return Ok(None);
        }
        self.newest_row(&table, &key).await
    }

    /// Locks a key of a tree and tells if it has the lock. 40001 if a commit after the snapshot of
    /// REPEATABLE READ wrote it.
    pub(super) async fn lock_key(
        &mut self,
        table: &Table,
        key: &Bytes,
        mode: Mode,
        wait: Wait,
    ) -> Result<bool> {
        let lock = LockKey::Row(table.tree, key.clone());
        if !self.locks.take(lock.clone(), mode, wait).await? {
            return Ok(false);
        }
        self.check_is_not_newer(&lock)?;
        Ok(true)
    }

    /// Fails with 40001 if a commit that the snapshot of REPEATABLE READ does not see wrote the key.
    pub(super) fn check_is_not_newer(&self, key: &LockKey) -> Result<()> {
        let newer = |sequence| self.database.conflicts.is_newer(key, sequence);
        match self.conflict_snapshot() {
            Some(snapshot) if newer(snapshot.sequence()) => Err(concurrent_update()),
            _ => Ok(()),
        }
    }

    /// Returns the value of a key as the last commit, or this transaction, left it.
    pub(super) async fn newest(&self, table: &Table, key: &[u8]) -> Result<Option<Bytes>> {
        if let Some(own) = self.writes.overlay().get(table.tree, key) {
            return Ok(own.cloned());
        }
        table.storage()?.keys.read(None, key, Bytes::copy_from_slice).await
    }

    /// Returns true if the last commit, or this transaction, left a value of the key.
    pub(super) async fn exists(&self, table: &Table, key: &[u8]) -> Result<bool> {
        if let Some(own) = self.writes.overlay().get(table.tree, key) {
            return Ok(own.is_some());
        }
        Ok(table.storage()?.keys.read(None, key, |_| ()).await?.is_some())
    }

    pub(super) async fn newest_row(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        let cell = self.newest(table, key).await?;
        cell.map(|cell| row_of(table, key, &cell)).transpose()
    }
}

/// Returns true if rows of one definition of a table are rows of the other: only indexes, names, defaults
/// or privileges differ.
fn has_same_rows(one: &Table, two: &Table) -> bool {
    let columns = |table: &Table| -> Vec<_> {
        let of = |column: &Column| {
            (column.number, column.data_type.clone(), column.not_null, column.generated.clone())
        };
        table.columns.iter().map(of).collect()
    };
    let checks = |table: &Table| -> Vec<_> {
        table.checks.iter().map(|check| check.expression.clone()).collect()
    };
    std::ptr::eq(one, two)
        || (columns(one) == columns(two)
            && checks(one) == checks(two)
            && one.key_places() == two.key_places()
            && one.tree == two.tree)
}

pub(super) fn concurrent_update() -> Error {
    let message = "could not serialize access due to concurrent update";
    Error::new(SqlState::SERIALIZATION_FAILURE, message)
}

pub(super) fn changed_table() -> Error {
    let message = "could not serialize access due to a concurrent change of the table";
    Error::new(SqlState::SERIALIZATION_FAILURE, message).with_hint("Try the transaction again.")
}
