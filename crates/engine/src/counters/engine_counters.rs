//! What an engine counts as it goes, and what it measures seldom.

use crate::counters::job_waits::JobWaits;
use crate::locks::HugePageCount;
use base::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What the engine counts as it goes. Relaxed: each stands by itself.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) flushes: AtomicU64,
    pub(crate) early_flushes: AtomicU64,
    /// The most sorted runs that a tree had after a flush, a compaction or an ingest.
    pub(crate) runs_most: AtomicU64,
    /// Finished compactions by their reason.
    pub(crate) compactions: [AtomicU64; 4],
    /// Pieces of compactions that were divided, and those of them that another thread wrote.
    pub(crate) subcompactions: AtomicU64,
    pub(crate) subcompactions_helped: AtomicU64,
    pub(crate) ingests: AtomicU64,
    pub(crate) ingested_bytes: AtomicU64,
    pub(crate) background_failures: AtomicU64,
    pub(crate) job_waits: JobWaits,
    pub(crate) huge_pages: HugePages,
}

/// The bytes of the block cache on huge pages, as they were when they were last counted. The system
/// walks all memory of the process to count them, so that is done once a second at most.
#[derive(Debug, Default)]
pub(crate) struct HugePages {
    /// When they were counted, by the monotonic clock, and how many there were.
    last: Mutex<Option<(Duration, Option<u64>)>, HugePageCount>,
}

/// How long a count of huge pages is good for.
const HUGE_PAGES_EVERY: Duration = Duration::from_secs(1);

impl HugePages {
    /// The last count, or that of `count` if the last one is old at `now`.
    pub(crate) fn bytes(&self, now: Duration, count: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let mut last = self.last.lock();
        match *last {
            Some((at, bytes)) if now.saturating_sub(at) < HUGE_PAGES_EVERY => bytes,
            _ => last.insert((now, count())).1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_counted_once_a_second() {
        let pages = HugePages::default();
        let mut count = 0;
        let mut seen = Vec::new();
        for at in [0, 400, 999, 1_000, 1_500, 2_100] {
            let counted = || {
                count += 1;
                Some(count)
            };
            seen.push(pages.bytes(Duration::from_millis(at), counted));
        }
        assert_eq!(seen, [1, 1, 1, 2, 2, 3].map(Some));
    }
}
