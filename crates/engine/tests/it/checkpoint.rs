//! A checkpoint while others write: one moment, of all trees.

use base::env::Env;
use engine::check::check_dir;
use engine::checkpoint::{Contents, Copied, DirFile, checkpoint_dir, contents, store_id};
use engine::{
    Column, ColumnOf, Durability, Engine, Error, FamilyId, Options, RowRange, Timestamp, TreeId,
    TreeOptions, WriteBatch,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const FIRST: TreeId = TreeId(1);
const SECOND: TreeId = TreeId(2);

fn options(durability: Durability) -> Options {
    Options {
        durability,
        memtable_bytes_max: 64 << 10,
        log_segment_bytes: 64 << 10,
        cache_bytes_max: Some(4 << 20),
        ..Options::default()
    }
}

fn open(dir: &Path, durability: Durability) -> Engine {
    Engine::open(dir, options(durability)).unwrap()
}

fn write(engine: &Engine, tree: TreeId, number: u64) {
    let mut batch = WriteBatch::new();
    let column = Column::of(FamilyId(1), b"count");
    batch.put(b"counter", column, Timestamp(0), &number.to_be_bytes());
    let row = (number % 5000).to_be_bytes();
    batch.put(&row, column, Timestamp(0), &[number as u8; 100]);
    engine.tree(tree).unwrap().write(&batch).unwrap();
}

fn counter(engine: &Engine, tree: TreeId) -> u64 {
    let value = engine
        .tree(tree)
        .unwrap()
        .get(ColumnOf::new(b"counter", FamilyId(1), b"count"), None)
        .unwrap();
    value.map_or(0, |value| u64::from_be_bytes(value.1.try_into().unwrap()))
}

#[test]
fn a_checkpoint_is_one_moment_of_all_trees() {
    for durability in [Durability::Sync, Durability::None] {
        let root = tempfile::tempdir().unwrap();
        let engine = open(&root.path().join("data"), durability);
        for tree in [FIRST, SECOND] {
            engine.create_tree(tree, TreeOptions::default()).unwrap();
        }
        let (written, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The second tree is never ahead of the first, and never more than one behind.
                for number in 1.. {
                    write(&engine, FIRST, number);
                    write(&engine, SECOND, number);
                    written.store(number, Ordering::SeqCst);
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                }
            });
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    engine.tree(FIRST).unwrap().compact_range(&RowRange::ALL).unwrap();
                }
            });
            for round in 0..8 {
                let before = written.load(Ordering::SeqCst);
                while written.load(Ordering::SeqCst) < before + 100 {
                    std::thread::yield_now();
                }
                let acknowledged = written.load(Ordering::SeqCst);
                let into = root.path().join(format!("checkpoint-{round}"));
                engine.checkpoint(&into).unwrap();
                let after = written.load(Ordering::SeqCst) + 1;
                let report = check_dir(&Env::real(1), &into, &mut |_| ()).unwrap();
                assert_eq!(report.findings, [], "round {round}");
                let copy = open(&into, durability);
                let (first, second) = (counter(&copy, FIRST), counter(&copy, SECOND));
                assert!((acknowledged..=after).contains(&first), "{acknowledged} {first} {after}");
                assert!(first == second || first == second + 1, "{first} and {second}");
                write(&copy, FIRST, 1 << 40);
            }
            stop.store(true, Ordering::SeqCst);
        });
        assert!(counter(&engine, FIRST) < 1 << 40, "a copy is apart from what it was made of");
    }
}

#[test]
fn a_checkpoint_needs_an_empty_directory_and_an_open_engine() {
    let root = tempfile::tempdir().unwrap();
    let engine = open(&root.path().join("data"), Durability::Sync);
    let into = root.path().join("checkpoint");
    engine.checkpoint(&into).unwrap();
    for taken in [into.as_path(), &root.path().join("data")] {
        let refused = engine.checkpoint(taken);
        assert!(matches!(refused, Err(Error::Unusable { .. })), "{refused:?}");
    }
    assert_eq!(open(&into, Durability::Sync).trees(), []);
    engine.close().unwrap();
    let closed = engine.checkpoint(&root.path().join("late"));
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
}

