//! Stores whose manifest was written by hand: what it says is held against the files, and its numbers
//! may be the greatest that are accepted.

use crate::batch::WriteBatch;
use crate::cell::{Column, FamilyId, SequenceNumber, Timestamp, TreeId};
use crate::engine::Engine;
use crate::error::{Corruption, Error, Result};
use crate::files::FileNumber;
use crate::log::framing::chain_reader::ChainEnd;
use crate::log::{COMMIT_TIME_END, LogEnd, LogPosition, LogRecord, LogWriter, SegmentNumber};
use crate::manifest::{Edit, ManifestSet, RunId, SstMeta};
use crate::options::{Options, TreeOptions};
use crate::request::{RowRange, ScanRequest};
use base::env::FileSystem;
use base::env::sim::{Fault, FaultPoint, SimEnv};
use std::path::Path;
use std::sync::Arc;

const TREE: TreeId = TreeId(1);
/// The first number that no file, run or segment has.
const NUMBERS_END: u64 = 1 << 56;

fn dir() -> &'static Path {
    Path::new("/data")
}

fn open(machine: &SimEnv) -> Result<Engine> {
    Engine::open_with_env(machine.env(), dir(), Options::default())
}

fn write(engine: &Engine, row: &[u8]) -> Result<SequenceNumber> {
    let mut batch = WriteBatch::new();
    batch.put(row, Column::of(FamilyId(1), b"q"), Timestamp(1), b"value");
    engine.tree(TREE).and_then(|tree| tree.write(&batch))
}

fn rows(engine: &Engine) -> Vec<Vec<u8>> {
    let mut scan = engine.tree(TREE).unwrap().scan(&ScanRequest::default(), None).unwrap();
    let mut rows = Vec::new();
    while let Some(row) = scan.next_row().unwrap() {
        rows.push(row.to_vec());
    }
    rows
}

/// A closed store whose one SSTable has the rows 0 to `count`; and what the manifest says of it.
fn store(count: u8) -> (SimEnv, SstMeta) {
    let machine = SimEnv::new(1);
    let engine = open(&machine).unwrap();
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    for row in 0..count {
        write(&engine, &[row]).unwrap();
    }
    engine.tree(TREE).unwrap().flush().unwrap();
    engine.close().unwrap();
    let state = manifest(&machine).state();
    let meta = state.tree(TREE).unwrap().runs().next().unwrap().ssts[0].as_ref().clone();
    (machine, meta)
}

fn manifest(machine: &SimEnv) -> ManifestSet {
    ManifestSet::open(machine.env().fs, dir()).unwrap()
}

