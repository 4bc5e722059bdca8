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
///
/// The histogram takes some 200 KB; it is made with the first duration.
#[derive(Clone)]
pub(crate) struct Distribution(Option<Box<Histogram<u64>>>);

impl Distribution {
    pub(crate) fn new() -> Self {
        Self(None)
    }

    fn histogram(&mut self) -> &mut Histogram<u64> {
        self.0.get_or_insert_with(|| {
            let histogram = Histogram::new_with_bounds(1, MICROS_MAX, 3);
            Box::new(histogram.expect("the bounds are those of a histogram"))
        })
    }

    /// Adds one duration. Durations beyond an hour count as an hour.
    pub(crate) fn record(&mut self, duration: Duration) {
        self.record_many(duration, 1);
    }

    /// Adds a duration that occurred `count` times.
    pub(crate) fn record_many(&mut self, duration: Duration, count: u64) {
        self.record_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX), count);
    }

    fn record_micros(&mut self, micros: u64, count: u64) {
        if count > 0 {
            self.histogram().saturating_record_n(micros.clamp(1, MICROS_MAX), count);
        }
    }

    /// Adds all durations of another distribution.
    pub(crate) fn add(&mut self, other: &Self) {
        if let Some(theirs) = &other.0 {
            self.histogram().add(&**theirs).expect("all distributions have the same bounds");
        }
    }

    /// Returns parts of the distribution, one for each weight, with counts by the weights. Each duration
    /// is in one part as often as in the whole.
    pub(crate) fn split(&self, weights: &[f64]) -> Vec<Self> {
        let sum: f64 = weights.iter().sum();
        let mut parts = vec![Self::new(); weights.len()];
        let mut given = vec![0u64; weights.len()];
        let mut seen = 0u64;
        for (micros, count) in self.entries() {
            seen = seen.saturating_add(count);
            let mut left = count;
            let lack =
                |part: usize, given: &[u64]| seen as f64 * weights[part] / sum - given[part] as f64;
            for part in 0..weights.len() {
                let more = (lack(part, &given) as u64).min(left);
                parts[part].record_micros(micros, more);
                given[part] += more;
                left -= more;
            }
            // Rounding leaves fewer than there are parts.
            let most =
                (0..weights.len()).max_by(|a, b| lack(*a, &given).total_cmp(&lack(*b, &given)));
            if let Some(part) = most {
                parts[part].record_micros(micros, left);
                given[part] += left;
            }
        }
        parts
    }

    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().for_each(|histogram| histogram.reset());
    }

    /// Returns the number of durations.
    pub(crate) fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |histogram| histogram.len())
    }

    /// Returns the microseconds below which a share `q` of the durations lies; 0 for an empty distribution.
    pub(crate) fn quantile(&self, q: f64) -> u64 {
        let histogram = self.0.as_ref().filter(|histogram| !histogram.is_empty());
        histogram.map_or(0, |histogram| histogram.value_at_quantile(q).min(histogram.max()))
    }

    /// Returns the mean in microseconds.
    pub(crate) fn mean(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |histogram| histogram.mean())
    }

    /// Returns the greatest duration in microseconds.
    pub(crate) fn max(&self) -> u64 {
        self.0.as_ref().map_or(0, |histogram| histogram.max())
    }

    /// Returns microseconds with their counts, ascending.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        let recorded = self.0.iter().flat_map(|histogram| histogram.iter_recorded());
        recorded.map(|at| (at.value_iterated_to(), at.count_at_value()))
    }
}

impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        self.entries().eq(other.entries())
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
            all.record_micros(micros, count);
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
    fn the_parts_of_a_distribution_are_all_of_it_by_weight() {
        let mut all = Distribution::new();
        (1..=1000).for_each(|ms| all.record(Duration::from_millis(ms)));
        all.record_many(Duration::from_secs(2), 9000);
        let parts = all.split(&[0.5, 0.0, 0.3, 0.2]);
        let counts: Vec<u64> = parts.iter().map(Distribution::count).collect();
        assert_eq!(counts.iter().sum::<u64>(), 10_000);
        for (count, want) in counts.iter().zip([5000u64, 0, 3000, 2000]) {
            assert!(count.abs_diff(want) <= 4, "{counts:?}");
        }
        let medians = parts.iter().map(|part| part.quantile(0.05));
        assert!(medians.filter(|at| *at > 0).all(|at| at.abs_diff(500_000) < 10_000), "{parts:?}");
        let mut sum = Distribution::new();
        parts.iter().for_each(|part| sum.add(part));
        assert_eq!(sum, all);
        assert_eq!(all.split(&[1.0]), [all.clone()]);
        assert!(all.split(&[]).is_empty());
        assert_eq!(all.split(&[0.0, 0.0]).iter().map(Distribution::count).sum::<u64>(), 10_000);
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
