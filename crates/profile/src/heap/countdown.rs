//! The bytes that a thread allocates until its next sample.
//!
//! Distances are drawn at random, with the interval as their mean (a Poisson process). An allocation of `n`
//! bytes is so sampled with probability `1 - exp(-n / interval)`, whatever came before it.
//!
//! 1. An allocation that is not sampled subtracts from a variable of its thread, and does nothing else.
//! 2. The variable has no destructor, so that a thread that ends can allocate to its last moment.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes after which a thread looks again if samples are taken, while none are.
const LOOK_BYTES: i64 = 1 << 20;

/// Mean of the bytes between two samples; 0 for no samples. Relaxed: a thread that sees an old one begins
/// a little later.
static INTERVAL: AtomicU64 = AtomicU64::new(0);
/// Seeds that were given to threads. Relaxed: each stands by itself.
static SEEDS: AtomicU64 = AtomicU64::new(1);

struct Countdown {
    /// Bytes until the next sample, or the next look.
    left: Cell<i64>,
    /// State of the random numbers; 0 before the first distance was drawn.
    random: Cell<u64>,
}

thread_local! {
    static COUNTDOWN: Countdown = const { Countdown { left: Cell::new(0), random: Cell::new(0) } };
}

/// Has one of each `interval` bytes sampled from now on.
pub(super) fn set_interval(interval: u64) {
    INTERVAL.store(interval, Ordering::Relaxed);
}

/// Has this thread look with its next allocation if samples are taken, unless it takes some.
pub(super) fn look_now() {
    COUNTDOWN.with(|countdown| {
        if countdown.random.get() == 0 {
            countdown.left.set(0);
        }
    });
}

/// Counts an allocation. Returns whether [`is_sampled`] has to be asked about it.
#[inline]
pub(super) fn is_over(bytes: usize) -> bool {
    COUNTDOWN.with(|countdown| {
        let left = countdown.left.get().wrapping_sub(bytes as i64);
        countdown.left.set(left);
        left < 0
    })
}

/// Returns whether the allocation with which the countdown was over is sampled, and begins the next one.
#[cold]
pub(super) fn is_sampled(bytes: usize) -> bool {
    let interval = INTERVAL.load(Ordering::Relaxed);
    COUNTDOWN.with(|countdown| {
        if interval == 0 {
            countdown.left.set(LOOK_BYTES);
            return false;
        }
        if countdown.random.get() == 0 {
            // This countdown was a look: the allocation is the first that counts.
            let seed = SEEDS.fetch_add(1, Ordering::Relaxed);
            countdown.random.set(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let left = countdown.draw(interval).saturating_sub_unsigned(bytes as u64);
            if left >= 0 {
                countdown.left.set(left);
                return false;
            }
        }
        countdown.left.set(countdown.draw(interval));
        true
    })
}

impl Countdown {
    /// Returns an exponentially distributed distance.
    fn draw(&self, interval: u64) -> i64 {
        // Xorshift, whose state is never 0, and of which the high bits are the better ones.
        let mut bits = self.random.get();
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        self.random.set(bits);
        let part =
            ((bits.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        // A float beyond the range becomes its end.
        (-part.ln() * interval as f64) as i64
    }
}

/// A thread that takes no samples until it is dropped.
pub(super) struct Apart {
    /// Bytes that were left before.
    left: i64,
}

impl Apart {
    pub(super) fn begin() -> Self {
        Self { left: COUNTDOWN.with(|countdown| countdown.left.replace(i64::MAX)) }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        COUNTDOWN.with(|countdown| countdown.left.set(self.left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_have_the_interval_as_their_mean() {
        let countdown = Countdown { left: Cell::new(0), random: Cell::new(1) };
        let draws = 100_000;
        let distances: Vec<_> = (0..draws).map(|_| countdown.draw(1_000)).collect();
        let mean = distances.iter().sum::<i64>() as f64 / f64::from(draws);
        assert!((980.0..1_020.0).contains(&mean), "{mean}");
        // A part of 1/e of an exponential distribution lies beyond the mean.
        let beyond = distances.iter().filter(|distance| **distance > 1_000).count();
        assert!((36_000..37_600).contains(&beyond), "{beyond}");
        assert!(distances.iter().all(|distance| *distance >= 0));
    }
}
