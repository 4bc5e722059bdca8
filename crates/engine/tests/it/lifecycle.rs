//! Opening, closing, and what is refused.

use crate::support::{TREE, collect, open, small};
use base::env::task::Job;
use base::env::{Env, Tasks};
use engine::{
    Column, Engine, Error, FamilyId, Options, Reading, ScanRequest, Timestamp, TreeId, TreeOptions,
    WriteBatch,
};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn put(row: &[u8], value: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(row, Column::of(FamilyId(1), b"q"), Timestamp(1), value);
    batch
}

#[test]
fn a_directory_in_use_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), small());
    let second = Engine::open_with_env(base::env::Env::real(1), dir.path(), small());
    match second.map(|_| ()) {
        Err(Error::Unusable { what, .. }) => assert!(what.contains("another process"), "{what}"),
        other => panic!("{other:?}"),
    }
    drop(first);
    open(dir.path(), small());
}

#[test]
fn unflushed_writes_are_there_after_reopening_however_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    for (round, clean) in [(1u8, true), (2, false), (3, true)] {
        let engine = open(dir.path(), small());
        if round == 1 {
            engine.create_tree(TREE, TreeOptions::default()).unwrap();
        }
        let written = || engine.tree(TREE).unwrap().metrics().unwrap().get("written_bytes_total");
        assert_eq!(written(), Some(0), "writes of before the opening are not counted again");
        engine.tree(TREE).unwrap().write(&put(&[round], b"v")).unwrap();
        assert!(written() > Some(0));
        let rows = collect(engine.tree(TREE).unwrap().scan(&ScanRequest::default(), None).unwrap());
        assert_eq!(rows.len(), usize::from(round));
        if clean {
            engine.close().unwrap();
            let refused = engine.tree(TREE).and_then(|tree| tree.write(&put(b"x", b"v")));
            assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
        }
    }
}

#[test]
fn metrics_of_groups_of_trees_are_parts_of_all() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    let trees = [1, 2, 3].map(TreeId);
    for tree in trees {
        engine.create_tree(tree, TreeOptions::default()).unwrap();
        for n in 0..tree.0 {
            engine.tree(tree).unwrap().write(&put(&n.to_be_bytes(), b"v")).unwrap();
        }
        engine.tree(tree).unwrap().flush().unwrap();
    }
    let [one, two, three] = trees;
    let of = |tree| engine.tree(tree).unwrap().metrics().unwrap();
    let parts = engine.metrics_by_groups(&[vec![one], vec![three], vec![two, TreeId(9)]]);
    assert_eq!(parts.groups, [Some(of(one)), Some(of(three)), None], "a tree is not there");
    let parts = engine.metrics_by_groups(&[vec![one, three]]);
    assert_eq!(parts.others, of(two));
    let group = parts.groups[0].as_ref().unwrap();
    for Reading { name, .. } in &of(one).readings {
        let sum = Some(group.get(name).unwrap() + parts.others.get(name).unwrap());
        assert_eq!((parts.all.get(name), engine.metrics().get(name)), (sum, sum), "{name}");
        assert_eq!(
            of(one).get(name).unwrap() + of(three).get(name).unwrap(),
            group.get(name).unwrap()
        );
    }
    assert!(group.get("flushed_bytes_total").unwrap() > 0 && group.get("level_runs") == Some(2));
    engine.drop_tree(two).unwrap();
    let dropped = engine.metrics_by_groups(&[vec![one, three]]).others;
    assert_eq!(dropped.get("written_bytes_total"), parts.others.get("written_bytes_total"));
    assert_eq!(dropped.get("level_runs"), Some(0));
}

#[test]
fn a_dropped_tree_is_gone_and_its_id_is_not_given_again() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    for n in 0..2_000u32 {
        engine.tree(TREE).unwrap().write(&put(&n.to_be_bytes(), &[1; 100])).unwrap();
    }
    let mut open_scan = engine.tree(TREE).unwrap().scan(&ScanRequest::default(), None).unwrap();
    engine.drop_tree(TREE).unwrap();
    assert!(matches!(
        engine.tree(TREE).and_then(|tree| tree.write(&put(b"x", b"v"))),
        Err(Error::UnknownTree(TREE))
    ));
    assert!(open_scan.next_row().unwrap().is_some(), "an open scan goes on");
    assert!(matches!(
        engine.create_tree(TREE, TreeOptions::default()),
        Err(Error::InvalidArgument(_))
    ));
    drop((open_scan, engine));
    let engine = open(dir.path(), small());
    assert_eq!(engine.trees(), []);
    let ssts = std::fs::read_dir(dir.path()).unwrap();
    let ssts = ssts.filter(|entry| {
        entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "sst")
    });
    assert_eq!(ssts.count(), 0, "its files are removed");
    engine.create_tree(TreeId(2), TreeOptions::default()).unwrap();
}

