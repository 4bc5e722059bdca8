//! Messages that arrive: checks, promises, acknowledgements, sleep.
//!
//! A message that a correct replica would not send is dropped with its reason. The `raft` crate would
//! end the process.

use super::super::data::{NodeId, ReplicaId};
use super::super::message::{Body, Message, VoteKind};
use super::super::step::Rejected;
use super::log::bytes_of;
use super::{Replica, Step};
use crate::marks::Mark;
use crate::mutants::Mutant;
use raft::StateRole;

impl Replica {
    /// Takes a message that came from `node`.
    pub(in super::super) fn message(
        &mut self,
        node: NodeId,
        mut message: Message,
        step: &mut Step<'_>,
    ) -> Result<(), Rejected> {
        if self.halted {
            return Ok(());
        }
        let member = self.member(message.from.0).filter(|from| from.node == node);
        if member.is_none() || message.to != self.me || message.from == self.me {
            return Err(Rejected::WrongMember);
        }
        message.check()?;
        self.check(&message)?;
        if self.own_message(&message, step) {
            return Ok(());
        }
        if !self.sleeps_through(&message) && self.wake(step.now) {
            Mark::WokenByMessage.hit();
        }
        if self.withholds_vote(&message, step) {
            Mark::VoteWithheld.hit();
            return Ok(());
        }
        self.trim(&mut message, step);
        self.step_raft(message, step);
        Ok(())
    }

    /// Checks a message against the log, which the `raft` crate takes for granted.
    fn check(&mut self, message: &Message) -> Result<(), Rejected> {
        let last = self.raft.raft.raft_log.last_index();
        let current = message.term >= self.raft.raft.term;
        match message.body {
            Body::Heartbeat { commit, .. } if current && commit > last => {
                self.halted = true;
                Err(Rejected::LogLost)
            }
            Body::Appended { index, refused: None, .. } if self.leads() && index > last => {
                Err(Rejected::Malformed("a follower has no entries that its leader lacks"))
            }
            _ => Ok(()),
        }
    }

    fn withholds_vote(&self, message: &Message, step: &Step<'_>) -> bool {
        if Mutant::PromiseBroken.planted() {
            return false;
        }
        let free = match &message.body {
            Body::RequestVote { kind, .. } => *kind == VoteKind::Transfer,
            _ => true,
        };
        !free && self.promise.forbids(step.now)
    }

    /// Takes the entries off an append while too much of the group that is committed waits to be applied, or
    /// the driver holds too much of all groups. It then is a heartbeat: the leader sends the entries again.
    fn trim(&mut self, message: &mut Message, step: &mut Step<'_>) {
        let Body::Append { previous, entries, commit, .. } = &mut message.body else { return };
        if entries.is_empty() {
            return;
        }
        let (log, shape) = (&self.raft.raft.raft_log, &step.limits.shape);
        let store = self.raft.store();
        let unapplied = store.bytes_between(log.applied, log.committed);
        // A group for which nothing waits takes one message in any case. What waits for the disk or the state
        // machine goes on without the leader.
        let waits = unapplied + store.bytes_between(log.persisted, store.last()) + self.came > 0;
        let is_full = *step.held > shape.held_bytes_max as u64;
        if unapplied > shape.unapplied_bytes_max as u64 || (is_full && waits) {
            Mark::AppendTrimmed.hit();
            entries.clear();
            *commit = (*commit).min(previous.index);
            return;
        }
        let bytes: u64 = entries.iter().map(bytes_of).sum();
        self.came += bytes;
        self.held += bytes;
        *step.held += bytes;
    }

    fn step_raft(&mut self, message: Message, step: &mut Step<'_>) {
        let (from, term) = (message.from, message.term);
        let sent = match message.body {
            Body::Append { sent, .. } | Body::Heartbeat { sent, .. } => Some(sent),
            _ => None,
        };
        let heard = match message.body {
            Body::Appended { heard, .. } | Body::HeartbeatAnswer { heard, .. } => Some(heard),
            _ => None,
        };
        let follows = self.raft.raft.state == StateRole::Follower && self.raft.raft.term == term;
        if message.body == Body::TimeoutNow && follows {
            Mark::TransferVote.hit();
        }
        let Some(message) = message.into_raft() else { return };
        // An error says that the message was dropped, as the network might have done.
        let _ = self.raft.step(message);
        self.settle(step);
        if self.raft.raft.term != term {
            return;
        }
        if let Some(sent) = sent.filter(|_| self.raft.raft.leader_id == from.0) {
            self.promise.renew(step.now, step.limits.election_timeout, term, sent);
        }
        if let Some(heard) = heard.filter(|_| self.leads()) {
            let heard = if Mutant::LeaseFromAnswer.planted() { step.now } else { heard };
            self.lease.acknowledge(from, heard, step.now);
            self.retain.hear(from, step.now);
        }
    }

    /// Takes the messages that the `raft` crate does not know. Returns true if it was one.
    fn own_message(&mut self, message: &Message, step: &mut Step<'_>) -> bool {
        let current = message.term == self.raft.raft.term;
        match message.body {
            Body::Sleep { index } => {
                if current && self.raft.raft.leader_id == message.from.0 && !self.leads() {
                    self.agree_to_sleep(message.from, index, step);
                }
                true
            }
            Body::Asleep { index } => {
                let last = self.raft.raft.raft_log.last_index();
                if current && self.leads() && !self.sleep.asleep() && index == last {
                    self.sleep.agree(message.from);
                }
                true
            }
            Body::Held { by_all, by_live } => {
                if current && self.raft.raft.leader_id == message.from.0 && !self.leads() {
                    self.take_held(by_all, by_live);
                }
                true
            }
            // The heartbeat of a read woke the follower, maybe after it had agreed to sleep.
            Body::HeartbeatAnswer { read: None, .. } => false,
            _ => {
                self.sleep.disagree(message.from);
                false
            }
        }
    }

    fn agree_to_sleep(&mut self, leader: ReplicaId, index: u64, step: &mut Step<'_>) {
        let log = &self.raft.raft.raft_log;
        let here = [log.last_index(), log.committed, log.persisted, log.applied];
        let Some(leader) = self.member(leader.0) else { return };
        if here != [index; 4] {
            Mark::SleepDeclined.hit();
            return;
        }
        if !self.sleep.asleep() {
            Mark::FollowerSlept.hit();
        }
        // A leader sends all to sleep once every replica has the last entry on disk. Without that a sleeper
        // might keep its log: nothing tells it any more.
        self.take_held(index, index);
        self.sleep.fall_asleep();
        self.send_own(leader, Body::Asleep { index }, step);
    }

    /// Returns true for a message that a sleeping replica answers without waking.
    fn sleeps_through(&self, message: &Message) -> bool {
        let raft = &self.raft.raft;
        let plain = match message.body {
            Body::Heartbeat { read: None, commit, .. } => {
                commit <= raft.raft_log.committed && raft.leader_id == message.from.0
            }
            // Only what the leader sent before it fell asleep has this answer.
            Body::HeartbeatAnswer { read: None, .. } => self.leads(),
            _ => false,
        };
        plain && message.term == raft.term
    }
}
