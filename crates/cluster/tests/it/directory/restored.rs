//! A directory that was restored from an older backup, lost its data, or is another cluster's.

use super::faulty::Faulty;
use super::nodes::{alive, cluster, place};
use super::{OURS, SOON, apart, local};
use base::env::Clock;
use cluster::directory::{
    Change, Directory, DirectoryMeta, Error, Key, LocalDirectory, Mirror, Outcome, Own, Presence,
    Revision, Used, Write, found, join,
};
use cluster::group::NodeId;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use table::local::MetaStore;
use table::{SharedMeta, TreeId};
use tempfile::TempDir;

/// An etcd of a cluster, its backup, and a mirror of it.
struct Restored {
    directory: Arc<Faulty>,
    newest: LocalDirectory,
    backup: LocalDirectory,
    mirror: Mirror,
    dir: TempDir,
}

async fn put(directory: &dyn Directory, key: &Key, value: &str) -> Revision {
    let change = Change::default().write(Write::put(key, value.to_owned()));
    match directory.change(change).await.unwrap() {
        Outcome::Done(revision) => revision,
        Outcome::Conflict => panic!("a change in conflict"),
    }
}

impl Restored {
    /// A backup, and changes after it that the mirror shows.
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let newest = local(&dir.path().join("newest"));
        found(&newest, &cluster(OURS.0)).await.unwrap();
        put(&newest, &Key::Record("a".into()), "old").await;
        std::fs::copy(dir.path().join("newest"), dir.path().join("backup")).unwrap();
        let backup = local(&dir.path().join("backup"));
        put(&newest, &Key::Record("a".into()), "new").await;
        let last = put(&newest, &Key::Record("b".into()), "new").await;
        let directory = Faulty::new(newest.clone());
        let mirror = Mirror::start(directory.clone(), OURS, None).await;
        mirror.reaches(last, SOON).await.unwrap();
        Self { directory, newest, backup, mirror, dir }
    }

    async fn is_foreign(&self, is_foreign: bool) -> String {
        let mut state = self.mirror.state();
        let told = state.wait_for(|state| state.is_foreign == is_foreign);
        let state = tokio::time::timeout(SOON, told).await.unwrap().unwrap().clone();
        state.trouble.unwrap_or_default()
    }

    fn shown(&self, name: &str) -> Option<String> {
        let item = self.mirror.get(&Key::Record(name.to_owned()))?;
        Some(String::from_utf8(item.value.to_vec()).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_state_is_refused_until_the_newest_is_back() {
    let etcd = Restored::new().await;
    etcd.directory.replace(&etcd.backup);
    let why = etcd.is_foreign(true).await;
    assert!(why.contains("went back from revision"), "{why}");
    let checked = etcd.mirror.directory();
    let change = Change::default().write(Write::put(&Key::NextTree, "1"));
    for error in [
        checked.read("").await.unwrap_err(),
        checked.get(&Key::Cluster).await.unwrap_err(),
        checked.change(change.clone()).await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::Foreign(_)), "{error}");
    }
    assert_eq!(etcd.shown("a").as_deref(), Some("new"), "the copy stays");
    assert!(etcd.backup.get(&Key::NextTree).await.unwrap().item().is_none());
    // Changes after the backup do not make it the same directory.
    for _ in 0..5 {
        put(&etcd.backup, &Key::Record("c".into()), "another").await;
    }
    etcd.directory.replace(&etcd.backup);
    let mut state = etcd.mirror.state();
    let told = state
        .wait_for(|state| state.trouble.as_ref().is_some_and(|why| why.contains("another past")));
    tokio::time::timeout(SOON, told).await.unwrap().unwrap();
    assert!(matches!(checked.change(change.clone()).await, Err(Error::Foreign(_))));
    assert_eq!(etcd.shown("c"), None);
    etcd.directory.replace(&etcd.newest);
    etcd.is_foreign(false).await;
    assert!(matches!(checked.change(change).await, Ok(Outcome::Done(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_replaced_by_an_older_one_is_refused() {
    let etcd = Restored::new().await;
    let mirror = Mirror::start(Arc::new(etcd.newest.clone()), OURS, None).await;
    mirror.current(SOON).await.unwrap();
    let (newest, backup) = (etcd.dir.path().join("newest"), etcd.dir.path().join("backup"));
    std::fs::rename(&backup, &newest).unwrap();
    let mut state = mirror.state();
    let told = state.wait_for(|state| state.is_foreign);
    tokio::time::timeout(SOON, told).await.unwrap().unwrap();
    assert!(mirror.get(&Key::Record("b".into())).is_some(), "the copy stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_directory_and_that_of_another_cluster_are_refused() {
    let etcd = Restored::new().await;
    let empty = local(&etcd.dir.path().join("empty"));
    let other = local(&etcd.dir.path().join("other"));
    for round in 0..9 {
        put(&other, &Key::Record(format!("r{round}")), "x").await;
    }
    found(&other, &cluster(OURS.0 + 1)).await.unwrap();
    let checked = etcd.mirror.directory();
    for foreign in [&empty, &other] {
        etcd.directory.replace(foreign);
        let why = etcd.is_foreign(true).await;
        assert!(why.contains(&format!("does not have cluster {OURS}")), "{why}");
        let change = Change::default().write(Write::put(&Key::NextTree, "1"));
        let error = checked.change(change).await.unwrap_err();
        assert!(matches!(error, Error::Foreign(_)), "{error}");
        // A node that starts now does not take it over either.
        let started = Mirror::start(Arc::new(foreign.clone()), OURS, None).await;
        let mut state = started.state();
        let told = state.wait_for(|state| state.is_foreign);
        tokio::time::timeout(SOON, told).await.unwrap().unwrap();
        assert_eq!((started.items().len(), state.borrow().is_current), (0, false));
        etcd.directory.replace(&etcd.newest);
        etcd.is_foreign(false).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_is_not_changed_by_an_older_directory() {
    let etcd = Restored::new().await;
    let meta = DirectoryMeta::new(&etcd.mirror, NodeId(1), Used::default);
    etcd.directory.replace(&etcd.backup);
    // The mirror may have found it by now, or not.
    apart(move || {
        for error in [
            meta.reserve_trees(1).unwrap_err(),
            meta.next_version().unwrap_err(),
            meta.versioned_tables().unwrap_err(),
            meta.intend(&[TreeId(16)]).unwrap_err(),
        ] {
            assert!(matches!(error, table::Error::Unavailable(_)), "{error}");
        }
    })
    .await;
    assert!(etcd.backup.read(Key::COUNTERS).await.unwrap().items.is_empty());
}

/// The numbers that a node with tables uses.
fn used() -> Used {
    Used { tree: 40, version: 9, node: 3 }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_a_node_uses_are_not_given_again_by_a_directory_that_forgot_them() {
    let etcd = Restored::new().await;
    let meta = DirectoryMeta::new(&etcd.mirror, NodeId(1), used);
    apart(move || {
        assert_eq!(meta.reserve_trees(2).unwrap(), TreeId(41));
        assert_eq!(meta.reserve_trees(1).unwrap(), TreeId(43), "of those set aside");
        meta.abandon(&[TreeId(43)]).unwrap();
        assert!(meta.reserve_trees(1).unwrap() > TreeId(44), "none that was set aside");
        assert!(meta.next_version().unwrap() > 9);
    })
    .await;
}

async fn counter(directory: &dyn Directory, key: &Key) -> Option<Vec<u8>> {
    Some(directory.get(key).await.unwrap().item()?.value.to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_raises_counters_before_it_gets_replicas() {
    let dir = tempfile::tempdir().unwrap();
    let directory = local(&dir.path().join("directory"));
    found(&directory, &cluster(OURS.0)).await.unwrap();
    let data = dir.path().join("node");
    std::fs::create_dir(&data).unwrap();
    let joined = join(&directory, &data, &place("a:1"), 0).await.unwrap();
    let own = || Own { used: used(), ..Own::default() };
    let presence = Presence::start(Arc::new(directory.clone()), joined, place("a:1"), own);
    alive(&presence).await;
    for (key, next) in [(Key::NextTree, 41), (Key::NextVersion, 10), (Key::NextNode, 4)] {
        let value = [&[1, next][..], &[0; 7]].concat();
        assert_eq!(counter(&directory, &key).await, Some(value), "{key}");
    }
}

async fn started(directory: &dyn Directory, dir: &Path) -> cluster::directory::Joined {
    join(directory, dir, &place("a:1"), 0).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_node_starts_while_the_directory_is_full_empty_or_anothers() {
    let dir = tempfile::tempdir().unwrap();
    let newest = local(&dir.path().join("newest"));
    found(&newest, &cluster(OURS.0)).await.unwrap();
    let other = local(&dir.path().join("other"));
    found(&other, &cluster(OURS.0 + 1)).await.unwrap();
    let empty = local(&dir.path().join("empty"));
    let (data, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let directory = Faulty::new(newest.clone());
    let first = started(&*directory, data.path()).await;
    assert_eq!((first.boot, first.unregistered), (1, None));
    // A full etcd.
    directory.set_full(true);
    let joined = started(&*directory, data.path()).await;
    assert!(matches!(joined.unregistered, Some(Error::Full(_))), "{joined:?}");
    let error = join(&*directory, fresh.path(), &place("b:1"), 0).await.unwrap_err();
    assert!(matches!(error, Error::Full(_)), "a new node needs an id: {error}");
    directory.set_full(false);
    // An emptied one, and another cluster's.
    for (foreign, text) in [(&empty, "restore its backup"), (&other, "has cluster")] {
        directory.replace(foreign);
        let joined = started(&*directory, data.path()).await;
        let why = joined.unregistered.clone().map(|error| error.to_string()).unwrap_or_default();
        assert!(why.contains(text), "{why}");
        assert_eq!(joined.member.cluster, OURS);
        assert!(foreign.read(Key::NODES).await.unwrap().items.is_empty());
    }
    directory.replace(&empty);
    assert!(join(&*directory, fresh.path(), &place("b:1"), 0).await.is_err());
    // The node registers when the directory is back.
    directory.replace(&newest);
    let joined = started(&*directory, data.path()).await;
    assert_eq!((joined.boot, joined.unregistered), (5, None));
}

#[tokio::test(start_paused = true)]
async fn a_full_directory_keeps_the_signs_of_life_that_it_has() {
    let dir = tempfile::tempdir().unwrap();
    // Leases end by this clock, and the node turns by the runtime's: both go on together.
    let clock = Arc::new(Mutex::new(0));
    let time = Arc::new(Steps(Arc::clone(&clock)));
    let directory = LocalDirectory::new(dir.path().join("directory"), time);
    found(&directory, &cluster(OURS.0)).await.unwrap();
    let directory = Faulty::new(directory);
    let data = tempfile::tempdir().unwrap();
    let joined = started(&*directory, data.path()).await;
    let steps = Arc::clone(&clock);
    // The log grows all the time.
    let own = move || Own { log_end: *steps.lock() as u64 + 1, ..Own::default() };
    let presence = Presence::start(directory.clone(), joined, place("a:1"), own);
    alive(&presence).await;
    directory.set_full(true);
    for second in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        *clock.lock() += 1_000_000;
        let signs = directory.read(Key::ALIVE).await.unwrap().items.len();
        assert_eq!(signs, 1, "after {second} s");
    }
}

/// A clock that stands still between two steps of a test.
struct Steps(Arc<Mutex<i64>>);

impl Clock for Steps {
    fn now_micros(&self) -> i64 {
        *self.0.lock()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.now_micros() as u64)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_started_without_the_directory_is_found_when_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let newest = local(&dir.path().join("newest"));
    found(&newest, &cluster(OURS.0)).await.unwrap();
    let directory = Faulty::new(newest.clone());
    let data = tempfile::tempdir().unwrap();
    let joined = started(&*directory, data.path()).await;
    let copy = super::nodes::copy_of(data.path());
    let own = |log_end| move || Own { log_end, ..Own::default() };
    let original = Presence::start(directory.clone(), joined, place("a:1"), own(500));
    alive(&original).await;
    original.leave().await;
    let mark = counter(&newest, &Key::Mark(NodeId(1))).await;
    // The copy starts while nothing answers that knows it, and writes more than the original did.
    let gone = local(&dir.path().join("gone"));
    directory.replace(&gone);
    let joined = join(&*directory, copy.path(), &place("b:1"), 499).await.unwrap();
    assert!(joined.unregistered.is_some());
    let presence = Presence::start(directory.clone(), joined, place("b:1"), own(900));
    directory.replace(&newest);
    let mut state = presence.state();
    let replaced =
        state.wait_for(|state| matches!(state, cluster::directory::PresenceState::Replaced(_)));
    tokio::time::timeout(SOON, replaced).await.unwrap().unwrap();
    assert_eq!(counter(&newest, &Key::Mark(NodeId(1))).await, mark, "the evidence stays");
    assert_eq!(join(&*directory, data.path(), &place("a:1"), 500).await.unwrap().boot, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_does_not_lower_the_mark_of_another_start() {
    let dir = tempfile::tempdir().unwrap();
    let newest = local(&dir.path().join("newest"));
    found(&newest, &cluster(OURS.0)).await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let joined = started(&newest, data.path()).await;
    let mark = Key::Mark(NodeId(1));
    put(&newest, &mark, "\u{1}\u{9}\0\0\0\0\0\0\0").await;
    let own = || Own { log_end: 8, ..Own::default() };
    let presence = Presence::start(Arc::new(newest.clone()), joined, place("a:1"), own);
    let mut state = presence.state();
    let replaced =
        state.wait_for(|state| matches!(state, cluster::directory::PresenceState::Replaced(_)));
    tokio::time::timeout(SOON, replaced).await.unwrap().unwrap();
    assert_eq!(counter(&newest, &mark).await.unwrap()[1], 9);
}
