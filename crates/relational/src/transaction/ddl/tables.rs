//! Creating, emptying and dropping tables.

use super::super::Transaction;
use super::definitions::{CreateTable, NewColumn, NewConstraint, NewForeignKey};
use super::foreign_keys::{add_foreign_key, drop_references, note_reference};
use super::indexes::table_of;
use super::{check_free, check_name, depends, free_name};
use crate::catalog::{
    Catalog, Check, Column, Index, IndexPart, Layout, PrimaryKey, ROWS_PART, Table,
};
use crate::database::{Storage, blocking};
use crate::error::{Error, Result};
use crate::format::key::can_be_key;
use crate::state::SqlState;
use crate::types::{Oid, Value};
use std::sync::Arc;

/// Most columns of a table, as PostgreSQL has it.
const COLUMNS_MAX: usize = 1_600;
/// Most columns of a key.
const KEY_COLUMNS_MAX: usize = 32;

impl Transaction {
    /// Creates an empty table and returns its number.
    ///
    /// 42P07 if the name is taken, 42701 for two columns of one name, 42703 for a constraint over a column
    /// that is not there, 42P16 for two primary keys, 0A000 for a key of a type without an order of bytes. 42704, 42830
    /// and 42804 for a foreign key that references no unique key of the same types.
    pub async fn create_table(&mut self, new: CreateTable) -> Result<Oid> {
        self.begin_change("CREATE TABLE").await?;
        for constraint in &new.constraints {
            if let NewConstraint::ForeignKey(NewForeignKey { references: Some(table), .. }) =
                constraint
            {
                self.begin_table_change("CREATE TABLE", *table).await?;
            }
        }
        check_free(&self.catalog, new.schema, &new.name)?;
        // Checked before a tree is made for it.
        let mut trial = Catalog::clone(&self.catalog);
        define(&mut trial, &new, 0)?;
        let storage = self.new_storage(new.columnar).await?;
        self.change(|catalog| {
            let mut table = define(catalog, &new, storage.number())?;
            table.columnar = storage.columnar();
            table.storage = Some(storage);
            let (oid, keys) = (table.oid, table.foreign_keys.clone());
            catalog.put_table(table);
            keys.iter().for_each(|key| note_reference(catalog, key));
            Ok(oid)
        })
    }

    /// Makes a tree, of a columnar table two, that are dropped unless the catalog names them at the commit.
    pub(super) async fn new_storage(&mut self, columnar: bool) -> Result<Arc<Storage>> {
        let database = Arc::clone(&self.database);
        let storage =
            blocking(move || Storage::create(&database.store, columnar, &database.garbage));
        let storage = storage.await?;
        self.created.push(Arc::clone(&storage));
        Ok(storage)
    }

    /// Drops a table with its rows, indexes and the sequences of its columns. With `cascade` the views that
    /// read it and the foreign keys that reference it are dropped too; without it they are a reason to refuse (2BP01).
    pub async fn drop_table(&mut self, table: Oid, cascade: bool) -> Result<()> {
        self.drop_tables(&[table], cascade).await
    }

    /// Drops tables as [`Self::drop_table`] does. They may reference each other.
    pub async fn drop_tables(&mut self, tables: &[Oid], cascade: bool) -> Result<()> {
        for table in tables {
            self.begin_table_change("DROP TABLE", *table).await?;
        }
        if cascade {
            self.begin_change_of_referencing("DROP TABLE", tables).await?;
        }
        self.change(|catalog| drop_tables(catalog, tables, cascade))
    }

    /// Has a sequence begin again: its next number is its first one, or `at`. Others see that when the transaction
    /// commits. 22023 outside of the bounds of the sequence.
    pub async fn restart_sequence(&mut self, sequence: Oid, at: Option<i64>) -> Result<()> {
        self.begin_change("ALTER SEQUENCE").await?;
        let missing = || Error::new(SqlState::UNDEFINED_TABLE, "the sequence does not exist");
        let sequence = self.catalog.sequence(sequence).ok_or_else(missing)?;
        let first = at.unwrap_or(sequence.start);
        let (min, max) = (sequence.min, sequence.max);
        let bound = match () {
            () if first < min => format!("less than MINVALUE ({min})"),
            () if first > max => format!("greater than MAXVALUE ({max})"),
            () => {
                self.restarts.add(sequence.oid, first);
                return Ok(());
            }
        };
        let message = format!("RESTART value ({first}) cannot be {bound}");
        Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
    }

