//! Links of nodes in one process, over real connections.

mod calls;
mod reach;
mod refusals;
mod secured;
mod streams;

use async_trait::async_trait;
use bytes::Bytes;
use cluster::group::NodeId;
use cluster::link::{
    Answers, Book, CallError, CallKind, Link, LinkOptions, Local, NodeEntry, PeerState, Receiver,
    serve,
};
use engine::ClusterId;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Longest wait for something that must happen.
const SOON: Duration = Duration::from_secs(60);

/// Addresses of the nodes of a test.
#[derive(Default)]
struct Addresses(Mutex<HashMap<NodeId, NodeEntry>>);

impl Addresses {
    fn set(&self, node: u64, address: &str, boot: u64) {
        let entry = NodeEntry { address: address.to_owned(), boot, start: start_of(boot) };
        self.0.lock().insert(NodeId(node), entry);
    }
}

impl Book for Addresses {
    fn entry(&self, node: NodeId) -> Option<NodeEntry> {
        self.0.lock().get(&node).cloned()
    }
}

/// The random number of a start.
fn start_of(boot: u64) -> u128 {
    u128::from(boot) + 1000
}

/// One thing that a node heard.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Heard {
    Frame(u64, Bytes),
    Lost(u64),
    Again(u64),
}

/// Keeps what a node hears.
#[derive(Default)]
struct Ear(Mutex<Vec<Heard>>);

impl Ear {
    fn frames(&self) -> Vec<Bytes> {
        let heard = self.0.lock();
        let frames = heard.iter().filter_map(|heard| match heard {
            Heard::Frame(_, frame) => Some(frame.clone()),
            _ => None,
        });
        frames.collect()
    }

    fn has(&self, what: &Heard) -> bool {
        self.0.lock().contains(what)
    }
}

#[async_trait]
impl Receiver for Ear {
    fn receive(&self, from: NodeId, frame: Bytes) -> Result<(), String> {
        if frame.starts_with(b"malformed") {
            return Err("the frame is malformed".to_owned());
        }
        self.0.lock().push(Heard::Frame(from.0, frame));
        Ok(())
    }

    fn lost(&self, node: NodeId) {
        self.0.lock().push(Heard::Lost(node.0));
    }

    fn heard(&self, node: NodeId) {
        self.0.lock().push(Heard::Again(node.0));
    }

    async fn call(
        &self,
        from: NodeId,
        kind: CallKind,
        request: Bytes,
    ) -> Result<Answers, CallError> {
        match kind {
            CallKind::Forward => {
                let parts: Vec<_> = request.chunks(2).map(Bytes::copy_from_slice).map(Ok).collect();
                Ok(stream::iter(parts).boxed())
            }
            CallKind::Leader => Err(CallError::NotDone(format!("refused for node {}", from.0))),
            CallKind::Status => Err(CallError::Unknown("broke half-way".to_owned())),
            CallKind::SetSchema => {
                let broken = Err(CallError::Unknown("broke after an answer".to_owned()));
                Ok(stream::iter([Ok(request), broken]).boxed())
            }
            _ => std::future::pending().await,
        }
    }
}

/// A node of a test: its links, and what it heard.
struct Node {
    us: Local,
    ear: Arc<Ear>,
    link: Link,
    address: String,
    options: LinkOptions,
    book: Arc<Addresses>,
    server: JoinHandle<()>,
}

impl Node {
    async fn start(id: u64, boot: u64, book: &Arc<Addresses>, options: &LinkOptions) -> Self {
        let us = Local { cluster: ClusterId(5), node: NodeId(id), boot, start: start_of(boot) };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("localhost:{}", listener.local_addr().unwrap().port());
        book.set(id, &address, boot);
        let ear = Arc::<Ear>::default();
        let link = Link::new(us, options.clone(), book.clone(), ear.clone());
        let server = serve_at(listener, us, options, book, &ear);
        let (options, book) = (options.clone(), book.clone());
        Self { us, ear, link, address, options, book, server }
    }

    /// Returns the links of a start that ended, as a process that was thought dead would have them.
    fn again(us: Local, book: &Arc<Addresses>, options: &LinkOptions) -> Ghost {
        Ghost { link: Link::new(us, options.clone(), book.clone(), Arc::<Ear>::default()) }
    }

    fn id(&self) -> NodeId {
        self.us.node
    }

    /// Closes the listener and all connections of others.
    async fn stop_serving(&mut self) {
        self.server.abort();
        let _ = (&mut self.server).await;
    }

    /// Serves again at the old address.
    async fn serve_again(&mut self) {
        let begun = Instant::now();
        let listener = loop {
            match TcpListener::bind(&self.address).await {
                Ok(listener) => break listener,
                Err(error) => assert!(begun.elapsed() < SOON, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        self.server = serve_at(listener, self.us, &self.options, &self.book, &self.ear);
    }
}

/// The links of a start that should have ended.
struct Ghost {
    link: Link,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn serve_at(
    listener: TcpListener,
    us: Local,
    options: &LinkOptions,
    book: &Arc<Addresses>,
    ear: &Arc<Ear>,
) -> JoinHandle<()> {
    let (options, book, ear) = (options.clone(), book.clone(), ear.clone());
    tokio::spawn(async move {
        serve(listener, us, &options, book, ear, std::future::pending()).await.unwrap();
    })
}

/// Returns options with a silence that no test reaches by its load.
fn patient() -> LinkOptions {
    LinkOptions {
        beat: Duration::from_millis(50),
        silence_max: Duration::from_secs(600),
        ..LinkOptions::default()
    }
}

async fn pair(options: &LinkOptions) -> (Node, Node) {
    let book = Arc::<Addresses>::default();
    (Node::start(1, 1, &book, options).await, Node::start(2, 1, &book, options).await)
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < SOON, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the stream to a node is refused or broken, and returns the reason.
async fn broken(link: &Link, to: NodeId) -> String {
    let mut state = link.keep(to);
    let broken = state.wait_for(|state| matches!(state, PeerState::Broken(_)));
    match &*tokio::time::timeout(SOON, broken).await.expect("the stream breaks").unwrap() {
        PeerState::Broken(why) => why.clone(),
        _ => unreachable!(),
    }
}

async fn open(link: &Link, to: NodeId) {
    let mut state = link.keep(to);
    let open = state.wait_for(|state| *state == PeerState::Open);
    tokio::time::timeout(SOON, open).await.expect("the stream opens").unwrap();
}

fn number(frame: &Bytes) -> u64 {
    u64::from_le_bytes(frame[..8].try_into().unwrap())
}
