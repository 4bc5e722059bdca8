//! Definitions of what a transaction creates or changes in the catalog, as a statement gives them.

use crate::catalog::{Identity, KeyAction, KeyMatch, Privileges, ReadName, WideColumn};
use crate::types::{DataType, Oid, Value};

/// A table to be created.
#[derive(Debug, Clone)]
pub struct CreateTable {
    /// Number of the schema around it.
    pub schema: Oid,
    /// Name of the table itself.
    pub name: String,
    /// Number of the role that owns it.
    pub owner: Oid,
    /// The columns in their order.
    pub columns: Vec<NewColumn>,
    /// Constraints; at most one primary key.
    pub constraints: Vec<NewConstraint>,
    /// True if bulk loads write rows as column segments. Such a table has no keys and no indexes.
    pub columnar: bool,
}

/// A column to be created.
#[derive(Debug, Clone)]
pub struct NewColumn {
    /// Name of the column in its table.
    pub name: String,
    /// The type of its values.
    pub data_type: DataType,
    /// Digits of a second that values are rounded to before they are written, if fewer than all are kept.
    pub precision: Option<u8>,
    /// True if NULL is refused.
    pub not_null: bool,
    /// Default expression as SQL text.
    pub default: Option<String>,
    /// Kind of an identity column.
    pub identity: Option<Identity>,
    /// Expression of a generated stored column, as SQL text.
    pub generated: Option<String>,
}

/// A constraint to be created, with a name of its own if none is given.
#[derive(Debug, Clone)]
pub enum NewConstraint {
    /// The primary key over these columns.
    PrimaryKey {
        /// Name of the constraint and its index.
        name: Option<String>,
        /// Names of the columns, most significant first.
        columns: Vec<String>,
    },
    /// A unique key over these columns.
    Unique {
        /// Name of the constraint and its index.
        name: Option<String>,
        /// Names of the columns, most significant first.
        columns: Vec<String>,
    },
    /// A condition. The caller has checked the rows that are there.
    Check {
        /// Name of the constraint in its table.
        name: Option<String>,
        /// The condition as SQL text.
        expression: String,
    },
    /// A foreign key. It is added after all keys of the same definition.
    ForeignKey(NewForeignKey),
}

/// A foreign key to be created.
#[derive(Debug, Clone)]
pub struct NewForeignKey {
    /// Name of the constraint in its table.
    pub name: Option<String>,
    /// Names of the referencing columns.
    pub columns: Vec<String>,
    /// Number of the referenced table; nothing for the table itself.
    pub references: Option<Oid>,
    /// Names of the referenced columns; an empty list stands for the primary key.
    pub referenced: Vec<String>,
    /// The answer to a delete of a referenced row.
    pub on_delete: KeyAction,
    /// The answer to a change of a referenced key.
    pub on_update: KeyAction,
    /// The rule for keys with NULL.
    pub matching: KeyMatch,
}

/// An index to be created.
#[derive(Debug, Clone)]
pub struct NewIndex {
    /// Number of the indexed table.
    pub table: Oid,
    /// Name of the index; without one it is made of table and columns.
    pub name: Option<String>,
    /// True if two rows cannot have equal keys.
    pub unique: bool,
    /// Columns by name, most significant first: larger values first, NULL first.
    pub columns: Vec<(String, bool, bool)>,
}

/// A view to be created.
#[derive(Debug, Clone)]
pub struct NewView {
    /// Number of the schema around it.
    pub schema: Oid,
    /// Name of the view itself.
    pub name: String,
    /// Number of the role that owns it.
    pub owner: Oid,
    /// The query as SQL text.
    pub query: String,
    /// Names and types of its columns.
    pub columns: Vec<(String, DataType)>,
    /// Tables and views that the query reads.
    pub reads: Vec<Oid>,
    /// The names of the objects in the query.
    pub names: Vec<ReadName>,
    /// True if a view of that name is replaced, which may get columns at the end only.
    pub replace: bool,
}

/// A Bigtable table to be declared.
#[derive(Debug, Clone)]
pub struct NewWide {
    /// Number of the schema around it.
    pub schema: Oid,
    /// Name of the relation itself.
    pub name: String,
    /// Number of the role that owns it.
    pub owner: Oid,
    /// Full name of the Bigtable table.
    pub table: String,
    /// The columns in their order.
    pub columns: Vec<WideColumn>,
}

/// A sequence to be created. The caller has filled in what the statement leaves out.
#[derive(Debug, Clone)]
pub struct NewSequence {
    /// Number of the schema around it.
    pub schema: Oid,
    /// Name of the sequence itself.
    pub name: String,
    /// Number of the role that owns it.
    pub owner: Oid,
    /// One of `Int2`, `Int4` and `Int8`.
    pub data_type: DataType,
    /// The first number it gives.
    pub start: i64,
    /// Distance of two numbers, not zero.
    pub increment: i64,
    /// The smallest number it gives.
    pub min: i64,
    /// The largest number it gives.
    pub max: i64,
    /// True if it begins again behind its last number.
    pub cycle: bool,
    /// Table and column that it is dropped with.
    pub owned_by: Option<(Oid, i16)>,
}

