//! What the two fronts of the server share: how far it is, the engine and the services once they are
//! open, and the request counters.

use super::explain::{SlowCounts, SpanCounts};
use super::metrics::requests::Requests;
use super::metrics::scrape::Scrapes;
use super::metrics::tables::Shares;
use super::metrics::tablets::HotTablets;
use super::security::metrics::SecurityMetrics;
use base::env::{Clock, SystemClock};
use bigtable::Bounds;
use cluster::member::Watcher;
use engine::Engine;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use table::Local;
#[cfg(feature = "sql")]
use tokio::sync::watch;
use tonic::service::Routes;

/// Phase of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// The data directory is being opened.
    Recovering = 0,
    /// Clients are served.
    Serving = 1,
    /// Requests in flight finish, new ones are not taken.
    Draining = 2,
}

/// Shared state of the server.
pub(crate) struct State {
    /// A `Phase`; guards nothing else, so relaxed order is enough.
    phase: AtomicU8,
    engine: OnceLock<Engine>,
    store: OnceLock<Arc<Local>>,
    cluster: OnceLock<Watcher>,
    bounds: OnceLock<Bounds>,
    routes: OnceLock<Routes>,
    #[cfg(feature = "sql")]
    sql: OnceLock<(Arc<sql::Counts>, sql::QueryMemory)>,
    #[cfg(feature = "sql")]
    sql_seat: OnceLock<watch::Receiver<sql::Seat>>,
    checkpoint_dir: Option<PathBuf>,
    requests: Requests,
    slow: Arc<SlowCounts>,
    spans: Arc<SpanCounts>,
    security: SecurityMetrics,
    scrapes: Scrapes,
    shares: Shares,
    hot_tablets: HotTablets,
    started: Duration,
}

impl State {
    /// The state of a server that has just started.
    pub(crate) fn new(checkpoint_dir: Option<PathBuf>) -> Self {
        Self {
            phase: AtomicU8::new(Phase::Recovering as u8),
            engine: OnceLock::new(),
            store: OnceLock::new(),
            cluster: OnceLock::new(),
            bounds: OnceLock::new(),
            routes: OnceLock::new(),
            #[cfg(feature = "sql")]
            sql: OnceLock::new(),
            #[cfg(feature = "sql")]
            sql_seat: OnceLock::new(),
            checkpoint_dir,
            requests: Requests::new(),
            slow: Arc::default(),
            spans: Arc::default(),
            security: SecurityMetrics::new(),
            scrapes: Scrapes::default(),
            shares: Shares::default(),
            hot_tablets: HotTablets::default(),
            started: SystemClock.monotonic(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Recovering,
            1 => Phase::Serving,
            _ => Phase::Draining,
        }
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(crate) fn set_engine(&self, engine: Engine) {
        let first = self.engine.set(engine);
        assert!(first.is_ok(), "the engine is opened once");
    }

    pub(crate) fn set_store(&self, store: Arc<Local>) {
        let first = self.store.set(store);
        assert!(first.is_ok(), "the store is opened once");
    }

    pub(crate) fn set_cluster(&self, watcher: Watcher) {
        let first = self.cluster.set(watcher);
        assert!(first.is_ok(), "the node is started once");
    }

    pub(crate) fn set_bounds(&self, bounds: Bounds) {
        let first = self.bounds.set(bounds);
        assert!(first.is_ok(), "the services are made once");
    }

    pub(crate) fn set_routes(&self, routes: Routes) {
        let first = self.routes.set(routes);
        assert!(first.is_ok(), "the services are made once");
    }

    #[cfg(feature = "sql")]
    pub(crate) fn set_sql(&self, counts: Arc<sql::Counts>, memory: sql::QueryMemory) {
        let first = self.sql.set((counts, memory));
        assert!(first.is_ok(), "the door for SQL is opened once");
    }

    #[cfg(feature = "sql")]
    pub(crate) fn set_sql_seat(&self, seat: watch::Receiver<sql::Seat>) {
        let first = self.sql_seat.set(seat);
        assert!(first.is_ok(), "the door for SQL is opened once");
    }

    /// Returns where the database of SQL is at the moment; nothing of a server without the door for
    /// PostgreSQL clients.
    #[cfg(feature = "sql")]
    pub(crate) fn sql_seat(&self) -> Option<&watch::Receiver<sql::Seat>> {
        self.sql_seat.get()
    }

    /// Returns the counts of the door for PostgreSQL clients and the memory of its queries, once it is open.
    #[cfg(feature = "sql")]
    pub(crate) fn sql(&self) -> Option<&(Arc<sql::Counts>, sql::QueryMemory)> {
        self.sql.get()
    }

    /// Returns the services that answer a call as clients get it, checked, bounded and noted, once
    /// recovery is over.
    pub(crate) fn routes(&self) -> Option<&Routes> {
        self.routes.get()
    }

    /// The bounds of calls, once recovery is over.
    pub(crate) fn bounds(&self) -> Option<&Bounds> {
        self.bounds.get()
    }

    /// The tables, once recovery is over.
    pub(crate) fn store(&self) -> Option<&Arc<Local>> {
        self.store.get()
    }

    /// The cluster that this server is a node of, once recovery is over; none for a server alone.
    pub(crate) fn cluster(&self) -> Option<&Watcher> {
        self.cluster.get()
    }

    /// The counters of trees as tables tell them.
    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// The tablets that have series of their own.
    pub(crate) fn hot_tablets(&self) -> &HotTablets {
        &self.hot_tablets
    }

    /// The engine, once recovery is over.
    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.engine.get()
    }

    /// Directory below which clients may have checkpoints made; nothing for the data directory.
    pub(crate) fn checkpoint_dir(&self) -> Option<&Path> {
        self.checkpoint_dir.as_deref()
    }

    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The counts of slow requests.
    pub(crate) fn slow(&self) -> &Arc<SlowCounts> {
        &self.slow
    }

    /// The counts of exported and dropped spans.
    pub(crate) fn spans(&self) -> &Arc<SpanCounts> {
        &self.spans
    }

    pub(crate) fn security(&self) -> &SecurityMetrics {
        &self.security
    }

    pub(crate) fn scrapes(&self) -> &Scrapes {
        &self.scrapes
    }

    /// Time since the server started.
    pub(crate) fn uptime(&self) -> Duration {
        SystemClock.monotonic().saturating_sub(self.started)
    }
}
