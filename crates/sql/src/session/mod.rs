//! A session: the statements of one client, in order, and everything that lasts from one to the next.
//!
//! ```text
//! wire ─ message ─▶ simple.rs   text of statements         ┐
//!                ─▶ extended.rs parse, bind, execute, sync ┴─▶ run.rs ─▶ statement
//!                                                                └─▶ block_command.rs, command.rs,
//!                                                                    variables.rs, cursor.rs
//! ```
//!
//! Invariants:
//! 1. An error ends its statement, and fails an open block. The connection goes on.
//! 2. A transaction without a block is committed before its client learns that the statement is complete,
//!    if nothing comes between the statement and the end of its messages.
//! 3. A commit is never interrupted, neither by a cancel request nor by a timeout.
//! 4. A client that goes away has its transaction rolled back.

mod block;
mod block_command;
mod command;
mod cursor;
mod extended;
mod known;
mod live;
mod observed;
mod portal;
mod run;
mod sequences;
mod settings;
mod simple;
mod variables;

pub(crate) use sequences::Given;
pub(crate) use settings::Settings;
use settings::Span;

use crate::door::{
    Broken, Identity, Inbound, Notice, Refusal, Registered, Severity, Shared, Underway, Wire,
    error_message,
};
use crate::expression::EvalContext;
use crate::statement::privilege::is_superuser;
use crate::values;
use block::Block;
use parking_lot::Mutex;
use pgwire::messages::response::ReadyForQuery;
use pgwire::messages::startup::ParameterStatus;
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use portal::Portals;
use relational::{AdvisoryLocks, Catalog, Error, SqlState};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Reason for which a message is not carried out.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The client is told, and goes on.
    Sql(Error),
    /// The connection ends, and the client may be told why.
    Broken(Broken),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

/// An event that a session waits for between two messages.
enum Next {
    Inbound(Inbound),
    /// The session ends, and the client is told why.
    End(Error),
}

/// A change of a setting that an expression made.
struct SetSetting {
    name: String,
    value: String,
    span: Span,
}

/// One client at work, with all that its session keeps.
pub(crate) struct Session {
    shared: Arc<Shared>,
    wire: Wire,
    identity: Identity,
    registered: Registered,
    settings: Settings,
    block: Block,
    portals: Portals,
    notices: Vec<Notice>,
    /// An error came, and messages are passed over until the next sync.
    is_skipping: bool,
    /// Tag of a statement whose transaction is committed if a sync is next.
    uncommitted: Option<String>,
    /// Numbers that the session got from sequences.
    given: Arc<Mutex<Given>>,
    /// Context of expressions, without a catalog.
    evaluation: EvalContext,
    /// Settings that `set_config` changed in the statement.
    set: Arc<Mutex<Vec<SetSetting>>>,
    /// Settings that the context has.
    noted: Arc<values::Settings>,
    /// Start of the transaction, in microseconds since 2000.
    started: i64,
    /// Moment at which the statement runs out of time.
    deadline: Option<Duration>,
    /// The statement whose end the client was not told yet.
    underway: Option<Underway>,
    /// Keys that the session holds for its client.
    advisory: Arc<AdvisoryLocks>,
}

impl Session {
    /// Returns the session of a client that was let in.
    pub(crate) fn new(
        shared: Arc<Shared>,
        wire: Wire,
        identity: Identity,
        registered: Registered,
    ) -> Self {
        let version = shared.options.version;
        let user: Arc<str> = identity.user.as_str().into();
        let evaluation = EvalContext {
            session_user: Arc::clone(&user),
            user,
            acting: identity.acting,
            database: shared.database.catalog().database.as_str().into(),
            version: format!("15.0 (Stele {version})").into(),
            backend: registered.pid,
            ..EvalContext::default()
        };
        Self {
            given: Arc::default(),
            evaluation,
            set: Arc::default(),
            noted: Arc::default(),
            started: 0,
            deadline: None,
            underway: None,
            settings: Settings::new(
                &identity.user,
                is_superuser(&shared.database.catalog(), identity.acting),
                version,
            ),
            block: Block::new(Arc::clone(&shared.counts)),
            advisory: Arc::new(shared.database.advisory_locks()),
            shared,
            wire,
            identity,
            registered,
            portals: Portals::default(),
            notices: Vec::new(),
            is_skipping: false,
            uncommitted: None,
        }
    }

