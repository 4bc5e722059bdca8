//! TLS with certificates of nodes.

use super::{Addresses, Node, broken, open, patient, until};
use cluster::link::{CallError, CallKind, LinkOptions, LinkTls};
use security::tls::{
    ClientCertificates, ClientFiles, DevNames, ServerFiles, make_dev_certificates,
};
use std::path::Path;
use std::sync::Arc;

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
    LinkTls { server: server.load().unwrap().http2, client: client.load("h2").unwrap() }
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
