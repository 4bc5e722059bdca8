//! The share that each identity has of the bounds, and its calls in flight.
//!
//! Invariants:
//! 1. An identity has one share for as long as a call of it, or a byte of one, is there. Afterwards it
//!    takes no memory.
//! 2. Callers without names have one share together, which is the whole.

use super::refusal::Refusal;
use super::share_of;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The shares of all callers, and the bounds of calls in flight.
#[derive(Debug)]
pub(super) struct Shares {
    calls_max: usize,
    calls_per_identity_max: usize,
    /// Relaxed: a count that stands by itself.
    calls: AtomicUsize,
    of_everybody: Arc<Share>,
    by_name: Arc<Mutex<HashMap<Arc<str>, Weak<Share>>>>,
}

/// The part of the bounds that one identity holds.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// The identity and the map that its share is in; nothing for the share of everybody.
    identity: Option<Identity>,
    /// Relaxed, as all below: counts that stand by themselves.
    calls: AtomicUsize,
    /// Bytes of uploads. Changed under the lock of all uploads.
    pub(super) upload_bytes: AtomicUsize,
    /// Bytes of answers to the identity.
    pub(super) answer_bytes: AtomicUsize,
    /// Part of `answer_bytes`: large messages, also while they are being made.
    pub(super) large_bytes: AtomicUsize,
}

/// The place of a share in the map, which is free when it is dropped.
#[derive(Debug)]
struct Identity {
    name: Arc<str>,
    by_name: Arc<Mutex<HashMap<Arc<str>, Weak<Share>>>>,
}

impl Shares {
    /// Shares of callers who may have `calls_max` calls in flight, and each identity
    /// `calls_per_identity_max`.
    pub(super) fn new(calls_max: usize, calls_per_identity_max: usize) -> Arc<Self> {
        let (calls, of_everybody, by_name) = Default::default();
        Arc::new(Self { calls_max, calls_per_identity_max, calls, of_everybody, by_name })
    }

    /// Returns the calls in flight.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns the share of a caller with this name, or without one.
    pub(super) fn of(&self, name: Option<&str>) -> Arc<Share> {
        let Some(name) = name else { return Arc::clone(&self.of_everybody) };
        let mut by_name = self.by_name.lock();
        if let Some(share) = by_name.get(name).and_then(Weak::upgrade) {
            return share;
        }
        let name: Arc<str> = name.into();
        let identity = Identity { name: Arc::clone(&name), by_name: Arc::clone(&self.by_name) };
        let share = Arc::new(Share { identity: Some(identity), ..Share::default() });
        by_name.insert(name, Arc::downgrade(&share));
        share
    }

    /// Lets a call of `share` begin. Returns the bound that it would break otherwise.
    pub(super) fn enter(
        self: &Arc<Self>,
        share: &Arc<Share>,
    ) -> Result<InFlight, (Refusal, usize)> {
        let call = InFlight { shares: Arc::clone(self), share: Arc::clone(share) };
        // Both are counted first, and given back with `call` if there is no room.
        let of_share = share.calls.fetch_add(1, Ordering::Relaxed);
        let of_all = self.calls.fetch_add(1, Ordering::Relaxed);
        if share.identity.is_some() && of_share >= self.calls_per_identity_max {
            return Err((Refusal::CallsOfIdentity, self.calls_per_identity_max));
        }
        if of_all >= self.calls_max {
            return Err((Refusal::Calls, self.calls_max));
        }
        Ok(call)
    }
}

impl Share {
    /// Returns how much the share may have of a bound.
    pub(super) fn part_of(&self, whole: usize) -> usize {
        if self.identity.is_some() { share_of(whole) } else { whole }
    }

    /// Returns whether the share is of one identity, and not of everybody.
    pub(super) fn is_of_identity(&self) -> bool {
        self.identity.is_some()
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        let mut by_name = self.by_name.lock();
        // Another share of the identity may have taken the place meanwhile.
        if by_name.get(&self.name).is_some_and(|share| share.strong_count() == 0) {
            by_name.remove(&self.name);
        }
    }
}

/// A call that is counted until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight {
    shares: Arc<Shares>,
    share: Arc<Share>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.shares.calls.fetch_sub(1, Ordering::Relaxed);
        self.share.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_has_half_of_the_calls_and_all_have_theirs() {
        let shares = Shares::new(3, 2);
        let (ann, bob, all) = (shares.of(Some("ann")), shares.of(Some("bob")), shares.of(None));
        let calls = [shares.enter(&ann).unwrap(), shares.enter(&ann).unwrap()];
        assert_eq!(shares.enter(&ann).unwrap_err(), (Refusal::CallsOfIdentity, 2));
        let other = shares.enter(&bob).unwrap();
        assert_eq!(shares.enter(&bob).unwrap_err(), (Refusal::Calls, 3));
        drop((calls, other));
        assert_eq!(shares.calls(), 0);
        let unnamed: Vec<_> = (0..3).map(|_| shares.enter(&all).unwrap()).collect();
        assert_eq!(shares.enter(&all).unwrap_err(), (Refusal::Calls, 3));
        drop(unnamed);
        assert_eq!((shares.calls(), all.calls.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_share_is_one_for_an_identity_and_goes_with_its_last_call() {
        let shares = Shares::new(3, 2);
        let (first, second) = (shares.of(Some("ann")), shares.of(Some("ann")));
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &shares.of(Some("bob"))));
        assert_eq!(shares.by_name.lock().len(), 1, "bob has no call");
        drop(first);
        assert_eq!(shares.by_name.lock().len(), 1);
        drop(second);
        assert!(shares.by_name.lock().is_empty());
        assert_eq!(shares.of(Some("ann")).part_of(5), 3);
        assert_eq!(shares.of(None).part_of(5), 5);
    }
}
