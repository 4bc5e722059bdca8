//! Counters that many cores add to at once, each thread to lines of its own.
//!
//! Threads that count have numbers. [`OWNERS`] of them at a time own stripes of every set of counters, and
//! all others share one, until a number is free.
//!
//! Invariants:
//! 1. An owned stripe is written by one thread at a time, so that an addition needs no atomic
//!    read-modify-write, which would cost a read more than the rest of its counting. A thread that ends gives
//!    its number back (Release), and the next one takes it (Acquire), which orders the two.
//! 2. The shared stripe is written by read-modify-writes alone.
//! 3. A set of counters has no stripe before it is first added to, and at most `OWNERS + 1`, however many
//!    threads come and go: a store has many trees, and each has counters.

use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Threads with stripes of their own at a time.
const OWNERS: usize = u32::BITS as usize;

/// Numbers that no thread has, as bits.
static FREE: AtomicU32 = AtomicU32::new(u32::MAX);

thread_local! {
    static NUMBER: Number = Number::take();
}

/// The number of a thread; `OWNERS` of a thread that owns no stripes.
struct Number(Cell<usize>);

impl Number {
    /// Takes the lowest number that is free.
    fn take() -> Self {
        let number = Self(Cell::new(OWNERS));
        number.take_lowest();
        number
    }

    fn take_lowest(&self) {
        let lowest = |free: u32| (free != 0).then_some(free & free.wrapping_sub(1));
        if let Ok(free) = FREE.fetch_update(Ordering::Acquire, Ordering::Relaxed, lowest) {
            self.0.set(free.trailing_zeros() as usize);
        }
    }

    /// Returns the number. A thread without one takes one that has become free.
    #[inline]
    fn get(&self) -> usize {
        if self.0.get() == OWNERS && FREE.load(Ordering::Relaxed) != 0 {
            self.take_lowest();
        }
        self.0.get()
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        if self.0.get() < OWNERS {
            FREE.fetch_or(1 << self.0.get(), Ordering::Release);
        }
    }
}

type Stripe<const N: usize> = CachePadded<[AtomicU64; N]>;

/// The stripes of counters that were added to.
struct Stripes<const N: usize> {
    owned: [OnceLock<Box<Stripe<N>>>; OWNERS],
    shared: Stripe<N>,
}

/// `N` counters, each the sum of its stripes. Relaxed: each stands by itself.
pub struct Striped<const N: usize>(OnceLock<Box<Stripes<N>>>);

impl<const N: usize> Default for Striped<N> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

fn stripe<const N: usize>() -> Stripe<N> {
    CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0)))
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
        let new = || {
            let owned = std::array::from_fn(|_| OnceLock::new());
            Box::new(Stripes { owned, shared: stripe() })
        };
        let stripes = self.0.get_or_init(new);
        // A thread that ends has no number any more.
        let number = NUMBER.try_with(Number::get).unwrap_or(OWNERS);
        let Some(owned) = stripes.owned.get(number) else {
            for (which, count) in counts {
                stripes.shared[which].fetch_add(count, Ordering::Relaxed);
            }
            return;
        };
        let owned = owned.get_or_init(|| Box::new(stripe()));
        for (which, count) in counts {
            let before = owned[which].load(Ordering::Relaxed);
            owned[which].store(before.wrapping_add(count), Ordering::Relaxed);
        }
    }

    /// Returns the sum of counter `which`.
    pub fn read(&self, which: usize) -> u64 {
        self.read_all()[which]
    }

    /// Returns all counters, by one walk over the stripes.
    pub fn read_all(&self) -> [u64; N] {
        let mut sums = [0u64; N];
        let Some(stripes) = self.0.get() else { return sums };
        let owned = stripes.owned.iter().filter_map(OnceLock::get).map(Box::as_ref);
        for stripe in owned.chain([&stripes.shared]) {
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
    use std::sync::Barrier;

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

    #[test]
    fn threads_beyond_the_owners_count_too_and_cost_no_memory() {
        let counters = Striped::<2>::default();
        let threads = 3 * OWNERS;
        let (all_are_there, counters) = (Barrier::new(threads), &counters);
        for _ in 0..2 {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        counters.add_all([(0, 1)]);
                        all_are_there.wait();
                        (0..1_000).for_each(|_| counters.add(1, 1));
                    });
                }
            });
        }
        assert_eq!(counters.read_all(), [2 * threads as u64, 2_000 * threads as u64]);
        let owned = counters.0.get().unwrap().owned.iter().filter_map(OnceLock::get).count();
        assert!(owned <= OWNERS);
        assert!(counters.0.get().unwrap().shared[0].load(Ordering::Relaxed) > 0);
    }

    #[test]
    fn a_thread_that_shared_takes_a_stripe_that_has_become_free() {
        let counters = Striped::<1>::default();
        let number = || NUMBER.with(|number| number.0.get());
        // More threads than owners are there together, so that this one shares if it comes last.
        let others = 2 * OWNERS;
        let (all_are_there, begun) = (Barrier::new(others + 1), std::time::Instant::now());
        std::thread::scope(|scope| {
            for _ in 0..others {
                scope.spawn(|| {
                    counters.add(0, 1);
                    all_are_there.wait();
                });
            }
            scope.spawn(|| {
                // A thread of another test that ends now may leave a number that none of them takes.
                while FREE.load(Ordering::Relaxed) != 0 && begun.elapsed().as_secs() < 1 {
                    std::thread::yield_now();
                }
                counters.add(0, 1);
                all_are_there.wait();
                while number() == OWNERS && begun.elapsed().as_secs() < 60 {
                    counters.add(0, 1);
                    std::thread::yield_now();
                }
                assert!(number() < OWNERS, "threads have ended, and their stripes are free");
            });
        });
    }

    #[test]
    fn counters_without_an_addition_are_small() {
        assert!(size_of::<Striped<8>>() <= 16);
        assert_eq!(Striped::<8>::default().read_all(), [0; 8]);
    }
}
