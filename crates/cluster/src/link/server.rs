//! The server's side: a service of gRPC for the streams and calls of other nodes, and its connections.

use super::calls::{CallError, CallKind};
use super::certificate::{self, Shown};
use super::codec::AsBytes;
use super::greeting::{Greeting, Refusal};
use super::handshakes::Handshakes;
use super::inbound::{Admitted, Inbound, Unreceived};
use super::{Book, FRAME_BYTES_MAX, LinkOptions, Local, Receiver, reach};
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use rustls::ServerConfig;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::server::{Grpc, NamedService};
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status, Streaming};
use tower::Service;

/// Path of the method that takes a stream.
pub(super) const STREAM: &str = "/stele.node.v1.Node/Stream";
/// Name of the header with the greeting.
const GREETING: &str = "stele-greeting-bin";
/// Connections that wait to be served.
const ACCEPTED: usize = 64;
/// Pause after a connection could not be taken, such as for want of descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Bytes on their way on a stream, and on a connection.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// Adds a greeting to the headers of a call.
pub(super) fn greet(headers: &mut MetadataMap, greeting: &Greeting) {
    headers.insert_bin(GREETING, MetadataValue::from_bytes(&greeting.encode()));
}

/// Serves the streams and calls of other nodes on `listener` until `stop` is ready, or the future is
/// dropped. Then streams and calls end, and their nodes are told that this one is stopping.
pub async fn serve(
    listener: TcpListener,
    us: Local,
    options: &LinkOptions,
    book: Arc<dyn Book>,
    receiver: Arc<dyn Receiver>,
    stop: impl Future<Output = ()> + Send,
) -> std::io::Result<()> {
    let inbound = Arc::new(Inbound::new(us, book, receiver));
    let (running, stopped) = watch::channel(());
    let (options_of, silence_max) = (options.clone(), options.silence_max);
    let service = NodeService { us, options: options_of, inbound, silence_max, stopped };
    let tls = options.tls.as_ref().map(|tls| Arc::clone(&tls.server));
    let (accepted, incoming) = mpsc::channel(ACCEPTED);
    let accepting = accept(listener, tls, options.handshake_max, accepted);
    let accepting = AbortOnDrop(tokio::spawn(accepting));
    let pings = options.pings();
    let served = tonic::transport::Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keepalive_interval(Some(pings.after))
        .http2_keepalive_timeout(Some(pings.bound))
        .add_service(service)
        .serve_with_incoming_shutdown(ReceiverStream::new(incoming), async {
            stop.await;
            // Neither new connections nor open streams may keep the server up.
            accepting.0.abort();
            drop(running);
        })
        .await;
    served.map_err(std::io::Error::other)
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Takes connections and makes their handshakes, apart from each other.
async fn accept(
    listener: TcpListener,
    tls: Option<Arc<ArcSwap<ServerConfig>>>,
    handshake_max: Duration,
    accepted: mpsc::Sender<std::io::Result<Accepted>>,
) {
    let handshakes = Handshakes::default();
    while !accepted.is_closed() {
        let (stream, from) = match listener.accept().await {
            Ok((stream, from)) => (stream, from.ip()),
            Err(error) => {
                tracing::warn!(%error, "could not take a connection of a node");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let acceptor = tls.as_ref().map(|tls| TlsAcceptor::from(tls.load_full()));
        let accepted = accepted.clone();
        handshakes.begin(from, async move {
            match tokio::time::timeout(handshake_max, secured(stream, acceptor)).await {
                // It fails where the server has stopped.
                Ok(Ok(stream)) => drop(accepted.send(Ok(stream)).await),
                Ok(Err(error)) => tracing::info!(%error, "a connection of a node failed"),
                Err(_) => tracing::info!("a connection of a node made no handshake in time"),
            }
        });
    }
}

async fn secured(stream: TcpStream, acceptor: Option<TlsAcceptor>) -> std::io::Result<Accepted> {
    stream.set_nodelay(true)?;
    let Some(acceptor) = acceptor else {
        return Ok(Accepted { io: Box::new(stream), shown: None });
    };
    let stream = acceptor.accept(stream).await?;
    let certificates = stream.get_ref().1.peer_certificates();
    let Some(first) = certificates.and_then(<[_]>::first) else {
        return Err(std::io::Error::other("the node shows no certificate"));
    };
    let shown = Some(Arc::new(first.clone().into_owned()));
    Ok(Accepted { io: Box::new(stream), shown })
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Io for S {}

/// A connection of another node.
struct Accepted {
    io: Box<dyn Io>,
    shown: Shown,
}

impl Connected for Accepted {
    type ConnectInfo = Shown;

    fn connect_info(&self) -> Shown {
        self.shown.clone()
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, into)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, from)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

/// The service of a node for other nodes.
#[derive(Clone)]
struct NodeService {
    us: Local,
    /// For connections that the server makes.
    options: LinkOptions,
    inbound: Arc<Inbound>,
    silence_max: Duration,
    /// Closed when the server stops.
    stopped: watch::Receiver<()>,
}

impl NamedService for NodeService {
    const NAME: &'static str = "stele.node.v1.Node";
}

impl Service<http::Request<Body>> for NodeService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

type Replies = BoxStream<'static, Result<Bytes, Status>>;

impl NodeService {
    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        let mut grpc = Grpc::new(AsBytes).max_decoding_message_size(FRAME_BYTES_MAX);
        let path = request.uri().path();
        if path == STREAM {
            let take = tower::service_fn(move |request| {
                let taken = self.stream(request);
                async move { taken }
            });
            return grpc.streaming(take, request).await;
        }
        let Some(kind) = CallKind::ALL.into_iter().find(|kind| kind.path() == path) else {
            let text = format!("this node has no method {path}; run the same Stele on all nodes");
            return Status::unimplemented(text).into_http();
        };
        let call = tower::service_fn(move |request| {
            let service = self.clone();
            async move { service.call_of(kind, request).await }
        });
        grpc.server_streaming(call, request).await
    }

    /// Returns the greeting of a request, which its sender may use.
    fn greeting<T>(&self, request: &Request<T>) -> Result<Greeting, Status> {
        let greeting = greeting(request.metadata())?;
        let shown = request.extensions().get::<Shown>().cloned().flatten();
        let checked = certificate::check(&shown, &greeting, self.inbound.book());
        checked.map_err(|refusal| refuse(&refusal))?;
        Ok(greeting)
    }

    /// Admits a stream. Its frames are received while the answer, which is empty, is waited for.
    fn stream(&self, request: Request<Streaming<Bytes>>) -> Result<Response<Replies>, Status> {
        let greeting = self.greeting(&request)?;
        let admitted = self.inbound.admit(&greeting).map_err(|refusal| refuse(&refusal))?;
        let frames = request.into_inner();
        let silence_max = self.silence_max;
        let stopped = stopping(self.stopped.clone());
        let end = async move {
            tokio::select! {
                end = receive(admitted, frames, silence_max) => end,
                end = stopped => end,
            }
        };
        // One answer at the end, which is the reason.
        Ok(Response::new(stream::once(end).map(Err).boxed()))
    }

    async fn call_of(
        self,
        kind: CallKind,
        request: Request<Bytes>,
    ) -> Result<Response<Replies>, Status> {
        let greeting = self.greeting(&request)?;
        self.inbound.check(&greeting).map_err(|refusal| refuse(&refusal))?;
        let receiver = self.inbound.receiver();
        let called = async {
            match kind {
                CallKind::Identity => Ok(reach::identity_answer(&self.us)),
                CallKind::Reach => {
                    let book = self.inbound.book();
                    Ok(reach::answer(&self.us, &self.options, book, greeting.from).await)
                }
                _ => receiver.call(greeting.from, kind, request.into_inner()).await,
            }
        };
        let answers = tokio::select! {
            answers = called => answers.map_err(status_of)?,
            stopping = stopping(self.stopped.clone()) => return Err(stopping),
        };
        let end = stream::once(stopping(self.stopped.clone())).map(Err);
        let answers = answers.map_err(status_of).map(Some).chain(stream::iter([None]));
        // The end of the answers ends the stream, whatever the other one does.
        let merged = stream::select(answers, end.map(Some));
        let merged = merged.take_while(|answer| std::future::ready(answer.is_some()));
        Ok(Response::new(merged.filter_map(std::future::ready).boxed()))
    }
}

/// Waits until the server stops, and returns the status that says so.
async fn stopping(mut stopped: watch::Receiver<()>) -> Status {
    while stopped.changed().await.is_ok() {}
    Status::unavailable("the node is stopping")
}

/// Receives frames until the stream breaks or no longer counts. Returns the reason.
async fn receive(
    admitted: Admitted,
    mut frames: Streaming<Bytes>,
    silence_max: Duration,
) -> Status {
    loop {
        let frame = match tokio::time::timeout(silence_max, frames.message()).await {
            Ok(Ok(Some(frame))) => frame,
            Ok(Ok(None)) => return Status::ok("the sender ended the stream"),
            Ok(Err(status)) => {
                let (node, error) = (admitted.from().0, status.message());
                tracing::warn!(node, %error, "the stream from a node broke");
                return status;
            }
            Err(_) => {
                // The stream stays: the node may only be slow.
                admitted.lose();
                continue;
            }
        };
        match admitted.take(frame) {
            Ok(()) => {}
            Err(Unreceived::Replaced) => return refuse(&Refusal::Stream { node: admitted.from() }),
            Err(Unreceived::Malformed(error)) => {
                let node = admitted.from().0;
                tracing::error!(node, %error, "a node sent a frame that cannot be read");
                return Status::invalid_argument(error);
            }
        }
    }
}

fn greeting(headers: &MetadataMap) -> Result<Greeting, Status> {
    let value = headers.get_bin(GREETING).and_then(|value| value.to_bytes().ok());
    let bytes = value.ok_or_else(|| Status::failed_precondition("the call has no greeting"))?;
    Greeting::decode(&bytes).map_err(|refusal| refuse(&refusal))
}

/// Returns the status of a refusal: nothing was done.
fn refuse(refusal: &Refusal) -> Status {
    Status::failed_precondition(refusal.to_string())
}

fn status_of(error: CallError) -> Status {
    match error {
        CallError::NotDone(text) => Status::failed_precondition(text),
        CallError::Unknown(text) => Status::unknown(text),
    }
}
