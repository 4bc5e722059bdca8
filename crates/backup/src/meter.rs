//! Progress and rate limit of a backup, a restore or a verification.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Bytes done and bytes in all, whenever one of them changes.
pub type Watch = Box<dyn Fn(u64, u64) + Send + Sync>;

/// Counts bytes as they pass, and holds them up so that no more pass in a second than may.
pub struct Meter {
    bytes_per_second: Option<u64>,
    /// When the next bytes may pass.
    next: Mutex<Option<Instant>>,
    /// Counters only; they publish nothing.
    done: AtomicU64,
    total: AtomicU64,
    watch: Watch,
}

impl Meter {
    /// A meter that lets `bytes_per_second` pass (`None`: all that come) and tells `watch`.
    pub fn new(bytes_per_second: Option<u64>, watch: Watch) -> Self {
        let (done, total) = Default::default();
        Self { bytes_per_second, next: Mutex::new(None), done, total, watch }
    }

    /// A meter without a limit that nobody watches.
    pub fn silent() -> Self {
        Self::new(None, Box::new(|_, _| ()))
    }

    /// `bytes` more are to be done.
    pub(crate) fn expect(&self, bytes: u64) {
        let total = self.total.fetch_add(bytes, Ordering::Relaxed) + bytes;
        (self.watch)(self.done.load(Ordering::Relaxed), total);
    }

    /// `bytes` are done without being sent.
    pub(crate) fn skip(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        (self.watch)(done, self.total.load(Ordering::Relaxed));
    }

    /// Waits until `bytes` may pass, and counts them.
    pub(crate) async fn pass(&self, bytes: u64) {
        if let Some(limit) = self.bytes_per_second {
            let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(limit.max(1));
            let took = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            let start = {
                let mut next = self.next.lock();
                let start = next.unwrap_or_else(Instant::now).max(Instant::now());
                *next = Some(start + took);
                start
            };
            tokio::time::sleep_until(start).await;
        }
        self.skip(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test(start_paused = true)]
    async fn no_more_passes_in_a_second_than_may() {
        let meter = Arc::new(Meter::new(Some(1000), Box::new(|_, _| ())));
        let start = Instant::now();
        let others = (0..10).map(|_| {
            let meter = Arc::clone(&meter);
            async move { meter.pass(500).await }
        });
        futures::future::join_all(others).await;
        // The first passes at once, each other when those before it have had their time.
        assert_eq!(start.elapsed().as_millis() / 10, 450);
        assert_eq!(meter.done.load(Ordering::Relaxed), 5000);
    }
}
