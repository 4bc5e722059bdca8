//! The copy of a directory in memory.

use super::etcd::Etcd;
use super::nodes::cluster;
use super::{OURS, SOON, each};
use cluster::directory::{
    Change, Directory, Error, Key, LocalDirectory, Mirror, Outcome, Revision, Write, found,
};
use std::sync::Arc;
use std::time::Duration;

async fn put(directory: &dyn Directory, key: &Key, value: &str) -> Revision {
    let change = Change::default().write(Write::put(key, value.to_owned()));
    match directory.change(change).await.unwrap() {
        Outcome::Done(revision) => revision,
        Outcome::Conflict => panic!("a change in conflict"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_shows_every_change_and_forgets_what_is_removed() {
    for tried in each() {
        let directory = &tried.directory;
        found(&**directory, &cluster(OURS.0)).await.unwrap();
        let before = put(&**directory, &Key::Record("a".into()), "1").await;
        let mirror = Mirror::start(directory.clone(), OURS, None).await;
        mirror.reaches(before, SOON).await.unwrap();
        for round in 0..20 {
            put(&**directory, &Key::Record(format!("r{round}")), "x").await;
        }
        let remove = Change::default().write(Write::remove(&Key::Record("a".into())));
        directory.change(remove).await.unwrap();
        // It is of interest to the next start of its node only.
        let mark = Key::Mark(cluster::group::NodeId(1));
        put(&**directory, &mark, "9").await;
        let last = put(&**directory, &Key::NextTree, "2").await;
        mirror.reaches(last, SOON).await.unwrap();
        assert_eq!(mirror.below(Key::RECORDS).len(), 20);
        assert_eq!(mirror.get(&Key::Record("a".into())), None);
        assert_eq!(mirror.get(&Key::NextTree).unwrap().revision, last);
        let mut all = directory.read("").await.unwrap().items;
        all.retain(|item| item.key != mark.to_string());
        assert_eq!(mirror.items().values().cloned().collect::<Vec<_>>(), all);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_serves_while_etcd_is_gone_and_catches_up_later() {
    let Some(mut etcd) = Etcd::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let saved = dir.path().join("copy");
    let directory = etcd.directory("stele/");
    found(&*directory, &cluster(OURS.0)).await.unwrap();
    let before = put(&*directory, &Key::NextTree, "1").await;
    let mirror = Mirror::start(directory.clone(), OURS, Some(saved.clone())).await;
    mirror.reaches(before, SOON).await.unwrap();
    while !saved.exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    etcd.kill();
    let mut state = mirror.state();
    let told = state.wait_for(|state| state.trouble.is_some());
    tokio::time::timeout(SOON, told).await.expect("the trouble is told").unwrap();
    assert_eq!(&mirror.get(&Key::NextTree).unwrap().value[..], b"1");

    // A start without etcd finds the copy on disk, and knows that it may be old.
    let late = Mirror::start(directory.clone(), OURS, Some(saved)).await;
    assert_eq!(&late.get(&Key::NextTree).unwrap().value[..], b"1");
    let error = late.current(Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");

    etcd.restart();
    let change = || Change::default().write(Write::put(&Key::NextNode, "2"));
    let begun = std::time::Instant::now();
    let revision = loop {
        match directory.change(change()).await {
            Ok(Outcome::Done(revision)) => break revision,
            other => assert!(begun.elapsed() < SOON, "{other:?}"),
        }
    };
    for mirror in [mirror, late] {
        mirror.reaches(revision, SOON).await.unwrap();
        assert_eq!(&mirror.get(&Key::NextNode).unwrap().value[..], b"2");
        assert_eq!(mirror.state().borrow().trouble, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_copy_on_disk_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let file = LocalDirectory::new(dir.path().join("d"), Arc::new(base::env::SystemClock));
    let saved = dir.path().join("copy");
    std::fs::write(&saved, b"STELEDIR rubbish").unwrap();
    let directory: Arc<dyn Directory> = Arc::new(file);
    found(&*directory, &cluster(OURS.0)).await.unwrap();
    let revision = put(&*directory, &Key::NextTree, "1").await;
    let mirror = Mirror::start(directory, OURS, Some(saved)).await;
    mirror.reaches(revision, SOON).await.unwrap();
}
