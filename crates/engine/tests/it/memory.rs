//! Memtables of all trees, blocks and what is pinned stay within one budget, and nobody waits for
//! ever when it is small.
//!
//! A test that holds bytes of blocks against a bound runs in a process of its own: threads of other
//! tests that are stopped while they look at blocks keep memory.

use crate::support::{TREE, collect, eventually, open};
use base::testing::in_own_process;
use engine::{
    Column, ColumnOf, Durability, Engine, FamilyId, IngestOptions, Options, RowRange, ScanRequest,
    SstWriter, Timestamp, TreeId, TreeOptions, WriteBatch,
};
use std::sync::atomic::{AtomicBool, Ordering};

const MIB: usize = 1 << 20;
const VALUE: [u8; 400] = [7; 400];

fn metric(engine: &Engine, name: &str) -> usize {
    engine.metrics().get(name).unwrap() as usize
}

/// What blocks, memtables and metadata take together.
fn in_use(engine: &Engine) -> usize {
    ["blocks", "active_memtables", "frozen_memtables", "outlived_memtables", "metadata"]
        .map(|owner| metric(engine, &format!("memory_bytes{{owner=\"{owner}\"}}")))
        .iter()
        .sum()
}

fn write(engine: &Engine, tree: TreeId, rows: std::ops::Range<u64>) {
    let mut batch = WriteBatch::new();
    for row in rows {
        let column = Column::of(FamilyId(1), b"q");
        batch.put(&row.to_be_bytes(), column, Timestamp(1), &VALUE);
    }
    engine.tree(tree).unwrap().write(&batch).unwrap();
}

fn rows_of(engine: &Engine, tree: TreeId) -> usize {
    collect(engine.tree(tree).unwrap().scan(&ScanRequest::rows(RowRange::ALL), None).unwrap()).len()
}

fn with_budget(memory_bytes_max: usize) -> Options {
    Options { durability: Durability::None, memory_bytes_max, ..Options::default() }
}

#[test]
fn a_thousand_trees_stay_within_the_budget() {
    in_own_process(|| {
        const TREES: u32 = 1_000;
        let budget = 48 * MIB;
        let dir = tempfile::tempdir().unwrap();
        let engine = open(dir.path(), with_budget(budget));
        (0..TREES)
            .for_each(|id| drop(engine.create_tree(TreeId(id), TreeOptions::default()).unwrap()));
        let mut most = 0;
        for round in 0..6u64 {
            for tree in 0..TREES {
                write(&engine, TreeId(tree), round * 20..(round + 1) * 20);
                if tree % 50 == 0 {
                    most = most.max(in_use(&engine));
                }
            }
            for tree in (0..TREES).step_by(10) {
                assert_eq!(rows_of(&engine, TreeId(tree)), (round as usize + 1) * 20);
            }
            most = most.max(in_use(&engine));
        }
        // A part is on its way out while readers may still look at it.
        assert!(most <= budget / 16 * 17, "{most} of {budget}");
        assert!(most >= budget / 2, "{most}: the budget is used");
        let early = metric(&engine, "flushes_for_memory_total");
        assert!(early > 0, "memtables were flushed before they were full");
        assert!(early < 2_000, "{early}: not with every write");
    });
}

#[test]
fn a_budget_smaller_than_a_memtable_stops_nobody_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), with_budget(MIB));
    let trees = [TreeId(1), TreeId(2), TreeId(3)];
    trees.iter().for_each(|id| drop(engine.create_tree(*id, TreeOptions::default()).unwrap()));
    std::thread::scope(|scope| {
        for tree in trees {
            let engine = &engine;
            scope.spawn(move || {
                (0..200).for_each(|at| write(engine, tree, at * 20..(at + 1) * 20));
            });
        }
    });
    // A batch larger than all that memtables may take.
    write(&engine, trees[0], 4_000..6_000);
    write(&engine, trees[0], 6_000..6_001);
    drop(engine);
    let engine = open(dir.path(), with_budget(MIB));
    assert_eq!(trees.map(|tree| rows_of(&engine, tree)), [6_001, 4_000, 4_000]);
    write(&engine, trees[1], 0..1);
}

