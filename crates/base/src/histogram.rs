//! Histograms that many threads record into at once.
//!
//! Invariants:
//! 1. A value falls into the first bucket whose upper end is not below it, and a value above all
//!    ends into one more.
//! 2. Counts and sum only grow. A reading of a moment may lack values that are being recorded.
//! 3. Threads are spread over a few shards, so that they seldom meet on a cache line. The memory of
//!    a histogram does not grow with the number of threads.

use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Upper ends of buckets of durations, in microseconds: from 10 µs to a minute.
pub const DURATION_MICROS: &[u64] = &[
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];
/// Upper ends of buckets of numbers of things: powers of two.
pub const POWERS_OF_TWO: &[u64] =
    &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384];

/// Buckets that a histogram may have.
const BUCKETS_MAX: usize = 23;
const SHARDS: usize = 4;

/// Counts values by their size. Relaxed: each count stands by itself.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    shards: Box<[CachePadded<Shard>; SHARDS]>,
}

#[derive(Debug, Default)]
struct Shard {
    counts: [AtomicU64; BUCKETS_MAX],
    sum: AtomicU64,
}

/// A reading of a histogram.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Buckets {
    /// Upper ends of the buckets, inclusive and ascending.
    pub bounds: &'static [u64],
    /// Number of values in each bucket, and last the number of larger values.
    pub counts: Vec<u64>,
    /// Sum of all values, in their unit.
    pub sum: u64,
}

impl Histogram {
    /// A histogram without values. Its buckets end at `bounds`, which ascend.
    pub fn new(bounds: &'static [u64]) -> Self {
        assert!(bounds.len() < BUCKETS_MAX && bounds.is_sorted(), "the ends of buckets ascend");
        Self { bounds, shards: Box::default() }
    }

    /// A histogram of durations, which are recorded in microseconds.
    pub fn of_durations() -> Self {
        Self::new(DURATION_MICROS)
    }

    /// Counts a duration in microseconds.
    pub fn record_time(&self, duration: Duration) {
        self.record(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts a value in its bucket.
    pub fn record(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        let shard = &self.shards[shard_of_thread()];
        shard.counts[bucket].fetch_add(1, Ordering::Relaxed);
        shard.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Returns the counts so far.
    pub fn read(&self) -> Buckets {
        let sum = |of: &dyn Fn(&Shard) -> u64| {
            self.shards.iter().fold(0u64, |sum, shard| sum.wrapping_add(of(shard)))
        };
        let count = |bucket: usize| sum(&|shard| shard.counts[bucket].load(Ordering::Relaxed));
        Buckets {
            bounds: self.bounds,
            counts: (0..=self.bounds.len()).map(count).collect(),
            sum: sum(&|shard| shard.sum.load(Ordering::Relaxed)),
        }
    }
}

/// Returns the shard that the thread records into.
fn shard_of_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    SHARD.with(|shard| *shard)
}

impl Buckets {
    /// Returns the number of all values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the number of values above `bound`, which is one of the bounds.
    pub fn above(&self, bound: u64) -> u64 {
        let from = self.bounds.partition_point(|known| *known <= bound);
        self.counts.iter().skip(from).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_the_values_up_to_its_bound() {
        let histogram = Histogram::of_durations();
        for micros in [0, 10, 11, 1_000_000, 1_000_001, 90_000_000] {
            histogram.record_time(Duration::from_micros(micros));
        }
        let read = histogram.read();
        assert_eq!((read.counts[0], read.counts[1], read.counts[21]), (2, 1, 1));
        assert_eq!((read.count(), read.above(1_000_000), read.above(10)), (6, 2, 4));
        assert_eq!(read.sum, 92_000_022);
    }

    #[test]
    fn a_duration_beyond_all_numbers_falls_into_the_last_bucket() {
        let histogram = Histogram::of_durations();
        histogram.record_time(Duration::MAX);
        assert_eq!(histogram.read().counts.last(), Some(&1));
    }

    #[test]
    fn values_of_many_threads_are_all_counted() {
        let histogram = Histogram::new(POWERS_OF_TWO);
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..100).for_each(|value| histogram.record(value)));
            }
        });
        let read = histogram.read();
        assert_eq!((read.count(), read.sum), (2_000, 20 * 4_950));
        assert_eq!(read.above(64), 20 * 35);
    }
}
