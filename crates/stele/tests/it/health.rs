//! The health service under callers without credentials who want too much.

use crate::server::Server;
use bytes::Bytes;
use futures::future::join_all;
use futures::stream::{self, StreamExt};
use http_body::Frame;
use http_body_util::StreamBody;
use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;
use tonic::body::Body;
use tonic::codegen::http::Request;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower::{Service, ServiceExt};

/// Time after which a call counts as never answered.
const PATIENCE: Duration = Duration::from_secs(120);
/// Streams of `Watch` that a server has.
const WATCHES_MAX: usize = 1_000;
/// Part of them that one connection opens.
const PER_CONNECTION: usize = 500;

/// Runs `calls` against a fresh server, to which each channel is a connection.
fn against_server<F: Future>(server: &Server, calls: impl FnOnce(Vec<Channel>) -> F) -> F::Output {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.bigtable())).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut channels = Vec::new();
        for _ in 0..3 {
            channels.push(endpoint.connect().await.unwrap());
        }
        tokio::time::timeout(PATIENCE, calls(channels)).await.expect("a call is never answered")
    })
}

/// Announces a request of 3 MiB, sends 1 MiB of it, and is silent then. Returns the answer's status.
async fn send_a_part(channel: &Channel) -> Status {
    let prefix = Bytes::from_static(&[0, 0, 0x30, 0, 0]);
    let pieces = [prefix].into_iter().chain((0..64).map(|_| Bytes::from(vec![b'x'; 16 << 10])));
    let frames = stream::iter(pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece))));
    let body = Body::new(StreamBody::new(frames.chain(stream::pending())));
    let request = Request::post("/grpc.health.v1.Health/Check")
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let mut channel = channel.clone();
    let answer = channel.ready().await.unwrap().call(request.body(body).unwrap()).await.unwrap();
    Status::from_header_map(answer.headers()).expect("the answer is a refusal")
}

#[test]
fn requests_that_claim_megabytes_are_refused_before_they_come() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    against_server(&server, async |channels| {
        for status in join_all((0..100).map(|_| send_a_part(&channels[0]))).await {
            assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
            assert!(status.message().contains("4096"), "{status:?}");
        }
        let mut client = HealthClient::new(channels[1].clone());
        client.check(HealthCheckRequest::default()).await.unwrap();
    });
}

#[test]
fn open_streams_are_bounded_and_leave_other_calls_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    against_server(&server, async |channels| {
        let mut clients: Vec<_> = channels.into_iter().map(HealthClient::new).collect();
        let request = HealthCheckRequest::default;
        let mut open = Vec::new();
        for at in 0..WATCHES_MAX {
            let watch = clients[at / PER_CONNECTION].watch(request());
            open.push(watch.await.unwrap().into_inner());
        }
        let refused = clients[2].watch(request()).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
        assert!(refused.message().contains("1000"), "{refused:?}");
        clients[2].check(request()).await.unwrap();
        open.pop();
        while let Err(full) = clients[2].watch(request()).await {
            assert_eq!(full.code(), Code::ResourceExhausted, "{full:?}");
        }
    });
    let (_, metrics) = server.get("/metrics");
    assert!(!metrics.contains("stele_refused_calls_total{reason=\"calls\"} 0\n"), "{metrics}");
    assert!(metrics.contains("\nstele_calls_in_flight 0\n"), "{metrics}");
}