/// The files of a directory that hold data, and what is in them.
fn bytes(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap() != "LOCK")
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn a_closed_directory_is_copied_without_being_changed() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let engine = open(&dir, Durability::Sync);
    engine.create_tree(FIRST, TreeOptions::default()).unwrap();
    (1..=1000).for_each(|number| write(&engine, FIRST, number));
    engine.tree(FIRST).unwrap().flush().unwrap();
    (1001..=1010).for_each(|number| write(&engine, FIRST, number));
    let (env, same, other) = (Env::real(1), root.path().join("same"), root.path().join("other"));
    let busy = checkpoint_dir(&env, &dir, &same, Copied::SameStore);
    assert!(matches!(busy, Err(Error::Unusable { .. })) && !same.exists(), "{busy:?}");
    engine.close().unwrap();
    drop(engine);

    let store = store_id(&env, &dir).unwrap();
    assert_eq!(store_id(&env, &dir).unwrap(), store);
    let before = bytes(&dir);
    checkpoint_dir(&env, &dir, &same, Copied::SameStore).unwrap();
    checkpoint_dir(&env, &dir, &other, Copied::OtherStore).unwrap();
    assert!(bytes(&dir) == before, "the directory was changed");
    let [source, same_has, other_has] =
        [&dir, &same, &other].map(|dir| contents(&env.fs, dir).unwrap());
    assert_eq!(source.point.sequence, 2020, "two mutations a write");
    assert!(source.point.commit_micros > 0);
    assert_eq!((same_has.point, other_has.point), (source.point, source.point));
    assert_eq!((source.store, same_has.store), (Some(store), Some(store)));
    assert!(other_has.store.is_some_and(|other| other != store));
    let ssts = |contents: &Contents| {
        let ssts = contents.files.iter().filter(|file| matches!(file.file, DirFile::Sst(_)));
        ssts.map(|file| file.identity.unwrap()).collect::<Vec<_>>()
    };
    assert!(!ssts(&source).is_empty());
    assert_eq!(ssts(&source), ssts(&other_has));
    let again = checkpoint_dir(&env, &dir, &same, Copied::SameStore);
    assert!(matches!(again, Err(Error::Unusable { .. })), "{again:?}");

    // The copies and the original go on apart.
    for (number, dir) in [&dir, &same, &other].into_iter().enumerate() {
        assert_eq!(check_dir(&env, dir, &mut |_| ()).unwrap().findings, []);
        let engine = open(dir, Durability::Sync);
        assert_eq!(counter(&engine, FIRST), 1010);
        write(&engine, FIRST, 2000 + number as u64);
        engine.tree(FIRST).unwrap().compact_range(&RowRange::ALL).unwrap();
    }
    for (number, dir) in [&dir, &same, &other].into_iter().enumerate() {
        assert_eq!(counter(&open(dir, Durability::Sync), FIRST), 2000 + number as u64);
    }
    let new = ssts(&contents(&env.fs, &same).unwrap());
    let apart = ssts(&contents(&env.fs, &other).unwrap());
    assert!(new.iter().all(|identity| !apart.contains(identity)), "{new:?} {apart:?}");
}

/// What an interrupted open would make of the log, it makes of the copy: the tail is torn in both.
#[test]
fn the_directory_of_a_process_that_was_killed_is_copied_as_it_lies() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let engine = open(&dir, Durability::Sync);
    engine.create_tree(FIRST, TreeOptions::default()).unwrap();
    (1..=100).for_each(|number| write(&engine, FIRST, number));
    let killed = root.path().join("killed");
    std::fs::create_dir(&killed).unwrap();
    for (path, content) in bytes(&dir) {
        std::fs::write(killed.join(path.file_name().unwrap()), content).unwrap();
    }
    let copy = root.path().join("copy");
    checkpoint_dir(&Env::real(1), &killed, &copy, Copied::OtherStore).unwrap();
    assert_eq!(contents(&Env::real(1).fs, &copy).unwrap().point.sequence, 200);
    assert_eq!(counter(&open(&copy, Durability::Sync), FIRST), 100);
    std::fs::remove_file(killed.join("CURRENT")).unwrap();
    let refused = checkpoint_dir(&Env::real(1), &killed, &root.path().join("x"), Copied::SameStore);
    assert!(matches!(refused, Err(Error::Corruption(_))), "{refused:?}");
}
