//! Tables and families as fronts see them (here, in `aggregate.rs` and in `types.rs`), and as the system tree keeps them
//! (`record.rs`; `owned.rs` for tables of other layers).

mod aggregate;
mod owned;
pub(crate) mod record;
pub mod types;

pub use aggregate::{AddInput, Aggregate, UniqueInput};
pub use owned::{OwnedTrees, SQL_PREFIX};

use crate::error::{Error, Result};
use crate::gc::GcRule;
use crate::limits::{self, Granularity};
use bytes::Bytes;
use engine::{FamilyId, RowRange, TreeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use types::{RowKeySchema, ScalarType};

/// Full name of a table, opaque to the store but for its last part, which is the table's id:
/// `projects/p/instances/i/tables/t`. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName(Arc<str>);

impl TableName {
    /// The table called `name`, if the part after its last `/` is a table id
    /// ([`limits::check_table_id`]) and the whole is no longer than
    /// [`limits::TABLE_NAME_BYTES_MAX`].
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self> {
        let name = name.into();
        limits::check_len("table_name", name.len(), limits::TABLE_NAME_BYTES_MAX)?;
        limits::check_table_id("table_name", name.rsplit('/').next().unwrap_or_default())?;
        Ok(Self(name))
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part of the name.
    pub fn id(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The family of tokens ([`crate::Once`]), which is of no table: ids of families end before it, since
/// [`TableSchema::next_family`] lies above them.
pub(crate) const TOKENS: FamilyId = FamilyId(u16::MAX);

/// Type of the cells of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ValueType {
    /// Bytes of no declared type.
    #[default]
    Raw,
    /// Bytes that readers take for this type. Writers may set any bytes, as in [`ValueType::Raw`].
    Scalar(ScalarType),
    /// A folded value, an `i64` big-endian or a sketch; written by `AddToCell` and `MergeToCell` only.
    Aggregate(Aggregate),
}

/// Settings of a new family.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FamilySpec {
    /// Rule for cells that may be removed.
    pub gc: GcRule,
    /// Type of the cells.
    pub value_type: ValueType,
}

/// A column family of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilySchema {
    /// Its id in the engine. Never reused within a table.
    pub id: FamilyId,
    /// Its name, shared with every cell that reads yield.
    pub name: Arc<str>,
    /// Rule for cells that may be removed.
    pub gc: GcRule,
    /// Type of the cells.
    pub value_type: ValueType,
}

/// A part of a table: the rows from `start` up to the start of the next tablet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tablet {
    /// First row; empty for the first tablet.
    pub start: Bytes,
    /// The tree that holds its cells.
    pub tree: TreeId,
}

/// A table at one moment. Immutable; a schema change makes another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    pub name: TableName,
    /// Its families by name.
    pub families: BTreeMap<Arc<str>, FamilySchema>,
    /// The id that the next family will get; ids below it that no family has were dropped.
    pub next_family: u16,
    /// Its tablets in row order; at least one, the first starts at the empty key.
    pub tablets: Vec<Tablet>,
    /// True if the table and its families are protected from deletion.
    pub deletion_protection: bool,
    /// When it was created, microseconds since the Unix epoch.
    pub created_micros: i64,
    /// Unit of its timestamps. Never changes.
    pub granularity: Granularity,
    /// Names and types of the parts of its row keys.
    pub row_key_schema: Option<RowKeySchema>,
}

/// A table to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTable {
    pub name: TableName,
    pub families: Vec<(String, FamilySpec)>,
    /// First rows of all tablets but the first; in any order, duplicates and empty keys ignored.
    pub splits: Vec<Bytes>,
    /// True if the table is protected from deletion.
    pub deletion_protection: bool,
    /// The unit of all its timestamps.
    pub granularity: Granularity,
    /// Names and types of the parts of its row keys.
    pub row_key_schema: Option<RowKeySchema>,
}

/// New settings of a table, which take effect together. `None` leaves a setting as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableUpdate {
    /// Protects the table from deletion, or no longer.
    pub deletion_protection: Option<bool>,
    /// Gives the table a row key schema if it has none, or takes it away.
    pub row_key_schema: Option<Option<RowKeySchema>>,
    /// Keeps the changes of the table for so long, or no longer.
    pub change_retention: Option<Option<Duration>>,
    /// Allows changes that programs may not expect: that the row key schema goes.
    pub ignore_warnings: bool,
}

/// A change of one family. A list of changes takes effect as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FamilyChange {
    /// Creates a family; `AlreadyExists` if there is one of that name.
    Create {
        name: String,
        /// Settings of the new family.
        spec: FamilySpec,
    },
    /// Changes what is given of a family. A type that is an aggregate, or becomes one, can only be
    /// repeated.
    Update {
        name: String,
        /// Its new GC rule.
        gc: Option<GcRule>,
        value_type: Option<ValueType>,
    },
    /// Drops a family and all its cells.
    Drop { name: String },
}

impl TableSchema {
    /// Returns the bytes of the record that keeps this schema (docs/format/schema.md).
    pub fn to_record(&self) -> Vec<u8> {
        record::encode(self)
    }

    /// Reads the bytes of a record. `DataLoss` if they are damaged, or of a newer version.
    pub fn from_record(bytes: &[u8]) -> Result<Self> {
        record::decode(bytes).map_err(|error| Error::DataLoss(error.to_string()))
    }

    /// The family called `name`; `NotFound` with the name if there is none.
    pub fn family(&self, name: &str) -> Result<&FamilySchema> {
        self.families.get(name).ok_or_else(|| Error::no_family(name))
    }

    /// The rows of each tablet, in order.
    pub fn tablet_rows(&self) -> impl Iterator<Item = RowRange> {
        let ends = self.tablets.iter().skip(1).map(|next| Some(next.start.to_vec())).chain([None]);
        let starts = self.tablets.iter().map(|tablet| tablet.start.to_vec());
        starts.zip(ends).map(|(start, end)| RowRange { start, end })
    }

    /// Index of the tablet that holds `row`.
    pub fn tablet_of(&self, row: &[u8]) -> usize {
        self.tablets.partition_point(|tablet| tablet.start.as_ref() <= row).saturating_sub(1)
    }
}
