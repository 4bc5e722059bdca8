//! The service of a node to clients. It proposes what it read under the term in which it read,
//! and one request at a time has a row, from its read to its outcome.

use super::history::{Kind, Row, Value};
use super::machine::encode;
use super::plan::Fault;
use super::{Event, World};
use cluster::group::{Answer, Input, LeaseChange, NodeId, Proof, Refusal, Ticket};

/// A request of a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) client: usize,
    pub(super) operation: usize,
    pub(super) row: Row,
    pub(super) kind: Kind,
}

/// The answer to a client.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reply {
    /// It is done; a read found this value.
    Done(Option<Value>),
    /// It certainly was not done; a node that may lead.
    Refused(Option<NodeId>),
}

impl World {
    /// Takes a request that has come to a node.
    pub(super) fn request(&mut self, id: NodeId, request: Request) {
        let Some(process) = self.nodes.get_mut(&id).and_then(|node| node.process.as_mut()) else {
            return self.reply(request, Reply::Refused(None));
        };
        if request.kind == Kind::Read {
            return self.begin(id, request);
        }
        let queue = process.locks.entry(request.row).or_default();
        queue.push_back(request);
        if queue.len() == 1 {
            self.begin(id, request);
        }
    }

    /// Begins a request that has its row, if it needs it.
    fn begin(&mut self, id: NodeId, request: Request) {
        match request.kind {
            Kind::Write(value) => self.propose(id, request, value, None),
            Kind::Read | Kind::Swap(_) => {
                let lease = self.rng.chance(self.plan.by_lease);
                if lease && self.rng.chance(50) && self.read_alone(id, request) {
                    return;
                }
                let proof = if lease { Proof::Lease } else { Proof::Quorum };
                let Some((boot, ticket)) = self.ticket(id, request) else { return };
                self.give(id, boot, Input::Read { group: request.row.0, ticket, proof });
            }
        }
    }

    /// Reads without the driver, if the lease that it told allows that. Returns true if it did.
    fn read_alone(&mut self, id: NodeId, request: Request) -> bool {
        let (now, group) = (self.now, request.row.0);
        let Some(node) = self.nodes.get_mut(&id) else { return false };
        let (time, boot) = (node.clock.read(now), node.boot);
        let Some(process) = node.process.as_ref() else { return false };
        let leads = process.roles.get(&group).filter(|role| role.leads).map(|role| role.term);
        let Some(machine) = process.machines.get(&group) else { return false };
        let (applied, generation) = (machine.now.id, machine.generation);
        let lease = process.leases.get(&group).copied();
        let holds = |lease: &LeaseChange| {
            let term = Some(lease.term);
            let all = lease.term == applied.term && lease.committed <= applied.index;
            term == leads && all && lease.end.is_some_and(|end| time < end)
        };
        let Some(LeaseChange { term, .. }) = lease.filter(holds) else { return false };
        self.evaluate_later(id, boot, generation, term, request);
        true
    }

    /// Lets a request be evaluated after a while, by which much may have changed.
    fn evaluate_later(
        &mut self,
        id: NodeId,
        boot: u64,
        generation: u64,
        term: u64,
        request: Request,
    ) {
        let rarely = if self.plan.faults.contains(&Fault::TransferAndBack) { 12 } else { 3 };
        let thousandths = if self.rng.chance(rarely) { 4000 } else { 10 };
        let delay = self.span(thousandths);
        self.after(delay, Event::Evaluate { node: id, boot, generation, term, request });
    }

    fn propose(&mut self, id: NodeId, request: Request, value: Value, term: Option<u64>) {
        let ballast = self.rng.index(1 + self.plan.ballast);
        let Some((boot, ticket)) = self.ticket(id, request) else { return };
        let (group, row) = request.row;
        let command = encode(row, value, ballast);
        self.give(id, boot, Input::Propose { group, ticket, term, command });
    }

    fn ticket(&mut self, id: NodeId, request: Request) -> Option<(u64, Ticket)> {
        let node = self.nodes.get_mut(&id)?;
        let process = node.process.as_mut()?;
        process.last_ticket += 1;
        let ticket = Ticket(process.last_ticket);
        process.asked.insert(ticket, request);
        Some((node.boot, ticket))
    }

    /// Takes an answer of the driver.
    pub(super) fn take_answer(&mut self, id: NodeId, boot: u64, ticket: Ticket, answer: Answer) {
        let Some(process) = self.nodes.get_mut(&id).and_then(|node| node.process(boot)) else {
            return;
        };
        let Some(request) = process.asked.remove(&ticket) else {
            return self.fail(format!("node {} answers {ticket:?} twice: {answer:?}", id.0));
        };
        let Some(machine) = process.machines.get(&request.row.0) else { return };
        let (applied, generation) = (machine.now.id.index, machine.generation);
        match answer {
            Answer::Applied { id: entry } => {
                if entry.index > applied {
                    return self.fail(format!("{entry:?} is answered before it is applied"));
                }
                self.reply(request, Reply::Done(None));
                self.release_row(id, request);
            }
            Answer::Readable { index, term } => {
                if index > applied {
                    return self.fail(format!("a read of {index} is answered at {applied}"));
                }
                self.evaluate_later(id, boot, generation, term, request);
            }
            Answer::Superseded => {
                self.reply(request, Reply::Refused(None));
                self.release_row(id, request);
            }
            Answer::Refused(refusal) => {
                let leader = match refusal {
                    Refusal::NotLeader { leader } => leader.map(|leader| leader.node),
                    _ => Some(id),
                };
                self.reply(request, Reply::Refused(leader));
                self.release_row(id, request);
            }
        }
    }

    /// Reads the row of a request, and answers it or proposes.
    pub(super) fn evaluate(
        &mut self,
        id: NodeId,
        boot: u64,
        generation: u64,
        term: u64,
        request: Request,
    ) {
        let (group, row) = request.row;
        let Some(process) = self.nodes.get_mut(&id).and_then(|node| node.process(boot)) else {
            return;
        };
        let machine = process.machines.get(&group);
        let Some(machine) = machine.filter(|machine| machine.generation == generation) else {
            return;
        };
        let value = machine.now.rows.get(&row).copied().unwrap_or_default();
        match request.kind {
            Kind::Swap(new) => {
                self.history.see(request.operation, value);
                self.propose(id, request, new, Some(term));
            }
            _ => self.reply(request, Reply::Done(Some(value))),
        }
    }

    /// Gives the row of a request to the next one that wants it.
    fn release_row(&mut self, id: NodeId, request: Request) {
        if request.kind == Kind::Read {
            return;
        }
        let Some(process) = self.nodes.get_mut(&id).and_then(|node| node.process.as_mut()) else {
            return;
        };
        let Some(queue) = process.locks.get_mut(&request.row) else { return };
        queue.pop_front();
        match queue.front().copied() {
            Some(next) => self.begin(id, next),
            None => {
                process.locks.remove(&request.row);
            }
        }
    }

    fn reply(&mut self, request: Request, reply: Reply) {
        let Request { client, operation, .. } = request;
        let delay = self.span(10);
        self.after(delay, Event::Answer { client, operation, reply });
    }
}
