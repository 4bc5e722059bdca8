//! Changes of tables.

use super::super::Transaction;
use super::build::{for_each_row, until_dropped};
use super::definitions::{AlterColumn, AlterTable, NewConstraint};
use super::foreign_keys::{check_key_types, drop_references};
use super::indexes::table_of;
use super::tables::{
    add_column, add_constraint, drop_views_over, duplicate_constraint, has_constraint,
};
use super::{check_free, check_name};
use crate::catalog::{ForeignKey, Layout, Table};
use crate::error::{Error, Result};
use crate::format::{decode_value, encode_value};
use crate::state::SqlState;
use crate::types::{DataType, Oid, Value};

impl Transaction {
    /// Changes a table. Errors are as of creating what is added; 0A000 for a change of type for which rows
    /// would have to be written again, 23502, 23503 and 23505 if rows that are there break a new constraint.
    /// 2BP01 if a foreign key needs what is dropped.
    pub async fn alter_table(&mut self, table: Oid, change: AlterTable) -> Result<()> {
        self.begin_table_change("ALTER TABLE", table).await?;
        match change {
            AlterTable::AddColumn { column, missing } => {
                if column.not_null && missing.is_null() && self.has_rows(table).await? {
                    return Err(contains_nulls(&table_of(&self.catalog, table)?, &column.name));
                }
                self.edit(table, |table| add_column(table, &column, missing))
            }
            AlterTable::DropColumn { name, cascade } => {
                self.drop_column(table, &name, cascade).await
            }
            AlterTable::RenameColumn { from, to } => {
                self.edit(table, |table| rename_column(table, &from, &to))
            }
            AlterTable::SetExpressions { checks, generated } => self.edit(table, |table| {
                set_expressions(table, checks, generated);
                Ok(())
            }),
            AlterTable::Column { name, change } => self.alter_column(table, &name, change).await,
            AlterTable::Rename(name) => self.move_table(table, None, Some(name)),
            AlterTable::SetSchema(schema) => self.move_table(table, Some(schema), None),
            AlterTable::SetOwner(owner) => self.edit(table, |table| {
                table.owner = owner;
                Ok(())
            }),
            AlterTable::AddConstraint(constraint) => self.add_constraint(table, &constraint).await,
            AlterTable::DropConstraint { name, cascade } => {
                self.drop_constraint(table, &name, cascade).await
            }
            AlterTable::RenameConstraint { from, to } => self.rename_constraint(table, &from, &to),
        }
    }

    /// Changes a table of the transaction's catalog.
    fn edit(&mut self, table: Oid, edit: impl FnOnce(&mut Table) -> Result<()>) -> Result<()> {
        self.change(|catalog| {
            let mut table = table_of(catalog, table)?;
            edit(&mut table)?;
            catalog.put_table(table);
            Ok(())
        })
    }

    fn move_table(&mut self, table: Oid, schema: Option<Oid>, name: Option<String>) -> Result<()> {
        self.change(|catalog| {
            let mut table = table_of(catalog, table)?;
            let schema = schema.unwrap_or(table.schema);
            let name = name.unwrap_or_else(|| table.name.clone());
            check_free(catalog, schema, &name)?;
            if schema != table.schema {
                let key = table.primary_key.iter().map(|key| &key.name);
                let mut indexes = key.chain(table.indexes.iter().map(|index| &index.name));
                indexes.try_for_each(|index| check_free(catalog, schema, index))?;
            }
            // Removed under its old name and schema, with its indexes.
            catalog.remove_table(table.oid);
            (table.schema, table.name) = (schema, name);
            catalog.put_table(table);
            Ok(())
        })
    }

