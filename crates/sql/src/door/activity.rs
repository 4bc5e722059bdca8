//! Activity of sessions, as `pg_stat_activity` tells it.

use super::Identity;
use crate::expression::Acting;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;

/// Longest text of a statement that is told, in bytes.
const QUERY_BYTES_MAX: usize = 1_024;

/// A session at one moment. Times are microseconds since 2000.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// The process number that clients see.
    pub pid: i32,
    /// Name by which the client logged in.
    pub user: Arc<str>,
    /// The role or the owner that was let in by that name.
    pub acting: Acting,
    /// Name that the client gave itself.
    pub application: Arc<str>,
    /// Address of the client, or of the node that forwards it.
    pub client: Option<SocketAddr>,
    /// Moment at which the session began.
    pub started: i64,
    /// Start of the transaction in progress.
    pub transaction_started: Option<i64>,
    /// Start of the last statement.
    pub statement_started: Option<i64>,
    /// Last change of the state.
    pub changed: i64,
    /// State of the session, in PostgreSQL's words.
    pub state: &'static str,
    /// Text of the last statement.
    pub query: Arc<str>,
}

/// The activity of one session.
#[derive(Debug)]
pub(crate) struct Activity(Mutex<SessionInfo>);

impl Activity {
    /// Returns the activity of a session that began at `now`.
    pub(crate) fn new(pid: i32) -> Self {
        let nothing: Arc<str> = Arc::from("");
        Self(Mutex::new(SessionInfo {
            pid,
            user: Arc::clone(&nothing),
            acting: Acting::default(),
            application: Arc::clone(&nothing),
            client: None,
            started: 0,
            transaction_started: None,
            statement_started: None,
            changed: 0,
            state: "idle",
            query: nothing,
        }))
    }

    /// Notes whose session it is, from where if that is known, and when it began.
    pub(crate) fn enter(&self, identity: &Identity, client: Option<SocketAddr>, now: i64) {
        let mut info = self.0.lock();
        (info.user, info.client) = (identity.user.as_str().into(), client);
        info.acting = identity.acting;
        (info.started, info.changed) = (now, now);
    }

    /// Notes the name that a client gives itself.
    pub(crate) fn name(&self, application: &str) {
        self.0.lock().application = application.into();
    }

    /// Notes a statement that begins, in a transaction that began at `transaction`.
    pub(crate) fn begin(&self, query: &Arc<str>, now: i64, transaction: i64) {
        let mut info = self.0.lock();
        if query.len() > QUERY_BYTES_MAX {
            info.query = query[..query.floor_char_boundary(QUERY_BYTES_MAX)].into();
        } else {
            info.query = Arc::clone(query);
        }
        info.transaction_started = Some(transaction);
        info.statement_started = Some(now);
        (info.state, info.changed) = ("active", now);
    }

    /// Notes that the session waits for its client, in a transaction or not.
    pub(crate) fn rest(&self, state: &'static str, now: i64) {
        let mut info = self.0.lock();
        if state == "idle" {
            info.transaction_started = None;
        }
        (info.state, info.changed) = (state, now);
    }

    /// Returns the session as it is.
    pub(crate) fn info(&self) -> SessionInfo {
        self.0.lock().clone()
    }
}
