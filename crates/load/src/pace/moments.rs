//! Moments of any number of operations in bounded memory: counts by intervals, whose length doubles when
//! there are too many of them.

use std::time::Duration;

const INTERVALS_MAX: usize = 4096;

/// Moments of operations, to about a 2000th of the time that they span.
#[derive(Debug)]
pub(super) struct Moments {
    interval_ms: u64,
    counts: Vec<u64>,
}

impl Moments {
    pub(super) fn new() -> Self {
        Self { interval_ms: 1, counts: Vec::new() }
    }

    /// Adds the moment of one operation.
    pub(super) fn add(&mut self, at: Duration) {
        let ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        while ms / self.interval_ms >= INTERVALS_MAX as u64 {
            self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.interval_ms = self.interval_ms.saturating_mul(2);
        }
        let index = (ms / self.interval_ms) as usize;
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
    }

    /// Returns the begin of each interval, and the number of its operations. None of them is earlier.
    pub(super) fn intervals(&self) -> impl Iterator<Item = (Duration, u64)> {
        let begin = |index: usize| Duration::from_millis(self.interval_ms * index as u64);
        let all = self.counts.iter().enumerate().map(move |(index, count)| (begin(index), *count));
        all.filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_counted_near_its_moment() {
        let mut moments = Moments::new();
        for ms in 0..100_000 {
            moments.add(Duration::from_millis(ms));
        }
        let (mut count, mut last) = (0, Duration::ZERO);
        for (begin, operations) in moments.intervals() {
            assert_eq!(begin, Duration::from_millis(count), "each interval begins with its first");
            count += operations;
            last = begin;
        }
        assert_eq!(count, 100_000);
        assert!(last >= Duration::from_millis(99_900), "{last:?}");
        assert!(moments.counts.len() <= INTERVALS_MAX);
    }

    #[test]
    fn a_moment_in_the_far_future_needs_no_memory() {
        let mut moments = Moments::new();
        moments.add(Duration::ZERO);
        moments.add(Duration::MAX);
        assert_eq!(moments.intervals().map(|(_, count)| count).sum::<u64>(), 2);
        assert!(moments.counts.len() <= INTERVALS_MAX);
    }
}
