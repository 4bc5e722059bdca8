//! Tests of the driver by hand: a few nodes, a network that delivers at once, and disks and state
//! machines that a test can hold back.

mod bad_input;
mod elections;
mod logs;
mod requests;

use super::message::Body;
use super::*;
use crate::shape::Shape;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

const GROUP: GroupId = GroupId(7);
const TICK: u64 = 100_000_000;

fn members(count: u64) -> Vec<Member> {
    (1..=count).map(|id| Member { replica: ReplicaId(id), node: NodeId(id) }).collect()
}

fn options(node: u64, shape: Shape) -> Options {
    let mut options = Options::new(NodeId(node), 1000 + node);
    options.sleep_ticks = 5;
    options.shape = shape;
    options
}

/// The nodes of a test; node `n` has replica `n`.
struct Nodes {
    now: Time,
    shape: Shape,
    drivers: BTreeMap<u64, Driver>,
    sent: VecDeque<(u64, u64, Message)>,
    /// Nodes to which nothing is delivered, and from which nothing comes.
    cut: BTreeSet<u64>,
    /// Nodes whose disk holds rounds back, and those rounds' numbers.
    slow_disk: BTreeSet<u64>,
    unsaved: BTreeMap<u64, u64>,
    /// Nodes whose state machine applies nothing.
    slow_apply: BTreeSet<u64>,
    unapplied: BTreeMap<u64, u64>,
    saved: BTreeMap<u64, SavedReplica>,
    applied: BTreeMap<u64, Vec<Entry>>,
    answers: BTreeMap<Ticket, Answer>,
    roles: BTreeMap<u64, RoleChange>,
    leases: BTreeMap<u64, LeaseChange>,
    fetches: Vec<(u64, Fetch)>,
    seeding: Vec<Seeding>,
    let_go: usize,
    rejected: Vec<Rejected>,
    delivered: usize,
    /// No message arrives that tells what all replicas have.
    loses_held: bool,
}

impl Nodes {
    fn new(count: u64, shape: Shape) -> Self {
        let mut nodes = Self {
            now: Time(TICK),
            shape,
            drivers: BTreeMap::new(),
            sent: VecDeque::new(),
            cut: BTreeSet::new(),
            slow_disk: BTreeSet::new(),
            unsaved: BTreeMap::new(),
            slow_apply: BTreeSet::new(),
            unapplied: BTreeMap::new(),
            saved: BTreeMap::new(),
            applied: BTreeMap::new(),
            answers: BTreeMap::new(),
            roles: BTreeMap::new(),
            leases: BTreeMap::new(),
            fetches: Vec::new(),
            seeding: Vec::new(),
            let_go: 0,
            rejected: Vec::new(),
            delivered: 0,
            loses_held: false,
        };
        for node in 1..=count {
            nodes.saved.insert(node, SavedReplica::new(GROUP, members(count)));
            nodes.start(node);
        }
        nodes
    }

    /// Starts a node from what it has saved.
    fn start(&mut self, node: u64) {
        let mut driver = Driver::new(&options(node, self.shape), self.now);
        driver.open(&self.saved[&node], self.now).expect("a sound replica opens");
        self.drivers.insert(node, driver);
        self.sent.retain(|(from, to, _)| *from != node && *to != node);
        self.unsaved.remove(&node);
        self.unapplied.remove(&node);
    }

    /// Gives inputs to a node, and carries out what comes of it.
    fn step(&mut self, node: u64, inputs: impl IntoIterator<Item = Input>) {
        let mut inputs: Vec<Input> = inputs.into_iter().collect();
        loop {
            let out = self.drivers.get_mut(&node).unwrap().step(self.now, inputs);
            inputs = Vec::new();
            self.leases.extend(out.leases.last().map(|lease| (node, *lease)));
            for (to, messages) in out.messages {
                messages.iter().for_each(|message| self.check_commit(node, message));
                self.sent.extend(messages.into_iter().map(|message| (node, to.0, message)));
            }
            if let Some(round) = out.round {
                self.write(node, &round);
                if self.slow_disk.contains(&node) {
                    self.unsaved.insert(node, round.number);
                } else {
                    inputs.push(Input::Saved { round: round.number });
                }
            }
            for committed in out.committed {
                let index = committed.entries.last().unwrap().id.index;
                self.applied.entry(node).or_default().extend(committed.entries);
                if self.slow_apply.contains(&node) {
                    self.unapplied.insert(node, index);
                } else {
                    inputs.push(Input::Applied { group: GROUP, index });
                }
            }
            self.answers.extend(out.answers);
            self.roles.extend(out.roles.last().map(|role| (node, *role)));
            self.fetches.extend(out.fetches.into_iter().map(|fetch| (node, fetch)));
            self.seeding.extend(out.seeding);
            self.let_go += out.let_go.len();
            self.rejected.extend(out.rejected.into_iter().map(|(_, why)| why));
            if inputs.is_empty() && !out.more {
                return;
            }
        }
    }

