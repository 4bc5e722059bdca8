//! One log-structured merge tree over cells.

mod background;
pub mod batch;
pub mod budget;
pub mod cache;
mod catalog;
pub mod cell;
pub mod check;
mod checkpoint;
mod commit;
pub mod compaction;
pub mod cursor;
pub mod dump;
pub mod elide;
pub mod engine;
pub mod error;
mod fetch;
pub mod file;
mod flights;
mod granularity;
mod histogram;
mod in_flight;
pub mod ingest;
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
mod reader;
mod recovery;
pub mod repair;
pub mod request;
mod snapshot;
pub mod sstable;
mod striped;
mod tree;
mod view;

pub use background::compactions::{CompactionReason, RunningCompaction};
pub use batch::{TimestampRange, WriteBatch};
pub use cell::{Column, FamilyId, SequenceNumber, Timestamp, TreeId};
pub use engine::{Engine, Scan, Snapshot};
pub use error::{Error, Result};
pub use histogram::HistogramReading;
pub use in_flight::{Answer, InFlightGets};
pub use ingest::sort::{RowSorter, SortOptions, SortedRows};
pub use ingest::{IngestFiles, IngestOptions, SstWriter};
pub use options::{
    BackgroundRate, Compression, Durability, FilterGranularity, Options, ReadPath, TreeOptions,
};
pub use reader::{ColumnOf, RowEnd, RowReads, RowSelection, TreeReader};
pub use request::{Cell, Columns, Direction, QualifierRange, RowRange, ScanRequest};
pub use sstable::Deferred;
