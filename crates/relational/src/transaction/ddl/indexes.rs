//! Creating and dropping indexes.

use super::super::Transaction;
use super::definitions::NewIndex;
use super::foreign_keys::drop_references;
use super::tables::{index_name, new_index, parts_of};
use crate::catalog::{Catalog, ForeignKey, Table};
use crate::error::{Error, Result};
use crate::state::SqlState;
use crate::types::Oid;

impl Transaction {
    /// Creates an index over all rows and returns its number. Writers of the table wait until the commit;
    /// [`crate::Database::create_index_online`] holds none of them up.
    ///
    /// 42P07 if the name is taken, 42703 for a column that is not there, 0A000 for a type without an order
    /// of bytes, 23505 if the index is unique and two rows have one key.
    pub async fn create_index(&mut self, new: NewIndex) -> Result<Oid> {
        self.begin_table_change("CREATE INDEX", new.table).await?;
        let oid = self.change(|catalog| define(catalog, &new, true))?;
        self.fill_index(new.table, oid).await?;
        Ok(oid)
    }

    /// Builds an index that the transaction's catalog has.
    pub(super) async fn fill_index(&mut self, table: Oid, index: Oid) -> Result<()> {
        let view = self.view_to_build("an index", table).await?;
        self.build_index(view, table, index).await
    }

    /// Drops an index. 2BP01 if a constraint keeps it, or a foreign key references its columns.
    pub async fn drop_index(&mut self, index: Oid) -> Result<()> {
        let Some(table) = self.catalog.table_of_index(index).map(|table| table.oid) else {
            let message = format!("index with OID {index} does not exist");
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
        };
        self.begin_table_change("DROP INDEX", table).await?;
        self.change(|catalog| {
            let mut table = table_of(catalog, table)?;
            let found = table.indexes.iter().find(|found| found.oid == index);
            let name = match found {
                Some(found) if found.constraint.is_none() => format!("index {}", found.name),
                _ => {
                    let message = "cannot drop index because a constraint requires it";
                    return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                        .with_hint("Drop the constraint with ALTER TABLE."));
                }
            };
            let needs = |key: &ForeignKey| key.index == index;
            drop_references(catalog, table.oid, (&name, &name), needs, (&[], false))?;
            table.indexes.retain(|found| found.oid != index);
            catalog.put_table(table);
            Ok(())
        })
    }

    /// Gives an index another name.
    pub async fn rename_index(&mut self, index: Oid, name: &str) -> Result<()> {
        let table = self.catalog.table_of_index(index).map_or(0, |table| table.oid);
        self.begin_table_change("ALTER INDEX", table).await?;
        self.change(|catalog| {
            let mut table = table_of(catalog, table)?;
            super::check_free(catalog, table.schema, name)?;
            match table.indexes.iter_mut().find(|found| found.oid == index) {
                Some(found) => found.name = name.to_owned(),
                None => {
                    let key = table.primary_key.as_mut();
                    let key = key.ok_or_else(|| Error::internal("the index is gone"))?;
                    key.name = name.to_owned();
                }
            }
            catalog.put_table(table);
            Ok(())
        })
    }
}

/// Returns a table of a catalog to change it.
pub(super) fn table_of(catalog: &Catalog, table: Oid) -> Result<Table> {
    let found = catalog.table(table).map(|table| Table::clone(table));
    found.ok_or_else(|| Error::new(SqlState::UNDEFINED_TABLE, "the table does not exist"))
}

/// Adds an index to a catalog, and returns its number.
pub(super) fn define(catalog: &mut Catalog, new: &NewIndex, ready: bool) -> Result<Oid> {
    let mut table = table_of(catalog, new.table)?;
    if table.is_columnar() {
        return Err(Error::unsupported("columnar tables have no indexes"));
    }
    let columns = new.columns.iter().map(|(name, last, first)| (name.as_str(), *last, *first));
    let parts = parts_of(&table, columns)?;
    let names: Vec<_> = new.columns.iter().map(|(name, ..)| name.as_str()).collect();
    let name = index_name(catalog, &table, new.name.as_deref(), (&names.join("_"), "idx"))?;
    let mut index = new_index(catalog, &mut table, name, new.unique, parts)?;
    index.ready = ready;
    let oid = index.oid;
    table.indexes.push(index);
    catalog.put_table(table);
    Ok(oid)
}
