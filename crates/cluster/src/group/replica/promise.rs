//! The promise of a follower: until a time of its own clock it gives no vote, its own included, except
//! one that the leader asks for.
//!
//! A follower that hears of its leader promises for one election timeout. A leader counts its lease
//! from the time when it sent what a quorum heard, which is never later, and its lease is shorter.
//! So no other leader can be elected while a lease lasts, if clocks run at nearly the same speed.
//!
//! A replica that starts has forgotten its promises, and so begins with one.

use super::super::data::Time;
use std::time::Duration;

/// The header of this file describes it.
#[derive(Debug, Default)]
pub(super) struct Promise {
    until: Time,
    /// Term of the leader that was heard last.
    term: u64,
    /// Latest time, of that leader's clock, at which it sent something that arrived.
    heard: Time,
}

impl Promise {
    /// Returns the promise of a replica that starts with a history.
    pub(super) fn at_start(now: Time, election_timeout: Duration) -> Self {
        Self { until: now.after(election_timeout), ..Self::default() }
    }

    /// Promises again: the leader of `term` was heard, which had sent its message at `sent`.
    pub(super) fn renew(&mut self, now: Time, election_timeout: Duration, term: u64, sent: Time) {
        self.until = self.until.max(now.after(election_timeout));
        let before = if self.term == term { self.heard } else { Time::default() };
        (self.term, self.heard) = (term, before.max(sent));
    }

    /// Returns true while no vote may be given.
    pub(super) fn forbids(&self, now: Time) -> bool {
        now < self.until
    }

    /// Returns the latest time of the leader of `term` that was heard; zero without any.
    pub(super) fn heard(&self, term: u64) -> Time {
        if self.term == term { self.heard } else { Time::default() }
    }
}
