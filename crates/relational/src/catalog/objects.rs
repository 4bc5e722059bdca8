//! Schemas, views, sequences, roles and grants of the catalog.

use super::ColumnNumber;
use crate::types::{DataType, Oid};
use serde::{Deserialize, Serialize};

/// A schema: a room of names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// Number of the schema in the catalog.
    pub oid: Oid,
    /// Name of the schema itself.
    pub name: String,
    /// Number of the role that owns it.
    pub owner: Oid,
    /// Comment on the schema, if any.
    pub comment: Option<String>,
    /// Privileges that were granted on the schema.
    pub grants: Vec<Grant>,
}

/// A name in the query of a view, and what it stood for when the view was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadName {
    /// The schema, if the query names it.
    pub schema: Option<String>,
    /// The name of the table or view as it was then.
    pub name: String,
    /// Number of the table or view.
    pub oid: Oid,
    /// The greatest number of a column that it had then: later ones are not the view's. Nothing limits the columns
    /// of a Bigtable table, which do not change, and of views that were made before this was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<ColumnNumber>,
}

/// A query with a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewDefinition {
    /// Number of the view in the catalog.
    pub oid: Oid,
    /// Number of the schema around it.
    pub schema: Oid,
    /// Name of the view in its schema.
    pub name: String,
    /// Number of the role that owns it.
    pub owner: Oid,
    /// The query as SQL text.
    pub query: String,
    /// Names and types of its columns.
    pub columns: Vec<(String, DataType)>,
    /// Numbers of the tables and views that the query reads.
    pub reads: Vec<Oid>,
    /// The names of the objects in the query: they stay what they were, whatever is called so later.
    #[serde(default)]
    pub names: Vec<ReadName>,
    /// Comment on the view, if any.
    pub comment: Option<String>,
    /// Privileges that were granted on the view.
    pub grants: Vec<Grant>,
}

/// A sequence of numbers. Its state is kept apart: it does not follow transactions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// Number of the sequence in the catalog.
    pub oid: Oid,
    /// Number of the schema around it.
    pub schema: Oid,
    /// Name of the sequence in its schema.
    pub name: String,
    /// Number of the role that owns it.
    pub owner: Oid,
    /// Type of the numbers: `Int2`, `Int4` or `Int8`.
    pub data_type: DataType,
    /// The first number it gives.
    pub start: i64,
    /// Distance of two numbers; below zero if it descends.
    pub increment: i64,
    /// The smallest number it gives.
    pub min: i64,
    /// The largest number it gives.
    pub max: i64,
    /// True if it begins again behind its last number.
    pub cycle: bool,
    /// Table and column that the sequence is dropped with.
    pub owned_by: Option<(Oid, i16)>,
    /// Comment on the sequence, if any.
    pub comment: Option<String>,
    /// Privileges that were granted on the sequence.
    pub grants: Vec<Grant>,
}

/// A role, which owns things, logs in, or is a group of roles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Number of the role in the catalog.
    pub oid: Oid,
    /// Name of the role itself.
    pub name: String,
    /// True if nothing is refused to it.
    pub superuser: bool,
    /// True if a client may connect as this role.
    pub login: bool,
    /// True if it may create roles.
    pub create_role: bool,
    /// True if it has the privileges of its groups without SET ROLE.
    pub inherit: bool,
    /// Verifier of the password, such as a SCRAM-SHA-256 secret.
    pub password: Option<String>,
    /// Roles that it is a member of.
    pub member_of: Vec<Oid>,
    /// Comment on the role, if any.
    pub comment: Option<String>,
}

/// Privileges of one role on one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The role that has them; [`PUBLIC_ROLE`] means every role.
    pub role: Oid,
    /// The role that gave them.
    pub grantor: Oid,
    /// The privileges that the role has.
    pub privileges: Privileges,
    /// Privileges that the role may grant.
    pub grantable: Privileges,
}

/// The number that stands for every role in a [`Grant`].
pub const PUBLIC_ROLE: Oid = 0;

/// A set of privileges, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Privileges(pub u32);

impl Privileges {
    /// Reading of rows and of sequences.
    pub const SELECT: Self = Self(1);
    /// Inserting new rows into it.
    pub const INSERT: Self = Self(2);
    /// Changing rows, and the position of sequences.
    pub const UPDATE: Self = Self(4);
    /// Deleting rows of a table.
    pub const DELETE: Self = Self(8);
    /// Emptying of a whole table.
    pub const TRUNCATE: Self = Self(16);
    /// References to it by foreign keys.
    pub const REFERENCES: Self = Self(32);
    /// Making triggers on a table.
    pub const TRIGGER: Self = Self(64);
    /// Use of a schema or of a sequence.
    pub const USAGE: Self = Self(128);
    /// Creation of objects in a schema.
    pub const CREATE: Self = Self(256);
    /// Every privilege that a table can have.
    pub const ALL_OF_TABLE: Self = Self(127);
    /// Every privilege that a schema can have.
    pub const ALL_OF_SCHEMA: Self = Self(128 | 256);
    /// Every privilege that a sequence can have.
    pub const ALL_OF_SEQUENCE: Self = Self(1 | 4 | 128);

    /// Returns true if all of `other` are in the set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the privileges of both sets.
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the privileges of this set that `other` does not have.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns true if the set has no privilege.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}