#[test]
fn limits_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let bad = Options { memory_bytes_max: 5, ..Options::default() };
    match Engine::open_with_env(base::env::Env::real(1), dir.path(), bad).map(|_| ()) {
        Err(Error::InvalidArgument(what)) => assert!(what.contains("memory_bytes_max"), "{what}"),
        other => panic!("{other:?}"),
    }
    let engine = open(dir.path(), small());
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    match engine.tree(TREE).and_then(|tree| tree.write(&put(&[0; (64 << 10) + 1], b"v"))) {
        Err(Error::InvalidArgument(what)) => assert!(what.contains("65536"), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn compaction_leaves_one_run_and_samples_cut_it() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    for n in 0..5_000u32 {
        let row = (n.wrapping_mul(2_654_435_761)).to_be_bytes();
        engine.tree(TREE).unwrap().write(&put(&row, &[1; 100])).unwrap();
    }
    engine.tree(TREE).unwrap().compact_range(&engine::RowRange::ALL).unwrap();
    let metrics = engine.metrics();
    assert_eq!(metrics.get("level_runs{level=\"0\"}"), Some(0));
    assert_eq!(metrics.get("level_runs{level=\"1\"}"), Some(0));
    assert_eq!(metrics.get("level_runs{level=\"2\"}"), Some(1));
    assert!(metrics.get("flushes_total") > Some(1), "{metrics:?}");
    let bytes = engine.tree(TREE).unwrap().approximate_bytes(&engine::RowRange::ALL).unwrap();
    let samples = engine.tree(TREE).unwrap().sample_rows(bytes / 8).unwrap();
    assert!((4..=16).contains(&samples.len()), "{}", samples.len());
    assert!(samples.is_sorted());
}

/// A process can be killed between saying which segments of the log go and removing them.
#[test]
fn segments_that_a_kill_left_behind_go_with_the_next_open() {
    let (home, aside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = home.path();
    let options = Options { memtable_bytes_max: 1 << 20, ..small() };
    let segments = || -> BTreeSet<OsString> {
        let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| Path::new(name).extension().is_some_and(|e| e == "log")).collect()
    };
    let copy = |name: &OsString, from: &Path, to: &Path| {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    };
    let engine = open(dir, options.clone());
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    for row in 0..300u32 {
        engine.tree(TREE).unwrap().write(&put(&row.to_be_bytes(), &[7; 1000])).unwrap();
    }
    let before = segments();
    before.iter().for_each(|name| copy(name, dir, aside.path()));
    engine.tree(TREE).unwrap().flush().unwrap();
    engine.close().unwrap();
    drop(engine);
    let gone: Vec<_> = before.difference(&segments()).cloned().collect();
    assert!(gone.len() > 2, "a flush lets segments go: {gone:?}");
    gone.iter().for_each(|name| copy(name, aside.path(), dir));

    let engine = open(dir, options);
    let left = segments();
    assert!(gone.iter().all(|name| !left.contains(name)), "{left:?} have some of {gone:?}");
    assert_eq!(
        collect(engine.tree(TREE).unwrap().scan(&ScanRequest::default(), None).unwrap()).len(),
        300
    );
    engine.close().unwrap();
}

/// Background work that never begins.
struct Idle;

impl Tasks for Idle {
    fn submit(&self, _: Job) {}

    fn submit_later(&self, _: Duration, _: Job) {}

    fn threads(&self) -> usize {
        1
    }

    fn help(&self) -> bool {
        false
    }
}

#[test]
fn writers_that_wait_for_room_in_a_tree_are_told_when_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env { tasks: Arc::new(Idle), ..Env::real(1) };
    let engine = Engine::open_with_env(env, dir.path(), small()).unwrap();
    let tree = engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"row", Column::of(FamilyId(1), b"q"), Timestamp(0), &[7; 4 << 10]);
    let stalls = || engine.metrics().get("write_stalls_total").unwrap();
    let told = std::thread::scope(|threads| {
        let writer = threads.spawn(|| (0..10_000).find_map(|_| tree.write(&batch).err()));
        crate::support::eventually("a writer waits for a flush", || stalls() > 0);
        engine.drop_tree(TREE).unwrap();
        writer.join().unwrap()
    });
    assert!(matches!(told, Some(Error::UnknownTree(TREE))), "{told:?}");
}

#[test]
fn threads_that_want_the_same_tree_get_one() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    for id in (1..20).map(TreeId) {
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| engine.tree_or_create(id, TreeOptions::default()).unwrap());
            }
        });
    }
    engine.drop_tree(TreeId(3)).unwrap();
    let again = engine.tree_or_create(TreeId(3), TreeOptions::default());
    assert!(matches!(again, Err(Error::InvalidArgument(_))), "{again:?}");
}
