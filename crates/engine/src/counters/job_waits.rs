//! The time that background jobs wait for a thread.

use base::histogram::Histogram;

/// Waits of jobs from when they are queued until a thread begins them.
#[derive(Debug)]
pub(crate) struct JobWaits {
    pub(crate) flushes: Histogram,
    /// Compactions, and pieces of compactions that other threads write.
    pub(crate) compactions: Histogram,
}

impl Default for JobWaits {
    fn default() -> Self {
        Self { flushes: Histogram::of_durations(), compactions: Histogram::of_durations() }
    }
}
