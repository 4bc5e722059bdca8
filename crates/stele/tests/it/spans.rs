//! Spans of requests, as a collector gets them from the real server.

use crate::server::Server;
use crate::slow_requests::{read, with_table, write};
use prost::Message;
use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// Upper bound for what the server does soon.
const PATIENCE: Duration = Duration::from_secs(60);

/// OTLP's message of spans, as far as the test reads it.
#[derive(Clone, PartialEq, Message)]
struct Batch {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<OfResource>,
}

#[derive(Clone, PartialEq, Message)]
struct OfResource {
    #[prost(message, repeated, tag = "2")]
    scopes: Vec<OfScope>,
}

#[derive(Clone, PartialEq, Message)]
struct OfScope {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    begin: u64,
    #[prost(fixed64, tag = "8")]
    end: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Taken {}

/// A collector that passes on the spans that it gets.
#[derive(Clone)]
struct Collector(mpsc::UnboundedSender<Span>);

impl NamedService for Collector {
    const NAME: &'static str = "opentelemetry.proto.collector.trace.v1.TraceService";
}

impl tower::Service<http::Request<Body>> for Collector {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        assert!(request.uri().path().ends_with("/Export"), "{}", request.uri());
        let collector = self.clone();
        Box::pin(async move {
            Ok(Grpc::new(ProstCodec::<Taken, Batch>::default()).unary(collector, request).await)
        })
    }
}

impl UnaryService<Batch> for Collector {
    type Response = Taken;
    type Future = Ready<Result<Response<Taken>, Status>>;

    fn call(&mut self, request: Request<Batch>) -> Self::Future {
        let scopes = request.into_inner().resources.into_iter().flat_map(|of| of.scopes);
        scopes.flat_map(|of| of.spans).for_each(|span| self.0.send(span).unwrap());
        ready(Ok(Response::new(Taken {})))
    }
}

/// Starts a collector; returns its address, and the spans that it gets.
async fn collector() -> (SocketAddr, mpsc::UnboundedReceiver<Span>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, spans) = mpsc::unbounded_channel();
    let incoming = TcpListenerStream::new(listener);
    let server = tonic::transport::Server::builder().add_service(Collector(sender));
    tokio::spawn(server.serve_with_incoming(incoming));
    (address, spans)
}

/// Returns a request whose caller is in a trace.
fn in_trace(number: u8, flags: &str) -> Request<()> {
    let mut request = Request::new(());
    let parent = format!("00-{number:032x}-00000000000000ff-{flags}");
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    request
}

async fn next(spans: &mut mpsc::UnboundedReceiver<Span>) -> Span {
    let next = tokio::time::timeout(PATIENCE, spans.recv());
    next.await.expect("a span comes in time").unwrap()
}

#[test]
fn callers_who_record_a_trace_get_the_spans_of_their_requests() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (address, mut spans) = collector().await;
        let dir = tempfile::tempdir().unwrap();
        let endpoint = format!("--otlp-endpoint=http://{address}");
        let mut server = Server::start(dir.path(), &[&endpoint, "--otlp-sampling=0"]);
        let mut client = with_table(&server).await;
        write(&mut client, b"row", b"value".to_vec()).await;
        read(&mut client, in_trace(1, "00"), b"row").await;
        read(&mut client, in_trace(2, "01"), b"row").await;
        let span = next(&mut spans).await;
        assert_eq!((span.name.as_str(), span.kind), ("ReadRows", 2));
        assert_eq!(span.trace, 2_u128.to_be_bytes(), "the other requests are in no trace");
        assert_eq!(span.parent, 0xff_u64.to_be_bytes());
        assert_eq!(span.id.len(), 8);
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        assert!(span.begin < span.end && span.end <= now, "{span:?} at {now}");
        // Spans that wait at the end are sent before the server stops.
        read(&mut client, in_trace(3, "01"), b"row").await;
        drop(client);
        assert!(tokio::task::spawn_blocking(move || server.terminate()).await.unwrap().success());
        assert_eq!(next(&mut spans).await.trace, 3_u128.to_be_bytes());
    });
}

#[test]
fn a_write_has_spans_for_its_commit_and_its_sync() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (address, mut spans) = collector().await;
        let dir = tempfile::tempdir().unwrap();
        let endpoint = format!("--otlp-endpoint=http://{address}");
        let server = Server::start(dir.path(), &[&endpoint, "--otlp-sampling=1"]);
        let mut client = with_table(&server).await;
        write(&mut client, b"row", b"value".to_vec()).await;
        let whole = loop {
            let span = next(&mut spans).await;
            if span.name == "MutateRow" {
                break span;
            }
        };
        assert!(whole.parent.is_empty());
        // The spans of a request come together.
        for name in ["commit", "log_sync"] {
            let part = next(&mut spans).await;
            assert_eq!((part.name.as_str(), part.kind), (name, 1));
            assert_eq!((&part.trace, &part.parent), (&whole.trace, &whole.id));
            assert!(whole.begin <= part.begin && part.end <= whole.end, "{part:?} of {whole:?}");
        }
    });
}

#[cfg(feature = "sql")]
#[test]
fn a_statement_has_a_span_with_its_commit_and_its_sync() {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (address, mut spans) = collector().await;
        let dir = tempfile::tempdir().unwrap();
        let endpoint = format!("--otlp-endpoint=http://{address}");
        let flags = [&*endpoint, "--otlp-sampling=1", "--sql-listen=127.0.0.1:0"];
        let server = Server::start(dir.path(), &flags);
        let client = crate::sql::connect(&server).await;
        client.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
        client.batch_execute("INSERT INTO t VALUES (1)").await.unwrap();
        let whole = loop {
            let span = next(&mut spans).await;
            if span.name == "insert" {
                break span;
            }
        };
        assert_eq!((whole.kind, whole.parent.is_empty()), (2, true));
        let mut parts = Vec::new();
        while parts.last().is_none_or(|last| last != "log_sync") {
            let part = next(&mut spans).await;
            assert_eq!((&part.trace, &part.parent), (&whole.trace, &whole.id), "{part:?}");
            assert!(whole.begin <= part.begin && part.end <= whole.end, "{part:?} of {whole:?}");
            parts.push(part.name);
        }
        assert!(parts.iter().any(|part| part == "commit"), "{parts:?}");
    });
}

#[test]
fn spans_for_a_collector_that_is_away_are_dropped_and_counted() {
    // A port without a listener: it was free just now.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let endpoint = format!("--otlp-endpoint=http://{free}");
    let mut server = Server::start(dir.path(), &[&endpoint, "--otlp-sampling=1"]);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client = with_table(&server).await;
        for _ in 0..100 {
            assert_eq!(read(&mut client, Request::new(()), b"none").await, 0);
        }
    });
    let begun = Instant::now();
    loop {
        let (_, metrics) = server.get("/metrics");
        let dropped = "stele_trace_spans_total{result=\"dropped\"} ";
        let dropped = metrics.lines().find_map(|line| line.strip_prefix(dropped));
        if dropped.unwrap().parse::<f64>().unwrap() >= 100.0 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{metrics}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(server.terminate().success(), "{}", server.stderr());
}
