//! The errors of a load test, by what their reader can do.

use std::fmt;
use std::path::PathBuf;
use tonic::Status;

/// Reason why a load test could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A flag is wrong, and nothing was touched. The text names the flag.
    Setting(String),
    /// The endpoint could not be reached.
    Connect { address: String, source: Box<dyn std::error::Error + Send + Sync> },
    /// The table could not be made or found.
    Schema(String),
    /// The data of the run could not be written before the run.
    Fill(String),
    /// A file could not be read or written.
    File { path: PathBuf, source: std::io::Error },
    /// A report cannot be used. The text says which report and why.
    Report(String),
    /// The program itself failed; the text says how.
    Program(String),
}

impl Error {
    /// Returns the error of a call that looked for the table or made it.
    pub(crate) fn schema(what: &str, status: &Status) -> Self {
        let (code, message) = (status.code(), status.message().escape_debug());
        Self::Schema(format!(
            "{what}: {code:?}: {message}; pass --no-create if the table exists and this identity \
             may not see schemas"
        ))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(text)
            | Self::Schema(text)
            | Self::Fill(text)
            | Self::Report(text)
            | Self::Program(text) => f.write_str(text),
            Self::Connect { address, .. } => write!(
                f,
                "no server answers at {address}; start one with `stele serve`, or pass another \
                 address with --endpoint"
            ),
            Self::File { path, .. } => write!(f, "{}", path.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect { source, .. } => Some(source.as_ref()),
            Self::File { source, .. } => Some(source),
            _ => None,
        }
    }
}