    /// Checks that no message tells of a commit that a lease of its sender does not have.
    fn check_commit(&self, node: u64, message: &Message) {
        let Some(lease) = self.leases.get(&node).filter(|lease| lease.end.is_some()) else {
            return;
        };
        if let Body::Append { commit, .. } | Body::Heartbeat { commit, .. } = message.body {
            assert!(commit <= lease.committed, "{message:?} goes before {lease:?}");
        }
    }

    fn write(&mut self, node: u64, round: &Round) {
        let saved = self.saved.get_mut(&node).unwrap();
        for write in &round.writes {
            if let Some(first) = write.entries.first() {
                saved.entries.retain(|entry| entry.id.index < first.id.index);
                saved.entries.extend(write.entries.iter().cloned());
            }
            if let Some(start) = write.start {
                let commit = write.state.unwrap_or(saved.state).commit;
                assert!(start.index <= commit, "a start that the log does not know is committed");
                saved.entries.retain(|entry| entry.id.index > start.index);
                saved.start = start;
            }
            saved.state = write.state.unwrap_or(saved.state);
        }
    }

    /// Delivers messages until none is left.
    fn settle(&mut self) {
        while let Some((from, to, message)) = self.sent.pop_front() {
            let is_lost = self.loses_held && matches!(message.body, Body::Held { .. });
            if !is_lost && !self.cut.contains(&from) && !self.cut.contains(&to) {
                self.delivered += 1;
                self.step(to, [Input::Message { from: NodeId(from), message }]);
            }
        }
    }

    /// Lets some ticks go by.
    fn ticks(&mut self, ticks: usize) {
        for _ in 0..ticks {
            self.now = self.now.after(Duration::from_nanos(TICK));
            let nodes: Vec<u64> = self.drivers.keys().copied().collect();
            nodes.into_iter().for_each(|node| self.step(node, []));
            self.settle();
        }
    }

    /// Lets ticks go by until one node leads, which is returned.
    fn elect(&mut self) -> u64 {
        for _ in 0..100 {
            self.ticks(1);
            if let Some(leader) = self.leader() {
                self.ticks(3);
                return leader;
            }
        }
        panic!("no leader after 100 ticks: {:?}", self.roles);
    }

    fn leader(&self) -> Option<u64> {
        let leads = |(node, role): (&u64, &RoleChange)| {
            (role.leads && !self.cut.contains(node)).then_some(*node)
        };
        self.roles.iter().find_map(leads)
    }

    fn propose(&mut self, node: u64, ticket: u64, term: Option<u64>, command: &'static [u8]) {
        let command = Bytes::from_static(command);
        let ticket = Ticket(ticket);
        self.step(node, [Input::Propose { group: GROUP, ticket, term, command }]);
    }

    fn read(&mut self, node: u64, ticket: u64, proof: Proof) {
        self.step(node, [Input::Read { group: GROUP, ticket: Ticket(ticket), proof }]);
    }

    fn answer(&self, ticket: u64) -> Option<Answer> {
        self.answers.get(&Ticket(ticket)).copied()
    }

    fn is_applied(&self, ticket: u64) -> bool {
        matches!(self.answer(ticket), Some(Answer::Applied { .. }))
    }

    fn commands(&self, node: u64) -> Vec<Bytes> {
        let entries = self.applied.get(&node).into_iter().flatten();
        entries.map(|entry| entry.command.clone()).filter(|command| !command.is_empty()).collect()
    }
}
