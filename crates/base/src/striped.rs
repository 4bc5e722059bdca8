//! Counters that many cores add to at once, each thread to lines of its own.
//!
//! Invariant: a stripe is written by one thread at a time, so that an addition needs no atomic
//! read-modify-write, which would cost a read more than the rest of its counting. When a thread
//! has ended another may take its stripe over; `thread_local` orders the two.

use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};
use thread_local::ThreadLocal;

/// `N` counters, each the sum of its stripes. Relaxed: each stands by itself.
pub struct Striped<const N: usize>(ThreadLocal<CachePadded<[AtomicU64; N]>>);

impl<const N: usize> Default for Striped<N> {
    fn default() -> Self {
        Self(ThreadLocal::new())
    }
}

impl<const N: usize> Striped<N> {
    /// Adds to counter `which`.
    #[inline]
    pub fn add(&self, which: usize, count: u64) {
        self.add_all([(which, count)]);
    }

    /// Adds to several counters.
    #[inline]
    pub fn add_all<const M: usize>(&self, counts: [(usize, u64); M]) {
        let stripe = self.0.get_or(|| CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0))));
        for (which, count) in counts {
            let before = stripe[which].load(Ordering::Relaxed);
            stripe[which].store(before.wrapping_add(count), Ordering::Relaxed);
        }
    }

    /// Returns the sum of counter `which`.
    pub fn read(&self, which: usize) -> u64 {
        self.0.iter().map(|stripe| stripe[which].load(Ordering::Relaxed)).sum()
    }

    /// Returns all counters, by one walk over the stripes.
    pub fn read_all(&self) -> [u64; N] {
        let mut sums = [0u64; N];
        for stripe in self.0.iter() {
            for (sum, counter) in sums.iter_mut().zip(stripe.iter()) {
                *sum = sum.wrapping_add(counter.load(Ordering::Relaxed));
            }
        }
        sums
    }
}

impl<const N: usize> std::fmt::Debug for Striped<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Striped").field(&self.read_all()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_add_is_summed() {
        let counters = Striped::<2>::default();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..100).for_each(|count| counters.add(1, count)));
            }
        });
        assert_eq!((counters.read(0), counters.read(1)), (0, 20 * 4950));
        assert_eq!(counters.read_all(), [0, 20 * 4950]);
    }
}
