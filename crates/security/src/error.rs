//! Errors: each names its file, and nothing of a secret.

use std::fmt;
use std::path::{Path, PathBuf};

/// Result of the functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A file that cannot be used. The text says which one and what is wrong with it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read or written.
    Io {
        /// File that the error is about.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file can be read, but not used.
    Invalid {
        /// File that the error is about.
        path: PathBuf,
        /// Reason, without any content that may be secret.
        what: String,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    pub(crate) fn invalid(path: &Path, what: impl fmt::Display) -> Self {
        Self::Invalid { path: path.to_owned(), what: what.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Invalid { path, what } => write!(f, "{}: {what}", path.display()),
        }
    }
}

impl std::error::Error for Error {}
