//! Errors of the directory, by what the caller can do.

use std::fmt;

/// Result of calls of the directory.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call of the directory failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The directory does not answer. A change may have taken effect. Try again later.
    Unavailable(String),
    /// The directory takes no changes, because it is full or overloaded. Nothing changed.
    Full(String),
    /// The call breaks a limit, which the text names. Nothing changed.
    Invalid(String),
    /// Events after the given revision are no longer kept. Read, then watch again.
    Compacted,
    /// The lease has ended, and its keys are gone.
    LeaseLost,
    /// A key was changed by another node at the same time. Nothing changed.
    Conflict(String),
    /// The directory holds something that this program cannot read.
    Damaged {
        /// Name of the key, or path of the file.
        key: String,
        /// Reason why it cannot be read.
        what: String,
    },
    /// The directory refuses this node or its call. An operator must look.
    Refused(String),
    /// The directory that answers is not the one of the node's cluster as the node knows it: it has no cluster or
    /// another one, or an older state. Nothing changed. An operator must look.
    Foreign(String),
    /// A later start of this node is registered, or its data directory is an older copy. This start must
    /// stop, and never vote.
    Replaced(String),
}

impl Error {
    pub(crate) fn damaged(key: impl fmt::Display, what: impl fmt::Display) -> Self {
        Self::Damaged { key: key.to_string(), what: what.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(text) => write!(f, "the cluster's directory is unavailable: {text}"),
            Self::Full(text) => write!(f, "the cluster's directory takes no changes: {text}"),
            Self::Invalid(text)
            | Self::Conflict(text)
            | Self::Refused(text)
            | Self::Foreign(text)
            | Self::Replaced(text) => f.write_str(text),
            Self::Compacted => f.write_str("the directory no longer keeps the events asked for"),
            Self::LeaseLost => f.write_str("the lease in the cluster's directory has ended"),
            Self::Damaged { key, what } => write!(f, "directory, '{key}': {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for table::Error {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Unavailable(_) | Error::LeaseLost | Error::Compacted | Error::Foreign(_) => {
                Self::Unavailable(text)
            }
            Error::Full(_) => Self::ResourceExhausted(text),
            Error::Invalid(_) => Self::invalid("", text),
            Error::Conflict(_) => Self::Aborted(text),
            Error::Damaged { .. } => Self::DataLoss(text),
            Error::Refused(_) | Error::Replaced(_) => Self::FailedPrecondition(text),
        }
    }
}
