//! The part of the log that must stay for replicas that are behind.
//!
//! 1. Flushed entries that all replicas have on disk are of no use and go.
//! 2. Entries that a replica lacks stay, on all replicas: any of them may lead next. The leader knows
//!    what each has, and tells the others.
//! 3. When the log on disk is too long, entries go that only replicas lack which were not heard for long.
//!    What a majority does not have yet stays in any case, so a log that is cut stops no group.
//! 4. An index that was found to be on a disk stays on it, so what is known never falls, under any leader.

use super::super::data::{ReplicaId, Time};
use super::super::message::Body;
use super::{Replica, Step};
use std::collections::BTreeMap;

/// Heartbeats after which followers are told again what they were told before.
const TOLD_EVERY: usize = 10;

/// The header of this file describes it.
#[derive(Debug, Default)]
pub(super) struct Retain {
    /// Last entry that all replicas have on disk.
    by_all: u64,
    /// The same without replicas that are away.
    by_live: u64,
    /// On a leader: when it heard of each replica, and when it began to listen.
    heard: BTreeMap<ReplicaId, Time>,
    since: Time,
    told: (u64, u64),
    ticks: usize,
}

impl Retain {
    /// Begins to listen: the replica leads from now on, or has slept.
    pub(super) fn listen(&mut self, now: Time) {
        self.heard.clear();
        self.since = now;
    }

    /// Notes that a follower was heard.
    pub(super) fn hear(&mut self, from: ReplicaId, now: Time) {
        self.heard.insert(from, now);
    }

    /// Notes what is known to be on disks.
    fn learn(&mut self, by_all: u64, by_live: u64) {
        self.by_all = self.by_all.max(by_all);
        self.by_live = self.by_live.max(by_live).max(self.by_all);
    }
}

impl Replica {
    /// Takes what the leader tells.
    pub(super) fn take_held(&mut self, by_all: u64, by_live: u64) {
        self.retain.learn(by_all, by_live);
        self.cut_needless();
    }

    /// Notes that the state machine has flushed up to `index`, and cuts off what no replica needs.
    pub(in super::super) fn flushed(&mut self, index: u64, step: &mut Step<'_>) {
        let applied = self.raft.raft.raft_log.applied;
        assert!(index <= applied, "the state machine flushed what it did not apply");
        self.flushed = self.flushed.max(index);
        self.look_at_disks(step);
        self.cut_log(self.retain.by_all);
    }

    /// Cuts off all flushed entries, but for entries that a replica lacks which is not away.
    pub(in super::super) fn shorten(&mut self, step: &mut Step<'_>) {
        self.look_at_disks(step);
        self.cut_log(self.retain.by_live);
        if self.cut.is_some_and(|start| start.index > self.retain.by_all) {
            step.out.let_go.push(self.group);
        }
    }

    /// Counts a tick of a leader, which tells the followers from time to time.
    pub(super) fn tick_retained(&mut self, step: &mut Step<'_>) {
        self.retain.ticks += 1;
        if !self.retain.ticks.is_multiple_of(step.limits.heartbeat_ticks) {
            return;
        }
        self.look_at_disks(step);
        self.cut_needless();
        let held = (self.retain.by_all, self.retain.by_live);
        let again = self.retain.ticks.is_multiple_of(TOLD_EVERY * step.limits.heartbeat_ticks);
        if self.retain.told == held && !again {
            return;
        }
        self.retain.told = held;
        let (by_all, by_live) = held;
        let others: Vec<_> = self.others().collect();
        for other in others {
            self.send_own(other, Body::Held { by_all, by_live }, step);
        }
    }

    /// Looks at a leader's knowledge of the other replicas.
    fn look_at_disks(&mut self, step: &Step<'_>) {
        if !self.leads() {
            return;
        }
        let timeouts = u32::try_from(step.limits.shape.away_timeouts).unwrap_or(u32::MAX);
        let patience = step.limits.election_timeout.saturating_mul(timeouts);
        let own = self.raft.raft.raft_log.persisted;
        let matched = |id: ReplicaId| self.raft.raft.prs().get(id.0).map_or(0, |at| at.matched);
        let mut all: Vec<u64> = self.others().map(|other| matched(other.replica)).collect();
        let live = self.others().filter(|other| {
            let heard = self.retain.heard.get(&other.replica).copied().unwrap_or_default();
            heard.max(self.retain.since).after(patience) > step.now
        });
        let by_live = live.map(|other| matched(other.replica)).min().unwrap_or(own);
        all.sort_unstable_by(|one, other| other.cmp(one));
        let by_all = all.last().copied().unwrap_or(own);
        // Others that are a majority together with this one.
        let by_majority = all.get(..self.members.len() / 2).and_then(<[u64]>::last);
        let by_live = by_live.min(by_majority.copied().unwrap_or(own));
        self.retain.learn(by_all.min(own), by_live.min(own));
    }

    /// Cuts off all flushed entries once no replica needs one of them.
    fn cut_needless(&mut self) {
        if self.retain.by_all >= self.flushed {
            self.cut_log(self.flushed);
        }
    }

    fn cut_log(&mut self, held: u64) {
        let to = self.flushed.min(held);
        if to > self.raft.store().start().index {
            self.cut = Some(self.raft.mut_store().compact(to));
        }
    }
}
