//! Faults of a world. They come one after the other, overlap, and end by themselves. They prefer
//! nodes that lead.

use super::clock::RIGHT;
use super::disk::End;
use super::node::{drift, replica};
use super::plan::Fault;
use super::{Defect, Event, World};
use cluster::group::{Body, GroupId, Input, Message, NodeId};

/// A turn that a fault takes later; most end it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Turn {
    Cut(NodeId, NodeId),
    SlowDisk(NodeId),
    SlowApply(NodeId),
    SlowStream(NodeId, NodeId),
    Clock(NodeId, u64),
    /// Nothing of a node reaches the others for so long.
    Mute(NodeId, u64),
    /// The leader of a group is to hand its office to a node.
    HandBack(GroupId, NodeId),
    /// A node restarts, and is cut off from another for so long.
    RestartApart(NodeId, NodeId, u64),
}

impl World {
    /// Lets something befall the world, and then something else later.
    pub(super) fn fault(&mut self) {
        if self.healed.is_some() {
            return;
        }
        if self.plan.is_calm() && self.calm.is_empty() {
            self.expect_calm();
        }
        let faults = self.plan.faults.clone();
        let fault = *self.rng.pick(&faults);
        let groups = self.group_ids();
        let group = *self.rng.pick(&groups);
        let leader = self.leader(group);
        let nodes = self.node_ids();
        let any = *self.rng.pick(&nodes);
        let node = if self.rng.chance(60) { leader.unwrap_or(any) } else { any };
        self.tell(|| format!("{fault:?} befalls node {}", node.0));
        self.befall(fault, node, group, leader);
        // Answers are held until another one leads, which other faults would hinder.
        let undisturbed = if fault == Fault::HeldAnswers { 2 * self.plan.timeout() } else { 0 };
        let pause = undisturbed + self.span(2200);
        self.after(pause, Event::Fault);
    }

    /// Expects that the leaders of now stay, if every group has one.
    fn expect_calm(&mut self) {
        let mut terms = std::collections::BTreeMap::new();
        for node in self.nodes.values() {
            for role in node.process.iter().flat_map(|process| process.roles.values()) {
                let known = *terms.entry(role.group).or_insert(role.term);
                if known != role.term || role.leader.is_none() {
                    return;
                }
            }
        }
        self.calm = terms;
    }

    pub(super) fn leader(&self, group: GroupId) -> Option<NodeId> {
        let leads = |process: &super::node::Process| {
            process.roles.get(&group).filter(|role| role.leads).map(|role| role.term)
        };
        let terms =
            self.nodes.iter().map(|(id, node)| (node.process.as_ref().and_then(leads), *id));
        terms.filter(|(term, _)| term.is_some()).max().map(|(_, id)| id)
    }

    fn befall(&mut self, fault: Fault, node: NodeId, group: GroupId, leader: Option<NodeId>) {
        let others = self.others(node);
        let other = *self.rng.pick(&others);
        let span = self.span(3500);
        match fault {
            Fault::Isolate => self.isolate(node, span),
            Fault::OneWay => {
                let (from, to) = if self.rng.chance(50) { (node, other) } else { (other, node) };
                self.cut(from, to, span);
            }
            Fault::HalfDeaf => {
                let hears = self.rng.chance(50);
                for other in others {
                    let (from, to) = if hears { (node, other) } else { (other, node) };
                    self.cut(from, to, span);
                }
            }
            Fault::Pause => self.pause(node, span),
            Fault::Kill => {
                let delay = self.outage();
                self.end(node, End::Kill, delay);
            }
            Fault::PowerLoss => {
                let delay = self.outage();
                self.end(node, End::PowerLoss, delay);
            }
            Fault::SlowDisk => {
                let slow = self.span(1500);
                self.with_node(node, |node| node.slow_disk = slow);
                self.after(span, Event::Turn(Turn::SlowDisk(node)));
            }
            Fault::FailedSync => self.with_node(node, |node| node.disk.fail_sync()),
            Fault::Transfer => {
                self.hand_over(group, leader);
            }
            Fault::SlowApply => {
                let slow = self.span(1500);
                self.with_node(node, |node| node.slow_apply = slow);
                self.after(span, Event::Turn(Turn::SlowApply(node)));
            }
            Fault::Break => self.break_off(node, other),
            Fault::SlowStream => {
                let slow = self.span(1200);
                self.network.stream(node, other).slow = slow;
                self.after(span, Event::Turn(Turn::SlowStream(node, other)));
            }
            Fault::Drift => {
                let speed = drift(&self.plan, &mut self.rng);
                let now = self.now;
                self.with_node(node, |node| node.clock.set_speed(now, speed));
                self.step_soon(node);
            }
            Fault::WildClock => self.wild_clock(node, span),
            Fault::RestartUnderLease => self.restart_under_lease(leader.unwrap_or(node)),
            Fault::TransferAndBack => {
                if let Some((leader, _)) = self.hand_over(group, leader) {
                    let wait = self.plan.timeout() / 4 + self.span(1000);
                    self.after(wait, Event::Turn(Turn::HandBack(group, leader)));
                }
            }
            Fault::SlowLeader => self.slow_leader(leader.unwrap_or(node)),
            Fault::HeldAnswers => self.hold_answers(leader.unwrap_or(node)),
            Fault::TransferThenCut => {
                if let Some((leader, heir)) = self.hand_over(group, leader) {
                    self.cut_off_but_for(leader, heir);
                }
            }
        }
    }

    /// Draws how long a process is away: often so short that no timeout ends.
    fn outage(&mut self) -> u64 {
        let thousandths = *self.rng.pick(&[20, 20, 500, 3000]);
        self.span(thousandths)
    }

