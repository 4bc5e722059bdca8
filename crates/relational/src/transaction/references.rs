//! Foreign keys while rows change: the tables they reach, and referenced rows that stay.
//!
//! 1. Who writes a row that references another holds the key of the referenced row in mode `KeyShare` from before it
//!    looks if it is there until the end. Who deletes that row, or changes its key, holds the key in mode `Update` before
//!    it looks for referencing rows, by [`Transaction::latest_view`]. So one of two sees the other.
//! 2. The key is the one of the referenced index: a row's own key for the primary key, an entry's for a unique index.
//!    Changes that leave the key as it is do not lock it against `KeyShare`.
//! 3. Tables that a foreign key joins are locked together, so that no key comes or goes meanwhile.

use super::Transaction;
use super::locking::{changed_table, concurrent_update};
use crate::Row;
use crate::catalog::{Catalog, ForeignKey, KeyAction, Table};
use crate::error::{Error, Result};
use crate::locks::{LockKey, Mode, Wait};
use crate::read::View;
use crate::types::{Oid, Value};
use bytes::Bytes;
use std::sync::Arc;

/// The things that a statement does to rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// It locks rows, nothing else.
    Locks,
    /// It inserts rows, nothing else.
    Inserts,
    /// It inserts, changes or deletes rows.
    Changes,
}

impl Transaction {
    /// Locks a table for a statement, with the tables that foreign keys lead to from there: the ones that new rows
    /// reference, and the ones whose rows reference changed ones or change with them. A statement calls it before it
    /// is planned: afterwards these tables do not change. In READ COMMITTED catalog and snapshot of the statement are
    /// taken again if it had to wait for a change of one.
    ///
    /// 40001 in REPEATABLE READ if one of the tables was changed.
    pub async fn lock_to_write(&mut self, table: Oid, writes: Writes) -> Result<()> {
        if self.snapshot.is_none() {
            self.see_now();
        }
        loop {
            let tables = reached(&self.catalog, table, writes);
            for oid in &tables {
                self.locks.take(LockKey::Table(*oid), Mode::TableWrite, Wait::Wait).await?;
            }
            if self.base.is_some() || tables.iter().all(|oid| self.knows_newest(*oid)) {
                return Ok(());
            }
            if self.conflict_snapshot().is_some() {
                return Err(changed_table());
            }
            // The change may lead to other tables.
            self.see_now();
        }
    }

    /// Returns true if the last commit left a table as this transaction's catalog has it.
    fn knows_newest(&self, table: Oid) -> bool {
        match (self.database.catalog().table(table), self.catalog.table(table)) {
            (Some(newest), Some(seen)) => Arc::ptr_eq(newest, seen),
            (None, None) => true,
            _ => false,
        }
    }

    /// Returns true if a row is there that a foreign key references by these values of its columns, none of them NULL,
    /// as the last commit or this transaction left it. Then it is there, with this key, until the transaction ends.
    /// Waits for transactions that are about to delete it, or to insert it.
    ///
    /// False in REPEATABLE READ if the snapshot has no such row. 40001 if the snapshot has it, and a later commit
    /// took it away.
    pub async fn lock_referenced(&mut self, key: &ForeignKey, values: &[Value]) -> Result<bool> {
        let table = self.table_to_write(key.references).await?;
        let Some(wanted) = key.wanted(&table, values) else { return Ok(false) };
        let Some(wanted) = unique_key(&table, key.index, &wanted)? else { return Ok(false) };
        let lock = LockKey::Row(table.tree, wanted.clone());
        self.locks.take(lock.clone(), Mode::KeyShare, Wait::Wait).await?;
        let is_there = self.exists(&table, &wanted).await?;
        let is_newer = self.check_is_not_newer(&lock).is_err();
        if !is_newer || self.writes.overlay().get(table.tree, &wanted).is_some() {
            return Ok(is_there);
        }
        let seen = self.snapshot.as_ref();
        let was_there = table.storage()?.keys.read(seen, &wanted, |_| ()).await?.is_some();
        match (was_there, is_there) {
            (true, false) => Err(concurrent_update()),
            (was_there, _) => Ok(was_there),
        }
    }

