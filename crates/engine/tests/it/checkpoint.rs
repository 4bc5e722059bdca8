//! A checkpoint while others write: one moment, of all trees.

use base::env::Env;
use engine::check::check_dir;
use engine::{
    Column, Durability, Engine, Error, FamilyId, Options, RowRange, Timestamp, TreeId, TreeOptions,
    WriteBatch,
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
    Engine::open(Env::real(2), dir, options(durability)).unwrap()
}

fn write(engine: &Engine, tree: TreeId, number: u64) {
    let mut batch = WriteBatch::new();
    let column = Column::of(FamilyId(1), b"count");
    batch.put(b"counter", column, Timestamp(0), &number.to_be_bytes());
    let row = (number % 5000).to_be_bytes();
    batch.put(&row, column, Timestamp(0), &[number as u8; 100]);
    engine.write(tree, &batch).unwrap();
}

fn counter(engine: &Engine, tree: TreeId) -> u64 {
    let value = engine.get(tree, b"counter", FamilyId(1), b"count", None).unwrap();
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
                    engine.compact_range(FIRST, &RowRange::ALL).unwrap();
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
