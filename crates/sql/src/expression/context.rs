//! The session's part in the evaluation of expressions.

use std::sync::Arc;
use std::time::Duration;

use base::env::{Clock, SystemClock};
use relational::{CancelFlag, Catalog, Error, Result, SqlState};

use crate::values::Settings;

/// Sequences of the current transaction, which expressions advance.
pub trait Sequences: Send + Sync {
    /// Returns the next number of a sequence, named as in SQL.
    fn next(&self, sequence: &str) -> Result<i64>;
    /// Returns the number that this session got last from a sequence.
    fn current(&self, sequence: &str) -> Result<i64>;
    /// Returns the number that this session got last from any sequence.
    fn last(&self) -> Result<i64>;
    /// Sets the last number of a sequence; the next one follows it if it was `called`.
    fn set(&self, sequence: &str, value: i64, called: bool) -> Result<i64>;
}

/// Changes a setting when its statement is done, for the transaction only if the last argument is true.
/// Returns the value as SHOW will print it.
pub type Set = Arc<dyn Fn(&str, &str, bool) -> Result<String> + Send + Sync>;

/// Returns the value of a setting by its name.
pub type Show = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Time, settings and catalog of one statement. Cheap to clone.
#[derive(Clone, Default)]
pub struct EvalContext {
    /// Settings of the session; their `now` is the start of the transaction.
    pub settings: Arc<Settings>,
    /// Microseconds since 2000-01-01 UTC at which the statement began.
    pub statement_start: i64,
    /// The catalog that names are looked up in.
    pub catalog: Option<Arc<Catalog>>,
    /// The role that is current.
    pub user: Arc<str>,
    /// The role that logged in.
    pub session_user: Arc<str>,
    /// The database of the connection.
    pub database: Arc<str>,
    /// The version as `server_version` shows it.
    pub version: Arc<str>,
    /// The process number that clients see.
    pub backend: i32,
    /// Values of settings, by their names.
    pub show: Option<Show>,
    /// Means to change settings, if the statement may.
    pub set: Option<Set>,
    /// Sequences, if the statement may advance them.
    pub sequences: Option<Arc<dyn Sequences>>,
    /// Flag of a cancel request.
    pub cancel: CancelFlag,
    /// Moment at which the statement runs out of time, on the monotonic clock.
    pub deadline: Option<Duration>,
}

impl EvalContext {
    /// Fails with 57014 once the statement was cancelled, or is out of time.
    pub(crate) fn check_interrupts(&self) -> Result<()> {
        self.cancel.check()?;
        match self.deadline {
            Some(deadline) if SystemClock.monotonic() >= deadline => {
                let message = "canceling statement due to statement timeout";
                Err(Error::new(SqlState::QUERY_CANCELED, message))
            }
            _ => Ok(()),
        }
    }

    /// Returns the sequences, or 0A000 where a statement may not advance them.
    pub(crate) fn sequences(&self) -> Result<&dyn Sequences> {
        self.sequences
            .as_deref()
            .ok_or_else(|| Error::unsupported("sequences cannot be used in this place"))
    }
}

impl std::fmt::Debug for EvalContext {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("EvalContext").field("user", &self.user).finish_non_exhaustive()
    }
}
