//! Counters that many cores add to at once, each to lines of its own.

use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const STRIPES: usize = 16;

/// `N` counters, each the sum of its stripes. Relaxed: each stands by itself.
pub(crate) struct Striped<const N: usize>([CachePadded<[AtomicU64; N]>; STRIPES]);

thread_local! {
    static STRIPE: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES
    };
}

impl<const N: usize> Default for Striped<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0)))))
    }
}

impl<const N: usize> Striped<N> {
    /// Adds to counter `which`.
    #[inline]
    pub(crate) fn add(&self, which: usize, count: u64) {
        if count > 0 {
            let stripe = STRIPE.with(|stripe| *stripe);
            self.0[stripe][which].fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Counter `which`.
    pub(crate) fn read(&self, which: usize) -> u64 {
        self.0.iter().map(|stripe| stripe[which].load(Ordering::Relaxed)).sum()
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
    }
}
