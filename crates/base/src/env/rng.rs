//! Randomness for simulations and tests: small, fast, and the same for the same seed on every
//! machine and in every version. Not for secrets.
//!
//! xoshiro256** by Blackman and Vigna, its state filled by splitmix64 as they advise.

/// A seeded generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator of `seed`. Neighbouring seeds give unrelated numbers.
    pub fn new(seed: u64) -> Self {
        let mut seed = seed;
        let mut splitmix = || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = seed;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        };
        Self { state: [splitmix(), splitmix(), splitmix(), splitmix()] }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `[0, bound)`; 0 if `bound` is 0. Uniform up to a bias below 2^-32 for bounds
    /// below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `[0, bound)`, for indexes; 0 if `bound` is 0.
    pub fn index(&mut self, bound: usize) -> usize {
        self.below(bound as u64) as usize
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`, which is not empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// The index of one of `weights`, each as likely as its weight.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        unreachable!("a number below the sum of the weights falls into one of them")
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }

    /// Another generator, unrelated to what this one gives later.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_seed_never_change() {
        let mut rng = Rng::new(1);
        let numbers: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(
            numbers,
            [12966619160104079557, 9600361134598540522, 10590380919521690900],
            "simulations must replay on every machine"
        );
        assert_eq!(Rng::new(1), Rng::new(1));
        assert_ne!(Rng::new(1).next_u64(), Rng::new(2).next_u64());
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut rng = Rng::new(7);
        let mut seen = [0; 5];
        (0..1000).for_each(|_| seen[rng.index(5)] += 1);
        assert!(seen.iter().all(|count| (100..300).contains(count)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
        let mut drawn = [0; 3];
        (0..1000).for_each(|_| drawn[rng.weighted(&[1, 0, 3])] += 1);
        assert!(drawn[0] > 150 && drawn[1] == 0 && drawn[2] > 600, "{drawn:?}");
        let heads = (0..1000).filter(|_| rng.chance(25)).count();
        assert!((150..350).contains(&heads), "{heads}");
    }
}
