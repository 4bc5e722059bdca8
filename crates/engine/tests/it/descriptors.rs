//! A store of more SSTables than may be open: all of it is read, written and compacted, resident
//! reads open nothing, and files that are not needed go.

use crate::support::{collect, eventually, open, small};
use engine::{
    Column, ColumnOf, Direction, Engine, FamilyId, Options, RowRange, ScanRequest, Timestamp,
    TreeId, TreeOptions, WriteBatch,
};
use std::path::Path;

const TREES: u32 = 60;
const ROWS: u32 = 40;
const FAMILY: FamilyId = FamilyId(1);
const OPEN_MAX: u64 = 16;

fn options(direct_reads: bool) -> Options {
    Options {
        open_files_max: Some(OPEN_MAX as usize),
        direct_reads,
        cache_bytes_max: Some(1 << 20),
        ..small()
    }
}

fn metric(engine: &Engine, name: &str) -> u64 {
    engine.metrics().get(name).unwrap()
}

fn value(tree: u32, row: u32, round: u8) -> Vec<u8> {
    [&tree.to_be_bytes()[..], &row.to_be_bytes(), &[round; 600]].concat()
}

fn write(engine: &Engine, round: u8) {
    for tree in 1..=TREES {
        let mut batch = WriteBatch::new();
        for row in 0..ROWS {
            let value = value(tree, row, round);
            batch.put(&row.to_be_bytes(), Column::of(FAMILY, b"q"), Timestamp(1), &value);
        }
        engine.tree(TreeId(tree)).unwrap().write(&batch).unwrap();
        engine.tree(TreeId(tree)).unwrap().flush().unwrap();
    }
}

/// Reads everything by gets, gets in flight, and scans both ways.
fn read(engine: &Engine, round: u8) {
    for tree in 1..=TREES {
        let reader = engine.tree(TreeId(tree)).unwrap();
        let keys: Vec<_> = (0..ROWS).map(u32::to_be_bytes).collect();
        let of = |row: usize| ColumnOf { row: &keys[row], family: FAMILY, qualifier: b"q" };
        let mut gets = reader.in_flight(8, None);
        for row in 0..ROWS {
            if row % 2 == 0 {
                gets.submit(u64::from(row), of(row as usize));
            } else {
                let got = reader.get(of(row as usize), None).unwrap();
                assert_eq!(got.unwrap().1, value(tree, row, round));
            }
        }
        while let Some((row, got)) = gets.wait() {
            assert_eq!(got.unwrap().unwrap().1, value(tree, row as u32, round));
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            let request = ScanRequest { direction, ..ScanRequest::rows(RowRange::ALL) };
            let rows = collect(reader.scan(&request, None).unwrap());
            assert_eq!(rows.len(), ROWS as usize);
        }
    }
}

fn ssts(dir: &Path) -> usize {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|extension| extension == "sst")).count()
}

#[test]
fn a_store_of_more_files_than_may_be_open_works() {
    for direct_reads in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let engine = open(dir.path(), options(direct_reads));
        for tree in 1..=TREES {
            engine.create_tree(TreeId(tree), TreeOptions::default()).unwrap();
        }
        // One more for each thread that opens one: ours, and two of the background.
        let few_are_open = |engine: &Engine| {
            let open = metric(engine, "ssts_open");
            assert!(open <= OPEN_MAX + 3, "{open} files are open");
        };
        write(&engine, 1);
        few_are_open(&engine);
        read(&engine, 1);
        few_are_open(&engine);
        let before = metric(&engine, "sst_reopens_total");
        read(&engine, 1);
        assert!(metric(&engine, "sst_reopens_total") > before, "files were closed");
        // A scan that began in files that go afterwards, though they are not open.
        let scans = [1, 7, TREES].map(|tree| {
            (tree, engine.tree(TreeId(tree)).unwrap().scan(&ScanRequest::default(), None).unwrap())
        });
        write(&engine, 2);
        read(&engine, 2);
        for tree in 1..=TREES {
            engine.tree(TreeId(tree)).unwrap().compact_range(&RowRange::ALL).unwrap();
        }
        few_are_open(&engine);
        for (tree, scan) in scans {
            let rows = collect(scan);
            assert!(
                (0..).zip(&rows).all(|(row, (_, cells))| cells[0].value == value(tree, row, 1))
            );
            assert_eq!(rows.len(), ROWS as usize);
        }
        eventually("files that were compacted go", || ssts(dir.path()) == TREES as usize);
        drop(engine);
        let engine = open(dir.path(), options(direct_reads));
        few_are_open(&engine);
        read(&engine, 2);
        few_are_open(&engine);
        engine.drop_tree(TreeId(5)).unwrap();
        eventually("so do those of a dropped tree", || ssts(dir.path()) == TREES as usize - 1);
    }
}

#[test]
fn a_resident_read_opens_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { cache_bytes_max: None, memory_bytes_max: 64 << 20, ..options(false) };
    let engine = open(dir.path(), options);
    for tree in 1..=TREES {
        engine.create_tree(TreeId(tree), TreeOptions::default()).unwrap();
    }
    write(&engine, 1);
    (0..2).for_each(|_| read(&engine, 1));
    let before = metric(&engine, "sst_reopens_total");
    assert!(before > 0, "files were closed");
    read(&engine, 1);
    assert_eq!(metric(&engine, "sst_reopens_total"), before);
}
