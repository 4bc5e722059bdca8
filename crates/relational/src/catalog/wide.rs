//! Bigtable tables as relations: with a column for each part of a cell, or with declared columns.
//!
//! 1. The tables of the store are the relations of the schema `bigtable`, one row a cell. The list comes from
//!    the store and is not in any record. A record keeps what was granted on such a relation, by the
//!    name of the table.
//! 2. A declared table has a record. Its columns name the row key, or a family and a qualifier.
//! 3. SQL reads these tables and never writes to them.

use super::{BOOTSTRAP_ROLE, Grant};
use crate::types::{DataType, Oid};
use base::checksum::xxh3;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The number of the schema `bigtable`.
pub const BIGTABLE_SCHEMA: Oid = 13_001;
/// The first number of relations whose list comes from the store.
const FIRST_CELLS_OID: Oid = 1 << 31;
/// Longest name of a relation in bytes; longer ones cannot be written in SQL.
const NAME_BYTES_MAX: usize = 63;

/// A Bigtable table as SQL reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WideTable {
    /// Number of the relation in the catalog.
    pub oid: Oid,
    /// Number of the schema around it.
    pub schema: Oid,
    /// Name of the relation in its schema.
    pub name: String,
    /// Number of the role that owns it.
    pub owner: Oid,
    /// Full name of the Bigtable table.
    pub table: String,
    /// The columns in their order.
    pub columns: Vec<WideColumn>,
    /// Comment on the relation, if any.
    pub comment: Option<String>,
    /// Privileges that were granted on the relation.
    pub grants: Vec<Grant>,
}

/// A column of a Bigtable table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WideColumn {
    /// Name of the column in its relation.
    pub name: String,
    /// Type of the values of the column.
    pub data_type: DataType,
    /// The part of a row that the values come from.
    pub source: WideSource,
    /// The form of the bytes in the cells.
    pub encoding: WideEncoding,
    /// True if only rows that have the column are rows of the relation.
    pub not_null: bool,
    /// Comment on the column, if any.
    pub comment: Option<String>,
}

/// The part of a Bigtable row that a column has the values of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WideSource {
    /// The key of the row.
    Key,
    /// The family of a cell.
    Family,
    /// The qualifier of a cell.
    Qualifier,
    /// The timestamp of a cell.
    Timestamp,
    /// The value of a cell.
    Value,
    /// The newest value of one column.
    Newest {
        /// Name of the column family.
        family: String,
        /// The qualifier, which is any bytes.
        qualifier: Vec<u8>,
    },
}

/// The form of a value in the bytes of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WideEncoding {
    /// The text of the value in UTF-8. Bytes of `bytea` are as they are.
    #[default]
    Text,
    /// Big-endian numbers, as Bigtable's increments write them.
    Binary,
}

impl WideTable {
    /// Returns true if a row of the relation is a cell.
    pub fn has_cells(&self) -> bool {
        self.schema == BIGTABLE_SCHEMA
    }

    /// Returns the relation of a table of the store.
    fn of_cells(oid: Oid, name: String, table: &str) -> Self {
        let column = |name: &str, data_type, source| WideColumn {
            name: name.to_owned(),
            data_type,
            source,
            encoding: WideEncoding::Text,
            not_null: true,
            comment: None,
        };
        let columns = vec![
            column("key", DataType::Bytea, WideSource::Key),
            column("family", DataType::Text, WideSource::Family),
            column("qualifier", DataType::Bytea, WideSource::Qualifier),
            column("timestamp", DataType::TimestampTz, WideSource::Timestamp),
            column("value", DataType::Bytea, WideSource::Value),
        ];
        let (schema, owner) = (BIGTABLE_SCHEMA, BOOTSTRAP_ROLE);
        let (comment, grants, table) = (None, Vec::new(), table.to_owned());
        Self { oid, schema, name, owner, table, columns, comment, grants }
    }
}

/// The relations of the schema `bigtable`, as of one version of the store's tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct CellTables {
    /// Version of the store's tables; nothing before they were listed.
    pub version: Option<u64>,
    pub by_name: BTreeMap<String, Arc<WideTable>>,
    names: BTreeMap<Oid, String>,
}

