//! The engine's errors, grouped by what the caller can do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the engine could not do what it was asked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// The file system failed; the file is named, whichever it is. A failed append or sync of the
    /// commit log or manifest also stops writes until the engine is opened again; reads go on. A
    /// failed write or sync of an SSTable fails the flush, compaction or ingest it was for, which
    /// leaves nothing of it: whoever waits for that gets this error. Flushes and compactions are
    /// tried again, and writers of the tree are told it as `Unavailable` if they cannot go on
    /// meanwhile.
    Io {
        /// What was being done, a verb: `read`, `write`, `sync`, `create`.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// Kind of the system's error.
        kind: io::ErrorKind,
        /// Its text.
        message: String,
    },
    /// The disk is full. Nothing acknowledged is lost; writes are taken again when space returns.
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// Bytes on disk break their format. Never retried; `stele dump` shows the spot.
    Corruption {
        /// The damaged file.
        file: PathBuf,
        /// Where in it, in bytes from its start.
        offset: u64,
        /// What was wrong.
        what: String,
    },
    /// The data directory cannot be used as it is: locked by another process, written by a newer
    /// Stele, or not a data directory. The text says what to do.
    Unusable {
        /// The directory.
        dir: PathBuf,
        /// What is wrong and what to do.
        what: String,
    },
    /// The caller broke a documented limit, which the text names.
    InvalidArgument(String),
    /// No tree of that id.
    UnknownTree(crate::cell::TreeId),
    /// An earlier failure, or a panic, stopped writes; open the engine again. The text is that
    /// failure.
    WritesStopped(String),
    /// Nothing was written: a flush or a compaction has to make room first, and has failed more
    /// than once. The engine tries it again by itself, so the write can be tried again. The text is
    /// that failure.
    Unavailable(String),
    /// A block is not in memory, and the reader does not wait for the disk. It passes between parts
    /// of the engine; no call of its API returns it.
    #[doc(hidden)]
    NotResident,
    /// The engine is closing.
    Closed,
}

impl Error {
    /// An I/O failure, told apart from a full disk.
    pub fn io(op: &'static str, path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { path: path.to_owned() }
            }
            kind => Self::Io { op, path: path.to_owned(), kind, message: error.to_string() },
        }
    }

    /// Damage found in `file` at `offset`.
    pub fn corruption(file: &Path, offset: u64, what: impl fmt::Display) -> Self {
        Self::Corruption { file: file.to_owned(), offset, what: what.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { op, path, message, .. } => {
                write!(f, "cannot {op} {}: {message}", path.display())
            }
            Self::NoSpace { path } => write!(
                f,
                "disk full: {} cannot grow; writes succeed again when there is space",
                path.display()
            ),
            Self::Corruption { file, offset, what } => {
                write!(f, "corruption in {} at offset {offset}: {what}", file.display())
            }
            Self::Unusable { dir, what } => {
                write!(f, "data directory {}: {what}", dir.display())
            }
            Self::InvalidArgument(what) => f.write_str(what),
            Self::UnknownTree(tree) => write!(f, "unknown tree {}", tree.0),
            Self::WritesStopped(why) => {
                write!(f, "writes are stopped until the engine is reopened: {why}")
            }
            Self::Unavailable(why) => {
                write!(
                    f,
                    "not written, because background work is failing and will be retried: {why}"
                )
            }
            Self::NotResident => f.write_str("a block that is needed is not in memory"),
            Self::Closed => f.write_str("the engine is closed"),
        }
    }
}

impl std::error::Error for Error {}
