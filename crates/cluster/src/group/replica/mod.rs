//! One replica of a group: the `raft` crate's state machine, with everything around it that must not
//! be got wrong.
//!
//! Every call that changes the `raft` crate's state ends with [`Replica::settle`], and a step ends
//! with [`Replica::collect`].
//!
//! 1. The `raft` crate draws election timeouts from the thread's randomness. `settle` puts one in
//!    their place that follows from the driver's seed, and draws it when term or role change: the
//!    crate draws at no other time.
//! 2. A replica that has lost entries which it had acknowledged is halted: it does nothing more.

mod collect;
mod lease;
mod log;
mod messages;
mod promise;
mod proposals;
mod reads;
mod requests;
mod retain;
mod sleep;

pub(super) use collect::Collected;

use super::data::{
    EntryId, GroupId, HardState, Member, NodeId, OpenError, ReplicaId, SavedReplica, Ticket, Time,
};
use super::message::{Body, Message};
use super::report::{GroupReport, MemberReport};
use super::step::{Output, RoleChange};
use crate::marks::Mark;
use crate::mutants::Mutant;
use crate::shape::Shape;
use base::env::Rng;
use bytes::Bytes;
use lease::Lease;
use log::Log;
use promise::Promise;
use proposals::Proposals;
use raft::{RawNode, StateRole};
use reads::Reads;
use retain::Retain;
use sleep::Sleep;
use std::collections::BTreeMap;
use std::time::Duration;

/// Values that all replicas of a driver share.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    pub(super) election_ticks: usize,
    pub(super) heartbeat_ticks: usize,
    pub(super) sleep_ticks: usize,
    pub(super) election_timeout: Duration,
    pub(super) shape: Shape,
    /// Random number of the driver's start.
    pub(super) start: u64,
}

/// A replica that the log of its leader cannot help.
#[derive(Debug, Clone, Copy)]
struct Stranded {
    /// The time at which that was found.
    since: Time,
    /// When it was told last.
    told: Time,
}

/// Context of a call: the time, the limits, and a place for results.
pub(super) struct Step<'a> {
    pub(super) now: Time,
    pub(super) limits: &'a Limits,
    /// Bytes of entries that all replicas of the driver hold and have not applied.
    pub(super) held: &'a mut u64,
    pub(super) out: &'a mut Output,
}

/// The header of this file describes it.
pub(super) struct Replica {
    group: GroupId,
    me: ReplicaId,
    members: Vec<Member>,
    raft: RawNode<Log>,
    rng: Rng,
    /// Ticks without a leader after which the replica stands for election.
    election_ticks: usize,
    seen: (u64, StateRole),
    told: RoleChange,
    promise: Promise,
    lease: Lease,
    /// End of the lease that was told last.
    lease_told: Option<(Time, u64)>,
    /// Replica to which this one wanted to hand its office, until a leader is known again.
    heir: Option<ReplicaId>,
    reads: Reads,
    proposals: Proposals,
    sleep: Sleep,
    retain: Retain,
    /// Requests that came with this step.
    asked: Vec<(Ticket, super::step::Proof)>,
    proposed: Vec<(Ticket, Option<u64>, Bytes)>,
    /// The bytes of this replica in [`Step::held`], and the part of them that came with this step.
    held: u64,
    came: u64,
    /// The last committed entry that was given out.
    given: u64,
    flushed: u64,
    /// Start of the log that is to be written.
    cut: Option<EntryId>,
    /// The last state that was given out to be written, and the last one that is saved.
    written: HardState,
    saved: HardState,
    /// On a leader: the replicas that were found to need seeding.
    seeded: BTreeMap<ReplicaId, Stranded>,
    halted: bool,
}

