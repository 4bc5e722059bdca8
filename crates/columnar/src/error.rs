//! The crate's errors, grouped by what the caller can do.

use base::codec::DecodeError;
use std::fmt;

/// Why bytes could not be read or arrays not be written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Bytes break the format. Never retried.
    Corruption {
        /// The part of the format that is broken.
        what: &'static str,
        /// Place of the damage, in bytes from the start of the page or the descriptor; in a compressed
        /// page from the start of what it would be uncompressed.
        offset: usize,
    },
    /// The bytes are of a version that this build does not know.
    Version {
        /// The version they have. The newest known is 1.
        found: u8,
    },
    /// The caller broke a documented limit or asked for another type, which the text names.
    InvalidArgument(String),
}

impl Error {
    pub(crate) fn corrupt(what: &'static str, offset: usize) -> Self {
        Self::Corruption { what, offset }
    }

    /// Returns an item that could not be decoded, `offset` bytes from the start, as damage.
    pub(crate) fn item(error: DecodeError, offset: usize) -> Self {
        match error {
            DecodeError::Truncated(what) | DecodeError::Varint(what) => Self::corrupt(what, offset),
            DecodeError::Trailing => Self::corrupt("bytes left over at the end", offset),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corruption { what, offset } => write!(f, "damaged at byte {offset}: {what}"),
            Self::Version { found } => {
                write!(
                    f,
                    "format version {found} is newer than 1, the newest that this build reads"
                )
            }
            Self::InvalidArgument(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}
