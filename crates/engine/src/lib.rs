//! Stele's storage engine: log-structured merge trees over cells, to embed in a program.
//!
//! A data directory holds **trees**. A tree holds rows in order of their keys, and a row holds
//! **cells**, `(row, family, qualifier, timestamp) → value`: any number of columns, each with any
//! number of versions, the newest first. All trees of a directory share one commit log, one budget
//! of memory and one set of background threads. For a plain ordered map of bytes there is [`kv`].
//!
//! # Open, write, read
//!
//! ```
//! use engine::{Column, ColumnOf, Engine, FamilyId, Options, Timestamp};
//! use engine::{TreeId, TreeOptions, WriteBatch};
//!
//! # fn main() -> engine::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let dir = dir.path();
//! // The directory is made if there is none.
//! let engine = Engine::open(dir, Options::default())?;
//! const PEOPLE: TreeId = TreeId(1);
//! const FACTS: FamilyId = FamilyId(1);
//! let people = engine.tree_or_create(PEOPLE, TreeOptions::default())?;
//!
//! // All mutations of a batch take effect, or none. When `write` returns they are on disk.
//! let mut batch = WriteBatch::new();
//! batch.put(b"ada", Column::of(FACTS, b"born"), Timestamp(0), b"1815");
//! batch.put(b"ada", Column::of(FACTS, b"field"), Timestamp(0), b"engines");
//! batch.delete_row(b"nobody");
//! people.write(&batch)?;
//!
//! let born = ColumnOf::new(b"ada", FACTS, b"born");
//! assert_eq!(people.get(born, None)?, Some((Timestamp(0), b"1815".to_vec())));
//! // The same without a copy.
//! let digits = people.get_with(born, None, |_, value| value.len())?;
//! assert_eq!(digits, Some(4));
//! # Ok(())
//! # }
//! ```
//!
//! The timestamp is the version of a cell, chosen by the writer; by convention microseconds since
//! 1970. Who wants one version only writes always the same. Family 0 is reserved.
//!
//! # Rows, many gets, scans
//!
//! ```
//! # use engine::{Column, ColumnOf, Engine, FamilyId, Options, Timestamp};
//! # use engine::{TreeId, TreeOptions, WriteBatch};
//! use engine::{Columns, Direction, QualifierRange, RowRange, RowSelection, ScanRequest};
//!
//! # fn main() -> engine::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let engine = Engine::open(dir.path(), Options::default())?;
//! # let f = FamilyId(1);
//! # let people = engine.create_tree(TreeId(1), TreeOptions::default())?;
//! # let mut batch = WriteBatch::new();
//! # for row in [b"ada", b"bob", b"eve"] {
//! #     batch.put(row, Column::of(f, b"age"), Timestamp(0), b"36");
//! #     batch.put(row, Column::of(f, b"name"), Timestamp(0), row);
//! # }
//! # people.write(&batch)?;
//! // Cells of one row. `read_row_with` lends them without a copy.
//! let columns = Columns::ranges(vec![QualifierRange::family(f)]);
//! let selection = RowSelection { versions_max: Some(1), ..RowSelection::of(&columns) };
//! let cells = people.read_row(b"ada", &selection, None)?;
//! assert_eq!(cells[1].qualifier, b"name");
//!
//! // Columns of many rows, at one moment: they wait for memory and for the disk together.
//! let names = [ColumnOf::new(b"ada", f, b"name"), ColumnOf::new(b"zoe", f, b"name")];
//! let found = people.multi_get(&names, None)?;
//! assert_eq!(found, [Some((Timestamp(0), b"ada".to_vec())), None]);
//!
//! // Rows of a range, here from the last to the first.
//! let rows = RowRange { start: b"b".to_vec(), end: None };
//! let request = ScanRequest { direction: Direction::Reverse, ..ScanRequest::rows(rows) };
//! let mut scan = people.scan(&request, None)?;
//! let mut keys = Vec::new();
//! while let Some(row) = scan.next_row()? {
//!     keys.push(row.to_vec());
//!     while let Some(cell) = scan.next_cell()? {
//!         assert_eq!(cell.family, f);
//!     }
//! }
//! assert_eq!(keys, [b"eve", b"bob"]);
//! # Ok(())
//! # }
//! ```
//!
//! One thread keeps many gets at work on the disk with [`Tree::in_flight`]; tasks of an
//! asynchronous program read rows with [`Tree::row_reads`], which needs no runtime and holds
//! no thread.
//!
//! # Snapshots, bulk loads, copies
//!
//! ```
//! # use engine::{Column, ColumnOf, Engine, FamilyId, Options, Timestamp};
//! # use engine::{TreeId, TreeOptions, WriteBatch};
//! use engine::{IngestOptions, RowRange};
//!
//! # fn main() -> engine::Result<()> {
//! # let root = tempfile::tempdir().unwrap();
//! # let (dir, copy) = (root.path().join("data"), root.path().join("copy"));
//! # let engine = Engine::open(&dir, Options::default())?;
//! # let f = FamilyId(1);
//! # let people = engine.create_tree(TreeId(1), TreeOptions::default())?;
//! // A moment of all trees. It keeps what it needs from vanishing until it is dropped.
//! let before = engine.snapshot();
//!
//! // Sorted cells go straight into SSTables, and join the tree all at once.
//! let mut writer = people.sst_writer(&IngestOptions::default())?;
//! for number in 0..1000u32 {
//!     writer.put(&number.to_be_bytes(), Column::of(f, b"n"), Timestamp(0), b"loaded")?;
//! }
//! let mut files = writer.finish()?;
//! engine.ingest(&mut files)?;
//! let seven = 7u32.to_be_bytes();
//! let seventh = ColumnOf::new(&seven, f, b"n");
//! assert!(people.get(seventh, None)?.is_some());
//! assert!(people.get(seventh, Some(&before))?.is_none());
//!
//! // Both happen by themselves; calling them is for tests, and for the end of a bulk load.
//! people.flush()?;
//! people.compact_range(&RowRange::ALL)?;
//!
//! // A copy of the live engine that opens by itself; SSTables are hard links.
//! engine.checkpoint(&copy)?;
//! let copied = Engine::open(&copy, Options::default())?;
//! assert!(copied.tree(people.id())?.get(seventh, None)?.is_some());
//!
//! assert_eq!(engine.metrics().get("ingests_total"), Some(1));
//! # Ok(())
//! # }
//! ```
//!
//! # Durability
//!
//! [`Options::durability`] says when an acknowledged write is on disk: with [`Durability::Sync`],
//! the default, always. Threads that write at the same time share one sync, so that many writers
//! are much faster than one; one writer is faster with larger batches. [`Engine::sync`] makes what
//! was acknowledged durable in every mode. Dropping the last handle closes an engine, and so does
//! the end of the process, however it comes: the log is replayed at the next open.
//!
//! # Errors
//!
//! [`Error`] is grouped by what its receiver can do. [`Error::InvalidArgument`] and
//! [`Error::UnknownTree`] are for the caller's code. [`Error::NoSpace`] passes when there is space.
//! [`Error::Unavailable`] says that nothing was written since background work fails; it is tried again
//! by itself, and so can the write be. [`Error::WritesStopped`] follows a failed append or sync of the
//! log or the manifest, or a panic of background work: reads go on, and writes do when the engine is
//! opened again. [`Error::Corruption`] names file and offset: see [`check`], [`dump`] and [`repair`].
//! A panic is a bug of the engine, or of the rules and operators it was given.
//!
//! # Threads and memory
//!
//! [`Engine`], [`Tree`] and [`Snapshot`] are shared freely among threads and cheap to clone.
//! Calls block, save those of [`Tree::row_reads`]. Closures that are lent a cell should be
//! short, and must not call the engine. Memory is bounded by [`Options::memory_bytes_max`], over
//! all trees. A scan and a snapshot keep files from being deleted while they live.
//!
//! # What is stable
//!
//! The names at the root of this crate, and the modules that this page lists. Hidden modules, such
//! as `internals`, are for Stele itself, and change at any time. `docs/embedding.md` has the whole promise, files on disk included.

