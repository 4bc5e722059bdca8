//! Where point reads run. A read of one row that is in memory takes a few microseconds, less than
//! handing it to another thread and back; a read that waits for the disk must not hold a thread
//! that serves other clients. So point reads run in place for as long as they were fast of late.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Above this average, reads no longer run in place.
const FAST_NANOS: u64 = 100_000;
/// The average of the last so many reads, roughly.
const READS: u64 = 16;

/// How long point reads took of late.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Sum of the last [`READS`] reads, each older one fading. A guide only: a lost update does no
    /// harm, so nothing is synchronised with it.
    nanos: AtomicU64,
}

impl Pace {
    /// Whether the next point read may run in place.
    pub(crate) fn is_fast(&self) -> bool {
        self.nanos.load(Ordering::Relaxed) <= FAST_NANOS * READS
    }

    /// Counts a point read, wherever it ran.
    pub(crate) fn record(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).min(FAST_NANOS * READS * 8);
        let nanos = self.nanos.load(Ordering::Relaxed);
        self.nanos.store(nanos - nanos / READS + took, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_reads_leave_and_fast_ones_return() {
        let pace = Pace::default();
        for _ in 0..100 {
            pace.record(Duration::from_micros(20));
            assert!(pace.is_fast());
        }
        pace.record(Duration::from_secs(3600));
        assert!(!pace.is_fast(), "one stall is enough");
        let reads = (0..1000).take_while(|_| {
            pace.record(Duration::from_micros(20));
            !pace.is_fast()
        });
        assert!((10..100).contains(&reads.count()));
    }
}
