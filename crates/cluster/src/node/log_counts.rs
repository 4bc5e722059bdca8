//! Counts of the thread that writes the group log.

use base::histogram::{Buckets, Histogram, POWERS_OF_TWO};
use std::time::Duration;

/// Distributions of the work of a group log since its node was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogReadings {
    /// Microseconds that each write waited until the thread took it.
    pub wait_micros: Buckets,
    /// Microseconds that each sync took.
    pub sync_micros: Buckets,
    /// Entries of all groups that each sync made durable.
    pub sync_entries: Buckets,
}

/// The header of this file describes it.
pub(super) struct LogCounts {
    waits: Histogram,
    sync_time: Histogram,
    sync_entries: Histogram,
}

impl LogCounts {
    pub(super) fn new() -> Self {
        Self {
            waits: Histogram::of_durations(),
            sync_time: Histogram::of_durations(),
            sync_entries: Histogram::new(POWERS_OF_TWO),
        }
    }

    /// Counts the wait of a write.
    pub(super) fn waited(&self, waited: Duration) {
        self.waits.record_time(waited);
    }

    /// Counts a sync, and the entries that it made durable.
    pub(super) fn synced(&self, took: Duration, entries: usize) {
        self.sync_time.record_time(took);
        self.sync_entries.record(entries as u64);
    }

    pub(super) fn read(&self) -> LogReadings {
        LogReadings {
            wait_micros: self.waits.read(),
            sync_micros: self.sync_time.read(),
            sync_entries: self.sync_entries.read(),
        }
    }
}
