//! A set of addresses that is asked without a lock, at each free of memory at a likely address.
//!
//! Each address has two lines of places, of which it takes one. So an answer costs two cache lines at
//! most, however full the set is.
//!
//! 1. Only a thread with the lock of the records inserts and removes.
//! 2. Relaxed: who asks for an address owns its memory. The address was inserted, or removed, before it
//!    came by its memory, and whatever handed that over orders the two.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Lines of places, as a power of two.
const LINE_BITS: u32 = 13;
/// Places of a line: it has the size of a cache line.
const PLACES: usize = 8;
/// Low bits of an address, in which the addresses of samples hardly differ.
const LOW_BITS: u32 = 12;

/// Places for a few addresses.
#[repr(align(64))]
struct Line([AtomicUsize; PLACES]);

impl Line {
    /// Returns the number of addresses in it.
    fn used(&self) -> usize {
        self.0.iter().filter(|place| place.load(Ordering::Relaxed) != 0).count()
    }

    /// Puts `new` in the place of `old`, if there is one.
    fn replace(&self, old: usize, new: usize) -> bool {
        let place = self.0.iter().find(|place| place.load(Ordering::Relaxed) == old);
        place.inspect(|place| place.store(new, Ordering::Relaxed)).is_some()
    }
}

/// The set, whose size is fixed.
pub(super) struct Addresses([Line; 1 << LINE_BITS]);

impl Addresses {
    /// Returns a set without addresses.
    pub(super) const fn new() -> Self {
        Self([const { Line([const { AtomicUsize::new(0) }; PLACES]) }; 1 << LINE_BITS])
    }

    /// Returns the two lines for an address.
    fn lines(&self, address: usize) -> [&Line; 2] {
        let page = (address as u64) >> LOW_BITS;
        let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let line = |shift: u32| &self.0[(hash >> shift) as usize & ((1 << LINE_BITS) - 1)];
        [line(u64::BITS - LINE_BITS), line(u64::BITS - 2 * LINE_BITS)]
    }

    /// Returns whether the set has an address.
    pub(super) fn contains(&self, address: usize) -> bool {
        let is_it = |place: &AtomicUsize| place.load(Ordering::Relaxed) == address;
        self.lines(address).iter().any(|line| line.0.iter().any(is_it))
    }

    /// Adds an address, which is not 0 and not in the set. Returns false if there is no place for it.
    pub(super) fn insert(&self, address: usize) -> bool {
        let [first, second] = self.lines(address);
        let line = if first.used() <= second.used() { first } else { second };
        line.replace(0, address)
    }

    /// Removes an address, if the set has it.
    pub(super) fn remove(&self, address: usize) {
        let [first, second] = self.lines(address);
        let _ = first.replace(address, 0) || second.replace(address, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: usize) -> usize {
        0x7f00_0000_0000 + (number << LOW_BITS) + 16
    }

    #[test]
    fn a_set_holds_what_was_inserted_and_not_removed() {
        static SET: Addresses = Addresses::new();
        let all = 60_000;
        assert!(!SET.contains(address(0)));
        let inserted = (0..all).filter(|number| SET.insert(address(*number))).count();
        assert!(inserted > all * 99 / 100, "{inserted} of {all}");
        let have = (0..all).filter(|number| SET.contains(address(*number))).count();
        assert_eq!(have, inserted);
        (0..all).step_by(2).for_each(|number| SET.remove(address(number)));
        assert!((0..all).step_by(2).all(|number| !SET.contains(address(number))));
        let odd = (1..all).step_by(2).filter(|number| SET.contains(address(*number))).count();
        assert!(odd > all * 98 / 200, "{odd}");
        SET.remove(address(all));
    }

    #[test]
    fn a_full_set_takes_no_more_and_keeps_what_it_has() {
        static SET: Addresses = Addresses::new();
        let most = PLACES << LINE_BITS;
        let inserted: Vec<_> =
            (0..2 * most).filter(|number| SET.insert(address(*number))).collect();
        assert!(inserted.len() <= most && inserted.len() > most * 95 / 100, "{}", inserted.len());
        assert!(inserted.iter().all(|number| SET.contains(address(*number))));
        inserted.iter().for_each(|number| SET.remove(address(*number)));
        assert!(SET.insert(address(2 * most)));
    }
}
