//! The log of the server as commits fill it: how far its numbers and times are used, and how far it is on disk.
//!
//! [`super::group_commit`] keeps it under `Commits::log`, and has the invariants.

use crate::cell::SequenceNumber;
use crate::error::{Error, Result};
use crate::log::{COMMIT_TIME_END, LogRecord, LogWriter};
use crate::manifest::CommitTimes;
use crate::options::Durability;
use crate::write::commit_counters::CommitCounters;
use base::env::Clock;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The last numbers in use before recovery; numbering goes on after them.
pub(crate) struct LogStart {
    /// The last sequence number in use.
    pub(crate) last: SequenceNumber,
    /// The newest commit time in the log.
    pub(crate) commit_time: u64,
}

/// The failure of a step that took a sequence number.
pub(crate) enum Failure {
    /// It is as if nothing had happened.
    Undone(Error),
    /// Unknown until the next open: the step may have happened.
    InDoubt(Error),
}

/// The log and what is numbered in it.
pub(super) struct Log {
    pub(super) writer: LogWriter,
    /// The last sequence number in use.
    pub(super) last: SequenceNumber,
    /// When it was last synced, by the monotonic clock.
    synced_at: Duration,
    /// Something was appended after that.
    unsynced: bool,
    pub(super) closed: bool,
}

impl Log {
    /// Returns a log all of which is on disk at `now`, with numbers in use up to `last`.
    pub(super) fn new(writer: LogWriter, last: SequenceNumber, now: Duration) -> Self {
        Self { writer, last, synced_at: now, unsynced: false, closed: false }
    }

    /// Returns the first and the last of the next `count` sequence numbers, which nothing has yet.
    pub(super) fn next_numbers(&self, count: u64) -> Result<(SequenceNumber, SequenceNumber)> {
        if self.closed {
            return Err(Error::Closed);
        }
        let last = SequenceNumber(self.last.0 + count);
        if last > SequenceNumber::MAX {
            return Err(Error::stopped("sequence numbers are used up"));
        }
        Ok((SequenceNumber(self.last.0 + 1), last))
    }

    /// Appends `records`, which carry the numbers after [`Self::last`].
    pub(super) fn append(&mut self, records: &[LogRecord<'_>]) -> Result<()> {
        self.writer.append(records)?;
        self.unsynced = true;
        Ok(())
    }

    /// Returns whether the next group is synced.
    pub(super) fn sync_is_due(&self, durability: Durability, clock: &dyn Clock) -> bool {
        match durability {
            Durability::Sync => true,
            Durability::Interval(every) => clock.monotonic() >= self.synced_at + every,
            Durability::None => false,
        }
    }

    /// Syncs what was appended. Returns how long that took.
    pub(super) fn sync(
        &mut self,
        clock: &dyn Clock,
        counters: &CommitCounters,
    ) -> Result<Duration> {
        let begun = clock.monotonic();
        if self.unsynced {
            self.writer.sync()?;
            self.note_sync(begun, clock, counters);
        }
        self.synced_at = clock.monotonic();
        Ok(self.synced_at.saturating_sub(begun))
    }

    /// Counts a sync that began at `begun` and has ended.
    pub(super) fn note_sync(
        &mut self,
        begun: Duration,
        clock: &dyn Clock,
        counters: &CommitCounters,
    ) {
        if std::mem::take(&mut self.unsynced) {
            counters.synced(clock.monotonic().saturating_sub(begun));
        }
    }
}

/// Returns a commit time above all before it, and not below `least`, and raises `times` to it.
/// `WritesStopped` if no reader of the log would take it. With the log.
pub(super) fn next_commit_time(times: &CommitTimes, clock: &dyn Clock, least: u64) -> Result<u64> {
    let now = u64::try_from(clock.now_micros()).unwrap_or(0);
    times.clock.fetch_max(now.min(COMMIT_TIME_END - 1), Ordering::Release);
    let before = times.newest.load(Ordering::Relaxed);
    let time = now.max(before.saturating_add(1)).max(least);
    if time >= COMMIT_TIME_END {
        return Err(Error::stopped("commit times are used up"));
    }
    times.newest.store(time, Ordering::Release);
    Ok(time)
}
