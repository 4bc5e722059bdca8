//! The listener for PostgreSQL clients: connections, TLS, passwords, cancel requests, bounds.
//!
//! ```text
//! arrival.rs ─ place ─ startup.rs (TLS, start, scram.rs) ─ session (statements) ─ close
//!                │           └─ cancel.rs: a cancel request ends here
//!                └─ node.rs, on a node of a cluster: forward.rs, if another node leads the database
//! prompt.rs: one statement that only reads, without a connection
//! ```
//!
//! Invariants:
//! 1. A connection ends by itself: whatever bytes it sends, no other one notices.
//! 2. More than [`Options::connections_max`] sessions are refused with 53300.
//! 3. A start takes at most [`Options::startup`].
//! 4. A client that needs a password gives it before anything of the database is told.

mod activity;
mod arrival;
mod builds;
mod cancel;
mod counts;
mod deadline;
mod forward;
mod node;
mod observe;
mod prompt;
mod report;
pub(crate) mod scram;
mod shape;
mod startup;
mod wire;

pub use crate::statement::PlanNode;
pub(crate) use activity::SessionInfo;
pub use counts::Counts;
pub use node::{NodeDoor, Seat};
pub use observe::{EndedStatement, Kept, Observer};
pub use prompt::{Prompt, PromptAnswer, PromptColumn, PromptLimits, PromptRows, PromptValue};
pub use wire::Bounds;

pub(crate) use builds::{Build, Builds};
pub(crate) use cancel::{Cancel, Registered};
pub(crate) use counts::Kind;
pub(crate) use deadline::Watch;
pub(crate) use observe::Underway;
pub(crate) use report::{Notice, Severity, error_message};
pub(crate) use scram::Secret;
pub(crate) use shape::check as fuzz_shape;
pub(crate) use startup::Identity;
pub(crate) use wire::{Broken, Inbound, Refusal};

/// A connection, plain or by TLS.
pub(crate) type Wire = wire::Wire<pgwire::tokio::server::MaybeTls>;

use crate::query::{self, QueryMemory};
use crate::session::Session;
use crate::threads::SessionThreads;
use crate::wide::BigtableReads;
use arrival::{Arrived, accept_all, end_all};
use cancel::Sessions;
use relational::{Database, Result};
use rustls::ServerConfig;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// Microseconds from 1970 to 2000, where SQL's times begin here.
pub(crate) const MICROS_TO_2000: i64 = 946_684_800_000_000;

/// Clients that need no password if their role has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Clients of this machine, and no others.
    Loopback,
    /// Every client; for networks that are safe otherwise.
    Everywhere,
}

/// Values that a door is started with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bounds of messages, before and after a client is let in.
    pub bounds: Bounds,
    /// Most sessions at one time, 1 to 1,000,000.
    pub connections_max: usize,
    /// Longest time from the connection to the first statement.
    pub startup: Duration,
    /// Longest time for which a client of a cluster waits until a node is known to lead the database.
    pub search: Duration,
    /// Clients that need no password.
    pub trust: Trust,
    /// Version of the server, for `server_version`.
    pub version: &'static str,
    /// Is told of each statement, if there is one.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bounds: Bounds::default(),
            connections_max: 1_000,
            startup: Duration::from_secs(30),
            search: Duration::from_secs(10),
            trust: Trust::Loopback,
            version: env!("CARGO_PKG_VERSION"),
            observer: None,
        }
    }
}

/// Gives the TLS configuration for a new connection; nothing for a server without TLS.
pub type CurrentTls = Arc<dyn Fn() -> Option<Arc<ServerConfig>> + Send + Sync>;

/// Parts of a server that the doors of its databases share, of which it has one after the other.
pub struct Parts {
    engine: Arc<query::Engine>,
    threads: Arc<SessionThreads>,
    options: Options,
    counts: Arc<Counts>,
    prompts: Arc<Semaphore>,
}

impl Parts {
    /// Returns the parts of doors to the Bigtable tables of `bigtable`. Queries have `query_memory` bytes
    /// together, and spill to files in the directory `spill`. Fails if the directory cannot be made.
    pub fn new(
        bigtable: Arc<dyn BigtableReads>,
        (query_memory, spill): (usize, Option<PathBuf>),
        options: Options,
    ) -> Result<Arc<Self>> {
        let engine = query::EngineOptions {
            memory_bytes: query_memory,
            spill,
            bigtable: Some(bigtable),
            ..query::EngineOptions::default()
        };
        let engine = query::Engine::new(engine)?;
        let threads = Arc::new(SessionThreads::start(options.connections_max)?);
        let counts = Arc::new(Counts::of(options.connections_max));
        let prompts = Arc::new(Semaphore::new(prompt::PROMPTS_MAX));
        Ok(Arc::new(Self { engine, threads, options, counts, prompts }))
    }

