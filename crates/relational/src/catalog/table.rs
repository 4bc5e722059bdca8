//! Tables of the catalog with their columns, indexes and checks.
//!
//! 1. Columns are known by numbers, from 1 on, that are never given again. A name or a place may change.
//! 2. A row has one value for each column, in the order of `columns`. A table without a primary key has
//!    a row id behind them, so its rows have one value more: see [`Table::row_width`].
//! 3. Part 1 of the tree of a table has its rows; each index has a part of its own, never given again.
//! 4. A columnar table has segments beside its rows: parts 2 and 3 of its tree tell of them, and a second tree has
//!    their pages. It has no keys and no indexes.

use super::{ForeignKey, Grant, Layout};
use crate::database::Storage;
use crate::error::{Error, Result};
use crate::read::KeyRange;
use crate::types::{DataType, Oid, Value};
use engine::RowRange;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

/// Number of a column in its table, from 1 on.
pub type ColumnNumber = i16;

/// A table with rows of columns.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Number of the table in the catalog.
    pub oid: Oid,
    /// Number of the schema around it.
    pub schema: Oid,
    /// Name of the table in its schema.
    pub name: String,
    /// Number of the role that owns it.
    pub owner: Oid,
    /// Columns in the order in which they were added.
    pub columns: Vec<Column>,
    /// Primary key, if there is one.
    pub primary_key: Option<PrimaryKey>,
    /// Indexes beside the primary key, with the ones that keep UNIQUE constraints.
    pub indexes: Vec<Index>,
    /// CHECK constraints, which the caller evaluates.
    pub checks: Vec<Check>,
    /// Foreign keys, in the order in which they were added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_keys: Vec<ForeignKey>,
    /// The place of the segments of a columnar table; nothing for a table of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columnar: Option<Columnar>,
    /// Comment on the table, if any.
    pub comment: Option<String>,
    /// Privileges that were granted on the table.
    pub grants: Vec<Grant>,
    /// Number that the next column gets.
    pub next_column: ColumnNumber,
    /// Tree that holds rows and indexes.
    pub tree: u32,
    /// Part of the tree that the next index gets.
    pub next_part: u16,
    /// Places of keys and columns, computed from the other fields.
    #[serde(skip)]
    pub layout: Layout,
    /// The tree, open. Every table of a shared catalog has it.
    #[serde(skip)]
    pub(crate) storage: Option<Arc<Storage>>,
    #[serde(skip)]
    pub(crate) definition: Definition,
}

/// The place of the segments of a columnar table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columnar {
    /// The tree that has the pages.
    pub pages: u32,
}

/// A table without its open tree, once it was asked for. A copy of the table, which may change, has none.
#[derive(Debug, Default)]
pub(crate) struct Definition(OnceLock<Arc<Table>>);

impl Clone for Definition {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// A column of a table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Number of the column, stable over all changes of the table.
    pub number: ColumnNumber,
    /// Name of the column in its table.
    pub name: String,
    /// Type of the values of the column.
    pub data_type: DataType,
    /// Digits of a second that values of time and of moments are rounded to; all six without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<u8>,
    /// True if NULL is refused.
    pub not_null: bool,
    /// Expression of the value of a row that gives none, as SQL text.
    pub default: Option<String>,
    /// Present if the values come from a sequence of the column.
    pub identity: Option<Identity>,
    /// Expression of a generated stored column, as SQL text.
    pub generated: Option<String>,
    /// Value in rows that were written before the column was added. NULL if nothing is kept.
    #[serde(with = "super::missing")]
    pub missing: Value,
    /// Comment on the column, if any.
    pub comment: Option<String>,
}

/// The two kinds of identity columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Identity {
    /// A value that the user gives is refused.
    Always,
    /// A value that the user gives is taken.
    ByDefault,
}

/// The primary key of a table, which is the order of its rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrimaryKey {
    /// Number of the index that the key is shown as.
    pub oid: Oid,
    /// Number of the constraint it keeps.
    pub constraint: Oid,
    /// Name of index and constraint.
    pub name: String,
    /// Columns of the key, most significant first.
    pub parts: Vec<IndexPart>,
    /// Comment on the index, if any.
    pub comment: Option<String>,
}

/// An index beside the primary key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// Number of the index in the catalog.
    pub oid: Oid,
    /// Name of the index in the schema of its table.
    pub name: String,
    /// True if two rows cannot have equal keys without NULL.
    pub unique: bool,
    /// Number of the UNIQUE constraint that the index keeps, if it keeps one.
    pub constraint: Option<Oid>,
    /// Columns of the index, most significant first.
    pub parts: Vec<IndexPart>,
    /// True once every row has its entry, so that reads may use it.
    pub ready: bool,
    /// Part of the tree of the table that has the entries.
    pub part: u16,
    /// Comment on the index, if any.
    pub comment: Option<String>,
}