#[test]
fn a_log_larger_than_the_memory_there_is_now_is_flushed_as_it_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let trees = [TreeId(1), TreeId(2), TreeId(3)];
    let engine = open(dir.path(), with_budget(256 * MIB));
    trees.iter().for_each(|id| drop(engine.create_tree(*id, TreeOptions::default()).unwrap()));
    for at in 0..300 {
        write(&engine, trees[0], at * 20..(at + 1) * 20);
        write(&engine, trees[at as usize % 3], 100_000 + at * 20..100_000 + (at + 1) * 20);
    }
    assert_eq!(metric(&engine, "flushes_total"), 0);
    drop(engine);
    let budget = 2 * MIB;
    let engine = open(dir.path(), with_budget(budget));
    let unflushed = metric(&engine, "memory_bytes{owner=\"active_memtables\"}")
        + metric(&engine, "memory_bytes{owner=\"frozen_memtables\"}");
    assert!(unflushed <= budget / 2, "{unflushed}");
    assert!(metric(&engine, "flushes_for_memory_total") > 3);
    assert_eq!(trees.map(|tree| rows_of(&engine, tree)), [8_000, 2_000, 2_000]);
    // With the same memory as before nothing needs to be flushed.
    write(&engine, trees[1], 0..1_000);
    drop(engine);
    let engine = open(dir.path(), with_budget(256 * MIB));
    assert_eq!(metric(&engine, "flushes_total"), 0);
    assert_eq!(trees.map(|tree| rows_of(&engine, tree)), [8_000, 3_000, 2_000]);
}

#[test]
fn what_an_ingest_gathers_is_charged_until_its_file_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), with_budget(8 * MIB));
    engine.create_tree(TreeId(1), TreeOptions::default()).unwrap();
    let building = || metric(&engine, "memory_bytes{owner=\"building\"}");
    let fill = |writer: &mut SstWriter| {
        for row in 0..20_000u64 {
            let column = Column::of(FamilyId(1), b"q");
            writer.put(&row.to_be_bytes(), column, Timestamp(1), &VALUE).unwrap();
        }
    };
    let mut writer = engine.tree(TreeId(1)).unwrap().sst_writer(&IngestOptions::default()).unwrap();
    fill(&mut writer);
    // 12 bits of filter a row, less what comes after the last whole 256 KiB.
    assert!(building() > 20_000, "{}", building());
    let files = writer.finish().unwrap();
    assert_eq!(building(), 0);
    drop(files);
    let mut writer = engine.tree(TreeId(1)).unwrap().sst_writer(&IngestOptions::default()).unwrap();
    fill(&mut writer);
    assert!(building() > 0);
    drop(writer);
    assert_eq!(building(), 0);
}

