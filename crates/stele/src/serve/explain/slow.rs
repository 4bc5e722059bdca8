//! The log of slow requests: one line for each, which tells where its time went and what its reads
//! looked at.
//!
//! 1. A line has no value and no token, and of row keys only the beginning of the first, escaped. The text of a
//!    statement has `?` for each literal.
//! 2. At most [`LINES_PER_SECOND`] lines are written. The requests that are left out are counted, and
//!    the next line tells their number.
//! 3. A request that waits for events by its nature is never slow.

use super::{Ended, Protocol};
use base::env::{Clock, SystemClock};
use engine::perf_context::{PerfCount, PerfSubject, PerfTime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Lines in a second. Each is up to a kilobyte.
const LINES_PER_SECOND: u64 = 20;
/// Methods whose requests are open as long as their clients like.
const OPEN_METHODS: [&str; 2] = ["ReadChangeStream", "Watch"];
/// Bits of a window for the number of its lines.
const LINE_BITS: u32 = 16;

/// Slow requests since the start. Relaxed: each count stands by itself.
#[derive(Debug, Default)]
pub(crate) struct SlowCounts {
    slow: AtomicU64,
    left_out: AtomicU64,
}

impl SlowCounts {
    /// Returns the number of slow requests.
    pub(crate) fn slow(&self) -> u64 {
        self.slow.load(Ordering::Relaxed)
    }

    /// Returns the number of slow requests without a line.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

/// The log of slow requests.
#[derive(Debug)]
pub(super) struct SlowLog {
    threshold: Duration,
    counts: Arc<SlowCounts>,
    lines: Lines,
}

impl SlowLog {
    /// A log of requests that take `threshold` or longer.
    pub(super) fn new(threshold: Duration, counts: Arc<SlowCounts>) -> Self {
        Self { threshold, counts, lines: Lines::default() }
    }

    /// Writes the line of a request that was slow.
    pub(super) fn note(&self, request: &Ended<'_>) {
        if request.took < self.threshold || OPEN_METHODS.contains(&request.method) {
            return;
        }
        self.counts.slow.fetch_add(1, Ordering::Relaxed);
        match self.lines.take(SystemClock.monotonic()) {
            Some(left_out) => write(request, left_out),
            None => {
                self.counts.left_out.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// The lines that may be written.
#[derive(Debug, Default)]
struct Lines {
    /// The second, and in the low bits the lines that were written in it. Guards nothing else.
    window: AtomicU64,
    /// Requests without a line since the last line.
    left_out: AtomicU64,
}

impl Lines {
    /// Takes a line at `now`; returns the number of requests that had none before it.
    fn take(&self, now: Duration) -> Option<u64> {
        let second = now.as_secs() << LINE_BITS;
        let next = |window: u64| {
            let is_new = window >> LINE_BITS != now.as_secs();
            let lines = if is_new { 0 } else { window & ((1 << LINE_BITS) - 1) };
            (lines < LINES_PER_SECOND).then_some(second | (lines + 1))
        };
        match self.window.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Some(self.left_out.swap(0, Ordering::Relaxed)),
            Err(_) => {
                self.left_out.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

/// Writes the line of `request`. Fields without anything to tell are missing.
fn write(request: &Ended<'_>, left_out: u64) {
    let Ended { method, code, id, took, answered_after, context, .. } = request;
    let subject = context.subject();
    let (session, statement) = match request.protocol {
        Protocol::Grpc => (None, None),
        Protocol::Sql { session, text } => (Some(session), text()),
    };
    let time = |part| some_millis(context.time(part));
    let count = |which| some(context.count(which));
    let blocks = context.count(PerfCount::Blocks);
    let from_disk = context.count(PerfCount::DiskBlocks);
    tracing::warn!(
        target: "stele::slow_request",
        request = %id,
        method,
        code,
        session,
        statement,
        table = subject.map(|subject| subject.table.escape_debug().to_string()),
        key = subject.map(key_of),
        keys = subject.map(|subject| subject.keys),
        took_ms = millis(*took),
        answered_after_ms = answered_after.map(millis),
        write_stall_ms = time(PerfTime::WriteStall),
        row_lock_ms = time(PerfTime::RowLock),
        place_ms = time(PerfTime::Place),
        commit_ms = time(PerfTime::Commit),
        log_sync_ms = time(PerfTime::LogSync),
        disk_read_ms = time(PerfTime::DiskRead),
        step_ms = time(PerfTime::Step),
        point_reads = count(PerfCount::PointReads),
        merged = count(PerfCount::Merged),
        scans = count(PerfCount::Scans),
        files = count(PerfCount::Files),
        files_out_of_range = count(PerfCount::FilesOutOfRange),
        filtered_by_row = count(PerfCount::FilteredByRow),
        filtered_by_family = count(PerfCount::FilteredByFamily),
        filtered_by_column = count(PerfCount::FilteredByColumn),
        filtered_by_prefix = count(PerfCount::FilteredByPrefix),
        blocks_cached = some(blocks.saturating_sub(from_disk)),
        blocks_from_disk = some(from_disk),
        disk_bytes = count(PerfCount::DiskBytes),
        rows_seen = count(PerfCount::RowsSeen),
        cells_seen = count(PerfCount::CellsSeen),
        rows_returned = count(PerfCount::RowsReturned),
        bytes_returned = count(PerfCount::BytesReturned),
        rows_written = count(PerfCount::RowsWritten),
        bytes_written = count(PerfCount::BytesWritten),
        left_out = some(left_out),
        "slow request"
    );
}

/// Returns the beginning of the first row key, escaped.
fn key_of(subject: &PerfSubject) -> String {
    let (key, is_whole) = subject.key();
    format!("{}{}", key.escape_ascii(), if is_whole { "" } else { "..." })
}

fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1_000.0
}

fn some_millis(time: Duration) -> Option<f64> {
    (time > Duration::ZERO).then(|| millis(time))
}

fn some(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_in_each_second_and_the_next_line_tells_what_is_missing() {
        let lines = Lines::default();
        let at = |millis| Duration::from_millis(millis);
        for _ in 0..LINES_PER_SECOND {
            assert_eq!(lines.take(at(500)), Some(0));
        }
        assert_eq!([lines.take(at(500)), lines.take(at(999))], [None, None]);
        assert_eq!([lines.take(at(1_000)), lines.take(at(1_000))], [Some(2), Some(0)]);
        assert_eq!(lines.take(at(900_000)), Some(0));
    }
}
