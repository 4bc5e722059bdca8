//! Order, loss, and signs of life.

use super::{Addresses, Heard, Node, SOON, broken, number, open, pair, patient, start_of, until};
use bytes::Bytes;
use cluster::group::NodeId;
use cluster::link::{FRAME_BYTES_MAX, LinkOptions, Local, PeerState};
use engine::ClusterId;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

#[tokio::test(flavor = "multi_thread")]
async fn frames_arrive_whole_and_in_order_both_ways() {
    let (one, two) = pair(&patient()).await;
    open(&one.link, two.id()).await;
    open(&two.link, one.id()).await;
    for at in 0..2000_u64 {
        let mut frame = at.to_le_bytes().to_vec();
        frame.resize(8 + (at as usize * 37) % 3000, 7);
        one.link.send(two.id(), frame.clone().into());
        two.link.send(one.id(), frame.into());
    }
    for node in [&one, &two] {
        until("all frames", || node.ear.frames().len() == 2000).await;
        let frames = node.ear.frames();
        for (at, frame) in (0_u64..).zip(&frames) {
            assert_eq!((number(frame), frame.len()), (at, 8 + (at as usize * 37) % 3000));
        }
        assert!(!node.ear.has(&Heard::Lost(1)) && !node.ear.has(&Heard::Lost(2)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_frame_arrives_twice_or_after_a_later_one_however_often_the_connection_breaks() {
    let (one, mut two) = pair(&patient()).await;
    let sender = {
        let (link, to) = (one.link.clone(), two.id());
        tokio::spawn(async move {
            for at in 0..u64::MAX {
                link.send(to, Bytes::copy_from_slice(&at.to_le_bytes()));
                if at % 16 == 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        })
    };
    for _ in 0..8 {
        let before = two.ear.frames().len();
        until("more frames", || two.ear.frames().len() > before + 20).await;
        two.stop_serving().await;
        two.serve_again().await;
    }
    sender.abort();
    let frames: Vec<_> = two.ear.frames().iter().map(number).collect();
    assert!(frames.is_sorted_by(|a, b| a < b), "out of order");
    until("the loss is told", || one.ear.has(&Heard::Lost(2)) && two.ear.has(&Heard::Lost(1)))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_start_of_a_node_is_told_as_a_loss_before_its_first_frame() {
    let book = Arc::<Addresses>::default();
    let two = Node::start(2, 1, &book, &patient()).await;
    let process = tokio::runtime::Runtime::new().unwrap();
    let started = process.spawn(async move { Node::start(1, 1, &book, &patient()).await });
    let one = started.await.unwrap();
    one.link.send(two.id(), "old".into());
    until("the first frame", || two.ear.frames().len() == 1).await;
    let again = Node::start(1, 2, &two.book, &patient()).await;
    again.link.send(two.id(), "too early".into());
    let why = broken(&again.link, two.id()).await;
    assert!(why.contains("start 2 of node 1, but its start 1 is at work"), "{why}");
    // The process of the earlier start ends.
    let (us, options) = (one.us, one.options.clone());
    drop(one);
    process.shutdown_background();
    until("the loss", || two.ear.has(&Heard::Lost(1))).await;
    until("the second frame", || {
        again.link.send(two.id(), "new".into());
        two.ear.frames().len() >= 2
    })
    .await;
    let want = [Heard::Frame(1, "old".into()), Heard::Lost(1), Heard::Frame(1, "new".into())];
    let mut heard = two.ear.0.lock().clone();
    heard.dedup();
    assert_eq!(heard[..3], want);
    let one = Node::again(us, &two.book, &options);
    // The earlier start is fenced off, by name.
    let why = broken(&one.link, two.id()).await;
    assert!(why.contains("newer") || why.contains("start 1 of node 1, but start 2"), "{why}");
    one.link.send(two.id(), "late".into());
    until("the refusal", || {
        let state = one.link.keep(two.id());
        let state = state.borrow();
        matches!(&*state, PeerState::Broken(why) if why.contains("start 1 of node 1, but start 2"))
    })
    .await;
    assert!(!two.ear.frames().contains(&"late".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_node_is_lost_once_and_heard_again() {
    // Node 2 waits for half a second; the stream beats only every 3 seconds.
    let slow = LinkOptions { beat: Duration::from_secs(3), ..patient() };
    let short = LinkOptions { silence_max: Duration::from_millis(500), ..patient() };
    let book = Arc::<Addresses>::default();
    let one = Node::start(1, 1, &book, &slow).await;
    let two = Node::start(2, 1, &book, &short).await;
    open(&one.link, two.id()).await;
    until("the silence", || two.ear.has(&Heard::Lost(1))).await;
    until("a sign of life", || two.ear.has(&Heard::Again(1))).await;
    until("the next silence", || two.ear.0.lock().len() >= 3).await;
    let heard = two.ear.0.lock()[..3].to_vec();
    assert_eq!(heard, [Heard::Lost(1), Heard::Again(1), Heard::Lost(1)]);
    // The stream never broke.
    assert_eq!(*one.link.keep(two.id()).borrow(), PeerState::Open);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_cannot_be_read_ends_its_stream_only() {
    let (one, two) = pair(&patient()).await;
    let book = &two.book;
    let three = Node::start(3, 1, book, &patient()).await;
    open(&three.link, two.id()).await;
    open(&one.link, two.id()).await;
    one.link.send(two.id(), "malformed".into());
    let why = broken(&one.link, two.id()).await;
    assert!(why.contains("the frame is malformed"), "{why}");
    open(&one.link, two.id()).await;
    one.link.send(two.id(), "good".into());
    three.link.send(two.id(), "untouched".into());
    until("both frames", || two.ear.frames().len() == 2).await;
    assert!(!two.ear.has(&Heard::Lost(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_is_too_large_is_not_sent() {
    let (one, two) = pair(&patient()).await;
    open(&one.link, two.id()).await;
    one.link.send(two.id(), vec![0; FRAME_BYTES_MAX + 1].into());
    one.link.send(two.id(), "small".into());
    until("the small frame", || two.ear.frames().len() == 1).await;
    assert_eq!(two.ear.frames(), ["small"]);
    assert_eq!(*one.link.keep(two.id()).borrow(), PeerState::Open);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_node_that_reads_nothing_is_bounded() {
    let book = Arc::<Addresses>::default();
    let options = LinkOptions { queue_bytes_max: 1 << 20, ..patient() };
    let one = Node::start(1, 1, &book, &options).await;
    // A peer that takes connections, and never reads.
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    book.set(2, &deaf.local_addr().unwrap().to_string(), 1);
    let frame = Bytes::from(vec![7; 64 << 10]);
    let to = NodeId(2);
    for _ in 0..64 {
        one.link.send(to, frame.clone());
    }
    until("frames are dropped", || one.link.dropped(to) >= 64 - 17).await;
    let why = broken(&one.link, to).await;
    assert!(!why.is_empty());
    // And one that hangs up after some bytes.
    let (mut connection, _) = deaf.accept().await.unwrap();
    let mut some = [0; 8];
    let _ = tokio::time::timeout(SOON, connection.read_exact(&mut some)).await;
    drop(connection);
    one.link.send(to, frame);
    assert!(matches!(*one.link.keep(to).borrow(), PeerState::Broken(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_link_ends_its_streams() {
    let book = Arc::<Addresses>::default();
    let two = Node::start(2, 1, &book, &patient()).await;
    let us = Local { cluster: ClusterId(5), node: NodeId(1), boot: 1, start: start_of(1) };
    book.set(1, "localhost:1", 1);
    let one = Node::again(us, &book, &patient());
    open(&one.link, two.id()).await;
    one.link.send(two.id(), "last".into());
    until("the frame", || two.ear.frames() == ["last"]).await;
    assert!(!two.ear.has(&Heard::Lost(1)));
    drop(one);
    until("the loss", || two.ear.has(&Heard::Lost(1))).await;
}