    /// Returns a door to `database`.
    pub fn door(&self, database: Arc<Database>) -> Door {
        Door(Arc::new(Shared {
            started: database.now_micros() - MICROS_TO_2000,
            builds: Builds::default(),
            database,
            engine: Arc::clone(&self.engine),
            threads: Arc::clone(&self.threads),
            options: self.options.clone(),
            sessions: Arc::default(),
            counts: Arc::clone(&self.counts),
            prompts: Arc::clone(&self.prompts),
            over: watch::Sender::new(false),
        }))
    }

    /// Returns the memory of the queries of all doors.
    pub fn query_memory(&self) -> QueryMemory {
        self.engine.memory()
    }

    /// Returns the counts of all doors.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }
}

/// State that all sessions of a door share.
pub(crate) struct Shared {
    pub(crate) database: Arc<Database>,
    pub(crate) engine: Arc<query::Engine>,
    pub(crate) threads: Arc<SessionThreads>,
    pub(crate) options: Options,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) counts: Arc<Counts>,
    /// Places of statements that have no session.
    prompts: Arc<Semaphore>,
    /// True once all sessions are to end.
    pub(crate) over: watch::Sender<bool>,
    /// Start of the door, in microseconds since 2000.
    pub(crate) started: i64,
    /// Indexes that are built beside writers.
    pub(crate) builds: Builds,
}

/// The door for PostgreSQL clients to one database. Cheap to clone.
#[derive(Clone)]
pub struct Door(Arc<Shared>);

impl Door {
    /// Returns a door to `database`, with [`Parts`] of its own.
    pub fn new(
        database: Arc<Database>,
        bigtable: Arc<dyn BigtableReads>,
        memory: (usize, Option<PathBuf>),
        options: Options,
    ) -> Result<Self> {
        Ok(Parts::new(bigtable, memory, options)?.door(database))
    }

    /// Returns the database behind the door.
    pub fn database(&self) -> &Arc<Database> {
        &self.0.database
    }

    /// Returns the counts of the door.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.0.counts)
    }

    /// Serves the clients of `listener` until `draining` changes or closes. Then statements in progress
    /// end, for at most `grace`, and what is left is cancelled.
    pub async fn serve(
        self,
        listener: TcpListener,
        tls: CurrentTls,
        mut draining: watch::Receiver<()>,
        grace: Duration,
    ) {
        let stop = draining.clone();
        let take = |arrived: Arrived| {
            let (door, tls, stop) = (self.clone(), tls(), stop.clone());
            async move {
                let is_local = arrived.is_local();
                door.take(arrived, is_local, tls, stop).await;
            }
        };
        let places = (self.0.options.connections_max, self.0.threads.handle());
        let tasks = accept_all(listener, places, &mut draining, take).await;
        end_all(tasks, grace, || self.0.sessions.cancel_all()).await;
    }

    /// Ends all sessions with 57P01, and cancels their statements after `grace`: the database is not served here
    /// any more.
    pub async fn end(&self, grace: Duration) {
        self.0.over.send_replace(true);
        tokio::time::sleep(grace).await;
        self.0.sessions.cancel_all();
    }

    /// Serves one connection to its end. `is_local` says if the client is on this machine.
    async fn take(
        self,
        arrived: Arrived,
        is_local: bool,
        tls: Option<Arc<ServerConfig>>,
        stop: watch::Receiver<()>,
    ) {
        let Arrived { stream, address, place, .. } = arrived;
        let (counts, shared) = (self.counts(), self.0);
        let _open = counts.open();
        if place.is_none() {
            counts.refuse();
        }
        let entered = startup::enter(&shared, stream, is_local, tls, place.is_some());
        let entered = match tokio::time::timeout(shared.options.startup, entered).await {
            Ok(Ok(Some(entered))) => entered,
            Ok(Ok(None)) | Err(_) => return,
            Ok(Err(error)) => {
                tracing::debug!(%address, ?error, "a PostgreSQL client did not start");
                return;
            }
        };
        let now = shared.database.now_micros() - MICROS_TO_2000;
        entered.registered.activity.enter(&entered.identity, Some(address), now);
        Session::new(shared, entered.wire, entered.identity, entered.registered).run(stop).await;
    }
}