    /// Removes all rows of tables at once. The sequences of their columns go on. 0A000 if a foreign key of another
    /// table references one of them.
    pub async fn truncate(&mut self, tables: &[Oid]) -> Result<()> {
        for table in tables {
            self.begin_table_change("TRUNCATE TABLE", *table).await?;
        }
        check_truncate(&self.catalog, tables)?;
        for table in tables {
            let storage = self.new_storage(self.table(*table)?.is_columnar()).await?;
            self.change(|catalog| {
                let mut table = table_of(catalog, *table)?;
                (table.tree, table.columnar) = (storage.number(), storage.columnar());
                table.storage = Some(storage);
                catalog.put_table(table);
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn check_truncate(catalog: &Catalog, tables: &[Oid]) -> Result<()> {
    for table in tables {
        let mut others = catalog.references_to(*table).map(|(other, _)| other);
        if let Some(other) = others.find(|other| !tables.contains(&other.oid)) {
            let (name, other) = (table_of(catalog, *table)?.name, &other.name);
            let message = "cannot truncate a table referenced in a foreign key constraint";
            let hint = format!(
                "Truncate table \"{other}\" at the same time, or use TRUNCATE ... CASCADE."
            );
            return Err(Error::unsupported(message)
                .with_detail(format!("Table \"{other}\" references \"{name}\"."))
                .with_hint(hint));
        }
    }
    Ok(())
}

/// Returns the views that read one of the relations, directly or through other views.
pub(super) fn views_over(catalog: &Catalog, mut of: Vec<Oid>) -> Vec<Oid> {
    let mut found = Vec::new();
    while let Some(oid) = of.pop() {
        for view in catalog.views().filter(|view| view.reads.contains(&oid)) {
            if !found.contains(&view.oid) {
                found.push(view.oid);
                of.push(view.oid);
            }
        }
    }
    found
}

/// Drops the views over a relation, or refuses if there are any and `cascade` is not set.
pub(super) fn drop_views_over(
    catalog: &mut Catalog,
    of: Oid,
    what: &str,
    cascade: bool,
) -> Result<()> {
    let views = views_over(catalog, vec![of]);
    if !views.is_empty() && !cascade {
        let names = views.iter().filter_map(|oid| catalog.view(*oid));
        let names: Vec<_> = names.map(|view| format!("view {}", view.name)).collect();
        return Err(depends(what, &names));
    }
    views.into_iter().for_each(|view| catalog.remove_view(view));
    Ok(())
}

pub(super) fn drop_tables(catalog: &mut Catalog, tables: &[Oid], cascade: bool) -> Result<()> {
    for table in tables {
        let name = format!("table {}", table_of(catalog, *table)?.name);
        drop_references(catalog, *table, (&name, &name), |_| true, (tables, cascade))?;
        drop_views_over(catalog, *table, &name, cascade)?;
    }
    tables.iter().for_each(|table| drop_table(catalog, *table));
    Ok(())
}

fn drop_table(catalog: &mut Catalog, table: Oid) {
    let owned = catalog
        .sequences()
        .filter(|sequence| sequence.owned_by.is_some_and(|(owner, _)| owner == table));
    let owned: Vec<_> = owned.map(|sequence| sequence.oid).collect();
    owned.into_iter().for_each(|sequence| catalog.remove_sequence(sequence));
    catalog.remove_table(table);
}

/// Returns a new table. Numbers are taken from the catalog.
fn define(catalog: &mut Catalog, new: &CreateTable, tree: u32) -> Result<Table> {
    if new.columns.len() > COLUMNS_MAX {
        let message = format!("tables can have at most {COLUMNS_MAX} columns");
        return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
    }
    let mut table = Table {
        oid: catalog.take_oid(),
        schema: new.schema,
        name: new.name.clone(),
        owner: new.owner,
        columns: Vec::new(),
        primary_key: None,
        indexes: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        columnar: None,
        comment: None,
        grants: Vec::new(),
        next_column: 1,
        tree,
        next_part: ROWS_PART + 1,
        layout: Layout::default(),
        storage: None,
        definition: Default::default(),
    };
    for column in &new.columns {
        add_column(&mut table, column, Value::Null)?;
    }
    // The primary key first: its name is the one that others avoid. Foreign keys last: they may reference the table.
    let rank = |constraint: &&NewConstraint| match constraint {
        NewConstraint::PrimaryKey { .. } => 0,
        NewConstraint::ForeignKey(_) => 2,
        _ => 1,
    };
    let mut constraints: Vec<_> = new.constraints.iter().collect();
    constraints.sort_by_key(rank);
    for constraint in constraints {
        if new.columnar && !matches!(constraint, NewConstraint::Check { .. }) {
            return Err(no_keys());
        }
        add_constraint(catalog, &mut table, constraint)?;
    }
    Ok(table)
}

/// Adds a column to a table. 42701 if the name is taken.
pub(super) fn add_column(table: &mut Table, new: &NewColumn, missing: Value) -> Result<()> {
    check_name(&new.name)?;
    if table.column(&new.name).is_some() {
        let (column, table) = (&new.name, &table.name);
        let message = format!("column \"{column}\" of relation \"{table}\" already exists");
        return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
    }
    if table.columns.len() >= COLUMNS_MAX || table.next_column == i16::MAX {
        let message = format!("tables can have at most {COLUMNS_MAX} columns");
        return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
    }
    table.columns.push(Column {
        number: table.next_column,
        name: new.name.clone(),
        data_type: new.data_type.clone(),
        not_null: new.not_null,
        default: new.default.clone(),
        identity: new.identity,
        precision: new.precision,
        generated: new.generated.clone(),
        missing,
        comment: None,
    });
    table.next_column += 1;
    Ok(())
}

/// Adds a constraint to a table. Its entries are not built.
pub(super) fn add_constraint(
    catalog: &mut Catalog,
    table: &mut Table,
    constraint: &NewConstraint,
) -> Result<()> {
    if table.is_columnar() && !matches!(constraint, NewConstraint::Check { .. }) {
        return Err(no_keys());
    }
    match constraint {
        NewConstraint::PrimaryKey { name, columns } => {
            if table.primary_key.is_some() {
                let name = &table.name;
                let message = format!("multiple primary keys for table \"{name}\" are not allowed");
                return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
            }
            let parts = parts_of(table, columns.iter().map(|name| (name.as_str(), false, false)))?;
            let name = index_name(catalog, table, name.as_deref(), ("", "pkey"))?;
            for part in &parts {
                table
                    .columns
                    .iter_mut()
                    .filter(|column| column.number == part.column)
                    .for_each(|column| column.not_null = true);
            }
            let (oid, constraint) = (catalog.take_oid(), catalog.take_oid());
            table.primary_key = Some(PrimaryKey { oid, constraint, name, parts, comment: None });
        }
        NewConstraint::Unique { name, columns } => {
            let parts = columns.iter().map(|name| (name.as_str(), false, false));
            let parts = parts_of(table, parts)?;
            let name = index_name(catalog, table, name.as_deref(), (&columns.join("_"), "key"))?;
            let index = new_index(catalog, table, name, true, parts)?;
            let constraint = Some(catalog.take_oid());
            table.indexes.push(Index { constraint, ..index });
        }
        NewConstraint::Check { name, expression } => {
            let name = match name {
                Some(name) => name.clone(),
                None => free_check_name(table),
            };
            check_name(&name)?;
            if has_constraint(table, &name) {
                return Err(duplicate_constraint(table, &name));
            }
            let oid = catalog.take_oid();
            table.checks.push(Check { oid, name, expression: expression.clone() });
        }
        NewConstraint::ForeignKey(key) => {
            add_foreign_key(catalog, table, key)?;
        }
    }
    Ok(())
}

/// Returns the error of a key or foreign key of a columnar table.
pub(super) fn no_keys() -> Error {
    let message = "columnar tables have no primary keys, unique constraints or foreign keys";
    Error::unsupported(message)
}

fn free_check_name(table: &Table) -> String {
    let name = |number: u32| match number {
        0 => format!("{}_check", table.name),
        number => format!("{}_check{number}", table.name),
    };
    (0..).map(name).find(|name| !has_constraint(table, name)).unwrap_or_default()
}

/// Returns true if the table has a constraint of that name.
pub(super) fn has_constraint(table: &Table, name: &str) -> bool {
    table.checks.iter().any(|check| check.name == name)
        || table.foreign_keys.iter().any(|key| key.name == name)
        || table.primary_key.as_ref().is_some_and(|key| key.name == name)
        || table.indexes.iter().any(|index| index.constraint.is_some() && index.name == name)
}

pub(super) fn duplicate_constraint(table: &Table, name: &str) -> Error {
    let message = format!("constraint \"{name}\" for relation \"{}\" already exists", table.name);
    Error::new(SqlState::DUPLICATE_OBJECT, message)
}

/// Returns a new index of a table, which the caller adds.
pub(super) fn new_index(
    catalog: &mut Catalog,
    table: &mut Table,
    name: String,
    unique: bool,
    parts: Vec<IndexPart>,
) -> Result<Index> {
    let part = match &table.storage {
        Some(storage) => storage.take_part(table.next_part),
        None => Some(table.next_part),
    };
    let part = part.and_then(|part| Some((part, part.checked_add(1)?)));
    let (part, next_part) = part.ok_or_else(|| {
        let message = format!("table \"{}\" has had too many indexes", table.name);
        Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
    })?;
    table.next_part = next_part;
    let oid = catalog.take_oid();
    Ok(Index { oid, name, unique, constraint: None, parts, ready: true, part, comment: None })
}

/// Returns the name of a new index: the one that is given, if it is free, or one of its own.
pub(super) fn index_name(
    catalog: &Catalog,
    table: &Table,
    name: Option<&str>,
    (columns, label): (&str, &str),
) -> Result<String> {
    let indexes = table.indexes.iter().map(|index| index.name.clone());
    let key = table.primary_key.iter().map(|key| key.name.clone());
    let mut taken: Vec<_> = indexes.chain(key).collect();
    taken.push(table.name.clone());
    let Some(name) = name else {
        return Ok(free_name(catalog, table.schema, (&table.name, columns, label), &taken));
    };
    check_free(catalog, table.schema, name)?;
    if taken.iter().any(|other| other == name) {
        let message = format!("relation \"{name}\" already exists");
        return Err(Error::new(SqlState::DUPLICATE_TABLE, message));
    }
    Ok(name.to_owned())
}

/// Returns the parts of a key over columns by name. 42703 if one is not there.
pub(super) fn parts_of<'a>(
    table: &Table,
    columns: impl Iterator<Item = (&'a str, bool, bool)>,
) -> Result<Vec<IndexPart>> {
    let mut parts: Vec<IndexPart> = Vec::new();
    for (name, descending, nulls_first) in columns {
        let Some((_, column)) = table.column(name) else {
            let message = format!("column \"{name}\" does not exist");
            return Err(Error::new(SqlState::UNDEFINED_COLUMN, message));
        };
        if !can_be_key(&column.data_type) {
            let data_type = &column.data_type;
            return Err(Error::unsupported(format!("type {data_type} cannot be part of a key")));
        }
        if parts.iter().any(|part| part.column == column.number) {
            let message = format!("column \"{name}\" appears twice in a key");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
        parts.push(IndexPart { column: column.number, descending, nulls_first });
    }
    if parts.is_empty() || parts.len() > KEY_COLUMNS_MAX {
        let message = format!("a key has 1 to {KEY_COLUMNS_MAX} columns");
        return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
    }
    Ok(parts)
}
