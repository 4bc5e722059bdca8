//! Blocks of a compaction's outputs that take the place in memory of those they came of.

use crate::support::TREE;
use base::env::SimEnv;
use base::env::sim::{Fault, FaultPoint};
use base::testing::in_own_process;
use engine::internals::ReadPath;
use engine::{
    Column, ColumnOf, Compression, Engine, FamilyId, FilterGranularity, Options, RowRange,
    ScanRequest, Timestamp, TreeOptions, WriteBatch,
};
use std::path::Path;

const DIR: &str = "data";
const FAMILY: FamilyId = FamilyId(1);
const ROWS: u32 = 12_000;
/// Rows that are read again and again.
const HOT: std::ops::Range<u32> = 3000..4000;

fn row(number: u32) -> Vec<u8> {
    format!("row/{number:08}").into_bytes()
}

fn value(number: u32, version: i64) -> Vec<u8> {
    let seed = number.wrapping_mul(31).wrapping_add(version as u32);
    (0..400).map(|at| (seed.wrapping_add(at).wrapping_mul(0x9e37_79b1) >> 24) as u8).collect()
}

fn options(cache_warming: bool) -> Options {
    Options {
        cache_bytes_max: Some(8 << 20),
        read_path: ReadPath { cache_warming, ..ReadPath::default() },
        ..Options::default()
    }
}

/// Each row in the last run, and every tenth again in a newer one.
fn filled(machine: &SimEnv, options: Options) -> Engine {
    let engine = Engine::open_with_env(machine.env(), Path::new(DIR), options).unwrap();
    let tree = TreeOptions {
        block_bytes: 4 << 10,
        compression: Compression::None,
        filter_granularity: Some(FilterGranularity::Row),
        ..TreeOptions::default()
    };
    engine.create_tree(TREE, tree).unwrap();
    engine.pause_compactions();
    write(&engine, (0..ROWS).map(|number| (number, 0)));
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    write(&engine, (0..ROWS).step_by(10).map(|number| (number, 1)));
    engine
}

fn write(engine: &Engine, rows: impl Iterator<Item = (u32, i64)>) {
    for (number, version) in rows {
        let mut batch = WriteBatch::new();
        let bytes = value(number, version);
        batch.put(&row(number), Column::of(FAMILY, b"q"), Timestamp(version), &bytes);
        engine.tree(TREE).unwrap().write(&batch).unwrap();
    }
    engine.tree(TREE).unwrap().flush().unwrap();
}

fn get(engine: &Engine, number: u32) {
    let version = i64::from(number.is_multiple_of(10));
    let cell =
        engine.tree(TREE).unwrap().get(ColumnOf::new(&row(number), FAMILY, b"q"), None).unwrap();
    assert_eq!(cell.unwrap().1, value(number, version), "row {number}");
}

fn metric(engine: &Engine, name: &str) -> u64 {
    engine.metrics().get(name).unwrap()
}

fn warmed(engine: &Engine) -> [u64; 3] {
    ["total", "bytes_total", "used_total"]
        .map(|what| metric(engine, &format!("cache_warmed_{what}")))
}

/// Blocks that gets of `rows` read from disk.
fn disk_reads(engine: &Engine, rows: impl Iterator<Item = u32>) -> u64 {
    let before = metric(engine, "point_disk_reads_total");
    rows.for_each(|number| get(engine, number));
    metric(engine, "point_disk_reads_total") - before
}

#[test]
fn what_was_hot_before_a_compaction_is_in_memory_after_it_and_what_was_cold_is_not() {
    let engine = filled(&SimEnv::new(1), options(true));
    disk_reads(&engine, HOT);
    assert_eq!(disk_reads(&engine, HOT), 0);
    let counted = || {
        ["point_disk_reads_total", "point_reads_total", "scans_total"]
            .map(|name| metric(&engine, name))
    };
    let before = counted();
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    assert_eq!(counted(), before, "no read was counted");
    let [blocks, bytes, used] = warmed(&engine);
    // Nine rows a block; the index and the filter beside them.
    assert!((100..150).contains(&blocks), "{blocks} blocks");
    assert!(bytes > blocks * 3000, "{bytes} bytes");
    assert_eq!(used, 0);
    assert_eq!(disk_reads(&engine, HOT), 0);
    let [again, _, used] = warmed(&engine);
    assert_eq!(again, blocks);
    assert!(used + 4 >= blocks, "{used} of {blocks} were used");
    // A block each of nine rows, and what leads there.
    let cold = disk_reads(&engine, 8000..9000);
    assert!(cold >= 1000 / 10, "{cold} blocks of cold rows came from disk");
}