    async fn alter_column(&mut self, table: Oid, name: &str, change: AlterColumn) -> Result<()> {
        let definition = table_of(&self.catalog, table)?;
        let Some((at, column)) = definition.column(name) else {
            return Err(no_column(&definition, name));
        };
        if definition.is_columnar() {
            check_change_of_columnar(&column.data_type, &change)?;
        }
        if matches!(change, AlterColumn::SetNotNull(true)) && !column.not_null {
            self.check_no_nulls(table, at).await?;
        }
        self.edit(table, |table| {
            let in_key = table.primary_key.as_ref().is_some_and(|key| {
                key.parts.iter().any(|part| part.column == table.columns[at].number)
            });
            let is_indexed = in_key
                || table.indexes.iter().any(|index| {
                    index.parts.iter().any(|part| part.column == table.columns[at].number)
                });
            let column = &mut table.columns[at];
            match change {
                AlterColumn::SetType(data_type) => {
                    check_type_change(&column.data_type, &data_type, is_indexed)?;
                    if !column.missing.is_null() {
                        column.missing = decode_value(&encode_value(&column.missing), &data_type)?;
                    }
                    column.data_type = data_type;
                    column.precision = None;
                }
                AlterColumn::SetDefault(default) => column.default = default,
                AlterColumn::SetNotNull(false) if in_key => {
                    let message = format!("column \"{}\" is in a primary key", column.name);
                    return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
                }
                AlterColumn::SetNotNull(not_null) => column.not_null = not_null,
                AlterColumn::SetIdentity(identity) => column.identity = identity,
                AlterColumn::DropGenerated => column.generated = None,
            }
            Ok(())
        })?;
        check_key_types(&self.catalog, table)
    }

    /// Fails with 23502 if a row has NULL at a place, and with 0A000 if a columnar table has rows.
    async fn check_no_nulls(&mut self, table: Oid, at: usize) -> Result<()> {
        let definition = self.table(table)?;
        if definition.is_columnar() {
            return match self.has_rows(table).await? {
                true => Err(no_look_at_segments("SET NOT NULL")),
                false => Ok(()),
            };
        }
        let (view, _) = self.view_of_now();
        let checked = until_dropped(move |cancel| {
            for_each_row(&view, &definition, cancel, |row| match row[at] {
                Value::Null => Err(contains_nulls(&definition, &definition.columns[at].name)),
                _ => Ok(()),
            })
        });
        checked.await
    }

    async fn drop_column(&mut self, table: Oid, name: &str, cascade: bool) -> Result<()> {
        let before = self.table(table)?;
        let Some((_, column)) = before.column(name) else {
            return Err(no_column(&before, name));
        };
        let number = column.number;
        let what = format!("column {name} of table {}", before.name);
        self.drop_references(table, (&what, &what), cascade, |key| {
            key.references == table && key.referenced.contains(&number)
        })
        .await?;
        let key = before.primary_key.as_ref();
        if key.is_some_and(|key| key.parts.iter().any(|part| part.column == number)) {
            self.change_key(table, None).await?;
        }
        self.change(|catalog| {
            drop_views_over(catalog, table, &what, cascade)?;
            let mut table = table_of(catalog, table)?;
            table.columns.retain(|column| column.number != number);
            table.indexes.retain(|index| index.parts.iter().all(|part| part.column != number));
            table.foreign_keys.retain(|key| !key.columns.contains(&number));
            let owner = Some((table.oid, number));
            let owned = catalog.sequences().filter(|sequence| sequence.owned_by == owner);
            let owned: Vec<_> = owned.map(|sequence| sequence.oid).collect();
            owned.into_iter().for_each(|sequence| catalog.remove_sequence(sequence));
            catalog.put_table(table);
            Ok(())
        })
    }

