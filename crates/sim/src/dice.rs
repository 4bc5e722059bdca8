//! Random choices from a seed: the same seed makes the same choices on every machine.

use base::env::Rng;

/// A stream of choices.
#[derive(Debug, Clone)]
pub struct Dice(Rng);

impl Dice {
    /// The choices of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "nothing is below 0");
        self.0.below(end)
    }

    /// A count or an index below `end`, which is not 0.
    pub fn index(&mut self, end: usize) -> usize {
        assert!(end > 0, "nothing is below 0");
        self.0.index(end)
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.0.chance(percent)
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
}
