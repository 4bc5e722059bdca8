//! Errors as an SQL client sees them.
//!
//! The state says what the caller can do: 40001 and 40P01 are to be tried again, 22 and 23 are about the
//! data, 42 about the statement, 53 and 58 about the machine, and XX001 means damaged data.

use crate::state::SqlState;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Result of a call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error, of the size of a pointer. [`ErrorFields`] has its fields.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<ErrorFields>);

/// The fields of an [`Error`], as a client receives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorFields {
    /// Code of the condition, by which a client decides.
    pub state: SqlState,
    /// One line for a human being.
    pub message: String,
    /// More about this error, such as the key that is there already.
    pub detail: Option<String>,
    /// Advice, which may be wrong.
    pub hint: Option<String>,
    /// Work during which the error came, such as a line of a COPY.
    pub context: Option<String>,
    /// Character of the statement, from 1, at which the error is.
    pub position: Option<u32>,
    /// Schema of the table that the error is about.
    pub schema: Option<String>,
    /// Table that the error is about.
    pub table: Option<String>,
    /// Column that the error is about.
    pub column: Option<String>,
    /// Type that the error is about.
    pub data_type: Option<String>,
    /// Constraint that was violated, or the index that keeps it.
    pub constraint: Option<String>,
}

impl Error {
    /// Returns an error with a state and a message only.
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorFields {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            context: None,
            position: None,
            schema: None,
            table: None,
            column: None,
            data_type: None,
            constraint: None,
        }))
    }

    /// Returns the error of something that is not supported (0A000).
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    }

    /// Returns the error of a broken invariant of the program (XX000).
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(SqlState::INTERNAL_ERROR, message)
    }

    /// Returns the error of damaged data (XX001).
    pub fn corrupted(message: impl Into<String>) -> Self {
        Self::new(SqlState::DATA_CORRUPTED, message)
    }

    /// Adds a detail to the error.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds advice to the error.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the character of the statement at which the error is, from 1.
    pub fn at(mut self, position: u32) -> Self {
        self.position = Some(position);
        self
    }

    /// Names the table that the error is about.
    pub fn of_table(mut self, schema: impl Into<String>, table: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self.table = Some(table.into());
        self
    }

    /// Names the column that the error is about.
    pub fn of_column(mut self, column: impl Into<String>) -> Self {
        self.column = Some(column.into());
        self
    }

    /// Names the constraint that was violated.
    pub fn of_constraint(mut self, constraint: impl Into<String>) -> Self {
        self.constraint = Some(constraint.into());
        self
    }
}

impl Deref for Error {
    type Target = ErrorFields;

    fn deref(&self) -> &ErrorFields {
        &self.0
    }
}

impl DerefMut for Error {
    fn deref_mut(&mut self) -> &mut ErrorFields {
        &mut self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.state, self.message)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {}

/// The engine's errors, by the state that tells a client what to do.
impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Self {
        let state = match &error {
            engine::Error::NoSpace { .. } => SqlState::DISK_FULL,
            engine::Error::Corruption(_) => SqlState::DATA_CORRUPTED,
            engine::Error::InvalidArgument(_) => SqlState::PROGRAM_LIMIT_EXCEEDED,
            engine::Error::UnknownTree(_) => SqlState::INTERNAL_ERROR,
            _ => SqlState::IO_ERROR,
        };
        Self::new(state, error.to_string())
    }
}

impl From<table::Error> for Error {
    fn from(error: table::Error) -> Self {
        let state = match &error {
            table::Error::DataLoss(_) => SqlState::DATA_CORRUPTED,
            table::Error::NotFound { .. } => SqlState::UNDEFINED_OBJECT,
            table::Error::InvalidArgument { .. } => SqlState::INVALID_PARAMETER_VALUE,
            table::Error::ResourceExhausted(_) => SqlState::INSUFFICIENT_RESOURCES,
            _ => SqlState::IO_ERROR,
        };
        Self::new(state, error.to_string())
    }
}
