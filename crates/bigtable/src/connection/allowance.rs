//! Bounds of rates: a client may do something so many times at once, and so many a second for ever.

use std::time::Duration;
use tokio::time::Instant;

/// A bound of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    /// Times that are allowed at once.
    pub(super) burst: u32,
    /// Time after which one more is allowed.
    pub(super) every: Duration,
}

/// The rest of a rate, kept as the time at which all of the burst is allowed again.
#[derive(Debug)]
pub(super) struct Allowance {
    rate: Rate,
    whole_at: Instant,
}

impl Allowance {
    pub(super) fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, whole_at: now }
    }

    /// Counts `times` more. Returns how long it takes until they are allowed; nothing if they are.
    pub(super) fn take(&mut self, times: u32, now: Instant) -> Option<Duration> {
        self.whole_at = self.whole_at.max(now) + self.rate.every * times;
        let ahead = self.whole_at - now;
        ahead.checked_sub(self.rate.every * self.rate.burst).filter(|wait| !wait.is_zero())
    }

    /// Allows the whole burst again.
    pub(super) fn restore(&mut self, now: Instant) {
        self.whole_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_the_rate() {
        let every = Duration::from_millis(10);
        let begin = Instant::now();
        let mut allowance = Allowance::new(Rate { burst: 5, every }, begin);
        assert_eq!(allowance.take(5, begin), None);
        assert_eq!(allowance.take(1, begin), Some(every));
        assert_eq!(allowance.take(1, begin + every), Some(every));
        assert_eq!(allowance.take(1, begin + 3 * every), None);
        assert_eq!(allowance.take(2, begin + 3 * every), Some(2 * every));
        allowance.restore(begin + 3 * every);
        assert_eq!(allowance.take(5, begin + 3 * every), None);
        let later = begin + Duration::from_secs(3_600);
        assert_eq!(
            allowance.take(6, later),
            Some(every),
            "a long rest allows no more than a burst"
        );
    }
}