/// A column of a key, with its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexPart {
    /// Number of the column in its table.
    pub column: ColumnNumber,
    /// True if larger values come first.
    pub descending: bool,
    /// True if NULL comes before all values.
    pub nulls_first: bool,
}

impl IndexPart {
    /// Returns the part of a column in ascending order, with NULL at the end.
    pub fn ascending(column: ColumnNumber) -> Self {
        Self { column, descending: false, nulls_first: false }
    }
}

/// A CHECK constraint of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Number of the constraint it keeps.
    pub oid: Oid,
    /// Name of the constraint in its table.
    pub name: String,
    /// The condition as SQL text.
    pub expression: String,
}

impl Table {
    /// Returns the number of values in a row: the columns, and the row id of a table without a primary
    /// key, which comes last.
    pub fn row_width(&self) -> usize {
        self.columns.len() + usize::from(self.primary_key.is_none())
    }

    /// Returns true if most rows of the table lie in column segments.
    pub fn is_columnar(&self) -> bool {
        self.columnar.is_some()
    }

    /// Returns all trees of the table.
    pub(crate) fn trees(&self) -> impl Iterator<Item = u32> {
        [self.tree].into_iter().chain(self.columnar.map(|columnar| columnar.pages))
    }

    /// Returns the places in a row of the values of its key. `View::get` and `Transaction::lock` take
    /// these values in this order. It is the row id of a table without a primary key.
    pub fn key_places(&self) -> &[usize] {
        &self.layout.key_places
    }

    /// Returns the values of the key of a row.
    pub fn key_of(&self, row: &[Value]) -> Vec<Value> {
        self.key_places().iter().map(|place| row.get(*place).cloned().unwrap_or_default()).collect()
    }

    /// Returns the place of a column by its number.
    pub fn place(&self, number: ColumnNumber) -> Option<usize> {
        self.columns.iter().position(|column| column.number == number)
    }

    /// Returns place and column of a name.
    pub fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, column)| column.name == name)
    }

    /// Returns the bytes of rows and indexes, roughly; 0 if they are not known. They are those on disk, and those in
    /// memory too if the table has a tree of its own.
    pub fn bytes(&self) -> u64 {
        let storage = self.storage.as_ref();
        let bytes = storage.and_then(|found| found.keys.approximate_bytes(RowRange::ALL).ok());
        bytes.unwrap_or(0) + self.bytes_of_pages()
    }

    /// Returns the bytes of the rows on disk without the indexes, roughly; 0 if they are not known.
    pub fn bytes_of_rows(&self) -> u64 {
        let rows = KeyRange::ALL.rows(&self.layout.key).ok();
        let (Some(rows), Some(storage)) = (rows, &self.storage) else { return 0 };
        storage.keys.approximate_bytes(rows).unwrap_or(0) + self.bytes_of_pages()
    }

    /// Returns the bytes of the pages of a columnar table, roughly; 0 for a table of rows.
    fn bytes_of_pages(&self) -> u64 {
        let pages = self.storage.as_ref().and_then(|storage| storage.pages.as_ref());
        pages.and_then(|pages| pages.approximate_bytes(RowRange::ALL).ok()).unwrap_or(0)
    }

    /// Returns the bytes of an index on disk, roughly. The primary key has none apart from the rows.
    pub fn bytes_of_index(&self, oid: Oid) -> u64 {
        let place = self.indexes.iter().position(|index| index.oid == oid);
        let layout = place.and_then(|place| self.layout.indexes.get(place));
        let rows = layout.and_then(|layout| KeyRange::ALL.rows(&layout.codec).ok());
        let (Some(rows), Some(storage)) = (rows, &self.storage) else { return 0 };
        storage.keys.approximate_bytes(rows).unwrap_or(0)
    }

    /// Returns the table without its open tree, for plans: a plan that is kept keeps no tree from being dropped.
    pub fn definition(&self) -> Arc<Self> {
        let made = || Arc::new(Self { storage: None, ..self.clone() });
        Arc::clone(self.definition.0.get_or_init(made))
    }

    pub(crate) fn storage(&self) -> Result<&Arc<Storage>> {
        let missing = || Error::internal(format!("table {} has no tree", self.name));
        self.storage.as_ref().ok_or_else(missing)
    }

    /// Returns an index by its number.
    pub fn index(&self, oid: Oid) -> Option<&Index> {
        self.indexes.iter().find(|index| index.oid == oid)
    }

    /// Returns the columns of an index or of the primary key by its number.
    pub fn index_parts(&self, oid: Oid) -> Option<&[IndexPart]> {
        if let Some(key) = self.primary_key.as_ref().filter(|key| key.oid == oid) {
            return Some(&key.parts);
        }
        self.index(oid).map(|index| index.parts.as_slice())
    }
}
