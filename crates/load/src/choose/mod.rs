//! Choice of keys: uniform, zipfian, latest and hot spot, as the YCSB paper defines them.

mod zipf;

use bench_core::{SplitMix64, mix};
use zipf::Zipf;

/// Exponent of the zipfian distribution in YCSB.
pub(crate) const ZIPF_EXPONENT: f64 = 0.99;
/// Items that a scrambled zipfian choice is drawn from, whatever the number of keys.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
/// Most keys that may come to be, as a multiple of the keys at the begin. It bounds the draws for a key.
const GROWTH_MAX: u64 = 16;
/// Draws after which a choice gives up to find a popular key that is written.
const DRAWS_MAX: u32 = 1000;
/// Distance of ranks before they are scattered, since the scattering leaves zero where it is.
const RANK_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Distribution of the keys that operations use.
#[derive(Debug, Clone)]
pub(crate) enum Choice {
    /// Every key is as likely as any other.
    Uniform,
    /// Few keys are popular; they lie anywhere below `space`, and stay popular while the table grows.
    Zipfian { zipf: Zipf, space: u64 },
    /// The most recently inserted keys are popular.
    Latest(Zipf),
    /// A share of the operations goes to the first keys.
    HotSpot {
        /// Share of the keys that are hot, from 0 to 1.
        keys: f64,
        /// Share of the operations that use hot keys, from 0 to 1.
        operations: f64,
    },
}

impl Choice {
    /// Returns a zipfian choice whose popular keys are scattered over `keys` and the likely `inserts`.
    pub(crate) fn zipfian(exponent: f64, keys: u64, inserts: u64) -> Self {
        let space = keys.saturating_add(inserts).min(keys.saturating_mul(GROWTH_MAX)).max(1);
        Self::Zipfian { zipf: Zipf::new(exponent), space }
    }

    /// Returns a zipfian choice by age.
    pub(crate) fn latest(exponent: f64) -> Self {
        Self::Latest(Zipf::new(exponent))
    }

    /// Returns a key below `keys`, which is at least 1.
    pub(crate) fn key(&self, keys: u64, random: &mut SplitMix64) -> u64 {
        let keys = keys.max(1);
        match self {
            Self::Uniform => random.below(keys),
            Self::Zipfian { zipf, space } => {
                let draw = |random: &mut SplitMix64| {
                    let rank = zipf.rank(SCRAMBLED_ITEMS, random);
                    mix(rank.wrapping_mul(RANK_STEP).wrapping_add(RANK_STEP)) % space
                };
                let written = (0..DRAWS_MAX).map(|_| draw(random)).find(|key| *key < keys);
                written.unwrap_or_else(|| random.below(keys))
            }
            Self::Latest(zipf) => keys - 1 - zipf.rank(keys, random),
            Self::HotSpot { keys: share, operations } => {
                let hot = ((keys as f64 * share).ceil() as u64).clamp(1, keys);
                if hot == keys || random.fraction() < *operations {
                    random.below(hot)
                } else {
                    hot + random.below(keys - hot)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Returns how often each key is chosen, by fixed seed.
    fn counts(choice: &Choice, keys: u64, draws: u32) -> BTreeMap<u64, u32> {
        let mut random = SplitMix64(7);
        let mut counts = BTreeMap::new();
        for _ in 0..draws {
            let key = choice.key(keys, &mut random);
            assert!(key < keys);
            *counts.entry(key).or_default() += 1;
        }
        counts
    }

    #[test]
    fn uniform_keys_are_equally_likely() {
        let counts = counts(&Choice::Uniform, 100, 100_000);
        assert_eq!(counts.len(), 100);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn zipfian_keys_have_the_published_shape_and_are_scattered() {
        let counts = counts(&Choice::zipfian(ZIPF_EXPONENT, 1_000_000, 0), 1_000_000, 200_000);
        let mut by_count: Vec<_> = counts.iter().map(|(key, count)| (*count, *key)).collect();
        by_count.sort_unstable_by(|a, b| b.cmp(a));
        // The most popular of 10^10 items has a share of 1 / 26.469, the second 2^-0.99 of that.
        let share = |rank: usize| f64::from(by_count[rank].0) / 200_000.0;
        assert!((share(0) - 0.03778).abs() < 0.002, "{}", share(0));
        assert!((share(1) - 0.01902).abs() < 0.002, "{}", share(1));
        assert!(by_count[0].1.abs_diff(by_count[1].1) > 1000);
        assert!(by_count[0].1 > 1000, "the first key is no more popular than others");
    }

    #[test]
    fn popular_keys_stay_popular_while_the_table_grows() {
        let choice = Choice::zipfian(ZIPF_EXPONENT, 1000, 1000);
        let top = |keys: u64| {
            let counts = counts(&choice, keys, 100_000);
            let mut by_count: Vec<_> = counts.iter().map(|(key, count)| (*count, *key)).collect();
            by_count.sort_unstable_by(|a, b| b.cmp(a));
            by_count.iter().map(|(_, key)| *key).take(20).collect::<Vec<_>>()
        };
        // The keys that are popular at the end and existed before were popular all the time.
        let end = top(2000);
        for keys in [1000, 1001, 1500, 1999] {
            let now = top(keys);
            let old: Vec<_> = end.iter().filter(|key| **key < keys).take(4).collect();
            assert!(old.iter().all(|key| now.contains(key)), "{keys}: {old:?} {now:?}");
        }
        assert!(end.iter().any(|key| *key >= 1000), "inserted keys are popular too: {end:?}");
    }

    #[test]
    fn keys_that_nobody_wrote_are_never_drawn_however_many_are_expected() {
        for (keys, inserts) in [(1, u64::MAX), (10, 1 << 40), (1, 0), (1000, 5)] {
            let counts = counts(&Choice::zipfian(ZIPF_EXPONENT, keys, inserts), keys, 1000);
            assert!(counts.keys().all(|key| *key < keys));
        }
    }

    #[test]
    fn the_latest_keys_are_popular() {
        let counts = counts(&Choice::latest(ZIPF_EXPONENT), 1000, 100_000);
        let share = f64::from(counts[&999]) / 100_000.0;
        // 1 / zeta(1000, 0.99).
        assert!((share - 0.1294).abs() < 0.006, "{share}");
        assert!(counts[&999] > counts[&998] && counts[&998] > counts[&900]);
    }

    #[test]
    fn hot_keys_get_their_share_of_operations() {
        let choice = Choice::HotSpot { keys: 0.01, operations: 0.9 };
        let counts = counts(&choice, 1000, 100_000);
        let hot: u32 = counts.range(..10).map(|(_, count)| count).sum();
        assert!((89_000..91_000).contains(&hot), "{hot}");
    }

    #[test]
    fn one_key_is_always_chosen() {
        let mut random = SplitMix64(1);
        for choice in [
            Choice::Uniform,
            Choice::zipfian(0.5, 1, 1),
            Choice::latest(ZIPF_EXPONENT),
            Choice::HotSpot { keys: 0.0, operations: 0.0 },
        ] {
            assert!((0..100).all(|_| choice.key(1, &mut random) == 0), "{choice:?}");
            assert!((0..100).all(|_| choice.key(2, &mut random) < 2), "{choice:?}");
        }
    }
}
