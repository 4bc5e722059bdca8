//! The promises of every directory.

use super::{SOON, each};
use bytes::Bytes;
use cluster::directory::{
    Change, Directory, Error, Event, Item, Key, LeaseId, Outcome, Revision, Watch, Write,
};
use cluster::group::NodeId;
use futures::StreamExt;
use std::time::Duration;

fn put(key: &str, value: &str) -> Write {
    let value = Bytes::copy_from_slice(value.as_bytes());
    Write::Put { key: key.to_owned(), value, lease: None }
}

fn leased(key: &str, lease: LeaseId) -> Write {
    Write::Put { key: key.to_owned(), value: Bytes::new(), lease: Some(lease) }
}

fn remove(key: &str) -> Write {
    Write::Remove { key: key.to_owned() }
}

fn all(writes: impl IntoIterator<Item = Write>) -> Change {
    Change { expected: Vec::new(), writes: writes.into_iter().collect() }
}

async fn done(directory: &dyn Directory, change: Change) -> Revision {
    match directory.change(change).await.unwrap() {
        Outcome::Done(revision) => revision,
        Outcome::Conflict => panic!("a change in conflict"),
    }
}

fn told(items: &[Item]) -> Vec<(&str, &[u8])> {
    items.iter().map(|item| (&*item.key, &*item.value)).collect()
}

