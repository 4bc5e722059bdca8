//! What the two fronts of the server share: how far it is, the engine once it is open, and the
//! request counters.

use super::observe::Requests;
use super::security::metrics::SecurityMetrics;
use base::env::{Clock, SystemClock};
use bigtable::Bounds;
use engine::Engine;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

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
    bounds: OnceLock<Bounds>,
    checkpoint_dir: Option<PathBuf>,
    requests: Requests,
    security: SecurityMetrics,
    started: Duration,
}

impl State {
    /// The state of a server that has just started.
    pub(crate) fn new(checkpoint_dir: Option<PathBuf>) -> Self {
        Self {
            phase: AtomicU8::new(Phase::Recovering as u8),
            engine: OnceLock::new(),
            bounds: OnceLock::new(),
            checkpoint_dir,
            requests: Requests::new(),
            security: SecurityMetrics::new(),
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

    pub(crate) fn set_bounds(&self, bounds: Bounds) {
        let first = self.bounds.set(bounds);
        assert!(first.is_ok(), "the services are made once");
    }

    /// The bounds of calls, once recovery is over.
    pub(crate) fn bounds(&self) -> Option<&Bounds> {
        self.bounds.get()
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

    pub(crate) fn security(&self) -> &SecurityMetrics {
        &self.security
    }

    /// Time since the server started.
    pub(crate) fn uptime(&self) -> Duration {
        SystemClock.monotonic().saturating_sub(self.started)
    }
}
