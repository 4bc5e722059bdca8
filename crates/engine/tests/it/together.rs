//! Writes over several trees: seen whole, logged whole, replayed tree by tree. Power loss and models: the
//! simulation.

use crate::support::{TREE, eventually, small};
use base::env::sim::SimEnv;
use base::testing::block_on;
use engine::{
    ChangePosition, Column, ColumnOf, Durability, Engine, Error, FamilyId, Operand, Operator,
    Options, ReadUpTo, ReadyBatch, Timestamp, Tree, TreeId, TreeOptions, WriteBatch,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TREES: [TreeId; 3] = [TREE, TreeId(7), TreeId(3)];

fn column() -> Column<'static> {
    Column::of(FamilyId(1), b"q")
}

fn put(row: &[u8], value: &[u8]) -> ReadyBatch {
    let mut batch = WriteBatch::new();
    batch.put(row, column(), Timestamp(1), value);
    batch.ready().unwrap()
}

/// A batch that counts twice if it is applied twice.
fn count(row: &[u8]) -> ReadyBatch {
    let mut batch = WriteBatch::new();
    batch.merge(row, column(), Timestamp(1), Operand { operator: Operator::SumInt64, value: 1 });
    batch.ready().unwrap()
}

fn value(tree: &Tree, row: &[u8]) -> Option<Vec<u8>> {
    tree.get(ColumnOf::new(row, FamilyId(1), b"q"), None).unwrap().map(|(_, value)| value)
}

fn open(machine: &SimEnv, durability: Durability) -> Engine {
    let options = Options { durability, ..small() };
    let engine = Engine::open_with_env(machine.env(), Path::new("/data"), options).unwrap();
    for tree in TREES {
        engine.tree_or_create(tree, TreeOptions::default()).unwrap();
    }
    engine
}

