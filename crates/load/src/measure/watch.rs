//! Time since the begin of a phase.

use std::time::Duration;
use tokio::time::Instant;

/// A stopwatch that all workers of a phase share. It obeys the paused clock of tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch {
    start: Instant,
}

impl Watch {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Returns the time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}
