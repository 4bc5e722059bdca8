//! Tables of typed rows over trees: types and values, a catalog, keys, indexes, locks, transactions.
//!
//! A tour: `types/` has the values of columns and their order; `error.rs` and `state.rs` are the errors as
//! an SQL client sees them; `catalog/` has the objects of a database, and `format/` the bytes of keys and
//! rows. `database/` opens it all, `transaction/` changes it, `read/` reads it, and `locks/` keeps
//! transactions apart. No expression is evaluated here: checks, defaults and generated columns are text.
#![forbid(unsafe_code)]

pub mod catalog;
mod database;
pub mod error;
pub mod format;
#[doc(hidden)]
pub mod fuzz;
mod locks;
mod read;
pub mod state;
mod transaction;
mod types;

pub use bytes::Bytes;
pub use catalog::{Catalog, Table};
pub use database::{CATALOG_TREE, Database, DatabaseOptions, GroupTerm, Restarts, Storage};
pub use engine::Direction;
pub use error::{Error, ErrorFields, Result};
pub use locks::{AdvisoryHold, AdvisoryKey, AdvisoryLocks, LockMode, TableLock, Wait};
pub use read::{
    CancelFlag, KeyRange, Pages, ReferencingScan, RowScan, ScanSpec, ScanStatistics, Segment, View,
};
pub use state::SqlState;
pub use transaction::{
    AlterColumn, AlterTable, CommentOn, CreateTable, GrantChange, GrantOn, IndexProgress,
    Isolation, Mark, NewColumn, NewConstraint, NewForeignKey, NewIndex, NewRole, NewSequence,
    NewView, NewWide, OnConflict, RoleChange, SegmentLoad, SegmentWriter, SequenceChange,
    Transaction, Writes, WrittenSegments,
};
pub use types::{Array, ArrayDimension, DataType, Numeric, Oid, Value};

/// A row of a table: one value for each column, in the order of the columns.
pub type Row = Vec<Value>;