#[test]
fn a_snapshot_sees_all_of_a_write_or_none() {
    for durability in [Durability::Sync, Durability::None] {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(dir.path(), Options { durability, ..small() }).unwrap();
        let trees = TREES.map(|tree| engine.create_tree(tree, TreeOptions::default()).unwrap());
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers = [0u8, 1].map(|writer| {
                let engine = &engine;
                scope.spawn(move || {
                    for round in 0..300u32 {
                        let value = [&[writer][..], &round.to_be_bytes(), &[9; 60]].concat();
                        let writes = TREES.map(|tree| (tree, put(b"row", &value))).to_vec();
                        if writer == 0 {
                            engine.write_together(writes).unwrap();
                        } else {
                            block_on(engine.write_together_in_task(writes, ())).unwrap();
                        }
                    }
                })
            });
            let reader = scope.spawn(|| {
                let mut looks = 0;
                while !done.load(Ordering::Relaxed) || looks == 0 {
                    let snapshot = engine.snapshot();
                    let column = ColumnOf::new(b"row", FamilyId(1), b"q");
                    let seen = trees.each_ref().map(|tree| {
                        tree.get(column, Some(&snapshot)).unwrap().map(|(_, value)| value)
                    });
                    assert!(seen.iter().all(|value| *value == seen[0]), "{seen:?}");
                    looks += 1;
                }
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            done.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
    }
}

#[test]
fn each_tree_is_replayed_from_its_own_flushed_position() {
    let mut machine = SimEnv::new(1);
    for round in 1..=6u64 {
        let engine = open(&machine, Durability::Sync);
        let trees = TREES.map(|tree| engine.tree(tree).unwrap());
        for tree in &trees {
            let found = value(tree, b"sum").unwrap_or_else(|| vec![0; 8]);
            assert_eq!(i64::from_be_bytes(found.try_into().unwrap()) as u64, 2 * (round - 1));
        }
        engine.write_together(TREES.map(|tree| (tree, count(b"sum"))).to_vec()).unwrap();
        trees[round as usize % 3].flush().unwrap();
        engine.write_together(TREES.map(|tree| (tree, count(b"sum"))).to_vec()).unwrap();
        if round % 2 == 0 {
            trees[(round as usize + 1) % 3].flush().unwrap();
        }
        machine = machine.kill();
        drop(engine);
    }
}

#[test]
fn what_cannot_be_one_write_is_refused_and_nothing_written() {
    let machine = SimEnv::new(1);
    let engine = open(&machine, Durability::Sync);
    let tree = engine.tree(TREE).unwrap();
    let mut open_time = WriteBatch::new();
    open_time.put_timed(b"row", column(), b"v");
    let open_time = open_time.ready().unwrap();
    let twice =
        vec![(TREE, put(b"row", b"1")), (TREES[1], put(b"row", b"1")), (TREE, put(b"row", b"2"))];
    let unknown = vec![(TREE, put(b"row", b"1")), (TreeId(99), put(b"row", b"1"))];
    let timed = vec![(TREE, put(b"row", b"1")), (TREES[1], open_time)];
    for (case, writes) in [("twice", twice), ("unknown", unknown), ("timed", timed)] {
        let refused = engine.write_together(writes.clone());
        assert!(
            matches!(refused, Err(Error::InvalidArgument(_) | Error::UnknownTree(_))),
            "{case}: {refused:?}"
        );
        let refused = block_on(engine.write_together_in_task(writes, ()));
        assert!(refused.is_err(), "{case}");
        assert_eq!(value(&tree, b"row"), None, "{case}");
    }
    let before = engine.snapshot().sequence();
    assert_eq!(engine.write_together(Vec::new()).unwrap(), before);
    let empty = WriteBatch::new().ready().unwrap();
    assert_eq!(engine.write_together(vec![(TREE, empty)]).unwrap(), before);
}

/// A store that never asked for it is still read by programs that know no such writes.
#[test]
fn only_segments_with_writes_over_several_trees_are_of_the_newer_version() {
    let mut machine = SimEnv::new(1);
    let versions = |machine: &SimEnv| -> Vec<u8> {
        let fs = machine.env().fs;
        let mut names = fs.list(Path::new("/data")).unwrap();
        names.retain(|name| name.extension().is_some_and(|ending| ending == "log"));
        names.sort();
        let version = |name| {
            let mut header = [0; 12];
            let file = fs.open_read(&Path::new("/data").join(name)).unwrap();
            file.read_exact_at(&mut header, 0).unwrap();
            header[8]
        };
        names.into_iter().map(version).collect()
    };
    let engine = open(&machine, Durability::Sync);
    let tree = engine.tree(TREE).unwrap();
    let alone = |value: &[u8]| engine.write_together(vec![(TREE, put(b"row", value))]).unwrap();
    alone(b"1");
    assert_eq!(versions(&machine), [1]);
    engine.write_together(TREES.map(|tree| (tree, put(b"row", b"2"))).to_vec()).unwrap();
    assert_eq!(versions(&machine), [1, 2]);
    alone(b"3");
    assert_eq!(versions(&machine), [1, 2]);
    machine = machine.kill();
    drop(tree);
    drop(engine);
    let engine = open(&machine, Durability::Sync);
    assert_eq!(value(&engine.tree(TREE).unwrap(), b"row"), Some(b"3".to_vec()));
    engine.write_together(vec![(TREE, put(b"row", b"4"))]).unwrap();
    assert_eq!(versions(&machine), [1, 2, 1]);
    TREES.iter().for_each(|tree| engine.tree(*tree).unwrap().flush().unwrap());
    eventually("segments that nothing needs leave the log", || versions(&machine) == [1]);
}

#[test]
fn readers_of_changes_get_the_batches_of_their_trees() {
    let machine = SimEnv::new(1);
    let engine = open(&machine, Durability::Sync);
    let wanted = [TREES[0], TREES[1]];
    engine.keep_changes(&wanted, Duration::from_secs(3600)).unwrap();
    for round in 0..40u8 {
        engine
            .write_together(TREES.map(|tree| (tree, put(&[round], &[7; 2000]))).to_vec())
            .unwrap();
        engine.tree(TREES[2]).unwrap().flush().unwrap();
        let other = vec![(TREES[2], put(b"x", b"x")), (TREES[1], put(&[round], b"y"))];
        engine.write_together(other).unwrap();
        if round % 10 == 0 {
            TREES.iter().for_each(|tree| engine.tree(*tree).unwrap().flush().unwrap());
        }
    }
    for bytes_max in [1, 3000, 1 << 20] {
        let mut position = ChangePosition::at(0);
        let mut found = Vec::new();
        loop {
            // Each call by another reader, so that each has to find its place.
            let mut reader = engine.change_reader(&wanted, position).unwrap();
            let changes = reader.read(bytes_max, ReadUpTo::Committed).unwrap();
            found.extend(changes.batches.iter().map(|batch| (batch.tree(), batch.encoded_len())));
            position = reader.position();
            if changes.caught_up {
                break;
            }
        }
        assert_eq!(found.len(), 40 * 3, "{bytes_max}");
        let mut trees = TREES.map(|tree| (tree, found.iter().filter(|of| of.0 == tree).count()));
        trees.sort();
        assert_eq!(trees, [(TREE, 40), (TREES[2], 0), (TREES[1], 80)]);
    }
}

/// Counts in three trees: what a machine shows that was on while so many writes were acknowledged.
fn counts(engine: &Engine) -> [i64; 3] {
    TREES.map(|tree| {
        let found = engine.tree(tree).ok().and_then(|tree| value(&tree, b"sum"));
        found.map_or(0, |sum| i64::from_be_bytes(sum.try_into().unwrap()))
    })
}

/// Writes until the power goes, with flushes of single trees in between. Returns how many were acknowledged.
fn write_until_the_end(machine: &SimEnv, durability: Durability) -> i64 {
    let options = Options { durability, log_segment_bytes: 64 << 10, ..small() };
    let Ok(engine) = Engine::open_with_env(machine.env(), Path::new("/data"), options) else {
        return 0;
    };
    for tree in TREES {
        if engine.tree_or_create(tree, TreeOptions::default()).is_err() {
            return 0;
        }
    }
    for written in 0..12 {
        let mut writes = TREES.map(|tree| (tree, count(b"sum"))).to_vec();
        // The last one is larger than a segment.
        if written == 11 {
            let mut batch = WriteBatch::new();
            batch.merge(
                b"sum",
                column(),
                Timestamp(1),
                Operand { operator: Operator::SumInt64, value: 1 },
            );
            batch.put(b"large", column(), Timestamp(1), &vec![7; 80 << 10]);
            writes[1].1 = batch.ready().unwrap();
        }
        if engine.write_together(writes).is_err() {
            return written;
        }
        if written % 3 == 2 && engine.tree(TREES[written as usize % 2]).unwrap().flush().is_err() {
            return written + 1;
        }
    }
    12
}

#[test]
fn power_lost_at_any_write_or_sync_takes_writes_whole() {
    for durability in [Durability::Sync, Durability::None] {
        let machine = SimEnv::new(1);
        assert_eq!(write_until_the_end(&machine, durability), 12);
        let operations = machine.fs.operations();
        assert!(operations > 40, "{operations}");
        for operation in 1..=operations {
            let machine = SimEnv::new(operation);
            machine.fs.power_off_at(operation);
            let acknowledged = write_until_the_end(&machine, durability);
            let mut machine = machine.power_loss();
            // And again after a recovery, which goes on from there.
            for _ in 0..2 {
                let engine = open(&machine, durability);
                let found = counts(&engine);
                assert_eq!(found, [found[0]; 3], "{durability:?}, power lost at {operation}");
                let whole = acknowledged..=acknowledged + 3;
                if durability == Durability::Sync {
                    assert!(whole.contains(&found[0]), "{operation}: {acknowledged}, {found:?}");
                }
                engine.write_together(TREES.map(|tree| (tree, count(b"sum"))).to_vec()).unwrap();
                assert_eq!(counts(&engine), [found[0] + 1; 3]);
                machine = machine.kill();
                drop(engine);
            }
        }
    }
}
