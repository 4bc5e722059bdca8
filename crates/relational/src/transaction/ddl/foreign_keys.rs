//! Foreign keys: creating them over rows that are there, and what may go while they need it.
//!
//! 1. A foreign key comes while both tables are locked against writers.
//! 2. The referenced table is replaced in the catalog when a foreign key comes, though nothing of it changes: the next
//!    statement that writes to it learns of the key.

use super::super::Transaction;
use super::super::references::unique_key;
use super::build::{for_each_row, until_dropped};
use super::definitions::NewForeignKey;
use super::indexes::table_of;
use super::tables::{duplicate_constraint, has_constraint, no_keys};
use super::{check_name, depends_so, first_free};
use crate::catalog::{
    Catalog, ColumnNumber, ForeignKey, IndexPart, KeyAction, KeyMatch, Table, are_comparable,
};
use crate::error::{Error, Result};
use crate::read::{CancelFlag, View};
use crate::state::SqlState;
use crate::types::{Oid, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// Values that were found to be there, and are not looked for again, at most.
const REMEMBERED_MAX: usize = 100_000;

impl Transaction {
    /// Adds a foreign key to a table that is there. 23503 if a row references no row.
    pub(super) async fn add_foreign_key(&mut self, table: Oid, new: &NewForeignKey) -> Result<()> {
        if let Some(references) = new.references.filter(|references| *references != table) {
            self.begin_table_change("ALTER TABLE", references).await?;
        }
        let key = self.change(|catalog| {
            let mut table = table_of(catalog, table)?;
            let key = add_foreign_key(catalog, &mut table, new)?;
            catalog.put_table(table);
            note_reference(catalog, &key);
            Ok(key)
        })?;
        let (table, referenced) = (self.table(table)?, self.table(key.references)?);
        let view = self.latest_view();
        until_dropped(move |cancel| check_rows(&view, &table, &referenced, &key, cancel)).await
    }

    /// Locks the tables whose foreign keys reference one of `tables`, for a change after which they may be gone.
    pub(super) async fn begin_change_of_referencing(
        &mut self,
        what: &str,
        tables: &[Oid],
    ) -> Result<()> {
        self.begin_change(what).await?;
        let of = |table: &Oid| self.catalog.references_to(*table).map(|(other, _)| other.oid);
        let others: Vec<Oid> = tables.iter().flat_map(of).collect();
        for other in others.into_iter().filter(|other| !tables.contains(other)) {
            self.begin_table_change(what, other).await?;
        }
        Ok(())
    }
}

/// Fails with 23503 if a row of a table references no row. Blocks.
fn check_rows(
    view: &View,
    table: &Arc<Table>,
    referenced: &Table,
    key: &ForeignKey,
    cancel: CancelFlag,
) -> Result<()> {
    let places = key.places(table);
    let mut found: HashSet<Vec<Value>> = HashSet::new();
    for_each_row(view, table, cancel, |row| {
        let values: Vec<Value> = places.iter().map(|place| row[*place].clone()).collect();
        let nulls = values.iter().filter(|value| value.is_null()).count();
        if nulls > 0 {
            return match key.matching {
                KeyMatch::Full if nulls < values.len() => Err(key.mixed(view.catalog(), table)),
                _ => Ok(()),
            };
        }
        if found.contains(&values) {
            return Ok(());
        }
        let wanted = key.wanted(referenced, &values);
        let wanted = wanted.map(|wanted| unique_key(referenced, key.index, &wanted)).transpose()?;
        match wanted.flatten() {
            Some(wanted) if view.has_key(referenced, &wanted)? => {}
            _ => return Err(key.not_present(view.catalog(), table, Some(&values))),
        }
        if found.len() >= REMEMBERED_MAX {
            found.clear();
        }
        found.insert(values);
        Ok(())
    })
}

/// Has the next writers of the referenced table learn of a foreign key.
pub(super) fn note_reference(catalog: &mut Catalog, key: &ForeignKey) {
    if let Some(referenced) = catalog.table(key.references).map(|table| Table::clone(table)) {
        catalog.put_table(referenced);
    }
}

/// Adds a foreign key to a table, without a look at its rows.
///
/// 42703 for a column that is not there, 42704 if the referenced table has no primary key, 42830 if the referenced
/// columns are no unique key, 42804 if types do not match, 42710 if the name is taken, 0A000 if one of the tables is
/// columnar.
pub(super) fn add_foreign_key(
    catalog: &mut Catalog,
    table: &mut Table,
    new: &NewForeignKey,
) -> Result<ForeignKey> {
    if table.is_columnar() {
        return Err(no_keys());
    }
    let columns = numbers(table, &new.columns)?;
    let own = table.clone();
    let referenced = match new.references {
        Some(oid) if oid != table.oid => table_of(catalog, oid)?,
        _ => own,
    };
    if referenced.is_columnar() {
        return Err(no_keys());
    }
    let (index, numbers) = referenced_key(&referenced, &new.referenced)?;
    if columns.len() != numbers.len() {
        let message = "number of referencing and referenced columns for foreign key disagree";
        return Err(Error::new(SqlState::INVALID_FOREIGN_KEY, message));
    }
    let name = match &new.name {
        Some(name) => name.clone(),
        None => {
            let words = (table.name.as_str(), new.columns.join("_"), "fkey");
            free_constraint_name(catalog, table, (words.0, &words.1, words.2))
        }
    };
    check_name(&name)?;
    if has_constraint(table, &name) {
        return Err(duplicate_constraint(table, &name));
    }
    let (on_delete, on_update) = (new.on_delete, new.on_update);
    let (oid, references, matching) = (catalog.take_oid(), referenced.oid, new.matching);
    let key = ForeignKey {
        oid,
        name,
        columns,
        references,
        referenced: numbers,
        index,
        on_delete,
        on_update,
        matching,
    };
    check_types(table, &referenced, &key)?;
    check_generated(table, &key)?;
    table.foreign_keys.push(key.clone());
    Ok(key)
}

fn numbers(table: &Table, names: &[String]) -> Result<Vec<ColumnNumber>> {
    let number = |name: &String| match table.column(name) {
        Some((_, column)) => Ok(column.number),
        None => {
            let message =
                format!("column \"{name}\" referenced in foreign key constraint does not exist");
            Err(Error::new(SqlState::UNDEFINED_COLUMN, message))
        }
    };
    names.iter().map(number).collect()
}

/// Returns the index over the referenced columns, and their numbers: of the primary key if no columns are named.
fn referenced_key(table: &Table, names: &[String]) -> Result<(Oid, Vec<ColumnNumber>)> {
    if names.is_empty() {
        let key = table.primary_key.as_ref().ok_or_else(|| {
            let message =
                format!("there is no primary key for referenced table \"{}\"", table.name);
            Error::new(SqlState::UNDEFINED_OBJECT, message)
        })?;
        return Ok((key.oid, key.parts.iter().map(|part| part.column).collect()));
    }
    let numbers = numbers(table, names)?;
    if numbers.iter().enumerate().any(|(at, number)| numbers[..at].contains(number)) {
        let message = "foreign key referenced-columns list must not contain duplicates";
        return Err(Error::new(SqlState::INVALID_FOREIGN_KEY, message));
    }
    let matches = |parts: &[IndexPart]| {
        parts.len() == numbers.len() && parts.iter().all(|part| numbers.contains(&part.column))
    };
    let primary = table.primary_key.iter().map(|key| (key.oid, &key.parts));
    let unique = table.indexes.iter().filter(|index| index.unique && index.ready);
    let mut all = primary.chain(unique.map(|index| (index.oid, &index.parts)));
    let found = all.find(|(_, parts)| matches(parts)).map(|(oid, _)| oid);
    let oid = found.ok_or_else(|| {
        let name = &table.name;
        let message = format!(
            "there is no unique constraint matching given keys for referenced table \"{name}\""
        );
        Error::new(SqlState::INVALID_FOREIGN_KEY, message)
    })?;
    Ok((oid, numbers))
}

/// Fails with 42804 if a referencing column has another type than the referenced one.
fn check_types(table: &Table, referenced: &Table, key: &ForeignKey) -> Result<()> {
    let places = key.places(table).into_iter().zip(key.referenced_places(referenced));
    for (one, two) in places {
        let (one, two) = (&table.columns[one], &referenced.columns[two]);
        if !are_comparable(&one.data_type, &two.data_type) {
            let message = format!("foreign key constraint \"{}\" cannot be implemented", key.name);
            let detail = format!(
                "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                one.name, two.name, one.data_type, two.data_type
            );
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, message).with_detail(detail));
        }
    }
    Ok(())
}

