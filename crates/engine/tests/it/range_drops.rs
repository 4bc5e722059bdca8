//! Many dropped row ranges that lie over one another: what is read, and what they cost.

use crate::support::{TREE, collect};
use base::env::sim::SimEnv;
use engine::internals::Shape;
use engine::{
    Column, ColumnOf, Engine, FamilyId, Options, RowRange, ScanRequest, Snapshot, Timestamp,
    TreeOptions, WriteBatch,
};
use std::path::Path;

const DIR: &str = "/data";
const RANGES: u64 = 4_000;
const ROWS: u64 = 200;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Rows that lie in more and more of the ranges, and after those.
fn row(number: u64) -> [u8; 8] {
    key(number * 3 * RANGES / ROWS)
}

fn column() -> Column<'static> {
    Column::of(FamilyId(1), b"q")
}

/// The `number`th range lies within those before it.
fn drop_range(batch: &mut WriteBatch, number: u64) {
    batch.drop_row_range(&key(number), Some(&key(2 * RANGES + 1 - number)));
}

fn put_all(engine: &Engine, timestamp: i64) {
    let mut batch = WriteBatch::new();
    (0..ROWS).for_each(|number| batch.put(&row(number), column(), Timestamp(timestamp), b""));
    engine.tree(TREE).unwrap().write(&batch).unwrap();
}

/// The timestamps of the newest cells of all rows, by gets and by a scan.
fn read(engine: &Engine, snapshot: Option<&Snapshot>) -> Vec<Option<i64>> {
    let tree = engine.tree(TREE).unwrap();
    let get = |number: u64| {
        let of = ColumnOf { row: &row(number), family: FamilyId(1), qualifier: b"q" };
        tree.get(of, snapshot).unwrap().map(|(timestamp, _)| timestamp.0)
    };
    let got: Vec<Option<i64>> = (0..ROWS).map(get).collect();
    let scanned = collect(tree.scan(&ScanRequest::rows(RowRange::ALL), snapshot).unwrap());
    let scanned: Vec<_> =
        scanned.into_iter().map(|(row, cells)| (row, cells[0].timestamp.0)).collect();
    let there = (0..ROWS).filter_map(|number| Some((row(number).to_vec(), got[number as usize]?)));
    assert_eq!(there.collect::<Vec<_>>(), scanned);
    got
}

/// What is left of rows at `timestamp` after the first `ranges` ranges were dropped.
fn left(ranges: u64, timestamp: i64) -> Vec<Option<i64>> {
    let outside = |number: &u64| {
        let at = *number * 3 * RANGES / ROWS;
        ranges == 0 || at > 2 * RANGES
    };
    (0..ROWS).map(|number| outside(&number).then_some(timestamp)).collect()
}

fn open(machine: &SimEnv, shape: Shape) -> Engine {
    let options = Options { shape, ..Options::default() };
    Engine::open_with_env(machine.env(), Path::new(DIR), options).unwrap()
}

/// Drops ranges `in_batch` at a time, with snapshots in between, and reads at each of those after
/// every way that ranges take.
fn live_through(in_batch: u64, shape: Shape) {
    let mut machine = SimEnv::new(in_batch);
    let mut engine = open(&machine, shape);
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    put_all(&engine, 1);
    let mut snapshots = Vec::new();
    for first in (0..RANGES).step_by(in_batch as usize) {
        if first % (RANGES / 4) == 0 {
            snapshots.push((engine.snapshot(), left(first, 1)));
        }
        let mut batch = WriteBatch::new();
        (first..first + in_batch).for_each(|number| drop_range(&mut batch, number));
        engine.tree(TREE).unwrap().write(&batch).unwrap();
    }
    let memory = engine.metrics().get("memory_bytes{owner=\"active_memtables\"}").unwrap();
    assert!(memory <= RANGES * 1_000, "{memory} bytes for {RANGES} ranges");
    let check = |engine: &Engine, snapshots: &[(Snapshot, Vec<Option<i64>>)], step: &str| {
        assert_eq!(read(engine, None), left(RANGES, 1), "now, {step}");
        for (snapshot, want) in snapshots {
            assert_eq!(&read(engine, Some(snapshot)), want, "{:?}, {step}", snapshot.sequence());
        }
    };
    check(&engine, &snapshots, "in memory");
    engine.tree(TREE).unwrap().flush().unwrap();
    check(&engine, &snapshots, "flushed");
    put_all(&engine, 0);
    let now: Vec<_> = left(RANGES, 1).into_iter().map(|left| left.or(Some(0))).collect();
    assert_eq!(read(&engine, None), now);
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    assert_eq!(read(&engine, None), now);
    for (snapshot, want) in &snapshots {
        assert_eq!(&read(&engine, Some(snapshot)), want, "compacted");
    }
    drop(snapshots);
    let mut batch = WriteBatch::new();
    (0..RANGES).for_each(|number| drop_range(&mut batch, number));
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    for step in ["from the log", "from a file"] {
        machine = machine.kill();
        drop(engine);
        let report = engine::check::check_dir(&machine.env(), Path::new(DIR), &mut |_| ()).unwrap();
        assert!(report.is_clean(), "{step}");
        engine = open(&machine, shape);
        let memory = engine.metrics().get("memory_bytes{owner=\"active_memtables\"}").unwrap();
        assert!(memory <= RANGES * 1_000, "{memory} bytes for {RANGES} ranges, {step}");
        check(&engine, &[], step);
        engine.tree(TREE).unwrap().flush().unwrap();
    }
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    check(&engine, &[], "at the bottom");
}

#[test]
fn ranges_of_one_batch_cost_each_its_own() {
    live_through(RANGES, Shape::DEFAULT);
}

#[test]
fn ranges_of_many_batches_cost_each_its_own() {
    live_through(1, Shape::DEFAULT);
}

#[test]
fn ranges_that_are_too_many_for_one_file_go_to_several() {
    let machine = SimEnv::new(3);
    let shape = Shape { dropped_bytes_max: 4_000, ..Shape::DEFAULT };
    let engine = open(&machine, shape);
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    put_all(&engine, 1);
    engine.tree(TREE).unwrap().flush().unwrap();
    let mut batch = WriteBatch::new();
    (0..RANGES).for_each(|number| drop_range(&mut batch, number));
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    engine.tree(TREE).unwrap().flush().unwrap();
    let is_sst = |path: &Path| path.extension().is_some_and(|extension| extension == "sst");
    let ssts = machine.fs.files().iter().filter(|(path, _)| is_sst(path)).count();
    assert!(ssts > 50, "{ssts} files");
    assert_eq!(read(&engine, None), left(RANGES, 1));
    drop(engine);
    live_through(50, shape);
}
