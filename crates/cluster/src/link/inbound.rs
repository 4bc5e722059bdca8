//! Streams of other nodes, and which of them counts.
//!
//! The lock of a node is held while a frame is given to the receiver, so that a frame of an older
//! stream is either received before the newer stream is admitted, or refused.

use super::greeting::{Greeting, Refusal};
use super::{Book, Local, Receiver};
use crate::group::NodeId;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Streams of all other nodes.
pub(super) struct Inbound {
    us: Local,
    book: Arc<dyn Book>,
    receiver: Arc<dyn Receiver>,
    peers: Mutex<HashMap<NodeId, Arc<Mutex<Peer>>>>,
}

/// The newest stream of one node.
#[derive(Debug, Default)]
struct Peer {
    boot: u64,
    start: u128,
    stream: u64,
    /// True if the stream is there and the node was not reported as lost since it was last heard.
    is_heard: bool,
}

/// A stream that was admitted. It counts until a newer one is. When it is dropped, it broke.
pub(super) struct Admitted {
    inbound: Arc<Inbound>,
    peer: Arc<Mutex<Peer>>,
    from: NodeId,
    boot: u64,
    stream: u64,
}

/// Reason why a frame was not received.
#[derive(Debug)]
pub(super) enum Unreceived {
    /// A newer stream of the node was admitted.
    Replaced,
    /// The receiver cannot use the frame.
    Malformed(String),
}

impl Inbound {
    pub(super) fn new(us: Local, book: Arc<dyn Book>, receiver: Arc<dyn Receiver>) -> Self {
        Self { us, book, receiver, peers: Mutex::default() }
    }

    pub(super) fn receiver(&self) -> &Arc<dyn Receiver> {
        &self.receiver
    }

    fn peer(&self, node: NodeId) -> Arc<Mutex<Peer>> {
        Arc::clone(self.peers.lock().entry(node).or_default())
    }

    /// Checks the greeting of a call.
    pub(super) fn check(&self, greeting: &Greeting) -> Result<(), Refusal> {
        greeting.check(&self.us)?;
        // A node's own lock may be held while a frame of it is received: no other node waits for that.
        let peer = self.peers.lock().get(&greeting.from).cloned();
        match peer {
            Some(peer) => self.check_start(greeting, &peer.lock()),
            None => self.check_start(greeting, &Peer::default()),
        }
    }

    pub(super) fn book(&self) -> &dyn Book {
        &*self.book
    }

    fn check_start(&self, greeting: &Greeting, peer: &Peer) -> Result<(), Refusal> {
        let (node, theirs) = (greeting.from, greeting.boot);
        let registered = self.book.entry(node).map_or((0, 0), |entry| (entry.boot, entry.start));
        greeting.check_start([registered, (peer.boot, peer.start)])?;
        if peer.is_heard && theirs > peer.boot {
            return Err(Refusal::AtWork { node, theirs, heard: peer.boot });
        }
        Ok(())
    }

    /// Admits a stream, from which on older ones of its node count no more.
    pub(super) fn admit(self: &Arc<Self>, greeting: &Greeting) -> Result<Admitted, Refusal> {
        greeting.check(&self.us)?;
        let shared = self.peer(greeting.from);
        let mut peer = shared.lock();
        self.check_start(greeting, &peer)?;
        if greeting.boot == peer.boot && greeting.stream <= peer.stream {
            return Err(Refusal::Stream { node: greeting.from });
        }
        if peer.is_heard || peer.boot != 0 && peer.boot != greeting.boot {
            // The stream before broke, or the node started again: it forgot what it did not save.
            self.receiver.lost(greeting.from);
        }
        let Greeting { boot, start, stream, .. } = *greeting;
        *peer = Peer { boot, start, stream, is_heard: true };
        drop(peer);
        Ok(Admitted {
            inbound: Arc::clone(self),
            peer: shared,
            from: greeting.from,
            boot: greeting.boot,
            stream: greeting.stream,
        })
    }
}

impl Admitted {
    /// Gives a frame to the receiver if this stream still counts. An empty frame is a sign of life.
    pub(super) fn take(&self, frame: Bytes) -> Result<(), Unreceived> {
        let mut peer = self.peer.lock();
        if !self.counts(&peer) {
            return Err(Unreceived::Replaced);
        }
        let receiver = &self.inbound.receiver;
        if !peer.is_heard {
            peer.is_heard = true;
            receiver.heard(self.from);
        }
        if frame.is_empty() {
            return Ok(());
        }
        receiver.receive(self.from, frame).map_err(Unreceived::Malformed)
    }

    /// Reports the node as lost if it was not yet, as nothing is heard of it.
    pub(super) fn lose(&self) {
        let mut peer = self.peer.lock();
        if self.counts(&peer) && peer.is_heard {
            peer.is_heard = false;
            self.inbound.receiver.lost(self.from);
        }
    }

    fn counts(&self, peer: &Peer) -> bool {
        (peer.boot, peer.stream) == (self.boot, self.stream)
    }

    /// Returns the node that opened the stream.
    pub(super) fn from(&self) -> NodeId {
        self.from
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.lose();
    }
}