    /// Serves the client to its end, until `stop` changes and no transaction is open, or until the door of its
    /// database ends.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<()>) {
        let outcome = match self.greet().await {
            Ok(()) => self.serve(&mut stop).await,
            Err(broken) => Err(broken),
        };
        match outcome {
            Ok(()) | Err(Broken::Closed) => {}
            Err(Broken::Io(error)) => tracing::debug!(%error, "lost a PostgreSQL client"),
            Err(Broken::Protocol(message)) => {
                self.tell_last(&Error::new(SqlState::PROTOCOL_VIOLATION, message));
            }
        }
        self.end_statement(Err(SqlState::CONNECTION_FAILURE));
        self.portals.close_all();
        self.block.roll_back(&mut self.settings).await;
        self.wire.close().await;
    }

    async fn greet(&mut self) -> Result<(), Broken> {
        let wanted = std::mem::take(&mut self.identity.settings);
        if let Err(error) = self.settings.start(&wanted) {
            self.tell_last(&error);
            return Err(Broken::Closed);
        }
        self.ready().await
    }

    async fn serve(&mut self, stop: &mut watch::Receiver<()>) -> Result<(), Broken> {
        loop {
            let inbound = match self.next(stop).await? {
                Next::Inbound(inbound) => inbound,
                Next::End(error) => {
                    self.tell_last(&error);
                    return Ok(());
                }
            };
            let outcome = match inbound {
                Inbound::Message(PgWireFrontendMessage::Terminate(_)) => return Ok(()),
                Inbound::Message(PgWireFrontendMessage::Query(query)) => {
                    self.simple(query.query.into()).await
                }
                Inbound::Message(message) => match self.extended(message).await {
                    // Messages without a sync may ask for any number of answers.
                    Ok(()) => self.wire.drain().await.map_err(Stop::from),
                    stopped => stopped,
                },
                Inbound::Refused { is_extended, why } => self.refuse(is_extended, why).await,
            };
            match outcome {
                Ok(()) => {}
                Err(Stop::Sql(error)) => {
                    self.fail(&error).await?;
                    // The client may wait for the error before it sends its sync.
                    self.wire.flush().await?;
                }
                Err(Stop::Broken(broken)) => return Err(broken),
            }
        }
    }

    /// Returns the next message, or the reason for which the session ends.
    async fn next(&mut self, stop: &mut watch::Receiver<()>) -> Result<Next, Broken> {
        let idle = match self.block.is_open() {
            true => self.settings.times().idle_in_transaction,
            false => self.settings.times().idle,
        };
        let is_open = self.block.is_open();
        let mut over = self.shared.over.subscribe();
        let cancel = Arc::clone(&self.registered.cancel);
        let idle = async {
            match idle {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            inbound = self.wire.next() => Ok(Next::Inbound(inbound?)),
            () = idle => Ok(Next::End(match is_open {
                true => Error::new(
                    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                    "terminating connection due to idle-in-transaction timeout",
                ),
                false => Error::new(
                    SqlState::IDLE_SESSION_TIMEOUT,
                    "terminating connection due to idle-session timeout",
                ),
            })),
            _ = over.wait_for(|over| *over) => Ok(Next::End(Error::new(
                SqlState::ADMIN_SHUTDOWN,
                "terminating connection because this node does not lead the database any more",
            ))),
            () = cancel.session_ends() => Ok(Next::End(Error::new(
                SqlState::ADMIN_SHUTDOWN,
                "terminating connection due to administrator command",
            ))),
            _ = stop.changed(), if !is_open => Ok(Next::End(Error::new(
                SqlState::ADMIN_SHUTDOWN,
                "terminating connection due to administrator command",
            ))),
        }
    }

    /// Answers a statement that was read past.
    async fn refuse(&mut self, is_extended: bool, why: Refusal) -> Result<(), Stop> {
        if is_extended && self.is_skipping {
            return Ok(());
        }
        let error = match why {
            Refusal::TooLong(max) => Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("a statement has more than {max} bytes"),
            ),
            Refusal::Encoding(message) => {
                Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
            }
        };
        if is_extended {
            return Err(error.into());
        }
        self.fail(&error).await?;
        Ok(self.ready().await?)
    }

    /// Tells the client of an error, and has the block fail. Messages of the extended protocol are passed
    /// over from now on; a caller in the simple protocol ends that by [`Session::ready`].
    async fn fail(&mut self, error: &Error) -> Result<(), Broken> {
        self.uncommitted = None;
        self.is_skipping = true;
        self.shared.counts.error(error.state);
        self.end_statement(Err(error.state));
        self.put_notices()?;
        self.wire.put(&error_message(error, Severity::Error))?;
        self.block.fail(&mut self.settings).await;
        self.settle_advisory();
        if !self.block.is_open() {
            self.portals.roll_back();
        }
        // A client may wait for the error before it sends what ends its messages.
        self.wire.flush().await
    }

    /// Tells the client of an error that ends the connection.
    fn tell_last(&mut self, error: &Error) {
        self.shared.counts.error(error.state);
        // A client that cannot be told finds its connection closed.
        let _ = self.wire.put(&error_message(error, Severity::Fatal));
    }

    /// Tells the client that the session waits, with what it has to know by then.
    async fn ready(&mut self) -> Result<(), Broken> {
        self.is_skipping = false;
        self.put_notices()?;
        self.note_rest();
        for (name, value) in self.settings.untold() {
            if name == "application_name" {
                self.registered.activity.name(&value);
            }
            let status = ParameterStatus::new(name.to_owned(), value);
            self.wire.put(&PgWireBackendMessage::ParameterStatus(status))?;
        }
        let ready = ReadyForQuery::new(self.block.status());
        self.wire.put(&PgWireBackendMessage::ReadyForQuery(ready))?;
        self.wire.flush().await
    }

    fn put_notices(&mut self) -> Result<(), Broken> {
        for notice in std::mem::take(&mut self.notices) {
            self.wire.put(&notice.to_message())?;
        }
        Ok(())
    }

    /// Commits a transaction without a block, and forgets what ends with it.
    async fn commit_implicit(&mut self) -> Result<(), Stop> {
        if !self.block.is_open() {
            let committed = self.block.commit_implicit(&mut self.settings).await;
            match committed {
                Ok(()) => self.portals.commit(),
                Err(_) => self.portals.roll_back(),
            }
            committed?;
        }
        Ok(())
    }

    /// Returns the catalog as the transaction sees it.
    fn catalog(&self) -> Arc<Catalog> {
        match self.block.transaction() {
            Some(transaction) => transaction.catalog(),
            None => self.shared.database.catalog(),
        }
    }

    /// Makes the changes of settings that expressions of the statement asked for.
    fn apply_set(&mut self) -> Result<(), Error> {
        let changes = std::mem::take(&mut *self.set.lock());
        for SetSetting { name, value, span } in changes {
            self.assign(&name, &value, span)?;
        }
        Ok(())
    }

    /// Returns the longest time of a statement, if it is bounded.
    fn statement_timeout(&self) -> Option<Duration> {
        self.settings.times().statement
    }
}
