//! The session's part in the evaluation of expressions.

use std::sync::Arc;
use std::time::Duration;

use base::env::{Clock, SystemClock};
use relational::catalog::{PUBLIC_ROLE, Sequence};
use relational::{AdvisoryHold, AdvisoryKey, CancelFlag, Catalog, Error, Oid, Result, SqlState};

use crate::door::{Build, SessionInfo};
use crate::values::Settings;

/// The one whose rights count. A role counts by its number: a name may be given to another role later on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acting {
    /// The owner of the database, as who a client was let in that named no role.
    Owner,
    /// A role. It has no rights once it is dropped.
    Role(Oid),
    /// A reader of all tables, views and sequences, who is no role and has no other right.
    Reader,
}

impl Default for Acting {
    /// Returns who has only what all have.
    fn default() -> Self {
        Self::Role(PUBLIC_ROLE)
    }
}

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

/// The server, as functions and tables of the catalog ask for it.
pub trait Server: Send + Sync {
    /// Returns the last number of a sequence, and true if it was given; false if it is the next one.
    fn last_value(&self, sequence: &Sequence) -> Result<(i64, bool)>;
    /// Returns all sessions of this node.
    fn sessions(&self) -> Vec<SessionInfo>;
    /// Stops the statement of a session, or the session too. Returns false if there is no such session.
    fn stop(&self, pid: i32, ends_session: bool) -> bool;
    /// Returns when the server began, in microseconds since 2000.
    fn started(&self) -> i64;
    /// Returns the number of the transaction, which no other has in this process.
    fn transaction(&self) -> u64;
    /// Returns the indexes that are built beside writers.
    fn builds(&self) -> Vec<Build>;
    /// Takes an advisory lock for the session. Returns false if it is only tried, and others are in the way.
    fn lock(
        &self,
        key: AdvisoryKey,
        hold: AdvisoryHold,
        is_tried: bool,
        context: &EvalContext,
    ) -> Result<bool>;
    /// Gives an advisory lock of the session back. Returns false if it has none.
    fn unlock(&self, key: AdvisoryKey, is_shared: bool) -> bool;
    /// Gives all advisory locks of the session back.
    fn unlock_all(&self);
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
    /// Name of the role that is current.
    pub user: Arc<str>,
    /// The one whose rights count in the session.
    pub acting: Acting,
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
    /// The server, if the statement runs.
    pub server: Option<Arc<dyn Server>>,
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

impl EvalContext {
    /// Returns the server, or 0A000 where a statement may not ask it.
    pub(crate) fn server(&self) -> Result<&dyn Server> {
        let server = self.server.as_deref();
        server.ok_or_else(|| Error::unsupported("this function cannot be used in this place"))
    }
}

impl std::fmt::Debug for EvalContext {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("EvalContext").field("user", &self.user).finish_non_exhaustive()
    }
}
