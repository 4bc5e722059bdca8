//! Counters of commits.

use crate::write::request::Request;
use base::env::Clock;
use base::histogram::{Histogram, POWERS_OF_TWO};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters of appends to the log and of its syncs. Relaxed: each stands by itself.
#[derive(Debug)]
pub(crate) struct CommitCounters {
    pub(crate) groups: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    /// Number of batches in each group.
    pub(crate) group_batches: Histogram,
    /// Time that each sync took.
    pub(crate) sync_time: Histogram,
    /// Time that each batch waited for its group; 0 of a batch that went straight through.
    pub(crate) queue_wait: Histogram,
}

impl Default for CommitCounters {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            groups: zero(),
            batches: zero(),
            bytes: zero(),
            syncs: zero(),
            group_batches: Histogram::new(POWERS_OF_TWO),
            sync_time: Histogram::of_durations(),
            queue_wait: Histogram::of_durations(),
        }
    }
}

impl CommitCounters {
    /// Counts how long each request of a group waited that begins now. Looks at `clock` only if one did.
    pub(super) fn begun(&self, group: &[Arc<Request>], clock: &dyn Clock) {
        let mut now = None;
        for request in group {
            let waited = request.waits_since().map_or(Duration::ZERO, |since| {
                let now = *now.get_or_insert_with(|| clock.monotonic());
                now.saturating_sub(since)
            });
            self.queue_wait.record_time(waited);
        }
    }

    /// Counts a group that was appended.
    pub(super) fn appended(&self, batches: usize, bytes: usize) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.batches.fetch_add(batches as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.group_batches.record(batches as u64);
    }

    /// Counts a sync that took so long.
    pub(super) fn synced(&self, took: Duration) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_time.record_time(took);
    }
}
