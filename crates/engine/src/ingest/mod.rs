//! Sorted bulk load: cells that come in order are written straight into SSTables, without log and
//! memtable, and join their trees all at once.
//!
//! In: cells in order, or rows in any order for [`sort`]. Out: SSTables that one edit of the manifest
//! makes part of their trees. May use `background`, `tree`, `manifest`, `sstable` and what they use.
//!
//! [`SstWriter`] writes the files, [`IngestFiles`] are the finished ones, `install` makes them part
//! of their trees. What does not come in order is sorted first: [`sort`]. `copy` makes the files of one
//! tree files of another one, too.
//!
//! Invariants:
//! 1. A file counts when the manifest names it, and one record of it names all files of an ingest,
//!    of however many trees: after a crash all of them are there or none. Before that edit nobody knows of them: whoever
//!    holds them removes them, and so does the next open.
//! 2. All cells of an ingest have one sequence number, the next when it is installed. They are
//!    newer than all that was committed before and older than all that is committed after. The
//!    files are finished long before; their blocks say 0, the manifest has the number
//!    (docs/format/sstable.md).
//! 3. The log is on disk up to the ingest before the edit is.

pub(crate) mod copy;
pub(crate) mod install;
pub(crate) mod sort;
mod sst_writer;

pub use sst_writer::{IngestFiles, IngestOptions, SstWriter};
