//! Requests of this node: proposals, reads, handovers, and what its disk and state machine report.
//!
//! 1. Requests are looked at after all messages of a step. The time of a step is read after its
//!    inputs came, so a lease that holds then held after every read of the step had come.
//! 2. Every refusal proves that nothing came into the log.

use super::super::data::{Entry, EntryId, Member, ReplicaId, Ticket};
use super::super::message::ReadContext;
use super::super::step::{Answer, Proof, Refusal};
use super::{Replica, Step};
use crate::marks::Mark;
use crate::mutants::Mutant;
use bytes::Bytes;
use raft::eraftpb::{self, MessageType};

impl Replica {
    /// Takes a proposal; its answer comes with this step or a later one.
    pub(in super::super) fn propose(&mut self, ticket: Ticket, term: Option<u64>, command: Bytes) {
        self.proposed.push((ticket, term, command));
    }

    /// Takes a read; its answer comes with this step or a later one.
    pub(in super::super) fn read(&mut self, ticket: Ticket, proof: Proof) {
        self.asked.push((ticket, proof));
    }

    /// Starts to hand the leader's office to another replica. Does nothing on other replicas.
    pub(in super::super) fn transfer(&mut self, to: ReplicaId, step: &mut Step<'_>) {
        if self.halted || !self.leads() || to == self.me || self.member(to.0).is_none() {
            return;
        }
        self.wake(step.now);
        if !Mutant::TransferKeepsLease.planted() {
            self.lease.revoke();
        }
        self.heir = Some(to);
        self.raft.transfer_leader(to.0);
        self.settle(step);
    }

    pub(super) fn not_leader(&self) -> Refusal {
        Refusal::NotLeader { leader: self.leader().filter(|leader| leader.replica != self.me) }
    }

    /// Looks at the requests of the step.
    pub(super) fn take_requests(&mut self, step: &mut Step<'_>) {
        if self.leads() && !(self.proposed.is_empty() && self.asked.is_empty()) {
            if self.wake(step.now) {
                Mark::WokenByRequest.hit();
            }
            self.sleep.stir();
        }
        self.take_proposals(step);
        self.take_reads(step);
    }

    fn take_proposals(&mut self, step: &mut Step<'_>) {
        let mut accepted: Vec<Ticket> = Vec::new();
        let mut entries: Vec<eraftpb::Entry> = Vec::new();
        let log = &self.raft.raft.raft_log;
        let mut bytes = self.raft.store().bytes_between(log.applied, self.raft.store().last());
        for (ticket, term, command) in std::mem::take(&mut self.proposed) {
            let waiting = self.proposals.waiting() + accepted.len();
            if let Some(refusal) = self.refusal(term, &command, bytes, waiting, step) {
                step.out.answers.push((ticket, Answer::Refused(refusal)));
                continue;
            }
            bytes += command.len() as u64;
            accepted.push(ticket);
            let id = EntryId::default();
            entries.push(Entry { id, command }.to_raft());
        }
        if accepted.is_empty() {
            return;
        }
        let term = self.raft.raft.term;
        let mut message = eraftpb::Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.me.0;
        message.set_entries(entries.into());
        let taken = self.raft.raft.step(message);
        self.settle(step);
        if taken.is_err() {
            let refused = Answer::Refused(Refusal::Full);
            step.out.answers.extend(accepted.into_iter().map(|ticket| (ticket, refused)));
            return;
        }
        let end = self.raft.raft.raft_log.last_index() + 1;
        for (index, ticket) in (end - accepted.len() as u64..end).zip(accepted) {
            self.proposals.place(ticket, EntryId { term, index });
        }
    }

