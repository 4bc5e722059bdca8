//! Random numbers: drawn from a seed, so that every engine and every run meets the same ones.

/// A small, fast generator (splitmix64, Steele et al. 2014).
#[derive(Debug, Clone)]
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which is at least 1.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `[0, 1)`.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fills `out` with random bytes.
    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Spreads the bits of `z`; a bijection.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

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
    pub(crate) fn draw(&self, draw: &mut Draw) -> u64 {
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
        let (zipfian, mut draw) = (Zipfian::new(1000), Draw(1));
        let mut met = vec![0u32; 1000];
        for _ in 0..100_000 {
            met[zipfian.draw(&mut draw) as usize] += 1;
        }
        // 1 / zeta(1000, 0.99) is 0.129.
        let top = f64::from(*met.iter().max().unwrap()) / 100_000.0;
        assert!((0.11..0.15).contains(&top), "{top}");
    }
}
