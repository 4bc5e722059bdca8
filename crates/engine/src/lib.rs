//! One log-structured merge tree over cells.

mod background;
pub mod batch;
pub mod cache;
mod catalog;
pub mod cell;
pub mod check;
mod commit;
pub mod compaction;
pub mod cursor;
pub mod dump;
pub mod elide;
pub mod engine;
pub mod error;
pub mod file;
pub mod kv;
pub mod log;
pub mod manifest;
pub mod memtable;
pub mod merge;
pub mod metrics;
pub mod model;
pub mod obsolete;
pub mod options;
pub mod read;
mod recovery;
pub mod request;
mod snapshot;
pub mod sstable;
mod tree;
mod view;

pub use batch::{TimestampRange, WriteBatch};
pub use cell::{Column, FamilyId, SequenceNumber, Timestamp, TreeId};
pub use engine::{Engine, Scan, Snapshot};
pub use error::{Error, Result};
pub use options::{Compression, Durability, FilterGranularity, Options, TreeOptions};
pub use request::{Cell, Columns, Direction, QualifierRange, RowRange, ScanRequest};
