//! Holders and waiters of all keys, and the circles of waits among them.

use super::mode::Mode;
use super::{AdvisoryKey, Owner};
use crate::types::Oid;
use bytes::Bytes;
use foldhash::HashMap;
use smallvec::SmallVec;
use std::collections::{HashSet, VecDeque};
use tokio::sync::oneshot;

/// A thing that is locked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum LockKey {
    /// A key in a tree: of a row, or of an index.
    Row(u32, Bytes),
    /// A table by its number.
    Table(Oid),
    /// The whole catalog, for changes of it.
    Catalog,
    /// A key that means something to clients.
    Advisory(AdvisoryKey),
}

impl LockKey {
    pub(crate) fn is_row(&self) -> bool {
        matches!(self, Self::Row(..))
    }

    /// Returns the length of the key of a row, in bytes; 0 for other things.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Row(_, key) => key.len(),
            _ => 0,
        }
    }
}

/// The outcome of a request for a lock.
pub(super) enum Outcome {
    Granted,
    /// Others are in the way, and the request does not wait.
    Refused,
    /// Waiting would close a circle with this transaction.
    Deadlock(Owner),
    /// The receiver tells when the lock is granted.
    Waits(oneshot::Receiver<()>),
}

#[derive(Debug)]
struct Waiter {
    owner: Owner,
    mode: Mode,
    granted: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
struct Entry {
    /// Modes of each holder, as bits.
    holders: SmallVec<[(Owner, u8); 1]>,
    queue: VecDeque<Waiter>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    locks: HashMap<LockKey, Entry>,
    /// The key that each waiting transaction waits for.
    waits: HashMap<Owner, LockKey>,
    /// The other owner of the same session: its advisory locks for its transaction, and the reverse.
    partners: HashMap<Owner, Owner>,
}

impl Entry {
    fn held_by(&self, owner: Owner) -> u8 {
        self.holders.iter().find(|(holder, _)| *holder == owner).map_or(0, |(_, modes)| *modes)
    }

    fn grant(&mut self, owner: Owner, mode: Mode) {
        match self.holders.iter_mut().find(|(holder, _)| *holder == owner) {
            Some((_, modes)) => *modes |= mode.bit(),
            None => self.holders.push((owner, mode.bit())),
        }
    }

    fn fits(&self, owner: Owner, mode: Mode) -> bool {
        let conflicts = mode.conflicts();
        self.holders.iter().all(|(holder, modes)| *holder == owner || modes & conflicts == 0)
    }

    fn is_free(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty()
    }

    /// Returns true if a waiter has a mode that excludes `mode`.
    fn is_held_up(&self, mode: Mode) -> bool {
        let conflicts = mode.conflicts();
        self.queue.iter().any(|waiter| waiter.mode.bit() & conflicts != 0)
    }

    /// Grants what waiters ask for, but for ones that holders or earlier waiters exclude.
    fn serve(&mut self) -> Vec<Owner> {
        let (mut served, mut waiting, mut at) = (Vec::new(), 0, 0);
        while let Some(next) = self.queue.get(at) {
            if next.mode.conflicts() & waiting != 0 || !self.fits(next.owner, next.mode) {
                waiting |= next.mode.bit();
                at += 1;
                continue;
            }
            let Some(Waiter { owner, mode, granted }) = self.queue.remove(at) else { break };
            self.grant(owner, mode);
            served.push(owner);
            // A waiter that gave up meanwhile lets go of the lock when its transaction ends.
            let _ = granted.send(());
        }
        served
    }
}

impl State {
    pub(super) fn ask(&mut self, owner: Owner, key: &LockKey, mode: Mode, waits: bool) -> Outcome {
        let entry = match self.locks.get_mut(key) {
            Some(entry) => entry,
            None => self.locks.entry(key.clone()).or_default(),
        };
        let held = entry.held_by(owner);
        if mode.is_covered_by(held) {
            return Outcome::Granted;
        }
        // A newcomer does not overtake waiters that it would hold up.
        let is_turn = held != 0 || !entry.is_held_up(mode);
        if is_turn && entry.fits(owner, mode) {
            entry.grant(owner, mode);
            return Outcome::Granted;
        }
        if !waits {
            return Outcome::Refused;
        }
        let (granted, receiver) = oneshot::channel();
        let waiter = Waiter { owner, mode, granted };
        let place = match held {
            0 => entry.queue.len(),
            _ => entry.queue.iter().take_while(|other| entry.held_by(other.owner) != 0).count(),
        };
        entry.queue.insert(place, waiter);
        self.waits.insert(owner, key.clone());
        if let Some(other) = self.circle_of(owner) {
            self.give_up(owner, key);
            return Outcome::Deadlock(other);
        }
        Outcome::Waits(receiver)
    }

