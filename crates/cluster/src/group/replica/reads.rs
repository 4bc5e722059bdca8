//! Reads on their way: each needs an index up to which the state machine must have applied.
//!
//! 1. A leader that has not committed an entry of its own term does not know what is committed, so
//!    its reads wait for that.
//! 2. Reads that ask a quorum share one context for each step, which is never used again: an answer
//!    to an older one proves nothing.
//! 3. A read that has its index keeps it under any leader: the index was right when the read came.

use super::super::data::Ticket;
use super::super::message::ReadContext;
use super::super::step::{Answer, Proof, Refusal};
use crate::marks::Mark;
use crate::mutants::Mutant;
use std::collections::{BTreeMap, VecDeque};

/// The header of this file describes it.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Reads that wait for an entry of the leader's term.
    awaiting_term: Vec<(Ticket, Proof)>,
    /// Reads that wait for a quorum.
    asked: VecDeque<(ReadContext, Vec<Ticket>)>,
    /// Reads that wait until their index is applied, with the leader's term.
    indexed: BTreeMap<u64, Vec<(Ticket, u64)>>,
    waiting: usize,
    /// Contexts that were used by this replica.
    contexts: u64,
}

impl Reads {
    /// Returns the number of reads on their way.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes a read that waits for an entry of the leader's term.
    pub(super) fn await_term(&mut self, ticket: Ticket, proof: Proof) {
        Mark::ReadAwaitedTerm.hit();
        self.waiting += 1;
        self.awaiting_term.push((ticket, proof));
    }

    /// Returns the reads that may go on, since the leader has committed an entry of its term.
    pub(super) fn take_awaiting_term(&mut self) -> Vec<(Ticket, Proof)> {
        self.waiting -= self.awaiting_term.len();
        std::mem::take(&mut self.awaiting_term)
    }

    /// Takes reads that ask a quorum, and returns their context.
    pub(super) fn ask(&mut self, start: u64, tickets: Vec<Ticket>) -> ReadContext {
        Mark::ReadAskedQuorum.hit();
        self.contexts += u64::from(!Mutant::OneReadContext.planted());
        let context = ReadContext { start, number: self.contexts };
        self.waiting += tickets.len();
        self.asked.push_back((context, tickets));
        context
    }

    /// Notes that a quorum confirmed the reads of `context`, which see at least `index`.
    pub(super) fn confirm(&mut self, context: ReadContext, index: u64, term: u64) {
        while self.asked.front().is_some_and(|(asked, _)| *asked <= context) {
            let Some((_, tickets)) = self.asked.pop_front() else { return };
            self.waiting -= tickets.len();
            tickets.into_iter().for_each(|ticket| self.index(ticket, index, term));
        }
    }

    /// Takes a read that needs the entries up to `index`.
    pub(super) fn index(&mut self, ticket: Ticket, index: u64, term: u64) {
        self.waiting += 1;
        self.indexed.entry(index).or_default().push((ticket, term));
    }

    /// Answers the reads that need no more than `applied`.
    pub(super) fn answer(&mut self, applied: u64, answers: &mut Vec<(Ticket, Answer)>) {
        while let Some(entry) = self.indexed.first_entry() {
            let index = *entry.key();
            if index > applied {
                return;
            }
            let tickets = entry.remove();
            self.waiting -= tickets.len();
            answers.extend(
                tickets
                    .into_iter()
                    .map(|(ticket, term)| (ticket, Answer::Readable { index, term })),
            );
        }
    }

    /// Refuses the reads that have no index: the replica lost its office.
    pub(super) fn refuse(&mut self, refusal: Refusal, answers: &mut Vec<(Ticket, Answer)>) {
        let asked = std::mem::take(&mut self.asked).into_iter().flat_map(|(_, tickets)| tickets);
        let awaiting =
            std::mem::take(&mut self.awaiting_term).into_iter().map(|(ticket, _)| ticket);
        let all: Vec<Ticket> = awaiting.chain(asked).collect();
        if !all.is_empty() {
            Mark::ReadsRefused.hit();
        }
        self.waiting -= all.len();
        answers.extend(all.into_iter().map(|ticket| (ticket, Answer::Refused(refusal))));
    }

    /// Returns all reads on their way: the replica is closed.
    pub(super) fn into_tickets(self) -> impl Iterator<Item = Ticket> {
        let asked = self.asked.into_iter().flat_map(|(_, tickets)| tickets);
        let indexed = self.indexed.into_values().flatten().map(|(ticket, _)| ticket);
        let awaiting = self.awaiting_term.into_iter().map(|(ticket, _)| ticket);
        awaiting.chain(asked).chain(indexed)
    }
}
