//! A cluster in one thread: nodes with real drivers and real group logs on simulated disks, a network,
//! clocks, clients, and everything that befalls them. All of it follows from one seed.
//!
//! The world is a queue of events in the order of its time. Each node runs as its threads would run:
//! a driver that steps when something came, a log thread, state machines, fetches. Each of them takes
//! its time, and none waits for another but as the contract of [`cluster::group`] says.
//!
//! A world lives through a time of faults; then all is healed. It is right if
//! 1. every row's history is linearizable ([`linear`]), with what is read after healing in it, so that
//!    nothing acknowledged is lost;
//! 2. no two replicas ever apply different entries at one index;
//! 3. after healing every group soon serves, its replicas soon are equal, and then fall asleep; when
//!    the leader of a sleeping group is lost, the others soon serve;
//! 4. no leader loses its office to slow disks and slow state machines alone;
//! 5. no log grows for a replica that does not get on ([`stuck`]);
//! 6. no driver panics, and no log refuses what its driver wants written.

mod client;
mod clock;
mod defect;
mod disk;
mod history;
pub mod linear;
mod machine;
mod nemesis;
mod network;
mod node;
mod plan;
mod seeding;
mod server;
mod stuck;
mod verdict;
mod wires;

pub use defect::Defect;

use base::env::Rng;
use bytes::Bytes;
use client::Client;
use cluster::group::{Fetch, GroupId, Message, NodeId, ReplicaId};
use history::History;
use nemesis::Turn;
use network::Network;
use node::Node;
use plan::Plan;
use server::{Reply, Request};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use stuck::Stuck;

/// The sum of a world, for the curious.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Events that happened in it.
    pub events: u64,
    /// Operations that clients had an answer to.
    pub answered: usize,
    /// A number that differs if anything happened in another order or at another time.
    pub digest: u64,
}

/// Lives through the world of `seed`, with a defect if one is planted. An error tells what was wrong.
/// With `tell`, it also tells what happened before.
pub fn live(seed: u64, defect: Option<Defect>, tell: bool) -> Result<Summary, String> {
    let _planted = defect::plant(defect);
    let mut world = World::new(seed, defect, tell);
    match world.run() {
        Ok(()) => Ok(world.summary()),
        Err(what) => {
            let told = world.told.take().unwrap_or_default().join("\n");
            let seconds = world.now as f64 / 1e9;
            Err(format!("{told}\nat {seconds:.6} s: {what}\n{:?}", world.plan))
        }
    }
}

/// Returns true if the world of `seed` may suffer what brings the defect to light.
pub fn suits(seed: u64, defect: Defect) -> bool {
    let mut rng = Rng::new(seed);
    let mut plan = Plan::draw(&mut rng);
    let stuck = stuck::draw(&mut plan, &mut rng);
    defect.suits(&plan, stuck.as_ref())
}

/// One thing that happens. Events of a process carry the number of its start, and come to nothing
/// after its end.
#[derive(Debug)]
enum Event {
    Step { node: NodeId, boot: u64 },
    Append { node: NodeId, boot: u64 },
    Sync { node: NodeId, boot: u64, round: u64 },
    Apply { node: NodeId, boot: u64, group: GroupId },
    Flush { node: NodeId, boot: u64, group: GroupId },
    Fetch { node: NodeId, boot: u64, fetch: Fetch },
    Evaluate { node: NodeId, boot: u64, generation: u64, term: u64, request: Request },
    Watch { node: NodeId, boot: u64 },
    Lost { node: NodeId, boot: u64, lost: NodeId },
    Arrive { from: NodeId, to: NodeId, epoch: u64, message: Box<Message> },
    Connect { one: NodeId, other: NodeId },
    Request { node: NodeId, request: Request },
    Answer { client: usize, operation: usize, reply: Reply },
    Timeout { client: usize, operation: usize },
    Think { client: usize },
    Start { node: NodeId },
    Seed { from: NodeId, group: GroupId, replica: ReplicaId },
    Fault,
    Stick,
    Turn(Turn),
    Heal,
    Verdict,
}

struct Scheduled {
    at: u64,
    number: u64,
    event: Event,
}