    async fn add_constraint(&mut self, table: Oid, constraint: &NewConstraint) -> Result<()> {
        match constraint {
            NewConstraint::PrimaryKey { .. } => self.change_key(table, Some(constraint)).await,
            NewConstraint::Check { .. } => self.change(|catalog| {
                let mut table = table_of(catalog, table)?;
                add_constraint(catalog, &mut table, constraint)?;
                catalog.put_table(table);
                Ok(())
            }),
            NewConstraint::ForeignKey(key) => self.add_foreign_key(table, key).await,
            NewConstraint::Unique { .. } => {
                let index = self.change(|catalog| {
                    let mut table = table_of(catalog, table)?;
                    add_constraint(catalog, &mut table, constraint)?;
                    let index = table.indexes.last().map(|index| index.oid);
                    catalog.put_table(table);
                    index.ok_or_else(|| Error::internal("a constraint has no index"))
                })?;
                self.fill_index(table, index).await
            }
        }
    }

    /// Gives a table another primary key, or none, and writes its rows in that order to a new tree.
    async fn change_key(&mut self, table: Oid, key: Option<&NewConstraint>) -> Result<()> {
        let before = self.table(table)?;
        let view = self.view_to_build("another primary key", table).await?;
        let after = self.change(|catalog| {
            let mut after = Table::clone(&before);
            match key {
                Some(key) => add_constraint(catalog, &mut after, key)?,
                None => after.primary_key = None,
            }
            after.layout = Layout::of(&after);
            // Numbers that the key took are kept; the table itself follows when it is rebuilt.
            Ok(after)
        })?;
        if let Some(key) = &after.primary_key {
            for part in &key.parts {
                let place = after.place(part.column).unwrap_or_default();
                self.check_no_nulls(table, place).await?;
            }
        }
        let (storage, mut after) = self.rebuild(view, before, after).await?;
        self.change(|catalog| {
            after.tree = storage.number();
            after.storage = Some(storage);
            catalog.put_table(after);
            Ok(())
        })
    }

    /// Drops the foreign keys that need a part of a table, or refuses if there are any and `cascade` is not set.
    async fn drop_references(
        &mut self,
        table: Oid,
        names: (&str, &str),
        cascade: bool,
        needs: impl Fn(&ForeignKey) -> bool,
    ) -> Result<()> {
        if !self.catalog.references_to(table).any(|(_, key)| needs(key)) {
            return Ok(());
        }
        if cascade {
            self.begin_change_of_referencing("ALTER TABLE", &[table]).await?;
        }
        self.change(|catalog| drop_references(catalog, table, names, needs, (&[], cascade)))
    }

    async fn drop_constraint(&mut self, table: Oid, name: &str, cascade: bool) -> Result<()> {
        let before = self.table(table)?;
        let key = before.primary_key.iter().map(|key| (key.oid, &key.name));
        let unique = before.indexes.iter().filter(|index| index.constraint.is_some());
        let mut indexes = key.chain(unique.map(|index| (index.oid, &index.name)));
        if let Some((index, _)) = indexes.find(|(_, known)| *known == name) {
            let what = format!("constraint {name} on table {}", before.name);
            let names = (what.as_str(), &*format!("index {name}"));
            self.drop_references(table, names, cascade, |key| key.index == index).await?;
        }
        if before.primary_key.as_ref().is_some_and(|key| key.name == name) {
            return self.change_key(table, None).await;
        }
        self.edit(table, |table| {
            if !has_constraint(table, name) {
                return Err(no_constraint(table, name));
            }
            table.checks.retain(|check| check.name != name);
            table.foreign_keys.retain(|key| key.name != name);
            table.indexes.retain(|index| index.constraint.is_none() || index.name != name);
            Ok(())
        })
    }

    fn rename_constraint(&mut self, table: Oid, from: &str, to: &str) -> Result<()> {
        self.change(|catalog| {
            let mut table = table_of(catalog, table)?;
            check_name(to)?;
            if has_constraint(&table, to) {
                return Err(duplicate_constraint(&table, to));
            }
            if !has_constraint(&table, from) {
                return Err(no_constraint(&table, from));
            }
            if let Some(check) = table.checks.iter_mut().find(|check| check.name == from) {
                check.name = to.to_owned();
            } else if let Some(key) = table.foreign_keys.iter_mut().find(|key| key.name == from) {
                key.name = to.to_owned();
            } else {
                check_free(catalog, table.schema, to)?;
                let key = table.primary_key.as_mut().filter(|key| key.name == from);
                key.into_iter().for_each(|key| key.name = to.to_owned());
                let indexes = table.indexes.iter_mut().filter(|index| index.name == from);
                indexes.for_each(|index| index.name = to.to_owned());
            }
            catalog.put_table(table);
            Ok(())
        })
    }
}

