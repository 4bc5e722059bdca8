//! The lease of a leader: until a time of its own clock no other leader can be elected, so it may
//! answer reads alone.
//!
//! 1. The lease counts from the time when the leader sent what a quorum has heard, not from the
//!    answers: a follower's promise begins when it hears, and answers may be late.
//! 2. It lasts 0.8 of the election timeout, for which followers promise. The rest bears clocks that
//!    run at different speeds: two that each err by less than a tenth.
//! 3. A leader that has asked another replica to stand for election has no lease for the rest of its
//!    term. Votes of such an election break promises, and a message may be on its way for long, also
//!    after the handover was given up.

use super::super::data::{ReplicaId, Time};
use crate::marks::Mark;
use std::collections::BTreeMap;
use std::time::Duration;

/// The header of this file describes it.
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// Latest time at which the leader sent something that the replica has heard.
    heard: BTreeMap<ReplicaId, Time>,
    revoked: bool,
}

impl Lease {
    /// Notes that `from` has heard what this leader sent at `heard`.
    pub(super) fn acknowledge(&mut self, from: ReplicaId, heard: Time, now: Time) {
        if heard == Time::default() || heard > now {
            return;
        }
        let latest = self.heard.entry(from).or_default();
        *latest = heard.max(*latest);
    }

    /// Gives up the lease for the rest of the term.
    pub(super) fn revoke(&mut self) {
        Mark::LeaseRevoked.hit();
        self.revoked = true;
    }

    /// Returns the time before which no other leader can be elected, in a group of so many voters.
    /// `None` if the leader has no lease.
    pub(super) fn end(&self, voters: usize, election_timeout: Duration) -> Option<Time> {
        if self.revoked {
            return None;
        }
        let others = voters / 2;
        let Some(last) = others.checked_sub(1) else { return Some(Time(u64::MAX)) };
        let mut heard: Vec<Time> = self.heard.values().copied().collect();
        heard.sort_unstable_by(|one, other| other.cmp(one));
        let length = election_timeout * 4 / 5;
        heard.get(last).map(|since| since.after(length))
    }

    /// Returns true if no other leader can be elected now.
    pub(super) fn holds(&self, now: Time, voters: usize, election_timeout: Duration) -> bool {
        let Some(end) = self.end(voters, election_timeout) else { return false };
        if now >= end {
            Mark::LeaseExpired.hit();
        }
        now < end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_nanos(1000);

    fn holds(lease: &Lease, now: u64, voters: usize) -> bool {
        lease.holds(Time(now), voters, TIMEOUT)
    }

    #[test]
    fn lease_counts_from_what_a_quorum_heard() {
        let mut lease = Lease::default();
        assert!(holds(&lease, 1, 1), "a leader without followers needs no one");
        assert!(!holds(&lease, 1, 3));
        lease.acknowledge(ReplicaId(2), Time(100), Time(500));
        assert!(holds(&lease, 899, 3) && !holds(&lease, 900, 3));
        assert!(!holds(&lease, 500, 5), "one of four followers is no quorum");
        lease.acknowledge(ReplicaId(3), Time(300), Time(600));
        assert!(holds(&lease, 1099, 3) && !holds(&lease, 1100, 3), "the newest one counts");
        assert!(holds(&lease, 899, 5) && !holds(&lease, 900, 5), "the second newest one counts");
        lease.acknowledge(ReplicaId(3), Time(200), Time(700));
        assert!(holds(&lease, 1099, 3), "an old answer takes nothing back");
    }

    #[test]
    fn nothing_heard_and_times_to_come_give_no_lease() {
        let mut lease = Lease::default();
        lease.acknowledge(ReplicaId(2), Time(0), Time(10));
        lease.acknowledge(ReplicaId(3), Time(11), Time(10));
        assert!(!holds(&lease, 10, 3));
    }

    #[test]
    fn a_revoked_lease_never_comes_back() {
        let mut lease = Lease::default();
        lease.acknowledge(ReplicaId(2), Time(100), Time(100));
        lease.revoke();
        lease.acknowledge(ReplicaId(2), Time(200), Time(200));
        assert!(!holds(&lease, 201, 3));
    }
}
