//! A node: a machine with a disk and a clock, and a process on it with its driver, its log thread and
//! its state machines.

use super::clock::{NodeClock, RIGHT};
use super::disk::{Disk, End};
use super::history::Row;
use super::machine::Machine;
use super::plan::Plan;
use super::server::Request;
use super::{Defect, Event, World};
use base::env::Rng;
use cluster::group::{
    Committed, Driver, Fetch, GroupId, Input, Keep, LeaseChange, Member, NodeId, Options, Output,
    Rejected, ReplicaId, RoleChange, Round, Ticket,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A machine of the cluster.
pub(super) struct Node {
    pub(super) disk: Disk,
    pub(super) clock: NodeClock,
    /// The process, while it lives.
    pub(super) process: Option<Process>,
    /// Number of the last start of a process.
    pub(super) boot: u64,
    /// Until when the process stands still.
    pub(super) still_until: u64,
    /// Most nanoseconds that a sync takes longer than usual.
    pub(super) slow_disk: u64,
    /// Most nanoseconds that a state machine takes longer than usual.
    pub(super) slow_apply: u64,
}

/// A process on a node, while it lives.
pub(super) struct Process {
    pub(super) driver: Driver,
    pub(super) inbox: Vec<Input>,
    /// When the driver steps next; later steps that were planned come to nothing.
    steps_at: u64,
    /// Rounds that are not appended, and the last one that is appended and not synced.
    pub(super) rounds: VecDeque<Round>,
    pub(super) unsynced: Option<u64>,
    pub(super) machines: BTreeMap<GroupId, Machine>,
    /// Number of the last copy of a state machine that this process began with.
    pub(super) generation: u64,
    pub(super) roles: BTreeMap<GroupId, RoleChange>,
    /// Leases of the groups that the node leads, as they were told last.
    pub(super) leases: BTreeMap<GroupId, LeaseChange>,
    pub(super) asked: BTreeMap<Ticket, Request>,
    pub(super) last_ticket: u64,
    /// Requests that want a row, the one that has it first.
    pub(super) locks: BTreeMap<Row, VecDeque<Request>>,
    /// When each node was last heard, unless its loss was told since.
    pub(super) heard: BTreeMap<NodeId, Option<u64>>,
    /// When the driver wants its next tick; None while all its groups sleep.
    pub(super) next_tick: Option<u64>,
    pub(super) seeding: BTreeSet<(GroupId, ReplicaId)>,
}

impl Node {
    pub(super) fn new(plan: &Plan, rng: &mut Rng) -> Self {
        let (bytes, segments_max) = plan.segments;
        Self {
            disk: Disk::new(rng.next_u64(), bytes, segments_max),
            clock: NodeClock::new(1 + rng.below(1 << 40), 0, drift(plan, rng)),
            process: None,
            boot: 0,
            still_until: 0,
            slow_disk: 0,
            slow_apply: 0,
        }
    }

    /// Returns the process of a start, if it lives.
    pub(super) fn process(&mut self, boot: u64) -> Option<&mut Process> {
        if self.boot == boot { self.process.as_mut() } else { None }
    }
}

impl Process {
    /// Forgets what is on its way for a group, but for messages.
    pub(super) fn forget(&mut self, group: GroupId) {
        self.asked.retain(|_, request| request.row.0 != group);
        self.locks.retain(|row, _| row.0 != group);
        self.inbox.retain(|input| match input {
            Input::Propose { group: of, .. }
            | Input::Read { group: of, .. }
            | Input::Transfer { group: of, .. }
            | Input::Applied { group: of, .. }
            | Input::Shorten { group: of, .. }
            | Input::Flushed { group: of, .. }
            | Input::Fetched { group: of, .. } => *of != group,
            Input::Message { .. } | Input::Saved { .. } | Input::Lost { .. } => true,
        });
    }
}

/// Draws the speed of a clock: right, or wrong by less than a tenth.
pub(super) fn drift(plan: &Plan, rng: &mut Rng) -> u64 {
    let drifts = plan.faults.contains(&super::plan::Fault::Drift);
    match rng.below(3) {
        0 if drifts => RIGHT - 99,
        1 if drifts => RIGHT + 99,
        _ => RIGHT - 5 + rng.below(11),
    }
}

/// Returns the replica of a node; its number is not the node's.
pub(super) fn replica(node: NodeId) -> ReplicaId {
    ReplicaId(node.0 + 10)
}

impl World {
    pub(super) fn members(&self) -> Vec<Member> {
        let member = |node: &NodeId| Member { replica: replica(*node), node: *node };
        self.nodes.keys().map(member).collect()
    }

    /// Starts the process of a node from what the disk has.
    pub(super) fn start(&mut self, id: NodeId) {
        let (members, groups) = (self.members(), self.group_ids());
        let mut options = Options::new(id, self.rng.next_u64());
        (options.tick, options.shape) = (self.plan.tick, self.plan.shape);
        options.sleep_ticks = self.plan.sleep_ticks;
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.process.is_some() {
            return;
        }
        node.boot += 1;
        node.still_until = 0;
        let time = node.clock.read(now);
        let mut process = Process {
            driver: Driver::new(&options, time),
            inbox: Vec::new(),
            steps_at: u64::MAX,
            rounds: VecDeque::new(),
            unsynced: None,
            machines: BTreeMap::new(),
            generation: 0,
            roles: BTreeMap::new(),
            leases: BTreeMap::new(),
            asked: BTreeMap::new(),
            last_ticket: 0,
            locks: BTreeMap::new(),
            heard: BTreeMap::new(),
            next_tick: Some(now),
            seeding: BTreeSet::new(),
        };
        let opened = node.disk.open().and_then(|()| {
            for group in groups {
                if node.boot == 1 {
                    node.disk.create(group, replica(id))?;
                }
                let saved = node.disk.saved(group, &members)?;
                process.driver.open(&saved, time).expect("what a driver saved opens again");
                let flushed = node.disk.flushed.get(&group).cloned().unwrap_or_default();
                process.machines.insert(group, Machine::open(flushed, 0));
            }
            Ok(())
        });
        let boot = node.boot;
        node.process = Some(process);
        if let Err(error) = opened {
            return self.fail_start(id, &error);
        }
        self.tell(|| format!("node {} starts", id.0));
        self.after(1, Event::Watch { node: id, boot });
        self.step_soon(id);
        for other in self.others(id) {
            let delay = self.span(100);
            self.after(delay, Event::Connect { one: id, other });
        }
    }

    /// Ends a process that does not come to its start, which an error of the disk alone excuses.
    fn fail_start(&mut self, id: NodeId, error: &engine::Error) {
        if !matches!(error, engine::Error::Io { .. }) {
            self.fail(format!("node {} does not start: {error}", id.0));
        }
        let delay = self.span(2000);
        self.end(id, End::Kill, delay);
    }

    /// Ends the process of a node, or its machine, which starts again after `delay`.
    pub(super) fn end(&mut self, id: NodeId, end: End, delay: u64) {
        let (now, origin) = (self.now, self.span(3000));
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.process.take().is_none() {
            return;
        }
        node.boot += 1;
        node.still_until = 0;
        node.disk.end(end);
        if end == End::PowerLoss {
            let mut fresh = node.clock;
            fresh.restart(now, origin);
            node.clock = fresh;
        }
        self.tell(|| format!("node {} ends: {end:?}", id.0));
        self.part(id, end);
        self.after(delay, Event::Start { node: id });
    }

    /// Gives an input to a process, whose driver steps soon.
    pub(super) fn give(&mut self, id: NodeId, boot: u64, input: Input) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some(process) = node.process(boot) else { return };
        process.inbox.push(input);
        self.step_soon(id);
    }

    pub(super) fn step_soon(&mut self, id: NodeId) {
        let delay = self.span(2);
        self.step_at(id, self.now + delay);
    }

    fn step_at(&mut self, id: NodeId, at: u64) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let boot = node.boot;
        let Some(process) = node.process.as_mut() else { return };
        if at < process.steps_at {
            process.steps_at = at;
            self.at(at, Event::Step { node: id, boot });
        }
    }

    /// Steps the driver, unless another step was planned instead.
    pub(super) fn step(&mut self, id: NodeId, boot: u64) {
        let now = self.now;
        let waits = self.has(Defect::DriverWaitsForApply);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let time = node.clock.read(now);
        let Some(process) = node.process(boot).filter(|process| process.steps_at <= now) else {
            return;
        };
        process.steps_at = u64::MAX;
        if waits && process.machines.values().any(|machine| !machine.todo.is_empty()) {
            return self.step_soon(id);
        }
        let inputs = std::mem::take(&mut process.inbox);
        let out = process.driver.step(time, inputs);
        let next_tick = out.next_tick.map(|tick| node.clock.world_time(tick, now));
        if let Some(process) = node.process.as_mut() {
            process.next_tick = next_tick;
        }
        let more = out.more.then_some(now + 1);
        self.carry_out(id, boot, out);
        if let Some(at) = more.or(next_tick) {
            self.step_at(id, at);
        }
    }

    fn carry_out(&mut self, id: NodeId, boot: u64, out: Output) {
        for role in out.roles {
            self.note_role(id, role);
        }
        if let Some(process) = self.nodes.get_mut(&id).and_then(|node| node.process(boot)) {
            process.leases.extend(out.leases.iter().map(|lease| (lease.group, *lease)));
        }
        for (to, messages) in out.messages {
            messages.into_iter().for_each(|message| self.send(id, to, message));
        }
        if let Some(round) = out.round {
            self.queue_round(id, boot, round);
        }
        for committed in out.committed {
            self.take_committed(id, boot, committed);
        }
        for fetch in out.fetches {
            let delay = self.span(100);
            self.after(delay, Event::Fetch { node: id, boot, fetch });
        }
        for (ticket, answer) in out.answers {
            self.take_answer(id, boot, ticket, answer);
        }
        for wish in out.seeding {
            self.wish_seeding(id, wish);
        }
        for (group, why) in out.rejected {
            if why != Rejected::UnknownGroup {
                self.fail(format!("node {} rejects a message of {group:?}: {why:?}", id.0));
            }
        }
    }

    fn note_role(&mut self, id: NodeId, role: RoleChange) {
        self.tell(|| format!("node {}: {role:?}", id.0));
        if self.calm.get(&role.group).is_some_and(|term| *term != role.term) {
            self.fail(format!("a leader of {:?} lost its office to slow work alone", role.group));
        }
        if let Some(process) = self.nodes.get_mut(&id).and_then(|node| node.process.as_mut()) {
            process.roles.insert(role.group, role);
        }
    }

    // The log thread.

    fn queue_round(&mut self, id: NodeId, boot: u64, round: Round) {
        let delay = self.span(3);
        let Some(process) = self.nodes.get_mut(&id).and_then(|node| node.process(boot)) else {
            return;
        };
        let idle = process.rounds.is_empty() && process.unsynced.is_none();
        process.rounds.push_back(round);
        if idle {
            self.after(delay, Event::Append { node: id, boot });
        }
    }

    /// Appends all rounds that wait. One sync makes them durable later.
    pub(super) fn append(&mut self, id: NodeId, boot: u64) {
        let early = self.has(Defect::SavedBeforeSync);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let slow = node.slow_disk;
        let Some(process) = node.process(boot) else { return };
        let rounds = std::mem::take(&mut process.rounds);
        let Some(last) = rounds.back().map(|round| round.number) else { return };
        process.unsynced = Some(last);
        let appended = rounds.iter().try_for_each(|round| node.disk.append(round));
        let appended = appended.and_then(|()| node.disk.reclaim());
        let Some(crowded) = self.on_disk(id, appended) else { return };
        for group in crowded {
            self.make_room(id, boot, group);
        }
        let delay = self.span(5) + self.rng.below(slow.max(1));
        if early {
            self.give(id, boot, Input::Saved { round: last });
        }
        self.after(delay, Event::Sync { node: id, boot, round: last });
    }

    pub(super) fn sync(&mut self, id: NodeId, boot: u64, round: u64) {
        let early = self.has(Defect::SavedBeforeSync);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.process(boot).is_none() {
            return;
        }
        let synced = node.disk.sync();
        if self.on_disk(id, synced).is_none() {
            return;
        }
        if !early {
            self.give(id, boot, Input::Saved { round });
        }
        let Some(process) = self.nodes.get_mut(&id).and_then(|node| node.process(boot)) else {
            return;
        };
        process.unsynced = None;
        if !process.rounds.is_empty() {
            self.after(1, Event::Append { node: id, boot });
        }
    }

    /// Ends the process after an error of the disk. The log must not refuse what a driver wants.
    fn on_disk<T: Default>(&mut self, id: NodeId, result: engine::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(engine::Error::Io { .. } | engine::Error::WritesStopped(_))
                if self.has(Defect::FailedSyncIgnored) =>
            {
                Some(T::default())
            }
            Err(engine::Error::Io { .. } | engine::Error::WritesStopped(_)) => {
                let delay = self.span(2000);
                self.end(id, End::Kill, delay);
                None
            }
            Err(error) => {
                self.fail(format!("node {}: {error}", id.0));
                None
            }
        }
    }

    /// Flushes a group that keeps old segments of the log, or writes what the log has of it again.
    fn make_room(&mut self, id: NodeId, boot: u64, group: GroupId) {
        let again = self.rng.chance(20);
        // The log lets go of what only replicas lack which are away, or of all that is flushed.
        if self.rng.chance(30) {
            let keep = match self.stuck.is_none() && self.rng.chance(10) {
                true => Keep::Nothing,
                false => Keep::ForLive,
            };
            self.give(id, boot, Input::Shorten { group, keep });
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        // A write for another group may have ended the process.
        if node.process(boot).is_none() {
            return;
        }
        if again {
            let written = node.disk.append_again(group);
            self.on_disk(id, written);
        } else {
            self.begin_flush(id, boot, group);
        }
    }

    pub(super) fn fetch(&mut self, id: NodeId, boot: u64, fetch: &Fetch) {
        let fails = self.rng.chance(5);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.process(boot).is_none() {
            return;
        }
        let fetched = if fails { Ok(Vec::new()) } else { node.disk.fetch(fetch) };
        let Some(entries) = self.on_disk(id, fetched) else { return };
        self.give(id, boot, Input::Fetched { group: fetch.group, first: fetch.first, entries });
    }

    // State machines.

    /// Takes committed entries, after a look whether all replicas agree on them.
    fn take_committed(&mut self, id: NodeId, boot: u64, committed: Committed) {
        let group = committed.group;
        for entry in &committed.entries {
            let key = (group, entry.id.index);
            let new = || (entry.id.term, entry.command.clone());
            let known = self.committed.entry(key).or_insert_with(new);
            if *known != (entry.id.term, entry.command.clone()) {
                let what = format!("node {} commits {:?} of {group:?}", id.0, entry.id);
                let term = known.0;
                return self.fail(format!("{what}, another node one of term {term}"));
            }
        }
        let Some(process) = self.nodes.get_mut(&id).and_then(|node| node.process(boot)) else {
            return;
        };
        let Some(machine) = process.machines.get_mut(&group) else { return };
        machine.todo.extend(committed.entries);
        if !std::mem::replace(&mut machine.applies, true) {
            self.apply_soon(id, boot, group);
        }
    }

    fn apply_soon(&mut self, node: NodeId, boot: u64, group: GroupId) {
        let slow = self.nodes[&node].slow_apply;
        let delay = self.span(3) + self.rng.below(slow.max(1));
        self.after(delay, Event::Apply { node, boot, group });
    }

    pub(super) fn apply(&mut self, id: NodeId, boot: u64, group: GroupId) {
        if self.is_stuck(id) {
            let timeout = self.plan.timeout();
            return self.after(timeout, Event::Apply { node: id, boot, group });
        }
        let count = 1 + self.rng.index(8);
        let flushes = 1 + self.rng.below(2 * self.plan.flush_entries);
        let Some(process) = self.nodes.get_mut(&id).and_then(|node| node.process(boot)) else {
            return;
        };
        let Some(machine) = process.machines.get_mut(&group) else { return };
        let index = match machine.apply(count) {
            Ok(index) => index,
            Err(what) => return self.fail(format!("node {}, {group:?}: {what}", id.0)),
        };
        let flush = index >= machine.flushed + flushes;
        machine.applies = !machine.todo.is_empty();
        if machine.applies {
            self.apply_soon(id, boot, group);
        }
        self.give(id, boot, Input::Applied { group, index });
        if flush {
            self.begin_flush(id, boot, group);
        }
    }

    fn begin_flush(&mut self, id: NodeId, boot: u64, group: GroupId) {
        let early = self.has(Defect::FlushedTooEarly);
        let Some(process) = self.nodes.get_mut(&id).and_then(|node| node.process(boot)) else {
            return;
        };
        let Some(machine) = process.machines.get_mut(&group) else { return };
        if machine.flush.is_some() || machine.now.id.index == machine.flushed {
            return;
        }
        let index = machine.now.id.index;
        machine.flush = Some(machine.now.clone());
        let delay = self.span(300);
        if early {
            self.give(id, boot, Input::Flushed { group, index });
        }
        self.after(delay, Event::Flush { node: id, boot, group });
    }

    pub(super) fn end_flush(&mut self, id: NodeId, boot: u64, group: GroupId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some(process) = node.process(boot) else { return };
        let Some(machine) = process.machines.get_mut(&group) else { return };
        let Some(flush) = machine.flush.take() else { return };
        let index = flush.id.index;
        machine.flushed = index;
        node.disk.flushed.insert(group, flush);
        self.give(id, boot, Input::Flushed { group, index });
    }
}
