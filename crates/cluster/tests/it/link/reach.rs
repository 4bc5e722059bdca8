//! A node is reached at the address that it gives others, or is told that it is not.

use super::{Addresses, Node, patient};
use cluster::group::NodeId;
use std::sync::Arc;
use tokio::net::TcpListener;

/// A node, and another one that others may have at another address than it has.
async fn pair() -> (Arc<Addresses>, Node, Node) {
    let book = Arc::<Addresses>::default();
    let options = patient();
    let one = Node::start(1, 1, &book, &options).await;
    let two = Node::start(2, 1, &book, &options).await;
    (book, one, two)
}

/// Returns an address without a listener.
async fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_reached_at_its_address_and_nowhere_else() {
    let (book, one, two) = pair().await;
    for peers in [&[][..], &[two.id()], &[NodeId(9), two.id()]] {
        assert_eq!(one.link.check_reached(&one.address, peers).await, Ok(()), "{peers:?}");
    }
    for (address, why) in [
        (nowhere().await, "refused"),
        (two.address.clone(), "this is node 2"),
        ("not an address".to_owned(), "not host:port"),
    ] {
        book.set(1, &address, 1);
        for peers in [&[][..], &[two.id()]] {
            let told = one.link.check_reached(&address, peers).await.unwrap_err();
            assert!(told.to_lowercase().contains(why), "{peers:?}: {told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_word_of_another_node_counts_more_than_that_of_the_node_itself() {
    let (book, one, two) = pair().await;
    // Here the address leads to the node, and elsewhere it does not, as `localhost` does.
    book.set(1, &nowhere().await, 1);
    let told = one.link.check_reached(&one.address, &[two.id()]).await.unwrap_err();
    assert!(told.starts_with("node 2 dialled it"), "{told}");
    // The other way round: behind a router that turns nothing back.
    book.set(1, &one.address, 1);
    assert_eq!(one.link.check_reached(&nowhere().await, &[two.id()]).await, Ok(()));
    // A node that does not answer says nothing.
    let gone = NodeId(3);
    book.set(3, &nowhere().await, 1);
    assert_eq!(one.link.check_reached(&one.address, &[gone]).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_start_of_the_node_at_the_address_is_not_the_node() {
    let (book, one, two) = pair().await;
    // A copy of the node, which took its address.
    let copy = Node::start(1, 2, &book, &patient()).await;
    book.set(1, &copy.address, 1);
    let told = one.link.check_reached(&copy.address, &[two.id()]).await.unwrap_err();
    assert!(told.contains("start 2 of node 1"), "{told}");
}
