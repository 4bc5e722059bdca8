//! What a piece of work cost beside time: disk reads and latencies; and when the process is quiet.
//!
//! CPU time is that of the process and not of the thread, so that what an engine does on its own
//! threads counts. Making keys and values is kept outside: a [`Stopwatch`] runs only while the engine
//! works.

use bench_core::{Spent, Stopwatch};
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// Latencies of calls, in nanoseconds, from 1 ns to a minute with 3 significant digits.
pub(crate) fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are valid")
}

/// Reads from disk by this process, as the system counts them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SystemReads {
    /// Read calls (`syscr`).
    pub(crate) calls: u64,
    /// Bytes fetched from the device (`read_bytes`).
    pub(crate) bytes: u64,
}

impl SystemReads {
    /// Reads so far; zero where `/proc/self/io` cannot be read.
    pub(crate) fn now() -> Self {
        let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        Self { calls: field("syscr:"), bytes: field("read_bytes:") }
    }

    /// Reads since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(before.calls),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }
}

/// How long the process must be idle before it counts as quiet.
const QUIET: Duration = Duration::from_millis(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Share of a core that idle threads may use.
const IDLE_SHARE: f64 = 0.05;
const PATIENCE: Duration = Duration::from_secs(600);

/// Waits until no thread of the process works any more. Returns the time it took beyond the
/// last work, which is to be taken off a measured interval, or `None` if it never got quiet.
pub(crate) fn wait_until_quiet() -> Option<Spent> {
    let begin = Instant::now();
    let mut since = Stopwatch::start();
    let mut last = Stopwatch::start();
    while begin.elapsed() < PATIENCE {
        std::thread::sleep(LOOK_EVERY);
        let spent = last.spent();
        last = Stopwatch::start();
        if spent.cpu.as_secs_f64() > IDLE_SHARE * spent.wall.as_secs_f64() {
            since = Stopwatch::start();
        } else if since.spent().wall >= QUIET {
            return Some(since.spent());
        }
    }
    None
}
