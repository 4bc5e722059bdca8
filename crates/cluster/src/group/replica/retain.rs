//! The part of the log that must stay for replicas that are behind.
//!
//! 1. Flushed entries that all replicas have on disk are of no use and go. A replica that has been behind the
//!    start of its leader's log for long counts no more, and must be seeded. Until then the others keep what they
//!    have: one of them may lead, and help it.
//! 2. Entries that a replica lacks stay, on all replicas: any of them may lead next. The leader knows
//!    what each has, and tells the others.
//! 3. When the log on disk is too long, entries go that only replicas lack which are away: they were not heard for
//!    long, or got not one entry further in that time. Answers to heartbeats need no disk and no state
//!    machine, so they show no progress. If that is not enough, all flushed entries go ([`Keep`]).
//! 4. Nothing goes that a majority does not have, so a log that is cut stops no group.
//! 5. A leader that has not heard of a replica in its term knows of it what the leader before it told.
//!    What is known falls only for a replica that turns out to have less, as one that was seeded.

use super::super::data::{ReplicaId, Time};
use super::super::message::Body;
use super::super::step::Keep;
use super::{Replica, Step};
use crate::marks::Mark;
use crate::mutants::Mutant;
use std::collections::BTreeMap;
use std::time::Duration;

/// Heartbeats after which followers are told again what they were told before.
const TOLD_EVERY: usize = 10;

/// The header of this file describes it.
#[derive(Debug, Default)]
pub(super) struct Retain {
    /// Last entry that all replicas have on disk which the log can help.
    by_all: u64,
    /// The same without replicas that are away.
    by_live: u64,
    /// A leader has told these values, or they are known of all replicas.
    is_known: bool,
    /// On a leader: when it heard of each replica, and when it began to listen.
    heard: BTreeMap<ReplicaId, Time>,
    since: Time,
    /// On a leader: the last entry that each replica has, and when it came that far or lacked nothing.
    progress: BTreeMap<ReplicaId, (u64, Time)>,
    told: (u64, u64),
    ticks: usize,
}

impl Retain {
    /// Begins to listen: the replica leads from now on, or has slept.
    pub(super) fn listen(&mut self, now: Time) {
        self.heard.clear();
        self.progress.clear();
        self.since = now;
    }

    /// Notes that a follower was heard.
    pub(super) fn hear(&mut self, from: ReplicaId, now: Time) {
        self.heard.insert(from, now);
    }

    /// Notes up to where a follower has the log, which ends with `last`.
    fn look(&mut self, replica: ReplicaId, matched: u64, last: u64, now: Time) {
        let progress = self.progress.entry(replica).or_insert((matched, self.since));
        if matched > progress.0 || matched >= last {
            *progress = (matched, now);
        }
    }

    /// Notes that a follower would get on if its leader could read what it lacks.
    pub(super) fn excuse(&mut self, replica: ReplicaId, now: Time) {
        let at = self.progress.entry(replica).or_insert((0, now));
        at.1 = now;
    }

    /// Returns true if a follower was heard lately, and got on if it lacks entries.
    fn is_live(&self, replica: ReplicaId, patience: Duration, now: Time) -> bool {
        let is_late = |at: Time| at.max(self.since).after(patience) <= now;
        if is_late(self.heard.get(&replica).copied().unwrap_or_default()) {
            return false;
        }
        let at = self.progress.get(&replica).map_or(self.since, |(_, at)| *at);
        let is_stuck = is_late(at) && !Mutant::StuckCountsAsLive.planted();
        if is_stuck {
            Mark::StuckCountsAsAway.hit();
        }
        !is_stuck
    }
}

/// A follower as its leader knows it.
#[derive(Clone, Copy)]
struct Known {
    replica: ReplicaId,
    matched: u64,
    /// It was heard in this term.
    is_known: bool,
    is_stranded: bool,
}

impl Replica {
    /// Takes what the leader tells.
    pub(super) fn take_held(&mut self, by_all: u64, by_live: u64) {
        (self.retain.by_all, self.retain.by_live) = (by_all, by_live.max(by_all));
        // A new leader that has not heard all may know nothing.
        self.retain.is_known |= by_all > 0;
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

    /// Cuts off all flushed entries, but for what `keep` names.
    pub(in super::super) fn shorten(&mut self, keep: Keep, step: &mut Step<'_>) {
        self.look_at_disks(step);
        let held = match keep {
            Keep::ForLive => self.retain.by_live,
            Keep::Nothing => self.flushed,
        };
        let lacked = self.retain.is_known && self.flushed.min(held) > self.retain.by_all;
        if self.cut_log(held) && lacked {
            Mark::LogCutAllTheSame.hit();
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
        let (own, last) = (self.raft.raft.raft_log.persisted, self.raft.raft.raft_log.last_index());
        let others = self.known(patience, step.now);
        for other in &others {
            self.retain.look(other.replica, other.matched, last, step.now);
        }
        let helped = || others.iter().filter(|other| !other.is_stranded);
        let is_live = |of: &Known| self.retain.is_live(of.replica, patience, step.now);
        // A replica that is away is taken to lack what it is not known to have.
        let is_known = others.iter().all(|of| of.is_known || !is_live(of));
        let live = helped().filter(|of| is_live(of));
        let by_live = live.map(|other| other.matched).min().unwrap_or(own);
        let by_all = helped().map(|other| other.matched).min().unwrap_or(own);
        // Others that are a majority together with this one.
        let mut all: Vec<u64> = others.iter().map(|other| other.matched).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        let by_majority = all.get(..self.members.len() / 2).and_then(<[u64]>::last);
        let bound = by_majority.map_or(own, |by_majority| own.min(*by_majority));
        self.retain.is_known |= is_known;
        self.retain.by_all = by_all.min(bound);
        self.retain.by_live = by_live.min(bound).max(self.retain.by_all);
    }

    /// Returns what is known of the other replicas (rule 5 of the file header).
    fn known(&mut self, patience: Duration, now: Time) -> Vec<Known> {
        let start = self.raft.store().start().index;
        let (progress, by_all) = (self.raft.raft.prs(), self.retain.by_all);
        let matched = |id: ReplicaId| progress.get(id.0).map_or(0, |at| at.matched);
        self.seeded.retain(|replica, _| matched(*replica) < start);
        let of = |other: super::super::data::Member| {
            let replica = other.replica;
            let since = self.seeded.get(&replica).map(|stranded| stranded.since);
            let is_stranded = since.is_some_and(|since| since.after(patience) <= now);
            if is_stranded {
                Mark::StrandedLeftOut.hit();
            }
            let known = Some(matched(replica)).filter(|matched| *matched > 0 || is_stranded);
            let (matched, is_known) = (known.unwrap_or(by_all), known.is_some());
            Known { replica, matched, is_known, is_stranded }
        };
        self.others().map(of).collect()
    }

    /// Cuts off all flushed entries once no replica needs one of them.
    fn cut_needless(&mut self) {
        if self.retain.by_all >= self.flushed {
            self.cut_log(self.flushed);
        }
    }

    /// Cuts off the flushed entries up to `held`. Returns true if there were any.
    fn cut_log(&mut self, held: u64) -> bool {
        let to = self.flushed.min(held);
        let cuts = to > self.raft.store().start().index;
        if cuts {
            self.cut = Some(self.raft.mut_store().compact(to));
        }
        cuts
    }
}
