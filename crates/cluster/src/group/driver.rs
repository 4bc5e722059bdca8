//! The driver of all groups of a node.
//!
//! 1. A group is touched only if something happened to it, or if it is awake and a tick is due. So a
//!    thousand sleeping groups cost nothing.
//! 2. Each step ends with at most one round, of the writes of all groups that were touched.

use super::data::{GroupId, NodeId, OpenError, SavedReplica, Ticket, Time};
use super::replica::{Collected, Limits, Replica, Step};
use super::report::GroupReport;
use super::rounds::Rounds;
use super::step::{Answer, Input, Output, Refusal, Rejected, Write};
use crate::shape::Shape;
use base::env::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The values of a driver that do not change.
#[derive(Debug, Clone)]
pub struct Options {
    /// The node that the driver runs on.
    pub node: NodeId,
    /// Time between two ticks. All other times are counted in ticks.
    pub tick: Duration,
    /// Ticks without a leader after which a follower stands for election, at the earliest; twice as
    /// many at the latest. At least 10 times `heartbeat_ticks` bears a network that is slow for once.
    pub election_ticks: usize,
    /// Ticks between two heartbeats of a leader.
    pub heartbeat_ticks: usize,
    /// Ticks in which nothing happens, after which a group falls asleep.
    pub sleep_ticks: usize,
    /// A random number that no other start of any node has.
    pub seed: u64,
    /// Internal limits, for tests to change.
    pub shape: Shape,
}

impl Options {
    /// Returns the options of a node, with an election timeout of one second.
    pub fn new(node: NodeId, seed: u64) -> Self {
        Self {
            node,
            tick: Duration::from_millis(100),
            election_ticks: 10,
            heartbeat_ticks: 2,
            sleep_ticks: 50,
            seed,
            shape: Shape::DEFAULT,
        }
    }

    /// Checks every value; the text names what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let tick = Duration::from_micros(1)..=Duration::from_secs(60);
        if !tick.contains(&self.tick) {
            return Err(format!("a tick must take 1 µs to 60 s, not {:?}", self.tick));
        }
        let (election, heartbeat) = (self.election_ticks, self.heartbeat_ticks);
        if heartbeat == 0 || election <= heartbeat || election > 10_000 {
            return Err(format!(
                "ticks of an election ({election}) must be more than those of a heartbeat \
                 ({heartbeat}), which are at least 1, and at most 10000"
            ));
        }
        self.shape.check()
    }
}

/// See the file header, and [`super`] for what the caller owes.
pub struct Driver {
    node: NodeId,
    tick: Duration,
    limits: Limits,
    rng: Rng,
    now: Time,
    next_tick: Time,
    replicas: BTreeMap<GroupId, Replica>,
    /// Groups that something happened to.
    touched: BTreeSet<GroupId>,
    /// Groups that need a call at each tick.
    awake: BTreeSet<GroupId>,
    rounds: Rounds,
    /// Bytes of entries that all replicas hold and have not applied.
    held: u64,
}

impl Driver {
    /// Returns a driver without groups.
    ///
    /// # Panics
    ///
    /// Panics if [`Options::check`] finds something.
    pub fn new(options: &Options, now: Time) -> Self {
        if let Err(wrong) = options.check() {
            panic!("{wrong}");
        }
        let mut rng = Rng::new(options.seed);
        let ticks = u32::try_from(options.election_ticks).unwrap_or(u32::MAX);
        let limits = Limits {
            election_ticks: options.election_ticks,
            heartbeat_ticks: options.heartbeat_ticks,
            sleep_ticks: options.sleep_ticks,
            election_timeout: options.tick * ticks,
            shape: options.shape,
            start: rng.next_u64(),
        };
        Self {
            node: options.node,
            tick: options.tick,
            limits,
            rng,
            now,
            next_tick: now.after(options.tick),
            replicas: BTreeMap::new(),
            touched: BTreeSet::new(),
            awake: BTreeSet::new(),
            rounds: Rounds::default(),
            held: 0,
        }
    }

    /// Opens a replica of this node. A replica with a history gives no vote for one election timeout.
    ///
    /// # Errors
    ///
    /// Nothing was opened. [`OpenError::LogLost`] and [`OpenError::FlushLost`] mean that the disk no
    /// longer has what it had: the replica must be replaced.
    pub fn open(&mut self, saved: &SavedReplica, now: Time) -> Result<(), OpenError> {
        if self.replicas.contains_key(&saved.group) {
            return Err(OpenError::Open);
        }
        self.now = self.now.max(now);
        let rng = self.rng.fork();
        let replica = Replica::open(saved, self.node, &self.limits, rng, self.now)?;
        self.replicas.insert(saved.group, replica);
        self.touched.insert(saved.group);
        self.awake.insert(saved.group);
        Ok(())
    }

    /// Closes a replica, and returns the requests that will have no answer. Log writes on their way
    /// may still reach the disk.
    pub fn close(&mut self, group: GroupId) -> Vec<Ticket> {
        self.touched.remove(&group);
        self.awake.remove(&group);
        self.rounds.forget(group);
        let Some(replica) = self.replicas.remove(&group) else { return Vec::new() };
        self.held = self.held.saturating_sub(replica.held());
        replica.into_tickets()
    }