    /// Returns the transactions that a waiting one waits for: holders in its way and earlier waiters in its way.
    fn blockers(&self, owner: Owner) -> Vec<Owner> {
        let Some(entry) = self.waits.get(&owner).and_then(|key| self.locks.get(key)) else {
            return Vec::new();
        };
        let Some(place) = entry.queue.iter().position(|waiter| waiter.owner == owner) else {
            return Vec::new();
        };
        let conflicts = entry.queue[place].mode.conflicts();
        let holders = entry.holders.iter().filter(|(_, modes)| modes & conflicts != 0);
        let before = entry.queue.iter().take(place);
        let before = before.filter(|waiter| waiter.mode.bit() & conflicts != 0);
        let all = holders.map(|(holder, _)| *holder).chain(before.map(|waiter| waiter.owner));
        all.filter(|other| *other != owner).collect()
    }

    /// Returns the owners that the session of `owner` waits for.
    fn blockers_of_session(&self, owner: Owner) -> Vec<Owner> {
        let mut blockers = self.blockers(owner);
        if let Some(partner) = self.partners.get(&owner) {
            blockers.extend(self.blockers(*partner));
        }
        blockers
    }

    /// Returns an owner that `owner` waits for and that waits for its session, over any number of others.
    fn circle_of(&self, owner: Owner) -> Option<Owner> {
        let partner = self.partners.get(&owner).copied().unwrap_or(owner);
        let mut seen = HashSet::new();
        let mut open = self.blockers(owner);
        while let Some(next) = open.pop() {
            if !seen.insert(next) {
                continue;
            }
            let blockers = self.blockers_of_session(next);
            if blockers.contains(&owner) || blockers.contains(&partner) {
                return Some(next);
            }
            open.extend(blockers);
        }
        None
    }

    /// Notes that two owners are of one session, for circles of waits.
    pub(super) fn join(&mut self, one: Owner, other: Owner) {
        self.partners.insert(one, other);
        self.partners.insert(other, one);
    }

    /// Forgets that two owners are of one session.
    pub(super) fn part(&mut self, one: Owner, other: Owner) {
        self.partners.remove(&one);
        self.partners.remove(&other);
    }

    pub(super) fn has(&self, owner: Owner, key: &LockKey, mode: Mode) -> bool {
        self.locks.get(key).is_some_and(|entry| mode.is_covered_by(entry.held_by(owner)))
    }

    /// Removes a waiter from its queue.
    pub(super) fn give_up(&mut self, owner: Owner, key: &LockKey) {
        self.waits.remove(&owner);
        if let Some(entry) = self.locks.get_mut(key) {
            entry.queue.retain(|waiter| waiter.owner != owner);
        }
        self.serve(key);
    }

    /// Returns true if no other holder of the key excludes `mode`.
    pub(super) fn would_fit(&self, owner: Owner, key: &LockKey, mode: Mode) -> bool {
        self.locks.get(key).is_none_or(|entry| entry.fits(owner, mode))
    }

    /// Leaves a transaction the modes that it had of a key, as bits.
    pub(super) fn restore(&mut self, owner: Owner, key: &LockKey, modes: u8) {
        if modes == 0 {
            return self.release(owner, key);
        }
        let entry = self.locks.get_mut(key);
        let held = entry.and_then(|e| e.holders.iter_mut().find(|(holder, _)| *holder == owner));
        if let Some((_, held)) = held {
            *held = modes;
        }
        self.serve(key);
    }

    /// Lets go of all that a transaction has of a key.
    pub(super) fn release(&mut self, owner: Owner, key: &LockKey) {
        let Some(entry) = self.locks.get_mut(key) else { return };
        entry.holders.retain(|(holder, _)| *holder != owner);
        entry.queue.retain(|waiter| waiter.owner != owner);
        match entry.is_free() {
            true => drop(self.locks.remove(key)),
            false => self.serve(key),
        }
    }

    fn serve(&mut self, key: &LockKey) {
        let Some(entry) = self.locks.get_mut(key) else { return };
        let served = entry.serve();
        if entry.is_free() {
            self.locks.remove(key);
        }
        for owner in served {
            self.waits.remove(&owner);
        }
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.locks.len() + self.waits.len() + self.partners.len()
    }
}
