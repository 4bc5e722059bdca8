//! Streams to other nodes. Each has a task that connects, sends, and connects again.
//!
//! 1. The frames of a stream end with the attempt of its task, for whatever reason it ends. The
//!    connection below would go on sending signs of life by itself otherwise.

use super::calls::CallChannel;
use super::codec::AsBytes;
use super::queue::Queue;
use super::{Book, FRAME_BYTES_MAX, LinkOptions, Local, Receiver, server};
use crate::dial::{Dialed, endpoint, told};
use crate::group::NodeId;
use bytes::Bytes;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};

/// Pauses before a stream is opened again: the first one, and the longest.
const AGAIN_FIRST: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(2);
/// Longest wait until a stream is admitted.
const ADMITTED_MAX: Duration = Duration::from_secs(5);

/// Condition of the stream to another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerState {
    /// The stream is being opened for the first time.
    Opening,
    /// The stream is open now.
    Open,
    /// The stream broke or was refused; the text says why. It will be opened again.
    Broken(String),
}

/// Streams and calls to the other nodes, until the last clone is dropped.
#[derive(Clone)]
pub struct Link {
    pub(super) context: Arc<Context>,
    peers: Arc<Mutex<HashMap<NodeId, Peer>>>,
    /// Connections for calls, apart from the connections of streams.
    pub(super) channels: Arc<Mutex<HashMap<NodeId, CallChannel>>>,
    runtime: Handle,
}

/// State that all streams share.
pub(super) struct Context {
    pub(super) us: Local,
    pub(super) options: LinkOptions,
    pub(super) book: Arc<dyn Book>,
    receiver: Arc<dyn Receiver>,
    /// Streams that this start has opened, to all nodes. A number orders the streams to one node.
    streams: AtomicU64,
}

/// The stream to one node.
struct Peer {
    queue: Arc<Queue>,
    state: watch::Receiver<PeerState>,
    task: JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link {
    /// Returns links whose tasks run in the runtime of the caller. `receiver` is told of streams that
    /// break.
    pub fn new(
        us: Local,
        options: LinkOptions,
        book: Arc<dyn Book>,
        receiver: Arc<dyn Receiver>,
    ) -> Self {
        let context = Context { us, options, book, receiver, streams: AtomicU64::new(0) };
        Self {
            context: Arc::new(context),
            peers: Arc::default(),
            channels: Arc::default(),
            runtime: Handle::current(),
        }
    }

    /// Sends a frame to a node, behind all that were sent to it before. Does not wait. The frame is lost
    /// if the node cannot be reached, or too much waits for it.
    pub fn send(&self, to: NodeId, frame: Bytes) {
        if frame.len() > FRAME_BYTES_MAX {
            let bytes = frame.len();
            tracing::error!(
                node = to.0,
                bytes,
                "dropped a frame of more than {FRAME_BYTES_MAX} bytes"
            );
            return;
        }
        self.with_peer(to, |peer| peer.queue.push(frame));
    }

    /// Opens a stream to a node if it is not open, so that the node hears signs of life of this one.
    /// Returns the condition of the stream, and news of it.
    pub fn keep(&self, to: NodeId) -> watch::Receiver<PeerState> {
        self.with_peer(to, |peer| peer.state.clone())
    }

    /// Returns the number of frames to a node that were dropped.
    pub fn dropped(&self, to: NodeId) -> u64 {
        self.with_peer(to, |peer| peer.queue.dropped())
    }

    /// Returns the condition of all streams, and the frames that each dropped.
    pub fn peers(&self) -> Vec<(NodeId, PeerState, u64)> {
        let peers = self.peers.lock();
        let all = peers
            .iter()
            .map(|(node, peer)| (*node, peer.state.borrow().clone(), peer.queue.dropped()));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(node, ..)| *node);
        all
    }

    fn with_peer<T>(&self, to: NodeId, call: impl FnOnce(&Peer) -> T) -> T {
        let mut peers = self.peers.lock();
        let peer = peers.entry(to).or_insert_with(|| {
            let queue = Arc::new(Queue::new(self.context.options.queue_bytes_max));
            let sender = watch::Sender::new(PeerState::Opening);
            let state = sender.subscribe();
            let outbound = Outbound {
                context: Arc::clone(&self.context),
                to,
                queue: Arc::clone(&queue),
                state: sender,
                pause: AGAIN_FIRST,
            };
            Peer { queue, state, task: self.runtime.spawn(outbound.keep()) }
        });
        call(peer)
    }
}

/// The task of a stream.
struct Outbound {
    context: Arc<Context>,
    to: NodeId,
    queue: Arc<Queue>,
    state: watch::Sender<PeerState>,
    pause: Duration,
}

impl Outbound {
    async fn keep(mut self) {
        loop {
            let why = self.stream().await;
            if matches!(*self.state.borrow(), PeerState::Open) {
                self.context.receiver.lost(self.to);
            }
            self.tell_broken(why);
            // Messages of now are of no use later.
            self.queue.clear();
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(AGAIN_MAX);
        }
    }

    fn tell_broken(&self, why: String) {
        self.state.send_if_modified(|state| {
            let new = PeerState::Broken(why);
            let is_new = *state != new;
            if let (true, PeerState::Broken(why)) = (is_new, &new) {
                tracing::warn!(node = self.to.0, %why, "the stream to a node broke; opening it again");
            }
            *state = new;
            is_new
        });
    }

    /// Opens the stream and sends until it breaks. Returns the reason.
    async fn stream(&mut self) -> String {
        let Some(entry) = self.context.book.entry(self.to) else {
            return "no address is known".to_owned();
        };
        let tls = self.context.options.tls.as_ref().map(|tls| Arc::clone(&tls.client));
        let server = Dialed { address: entry.address, tls };
        let reached = match endpoint(&server) {
            Ok(reached) => reached,
            Err(why) => return why,
        };
        let mut grpc = Grpc::new(server.channel(reached, self.context.options.pings()));
        let (_sending, ended) = oneshot::channel();
        let opened = async {
            let ready = grpc.ready().await;
            ready.map_err(|error| told(&Status::from_error(Box::new(error))))?;
            let path = PathAndQuery::from_static(server::STREAM);
            let opened = grpc.streaming(self.request(ended), path, AsBytes).await;
            opened.map_err(|status| told(&status))
        };
        let mut answers = match tokio::time::timeout(ADMITTED_MAX, opened).await {
            Ok(Ok(answers)) => answers.into_inner(),
            Ok(Err(why)) => return why,
            Err(_) => return format!("no answer in {} s", ADMITTED_MAX.as_secs()),
        };
        self.state.send_replace(PeerState::Open);
        self.pause = AGAIN_FIRST;
        // The other node says nothing until it ends the stream.
        match answers.message().await {
            Ok(_) => "the node ended the stream".to_owned(),
            Err(status) => told(&status),
        }
    }

    /// Returns the request: a greeting, then frames as they come, and signs of life between them, until the
    /// sender of `ended` is dropped.
    fn request(
        &self,
        ended: oneshot::Receiver<()>,
    ) -> Request<impl futures::Stream<Item = Bytes> + Send + 'static> {
        let (us, beat) = (&self.context.us, self.context.options.beat);
        let stream = self.context.streams.fetch_add(1, Ordering::Relaxed) + 1;
        let greeting = us.greeting(self.to, stream);
        let frames = stream::unfold(Arc::clone(&self.queue), move |queue| async move {
            let frame = queue.pop(beat).await.unwrap_or_default();
            Some((frame, queue))
        });
        let mut request = Request::new(frames.take_until(ended));
        server::greet(request.metadata_mut(), &greeting);
        request
    }
}