    /// Returns why a command is not taken, with so many bytes unapplied and so many waiting.
    fn refusal(
        &self,
        term: Option<u64>,
        command: &Bytes,
        bytes: u64,
        waiting: usize,
        step: &Step<'_>,
    ) -> Option<Refusal> {
        let (raft, shape) = (&self.raft.raft, &step.limits.shape);
        if self.halted || !self.leads() {
            return Some(self.not_leader());
        }
        if term.is_some_and(|term| term != raft.term) {
            Mark::RefusedTerm.hit();
            return Some(Refusal::TermChanged { term: raft.term });
        }
        if let Some(to) = raft.lead_transferee {
            Mark::RefusedTransfer.hit();
            return Some(Refusal::Transferring { to: ReplicaId(to) });
        }
        if command.is_empty() {
            return Some(Refusal::Empty);
        }
        if command.len() > shape.command_bytes_max {
            return Some(Refusal::TooLarge { bytes_max: shape.command_bytes_max });
        }
        let much = bytes + command.len() as u64 > shape.unapplied_bytes_max as u64;
        if waiting >= shape.proposals_max || (much && bytes > 0) {
            Mark::RefusedFull.hit();
            return Some(Refusal::Full);
        }
        None
    }

    fn take_reads(&mut self, step: &mut Step<'_>) {
        let own_commit =
            self.raft.raft.commit_to_current_term() || Mutant::ReadsBeforeOwnTerm.planted();
        let mut asked = std::mem::take(&mut self.asked);
        if self.leads() && own_commit {
            asked.extend(self.reads.take_awaiting_term());
        }
        let mut quorum = Vec::new();
        for (ticket, proof) in asked {
            if self.halted || !self.leads() {
                step.out.answers.push((ticket, Answer::Refused(self.not_leader())));
            } else if self.reads.waiting() + quorum.len() >= step.limits.shape.reads_max {
                Mark::RefusedFull.hit();
                step.out.answers.push((ticket, Answer::Refused(Refusal::Full)));
            } else if !own_commit {
                self.reads.await_term(ticket, proof);
            } else if proof == Proof::Lease && self.holds_lease(step) {
                Mark::ReadUnderLease.hit();
                let (term, index) = (self.raft.raft.term, self.raft.raft.raft_log.committed);
                self.reads.index(ticket, index, term);
            } else {
                quorum.push(ticket);
            }
        }
        if !quorum.is_empty() {
            let context = self.reads.ask(step.limits.start, quorum);
            self.raft.read_index(context.to_bytes());
            self.settle(step);
        }
        self.answer_reads(step);
    }

    fn holds_lease(&self, step: &Step<'_>) -> bool {
        self.lease.holds(step.now, self.members.len(), step.limits.election_timeout)
    }

    fn answer_reads(&mut self, step: &mut Step<'_>) {
        let before = self.reads.waiting();
        self.reads.answer(self.raft.raft.raft_log.applied, &mut step.out.answers);
        if self.reads.waiting() > 0 && before == self.reads.waiting() {
            Mark::ReadAwaitedApply.hit();
        }
    }

    /// Takes what a quorum has confirmed.
    pub(super) fn take_confirmed(&mut self, confirmed: Vec<raft::ReadState>, step: &mut Step<'_>) {
        for read in confirmed {
            if let Some(context) = ReadContext::from_bytes(&read.request_ctx) {
                self.reads.confirm(context, read.index, self.raft.raft.term);
            }
        }
        self.answer_reads(step);
    }

    /// Notes that the state machine has applied the committed entries up to `index`.
    pub(in super::super) fn applied(&mut self, index: u64, step: &mut Step<'_>) {
        assert!(index <= self.given, "the state machine applied what was not given to it");
        if index <= self.raft.raft.raft_log.applied {
            return;
        }
        self.raft.advance_apply_to(index);
        let answers = &mut step.out.answers;
        let log = self.raft.store();
        self.proposals.answer(index, |index| log.term_at(index), answers);
        self.raft.mut_store().applied(index, &step.limits.shape);
        self.answer_reads(step);
    }

    /// Takes entries that the disk has read. A follower that lacks entries which cannot be read is not stuck:
    /// it would take them.
    pub(in super::super) fn fetched(&mut self, first: u64, entries: &[Entry], step: &mut Step<'_>) {
        if entries.is_empty() && self.leads() {
            let next = |of: &Member| self.raft.raft.prs().get(of.replica.0).map(|at| at.next_idx);
            let waiting: Vec<_> = self.others().filter(|of| next(of) == Some(first)).collect();
            waiting.into_iter().for_each(|of| self.retain.excuse(of.replica, step.now));
        }
        for context in self.raft.mut_store().serve(first, entries) {
            self.raft.on_entries_fetched(context);
        }
        self.raft.mut_store().served();
        self.settle(step);
    }
}