fn set_expressions(
    table: &mut Table,
    checks: Vec<(String, String)>,
    generated: Vec<(String, String)>,
) {
    for (name, text) in checks {
        let check = table.checks.iter_mut().find(|check| check.name == name);
        check.into_iter().for_each(|check| check.expression.clone_from(&text));
    }
    for (name, text) in generated {
        let column = table.columns.iter_mut().find(|column| column.name == name);
        column.into_iter().for_each(|column| column.generated = Some(text.clone()));
    }
}

fn rename_column(table: &mut Table, from: &str, to: &str) -> Result<()> {
    check_name(to)?;
    if table.column(to).is_some() {
        let message = format!("column \"{to}\" of relation \"{}\" already exists", table.name);
        return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
    }
    let Some((at, _)) = table.column(from) else { return Err(no_column(table, from)) };
    table.columns[at].name = to.to_owned();
    Ok(())
}

/// Refuses a change of type for which rows, or the keys of an index, would have to be written again.
fn check_type_change(from: &DataType, to: &DataType, is_indexed: bool) -> Result<()> {
    use DataType::*;
    let fits = match (from, to) {
        (from, to) if from == to => true,
        (Int2, Int4 | Int8) | (Int4, Int8) | (Float4, Float8) => true,
        (Int2 | Int4 | Int8, Numeric(None)) => !is_indexed,
        (Varchar(_) | Name, Text | Varchar(None)) | (Text, Varchar(None)) => true,
        (Varchar(Some(from)), Varchar(Some(to))) => to >= from,
        (Char(_), Text | Varchar(None)) => true,
        (Char(from), Char(to)) => to >= from,
        (Numeric(_), Numeric(None)) => true,
        (Numeric(Some((p1, s1))), Numeric(Some((p2, s2)))) => s1 == s2 && p2 >= p1,
        _ => false,
    };
    match fits {
        true => Ok(()),
        false => Err(Error::unsupported(format!(
            "changing the type of a column from {from} to {to}, for which its rows are written again"
        ))
        .with_hint("Add a column of the new type, update it from the old one, and drop that.")),
    }
}

/// Refuses another type of a columnar table's column: pages have the old one.
fn check_change_of_columnar(from: &DataType, change: &AlterColumn) -> Result<()> {
    match change {
        AlterColumn::SetType(to) if to != from => {
            Err(Error::unsupported("ALTER COLUMN TYPE of a columnar table is not supported yet")
                .with_hint("Make a table with the new type, and insert the rows of this one."))
        }
        _ => Ok(()),
    }
}

/// Returns the error of a check for which the rows in segments would have to be read.
fn no_look_at_segments(what: &str) -> Error {
    let message = format!("{what} of a columnar table with rows is not supported yet");
    Error::unsupported(message).with_hint("Say it when the table is made, or when it is empty.")
}

fn contains_nulls(table: &Table, column: &str) -> Error {
    let message =
        format!("column \"{column}\" of relation \"{}\" contains null values", table.name);
    Error::new(SqlState::NOT_NULL_VIOLATION, message).of_column(column)
}

fn no_column(table: &Table, column: &str) -> Error {
    let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
    Error::new(SqlState::UNDEFINED_COLUMN, message)
}

fn no_constraint(table: &Table, name: &str) -> Error {
    let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
    Error::new(SqlState::UNDEFINED_OBJECT, message)
}
