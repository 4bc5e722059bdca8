//! Changes of the catalog in a transaction.
//!
//! 1. The first change locks the catalog: one transaction at a time changes it. The change works on a copy
//!    of the catalog, which commits with the rows.
//! 2. A change of a table holds its lock `Exclusive`, so it waits for the transactions that write to it.
//!    Readers do not wait: they read on in their snapshots, with the catalog of then.
//! 3. Entries of a new index and rows of a rebuilt table are written before the commit. No reader sees them
//!    until the catalog names them. What an aborted change left is removed, and its place is not given again
//!    while the database is open; after a restart it is cleared before that.

mod alter;
mod build;
mod definitions;
mod foreign_keys;
mod indexes;
mod objects;
mod online;
mod roles;
mod tables;

pub use definitions::{
    AlterColumn, AlterTable, CommentOn, CreateTable, GrantChange, GrantOn, NewColumn,
    NewConstraint, NewForeignKey, NewIndex, NewRole, NewSequence, NewView, NewWide, RoleChange,
    SequenceChange,
};
pub use online::IndexProgress;

use super::{Isolation, Transaction};
use crate::catalog::Catalog;
use crate::database::blocking;
use crate::error::{Error, Result};
use crate::locks::{LockKey, Mode, TableLock, Wait};
use crate::read::View;
use crate::state::SqlState;
use crate::types::Oid;
use engine::Snapshot;
use std::sync::Arc;

/// Longest name in bytes, as PostgreSQL has it.
const NAME_BYTES_MAX: usize = 63;

impl Transaction {
    /// Locks the catalog and makes a copy of it for this transaction's changes.
    async fn begin_change(&mut self, what: &str) -> Result<()> {
        self.check_writable(what)?;
        if self.base.is_some() {
            return Ok(());
        }
        if self.snapshot.is_none() {
            self.see_now();
        }
        self.locks.take(LockKey::Catalog, Mode::TableExclusive, Wait::Wait).await?;
        let newest = self.database.catalog();
        if self.isolation == Isolation::RepeatableRead && newest.version != self.catalog.version {
            let message = "could not serialize access due to a concurrent change of the catalog";
            return Err(Error::new(SqlState::SERIALIZATION_FAILURE, message));
        }
        self.catalog = Arc::clone(&newest);
        self.base = Some(newest);
        Ok(())
    }

    /// Changes the transaction's copy of the catalog. After an error it is as before.
    fn change<T>(&mut self, change: impl FnOnce(&mut Catalog) -> Result<T>) -> Result<T> {
        let mut catalog = Catalog::clone(&self.catalog);
        let result = change(&mut catalog)?;
        catalog.version = self.database.next_catalog_version();
        self.catalog = Arc::new(catalog);
        Ok(result)
    }

    /// Begins a change of a table that is there: its writers have ended when this returns.
    async fn begin_table_change(&mut self, what: &str, table: Oid) -> Result<()> {
        self.begin_change(what).await?;
        self.table(table)?;
        let key = LockKey::Table(table);
        self.locks.take(key, TableLock::Exclusive.into(), Wait::Wait).await?;
        Ok(())
    }

    /// Begins a change of a table for which all of its rows are checked. Returns a view of the rows as they
    /// are then: writers have ended, and later ones wait for the end of the transaction.
    pub async fn view_to_check(&mut self, table: Oid) -> Result<View> {
        self.begin_table_change("ALTER TABLE", table).await?;
        Ok(self.view_of_now().0)
    }

    /// Returns a view of now, for what is built over all rows of a table whose writers have ended. From now
    /// on the transaction sees the rows of this view.
    ///
    /// 0A000 in REPEATABLE READ if the table has rows, now or in the snapshot, which would not see what is
    /// built.
    async fn view_to_build(&mut self, what: &str, table: Oid) -> Result<View> {
        let (view, snapshot) = self.view_of_now();
        if self.isolation == Isolation::RepeatableRead {
            let seen = self.view();
            if self.has_rows_in(view.clone(), table).await? || self.has_rows_in(seen, table).await?
            {
                let text = format!("{what} of a table with rows in a REPEATABLE READ transaction");
                return Err(Error::unsupported(text));
            }
            return Ok(view);
        }
        self.snapshot = Some(snapshot);
        Ok(view)
    }

    /// Returns a view of now, own writes included, and its snapshot.
    pub(super) fn view_of_now(&self) -> (View, Snapshot) {
        let snapshot = self.database.store.snapshot();
        let (catalog, written) = (Arc::clone(&self.catalog), self.writes.overlay().clone());
        (View::new(catalog, snapshot.clone(), written), snapshot)
    }

    /// Returns true if the table has a row by now, or one of this transaction.
    async fn has_rows(&mut self, table: Oid) -> Result<bool> {
        let (view, _) = self.view_of_now();
        self.has_rows_in(view, table).await
    }

    /// Returns true if a view has a row of the table as this transaction's catalog has it.
    async fn has_rows_in(&self, view: View, table: Oid) -> Result<bool> {
        let definition = self.table(table)?;
        blocking(move || view.has_rows_of(&definition)).await
    }
}

/// Fails with 42622 or 42602 if a name is too long, or empty.
fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains('\0') {
        return Err(Error::new(SqlState::INVALID_NAME, "invalid name"));
    }
    if name.len() > NAME_BYTES_MAX {
        let message = format!("name \"{name}\" is longer than {NAME_BYTES_MAX} bytes");
        return Err(Error::new(SqlState::NAME_TOO_LONG, message));
    }
    Ok(())
}

/// Fails with 42P07 if the schema has a table, index, view or sequence of that name.
fn check_free(catalog: &Catalog, schema: Oid, name: &str) -> Result<()> {
    check_name(name)?;
    if catalog.schema(schema).is_none() {
        let message = format!("schema with OID {schema} does not exist");
        return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, message));
    }
    match catalog.find(schema, name) {
        None => Ok(()),
        Some(_) => {
            let message = format!("relation \"{name}\" already exists");
            Err(Error::new(SqlState::DUPLICATE_TABLE, message))
        }
    }
}

/// Returns a name that is free in the schema and not among `taken`.
fn free_name(
    catalog: &Catalog,
    schema: Oid,
    words: (&str, &str, &str),
    taken: &[String],
) -> String {
    first_free(words, |name| {
        catalog.find(schema, name).is_none() && !taken.iter().any(|other| other == name)
    })
}

/// Returns the first name that is free of `first_second_label` and the same with a number, cut to the longest name.
fn first_free(
    (first, second, label): (&str, &str, &str),
    is_free: impl Fn(&str) -> bool,
) -> String {
    let stem = if second.is_empty() { first.to_owned() } else { format!("{first}_{second}") };
    for number in 0u32.. {
        let tail = match number {
            0 => format!("_{label}"),
            number => format!("_{label}{number}"),
        };
        let mut stem = stem.as_str();
        while stem.len() + tail.len() > NAME_BYTES_MAX {
            stem = stem.char_indices().next_back().map_or("", |(at, _)| &stem[..at]);
        }
        let name = format!("{stem}{tail}");
        if is_free(&name) {
            return name;
        }
    }
    stem
}

fn depends(what: &str, others: &[String]) -> Error {
    depends_so(what, format!("It is needed by {}.", others.join(", ")))
}

fn depends_so(what: &str, detail: String) -> Error {
    let message = format!("cannot drop {what} because other objects depend on it");
    Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .with_detail(detail)
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
