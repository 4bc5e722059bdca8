//! Histograms of durations, counted from many threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper ends of the buckets, in microseconds, inclusive; one more takes what is longer.
pub(crate) const BOUNDS_MICROS: [u64; 15] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 5_000_000, 30_000_000,
];

/// Counts durations. Relaxed: each count stands by itself.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    counts: [AtomicU64; BOUNDS_MICROS.len() + 1],
    micros: AtomicU64,
}

/// A reading of a histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramReading {
    /// Name (snake case, unit last).
    pub name: &'static str,
    /// Help text.
    pub help: &'static str,
    /// Upper ends of the buckets in microseconds, inclusive and ascending.
    pub bounds_micros: &'static [u64],
    /// How many fell into each bucket, and last how many were longer.
    pub counts: Vec<u64>,
    /// Sum of all, in microseconds.
    pub sum_micros: u64,
}

impl Histogram {
    pub(crate) fn record(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, name: &'static str, help: &'static str) -> HistogramReading {
        HistogramReading {
            name,
            help,
            bounds_micros: &BOUNDS_MICROS,
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum_micros: self.micros.load(Ordering::Relaxed),
        }
    }
}

impl HistogramReading {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many are longer than `bound_micros`, which is one of the bounds.
    pub fn longer_than(&self, bound_micros: u64) -> u64 {
        let from = self.bounds_micros.partition_point(|bound| *bound <= bound_micros);
        self.counts.iter().skip(from).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_what_is_no_longer_than_its_bound() {
        let histogram = Histogram::default();
        for micros in [0, 100, 101, 1_000_000, 1_000_001, 90_000_000] {
            histogram.record(Duration::from_micros(micros));
        }
        let read = histogram.read("name", "help");
        assert_eq!((read.counts[0], read.counts[1], read.counts[15]), (2, 1, 1));
        assert_eq!((read.count(), read.longer_than(1_000_000), read.longer_than(100)), (6, 2, 4));
        assert_eq!(read.sum_micros, 92_000_202);
    }
}