    /// Returns the condition of all groups.
    pub fn report(&self) -> Vec<GroupReport> {
        self.replicas.values().map(Replica::report).collect()
    }

    /// Does everything that follows from `inputs` at the time `now`.
    pub fn step(&mut self, now: Time, inputs: impl IntoIterator<Item = Input>) -> Output {
        self.now = self.now.max(now);
        let mut out = Output::default();
        for input in inputs {
            self.take(input, &mut out);
        }
        self.tick(&mut out);
        self.collect(&mut out);
        out.more = !self.touched.is_empty();
        out.next_tick = (!self.awake.is_empty()).then_some(self.next_tick);
        out
    }

    fn take(&mut self, input: Input, out: &mut Output) {
        match input {
            Input::Saved { round } => self.saved(round, out),
            Input::Lost { node } => {
                let mut step =
                    Step { now: self.now, limits: &self.limits, held: &mut self.held, out };
                for (group, replica) in &mut self.replicas {
                    replica.lost(node, &mut step);
                    self.touched.insert(*group);
                }
            }
            Input::Message { from, message } => {
                let group = message.group;
                let taken = match self.touch(group, out) {
                    Some((replica, mut step)) => replica.message(from, message, &mut step),
                    None => Err(Rejected::UnknownGroup),
                };
                out.rejected.extend(taken.err().map(|why| (group, why)));
            }
            Input::Propose { group, ticket, term, command } => match self.touch(group, out) {
                Some((replica, _)) => replica.propose(ticket, term, command),
                None => out.answers.push((ticket, Answer::Refused(Refusal::UnknownGroup))),
            },
            Input::Read { group, ticket, proof } => match self.touch(group, out) {
                Some((replica, _)) => replica.read(ticket, proof),
                None => out.answers.push((ticket, Answer::Refused(Refusal::UnknownGroup))),
            },
            Input::Transfer { group, to } => {
                self.with(group, out, |replica, step| replica.transfer(to, step));
            }
            Input::Applied { group, index } => {
                self.with(group, out, |replica, step| replica.applied(index, step));
            }
            Input::Flushed { group, index } => {
                self.with(group, out, |replica, step| replica.flushed(index, step));
            }
            Input::Shorten { group, keep } => {
                self.with(group, out, |replica, step| replica.shorten(keep, step));
            }
            Input::Fetched { group, first, entries } => {
                self.with(group, out, |replica, step| replica.fetched(first, &entries, step));
            }
        }
    }

    fn touch<'a>(
        &'a mut self,
        group: GroupId,
        out: &'a mut Output,
    ) -> Option<(&'a mut Replica, Step<'a>)> {
        let replica = self.replicas.get_mut(&group)?;
        self.touched.insert(group);
        Some((replica, Step { now: self.now, limits: &self.limits, held: &mut self.held, out }))
    }

    /// Calls `then` with the replica of a group, if it is open.
    fn with(
        &mut self,
        group: GroupId,
        out: &mut Output,
        then: impl FnOnce(&mut Replica, &mut Step<'_>),
    ) {
        if let Some((replica, mut step)) = self.touch(group, out) {
            then(replica, &mut step);
        }
    }

    fn saved(&mut self, round: u64, out: &mut Output) {
        for (group, part) in self.rounds.saved(round) {
            self.with(group, out, |replica, step| replica.saved(part.ready, part.state, step));
            for (to, message) in part.held {
                out.messages.entry(to.node).or_default().push(message);
            }
        }
    }

    /// Counts a tick if one is due. Ticks that were missed are not made up for: a node that stood
    /// still must hear from others before it doubts them.
    fn tick(&mut self, out: &mut Output) {
        if self.now < self.next_tick {
            return;
        }
        let on_time = self.next_tick.after(self.tick);
        self.next_tick = if on_time > self.now { on_time } else { self.now.after(self.tick) };
        let mut step = Step { now: self.now, limits: &self.limits, held: &mut self.held, out };
        for group in &self.awake {
            if let Some(replica) = self.replicas.get_mut(group) {
                replica.tick(&mut step);
                self.touched.insert(*group);
            }
        }
    }

    /// Collects what the touched groups want done.
    fn collect(&mut self, out: &mut Output) {
        let mut parts: Vec<(Collected, Write)> = Vec::new();
        for group in std::mem::take(&mut self.touched) {
            let Some(replica) = self.replicas.get_mut(&group) else { continue };
            let mut step = Step { now: self.now, limits: &self.limits, held: &mut self.held, out };
            if let Some(mut collected) = replica.collect(&mut step) {
                match collected.write.take() {
                    Some(write) => parts.push((collected, write)),
                    None => {
                        if let Some(free) = self.rounds.attach(group, collected) {
                            replica.saved(free.ready, None, &mut step);
                            for (to, message) in free.held {
                                out.messages.entry(to.node).or_default().push(message);
                            }
                        }
                    }
                }
            }
            if replica.has_more() {
                self.touched.insert(group);
            }
            match replica.rests() {
                true => self.awake.remove(&group),
                false => self.awake.insert(group),
            };
        }
        out.round = self.rounds.begin(parts);
    }
}