fn content(fs: &dyn FileSystem, path: &Path) -> Vec<u8> {
    let file = fs.open_read(path).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn a_file_of_another_length_than_the_manifest_says_is_refused() {
    let (machine, meta) = store(10);
    let (other, longer) = store(200);
    let path = meta.number.sst_path(dir());
    let bytes = content(&*other.env().fs, &path);
    assert!(longer.number == meta.number && longer.bytes > meta.bytes);
    let mut file = machine.env().fs.create(&path).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    file.sync().unwrap();
    match open(&machine).map(|_| ()) {
        Err(Error::Corruption(Corruption { file, what, .. })) => {
            let lengths = [longer.bytes, meta.bytes].map(|bytes| bytes.to_string());
            assert!(file == path && lengths.iter().all(|len| what.contains(len)), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

/// Opens, writes, flushes and compacts again and again. What cannot be written is refused, and what
/// was written is there.
fn lives(machine: &SimEnv, case: &str) {
    let mut want: Vec<Vec<u8>> = (0..10).map(|row| vec![row]).collect();
    for round in 10..14 {
        let engine = open(machine).unwrap_or_else(|error| panic!("{case}, round {round}: {error}"));
        assert_eq!(rows(&engine), want, "{case}, round {round}");
        let fits = |done: Result<()>, what: &str| match done {
            Ok(()) => true,
            Err(Error::WritesStopped(_)) => false,
            Err(error) => panic!("{case}, round {round}, {what}: {error}"),
        };
        if fits(write(&engine, &[round]).map(|_| ()), "write") {
            want.push(vec![round]);
        }
        fits(engine.tree(TREE).and_then(|tree| tree.flush()), "flush");
        fits(engine.tree(TREE).and_then(|tree| tree.compact_range(&RowRange::ALL)), "compaction");
        assert_eq!(rows(&engine), want, "{case}, round {round}");
        let closed = engine.close();
        assert!(matches!(closed, Ok(()) | Err(Error::WritesStopped(_))), "{case}: {closed:?}");
    }
}

/// Has the store's SSTable be another to the manifest.
fn as_another(meta: &SstMeta, run: u64, other: SstMeta) -> Vec<Edit> {
    let (tree, level, run_before) = (TREE, 0, RunId(1));
    vec![
        Edit::RemoveSst { tree, level, run: run_before, number: meta.number },
        Edit::AddSst { tree, level, run: RunId(run), meta: other },
    ]
}

#[test]
fn a_store_with_the_greatest_numbers_there_are_refuses_nothing_that_it_wrote() {
    let (_, sst) = store(10);
    let with = |change: &dyn Fn(&mut SstMeta)| {
        let mut other = sst.clone();
        change(&mut other);
        as_another(&sst, 1, other)
    };
    let last = SequenceNumber::MAX;
    for (case, edits) in [
        ("next file", vec![Edit::NextFile(FileNumber(NUMBERS_END))]),
        ("file before the last", vec![Edit::NextFile(FileNumber(NUMBERS_END - 2))]),
        ("last sequence number", vec![Edit::LastSequence(last)]),
        ("one before it", vec![Edit::LastSequence(SequenceNumber(last.0 - 1))]),
        ("flushed", vec![Edit::Flushed { tree: TREE, position: LogPosition(last.0) }]),
        ("flushed, not all", vec![Edit::Flushed { tree: TREE, position: LogPosition(1 << 40) }]),
        ("commit time", vec![Edit::CommitTime(COMMIT_TIME_END - 1)]),
        ("run", as_another(&sst, NUMBERS_END - 1, sst.clone())),
        ("run before the last", as_another(&sst, NUMBERS_END - 2, sst.clone())),
        ("sequence numbers", with(&|sst| sst.sequence_max = last)),
        ("times", with(&|sst| sst.timestamp_max = Timestamp::MAX)),
        ("no times", with(&|sst| sst.timestamp_min = Timestamp::MIN)),
        ("entries", with(&|sst| (sst.entries, sst.tombstones) = (1 << 48, 1 << 48))),
        ("used tree", vec![Edit::UsedTree { tree: TreeId(u32::MAX) }]),
    ] {
        let (machine, _) = store(10);
        manifest(&machine).install(&edits).unwrap();
        lives(&machine, case);
    }
}

#[test]
fn a_store_with_the_greatest_file_number_refuses_nothing_that_it_wrote() {
    let (machine, sst) = store(10);
    let number = FileNumber(NUMBERS_END - 1);
    let fs = machine.env().fs;
    fs.rename(&sst.number.sst_path(dir()), &number.sst_path(dir())).unwrap();
    fs.sync_dir(dir()).unwrap();
    let other = SstMeta { number, ..sst.clone() };
    manifest(&machine).install(&as_another(&sst, 1, other)).unwrap();
    lives(&machine, "file");
}

#[test]
fn a_store_with_the_greatest_segment_refuses_nothing_that_it_wrote() {
    for before in [1, 2, 3] {
        let machine = SimEnv::new(1);
        let fs = machine.env().fs;
        fs.create_dir_all(dir()).unwrap();
        let first = SegmentNumber(NUMBERS_END - before);
        let create = Edit::CreateTree { tree: TREE, options: TreeOptions::default() };
        manifest(&machine).install(&[create, Edit::LogFrom(first)]).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(&[0], Column::of(FamilyId(1), b"q"), Timestamp(1), b"value");
        let chain = ChainEnd { torn_creation: Some(first), ..ChainEnd::default() };
        let end = LogEnd { chain, ..LogEnd::default() };
        let mut log = LogWriter::open(Arc::clone(&fs), dir(), 1 << 20, end).unwrap();
        let batch = batch.freeze().unwrap();
        log.append(&[LogRecord::new(TREE, SequenceNumber(1), 1, batch.encoding())]).unwrap();
        log.sync().unwrap();
        drop(log);
        let mut written = vec![vec![0]];
        for round in 10..14 {
            let case = format!("{before} before the end, round {round}");
            let engine = open(&machine).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(rows(&engine), written, "{case}");
            if write(&engine, &[round]).is_ok() {
                written.push(vec![round]);
            }
            let flushed = engine.tree(TREE).and_then(|tree| tree.flush());
            assert!(matches!(flushed, Ok(()) | Err(Error::WritesStopped(_))), "{flushed:?}");
        }
    }
}

/// A closed store whose log is larger than `small` memory; and its rows.
fn long_log() -> (SimEnv, Vec<Vec<u8>>) {
    let machine = SimEnv::new(1);
    let engine = open(&machine).unwrap();
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let mut rows = Vec::new();
    for row in 0..200u8 {
        let mut batch = WriteBatch::new();
        let value = vec![row; 100_000];
        batch.put(&[row], Column::of(FamilyId(1), b"q"), Timestamp(1), &value);
        engine.tree(TREE).unwrap().write(&batch).unwrap();
        rows.push(vec![row]);
    }
    engine.close().unwrap();
    (machine, rows)
}

fn small() -> Options {
    let shape = Options::default().shape;
    let (memory_bytes_max, memtable_bytes_max) = (shape.memory_bytes_min, 1 << 20);
    Options { memory_bytes_max, memtable_bytes_max, ..Options::default() }
}

/// Numbers that are used up stop flushes, not reads.
#[test]
fn a_log_that_memory_is_too_small_for_is_replayed_though_file_numbers_are_used_up() {
    for next in [NUMBERS_END, NUMBERS_END - 1] {
        let (machine, want) = long_log();
        manifest(&machine).install(&[Edit::NextFile(FileNumber(next))]).unwrap();
        let engine = Engine::open_with_env(machine.env(), dir(), small()).unwrap();
        assert_eq!(rows(&engine), want);
        drop(engine);
        let named = manifest(&machine).state().files();
        let names = machine.env().fs.list(dir()).unwrap();
        let there = names.iter().filter_map(|name| FileNumber::of_sst(name)).collect();
        assert_eq!(named, there, "files that nobody names are left");
    }
}

/// Nothing could be flushed by it, and memory has no room for the log.
#[test]
fn a_log_that_memory_is_too_small_for_is_not_replayed_into_a_manifest_that_failed() {
    let mut failed = 0;
    for after in 0..40 {
        let (machine, want) = long_log();
        machine.fs.inject(FaultPoint::Write, after, 1, Fault::Io);
        match Engine::open_with_env(machine.env(), dir(), small()) {
            Ok(engine) => {
                machine.fs.clear_faults();
                assert_eq!(rows(&engine), want);
                // The last flush of the replay may be the one that failed.
                if engine.tree(TREE).and_then(|tree| tree.flush()).is_err() {
                    let left = engine.metrics().get("memtable_bytes").unwrap();
                    let most = small().memory_bytes_max as u64;
                    assert!(left <= most, "{after}: {left} bytes are not flushed");
                }
            }
            Err(error) => {
                assert!(error.to_string().contains("simulated I/O error"), "{error}");
                failed += 1;
            }
        }
    }
    assert!(failed > 5, "{failed} opens failed");
}

/// Whoever puts a file there takes its number only, and no other one.
#[test]
fn a_stray_sstable_uses_no_numbers_up() {
    for stray in [FileNumber(NUMBERS_END - 1), FileNumber(2), FileNumber(3)] {
        let (machine, _) = store(10);
        let fs = machine.env().fs;
        fs.create(&stray.sst_path(dir())).unwrap().sync().unwrap();
        fs.sync_dir(dir()).unwrap();
        let mut written = 10;
        for _ in 0..3 {
            let engine = open(&machine).unwrap();
            write(&engine, &[written]).unwrap();
            engine.tree(TREE).unwrap().flush().unwrap();
            written += 1;
            assert_eq!(rows(&engine).len(), usize::from(written));
            engine.close().unwrap();
        }
        assert!(manifest(&machine).state().next_file < FileNumber(100), "{stray:?}");
    }
}

/// A new directory in which something stands that is like a part of a log.
#[test]
fn a_stray_file_of_the_log_takes_no_place_in_it() {
    for number in [7, NUMBERS_END - 1] {
        for kind in ["spare", "log"] {
            let machine = SimEnv::new(1);
            let fs = machine.env().fs;
            fs.create_dir_all(dir()).unwrap();
            let stray = dir().join(format!("{number:010}.{kind}"));
            fs.create(&stray).unwrap().sync().unwrap();
            fs.sync_dir(dir()).unwrap();
            let case = format!("{}", stray.display());
            match open(&machine) {
                Err(Error::Corruption(Corruption { what, .. })) if kind == "log" => {
                    assert!(what.contains("missing"), "{case}: {what}");
                }
                Err(error) => panic!("{case}: {error}"),
                Ok(engine) => {
                    engine.create_tree(TREE, TreeOptions::default()).unwrap();
                    write(&engine, b"a").unwrap();
                    drop(engine);
                    for _ in 0..2 {
                        let engine = open(&machine);
                        let engine = engine.unwrap_or_else(|error| panic!("{case}: {error}"));
                        assert_eq!(rows(&engine), [b"a"], "{case}");
                        engine.close().unwrap();
                    }
                }
            }
        }
    }
}