    fn with_node(&mut self, id: NodeId, then: impl FnOnce(&mut super::Node)) {
        if let Some(node) = self.nodes.get_mut(&id) {
            then(node);
        }
    }

    fn cut(&mut self, from: NodeId, to: NodeId, span: u64) {
        self.set_cut(from, to, true);
        self.after(span, Event::Turn(Turn::Cut(from, to)));
    }

    fn isolate(&mut self, node: NodeId, span: u64) {
        for other in self.others(node) {
            self.cut(node, other, span);
            self.cut(other, node, span);
        }
    }

    fn pause(&mut self, node: NodeId, span: u64) {
        let now = self.now;
        let stands = self.has(Defect::ClockStandsStill);
        self.with_node(node, |node| {
            node.still_until = now + span;
            if stands {
                node.clock.jump(now, -(span as i64));
            }
        });
    }

    fn wild_clock(&mut self, node: NodeId, span: u64) {
        let now = self.now;
        let jump = self.span(3000) as i64 * if self.rng.chance(30) { -1 } else { 1 };
        let before = drift(&self.plan, &mut self.rng);
        let speed = *self.rng.pick(&[0, 300, 3000]);
        if self.rng.chance(50) {
            self.with_node(node, |node| node.clock.jump(now, jump));
            return self.step_soon(node);
        }
        self.with_node(node, |node| node.clock.set_speed(now, speed));
        self.after(span, Event::Turn(Turn::Clock(node, before)));
    }

    /// Asks a leader to hand over. Returns it, and the node that is to lead.
    fn hand_over(&mut self, group: GroupId, leader: Option<NodeId>) -> Option<(NodeId, NodeId)> {
        let leader = leader?;
        let others = self.others(leader);
        let heir = *self.rng.pick(&others);
        let boot = self.nodes[&leader].boot;
        if self.has(Defect::HandoverUnasked) {
            let process = self.nodes[&leader].process.as_ref()?;
            let term = process.roles.get(&group).map_or(0, |role| role.term);
            let (from, to, body) = (replica(leader), replica(heir), Body::TimeoutNow);
            self.send(leader, heir, Message { group, from, to, term, body });
        } else {
            self.give(leader, boot, Input::Transfer { group, to: replica(heir) });
        }
        Some((leader, heir))
    }

    /// Cuts a leader off from all, but for messages to its heir.
    fn cut_off_but_for(&mut self, leader: NodeId, heir: NodeId) {
        let span = self.span(3000);
        for other in self.others(leader) {
            self.cut(other, leader, span);
            if other != heir {
                self.cut(leader, other, span);
            }
        }
    }

    /// Lets one follower hear nothing of the leader until its patience ends; then all others restart
    /// and the leader is cut off. Clients only read meanwhile, or the follower's log would be too old
    /// for the votes of the others.
    fn restart_under_lease(&mut self, leader: NodeId) {
        let others = self.others(leader);
        let deaf = *self.rng.pick(&others);
        let wait = self.plan.timeout() + self.span(1500);
        let span = self.span(2500) + self.plan.timeout();
        self.quiet_until = self.now + wait;
        self.cut(leader, deaf, wait + span);
        self.cut(deaf, leader, wait + span);
        for other in others.into_iter().filter(|other| *other != deaf) {
            self.after(wait, Event::Turn(Turn::RestartApart(other, leader, span)));
        }
    }

    /// Cuts a leader off while its clock is slow and the clocks of the others are fast.
    fn slow_leader(&mut self, leader: NodeId) {
        let (now, span) = (self.now, 3 * self.plan.timeout() + self.span(500));
        for id in self.node_ids() {
            let speed = if id == leader { RIGHT - 99 } else { RIGHT + 99 };
            self.with_node(id, |node| node.clock.set_speed(now, speed));
            self.step_soon(id);
            self.after(span, Event::Turn(Turn::Clock(id, RIGHT)));
        }
        self.isolate(leader, span);
    }

    /// Lets the answers to a leader wait in their streams until another one may lead.
    fn hold_answers(&mut self, leader: NodeId) {
        let timeout = self.plan.timeout();
        let (release, mute) = (timeout * 5 / 4 + self.span(600), self.span(150));
        for other in self.others(leader) {
            self.cut(other, leader, release);
        }
        self.after(mute, Event::Turn(Turn::Mute(leader, 3 * timeout)));
    }

    /// Lets a fault take its turn.
    pub(super) fn turn(&mut self, turn: Turn) {
        let now = self.now;
        match turn {
            Turn::Cut(from, to) => self.set_cut(from, to, false),
            Turn::SlowDisk(id) => self.with_node(id, |node| node.slow_disk = 0),
            Turn::SlowApply(id) => self.with_node(id, |node| node.slow_apply = 0),
            Turn::SlowStream(from, to) => self.network.stream(from, to).slow = 0,
            Turn::Clock(id, speed) => {
                self.with_node(id, |node| node.clock.set_speed(now, speed));
                self.step_soon(id);
            }
            Turn::Mute(node, span) => {
                if self.healed.is_none() {
                    self.others(node).into_iter().for_each(|other| self.cut(node, other, span));
                }
            }
            Turn::HandBack(group, to) => {
                let Some(leader) = self.leader(group).filter(|leader| *leader != to) else {
                    return;
                };
                let boot = self.nodes[&leader].boot;
                self.give(leader, boot, Input::Transfer { group, to: replica(to) });
            }
            Turn::RestartApart(node, from, span) => {
                if self.healed.is_some() {
                    return;
                }
                let delay = self.span(20);
                self.end(node, End::Kill, delay);
                self.cut(node, from, span);
                self.cut(from, node, span);
            }
        }
    }
}
