//! The engine's errors, grouped by what the caller can do.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the engine could not do what it was asked. Its text tells all of it, so its chain of
/// [sources](StdError::source) is empty: the system's error, and the failure that a refusal follows,
/// are fields.
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
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The disk is full. Nothing acknowledged is lost; writes are taken again when space returns.
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// Bytes on disk break their format. Never retried; `stele dump` shows the spot.
    Corruption(Corruption),
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
    /// An earlier failure, or a panic, stopped writes; open the engine again.
    WritesStopped(Cause),
    /// Nothing was written: a flush or a compaction has to make room first, and has failed more
    /// than once. The engine tries it again by itself, so the write can be tried again.
    Unavailable(Cause),
    /// The changes asked for are not kept, or no longer; the text says which.
    ChangesGone(String),
    /// The engine is closing.
    Closed,
}

/// Damage of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corruption {
    /// The damaged file.
    pub file: PathBuf,
    /// Where in it, in bytes from its start.
    pub offset: u64,
    /// What was wrong.
    pub what: String,
}

/// Why writes are refused.
#[derive(Debug, Clone)]
pub struct Cause {
    /// The failure, in words.
    pub why: String,
    /// The failure itself; `None` for a panic, and where numbers are used up.
    pub source: Option<Arc<Error>>,
}

impl Error {
    /// An I/O failure, told apart from a full disk.
    pub fn io(op: &'static str, path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { path: path.to_owned(), source: Arc::new(copy_of(error)) }
            }
            _ => Self::unforgiven(op, path, error),
        }
    }

    /// An I/O failure that more space does not mend, even if want of space is its kind: one of a
    /// sync or a cut of a log.
    pub(crate) fn unforgiven(op: &'static str, path: &Path, error: &io::Error) -> Self {
        Self::Io { op, path: path.to_owned(), source: Arc::new(copy_of(error)) }
    }

    /// Damage found in `file` at `offset`.
    pub fn corruption(file: &Path, offset: u64, what: impl fmt::Display) -> Self {
        Self::Corruption(Corruption { file: file.to_owned(), offset, what: what.to_string() })
    }

    /// Writes are stopped because of `why`, which no error of the engine tells.
    pub(crate) fn stopped(why: impl Into<String>) -> Self {
        Self::WritesStopped(Cause { why: why.into(), source: None })
    }

    /// A block is not in memory, and its reader does not wait for the disk: what a read that would
    /// block gives.
    pub(crate) fn not_resident(path: &Path) -> Self {
        let source = Arc::new(io::ErrorKind::WouldBlock.into());
        Self::Io { op: "read", path: path.to_owned(), source }
    }

    /// Returns whether it is [`Self::not_resident`].
    pub(crate) fn is_not_resident(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Copies a system's error, which cannot be cloned, as far as that goes: its number, or its kind and
/// text.
fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

impl From<&Error> for Cause {
    /// The cause of refusals that follow `error`; that of `error` itself if it is such a refusal.
    fn from(error: &Error) -> Self {
        match error {
            Error::WritesStopped(cause) => cause.clone(),
            _ => Self { why: error.to_string(), source: Some(Arc::new(error.clone())) },
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, what } = self;
        write!(f, "corruption in {} at offset {offset}: {what}", file.display())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { op, path, source } => {
                write!(f, "cannot {op} {}: {source}", path.display())
            }
            Self::NoSpace { path, .. } => write!(
                f,
                "disk full: {} cannot grow; writes succeed again when there is space",
                path.display()
            ),
            Self::Corruption(corruption) => corruption.fmt(f),
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
            Self::ChangesGone(text) => f.write_str(text),
            Self::Closed => f.write_str("the engine is closed"),
        }
    }
}

impl StdError for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_carries_the_failure_and_that_the_systems_error() {
        let failed = Error::io("sync", Path::new("7.sst"), &io::Error::from_raw_os_error(5));
        let Error::WritesStopped(cause) = Error::WritesStopped((&failed).into()) else { panic!() };
        let Some(Error::Io { source, .. }) = cause.source.as_deref() else { panic!("{cause:?}") };
        assert_eq!(source.raw_os_error(), Some(5));
        // A refusal that follows a refusal has the same cause.
        let again = Cause::from(&Error::WritesStopped(cause.clone()));
        assert_eq!(again.why, cause.why);
    }

    #[test]
    fn nothing_is_told_twice_where_a_chain_of_errors_is_printed() {
        let failed = Error::io("sync", Path::new("7.sst"), &io::Error::from_raw_os_error(5));
        let damaged = Error::corruption(Path::new("7.sst"), 9, "a bad checksum");
        for error in [Error::Unavailable((&failed).into()), failed, damaged] {
            assert!(error.source().is_none(), "{error}");
        }
    }

    #[test]
    fn a_full_disk_is_told_apart_and_what_is_no_error_of_the_system_keeps_its_text() {
        let path = Path::new("7.log");
        let full = Error::io("write", path, &io::Error::from_raw_os_error(28));
        assert!(matches!(full, Error::NoSpace { .. }), "{full:?}");
        let other = Error::io("open", path, &io::Error::other("broken"));
        assert!(other.to_string().ends_with("broken"), "{other}");
    }

    #[test]
    fn a_block_that_is_not_resident_is_known_by_the_kind_of_its_error() {
        assert!(Error::not_resident(Path::new("7.sst")).is_not_resident());
        assert!(!Error::io("read", Path::new("7.sst"), &io::Error::other("x")).is_not_resident());
        assert!(!Error::Closed.is_not_resident());
    }
}
