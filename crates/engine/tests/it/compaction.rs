//! Compaction through the public API, on a machine that loses power or has no space.

use crate::support::{TREE, collect, small};
use base::env::sim::{Fault, FaultPoint, SimEnv};
use engine::elision_policy::{ElisionPolicy, ElisionRules, Verdict};
use engine::internals::OwnedRow;
use engine::{
    Column, Durability, Engine, Error, FamilyId, Options, RowRange, ScanRequest, Timestamp,
    TreeOptions, WriteBatch,
};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "data";
const FAMILY: FamilyId = FamilyId(1);

fn open(machine: &SimEnv) -> Engine {
    let options = Options { durability: Durability::Sync, ..small() };
    let engine = Engine::open_with_env(machine.env(), Path::new(DIR), options).unwrap();
    if engine.trees().is_empty() {
        engine.create_tree(TREE, TreeOptions::default()).unwrap();
    }
    engine
}

fn all(engine: &Engine) -> Vec<OwnedRow> {
    collect(engine.tree(TREE).unwrap().scan(&ScanRequest::rows(RowRange::ALL), None).unwrap())
}

fn ssts(machine: &SimEnv) -> usize {
    let files = machine.fs.files();
    files.iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "sst")).count()
}

/// Versions of 40 rows, two thirds of them deleted again, in three runs.
fn fill(engine: &Engine) {
    for round in 0..3i64 {
        let mut batch = WriteBatch::new();
        for row in 0..40u8 {
            let value = vec![row; 100 + usize::from(row)];
            batch.put(&[row], Column::of(FAMILY, b"q"), Timestamp(round), &value);
            if round == 1 && row % 3 == 0 {
                batch.delete_row(&[row]);
            }
        }
        if round == 2 {
            batch.drop_row_range(&[5], Some(&[15]));
        }
        engine.tree(TREE).unwrap().write(&batch).unwrap();
        engine.tree(TREE).unwrap().flush().unwrap();
    }
}

#[test]
fn power_lost_at_any_step_of_a_compaction_loses_nothing() {
    let machine = SimEnv::new(7);
    let engine = open(&machine);
    fill(&engine);
    let want = all(&engine);
    let first = machine.fs.operations();
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    let last = machine.fs.operations();
    assert!(last - first > 5, "{first} to {last}");
    for operation in first..=last {
        let machine = SimEnv::new(7);
        let engine = open(&machine);
        fill(&engine);
        machine.fs.power_off_at(operation);
        let _ = engine.tree(TREE).and_then(|tree| tree.compact_range(&RowRange::ALL));
        drop(engine);
        let machine = machine.power_loss();
        let engine = open(&machine);
        assert_eq!(all(&engine), want, "power lost at {operation}");
        engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
        assert_eq!(all(&engine), want, "compacted after power was lost at {operation}");
        assert_eq!(ssts(&machine), 1, "power lost at {operation}");
    }
}

#[test]
fn a_full_disk_fails_a_compaction_and_nothing_else() {
    let machine = SimEnv::new(8);
    let engine = open(&machine);
    fill(&engine);
    let (want, before) = (all(&engine), ssts(&machine));
    machine.fs.set_capacity(machine.fs.used() + 100);
    let failed = engine.tree(TREE).and_then(|tree| tree.compact_range(&RowRange::ALL));
    assert!(matches!(failed, Err(Error::NoSpace { .. })), "{failed:?}");
    assert_eq!((all(&engine), ssts(&machine)), (want.clone(), before));
    machine.fs.set_capacity(u64::MAX);
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    assert_eq!((all(&engine), ssts(&machine)), (want, 1));
    engine
        .tree(TREE)
        .unwrap()
        .write(&{
            let mut batch = WriteBatch::new();
            batch.delete_row(&[39]);
            batch
        })
        .unwrap();
}

#[test]
fn a_failed_sync_of_an_sstable_names_it_and_the_next_flush_succeeds() {
    let machine = SimEnv::new(10);
    let engine = open(&machine);
    let mut batch = WriteBatch::new();
    batch.put(b"row", Column::of(FAMILY, b"q"), Timestamp(1), b"value");
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    machine.fs.inject(FaultPoint::Sync, 0, 1, Fault::Io);
    match engine.tree(TREE).and_then(|tree| tree.flush()) {
        Err(Error::Io { op: "sync", path, .. }) => {
            assert!(path.extension().is_some_and(|extension| extension == "sst"), "{path:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((all(&engine).len(), ssts(&machine)), (1, 0));
    engine.tree(TREE).unwrap().flush().unwrap();
    assert_eq!((all(&engine).len(), ssts(&machine)), (1, 1));
}

/// Two versions a column, none older than 2 µs of the clock.
struct Rules;

struct Policy {
    oldest: Timestamp,
}

impl ElisionRules for Rules {
    fn policy(&self, now_micros: i64) -> Box<dyn ElisionPolicy> {
        Box::new(Policy { oldest: Timestamp(now_micros - 2) })
    }
}

impl ElisionPolicy for Policy {
    fn verdict(&self, _: FamilyId, version: u32, timestamp: Timestamp) -> Verdict {
        let elide = version >= 2 || timestamp < self.oldest;
        if elide { Verdict::Elide } else { Verdict::Keep }
    }
}

#[test]
fn compaction_drops_what_the_rules_call_garbage_unless_a_snapshot_needs_it() {
    let machine = SimEnv::new(9);
    machine.clock.set_micros(6);
    let engine = open(&machine);
    engine.tree(TREE).unwrap().set_elision_rules(Arc::new(Rules)).unwrap();
    let mut batch = WriteBatch::new();
    for timestamp in 0..5 {
        batch.put(b"old", Column::of(FAMILY, b"q"), Timestamp(timestamp), b"v");
        batch.put(b"many", Column::of(FAMILY, b"q"), Timestamp(timestamp + 10), b"v");
    }
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    let snapshot = engine.snapshot();
    let mut batch = WriteBatch::new();
    batch.put(b"many", Column::of(FAMILY, b"q"), Timestamp(20), b"v");
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    engine.tree(TREE).unwrap().flush().unwrap();

    let timestamps = |row: &[u8]| {
        let rows = collect(
            engine
                .tree(TREE)
                .unwrap()
                .scan(&ScanRequest::rows(RowRange::single(row)), None)
                .unwrap(),
        );
        let cells = rows.into_iter().flat_map(|(_, cells)| cells);
        cells.map(|cell| cell.timestamp.0).collect::<Vec<_>>()
    };
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    assert_eq!(timestamps(b"old"), [4]);
    assert_eq!(timestamps(b"many"), [20, 14, 13], "13 is the snapshot's second version");
    drop(snapshot);
    machine.clock.set_micros(7);
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    assert_eq!(timestamps(b"old"), [0i64; 0]);
    assert_eq!(timestamps(b"many"), [20, 14]);
}
