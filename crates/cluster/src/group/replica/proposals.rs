//! Proposals on their way. A proposal has a place in the log and a term. When the entry at its place
//! is applied, the terms tell if it is the proposal's: until then the outcome is open under any leader.
//! Terms never fall in a log, so an applied entry also tells that no later place is a proposal's of an
//! earlier term.

use super::super::data::{EntryId, Ticket};
use super::super::step::Answer;
use crate::marks::Mark;
use crate::mutants::Mutant;
use std::collections::BTreeMap;

/// The header of this file describes it.
#[derive(Debug, Default)]
pub(super) struct Proposals {
    /// Tickets by index and term.
    placed: BTreeMap<(u64, u64), Ticket>,
}

impl Proposals {
    /// Returns the number of proposals whose outcome is open.
    pub(super) fn waiting(&self) -> usize {
        self.placed.len()
    }

    /// Notes that a proposal has got its place.
    pub(super) fn place(&mut self, ticket: Ticket, id: EntryId) {
        self.placed.insert((id.index, id.term), ticket);
    }

    /// Answers the proposals with places up to `applied`, and the ones behind it whose place has gone to a
    /// later term. `term_at` tells the terms of the log.
    pub(super) fn answer(
        &mut self,
        applied: u64,
        term_at: impl Fn(u64) -> Option<u64>,
        answers: &mut Vec<(Ticket, Answer)>,
    ) {
        while let Some(entry) = self.placed.first_entry() {
            let (index, term) = *entry.key();
            if index > applied {
                break;
            }
            let ticket = entry.remove();
            let own = term_at(index) == Some(term) || Mutant::ProposalsByIndex.planted();
            let answer = match own {
                true => Answer::Applied { id: EntryId { term, index } },
                false => {
                    Mark::ProposalSuperseded.hit();
                    Answer::Superseded
                }
            };
            answers.push((ticket, answer));
        }
        let Some(now) = term_at(applied) else { return };
        self.placed.retain(|(_, term), ticket| {
            let is_open = *term >= now;
            if !is_open {
                Mark::ProposalSuperseded.hit();
                answers.push((*ticket, Answer::Superseded));
            }
            is_open
        });
    }

    /// Returns all proposals whose outcome is open: the replica is closed.
    pub(super) fn into_tickets(self) -> impl Iterator<Item = Ticket> {
        self.placed.into_values()
    }
}
