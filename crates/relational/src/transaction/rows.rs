//! Inserting, changing and deleting rows, with their index entries.
//!
//! A unique key is looked up under its lock as the last commit left it: of two that insert one key, the
//! second waits for the first, and then fails or goes on.

use super::Transaction;
use super::locking::concurrent_update;
use super::row_checks::{check_row, schema_name};
use crate::Row;
use crate::catalog::{Index, Table};
use crate::database::blocking;
use crate::error::{Error, Result};
use crate::locks::{LockKey, Mode, Wait};
use crate::read::last_row_id;
use crate::state::SqlState;
use crate::types::{Oid, Value};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The way out if a row to be inserted has a unique key that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// The insert fails with 23505.
    #[default]
    Fail,
    /// Leaves the row out, if the key is of this index; of any if there is no index given.
    Skip(Option<Oid>),
}

/// An entry of an index for one row.
struct Entry {
    key: Bytes,
    value: Bytes,
    /// True if no other row can have the key.
    is_distinct: bool,
}

/// A key that no other row may have: of the primary key, or of a unique index.
struct UniqueKey<'a> {
    oid: Oid,
    name: &'a str,
    /// Places of its values in a row.
    places: &'a [usize],
    key: Bytes,
}

impl Transaction {
    /// Inserts rows, and tells of each if it was inserted. Rows have a value for each column; the caller
    /// has evaluated defaults, generated columns and checks. The row id of a table without a primary key
    /// may be left out.
    ///
    /// 23502 and 23505 with the constraint. After an error some rows may be buffered: the caller goes back
    /// to its mark.
    pub async fn insert(
        &mut self,
        table: Oid,
        rows: Vec<Row>,
        on_conflict: OnConflict,
    ) -> Result<Vec<bool>> {
        self.check_writable("INSERT")?;
        let table = self.table_to_write(table).await?;
        let mut inserted = Vec::with_capacity(rows.len());
        for mut row in rows {
            if table.primary_key.is_none() && row.len() == table.columns.len() {
                row.push(Value::Int8(next_row_id(&table).await?));
            }
            inserted.push(self.insert_row(&table, &row, on_conflict).await?);
        }
        Ok(inserted)
    }

    async fn insert_row(
        &mut self,
        table: &Arc<Table>,
        row: &Row,
        on_conflict: OnConflict,
    ) -> Result<bool> {
        check_row(&self.catalog, table, row)?;
        let key = Bytes::from(row_key(table, row)?);
        let entries = entries(table, row, &key)?;
        let mut unique = unique_keys(table, &key, &entries);
        let mark = self.locks.mark();
        if let OnConflict::Skip(arbiter) = on_conflict {
            if self.skips_at_once(table, &unique, arbiter).await? {
                return Ok(false);
            }
            // All locks first, in the order of every writer; then the arbiter decides before the others.
            for found in &unique {
                let lock = LockKey::Row(table.tree, found.key.clone());
                self.locks.take(lock, Mode::Update, Wait::Wait).await?;
            }
            unique.sort_by_key(|found| arbiter.is_some_and(|arbiter| found.oid != arbiter));
        }
        for found in unique {
            let lock = LockKey::Row(table.tree, found.key.clone());
            self.locks.take(lock.clone(), Mode::Update, Wait::Wait).await?;
            if self.exists(table, &found.key).await? {
                self.skip(table, &found, row, on_conflict)?;
                self.locks.undo_to(mark);
                return Ok(false);
            }
            self.check_is_not_newer(&lock)?;
        }
        self.write_row(table, row, key)?;
        for Entry { key, value, .. } in entries {
            self.writes.set(table.tree, key, Some(value))?;
        }
        Ok(true)
    }

