//! Connections between the nodes of a cluster: one ordered stream of frames in each direction of a
//! pair of nodes, and calls beside it. docs/format/node_link.md has the bytes.
//!
//! A node opens a stream to each node that it sends to ([`Link`]), and serves the streams and calls of
//! others ([`serve`]). Frames are opaque here; an empty frame is a sign of life.
//!
//! 1. Frames of a stream arrive in the order in which they were sent. Some may be lost at the end of
//!    a stream, and where a queue was full.
//! 2. Nothing of an older stream arrives after something of a newer one: a stream says by its
//!    **greeting** which start of the node it is of, and how many streams the start opened before. The
//!    receiver takes frames of the newest stream only, and decides so under a lock of the node.
//! 3. A greeting of another cluster, for another node, of an unknown version or of an earlier start is
//!    refused with the reason. Calls carry greetings too. While a start of a node is heard, every other
//!    start of it is refused: it may be one of a copy. With TLS the certificate of the sender must be
//!    valid for the host at which the directory has the node ([`certificate`]).
//! 4. [`Receiver::lost`] is called when a stream breaks, after a silence, and before the first frame of
//!    a later start.
//! 5. Memory is bounded: frames by [`FRAME_BYTES_MAX`], what waits for a node by
//!    [`LinkOptions::queue_bytes_max`]. A queue that is full drops the newest frame.
//! 6. What cannot be read ends its connection and nothing else.

mod book;
mod calls;
mod certificate;
mod codec;
mod greeting;
mod handshakes;
mod inbound;
mod queue;
mod reach;
mod sender;
mod server;

pub use book::{Book, NodeEntry};
pub use calls::{Answers, CallError, CallKind, finish};
pub use greeting::{Greeting, fuzz as fuzz_greeting};
pub use sender::{Link, PeerState};
pub use server::serve;

use crate::dial::Pings;
use crate::group::NodeId;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use engine::ClusterId;
use rustls::{ClientConfig, ServerConfig};
use std::sync::Arc;
use std::time::Duration;

/// Largest frame, and largest message of a call.
pub const FRAME_BYTES_MAX: usize = 96 << 20;

/// The node that uses links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local {
    /// Cluster that the node belongs to.
    pub cluster: ClusterId,
    /// Id of the node in the cluster.
    pub node: NodeId,
    /// Number of this start of the node.
    pub boot: u64,
    /// Random number of this start, which tells it from the start of a copy.
    pub start: u128,
}

impl Local {
    /// Returns the greeting of a stream of this number, or with 0 of a call.
    fn greeting(&self, to: NodeId, stream: u64) -> Greeting {
        let Self { cluster, node, boot, start } = *self;
        Greeting { cluster, from: node, to, boot, start, stream }
    }
}

/// TLS of the links of a node, with the certificates of nodes. A certificate makes its holder the nodes
/// at the hosts that it is valid for.
///
/// New connections use the configurations that were stored last; open ones keep theirs.
#[derive(Debug, Clone)]
pub struct LinkTls {
    /// Configuration for connections of other nodes, with HTTP/2. It must demand a certificate.
    pub server: Arc<ArcSwap<ServerConfig>>,
    /// Configuration for connections to other nodes, with HTTP/2.
    pub client: Arc<ArcSwap<ClientConfig>>,
}

/// Times and bounds of links.
#[derive(Debug, Clone)]
pub struct LinkOptions {
    /// TLS in both directions; `None` for plain connections.
    pub tls: Option<LinkTls>,
    /// Pause after which an idle stream gets a sign of life. Well below `silence_max`.
    pub beat: Duration,
    /// Silence of a node after which it counts as lost. About an election timeout.
    pub silence_max: Duration,
    /// Bytes of frames that wait for one node.
    pub queue_bytes_max: usize,
    /// Longest time for the handshake of a connection that another node makes.
    pub handshake_max: Duration,
}

impl LinkOptions {
    /// Returns when a connection is asked for a sign of life, in both directions. It is later than a
    /// silence, which tells more: that the other node works.
    fn pings(&self) -> Pings {
        Pings { after: self.silence_max * 2, bound: self.silence_max * 3, idle: true }
    }
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            tls: None,
            beat: Duration::from_millis(200),
            silence_max: Duration::from_secs(1),
            queue_bytes_max: 128 << 20,
            handshake_max: Duration::from_secs(5),
        }
    }
}

/// Takes the frames and answers the calls of other nodes.
#[async_trait]
pub trait Receiver: Send + Sync + 'static {
    /// Takes a frame of the stream from `from`. Must not wait. An error says what is wrong with the
    /// frame and ends the stream.
    fn receive(&self, from: NodeId, frame: Bytes) -> Result<(), String>;

    /// The stream from or to `node` broke, or the node was silent for too long. Must not wait.
    fn lost(&self, node: NodeId);

    /// A node that was lost by its silence is heard again. Must not wait.
    fn heard(&self, node: NodeId);

    /// Answers a call of another node.
    async fn call(
        &self,
        from: NodeId,
        kind: CallKind,
        request: Bytes,
    ) -> Result<Answers, CallError>;
}