#[test]
fn switched_off_what_was_hot_is_read_again() {
    let engine = filled(&SimEnv::new(1), options(false));
    disk_reads(&engine, HOT);
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    assert!(disk_reads(&engine, HOT) > 100);
    assert_eq!(warmed(&engine), [0; 3]);
}

#[test]
fn blocks_of_the_inputs_leave_and_the_cache_keeps_to_its_size() {
    in_own_process(|| {
        for cache_bytes_max in [1 << 20, 2 << 20, 8 << 20] {
            let options = Options { cache_bytes_max: Some(cache_bytes_max), ..options(true) };
            let engine = filled(&SimEnv::new(1), options);
            for round in 0..4 {
                disk_reads(&engine, 0..ROWS);
                disk_reads(&engine, HOT);
                let before = warmed(&engine);
                engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
                let after = warmed(&engine);
                assert!(after[0] > before[0], "round {round}");
                let bytes = after[1] - before[1];
                assert!(bytes <= cache_bytes_max as u64, "{bytes} bytes warmed");
                assert!(metric(&engine, "cache_bytes") <= cache_bytes_max as u64);
                write(&engine, (0..ROWS).step_by(10).map(|number| (number, 1)));
            }
        }
    });
}

#[test]
fn blocks_within_a_wide_row_inherit_by_column() {
    let machine = SimEnv::new(1);
    let engine = Engine::open_with_env(machine.env(), Path::new(DIR), options(true)).unwrap();
    let tree = TreeOptions { block_bytes: 4 << 10, ..TreeOptions::default() };
    engine.create_tree(TREE, tree).unwrap();
    engine.pause_compactions();
    let put = |columns: &mut dyn Iterator<Item = u32>, version| {
        for number in columns {
            let mut batch = WriteBatch::new();
            let qualifier = number.to_be_bytes();
            let bytes = value(number, version);
            batch.put(b"wide", Column::of(FAMILY, &qualifier), Timestamp(version), &bytes);
            engine.tree(TREE).unwrap().write(&batch).unwrap();
        }
        engine.tree(TREE).unwrap().flush().unwrap();
    };
    put(&mut (0..4000), 0);
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    put(&mut (0..4000).step_by(10), 1);
    let disk_reads = |columns: std::ops::Range<u32>| {
        let before = metric(&engine, "cache_misses_total");
        for number in columns {
            let cell = engine
                .tree(TREE)
                .unwrap()
                .get(ColumnOf::new(b"wide", FAMILY, &number.to_be_bytes()), None)
                .unwrap();
            let version = i64::from(number.is_multiple_of(10));
            assert_eq!(cell.unwrap().1, value(number, version));
        }
        metric(&engine, "cache_misses_total") - before
    };
    disk_reads(2000..2500);
    assert_eq!(disk_reads(2000..2500), 0);
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    let again = disk_reads(2000..2500);
    assert!(again < 8, "{again} of some 40 blocks were read again");
    let cold = disk_reads(500..1000);
    assert!(cold > 30, "{cold} blocks of columns that nobody had read");
}

/// Whichever read fails while blocks are warmed, the compaction succeeds and every answer is right.
#[test]
fn a_failed_read_costs_heat_and_nothing_else() {
    let mut failed_compactions = 0;
    let mut short = 0;
    for at in 0..40 {
        let machine = SimEnv::new(7);
        let engine = filled(&machine, options(true));
        // All that the compaction reads itself is in memory.
        disk_reads(&engine, 0..ROWS);
        machine.fs.inject(FaultPoint::Read, 5 * at, 1, Fault::Io);
        let done = engine.tree(TREE).and_then(|tree| tree.compact_range(&RowRange::ALL));
        machine.fs.clear_faults();
        failed_compactions += u32::from(done.is_err());
        if done.is_ok() {
            short += u32::from(disk_reads(&engine, HOT) > 0);
            let all =
                engine.tree(TREE).unwrap().scan(&ScanRequest::rows(RowRange::ALL), None).unwrap();
            assert_eq!(crate::support::collect(all).len(), ROWS as usize);
        }
    }
    assert!(short > 5, "{short} times less was in memory");
    // Opening the outputs reads, too.
    assert!(failed_compactions < 5, "{failed_compactions} compactions failed");
}
