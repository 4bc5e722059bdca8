//! A zipfian distribution: a few keys are asked for far more often than the others.

use bench_core::{SplitMix64, mix};

/// Numbers below `count`, the popular ones far more often: zipfian with exponent 0.99, by the
/// method of Gray et al. 1994. Popular numbers are spread over the whole range.
pub(crate) struct Zipfian {
    count: u64,
    alpha: f64,
    eta: f64,
    zeta: f64,
}

const EXPONENT: f64 = 0.99;

impl Zipfian {
    /// The distribution over `count` numbers; takes time linear in `count`.
    pub(crate) fn new(count: u64) -> Self {
        let zeta = |n: u64| (1..=n).map(|i| (i as f64).powf(-EXPONENT)).sum::<f64>();
        let (all, two) = (zeta(count), zeta(count.min(2)));
        let alpha = 1.0 / (1.0 - EXPONENT);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - EXPONENT)) / (1.0 - two / all);
        Self { count, alpha, eta, zeta: all }
    }

    /// The next number.
    pub(crate) fn draw(&self, draw: &mut SplitMix64) -> u64 {
        let u = draw.fraction();
        let scaled = u * self.zeta;
        let rank = if scaled < 1.0 {
            0
        } else if scaled < 1.0 + 0.5f64.powf(EXPONENT) {
            1
        } else {
            (self.count as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64
        };
        mix(rank) % self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_popular_number_of_a_zipfian_draw_has_its_share() {
        let (zipfian, mut draw) = (Zipfian::new(1000), SplitMix64(1));
        let mut met = vec![0u32; 1000];
        for _ in 0..100_000 {
            met[zipfian.draw(&mut draw) as usize] += 1;
        }
        // 1 / zeta(1000, 0.99) is 0.129.
        let top = f64::from(*met.iter().max().unwrap()) / 100_000.0;
        assert!((0.11..0.15).contains(&top), "{top}");
    }
}
