//! Why a backup could not be made, read or removed, grouped by what the caller can do.

use std::fmt;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// See the file header.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The object store did not do what it was asked. Do the same again: what was done is kept.
    Store {
        /// The operation as a verb: `read`, `write`, `list`, `delete`.
        op: &'static str,
        /// The object, or what was listed.
        object: String,
        /// The error of the object store.
        source: Box<object_store::Error>,
    },
    /// The data directory, or the directory that is restored to.
    Local(engine::Error),
    /// An object is not what was written. Restore another backup; `stele backup verify` tells which
    /// are whole.
    Damaged {
        object: String,
        /// Offset of the damage in the object, in bytes.
        offset: u64,
        /// Description of the damage.
        what: String,
    },
    /// Refused before anything was changed; the text says why and what to do.
    Refused(String),
}

impl Error {
    pub(crate) fn damaged(object: impl fmt::Display, offset: u64, what: impl fmt::Display) -> Self {
        Self::Damaged { object: object.to_string(), offset, what: what.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store { op, object, source } => {
                write!(f, "could not {op} {object} at the destination: {source}")?;
                write_causes(f, &**source)
            }
            Self::Local(error) => error.fmt(f),
            Self::Damaged { object, offset, what } => {
                write!(f, "{object} at offset {offset} is damaged: {what}")
            }
            Self::Refused(what) => f.write_str(what),
        }
    }
}

/// Writes the causes of `error` that its own text does not tell: it ends with "error sending request"
/// where the reason is that a certificate is not believed.
fn write_causes(f: &mut fmt::Formatter<'_>, error: &dyn std::error::Error) -> fmt::Result {
    let mut told = error.to_string();
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    for cause in causes.map(ToString::to_string) {
        if !told.contains(&cause) {
            write!(f, ": {cause}")?;
            told.push_str(&cause);
        }
    }
    Ok(())
}

/// The text tells all causes, so the chain of sources is empty: nothing is printed twice.
impl std::error::Error for Error {}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Self {
        Self::Local(error)
    }
}
