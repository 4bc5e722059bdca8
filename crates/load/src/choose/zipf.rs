//! Zipfian ranks, by the method of Gray et al., "Quickly Generating Billion-Record Synthetic
//! Databases" (SIGMOD 1994).
//!
//! The method needs the sum of `i^-exponent` over all items. Its head is summed once; the tail is an
//! Euler-Maclaurin formula. So the number of items may change with every draw at no cost.

use bench_core::SplitMix64;

/// Items whose terms are summed one by one.
const HEAD: u64 = 1000;

/// A zipfian distribution over any number of items.
#[derive(Debug, Clone)]
pub(crate) struct Zipf {
    exponent: f64,
    /// Sums of the first terms: `head[n]` is the sum of `n`.
    head: Vec<f64>,
}

impl Zipf {
    /// Returns the distribution with an exponent above 0 and below 1.
    pub(super) fn new(exponent: f64) -> Self {
        assert!(exponent > 0.0 && exponent < 1.0, "the exponent is checked with the flags");
        let mut head = vec![0.0];
        let mut sum = 0.0;
        for item in 1..=HEAD {
            sum += (item as f64).powf(-exponent);
            head.push(sum);
        }
        Self { exponent, head }
    }

    /// Returns the sum of `i^-exponent` for `i` from 1 to `items`.
    fn zeta(&self, items: u64) -> f64 {
        if items <= HEAD {
            return self.head[items as usize];
        }
        let (from, to, e) = (HEAD as f64, items as f64, self.exponent);
        let integral = (to.powf(1.0 - e) - from.powf(1.0 - e)) / (1.0 - e);
        let ends = (to.powf(-e) - from.powf(-e)) / 2.0;
        let slopes = -e * (to.powf(-e - 1.0) - from.powf(-e - 1.0)) / 12.0;
        self.head[HEAD as usize] + integral + ends + slopes
    }

    /// Returns a rank below `items`; rank 0 is the most likely.
    pub(super) fn rank(&self, items: u64, random: &mut SplitMix64) -> u64 {
        let (zeta, u) = (self.zeta(items), random.fraction());
        let scaled = u * zeta;
        if items < 2 || scaled < 1.0 {
            return 0;
        }
        let second = 0.5f64.powf(self.exponent);
        if items == 2 || scaled < 1.0 + second {
            return 1;
        }
        let count = items as f64;
        let eta = (1.0 - (2.0 / count).powf(1.0 - self.exponent)) / (1.0 - self.zeta(2) / zeta);
        let rank = count * (eta * u - eta + 1.0).powf(1.0 / (1.0 - self.exponent));
        (rank as u64).min(items - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_the_tail_is_that_of_its_terms() {
        let zipf = Zipf::new(0.99);
        let terms: f64 = (1..=100_000u64).map(|i| (i as f64).powf(-0.99)).sum();
        assert!((zipf.zeta(100_000) - terms).abs() < 1e-9, "{} {terms}", zipf.zeta(100_000));
        // The constant that YCSB publishes for ten billion items.
        assert!((zipf.zeta(10_000_000_000) - 26.469_028_201_783_02).abs() < 1e-6);
    }
}