/// A change of a sequence. What is not given stays.
#[derive(Debug, Clone, Default)]
pub struct SequenceChange {
    /// Distance of two numbers, not zero.
    pub increment: Option<i64>,
    /// The smallest number it gives.
    pub min: Option<i64>,
    /// The largest number it gives.
    pub max: Option<i64>,
    /// Number at which RESTART begins.
    pub start: Option<i64>,
    /// True if it begins again behind its last number.
    pub cycle: Option<bool>,
    /// Table and column that it is dropped with, or none.
    pub owned_by: Option<Option<(Oid, i16)>>,
    /// Another name in the same schema.
    pub name: Option<String>,
}

/// A role to be created.
#[derive(Debug, Clone, Default)]
pub struct NewRole {
    /// Name of the role itself.
    pub name: String,
    /// The attributes of the role.
    pub attributes: RoleChange,
}

/// Attributes of a role. What is not given stays, or is the default of a new role.
#[derive(Debug, Clone, Default)]
pub struct RoleChange {
    /// True if nothing is refused to it.
    pub superuser: Option<bool>,
    /// True if a client may connect as this role.
    pub login: Option<bool>,
    /// True if it may create roles.
    pub create_role: Option<bool>,
    /// True if it has the privileges of its groups.
    pub inherit: Option<bool>,
    /// Verifier of the password, or none.
    pub password: Option<Option<String>>,
    /// Groups that it becomes a member of.
    pub join: Vec<Oid>,
    /// Groups that the role leaves.
    pub leave: Vec<Oid>,
    /// Another name for the role.
    pub name: Option<String>,
}

/// A thing that has privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantOn {
    /// A table, a view or a sequence by its number.
    Relation(Oid),
    /// A schema by its number.
    Schema(Oid),
}

/// A change of privileges on one thing for one role.
#[derive(Debug, Clone, Copy)]
pub struct GrantChange {
    /// The thing with the privileges.
    pub on: GrantOn,
    /// The role that has them, or [`crate::catalog::PUBLIC_ROLE`].
    pub role: Oid,
    /// The role that grants or revokes.
    pub grantor: Oid,
    /// The privileges that are changed.
    pub privileges: Privileges,
    /// True if the role may grant them too; when revoking, true takes only that.
    pub grant_option: bool,
}

/// A thing that has a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommentOn {
    /// A table, view, sequence, index, schema or role by its number.
    Object(Oid),
    /// A column of a table by its number.
    Column(Oid, i16),
}

/// A change of a table.
#[derive(Debug, Clone)]
pub enum AlterTable {
    /// Adds a column. Rows that are there have `missing` in it: the value of its default, which the caller
    /// has evaluated once.
    AddColumn {
        /// The column to be added.
        column: NewColumn,
        /// The value in rows that are there.
        missing: Value,
    },
    /// Drops a column with the indexes and constraints over it.
    DropColumn {
        /// Name of the column in its table.
        name: String,
        /// True if views that read the table, and foreign keys that reference the column, are dropped too.
        cascade: bool,
    },
    /// Gives a column another name.
    RenameColumn {
        /// The name up to now.
        from: String,
        /// The name from now on.
        to: String,
    },
    /// Gives CHECK constraints and generated columns, by their names, other texts of the same meaning.
    SetExpressions {
        /// Names of CHECK constraints, with the texts of their conditions.
        checks: Vec<(String, String)>,
        /// Names of generated columns, with the texts of what computes them.
        generated: Vec<(String, String)>,
    },
    /// Changes a column in place.
    Column {
        /// Name of the column in its table.
        name: String,
        /// The change of that column.
        change: AlterColumn,
    },
    /// Gives the table another name.
    Rename(String),
    /// Moves the table to another schema.
    SetSchema(Oid),
    /// Gives the table to another role.
    SetOwner(Oid),
    /// Adds a constraint to it.
    AddConstraint(NewConstraint),
    /// Drops a constraint by its name.
    DropConstraint {
        /// Name of the constraint in its table.
        name: String,
        /// True if foreign keys that need it are dropped too.
        cascade: bool,
    },
    /// Gives a constraint another name.
    RenameConstraint {
        /// The name up to now.
        from: String,
        /// The name from now on.
        to: String,
    },
}

/// A change of a column.
#[derive(Debug, Clone)]
pub enum AlterColumn {
    /// Changes the type, where the rows that are there need no change.
    SetType(DataType),
    /// Sets the default as SQL text, or removes it.
    SetDefault(Option<String>),
    /// Sets if NULL is refused. Fails with 23502 if a row has NULL.
    SetNotNull(bool),
    /// Makes an identity column of it, or no longer. Its sequence is made and dropped apart.
    SetIdentity(Option<Identity>),
    /// Makes a plain column of a generated one.
    DropGenerated,
}
