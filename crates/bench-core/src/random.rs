//! Random numbers from a seed, so that every engine and every run gets the same ones.

/// A small, fast generator (splitmix64, Steele et al. 2014).
#[derive(Debug, Clone)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Returns the next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `bound`, which is at least 1.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in `[0, 1)`.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fills `out` with random bytes.
    #[inline]
    pub fn fill(&mut self, out: &mut [u8]) {
        let (words, rest) = out.as_chunks_mut::<8>();
        for word in words {
            *word = self.next_u64().to_le_bytes();
        }
        if !rest.is_empty() {
            rest.copy_from_slice(&self.next_u64().to_le_bytes()[..rest.len()]);
        }
    }
}

/// Returns `z` with its bits mixed; a bijection.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_seed_never_change() {
        let mut random = SplitMix64(0);
        let numbers = [random.next_u64(), random.next_u64()];
        assert_eq!(numbers, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
        let mut bytes = [0; 11];
        SplitMix64(0).fill(&mut bytes);
        assert_eq!(bytes[..8], numbers[0].to_le_bytes());
        assert_eq!(bytes[8..], numbers[1].to_le_bytes()[..3]);
        assert!((0..1000).all(|_| random.below(10) < 10 && random.fraction() < 1.0));
    }
}