/// Returns the next `count` events of a watch.
async fn next(watch: &mut Watch, count: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < count {
        let more = tokio::time::timeout(SOON, watch.next()).await.expect("the watch is silent");
        events.extend(more.expect("the watch ended").unwrap());
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_read_by_prefix_in_order_with_the_revisions_of_their_changes() {
    for tried in each() {
        let directory = &*tried.directory;
        assert_eq!(directory.read("").await.unwrap().items, []);
        let first = done(directory, all([put("b/2", "x"), put("b/1", "y"), put("c", "z")])).await;
        let second = done(directory, all([put("b/1", "w")])).await;
        assert!(first < second);
        let read = directory.read("b/").await.unwrap();
        assert_eq!(told(&read.items), [("b/1", &b"w"[..]), ("b/2", b"x")]);
        assert_eq!((read.items[0].revision, read.items[1].revision), (second, first));
        assert_eq!(read.revision, second);
        assert_eq!(told(&directory.read("c").await.unwrap().items), [("c", &b"z"[..])]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_takes_effect_whole_if_every_revision_is_the_expected_one() {
    for tried in each() {
        let directory = &*tried.directory;
        let node = Key::Node(NodeId(1));
        let create = || Change::default().expect(&node, Revision(0)).write(Write::put(&node, "1"));
        let revision = done(directory, create()).await;
        assert_eq!(directory.change(create()).await, Ok(Outcome::Conflict));
        let update = |at| {
            let change = Change::default().expect(&node, at).expect(&Key::Cluster, Revision(0));
            change.write(Write::put(&node, "2")).write(Write::put(&Key::NextTree, "3"))
        };
        let wrong = Revision(revision.0 + 7);
        assert_eq!(directory.change(update(wrong)).await, Ok(Outcome::Conflict));
        assert_eq!(directory.read("next/").await.unwrap().items, []);
        let later = done(directory, update(revision)).await;
        assert_eq!(directory.change(update(revision)).await, Ok(Outcome::Conflict));
        let gone = done(directory, all([Write::remove(&node), remove("never/there")])).await;
        assert!(revision < later && later < gone);
        done(directory, create()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_changes_that_meet_each_takes_effect_once() {
    for tried in each() {
        let directory = &tried.directory;
        let counters = (0..4).map(|_| {
            let directory = directory.clone();
            tokio::spawn(async move {
                for _ in 0..10 {
                    loop {
                        let item = directory.read("next/tree").await.unwrap().items.pop();
                        let (old, at) = match &item {
                            Some(item) => (item.value[0], item.revision),
                            None => (0, Revision(0)),
                        };
                        let write = Write::put(&Key::NextTree, vec![old + 1]);
                        let change = Change::default().expect(&Key::NextTree, at).write(write);
                        if directory.change(change).await.unwrap() != Outcome::Conflict {
                            break;
                        }
                    }
                }
            })
        });
        for counter in counters.collect::<Vec<_>>() {
            counter.await.unwrap();
        }
        assert_eq!(directory.read("next/tree").await.unwrap().items[0].value[0], 40);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_tells_every_later_change_of_its_prefix_in_order() {
    for tried in each() {
        let directory = &*tried.directory;
        let before = done(directory, all([put("a/1", "1"), put("b", "1")])).await;
        let mut watch = directory.watch("a/", before).await.unwrap();
        let second = done(directory, all([put("a/2", "2"), put("c", "2")])).await;
        let third = done(directory, all([remove("a/1")])).await;
        let events = next(&mut watch, 2).await;
        let item = Item { key: "a/2".into(), value: "2".into(), revision: second };
        let gone = Event::Gone { key: "a/1".into(), revision: third };
        assert_eq!(events, [Event::Put(item.clone()), gone.clone()]);
        // Another watch begins in the past.
        let mut watch = directory.watch("a/", before).await.unwrap();
        assert_eq!(next(&mut watch, 2).await, [Event::Put(item), gone]);
        // And one that has missed nothing tells only what is new.
        let mut watch = directory.watch("", third).await.unwrap();
        done(directory, all([put("d", "4")])).await;
        assert_eq!(next(&mut watch, 1).await[0].key(), "d");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_a_lease_live_as_long_as_it_is_kept_alive() {
    for tried in each() {
        let directory = &*tried.directory;
        let short = directory.grant(Duration::from_secs(2)).await.unwrap();
        let long = directory.grant(Duration::from_secs(600)).await.unwrap();
        let change = all([leased("short", short), leased("long", long), put("none", "")]);
        let before = done(directory, change).await;
        directory.keep_alive(short).await.unwrap();
        let mut watch = directory.watch("", before).await.unwrap();
        let events = next(&mut watch, 1).await;
        assert!(matches!(&events[..], [Event::Gone { key, .. }] if key == "short"), "{events:?}");
        let keys = directory.read("").await.unwrap();
        assert_eq!(told(&keys.items), [("long", &b""[..]), ("none", b"")]);
        assert_eq!(directory.keep_alive(short).await, Err(Error::LeaseLost));
        assert_eq!(directory.change(all([leased("x", short)])).await, Err(Error::LeaseLost));
        directory.revoke(long).await.unwrap();
        directory.revoke(long).await.unwrap();
        assert_eq!(told(&directory.read("").await.unwrap().items), [("none", &b""[..])]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_breaks_a_limit_is_refused_whole() {
    for tried in each() {
        let directory = &*tried.directory;
        let long = "k".repeat(5000);
        let large = Bytes::from(vec![0; 2 << 20]);
        for (change, said) in [
            (all((0..129).map(|at| put(&at.to_string(), ""))), "128 keys"),
            (all([put("", "")]), "1 to 4096 bytes"),
            (all([put(&long, "")]), "1 to 4096 bytes"),
            (all([put("a", ""), remove("a")]), "twice"),
            (all([Write::Put { key: "a".into(), value: large, lease: None }]), "more than"),
            (
                all(["a", "b"].map(|key| {
                    let value = Bytes::from(vec![0; 700 << 10]);
                    Write::Put { key: key.into(), value, lease: None }
                })),
                "more than",
            ),
        ] {
            let error = directory.change(change).await.unwrap_err();
            assert!(matches!(&error, Error::Invalid(text) if text.contains(said)), "{error}");
        }
        let most = all((0..128).map(|at| put(&format!("k{at:04}"), "x")));
        done(directory, most).await;
        assert_eq!(directory.read("k").await.unwrap().items.len(), 128);
        let largest = vec![1; cluster::directory::VALUE_BYTES_MAX];
        done(directory, Change::default().write(Write::put(&Key::NextTree, largest))).await;
        assert_eq!(directory.read("").await.unwrap().items.len(), 129);
    }
}
