//! Nodes that join, start again, and keep their sign of life.

use super::faulty::Faulty;
use super::{SOON, Tried, each};
use base::env::SystemClock;
use cluster::directory::{
    ClusterRecord, Directory, Error, Joined, Key, LocalDirectory, NodePlace, NodeRecord, Own,
    Presence, PresenceState, found, join,
};
use cluster::group::NodeId;
use engine::ClusterId;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

pub(super) fn place(address: &str) -> NodePlace {
    NodePlace { address: address.into(), region: "here".into(), zone: "a".into() }
}

pub(super) fn cluster(id: u128) -> ClusterRecord {
    ClusterRecord { id: ClusterId(id), replicas: 3, founded_micros: 1 }
}

/// Returns what a node tells whose log goes so far.
fn own(log_end: u64) -> impl Fn() -> Own {
    move || Own { log_end, ..Own::default() }
}

async fn start(tried: &Tried, dir: &Path) -> Result<Joined, Error> {
    join(&*tried.directory, dir, &place("a:1"), 0).await
}

fn refused(joined: Result<Joined, Error>) -> String {
    match joined {
        Err(Error::Refused(text) | Error::Replaced(text) | Error::Foreign(text)) => text,
        other => panic!("not refused: {other:?}"),
    }
}

pub(super) fn copy_of(dir: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(dir).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    copy
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_founded_once_and_its_nodes_get_ids_of_their_own() {
    for tried in each() {
        let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let none = refused(start(&tried, dirs[0].path()).await);
        assert!(none.contains("stele cluster init"), "{none}");
        found(&*tried.directory, &cluster(5)).await.unwrap();
        let again = found(&*tried.directory, &cluster(6)).await.unwrap_err().to_string();
        assert!(again.contains(&ClusterId(5).to_string()), "{again}");
        for (at, dir) in (1..).zip(&dirs) {
            let joined = start(&tried, dir.path()).await.unwrap();
            assert_eq!((joined.member.node.0, joined.boot, joined.unregistered), (at, 1, None));
            assert_eq!(joined.member.cluster, ClusterId(5));
        }
        let joined = start(&tried, dirs[1].path()).await.unwrap();
        assert_eq!((joined.member.node.0, joined.boot), (2, 2));
        let nodes = tried.directory.read(Key::NODES).await.unwrap().items;
        let record = NodeRecord::decode(NodeId(2), &nodes[1].value).unwrap();
        assert_eq!((nodes.len(), record.boot, &*record.address), (3, 2, "a:1"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_directory_that_is_older_than_its_node_is_refused_by_name() {
    for tried in each() {
        let dir = tempfile::tempdir().unwrap();
        found(&*tried.directory, &cluster(5)).await.unwrap();
        start(&tried, dir.path()).await.unwrap();
        let copy = copy_of(dir.path());
        start(&tried, dir.path()).await.unwrap();
        for _ in 0..3 {
            let text = refused(start(&tried, copy.path()).await);
            assert!(text.contains("of node 1 has start 2, but start 2"), "{text}");
        }
        // The node itself is not disturbed.
        assert_eq!(start(&tried, dir.path()).await.unwrap().boot, 3);
        // A directory of another cluster.
        let others = tempfile::tempdir().unwrap();
        let path = others.path().join("directory");
        let other: Arc<dyn Directory> = Arc::new(LocalDirectory::new(path, Arc::new(SystemClock)));
        found(&*other, &cluster(7)).await.unwrap();
        let error = join(&*other, dir.path(), &place("a:1"), 0).await.unwrap().unregistered;
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(&ClusterId(7).to_string()), "{text}");
        assert!(other.read(Key::NODES).await.unwrap().items.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_shows_that_it_is_alive_and_stops_when_it_is_replaced() {
    for tried in each() {
        let dir = tempfile::tempdir().unwrap();
        found(&*tried.directory, &cluster(5)).await.unwrap();
        let joined = start(&tried, dir.path()).await.unwrap();
        let presence =
            Presence::start(tried.directory.clone(), joined.clone(), place("a:1"), own(0));
        let mut state = presence.state();
        let alive = state.wait_for(|state| matches!(state, PresenceState::Alive(_)));
        let lease = match *tokio::time::timeout(SOON, alive).await.unwrap().unwrap() {
            PresenceState::Alive(lease) => lease,
            _ => unreachable!(),
        };
        assert_eq!(tried.directory.read(Key::ALIVE).await.unwrap().items.len(), 1);
        // A lease that is lost is granted again.
        tried.directory.revoke(lease).await.unwrap();
        let again =
            state.wait_for(|state| matches!(state, PresenceState::Alive(new) if *new != lease));
        tokio::time::timeout(SOON, again).await.unwrap().unwrap();
        assert_eq!(tried.directory.read(Key::ALIVE).await.unwrap().items.len(), 1);
        // Another start of the node.
        let later = start(&tried, dir.path()).await.unwrap();
        let replaced = state.wait_for(|state| matches!(state, PresenceState::Replaced(_)));
        tokio::time::timeout(SOON, replaced).await.unwrap().unwrap();
        drop(presence);
        let presence = Presence::start(tried.directory.clone(), later, place("a:1"), own(0));
        let mut state = presence.state();
        let alive = state.wait_for(|state| matches!(state, PresenceState::Alive(_)));
        tokio::time::timeout(SOON, alive).await.unwrap().unwrap();
        presence.leave().await;
        assert_eq!(tried.directory.read(Key::ALIVE).await.unwrap().items, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_node_starts_without_the_directory_and_registers_when_it_answers() {
    let Some(mut etcd) = super::etcd::Etcd::start() else { return };
    let directory = etcd.directory("stele/");
    let dir = tempfile::tempdir().unwrap();
    found(&*directory, &cluster(5)).await.unwrap();
    let boot = join(&*directory, dir.path(), &place("a:1"), 0).await.unwrap().boot;
    etcd.kill();
    let fresh = tempfile::tempdir().unwrap();
    let error = join(&*directory, fresh.path(), &place("b:1"), 0).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    let joined = join(&*directory, dir.path(), &place("c:1"), 0).await.unwrap();
    assert_eq!(joined.boot, boot + 1);
    assert!(joined.unregistered.is_some());
    let presence = Presence::start(directory.clone(), joined, place("c:1"), own(0));
    etcd.restart();
    let mut state = presence.state();
    let alive = state.wait_for(|state| matches!(state, PresenceState::Alive(_)));
    tokio::time::timeout(SOON, alive).await.unwrap().unwrap();
    let nodes = directory.read(Key::NODES).await.unwrap().items;
    let record = NodeRecord::decode(NodeId(1), &nodes[0].value).unwrap();
    assert_eq!((record.boot, &*record.address), (boot + 1, "c:1"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_directory_ends_no_sign_of_life() {
    let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let faulty = Faulty::new(super::local(&dir.path().join("directory")));
    let directory: Arc<dyn Directory> = faulty.clone();
    found(&*directory, &cluster(5)).await.unwrap();
    let joined = join(&*directory, data.path(), &place("a:1"), 0).await.unwrap();
    faulty.set_slow(Duration::from_secs(2));
    // The log grows, so that marks are written.
    let log_end = AtomicU64::new(0);
    let own = move || Own { log_end: log_end.fetch_add(1, Ordering::Relaxed), ..Own::default() };
    let presence = Presence::start(directory, joined, place("a:1"), own);
    alive(&presence).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let kept = faulty.kept();
    assert!(kept.len() > 12, "{kept:?}");
    let longest = kept.windows(2).map(|two| two[1] - two[0]).max();
    // A sign of life lasts 10 seconds, and one keep-alive may fail.
    assert!(longest < Some(Duration::from_secs(5)), "{longest:?}");
    assert!(matches!(*presence.state().borrow(), PresenceState::Alive(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_others_may_not_reach_registers_and_shows_no_sign_of_life() {
    for tried in each() {
        let dir = tempfile::tempdir().unwrap();
        found(&*tried.directory, &cluster(5)).await.unwrap();
        let joined = start(&tried, dir.path()).await.unwrap();
        let hidden = Arc::new(AtomicBool::new(true));
        let is_hidden = Arc::clone(&hidden);
        let own = move || Own { hidden: is_hidden.load(Ordering::SeqCst), ..Own::default() };
        let presence = Presence::start(tried.directory.clone(), joined, place("a:1"), own);
        let mut state = presence.state();
        let waits = |state: &PresenceState| matches!(state, PresenceState::Absent(why) if why.to_string().contains("reach"));
        tokio::time::timeout(SOON, state.wait_for(waits)).await.unwrap().unwrap();
        assert_eq!(tried.directory.read(Key::ALIVE).await.unwrap().items, []);
        assert_eq!(tried.directory.read(Key::NODES).await.unwrap().items.len(), 1);
        hidden.store(false, Ordering::SeqCst);
        alive(&presence).await;
    }
}

pub(super) async fn alive(presence: &Presence) {
    let mut state = presence.state();
    let alive = state.wait_for(|state| matches!(state, PresenceState::Alive(_)));
    tokio::time::timeout(SOON, alive).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_not_started_beside_its_node() {
    let tried = each().remove(0);
    let dir = tempfile::tempdir().unwrap();
    found(&*tried.directory, &cluster(5)).await.unwrap();
    let joined = start(&tried, dir.path()).await.unwrap();
    let presence = Presence::start(tried.directory.clone(), joined, place("a:1"), own(7));
    alive(&presence).await;
    let copy = copy_of(dir.path());
    let begun = join(&*tried.directory, copy.path(), &place("b:1"), 7).await;
    let text = refused(begun);
    assert!(text.contains("node 1 is at work at a:1"), "{text}");
    assert!(matches!(*presence.state().borrow(), PresenceState::Alive(_)), "it was not replaced");
    // In its own place the node starts at once, as after a crash.
    let again = join(&*tried.directory, dir.path(), &place("a:1"), 7).await.unwrap();
    assert_eq!(again.boot, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_whose_log_ends_before_its_node_wrote_last_is_refused() {
    for tried in each() {
        let dir = tempfile::tempdir().unwrap();
        found(&*tried.directory, &cluster(5)).await.unwrap();
        let joined = join(&*tried.directory, dir.path(), &place("a:1"), 0).await.unwrap();
        let presence = Presence::start(tried.directory.clone(), joined, place("a:1"), own(500));
        alive(&presence).await;
        let copy = copy_of(dir.path());
        presence.leave().await;
        for _ in 0..2 {
            let text = refused(join(&*tried.directory, copy.path(), &place("b:1"), 499).await);
            assert!(text.contains("older copy"), "{text}");
        }
        let own = join(&*tried.directory, dir.path(), &place("a:1"), 500).await.unwrap();
        assert_eq!(own.boot, 2, "the copy registered nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_lost_its_data_stops_no_node() {
    for tried in each() {
        let dir = tempfile::tempdir().unwrap();
        found(&*tried.directory, &cluster(5)).await.unwrap();
        let joined = start(&tried, dir.path()).await.unwrap();
        let presence = Presence::start(tried.directory.clone(), joined, place("a:1"), own(0));
        alive(&presence).await;
        let remove = |key: &Key| cluster::directory::Write::remove(key);
        let change = cluster::directory::Change::default().write(remove(&Key::Cluster));
        tried.directory.change(change).await.unwrap();
        let mut state = presence.state();
        let absent = state.wait_for(|state| matches!(state, PresenceState::Absent(_)));
        tokio::time::timeout(SOON, absent).await.unwrap().unwrap();
        found(&*tried.directory, &cluster(5)).await.unwrap();
        alive(&presence).await;
    }
}