    /// Returns true if a row to be inserted meets a key of the arbiter, or of any index without one, that is
    /// committed and that no other is about to change: then nothing needs a lock.
    async fn skips_at_once(
        &self,
        table: &Table,
        unique: &[UniqueKey<'_>],
        arbiter: Option<Oid>,
    ) -> Result<bool> {
        for found in unique.iter().filter(|found| arbiter.is_none_or(|oid| found.oid == oid)) {
            let lock = LockKey::Row(table.tree, found.key.clone());
            // The lock is looked at after the value: a commit that wrote it has noted the key by then.
            if self.exists(table, &found.key).await? && self.locks.would_fit(&lock, Mode::KeyShare)
            {
                self.check_is_not_newer(&lock)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn write_row(&mut self, table: &Table, row: &Row, key: Bytes) -> Result<()> {
        let cell = crate::format::row::encode_row(&table.layout, &table.columns, row);
        self.writes.set(table.tree, key, Some(cell.into()))
    }

    /// Leaves out a row whose key is there, or fails.
    fn skip(
        &self,
        table: &Table,
        found: &UniqueKey<'_>,
        row: &Row,
        on_conflict: OnConflict,
    ) -> Result<()> {
        match on_conflict {
            OnConflict::Skip(arbiter) if arbiter.is_none_or(|arbiter| arbiter == found.oid) => {
                self.check_is_not_newer(&LockKey::Row(table.tree, found.key.clone()))
            }
            _ => Err(self.violation(table, found.name, found.places, row)),
        }
    }

    fn violation(&self, table: &Table, name: &str, places: &[usize], row: &Row) -> Error {
        let error = unique_violation(table, name, places, row);
        error.of_table(schema_name(&self.catalog, table), &table.name)
    }

    /// Returns the row that has the unique key of `row`, locked, for ON CONFLICT DO UPDATE: by the index
    /// `arbiter`, or by the primary key if none is given. Returns nothing if no row has the key; then the
    /// key is locked, and an insert of `row` meets no conflict of this index.
    ///
    /// 40001 in REPEATABLE READ if a commit after the snapshot wrote that row.
    pub async fn conflicting(
        &mut self,
        table: Oid,
        row: &Row,
        arbiter: Option<Oid>,
    ) -> Result<Option<Row>> {
        self.check_writable("INSERT")?;
        let table = self.table_to_write(table).await?;
        let at = match arbiter {
            Some(oid) if table.primary_key.as_ref().is_none_or(|key| key.oid != oid) => {
                let at = table.indexes.iter().position(|index| index.oid == oid && index.unique);
                Some(at.ok_or_else(|| Error::internal("the arbiter is no unique index"))?)
            }
            _ => None,
        };
        match at {
            Some(at) => self.conflicting_entry(&table, at, row).await,
            None => self.conflicting_key(&table, row).await,
        }
    }

    async fn conflicting_key(&mut self, table: &Arc<Table>, row: &Row) -> Result<Option<Row>> {
        if table.primary_key.is_none() {
            return Ok(None);
        }
        let key = Bytes::from(row_key(table, row)?);
        self.lock_key(table, &key, Mode::Update, Wait::Wait).await?;
        self.newest_row(table, &key).await
    }

    /// Finds the row of an entry. Rows are locked before entries, as every writer does, so the entry is looked up
    /// again once it is locked; if it is another one, the locks are given back.
    async fn conflicting_entry(
        &mut self,
        table: &Arc<Table>,
        at: usize,
        row: &Row,
    ) -> Result<Option<Row>> {
        // A key that is NULL or too long is refused by the insert.
        let own_key = table.primary_key.as_ref().and_then(|_| row_key(table, row).ok());
        let own_key = own_key.map(Bytes::from);
        // The value of the entry, the row's key, does not matter.
        let entry = entry_of(table, at, row, &[])?;
        if !entry.is_distinct {
            return Ok(None);
        }
        loop {
            let mark = self.locks.mark();
            let seen = self.newest(table, &entry.key).await?;
            let found = seen.as_ref().map(|key| whole_key(table, key));
            if let Some(key) = found.as_ref().or(own_key.as_ref()) {
                let lock = LockKey::Row(table.tree, key.clone());
                self.locks.take(lock, Mode::Update, Wait::Wait).await?;
            }
            let lock = LockKey::Row(table.tree, entry.key.clone());
            self.locks.take(lock.clone(), Mode::Update, Wait::Wait).await?;
            if self.newest(table, &entry.key).await? != seen {
                self.locks.undo_to(mark);
                continue;
            }
            self.check_is_not_newer(&lock)?;
            let Some(key) = found else { return Ok(None) };
            self.check_is_not_newer(&LockKey::Row(table.tree, key.clone()))?;
            // Its deletion would have needed the lock of the entry.
            let row = self.newest_row(table, &key).await?;
            let name = &table.indexes[at].name;
            let text = format!("index \"{name}\" names a row that is not there");
            return row.map(Some).ok_or_else(|| Error::new(SqlState::INDEX_CORRUPTED, text));
        }
    }

    /// Replaces a row. `old` is the row as [`Self::lock`] returned it, or as this transaction wrote it.
    /// `new` has the same width; the row id of a table without a primary key stays.
    ///
    /// 23502 and 23505 with the constraint. 40001 if the row was not locked and is not as `old` is.
    pub async fn update(&mut self, table: Oid, old: &Row, new: Row) -> Result<()> {
        self.check_writable("UPDATE")?;
        let table = self.table_to_write(table).await?;
        check_row(&self.catalog, &table, &new)?;
        let old_key = Bytes::from(row_key(&table, old)?);
        let new_key = Bytes::from(row_key(&table, &new)?);
        let is_moved = old_key != new_key;
        let mode = if is_moved { Mode::Update } else { Mode::NoKeyUpdate };
        self.lock_unchanged(&table, &old_key, old, mode).await?;
        if is_moved {
            let lock = LockKey::Row(table.tree, new_key.clone());
            self.locks.take(lock.clone(), Mode::Update, Wait::Wait).await?;
            if self.exists(&table, &new_key).await? {
                let name = table.primary_key.as_ref().map_or("", |key| &key.name);
                return Err(self.violation(&table, name, table.key_places(), &new));
            }
            self.check_is_not_newer(&lock)?;
            self.writes.set(table.tree, old_key.clone(), None)?;
        }
        for at in 0..table.indexes.len() {
            let before = entry_of(&table, at, old, &old_key)?;
            let after = entry_of(&table, at, &new, &new_key)?;
            if before.key == after.key && before.value == after.value {
                continue;
            }
            self.replace_entry(&table, at, before, after, &new).await?;
        }
        self.write_row(&table, &new, new_key)
    }

    /// Replaces the entry of a row in an index.
    async fn replace_entry(
        &mut self,
        table: &Table,
        at: usize,
        before: Entry,
        after: Entry,
        new: &Row,
    ) -> Result<()> {
        let is_other_key = before.key != after.key;
        if before.is_distinct {
            let lock = LockKey::Row(table.tree, before.key.clone());
            self.locks.take(lock, Mode::Update, Wait::Wait).await?;
        }
        if after.is_distinct {
            let lock = LockKey::Row(table.tree, after.key.clone());
            self.locks.take(lock.clone(), Mode::Update, Wait::Wait).await?;
            let is_taken = match is_other_key {
                true => self.exists(table, &after.key).await?,
                false => self.is_of_other_row(table, at, &before).await?,
            };
            if is_taken {
                let places = &table.layout.indexes[at].places;
                return Err(self.violation(table, &table.indexes[at].name, places, new));
            }
            self.check_is_not_newer(&lock)?;
        }
        if is_other_key {
            self.remove_entry(table, at, before).await?;
        }
        self.writes.set(table.tree, after.key, Some(after.value))
    }

    /// Removes the entry of a row, whose lock is held if it is distinct.
    async fn remove_entry(&mut self, table: &Table, at: usize, entry: Entry) -> Result<()> {
        match self.is_of_other_row(table, at, &entry).await? {
            true => Ok(()),
            false => self.writes.set(table.tree, entry.key, None),
        }
    }

    /// Returns true if the distinct entry with this key is of another row. That can be while an index is being
    /// built, before the build finds the key twice.
    async fn is_of_other_row(&self, table: &Table, at: usize, entry: &Entry) -> Result<bool> {
        if table.indexes[at].ready || !entry.is_distinct {
            return Ok(false);
        }
        let there = self.newest(table, &entry.key).await?;
        Ok(there.is_some_and(|row_key| row_key != entry.value))
    }

    /// Deletes a row. `old` is the row as [`Self::lock`] returned it, or as this transaction wrote it.
    ///
    /// 40001 if the row was not locked and is not as `old` is.
    pub async fn delete(&mut self, table: Oid, old: &Row) -> Result<()> {
        self.check_writable("DELETE")?;
        let table = self.table_to_write(table).await?;
        let key = Bytes::from(row_key(&table, old)?);
        self.lock_unchanged(&table, &key, old, Mode::Update).await?;
        for (at, entry) in entries(&table, old, &key)?.into_iter().enumerate() {
            if entry.is_distinct {
                let lock = LockKey::Row(table.tree, entry.key.clone());
                self.locks.take(lock, Mode::Update, Wait::Wait).await?;
            }
            self.remove_entry(&table, at, entry).await?;
        }
        self.writes.set(table.tree, key, None)
    }

    /// Locks a row for a change, unless that was done before. Fails with 40001 if it was not, and the row
    /// is not as `old` is.
    async fn lock_unchanged(
        &mut self,
        table: &Table,
        key: &Bytes,
        old: &Row,
        mode: Mode,
    ) -> Result<()> {
        let lock = LockKey::Row(table.tree, key.clone());
        if self.locks.has(&lock, Mode::NoKeyUpdate) {
            if mode == Mode::Update {
                self.locks.take(lock.clone(), mode, Wait::Wait).await?;
            }
            return self.check_is_not_newer(&lock);
        }
        self.lock_key(table, key, mode, Wait::Wait).await?;
        match self.newest_row(table, key).await? {
            Some(row) if row == *old => Ok(()),
            _ => Err(concurrent_update()),
        }
    }
}

/// Returns the key of a row in its tree.
fn row_key(table: &Table, row: &[Value]) -> Result<Vec<u8>> {
    let places = table.key_places();
    if places.iter().any(|place| *place >= row.len()) {
        return Err(Error::internal(format!("a row of table {} has no key", table.name)));
    }
    table.layout.key.encode(places.iter().map(|place| &row[*place]))
}

/// Returns the key of a row in its tree, from the value of a distinct entry.
fn whole_key(table: &Table, of_entry: &[u8]) -> Bytes {
    Bytes::from([&table.layout.key.prefix()[..], of_entry].concat())
}

/// Returns the keys of a row that no other row may have, in the order in which they are locked. Row ids are never
/// given twice, so they are not among them.
fn unique_keys<'a>(table: &'a Table, row_key: &Bytes, entries: &[Entry]) -> Vec<UniqueKey<'a>> {
    let primary = table.primary_key.iter().map(|key| UniqueKey {
        oid: key.oid,
        name: &key.name,
        places: table.key_places(),
        key: row_key.clone(),
    });
    let distinct = entries.iter().enumerate().filter(|(_, entry)| entry.is_distinct);
    let distinct = distinct.map(|(at, entry)| UniqueKey {
        oid: table.indexes[at].oid,
        name: &table.indexes[at].name,
        places: &table.layout.indexes[at].places,
        key: entry.key.clone(),
    });
    primary.chain(distinct).collect()
}

/// Returns the entries of a row in all indexes, in their order.
fn entries(table: &Table, row: &[Value], row_key: &[u8]) -> Result<Vec<Entry>> {
    (0..table.indexes.len()).map(|at| entry_of(table, at, row, row_key)).collect()
}

/// Returns the entry of a row in the index at a place. A distinct entry has the row's key as its value;
/// another one has it at the end of its own key. The part of the tree is left out of it.
fn entry_of(table: &Table, at: usize, row: &[Value], row_key: &[u8]) -> Result<Entry> {
    let (index, layout) = (&table.indexes[at], &table.layout.indexes[at]);
    index_entry(index, layout, row, row_key.get(2..).unwrap_or_default())
        .map(|(key, value, is_distinct)| Entry { key: key.into(), value, is_distinct })
}

/// Returns key and value of an index entry, and if no other row can have the key.
pub(super) fn index_entry(
    index: &Index,
    layout: &crate::catalog::IndexLayout,
    row: &[Value],
    row_key: &[u8],
) -> Result<(Vec<u8>, Bytes, bool)> {
    let mut key = layout.codec.encode(layout.places.iter().map(|place| &row[*place]))?;
    let is_distinct = index.unique && layout.places.iter().all(|place| !row[*place].is_null());
    let value = match is_distinct {
        true => Bytes::copy_from_slice(row_key),
        false => {
            key.extend_from_slice(row_key);
            Bytes::new()
        }
    };
    Ok((key, value, is_distinct))
}

/// Returns the error of a unique key that is there already.
pub(super) fn unique_violation(
    table: &Table,
    name: &str,
    places: &[usize],
    row: &[Value],
) -> Error {
    let columns: Vec<_> = places
        .iter()
        .map(|place| table.columns.get(*place).map_or("", |column| column.name.as_str()))
        .collect();
    let values: Vec<_> = places.iter().map(|place| row[*place].to_string()).collect();
    let (columns, values) = (columns.join(", "), values.join(", "));
    let message = format!("duplicate key value violates unique constraint \"{name}\"");
    Error::new(SqlState::UNIQUE_VIOLATION, message)
        .with_detail(format!("Key ({columns})=({values}) already exists."))
        .of_constraint(name)
}

/// Returns a row id that no row of the table has, nor ever had while the database is open.
async fn next_row_id(table: &Arc<Table>) -> Result<i64> {
    let storage = Arc::clone(table.storage()?);
    let begin = || async {
        let table = Arc::clone(table);
        let last = blocking(move || last_row_id(&table)).await?;
        Ok::<_, Error>(AtomicI64::new(last + 1))
    };
    let next = storage.next_row_id.get_or_try_init(begin).await?;
    Ok(next.fetch_add(1, Ordering::Relaxed))
}
