//! Clients. Each has one operation under way. Some always ask one node, so that a leader which was
//! deposed unawares is asked too; others go where the leader is said to be.

use super::history::{Kind, Row};
use super::plan::{Fault, Plan};
use super::server::{Reply, Request};
use super::{Event, World};
use base::env::Rng;
use cluster::group::{GroupId, NodeId};
use std::collections::{BTreeMap, VecDeque};

/// Operations on a row, after which another one takes its place.
const ROW_OPERATIONS: u64 = 60;

/// The header of this file describes it.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// The node that the client always asks.
    pinned: Option<NodeId>,
    leaders: BTreeMap<GroupId, NodeId>,
    /// The operation under way, if any.
    operation: Option<(usize, GroupId)>,
    /// Operations that must succeed before the end; None for a client that asks what it likes.
    pub(super) goals: Option<VecDeque<(Row, bool)>>,
}

impl Client {
    pub(super) fn new(plan: &Plan, rng: &mut Rng) -> Self {
        let pinned = rng.chance(50).then(|| NodeId(1 + rng.below(plan.nodes)));
        Self { pinned, ..Self::default() }
    }

    /// Returns a client that asks until it has reached all goals: rows, and if to write to them.
    pub(super) fn with_goals(goals: VecDeque<(Row, bool)>) -> Self {
        Self { goals: Some(goals), ..Self::default() }
    }
}

impl World {
    /// Lets a client ask something, or rest.
    pub(super) fn think(&mut self, number: usize) {
        let timeout = self.plan.timeout();
        let client = &self.clients[number];
        let (row, writes) = match &client.goals {
            Some(goals) => match goals.front() {
                Some(goal) => *goal,
                None => return,
            },
            None if self.healed.is_some_and(|healed| self.now > healed + 10 * timeout) => return,
            None => (self.draw_row(), self.rng.chance(60) && self.now >= self.quiet_until),
        };
        let kind = match writes {
            false => Kind::Read,
            true => {
                self.last_value += 1;
                let swap = self.rng.chance(50);
                if swap { Kind::Swap(self.last_value) } else { Kind::Write(self.last_value) }
            }
        };
        let strays = self.rng.chance(10);
        let client = &self.clients[number];
        let known = client.pinned.or_else(|| client.leaders.get(&row.0).copied());
        let any = NodeId(1 + self.rng.below(self.plan.nodes));
        let node = known.filter(|_| !strays).unwrap_or(any);
        let operation = self.history.ask(row, kind, self.now);
        self.tell(|| {
            format!("client {number} asks node {}: #{operation} {row:?} {kind:?}", node.0)
        });
        self.clients[number].operation = Some((operation, row.0));
        let delay = self.span(10);
        self.after(
            delay,
            Event::Request { node, request: Request { client: number, operation, row, kind } },
        );
        // A leader whose answers are held is asked again and again, to its end.
        let patience = match self.plan.faults.contains(&Fault::HeldAnswers) {
            true => timeout / 8 + self.span(800),
            false => timeout + self.span(3000),
        };
        self.after(patience, Event::Timeout { client: number, operation });
    }

    /// Draws a row. New ones come as time goes by, so that no history of a row gets long.
    fn draw_row(&mut self) -> Row {
        let group = GroupId(1 + self.rng.below(self.plan.groups));
        let round = self.history.asked(group) / (ROW_OPERATIONS * u64::from(self.plan.rows));
        let row = self.rng.below(u64::from(self.plan.rows)) + round * u64::from(self.plan.rows);
        (group, row as u16)
    }

    /// Takes the answer that a client waits for.
    pub(super) fn answer(&mut self, number: usize, operation: usize, reply: Reply) {
        self.tell(|| format!("client {number} is told: #{operation} {reply:?}"));
        let client = &mut self.clients[number];
        let waits = client.operation.filter(|(under_way, _)| *under_way == operation);
        let Some((_, group)) = waits else {
            // Too late for the client; but that nothing was done stays true.
            if let Reply::Refused(_) = reply {
                self.history.refused(operation);
            }
            return;
        };
        client.operation = None;
        match reply {
            Reply::Done(value) => {
                if let Some(goals) = &mut client.goals {
                    goals.pop_front();
                }
                if let Some(value) = value {
                    self.history.see(operation, value);
                }
                self.history.done(operation, self.now);
            }
            Reply::Refused(leader) => {
                match leader {
                    Some(leader) => client.leaders.insert(group, leader),
                    None => client.leaders.remove(&group),
                };
                self.history.refused(operation);
            }
        }
        self.think_later(number);
    }

    /// Lets a client give an operation up, if it still waits for it.
    pub(super) fn give_up(&mut self, number: usize, operation: usize) {
        let client = &mut self.clients[number];
        if let Some((_, group)) = client.operation.filter(|(under_way, _)| *under_way == operation)
        {
            client.operation = None;
            client.leaders.remove(&group);
            self.think_later(number);
        }
    }

    fn think_later(&mut self, client: usize) {
        let timeout = self.plan.timeout();
        let (part, passed) = (self.now / (6 * timeout), self.now % (6 * timeout));
        let rests = self.plan.rests && part % 2 == 1 && self.healed.is_none();
        let delay = if rests { 6 * timeout - passed } else { 0 };
        let delay = delay + self.span(250);
        self.after(delay, Event::Think { client });
    }
}
