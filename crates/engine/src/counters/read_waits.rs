//! How long reads that go to the disk wait, against what they use to.

use crate::locks::ReadWaitWindow;
use base::sync::Mutex;
use std::time::Duration;

/// How long reads wait for the disk, against what they use to.
#[derive(Debug, Default)]
pub(crate) struct ReadWaits(Mutex<Waits, ReadWaitWindow>);

#[derive(Debug, Default)]
struct Waits {
    /// Reads of the window that is open, and their nanoseconds.
    reads: u64,
    nanos: u64,
    /// Mean of the window before; 0 before there was one.
    recent: u64,
    /// What reads take when nothing is in their way; rises a little with each window.
    usual: u64,
}

/// Reads of a window.
const WINDOW: u64 = 64;

impl ReadWaits {
    /// Counts a read that went to the disk.
    pub(crate) fn record(&self, waited: Duration) {
        // Who comes at the same time need not be counted.
        let Some(mut waits) = self.0.try_lock() else { return };
        waits.reads += 1;
        waits.nanos += u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX >> 8);
        if waits.reads == WINDOW {
            waits.recent = (waits.nanos / WINDOW).max(1);
            let drifted = waits.usual + waits.usual / 128 + 1;
            waits.usual = if waits.usual == 0 { waits.recent } else { drifted.min(waits.recent) };
            (waits.reads, waits.nanos) = (0, 0);
        }
    }

    /// How long reads take now against what they use to, in thousandths; 0 if that is not known.
    pub(crate) fn slowness(&self) -> u64 {
        let waits = self.0.lock();
        waits.recent.saturating_mul(1000).checked_div(waits.usual).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_slow_against_what_they_use_to_take() {
        let waits = ReadWaits::default();
        assert_eq!(waits.slowness(), 0, "not known");
        let window = |micros| (0..WINDOW).for_each(|_| waits.record(Duration::from_micros(micros)));
        window(100);
        assert_eq!(waits.slowness(), 1000);
        window(500);
        assert!((4_900..5_000).contains(&waits.slowness()), "{}", waits.slowness());
        (0..1000).for_each(|_| window(500));
        assert_eq!(waits.slowness(), 1000, "what lasts becomes what is usual");
        window(50);
        assert_eq!(waits.slowness(), 1000);
    }
}