impl CellTables {
    /// Returns the relations of tables by their full names, with what records keep of them.
    pub(crate) fn of<'a>(
        version: u64,
        tables: &[String],
        kept: impl Iterator<Item = &'a Arc<WideTable>>,
    ) -> Self {
        let kept: BTreeMap<&str, &Arc<WideTable>> =
            kept.map(|wide| (wide.table.as_str(), wide)).collect();
        let mut taken: BTreeSet<Oid> = kept.values().map(|wide| wide.oid).collect();
        let mut list = Self { version: Some(version), ..Self::default() };
        for (table, name) in short_names(tables) {
            let wide = match kept.get(table) {
                Some(kept) => Arc::new(WideTable { name, ..WideTable::clone(kept) }),
                None => {
                    let mut oid = FIRST_CELLS_OID | xxh3(table.as_bytes()) as Oid;
                    while !taken.insert(oid) {
                        oid = FIRST_CELLS_OID | oid.wrapping_add(1);
                    }
                    Arc::new(WideTable::of_cells(oid, name, table))
                }
            };
            list.put(wide);
        }
        list
    }

    /// Adds a relation, or replaces the one of its number.
    pub(crate) fn put(&mut self, wide: Arc<WideTable>) {
        self.names.insert(wide.oid, wide.name.clone());
        self.by_name.insert(wide.name.clone(), wide);
    }

    pub(crate) fn get(&self, oid: Oid) -> Option<&Arc<WideTable>> {
        self.by_name.get(self.names.get(&oid)?)
    }
}

/// Returns tables with the shortest name that no other one has: the id, the id after that of the instance, or
/// both after the project. A table without a name that SQL can write is left out.
fn short_names(tables: &[String]) -> Vec<(&str, String)> {
    let forms = |table: &str| {
        let parts: Vec<&str> = table.split('/').collect();
        match parts.as_slice() {
            ["projects", project, "instances", instance, "tables", id] => {
                [(*id).to_owned(), format!("{instance}/{id}"), format!("{project}/{instance}/{id}")]
            }
            _ => [table.to_owned(), table.to_owned(), table.to_owned()],
        }
    };
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for table in tables {
        let forms: BTreeSet<String> = forms(table).into_iter().collect();
        forms.into_iter().for_each(|form| *uses.entry(form).or_default() += 1);
    }
    let named = tables.iter().filter_map(|table| {
        let name = forms(table).into_iter().find(|form| uses.get(form) == Some(&1))?;
        (name.len() <= NAME_BYTES_MAX).then_some((table.as_str(), name))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_shortest_name_that_no_other_one_has() {
        let long = format!("projects/p/instances/{}/tables/{}", "i".repeat(40), "t".repeat(50));
        let twin = long.replace("/p/", "/q/");
        let tables: Vec<String> = [
            "projects/p/instances/i/tables/alone",
            "projects/p/instances/i/tables/t",
            "projects/p/instances/j/tables/t",
            "projects/p/instances/k/tables/u",
            "projects/q/instances/k/tables/u",
            &long,
            &twin,
        ]
        .map(str::to_owned)
        .to_vec();
        let names: Vec<String> = short_names(&tables).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["alone", "i/t", "j/t", "p/k/u", "q/k/u"]);
    }

    #[test]
    fn numbers_stay_and_grants_are_kept_by_the_name_of_the_table() {
        let tables = ["projects/p/instances/i/tables/t".to_owned()];
        let first = CellTables::of(1, &tables, std::iter::empty());
        let kept =
            Arc::new(WideTable { comment: Some("c".into()), ..(*first.by_name["t"]).clone() });
        let more = [tables[0].clone(), "projects/p/instances/j/tables/t".to_owned()];
        let again = CellTables::of(2, &more, std::iter::once(&kept));
        let found = again.get(kept.oid).unwrap();
        assert_eq!((found.name.as_str(), found.comment.as_deref()), ("i/t", Some("c")));
        assert_ne!(again.by_name["j/t"].oid, kept.oid);
    }
}
