//! TLS with certificates of nodes.

use super::{Addresses, Node, SOON, broken, open, patient, until};
use cluster::link::{CallError, CallKind, LinkOptions, LinkTls};
use security::tls::{
    ClientCertificates, ClientFiles, DevNames, ServerFiles, make_dev_certificates,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Returns the configuration of a node with the certificates in `dir` that shows, as a client, the one
/// called `client`.
fn tls(dir: &Path, client: Option<&str>) -> LinkTls {
    let path = |name: &str| dir.join(name);
    let server = ServerFiles {
        certificate: path("server.pem"),
        key: path("server-key.pem"),
        clients: ClientCertificates::Required(path("ca.pem")),
    };
    let shown = client.map(|name| (path(&format!("{name}.pem")), path(&format!("{name}-key.pem"))));
    let client = ClientFiles { ca: Some(path("ca.pem")), certificate: shown };
    let (server, client) = (server.load().unwrap().http2, client.load("h2").unwrap());
    LinkTls { server: Arc::new(server.into()), client: Arc::new(client.into()) }
}

fn with(tls: LinkTls) -> LinkOptions {
    LinkOptions { tls: Some(tls), ..patient() }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_certificates_of_one_authority_reach_each_other_and_no_one_else_does() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for dir in [&dir, &other] {
        make_dev_certificates(dir.path(), &DevNames::default()).unwrap();
    }
    let book = Arc::<Addresses>::default();
    let one = Node::start(1, 1, &book, &with(tls(dir.path(), Some("server")))).await;
    let two = Node::start(2, 1, &book, &with(tls(dir.path(), Some("server")))).await;
    open(&one.link, two.id()).await;
    one.link.send(two.id(), "secret".into());
    until("the frame", || two.ear.frames() == ["secret"]).await;
    for (id, options) in [
        (3, patient()),
        (4, with(tls(dir.path(), None))),
        (5, with(tls(other.path(), Some("client")))),
    ] {
        let node = Node::start(id, 1, &book, &options).await;
        node.link.send(two.id(), "intruder".into());
        let why = broken(&node.link, two.id()).await;
        assert!(!why.is_empty());
    }
    assert_eq!(two.ear.frames(), ["secret"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_make_no_handshake_keep_no_node_out() {
    let dir = tempfile::tempdir().unwrap();
    make_dev_certificates(dir.path(), &DevNames::default()).unwrap();
    let book = Arc::<Addresses>::default();
    // Nothing ends by its time.
    let handshake_max = Duration::from_secs(600);
    let options = LinkOptions { handshake_max, ..with(tls(dir.path(), Some("server"))) };
    let one = Node::start(1, 1, &book, &options).await;
    let two = Node::start(2, 1, &book, &options).await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(&two.address).await.unwrap());
    }
    open(&one.link, two.id()).await;
    drop(idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_makes_its_holder_no_node_of_another_host() {
    let dir = tempfile::tempdir().unwrap();
    make_dev_certificates(dir.path(), &DevNames::default()).unwrap();
    let book = Arc::<Addresses>::default();
    let options = with(tls(dir.path(), Some("server")));
    let two = Node::start(2, 1, &book, &options).await;
    // The directory has node 1 at a host that the certificate is not valid for.
    let one = Node::start(1, 1, &book, &options).await;
    book.set(1, "elsewhere.example:1", 1);
    let why = broken(&one.link, two.id()).await;
    assert!(why.contains("is not the one of node 1") && why.contains("elsewhere"), "{why}");
    // The certificate of a client of the same authority.
    let client = Node::start(3, 1, &book, &with(tls(dir.path(), Some("client")))).await;
    let why = broken(&client.link, two.id()).await;
    assert!(why.contains("is not the one of node 3"), "{why}");
    let stranger = book.0.lock().remove(&client.id());
    assert!(stranger.is_some());
    let call = client.link.call(two.id(), CallKind::Forward, "x".into()).await;
    assert!(matches!(call.err(), Some(CallError::NotDone(why)) if why.contains("not known here")));
    // And the right one.
    book.set(1, "localhost:1", 1);
    open(&one.link, two.id()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_connections_take_certificates_that_were_stored_meanwhile() {
    let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for dir in [&before, &after] {
        make_dev_certificates(dir.path(), &DevNames::default()).unwrap();
    }
    let old = || tls(before.path(), Some("server"));
    let (of_one, of_two, new) = (old(), old(), tls(after.path(), Some("server")));
    let book = Arc::<Addresses>::default();
    let one = Node::start(1, 1, &book, &with(of_one.clone())).await;
    let mut two = Node::start(2, 1, &book, &with(of_two.clone())).await;
    open(&one.link, two.id()).await;
    let id = two.id();
    let calls = || one.link.call(id, CallKind::Forward, "x".into());
    assert!(calls().await.is_ok());
    // Node 2 has certificates of another authority: open connections go on, new ones are refused.
    of_two.server.store(new.server.load_full());
    one.link.send(two.id(), "open".into());
    until("the frame", || two.ear.frames() == ["open"]).await;
    assert!(calls().await.is_ok());
    two.stop_serving().await;
    two.serve_again().await;
    broken(&one.link, two.id()).await;
    // The connection for calls may break a little later.
    let begun = Instant::now();
    while !matches!(calls().await.err(), Some(CallError::NotDone(_))) {
        assert!(begun.elapsed() < SOON, "calls go on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Node 1 has them, too.
    of_one.client.store(new.client.load_full());
    open(&one.link, two.id()).await;
    let call = calls().await;
    assert!(call.is_ok(), "{:?}", call.err());
}
