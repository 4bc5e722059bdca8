//! Writers, readers, flushes and compactions at the same time: each batch gives every row of its
//! writer the same number, so a read that sees two numbers, or none, or an older one than before,
//! has seen something that never was.

use crate::support::{TREE, eventually, open, small};
use engine::{
    Column, Engine, FamilyId, Options, RowRange, ScanRequest, Snapshot, Timestamp, TimestampRange,
    TreeOptions, WriteBatch,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ROWS: u32 = 60;
const BATCHES: u64 = 600;

fn row(writer: u8, row: u32) -> Vec<u8> {
    // The rows of the writers lie between each other.
    format!("{row:03}/{writer}").into_bytes()
}

fn write(engine: &Engine, writer: u8) {
    for number in 1..=BATCHES {
        let mut batch = WriteBatch::new();
        match number % 7 {
            0 => (0..ROWS).for_each(|r| batch.delete_row(&row(writer, r))),
            3 => (0..ROWS).for_each(|r| {
                let RowRange { start, end } = RowRange::single(&row(writer, r));
                batch.drop_row_range(&start, end.as_deref());
            }),
            _ => {}
        }
        let mut value = number.to_be_bytes().to_vec();
        value.resize(40 + (number % 300) as usize, writer);
        for r in 0..ROWS {
            // An old timestamp after a delete, and several versions.
            let at = Timestamp((number % 5) as i64);
            batch.delete(&row(writer, r), Column::of(FamilyId(1), b"n"), TimestampRange::ALL);
            batch.put(&row(writer, r), Column::of(FamilyId(1), b"n"), at, &value);
        }
        engine.tree(TREE).unwrap().write(&batch).unwrap();
    }
}

/// The number that all rows of `writer` have; `None` if there are no rows yet.
fn read(engine: &Engine, writer: u8, snapshot: Option<&Snapshot>) -> Option<u64> {
    let request = ScanRequest::rows(RowRange::ALL);
    let mut scan = engine.tree(TREE).unwrap().scan(&request, snapshot).unwrap();
    let (mut rows, mut seen) = (0, None);
    while let Some(row) = scan.next_row().unwrap() {
        if row.last() != Some(&(b'0' + writer)) {
            continue;
        }
        let row = row.to_vec();
        let mut cells = 0;
        while let Some(cell) = scan.next_cell().unwrap() {
            let number = u64::from_be_bytes(cell.value[..8].try_into().unwrap());
            assert!(seen.is_none_or(|seen| seen == number), "{row:?}: {number} beside {seen:?}");
            seen = Some(number);
            cells += 1;
        }
        assert_eq!(cells, 1, "{row:?}");
        rows += 1;
    }
    assert!(rows == 0 || rows == ROWS, "{rows} rows");
    seen
}

fn read_until(engine: &Engine, writer: u8, done: &AtomicBool) {
    let mut last = None;
    while !done.load(Ordering::Relaxed) {
        let snapshot = engine.snapshot();
        let at_snapshot = read(engine, writer, Some(&snapshot));
        assert!(at_snapshot >= last, "{at_snapshot:?} after {last:?}");
        let now = read(engine, writer, None);
        assert!(now >= at_snapshot, "{now:?} after {at_snapshot:?}");
        std::thread::sleep(Duration::from_millis(3));
        assert_eq!(read(engine, writer, Some(&snapshot)), at_snapshot, "a snapshot has changed");
        last = now;
    }
}

fn ssts(dir: &std::path::Path) -> usize {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".sst")).count()
}

#[test]
fn reads_agree_with_themselves_while_everything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (engine, done) = (&engine, &done);
        let writers = [0, 1].map(|writer| scope.spawn(move || write(engine, writer)));
        for writer in 0..2 {
            scope.spawn(move || read_until(engine, writer, done));
        }
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                engine.tree(TREE).unwrap().compact_range(&RowRange::prefix(b"01")).unwrap();
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let failed = writers.into_iter().map(|writer| writer.join()).any(|joined| joined.is_err());
        done.store(true, Ordering::Relaxed);
        assert!(!failed, "a writer failed");
    });
    for writer in 0..2 {
        assert_eq!(read(&engine, writer, None), Some(BATCHES));
    }
    engine.tree(TREE).unwrap().flush().unwrap();
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    for writer in 0..2 {
        assert_eq!(read(&engine, writer, None), Some(BATCHES));
    }
    eventually("what no reader holds is deleted", || ssts(dir.path()) == 1);
    engine.close().unwrap();
}

#[test]
fn a_scan_meets_six_runs_at_most_however_fast_writers_are() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { l0_runs_compact: 4, l0_runs_stall: 12, ..small() };
    let most = engine::internals::runs_max(&options) as u64;
    let engine = open(dir.path(), options);
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..2u32 {
            let engine = &engine;
            scope.spawn(move || {
                for number in 0..3_000u32 {
                    let row = (number.wrapping_mul(0x9e37_79b9) ^ writer).to_be_bytes();
                    let mut batch = WriteBatch::new();
                    batch.put(&row, Column::of(FamilyId(1), b"n"), Timestamp(1), &[7; 1000]);
                    engine.tree(TREE).unwrap().write(&batch).unwrap();
                }
            });
        }
    });
    let metrics = engine.metrics();
    assert!(metrics.get("compactions_total").unwrap() > 0);
    let seen = metrics.get("sorted_runs_most").unwrap();
    assert!((2..=most).contains(&seen), "{seen} runs");
    engine.close().unwrap();
}
