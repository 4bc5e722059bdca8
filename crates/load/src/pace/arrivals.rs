//! Schedule of the operations of an open loop.

use bench_core::SplitMix64;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Spacing of the operations of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Spacing {
    /// Random gaps, as independent users make them.
    Poisson,
    /// Equal gaps between all operations.
    Constant,
}

/// The scheduled times of operations, from the begin of the run on.
#[derive(Debug)]
pub(crate) struct Arrivals {
    spacing: Spacing,
    rate: f64,
    /// Operations that were scheduled before the next one.
    number: u64,
    /// Time of the next operation in seconds.
    next: f64,
    random: SplitMix64,
}

impl Arrivals {
    /// Returns the schedule of `rate` operations a second, which is above 0.
    pub(crate) fn new(spacing: Spacing, rate: f64, seed: u64) -> Self {
        assert!(rate > 0.0 && rate.is_finite(), "the rate is checked with the flags");
        let mut arrivals = Self { spacing, rate, number: 0, next: 0.0, random: SplitMix64(seed) };
        arrivals.next = arrivals.gap();
        arrivals
    }

    /// Returns the time of the next operation.
    pub(crate) fn peek(&self) -> Duration {
        Duration::try_from_secs_f64(self.next).unwrap_or(Duration::MAX)
    }

    /// Moves on to the operation after the next one.
    pub(crate) fn advance(&mut self) {
        self.number += 1;
        self.next = match self.spacing {
            // Multiplied, not added up, so that rounding does not change the rate.
            Spacing::Constant => self.number as f64 / self.rate,
            Spacing::Poisson => self.next + self.gap(),
        };
    }

    fn gap(&mut self) -> f64 {
        match self.spacing {
            Spacing::Constant => 0.0,
            Spacing::Poisson => -(1.0 - self.random.fraction()).ln() / self.rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(spacing: Spacing, rate: f64, count: usize) -> Vec<f64> {
        let mut arrivals = Arrivals::new(spacing, rate, 3);
        let mut times = Vec::new();
        for _ in 0..count {
            times.push(arrivals.peek().as_secs_f64());
            arrivals.advance();
        }
        times
    }

    #[test]
    fn constant_operations_keep_their_distance_without_drift() {
        assert_eq!(times(Spacing::Constant, 4.0, 4), [0.0, 0.25, 0.5, 0.75]);
        assert!((times(Spacing::Constant, 3.0, 3_000_001)[3_000_000] - 1_000_000.0).abs() < 1e-6);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_their_rate() {
        let times = times(Spacing::Poisson, 100.0, 100_001);
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| *gap >= 0.0));
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 0.01).abs() < 0.0002, "{mean}");
        // In an exponential distribution, a share of 1/e is longer than the mean.
        let long = gaps.iter().filter(|gap| **gap > 0.01).count() as f64 / gaps.len() as f64;
        assert!((long - 0.3679).abs() < 0.01, "{long}");
    }
}
