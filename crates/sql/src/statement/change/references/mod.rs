//! The foreign keys that the changed rows of a statement are part of.
//!
//! ```text
//! inserted, updated ─▶ values to look for ─▶ there and locked: done; otherwise looked for again at the end
//! deleted, updated  ─▶ keys that are gone ─▶ at the end: actions on referencing rows, until no more follow
//!                                            then NO ACTION, then the values that were not there
//! ```
//!
//! Invariants:
//! 1. A table without foreign keys from or to it has nothing to do here, and costs nothing.
//! 2. Each value is looked for once in a statement. A value that was found is locked, so it stays.
//! 3. A key that is gone was locked against new references before the rows that reference it are looked for.
//! 4. The tables that are reached here were locked before the statement began, so the catalog of then holds.

mod actions;

use crate::statement::Run;
use relational::catalog::{ForeignKey, KeyAction, KeyMatch, Privileges, Relation, Table};
use relational::{Catalog, Error, Oid, Result, Row, SqlState, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// Values that were found and are not looked for again, at most.
const FOUND_MAX: usize = 100_000;
/// Most bytes of values that a statement keeps for its end.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// A foreign key with the table that has it.
#[derive(Clone)]
struct Key {
    table: Arc<Table>,
    key: ForeignKey,
}

/// A key that no row has any more, or that another row may have.
struct Gone {
    key: Key,
    /// Values in the order of the foreign key's columns, as the referenced table has them.
    old: Vec<Value>,
    /// The values that the row has now; nothing if it was deleted.
    new: Option<Vec<Value>>,
}

/// Foreign keys at work in one statement.
pub(crate) struct References {
    work: Option<Box<Work>>,
}

struct Work {
    catalog: Arc<Catalog>,
    table: Oid,
    /// True if rows of referenced tables may still come in this statement.
    may_come: bool,
    found: HashSet<(Oid, Vec<Value>)>,
    missing: Vec<(Key, Vec<Value>)>,
    gone: Vec<Gone>,
    bytes: usize,
}

impl References {
    /// Returns the work of a statement that writes to a table.
    pub(crate) fn of(run: &Run<'_>, table: Oid) -> Self {
        let catalog = run.transaction.catalog();
        if !catalog.has_foreign_keys(table) {
            return Self { work: None };
        }
        let refuses = |action| matches!(action, KeyAction::NoAction | KeyAction::Restrict);
        let mut to = catalog.references_to(table);
        let may_come = to.any(|(other, key)| {
            other.oid == table || !refuses(key.on_delete) || !refuses(key.on_update)
        });
        drop(to);
        let work = Work {
            catalog,
            table,
            may_come,
            found: HashSet::new(),
            missing: Vec::new(),
            gone: Vec::new(),
            bytes: 0,
        };
        Self { work: Some(Box::new(work)) }
    }

    /// Returns whether the table is part of a foreign key.
    pub(crate) fn is_needed(&self) -> bool {
        self.work.is_some()
    }

    /// Takes note of a row that was inserted.
    pub(crate) async fn inserted(&mut self, run: &mut Run<'_>, row: &Row) -> Result<()> {
        match &mut self.work {
            Some(work) => work.written(run, work.table, None, row).await,
            None => Ok(()),
        }
    }

    /// Takes note of a row that was changed.
    pub(crate) async fn updated(&mut self, run: &mut Run<'_>, old: &Row, new: &Row) -> Result<()> {
        match &mut self.work {
            Some(work) => {
                work.left(work.table, old, Some(new))?;
                work.written(run, work.table, Some(old), new).await
            }
            None => Ok(()),
        }
    }

    /// Takes note of a row that was deleted.
    pub(crate) fn deleted(&mut self, old: &Row) -> Result<()> {
        match &mut self.work {
            Some(work) => work.left(work.table, old, None),
            None => Ok(()),
        }
    }

    /// Carries out what the changes ask for, at the end of the statement. 23503 if they break a foreign key.
    pub(crate) async fn finish(&mut self, run: &mut Run<'_>) -> Result<()> {
        match self.work.take() {
            Some(mut work) => Box::pin(work.finish(run)).await,
            None => Ok(()),
        }
    }
}

/// Returns the values at places of a row.
fn values_at(row: &Row, places: &[usize]) -> Vec<Value> {
    places.iter().map(|place| row.get(*place).cloned().unwrap_or_default()).collect()
}

fn bytes_of(values: &[Value]) -> usize {
    values.iter().map(Value::memory_bytes).sum::<usize>() + 64
}

impl Work {
    /// Looks for what a new row references, or a changed row as far as it references something else.
    async fn written(
        &mut self,
        run: &mut Run<'_>,
        table: Oid,
        old: Option<&Row>,
        new: &Row,
    ) -> Result<()> {
        let catalog = Arc::clone(&self.catalog);
        let Some(table) = catalog.table(table) else { return Ok(()) };
        for key in &table.foreign_keys {
            let places = key.places(table);
            let values = values_at(new, &places);
            if old.is_some_and(|old| values_at(old, &places) == values) {
                continue;
            }
            let nulls = values.iter().filter(|value| value.is_null()).count();
            if nulls > 0 {
                if key.matching == KeyMatch::Full && nulls < values.len() {
                    return Err(key.mixed(&catalog, table));
                }
                continue;
            }
            self.look(run, table, key, values).await?;
        }
        Ok(())
    }

    async fn look(
        &mut self,
        run: &mut Run<'_>,
        table: &Arc<Table>,
        key: &ForeignKey,
        values: Vec<Value>,
    ) -> Result<()> {
        let known = (key.oid, values);
        if self.found.contains(&known) {
            return Ok(());
        }
        if run.transaction.lock_referenced(key, &known.1).await? {
            if self.found.len() >= FOUND_MAX {
                self.found.clear();
            }
            self.found.insert(known);
            return Ok(());
        }
        // Without rows to come the first one fails the statement, whatever follows.
        if self.may_come || self.missing.iter().all(|(other, _)| other.key.oid != key.oid) {
            self.keep(&known.1)?;
            self.missing.push((Key { table: Arc::clone(table), key: key.clone() }, known.1));
        }
        Ok(())
    }

    /// Takes note of the keys that a row does not have any more.
    fn left(&mut self, table: Oid, old: &Row, new: Option<&Row>) -> Result<()> {
        let catalog = Arc::clone(&self.catalog);
        let Some(referenced) = catalog.table(table) else { return Ok(()) };
        for (other, key) in catalog.references_to(table) {
            let places = key.referenced_places(referenced);
            let before = values_at(old, &places);
            let after = new.map(|new| values_at(new, &places));
            if before.iter().any(Value::is_null) || after.as_ref() == Some(&before) {
                continue;
            }
            self.keep(&before)?;
            let key = Key { table: Arc::clone(other), key: key.clone() };
            self.gone.push(Gone { key, old: before, new: after });
        }
        Ok(())
    }

    /// Counts values that are kept for the end of the statement.
    fn keep(&mut self, values: &[Value]) -> Result<()> {
        self.bytes += bytes_of(values) + size_of::<Gone>();
        if self.bytes <= KEPT_BYTES_MAX {
            return Ok(());
        }
        let message = "the statement changes too many keys of foreign keys";
        Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
            .with_hint("Change fewer rows at once."))
    }

    /// Fails with the first value that is still not there.
    async fn look_again(&mut self, run: &mut Run<'_>) -> Result<()> {
        for (Key { table, key }, values) in std::mem::take(&mut self.missing) {
            run.flag.check()?;
            if !run.transaction.lock_referenced(&key, &values).await? {
                let shown = may_read(run, &table).then_some(&values[..]);
                return Err(key.not_present(&self.catalog, &table, shown));
            }
        }
        Ok(())
    }
}

/// Returns whether the role of the session may see the values of a table.
fn may_read(run: &Run<'_>, table: &Arc<Table>) -> bool {
    let catalog = run.transaction.catalog();
    let relation = Relation::Table(Arc::clone(table));
    run.environment(&catalog).check(&relation, Privileges::SELECT).is_ok()
}
