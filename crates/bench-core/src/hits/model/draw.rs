//! Draws from a generator. Only sums and products of floating-point numbers are used, so that all
//! machines draw the same.

use crate::random::{SplitMix64, mix};

/// Returns the generator of thing `number` of a kind. Things of one kind differ by number, things
/// of several kinds by `kind`.
pub(super) fn generator(kind: u64, number: u64) -> SplitMix64 {
    SplitMix64(mix(kind.wrapping_mul(0x9e6c_63d0_876a_3f6b) ^ mix(number)))
}

/// Returns true in `parts` of 10,000 cases.
#[inline]
pub(crate) fn chance(random: &mut SplitMix64, parts: u64) -> bool {
    random.below(10_000) < parts
}

/// Returns a rank below `count`, which is at least 1. Small ranks are frequent: rank `r` has a share
/// of about `r^(-2/3)`, which is a power law as of Zipf with exponent 2/3.
#[inline]
pub(super) fn ranked(random: &mut SplitMix64, count: u64) -> u64 {
    let fraction = random.fraction();
    (fraction * fraction * fraction * count as f64) as u64
}

/// Returns a number of the range, each with the same probability. The range is not empty.
#[inline]
pub(crate) fn between(random: &mut SplitMix64, least: i16, most: i16) -> i16 {
    let count = u64::try_from(i32::from(most) - i32::from(least) + 1).unwrap_or(1);
    (i64::from(least) + random.below(count).cast_signed()) as i16
}

/// Values with their shares of 10,000 draws.
#[derive(Debug)]
pub(crate) struct Shares<T: 'static>(&'static [(u64, T)]);

impl<T: Copy> Shares<T> {
    /// Takes values with their shares, which sum up to 10,000.
    pub(super) const fn new(values: &'static [(u64, T)]) -> Self {
        let mut sum = 0;
        let mut index = 0;
        while index < values.len() {
            sum += values[index].0;
            index += 1;
        }
        assert!(sum == 10_000, "the shares sum up to 10,000");
        Self(values)
    }

    /// Returns one of the values.
    #[inline]
    pub(super) fn draw(&self, random: &mut SplitMix64) -> T {
        let mut at = random.below(10_000);
        for (share, value) in self.0 {
            if at < *share {
                return *value;
            }
            at -= share;
        }
        unreachable!("the shares sum up to 10,000")
    }
}