impl Scheduled {
    fn key(&self) -> (u64, u64) {
        (self.at, self.number)
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// The header of this file describes it.
struct World {
    rng: Rng,
    plan: Plan,
    defect: Option<Defect>,
    now: u64,
    scheduled: u64,
    events: u64,
    digest: u64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    nodes: BTreeMap<NodeId, Node>,
    network: Network,
    clients: Vec<Client>,
    history: History,
    /// Entries that were committed anywhere, with their terms.
    committed: BTreeMap<(GroupId, u64), (u64, Bytes)>,
    /// Terms that must not change, in a calm world.
    calm: BTreeMap<GroupId, u64>,
    last_value: u64,
    /// A replica that does not get on, in worlds that have one.
    stuck: Option<Stuck>,
    /// Until when clients only read.
    quiet_until: u64,
    /// The time at which all was healed.
    healed: Option<u64>,
    /// A node that was lost for good after all had been well, and when.
    lost: Option<(NodeId, u64)>,
    is_right: bool,
    failure: Option<String>,
    told: Option<Vec<String>>,
}

impl World {
    fn new(seed: u64, defect: Option<Defect>, tell: bool) -> Self {
        let mut rng = Rng::new(seed);
        let mut plan = Plan::draw(&mut rng);
        let stuck = stuck::draw(&mut plan, &mut rng);
        let nodes = (1..=plan.nodes).map(|node| {
            let id = NodeId(node);
            (id, Node::new(&plan, &mut rng))
        });
        let nodes = nodes.collect();
        let clients = (0..plan.clients).map(|_| Client::new(&plan, &mut rng)).collect();
        Self {
            rng,
            plan,
            defect,
            now: 0,
            scheduled: 0,
            events: 0,
            digest: seed,
            queue: BinaryHeap::new(),
            nodes,
            network: Network::default(),
            clients,
            history: History::default(),
            committed: BTreeMap::new(),
            calm: BTreeMap::new(),
            last_value: 0,
            stuck,
            quiet_until: 0,
            healed: None,
            lost: None,
            is_right: false,
            failure: None,
            told: tell.then(Vec::new),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        let timeout = self.plan.timeout();
        for node in self.node_ids() {
            self.at(0, Event::Start { node });
        }
        for client in 0..self.clients.len() {
            self.after(timeout, Event::Think { client });
        }
        self.after(6 * timeout, Event::Fault);
        self.after(6 * timeout, Event::Stick);
        self.after(46 * timeout, Event::Heal);
        while let Some(Reverse(next)) = self.queue.pop() {
            self.now = next.at;
            if let Some(until) = self.stands_still(&next.event) {
                self.at(until, next.event);
                continue;
            }
            self.events += 1;
            self.digest = self.digest.rotate_left(7).wrapping_add(next.at);
            self.happen(next.event);
            if let Some(what) = self.failure.take() {
                return Err(what);
            }
            if self.is_right {
                break;
            }
        }
        self.check_histories()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Step { node, boot } => self.step(node, boot),
            Event::Append { node, boot } => self.append(node, boot),
            Event::Sync { node, boot, round } => self.sync(node, boot, round),
            Event::Apply { node, boot, group } => self.apply(node, boot, group),
            Event::Flush { node, boot, group } => self.end_flush(node, boot, group),
            Event::Fetch { node, boot, fetch } => self.fetch(node, boot, &fetch),
            Event::Evaluate { node, boot, generation, term, request } => {
                self.evaluate(node, boot, generation, term, request);
            }
            Event::Watch { node, boot } => self.watch(node, boot),
            Event::Lost { node, boot, lost } => self.lose(node, boot, lost),
            Event::Arrive { from, to, epoch, message } => self.arrive(from, to, epoch, *message),
            Event::Connect { one, other } => self.connect(one, other),
            Event::Request { node, request } => self.request(node, request),
            Event::Answer { client, operation, reply } => self.answer(client, operation, reply),
            Event::Timeout { client, operation } => self.give_up(client, operation),
            Event::Think { client } => self.think(client),
            Event::Start { node } => self.start(node),
            Event::Seed { from, group, replica } => self.seed(from, group, replica),
            Event::Fault => self.fault(),
            Event::Stick => self.begin_stuck(),
            Event::Turn(turn) => self.turn(turn),
            Event::Heal => self.heal(),
            Event::Verdict => self.judge(),
        }
    }

    /// Returns until when the process that the event concerns stands still, if it does.
    fn stands_still(&self, event: &Event) -> Option<u64> {
        let node = match event {
            Event::Step { node, .. }
            | Event::Append { node, .. }
            | Event::Sync { node, .. }
            | Event::Apply { node, .. }
            | Event::Flush { node, .. }
            | Event::Fetch { node, .. }
            | Event::Evaluate { node, .. }
            | Event::Watch { node, .. }
            | Event::Lost { node, .. }
            | Event::Request { node, .. }
            | Event::Arrive { to: node, .. } => *node,
            _ => return None,
        };
        let until = self.nodes[&node].still_until;
        (until > self.now).then_some(until)
    }

    fn at(&mut self, at: u64, event: Event) {
        self.scheduled += 1;
        self.queue.push(Reverse(Scheduled { at, number: self.scheduled, event }));
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.at(self.now + delay, event);
    }

    /// Draws a time of at least one nanosecond and at most so many election timeouts, in thousandths.
    fn span(&mut self, thousandths: u64) -> u64 {
        1 + self.rng.below(self.plan.timeout() * thousandths / 1000)
    }

    fn node_ids(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    fn others(&self, node: NodeId) -> Vec<NodeId> {
        self.node_ids().into_iter().filter(|other| *other != node).collect()
    }

    fn group_ids(&self) -> Vec<GroupId> {
        (1..=self.plan.groups).map(GroupId).collect()
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    fn fail(&mut self, what: impl Into<String>) {
        self.failure.get_or_insert(what.into());
    }

    /// Tells what happens, if anyone listens.
    fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(told) = &mut self.told {
            told.push(format!("{:>12.6}  {}", self.now as f64 / 1e9, what()));
        }
    }

    fn summary(&self) -> Summary {
        let answered = self.history.answered();
        Summary { events: self.events, answered, digest: self.digest }
    }
}