#![warn(missing_docs)]

mod background;
mod batch;
mod block_loads;
mod cache;
mod cell;
mod changes;
mod compaction;
mod counters;
mod engine;
mod error;
mod files;
#[doc(hidden)]
pub mod group_log;
mod health;
mod ingest;
#[doc(hidden)]
pub mod internals;
pub mod kv;
mod locks;
mod log;
mod maintenance;
mod manifest;
mod marks;
mod memory;
mod memtable;
mod merge;
pub mod merge_operator;
pub mod metrics;
mod options;
#[doc(hidden)]
pub mod owner;
mod read;
mod recovery;
mod request;
mod semantics;
mod shape;
mod sstable;
mod state;
mod tree;
mod write;

pub use base::env::Env;
pub use base::histogram::Buckets;
pub use batch::{
    BATCH_BYTES_MAX, BatchError, OpenTimes, QUALIFIER_BYTES_MAX, ROW_BYTES_MAX, ReadyBatch,
    TimestampRange, VALUE_BYTES_MAX, WriteBatch,
};
pub use cell::{Column, FamilyId, Scope, SequenceNumber, Timestamp, TreeId};
pub use changes::{Change, ChangeBatch, ChangePosition, ChangeReader, Changes, ReadUpTo};
pub use counters::perf_context;
pub use engine::{Engine, Fed, Scan, Snapshot};
pub use error::{Cause, Corruption, Error, Result};
pub use ingest::sort::{RowSorter, SortOptions, SortedRows};
pub use ingest::{IngestFiles, IngestOptions, SstWriter};
#[doc(hidden)]
pub use maintenance::checkpoint;
pub use maintenance::{check, dump, repair};
pub use manifest::{ChangeLog, ClusterId, LogPosition, Member, NodeId, Owner, StoreId};
pub use merge_operator::{AnyOperand, Operand, Operator, Sketch, SketchError, SketchInput};
pub use metrics::{
    GroupedMetrics, HistogramReading, HistogramUnit, Label, MetricKind, Metrics, QUEUE_WAIT_HELP,
    Reading,
};
pub use options::{
    BackgroundRate, Compression, Durability, FilterGranularity, Options, TreeOptions,
};
pub use read::drivers::get_pipeline::{Answer, GetPipeline};
pub use read::drivers::{ColumnOf, FoundCell, RowEnd, RowReads, RowSelection, Tree};
pub use read::scan::step_budget::{Skipped, StepBudget, Stepped};
pub use request::{Cell, Columns, Direction, OwnedCell, QualifierRange, RowRange, ScanRequest};
pub use semantics::elision_policy;
pub use semantics::elision_policy::{ElisionPolicy, ElisionRules, Verdict};
pub use sstable::Deferred;
pub use state::running_compactions::{CompactionReason, RunningCompaction};
pub use tree::file_list::{RunFiles, SstFile, TreeFiles};
pub use write::group_commit::TIMES_AHEAD_MICROS_MAX;