impl Replica {
    /// Opens a replica as it was saved.
    pub(super) fn open(
        saved: &SavedReplica,
        node: NodeId,
        limits: &Limits,
        rng: Rng,
        now: Time,
    ) -> Result<Self, OpenError> {
        let me = own_member(&saved.members, node)?;
        let log = Log::open(saved)?;
        let config = raft::Config {
            id: me.0,
            election_tick: limits.election_ticks,
            heartbeat_tick: limits.heartbeat_ticks,
            applied: saved.flushed,
            max_size_per_msg: limits.shape.append_bytes_max as u64,
            max_inflight_msgs: limits.shape.appends_in_flight_max,
            check_quorum: true,
            pre_vote: true,
            max_committed_size_per_ready: limits.shape.committed_bytes_max as u64,
            ..raft::Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raft = RawNode::new(&config, log, &logger).map_err(|_| OpenError::Log)?;
        // A replica without a term has never answered a leader, so it has promised nothing.
        let promise = match saved.state.term {
            0 => Promise::default(),
            _ if Mutant::RestartedVoterVotes.planted() => Promise::default(),
            _ => Promise::at_start(now, limits.election_timeout),
        };
        let (group, term) = (saved.group, raft.raft.term);
        Ok(Self {
            group,
            me,
            members: saved.members.clone(),
            rng,
            election_ticks: limits.election_ticks,
            seen: (u64::MAX, StateRole::Follower),
            told: RoleChange { group, term, leads: false, leader: None },
            promise,
            lease: Lease::default(),
            lease_told: None,
            heir: None,
            reads: Reads::default(),
            proposals: Proposals::default(),
            sleep: Sleep::default(),
            retain: Retain::default(),
            asked: Vec::new(),
            proposed: Vec::new(),
            held: 0,
            came: 0,
            given: saved.flushed,
            flushed: saved.flushed,
            cut: None,
            written: saved.state,
            saved: saved.state,
            seeded: BTreeMap::new(),
            halted: false,
            raft,
        })
    }

    /// Returns true if the replica needs no ticks.
    pub(super) fn rests(&self) -> bool {
        self.halted || self.sleep.asleep()
    }

    /// Returns the requests that have no answer yet, for a caller that closes the replica.
    pub(super) fn into_tickets(self) -> Vec<Ticket> {
        let asked = self.asked.into_iter().map(|(ticket, _)| ticket);
        let proposed = self.proposed.into_iter().map(|(ticket, ..)| ticket);
        let early = asked.chain(proposed);
        early.chain(self.reads.into_tickets()).chain(self.proposals.into_tickets()).collect()
    }

    /// Counts one tick of the clock.
    pub(super) fn tick(&mut self, step: &mut Step<'_>) {
        if self.rests() {
            return;
        }
        if self.leads() {
            let transfers = self.raft.raft.lead_transferee.is_some();
            self.raft.tick();
            if transfers && self.leads() && self.raft.raft.lead_transferee.is_none() {
                Mark::TransferAborted.hit();
            }
            self.tick_retained(step);
            self.tick_asleep(step);
        } else if self.raft.raft.election_elapsed + 1 >= self.election_ticks
            && self.promise.forbids(step.now)
            && !Mutant::PromiseBroken.planted()
        {
            Mark::CampaignWithheld.hit();
        } else {
            self.raft.tick();
        }
        self.settle(step);
    }

    /// Lets a leader fall asleep after all others have.
    fn tick_asleep(&mut self, step: &mut Step<'_>) {
        let quiet = self.quiet();
        if !self.sleep.tick(quiet, step.limits.sleep_ticks) {
            return;
        }
        let index = self.raft.raft.raft_log.last_index();
        let awake: Vec<Member> =
            self.others().filter(|other| !self.sleep.agreed(other.replica)).collect();
        for other in &awake {
            self.send_own(*other, Body::Sleep { index }, step);
        }
        if awake.is_empty() || Mutant::LeaderSleepsAlone.planted() {
            self.fall_asleep();
        }
    }

    fn fall_asleep(&mut self) {
        Mark::LeaderSlept.hit();
        self.sleep.fall_asleep();
    }

    /// Returns true if this leader has nothing to do, and neither has any follower.
    fn quiet(&self) -> bool {
        let raft = &self.raft.raft;
        let (last, committed) = (raft.raft_log.last_index(), raft.raft_log.committed);
        let others = self.others().filter_map(|other| raft.prs().get(other.replica.0));
        let mut all = others.map(|other| other.matched == last && other.committed_index == last);
        self.leads()
            && all.all(|caught_up| caught_up)
            && last == committed
            && raft.raft_log.applied == committed
            && raft.lead_transferee.is_none()
            && self.reads.waiting() + self.proposals.waiting() == 0
            && !self.raft.store().fetches()
    }

    /// Wakes a sleeping replica, and returns true if it slept.
    fn wake(&mut self, now: Time) -> bool {
        if !self.sleep.wake() {
            return false;
        }
        self.retain.listen(now);
        self.raft.raft.election_elapsed = 0;
        self.raft.ping();
        true
    }

    /// Takes note that nothing is heard of a node.
    pub(super) fn lost(&mut self, node: NodeId, step: &mut Step<'_>) {
        let leader = self.raft.raft.leader_id;
        let gone: Vec<ReplicaId> =
            self.others().filter(|other| other.node == node).map(|other| other.replica).collect();
        for replica in gone {
            if self.leads() {
                self.raft.report_unreachable(replica.0);
            } else if replica.0 == leader && self.wake(step.now) {
                Mark::WokenByLoss.hit();
            }
        }
        self.settle(step);
    }

    /// Does what follows from a change of term or role; see invariant 1 of the file header.
    fn settle(&mut self, step: &mut Step<'_>) {
        let seen = (self.raft.raft.term, self.raft.raft.state);
        if seen != self.seen {
            let led = self.seen.1 == StateRole::Leader;
            self.seen = seen;
            let ticks = step.limits.election_ticks;
            self.election_ticks = ticks + self.rng.index(ticks);
            self.lease = Lease::default();
            self.retain.listen(step.now);
            // A follower that lacked entries in another term may have them in this one.
            self.seeded.clear();
            if led {
                let refusal = self.not_leader();
                self.reads.refuse(refusal, &mut step.out.answers);
            }
        }
        self.raft.raft.set_randomized_election_timeout(self.election_ticks);
        let (term, leads, leader) = (seen.0, self.leads(), self.leader());
        let told = RoleChange { group: self.group, term, leads, leader };
        if told != self.told {
            let led_by = leader.map(|leader| leader.replica);
            if led_by.is_some() && self.heir.take() == led_by {
                Mark::TransferDone.hit();
            }
            self.told = told;
            step.out.roles.push(told);
        }
    }

    /// Returns the condition of the group as this replica sees it.
    pub(super) fn report(&self) -> GroupReport {
        let (raft, log) = (&self.raft.raft, self.raft.store());
        let start = log.start().index;
        let of = |member: &Member| {
            let is_me = member.replica == self.me;
            // Nothing was heard of a follower in this term before it has matched an entry.
            let known = || raft.prs().get(member.replica.0).map(|at| at.matched);
            let heard = || known().filter(|matched| *matched > 0);
            let matched = if is_me { Some(raft.raft_log.persisted) } else { heard() };
            let is_behind = self.leads() && !is_me && self.seeded.contains_key(&member.replica);
            MemberReport {
                member: *member,
                matched: matched.filter(|_| self.leads()),
                is_behind: is_behind && matched.is_none_or(|matched| matched < start),
            }
        };
        GroupReport {
            group: self.group,
            term: raft.term,
            leads: self.leads(),
            leader: self.leader(),
            start,
            last: raft.raft_log.last_index(),
            committed: raft.raft_log.committed,
            applied: raft.raft_log.applied,
            members: self.members.iter().map(of).collect(),
        }
    }

    fn leads(&self) -> bool {
        self.raft.raft.state == StateRole::Leader
    }

    fn member(&self, replica: u64) -> Option<Member> {
        self.members.iter().find(|member| member.replica.0 == replica).copied()
    }

    fn leader(&self) -> Option<Member> {
        self.member(self.raft.raft.leader_id)
    }

    fn others(&self) -> impl Iterator<Item = Member> + '_ {
        self.members.iter().copied().filter(|member| member.replica != self.me)
    }

    /// Sends a message that the `raft` crate does not know, and that no log write must precede.
    fn send_own(&self, to: Member, body: Body, step: &mut Step<'_>) {
        let term = self.raft.raft.term;
        let message = Message { group: self.group, from: self.me, to: to.replica, term, body };
        step.out.messages.entry(to.node).or_default().push(message);
    }
}

/// Returns the replica on `node`, if the members are as they should be.
fn own_member(members: &[Member], node: NodeId) -> Result<ReplicaId, OpenError> {
    let mut names: Vec<ReplicaId> = members.iter().map(|member| member.replica).collect();
    let mut nodes: Vec<NodeId> = members.iter().map(|member| member.node).collect();
    names.sort_unstable();
    nodes.sort_unstable();
    let twice = names.windows(2).any(|pair| pair[0] == pair[1])
        || nodes.windows(2).any(|pair| pair[0] == pair[1]);
    let own = members.iter().find(|member| member.node == node);
    match own {
        Some(own) if !twice && names[0] != ReplicaId(0) => Ok(own.replica),
        _ => Err(OpenError::Members),
    }
}
