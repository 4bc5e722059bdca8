//! Greetings that are refused by name, and bytes of no protocol.

use super::{Addresses, Ear, Node, SOON, broken, open, patient, start_of, until};
use cluster::group::NodeId;
use cluster::link::{CallError, CallKind, Link, Local};
use engine::ClusterId;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn call_refused(link: &Link, to: NodeId) -> String {
    match link.call(to, CallKind::Forward, "x".into()).await.err() {
        Some(CallError::NotDone(text)) => text,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn greetings_that_are_not_for_a_node_are_refused_by_name() {
    let book = Arc::<Addresses>::default();
    let two = Node::start(2, 1, &book, &patient()).await;
    book.set(7, &two.address, 1);
    book.set(9, "127.0.0.1:1", 4);
    book.set(1, "127.0.0.1:1", 1);
    let us = Local { cluster: ClusterId(5), node: NodeId(1), boot: 1, start: start_of(1) };
    for (local, to, said) in [
        (Local { cluster: ClusterId(6), ..us }, 2, "but this node is of another one"),
        (us, 7, "the caller means node 7, but this is node 2"),
        (Local { node: NodeId(9), boot: 3, ..us }, 2, "start 3 of node 9, but start 4 is known"),
        (Local { start: 9, ..us }, 2, "another process is start 1 of node 1 too"),
        (Local { boot: u64::MAX, ..us }, 2, "whose latest start is 1"),
        (Local { boot: 0, ..us }, 2, "start 0 of node 1, but start 1 is known"),
    ] {
        let link = Link::new(local, patient(), book.clone(), Arc::<Ear>::default());
        let why = broken(&link, NodeId(to)).await;
        assert!(why.contains(said), "{why}");
        assert!(!why.contains(&ClusterId(5).to_string()), "strangers learn no ids: {why}");
        let why = call_refused(&link, NodeId(to)).await;
        assert!(why.contains(said), "{why}");
    }
    let link = Link::new(us, patient(), book.clone(), Arc::<Ear>::default());
    let why = broken(&link, NodeId(3)).await;
    assert!(why.contains("no address"), "{why}");
    assert!(call_refused(&link, NodeId(9)).await.contains("node 9"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_not_known_is_refused_by_name() {
    use tonic::codegen::http::uri::PathAndQuery;
    let book = Arc::<Addresses>::default();
    let two = Node::start(2, 1, &book, &patient()).await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", two.address))
        .unwrap()
        .connect()
        .await
        .unwrap();
    for (greeting, said) in [
        (Some(&b"\x09 of a newer protocol"[..]), "version 9 of the protocol"),
        (Some(&b"\x02short"[..]), "malformed greeting"),
        (None, "no greeting"),
    ] {
        let mut grpc = tonic::client::Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let mut request = tonic::Request::new(());
        if let Some(greeting) = greeting {
            let value = tonic::metadata::MetadataValue::from_bytes(greeting);
            request.metadata_mut().insert_bin("stele-greeting-bin", value);
        }
        let path = PathAndQuery::from_static("/stele.node.v1.Node/Status");
        let codec = tonic_prost::ProstCodec::<(), ()>::default();
        let status = grpc.unary(request, path, codec).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::FailedPrecondition);
        assert!(status.message().contains(said), "{status}");
    }
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = PathAndQuery::from_static("/stele.node.v1.Node/Unheard");
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let status = grpc.unary(tonic::Request::new(()), path, codec).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_protocol_end_their_connection_only() {
    let (one, two) = super::pair(&patient()).await;
    open(&one.link, two.id()).await;
    // A client that says nothing keeps no one waiting.
    let silent = TcpStream::connect(&two.address).await.unwrap();
    for rubbish in
        [&b"GET / HTTP/1.0\r\n\r\n"[..], &[0xff; 4096], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nxx"]
    {
        let mut stream = TcpStream::connect(&two.address).await.unwrap();
        stream.write_all(rubbish).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await.unwrap();
    }
    one.link.send(two.id(), "fine".into());
    until("the frame", || two.ear.frames() == ["fine"]).await;
    drop(silent);
}
