//! The table layer's errors, grouped by what the caller can do. Each kind maps to one gRPC code.

use std::fmt;

/// A result of the table layer.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A thing that the request names is not there. `NOT_FOUND`.
    NotFound {
        /// Kind of the thing: `table` or `column family`.
        what: &'static str,
        /// Its name as the request has it.
        name: String,
    },
    /// A thing to be created is there already. `ALREADY_EXISTS`.
    AlreadyExists {
        /// Kind of the thing: `table` or `column family`.
        what: &'static str,
        name: String,
    },
    /// The request breaks a documented rule; sending it again cannot help. `INVALID_ARGUMENT`.
    InvalidArgument {
        /// The field at fault, as a path in the request: `mutations[3].set_cell.value`.
        field: String,
        /// Description of the problem; names the limit.
        message: String,
    },
    /// The disk is full, or a limit on stored things is reached. Nothing was changed.
    /// `RESOURCE_EXHAUSTED`.
    ResourceExhausted(String),
    /// So much waits to be written to the table that no more may wait. Nothing was changed; the same
    /// request may pass soon. `RESOURCE_EXHAUSTED`.
    Busy(String),
    /// The request is sound but what is stored does not allow it. `FAILED_PRECONDITION`.
    FailedPrecondition(String),
    /// The request asks for changes that are not kept so far back. `OUT_OF_RANGE`.
    OutOfRange(String),
    /// An etag of the request is not the current one. `ABORTED`.
    Aborted(String),
    /// The request reaches for what its authorized view does not show. `PERMISSION_DENIED`.
    PermissionDenied(String),
    /// The store cannot serve now: writes stopped after a failed sync, or it is closing. Whether
    /// a write took effect is not known. `UNAVAILABLE`.
    Unavailable(String),
    /// The rows are replicated, and another node leads their tablet. Nothing was changed; the request can go
    /// to the leader. `UNAVAILABLE`.
    NotLeader {
        /// Id of the node that leads, as far as it is known.
        leader: Option<u64>,
    },
    /// Bytes on disk are damaged; the text names file and offset. `DATA_LOSS`.
    DataLoss(String),
    /// The store broke its own rule, or a read failed in the file system. `INTERNAL`.
    Internal(String),
}

impl Error {
    /// `field` breaks a rule, which `message` states with its limit.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::InvalidArgument { field: field.into(), message: message.into() }
    }

    /// Table `name` is not there.
    pub fn no_table(name: impl fmt::Display) -> Self {
        Self::NotFound { what: "table", name: name.to_string() }
    }

    /// Family `name` is not there.
    pub fn no_family(name: impl fmt::Display) -> Self {
        Self::NotFound { what: "column family", name: name.to_string() }
    }

    /// The error with `prefix` put before the field that it names, if it names one.
    #[must_use]
    pub fn within(self, prefix: &str) -> Self {
        match self {
            Self::InvalidArgument { field, message } if field.is_empty() => {
                Self::InvalidArgument { field: prefix.to_owned(), message }
            }
            Self::InvalidArgument { field, message } => {
                Self::InvalidArgument { field: format!("{prefix}.{field}"), message }
            }
            other => other,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { what, name } => write!(f, "{what} not found: {name}"),
            Self::AlreadyExists { what, name } => write!(f, "{what} already exists: {name}"),
            Self::InvalidArgument { field, message } if field.is_empty() => f.write_str(message),
            Self::InvalidArgument { field, message } => {
                write!(f, "error in field '{field}': {message}")
            }
            Self::NotLeader { leader: Some(leader) } => {
                write!(f, "node {leader} leads the tablet of the request; send it again")
            }
            Self::NotLeader { leader: None } => {
                f.write_str("the tablet of the request has no known leader; send it again")
            }
            Self::ResourceExhausted(text)
            | Self::Busy(text)
            | Self::FailedPrecondition(text)
            | Self::OutOfRange(text)
            | Self::Aborted(text)
            | Self::PermissionDenied(text)
            | Self::Unavailable(text)
            | Self::DataLoss(text)
            | Self::Internal(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Self {
        use engine::Error as E;
        let text = error.to_string();
        match error {
            E::NoSpace { .. } => Self::ResourceExhausted(text),
            E::Corruption(_) => Self::DataLoss(text),
            E::WritesStopped(_) | E::Unavailable(_) | E::Closed => Self::Unavailable(text),
            E::InvalidArgument(_) => Self::invalid("", text),
            E::ChangesGone(_) => Self::OutOfRange(text),
            // A tree is dropped only with its table, after the table's record is gone.
            E::UnknownTree(_) => Self::no_table("dropped during the request"),
            E::Unusable { .. } => Self::FailedPrecondition(text),
            _ => Self::Internal(text),
        }
    }
}
