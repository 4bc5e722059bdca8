//! Hibernation. A group in which nothing happens sends nothing and counts no ticks.
//!
//! 1. A leader sleeps after all replicas have the whole log, know that it is committed, and have
//!    agreed to sleep. A follower agrees only if it has applied everything.
//! 2. A sleeping follower does not notice that its leader is gone. Its node does, for all groups at
//!    once, and wakes it.
//! 3. Any message wakes a sleeping replica, except the leader's plain heartbeats to a follower that
//!    has agreed earlier than the others, late answers to them, and what belongs to falling asleep.
//! 4. The answer to what woke a follower tells its leader that it is awake. It comes after the
//!    follower's word that it sleeps, which may have been on its way when the leader asked for a read.
//! 5. A sleeping leader has no lease, since leases end by time. Its next read asks a quorum.

use super::super::data::ReplicaId;
use std::collections::BTreeSet;

/// The header of this file describes it.
#[derive(Debug, Default)]
pub(super) struct Sleep {
    asleep: bool,
    /// Ticks since something happened, on a leader.
    idle: usize,
    /// Followers that have fallen asleep.
    agreed: BTreeSet<ReplicaId>,
}

impl Sleep {
    /// Returns true while the replica sleeps.
    pub(super) fn asleep(&self) -> bool {
        self.asleep
    }

    /// Falls asleep until it is woken.
    pub(super) fn fall_asleep(&mut self) {
        self.asleep = true;
    }

    /// Wakes, and returns true if the replica slept.
    pub(super) fn wake(&mut self) -> bool {
        if self.asleep {
            self.stir();
        }
        std::mem::take(&mut self.asleep)
    }

    /// Notes that something happened on a leader.
    pub(super) fn stir(&mut self) {
        self.idle = 0;
        self.agreed.clear();
    }

    /// Counts a tick of a leader, and returns true after `ticks` of them in which nothing happened.
    pub(super) fn tick(&mut self, quiet: bool, ticks: usize) -> bool {
        if !quiet {
            self.stir();
            return false;
        }
        self.idle = self.idle.saturating_add(1);
        self.idle >= ticks
    }

    /// Notes that a follower sleeps.
    pub(super) fn agree(&mut self, replica: ReplicaId) {
        self.agreed.insert(replica);
    }

    /// Notes that a follower is awake.
    pub(super) fn disagree(&mut self, replica: ReplicaId) {
        self.agreed.remove(&replica);
    }

    /// Returns true if the follower sleeps.
    pub(super) fn agreed(&self, replica: ReplicaId) -> bool {
        self.agreed.contains(&replica)
    }
}
