//! Messages and connections between the nodes of a world.

use super::disk::End;
use super::plan::Fault;
use super::{Defect, Event, World};
use cluster::group::{Input, Message, NodeId};

impl World {
    fn delay(&mut self) -> u64 {
        match self.rng.below(50) {
            0 => self.span(300),
            _ => self.span(5),
        }
    }

    pub(super) fn send(&mut self, from: NodeId, to: NodeId, message: Message) {
        let lost = self.rng.chance(self.plan.lost) && self.healed.is_none();
        let delay = self.delay();
        if lost {
            return;
        }
        let Some(sent) = self.network.send((from, to), message, self.now, delay) else { return };
        self.put_on_its_way(from, to, sent);
    }

    fn put_on_its_way(
        &mut self,
        from: NodeId,
        to: NodeId,
        (at, epoch, message): (u64, u64, Message),
    ) {
        self.at(at, Event::Arrive { from, to, epoch, message: Box::new(message) });
    }

    pub(super) fn arrive(&mut self, from: NodeId, to: NodeId, epoch: u64, message: Message) {
        if self.network.stream(from, to).epoch != epoch {
            return;
        }
        self.tell(|| format!("{} to {}: {message:?}", from.0, to.0));
        let boot = self.nodes[&to].boot;
        self.hear(to, from);
        self.give(to, boot, Input::Message { from, message });
    }

    fn hear(&mut self, node: NodeId, of: NodeId) {
        let now = self.now;
        if let Some(process) = self.nodes.get_mut(&node).and_then(|node| node.process.as_mut()) {
            process.heard.insert(of, Some(now));
        }
    }

    fn lives(&self, node: NodeId) -> bool {
        self.nodes[&node].process.is_some()
    }

    /// Makes a connection if both nodes live and no stream is cut, or tries again later.
    pub(super) fn connect(&mut self, one: NodeId, other: NodeId) {
        let cut = self.network.stream(one, other).cut || self.network.stream(other, one).cut;
        if self.network.connected(one, other) || !self.lives(one) || !self.lives(other) {
            return;
        }
        if cut || self.nodes[&one].still_until.max(self.nodes[&other].still_until) > self.now {
            let delay = self.span(500);
            return self.after(delay, Event::Connect { one, other });
        }
        self.tell(|| format!("{} and {} are connected", one.0, other.0));
        self.network.connect(one, other);
        self.hear(one, other);
        self.hear(other, one);
    }

    /// Breaks the connection of two nodes. Both notice, and connect again later.
    pub(super) fn break_off(&mut self, one: NodeId, other: NodeId) {
        if !self.network.connected(one, other) {
            return;
        }
        self.tell(|| format!("{} and {} lose their connection", one.0, other.0));
        self.network.break_off(one, other);
        for (node, lost) in [(one, other), (other, one)] {
            self.tell_of_loss(node, lost, 200);
        }
        let delay = self.span(1000);
        self.after(delay, Event::Connect { one, other });
    }

    fn tell_of_loss(&mut self, node: NodeId, lost: NodeId, thousandths: u64) {
        let (boot, delay) = (self.nodes[&node].boot, self.span(thousandths));
        self.after(delay, Event::Lost { node, boot, lost });
    }

    pub(super) fn lose(&mut self, node: NodeId, boot: u64, lost: NodeId) {
        if !self.has(Defect::LossUntold) {
            self.give(node, boot, Input::Lost { node: lost });
        }
    }

    /// Ends the connections of a node whose process ended. A machine without power tells no other.
    pub(super) fn part(&mut self, gone: NodeId, end: End) {
        for other in self.others(gone) {
            if !self.network.connected(gone, other) {
                self.network.hang_up(gone, other);
                continue;
            }
            match end == End::PowerLoss || self.rng.chance(50) {
                true => self.network.hang_up(gone, other),
                false => self.network.break_off(gone, other),
            }
            if end == End::Kill {
                self.tell_of_loss(other, gone, 50);
            }
        }
    }

    /// Looks after the nodes that this one has not heard for an election timeout. Nodes send each other
    /// signs of life, which take no part in the order of messages.
    pub(super) fn watch(&mut self, node: NodeId, boot: u64) {
        let (now, timeout) = (self.now, self.plan.timeout());
        if self.nodes.get_mut(&node).and_then(|node| node.process(boot)).is_none() {
            return;
        }
        for other in self.others(node) {
            let still = self.nodes[&other].still_until > now;
            let cut = self.network.stream(other, node).cut;
            let connected = self.network.connected(node, other);
            if connected && self.lives(other) && !still && !cut {
                self.hear(node, other);
                continue;
            }
            let process = self.nodes.get_mut(&node).and_then(|node| node.process.as_mut());
            let Some(process) = process else { continue };
            let heard = process.heard.entry(other).or_insert(Some(now));
            if heard.is_some_and(|heard| now > heard + timeout) {
                *heard = None;
                self.lose(node, boot, other);
                let breaks = if self.plan.faults.contains(&Fault::HeldAnswers) { 10 } else { 50 };
                if connected && self.rng.chance(breaks) {
                    self.break_off(node, other);
                }
            }
        }
        let delay = self.span(200) + timeout / 10;
        self.after(delay, Event::Watch { node, boot });
    }

    /// Cuts a stream, or lets it pass again what waits in it.
    pub(super) fn set_cut(&mut self, from: NodeId, to: NodeId, cut: bool) {
        self.network.stream(from, to).cut = cut;
        let delay = self.delay();
        while let Some(sent) = self.network.release(from, to, self.now, delay) {
            self.put_on_its_way(from, to, sent);
        }
    }
}
