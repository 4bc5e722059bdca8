//! A small distribution for each interval of a timeline: eight buckets for each doubling of the
//! duration, so that a quantile is true to about 5 %. An interval takes some hundred bytes, and
//! intervals can be added.

use super::Distribution;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

const STEPS: f64 = 8.0;
/// One above the greatest bucket, which holds an hour.
const BUCKETS: u16 = 260;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Coarse(BTreeMap<u16, u64>);

impl Coarse {
    /// Returns the durations of `exact` by bucket.
    pub(crate) fn of(exact: &Distribution) -> Self {
        let mut coarse = Self::default();
        for (micros, count) in exact.entries() {
            let bucket = ((micros.max(1) as f64).log2() * STEPS) as u16;
            coarse.put(bucket.min(BUCKETS - 1), count);
        }
        coarse
    }

    /// Adds all durations of another distribution.
    pub(crate) fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(bucket, count)| self.put(*bucket, *count));
    }

    fn put(&mut self, bucket: u16, count: u64) {
        let sum = self.0.entry(bucket).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Returns the number of durations.
    pub(crate) fn count(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the microseconds below which a share `q` of the durations lies; `None` without any.
    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        let wanted = ((self.count() as f64 * q).ceil() as u64).max(1);
        let mut seen = 0u64;
        let reaches = |(_, count): &(&u16, &u64)| {
            seen = seen.saturating_add(**count);
            seen >= wanted
        };
        let (bucket, _) = self.0.iter().find(reaches)?;
        Some(2f64.powf((f64::from(*bucket) + 0.5) / STEPS))
    }
}

impl Serialize for Coarse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.0)
    }
}

impl<'de> Deserialize<'de> for Coarse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries: Vec<(u16, u64)> = Vec::deserialize(deserializer)?;
        let mut coarse = Self::default();
        for (bucket, count) in entries {
            if bucket >= BUCKETS {
                return Err(D::Error::custom(format!("an interval has no bucket {bucket}")));
            }
            coarse.put(bucket, count);
        }
        Ok(coarse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn quantiles_are_true_to_five_percent_and_add_up() {
        let mut exact = Distribution::new();
        (1..=10_000).for_each(|micros| exact.record(Duration::from_micros(micros)));
        let coarse = Coarse::of(&exact);
        for q in [0.5, 0.9, 0.99, 0.999] {
            let (rough, true_value) = (coarse.quantile(q).unwrap(), exact.quantile(q) as f64);
            assert!((rough / true_value - 1.0).abs() < 0.06, "{q}: {rough} {true_value}");
        }
        let mut twice = coarse.clone();
        twice.add(&coarse);
        assert_eq!(twice.count(), 20_000);
        assert_eq!(twice.quantile(0.5), coarse.quantile(0.5));
        let text = serde_json::to_string(&coarse).unwrap();
        assert_eq!(serde_json::from_str::<Coarse>(&text).unwrap(), coarse);
        assert_eq!(Coarse::default().quantile(0.5), None);
        assert!(serde_json::from_str::<Coarse>("[[260,1]]").is_err());
    }

    #[test]
    fn the_longest_duration_has_a_bucket() {
        let mut exact = Distribution::new();
        exact.record(Duration::MAX);
        assert!(Coarse::of(&exact).quantile(1.0).unwrap() > 3.3e9);
    }
}
