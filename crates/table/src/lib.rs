//! Tables over the engine: schema, row mutations, filters, GC rules, and the [`Store`] trait that
//! every protocol front sees.
//!
//! A tour: `store.rs` is the contract; `schema.rs`, `identity.rs`, `row.rs`, `row_output.rs`, `row_set.rs`,
//! `mutate.rs` and `filter/` are the values that cross it; `records.rs` keeps what only the front knows; `limits.rs` holds every size limit, once.
//! `groups.rs` is what the tables of a cluster ask of the consensus below them, and `wire/` has the calls that
//! its nodes make for each other.
#![forbid(unsafe_code)]

mod change_token;
pub mod changes;
pub mod error;
pub mod filter;
pub mod gc;
pub mod groups;
pub mod identity;
pub mod limits;
pub mod local;
pub mod meter;
#[doc(hidden)]
pub use change_token::fuzz as fuzz_change_token;
#[doc(hidden)]
pub mod marks;
pub mod mutate;
pub mod records;
pub mod row;
pub mod row_output;
pub mod row_set;
pub mod schema;
#[doc(hidden)]
pub mod shape;
pub mod shelf;
pub mod store;
pub mod subset;
pub mod wire;

pub use bytes::Bytes;
pub use changes::{ChangeRecord, ChangeStream, ChangeStreams, ChangesFrom, ReadChanges, RowChange};
pub use engine::{Direction, FamilyId, RowRange, Timestamp, TimestampRange, TreeId};
pub use error::{Error, Result};
pub use filter::RowFilter;
pub use gc::GcRule;
pub use groups::{GroupWrite, Groups, Kept, Removal, SharedMeta, Term, Versioned};
pub use identity::TableIdentity;
pub use limits::Granularity;
pub use local::{Local, TreeOwnership};
pub use mutate::{CheckAndMutate, Once, OnceRow, ReadModifyWriteRule, RowMutation, RowMutations};
pub use records::{RecordChange, Records};
pub use row::{Cell, ReadStats, Row, RowBatch, RowPiece, RowStream};
pub use row_output::{Pieces, RowOutput, YieldedCell};
pub use row_set::{KeyRange, RowSet};
pub use schema::types::{Int64Encoding, RowKeySchema, ScalarType, StructEncoding};
pub use schema::{
    AddInput, Aggregate, CreateTable, FamilyChange, FamilySchema, FamilySpec, OwnedTrees,
    SQL_PREFIX, TableName, TableSchema, TableUpdate, UniqueInput, ValueType,
};
pub use shelf::{BackupRecord, Copied, Shelf, ShelfMap, Shelved, Shelves};
pub use store::{DropRows, HasRoom, ReadRows, RowKeySample, Store};
pub use subset::{Qualifiers, Subset};
