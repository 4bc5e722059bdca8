//! Why an input could not be read or an output not be written.

use std::fmt;
use std::io;

/// Result of reading or writing a format.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file could not be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file system failed to do what was asked.
    Io(io::Error),
    /// The input breaks its format. Another try reads the same.
    Malformed {
        /// The place in the input: an offset, a line or a record.
        place: Place,
        /// The reason, which names the part that is wrong.
        reason: String,
    },
    /// The input is whole, but of a kind that this version does not read or write.
    Unsupported(String),
}

/// A place in an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// An offset in bytes from the file's beginning.
    Offset(u64),
    /// A line; the first is 1.
    Line(u64),
    /// A record; the first is 1.
    Record(u64),
}

impl Error {
    /// Returns the error of a line that breaks its format.
    pub fn at_line(line: u64, reason: impl Into<String>) -> Self {
        Self::Malformed { place: Place::Line(line), reason: reason.into() }
    }

    /// Returns the error of bytes at an offset that break their format.
    pub fn at_offset(offset: u64, reason: impl Into<String>) -> Self {
        Self::Malformed { place: Place::Offset(offset), reason: reason.into() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => write!(f, "offset {offset}"),
            Self::Line(line) => write!(f, "line {line}"),
            Self::Record(record) => write!(f, "record {record}"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Malformed { place, reason } => write!(f, "{place}: {reason}"),
            Self::Unsupported(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => error.source(),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
