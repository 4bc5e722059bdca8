//! Distribution of durations: an HdrHistogram of microseconds, to three digits, up to an hour.

use hdrhistogram::Histogram;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// Longest duration that is told apart from longer ones, in microseconds.
const MICROS_MAX: u64 = 3_600_000_000;
/// Most entries that a distribution in a file can have: one for each bucket.
const ENTRIES_MAX: usize = 1 << 16;

/// Durations and how often they occurred. In files it is a list of `[microseconds, count]`.
#[derive(Clone, PartialEq)]
pub(crate) struct Distribution(Histogram<u64>);

impl Distribution {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, MICROS_MAX, 3);
        Self(histogram.expect("the bounds are those of a histogram"))
    }

    /// Adds one duration. Durations beyond an hour count as an hour.
    pub(crate) fn record(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(micros.clamp(1, MICROS_MAX));
    }

    /// Adds all durations of another distribution.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all distributions have the same bounds");
    }

    pub(crate) fn clear(&mut self) {
        self.0.reset();
    }

    /// Returns the number of durations.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the microseconds below which a share `q` of the durations lies; 0 for an empty distribution.
    pub(crate) fn quantile(&self, q: f64) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.value_at_quantile(q).min(self.0.max()) }
    }

    /// Returns the mean in microseconds.
    pub(crate) fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Returns the greatest duration in microseconds.
    pub(crate) fn max(&self) -> u64 {
        self.0.max()
    }

    /// Returns microseconds with their counts, ascending.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value()))
    }
}

impl fmt::Debug for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, p50, max) = (self.count(), self.quantile(0.5), self.max());
        write!(f, "Distribution({count} durations, p50 {p50} us, max {max} us)")
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.entries())
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries: Vec<(u64, u64)> = Vec::deserialize(deserializer)?;
        if entries.len() > ENTRIES_MAX {
            return Err(D::Error::custom("a histogram has too many entries"));
        }
        let mut all = Self::new();
        for (micros, count) in entries {
            // Sums of counts stay far below what a counter holds.
            if count > 1 << 40 {
                return Err(D::Error::custom("a histogram has an impossible count"));
            }
            all.0.saturating_record_n(micros.clamp(1, MICROS_MAX), count);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_comes_back_from_its_text() {
        let mut all = Distribution::new();
        for micros in [0, 1, 999, 1000, 123_456, 77_777_777, u64::MAX / 1000] {
            all.record(Duration::from_micros(micros));
        }
        let text = serde_json::to_string(&all).unwrap();
        let back: Distribution = serde_json::from_str(&text).unwrap();
        let entries = |all: &Distribution| all.entries().collect::<Vec<_>>();
        assert_eq!(entries(&back), entries(&all));
        assert_eq!((back.count(), back.quantile(0.5)), (7, all.quantile(0.5)));
        assert_eq!(Distribution::new().quantile(0.99), 0);
    }

    #[test]
    fn impossible_texts_are_refused() {
        for text in ["[[1,18446744073709551615]]", "[[1]]", "[[-1,2]]", "{}", "[[1,2,3]]"] {
            assert!(serde_json::from_str::<Distribution>(text).is_err(), "{text}");
        }
        let beyond: Distribution = serde_json::from_str("[[18446744073709551615,3]]").unwrap();
        assert_eq!(beyond.count(), 3);
    }
}