#[test]
fn untracked_memory_shrinks_blocks_until_it_is_freed() {
    in_own_process(|| {
        const BUDGET: usize = 16 * MIB;
        let dir = tempfile::tempdir().unwrap();
        let engine = open(dir.path(), with_budget(BUDGET));
        engine.create_tree(TREE, TreeOptions::default()).unwrap();
        let mut writer = engine.tree(TREE).unwrap().sst_writer(&IngestOptions::default()).unwrap();
        let column = Column::of(FamilyId(1), b"q");
        // More than the budget, whatever compression makes of it.
        let value: Vec<u8> =
            (0..2000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for row in 0..20_000u64 {
            let value: Vec<u8> =
                value.iter().map(|byte| byte ^ (row >> 1) as u8 ^ row as u8).collect();
            writer.put(&row.to_be_bytes(), column, Timestamp(1), &value).unwrap();
        }
        engine.ingest(&mut writer.finish().unwrap()).unwrap();
        let blocks = || metric(&engine, "memory_bytes{owner=\"blocks\"}");
        let untracked = || metric(&engine, "memory_bytes{owner=\"untracked\"}");
        // Told as often as the scan goes on: what was beside and is not goes little by little.
        let read_all = |untracked: usize| {
            for _ in 0..4 {
                assert_eq!(rows_of(&engine, TREE), 20_000);
                (0..50).for_each(|_| engine.note_process_memory(in_use(&engine) + untracked));
            }
        };
        read_all(0);
        assert!(blocks() > BUDGET / 8 * 6 && untracked() == 0, "{} {}", blocks(), untracked());
        // So much that there is room for, so much that an eighth is left, and more than that.
        for (there, most, least) in [(6, 10, 7), (13, 3, 1), (40, 2, 1)] {
            read_all(there * MIB);
            eventually("blocks give way", || blocks() <= most * MIB);
            assert!(blocks() >= least * MIB, "{there} MiB beside: {}", blocks());
            assert!(untracked().abs_diff(there * MIB) < MIB, "{there} MiB beside: {}", untracked());
        }
        // Memtables keep their share.
        (0..150).for_each(|at| write(&engine, TREE, 100_000 + at * 20..100_000 + (at + 1) * 20));
        assert_eq!(metric(&engine, "flushes_total"), 0);
        engine.tree(TREE).unwrap().flush().unwrap();
        for _ in 0..8 {
            assert_eq!(rows_of(&engine, TREE), 23_000);
            (0..50).for_each(|_| engine.note_process_memory(in_use(&engine)));
        }
        assert!(blocks() > BUDGET / 8 * 6 && untracked() == 0, "{} {}", blocks(), untracked());
    });
}

#[test]
fn a_scan_that_keeps_old_memtables_stops_no_writer() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), with_budget(2 * MIB));
    let (read, dropped) = (TreeId(1), TreeId(2));
    [read, dropped]
        .iter()
        .for_each(|id| drop(engine.create_tree(*id, TreeOptions::default()).unwrap()));
    write(&engine, dropped, 0..500);
    let of_dropped =
        engine.tree(dropped).unwrap().scan(&ScanRequest::rows(RowRange::ALL), None).unwrap();
    engine.drop_tree(dropped).unwrap();
    let mut scans = Vec::new();
    for round in 0..30u64 {
        write(&engine, read, round * 100..(round + 1) * 100);
        scans.push((
            engine.tree(read).unwrap().scan(&ScanRequest::rows(RowRange::ALL), None).unwrap(),
            round,
        ));
        engine.tree(read).unwrap().flush().unwrap();
    }
    assert!(metric(&engine, "memory_bytes{owner=\"outlived_memtables\"}") > MIB);
    for (scan, round) in scans {
        assert_eq!(collect(scan).len(), (round as usize + 1) * 100);
    }
    assert_eq!(collect(of_dropped).len(), 500);
    assert_eq!(metric(&engine, "memory_bytes{owner=\"outlived_memtables\"}"), 0);
}

#[test]
fn blocks_give_way_to_memtables_while_they_are_read() {
    in_own_process(|| {
        let dir = tempfile::tempdir().unwrap();
        let engine =
            open(dir.path(), Options { memtable_bytes_max: 2 * MIB, ..with_budget(8 * MIB) });
        let (data, other) = (TreeId(1), TreeId(2));
        [data, other]
            .iter()
            .for_each(|id| drop(engine.create_tree(*id, TreeOptions::default()).unwrap()));
        let rows = 20_000;
        (0..rows / 100).for_each(|at| write(&engine, data, at * 100..(at + 1) * 100));
        engine.tree(data).unwrap().compact_range(&RowRange::ALL).unwrap();
        let writing = AtomicBool::new(true);
        let (mut least, mut most) = (usize::MAX, 0);
        std::thread::scope(|scope| {
            for reader in 0..2u64 {
                let (engine, writing) = (&engine, &writing);
                scope.spawn(move || {
                    let mut row = reader;
                    while writing.load(Ordering::Relaxed) {
                        row = (row * 31 + 7) % rows;
                        let got = engine.tree(data).and_then(|tree| {
                            tree.get(ColumnOf::new(&row.to_be_bytes(), FamilyId(1), b"q"), None)
                        });
                        assert_eq!(got.unwrap().unwrap().1, VALUE);
                    }
                });
            }
            for round in 0..300u64 {
                write(&engine, other, round * 100..(round + 1) * 100);
                let blocks = metric(&engine, "cache_limit_bytes");
                (least, most) = (least.min(blocks), most.max(blocks));
            }
            writing.store(false, Ordering::Relaxed);
        });
        assert!(least < 6 * MIB && most > least, "blocks had from {least} to {most}");
        // What readers were looking at goes when they have gone on, and somebody asks for memory.
        eventually("blocks keep their memory", || {
            write(&engine, other, 0..1);
            in_use(&engine) <= 8 * MIB
        });
    });
}
