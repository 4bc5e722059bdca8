//! Connections between nodes: one of each pair, with an ordered stream each way.
//!
//! 1. What arrives of one stream arrives in the order in which it was sent. Some may be missing.
//! 2. After a break nothing of the old connection arrives once the new one stands.
//! 3. A cut stream loses nothing at once: what was sent waits, and arrives after the cut if the
//!    connection lives that long.

use cluster::group::{Message, NodeId};
use std::collections::{BTreeMap, VecDeque};

/// Messages that wait in a cut stream; later ones are lost.
const HELD_MAX: usize = 4096;

/// One direction of a pair.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Number of the connection; messages of another one are lost.
    pub(super) epoch: u64,
    /// Nothing passes through it at present.
    pub(super) cut: bool,
    /// More time on the way, in nanoseconds.
    pub(super) slow: u64,
    /// When the last message arrives.
    last: u64,
    held: VecDeque<Message>,
}

/// All streams of a world.
#[derive(Debug, Default)]
pub(super) struct Network {
    streams: BTreeMap<(NodeId, NodeId), Stream>,
    connected: BTreeMap<(NodeId, NodeId), bool>,
}

impl Network {
    /// Returns the stream from one node to another.
    pub(super) fn stream(&mut self, from: NodeId, to: NodeId) -> &mut Stream {
        self.streams.entry((from, to)).or_default()
    }

    /// Returns true if the nodes have a connection.
    pub(super) fn connected(&self, one: NodeId, other: NodeId) -> bool {
        self.connected.get(&(one.min(other), one.max(other))).copied().unwrap_or(false)
    }

    fn set_connected(&mut self, one: NodeId, other: NodeId, connected: bool) {
        self.connected.insert((one.min(other), one.max(other)), connected);
    }

    /// Makes a new connection. What is left of the old one is lost.
    pub(super) fn connect(&mut self, one: NodeId, other: NodeId) {
        for (from, to) in [(one, other), (other, one)] {
            self.stream(from, to).lose();
        }
        self.set_connected(one, other, true);
    }

    /// Breaks the connection at once, with all that is on its way.
    pub(super) fn break_off(&mut self, one: NodeId, other: NodeId) {
        self.connect(one, other);
        self.set_connected(one, other, false);
    }

    /// Ends the connection of a node that is gone. What it had sent still arrives.
    pub(super) fn hang_up(&mut self, gone: NodeId, other: NodeId) {
        self.stream(other, gone).lose();
        self.set_connected(gone, other, false);
    }

    /// Sends a message that takes `delay`. Returns when it arrives, if it is on its way.
    pub(super) fn send(
        &mut self,
        (from, to): (NodeId, NodeId),
        message: Message,
        now: u64,
        delay: u64,
    ) -> Option<(u64, u64, Message)> {
        if !self.connected(from, to) {
            return None;
        }
        let stream = self.stream(from, to);
        if stream.cut {
            if stream.held.len() < HELD_MAX {
                stream.held.push_back(message);
            }
            return None;
        }
        Some((stream.arrival(now, delay), stream.epoch, message))
    }

    /// Takes a message that waited in a stream that is no longer cut.
    pub(super) fn release(
        &mut self,
        from: NodeId,
        to: NodeId,
        now: u64,
        delay: u64,
    ) -> Option<(u64, u64, Message)> {
        let stream = self.stream(from, to);
        if stream.cut {
            return None;
        }
        let message = stream.held.pop_front()?;
        Some((stream.arrival(now, delay), stream.epoch, message))
    }
}

impl Stream {
    fn lose(&mut self) {
        self.epoch += 1;
        self.held.clear();
    }

    fn arrival(&mut self, now: u64, delay: u64) -> u64 {
        self.last = (now + delay + self.slow).max(self.last + 1);
        self.last
    }
}