/// Fails with 42601 if an action would write to a generated column.
fn check_generated(table: &Table, key: &ForeignKey) -> Result<()> {
    let places = key.places(table);
    if places.iter().all(|place| table.columns[*place].generated.is_none()) {
        return Ok(());
    }
    use KeyAction::{Cascade, SetDefault, SetNull};
    let verb = if matches!(key.on_update, Cascade | SetDefault | SetNull) {
        "UPDATE"
    } else if matches!(key.on_delete, SetDefault | SetNull) {
        "DELETE"
    } else {
        return Ok(());
    };
    let message =
        format!("invalid ON {verb} action for foreign key constraint containing generated column");
    Err(Error::new(SqlState::SYNTAX_ERROR, message))
}

/// Returns a name that no constraint of the table's schema has.
fn free_constraint_name(catalog: &Catalog, table: &Table, words: (&str, &str, &str)) -> String {
    let others = catalog.tables().filter(|other| other.schema == table.schema);
    let others: Vec<_> = others.filter(|other| other.oid != table.oid).collect();
    first_free(words, |name| {
        !has_constraint(table, name) && !others.iter().any(|other| has_constraint(other, name))
    })
}

/// Fails with 42804 if a column of a table has a type now that a foreign key cannot compare.
pub(super) fn check_key_types(catalog: &Catalog, table: Oid) -> Result<()> {
    let table = table_of(catalog, table)?;
    for key in &table.foreign_keys {
        check_types(&table, &table_of(catalog, key.references)?, key)?;
    }
    catalog.references_to(table.oid).try_for_each(|(other, key)| check_types(other, &table, key))
}

/// Drops the foreign keys that reference a table and need `what` of it, or refuses if there are any and `cascade` is not
/// set. Keys of the tables `without` are left alone.
pub(super) fn drop_references(
    catalog: &mut Catalog,
    table: Oid,
    (what, needed): (&str, &str),
    needs: impl Fn(&ForeignKey) -> bool,
    (without, cascade): (&[Oid], bool),
) -> Result<()> {
    let keys = catalog.references_to(table);
    let keys = keys.filter(|(other, key)| needs(key) && !without.contains(&other.oid));
    let keys: Vec<(Arc<Table>, ForeignKey)> =
        keys.map(|(other, key)| (Arc::clone(other), key.clone())).collect();
    if !keys.is_empty() && !cascade {
        let line = |(other, key): &(Arc<Table>, ForeignKey)| {
            format!("constraint {} on table {} depends on {needed}", key.name, other.name)
        };
        let lines: Vec<_> = keys.iter().map(line).collect();
        return Err(depends_so(what, lines.join("\n")));
    }
    for (other, key) in keys {
        let mut other = table_of(catalog, other.oid)?;
        other.foreign_keys.retain(|known| known.oid != key.oid);
        catalog.put_table(other);
    }
    Ok(())
}
