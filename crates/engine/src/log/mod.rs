//! The commit log: one for the whole server, shared by all trees (docs/format/commit_log.md).
//!
//! It keeps opaque payloads with their tree and sequence number, in numbered segment files that
//! are preallocated and recycled. It knows nothing of cells, and not when a tree was flushed: it
//! is told.
//!
//! In: groups of batches as bytes. Out: the same bytes in the same order at the next open. The
//! manifest and the group log share its records and its rules ([`framing`]). Uses no other room.
//!
//! Use: `LogReader::open`, `next` until `None`, `LogWriter::open` with the reader's `finish`;
//! then `append` and `sync`, with `LogSegments::retire` after every flush, and `close` at the end.
//!
//! The protocol, each rule relied upon by those after it:
//! 1. A segment's header and name are on disk before a record is written to it.
//! 2. A segment is sealed and synced before the next one gets its name. The name N+1 therefore
//!    proves that N ends with a seal.
//! 3. A record carries `synced_to`, the offset below which its segment was on disk when it was
//!    written.
//! 4. A bad record at X is a torn tail only in the last segment, and only if no later record
//!    header of that segment has `synced_to` > X. Anything else is corruption, with file and X.
//! 5. A last segment without a valid header and without any valid record is a torn creation and
//!    counts as absent.
//! 6. Recovery seals the last segment at its end and syncs it before the next is created; until
//!    then everything can be repeated. An old segment is never appended to.
//! 7. Segment numbers are never reused, and are part of every checksum, so the remains of a
//!    recycled file never validate. The newest segment is never retired.
//! 8. Segments are retired oldest first, each durably before the next: there are no gaps.
//! 9. After a failed write or sync nothing is written any more. Only a full disk met before a
//!    sync is forgiven, after the tail was cut back to its place and synced.

pub(crate) mod framing;
pub(crate) mod fuzz;
mod log_reader;
pub(crate) mod log_salvage;
mod log_writer;
mod segments;
pub(crate) mod tree_batches;
mod written_len;

pub(crate) use framing::record::{COMMIT_TIME_END, LogRecord, RecordKind};
pub use framing::segment_files::SegmentNumber;
pub(crate) use framing::segment_reader::Ending;
pub(crate) use framing::segment_writer::{LogSizes, make_durable};
pub use log_reader::LogReader;
pub(crate) use log_reader::{LogEnd, LogItem};
pub(crate) use log_writer::LogWriter;
pub(crate) use segments::{
    FirstBatch, LogSegments, Reach, is_empty, list_kept, open_alone, open_kept,
};
pub(crate) use written_len::written_len;

/// A position in whatever log feeds the engine; grows with every batch of a tree. With the
/// engine's own log it is the sequence number of the batch's last mutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogPosition(pub u64);

#[cfg(test)]
mod tests;