    /// Returns true if a row has the key that a foreign key referenced, as the last commit or this transaction left
    /// it. `values` are in the order of the foreign key's columns.
    pub async fn has_referenced(&mut self, key: &ForeignKey, values: &[Value]) -> Result<bool> {
        let table = self.table_to_write(key.references).await?;
        let parts = table.index_parts(key.index).unwrap_or_default();
        let at = |number| key.referenced.iter().position(|known| *known == number);
        let ordered = parts.iter().filter_map(|part| values.get(at(part.column)?).cloned());
        match unique_key(&table, key.index, &ordered.collect::<Vec<_>>())? {
            Some(wanted) => self.exists(&table, &wanted).await,
            None => Ok(false),
        }
    }

    /// Locks a row that [`Self::latest_view`] shows to reference another, in mode `KeyShare`, and returns it as the last
    /// commit, or this transaction, left it. Nothing if it is gone. In REPEATABLE READ it may be newer than the
    /// snapshot: what it references counts, not what its reader sees.
    pub async fn lock_referencing(&mut self, table: Oid, key: &[Value]) -> Result<Option<Row>> {
        let table = self.table_to_write(table).await?;
        let Some(key) = table.layout.key.encode_to_find(key)? else { return Ok(None) };
        let key = Bytes::from(key);
        let lock = LockKey::Row(table.tree, key.clone());
        self.locks.take(lock, Mode::KeyShare, Wait::Wait).await?;
        self.newest_row(&table, &key).await
    }

    /// Returns a view of all that is committed by now, also in REPEATABLE READ, and of what this transaction has
    /// written. It shows which rows reference a row whose key the transaction has locked.
    pub fn latest_view(&self) -> View {
        self.view_of_now().0
    }
}

/// Returns the key in a table's tree of a primary key or unique index for its values, none of them NULL; nothing if it
/// is too long to be there.
pub(crate) fn unique_key(table: &Table, index: Oid, values: &[Value]) -> Result<Option<Bytes>> {
    let codec = match &table.primary_key {
        Some(key) if key.oid == index => &table.layout.key,
        _ => {
            let at = table.indexes.iter().position(|found| found.oid == index && found.unique);
            let at = at.ok_or_else(|| Error::internal("a foreign key references no unique key"))?;
            &table.layout.indexes[at].codec
        }
    };
    Ok(codec.encode_to_find(values)?.map(Bytes::from))
}

/// Returns a table with the tables that foreign keys lead to from it, in the order of their numbers: the referenced
/// ones, and unless rows are only inserted the referencing ones, with what their changes lead to.
fn reached(catalog: &Catalog, table: Oid, writes: Writes) -> Vec<Oid> {
    if writes == Writes::Locks || !catalog.has_foreign_keys(table) {
        return vec![table];
    }
    let (mut all, mut changed) = (vec![table], vec![table]);
    let mut add = |oid: Oid| {
        if !all.contains(&oid) {
            all.push(oid);
        }
    };
    let mut at = 0;
    while let Some(oid) = changed.get(at).copied() {
        at += 1;
        let keys = catalog.table(oid).map_or(&[][..], |table| &table.foreign_keys);
        keys.iter().for_each(|key| add(key.references));
        if writes == Writes::Inserts {
            continue;
        }
        for (other, key) in catalog.references_to(oid) {
            add(other.oid);
            let refuses = |action| matches!(action, KeyAction::NoAction | KeyAction::Restrict);
            let changes = !refuses(key.on_delete) || !refuses(key.on_update);
            if changes && !changed.contains(&other.oid) {
                changed.push(other.oid);
            }
        }
    }
    all.sort_unstable();
    all
}
