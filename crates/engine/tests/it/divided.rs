//! Large compactions are divided into subcompactions: on a simulated machine, where helpers write some of
//! them, power is lost and calls fail; and on real threads.

use crate::support::{TREE, collect, eventually, open as open_real, small};
use base::env::sim::{Call, Fault, FaultPoint, SimEnv};
use base::env::{Env, Rng};
use engine::check::check_dir;
use engine::internals::OwnedRow;
use engine::{
    BackgroundRate, Column, Durability, Engine, Error, FamilyId, Options, RowRange, ScanRequest,
    Timestamp, TreeOptions, WriteBatch,
};
use std::path::Path;

const DIR: &str = "data";
const FAMILY: FamilyId = FamilyId(1);
const ROWS: u16 = 800;

/// The shape asks for no compaction, and subcompactions need not be large.
fn options(subcompactions_max: Option<usize>) -> Options {
    let (durability, l0_runs_compact, l0_runs_stall) = (Durability::Sync, 40, 60);
    Options { durability, l0_runs_compact, l0_runs_stall, subcompactions_max, ..small() }
}

fn open(machine: &SimEnv, options: Options) -> Engine {
    let engine = Engine::open_with_env(machine.env(), Path::new(DIR), options).unwrap();
    if engine.trees().is_empty() {
        engine.create_tree(TREE, TreeOptions::default()).unwrap();
    }
    engine
}

/// Writes a value that does not compress into most rows, deletes some others, and drops a range.
fn write_round(engine: &Engine, round: u16) {
    let mut rng = Rng::new(round.into());
    for first in (0..ROWS).step_by(50) {
        let mut batch = WriteBatch::new();
        for row in first..first + 50 {
            let key = row.to_be_bytes();
            if (row + round).is_multiple_of(11) {
                batch.delete_row(&key);
                continue;
            }
            let value: Vec<u8> = (0..60).flat_map(|_| rng.next_u64().to_be_bytes()).collect();
            batch.put(&key, Column::of(FAMILY, b"q"), Timestamp(round.into()), &value);
        }
        if first == 150 {
            batch.drop_row_range(&120u16.to_be_bytes(), Some(&330u16.to_be_bytes()));
        }
        engine.tree(TREE).unwrap().write(&batch).unwrap();
    }
    engine.tree(TREE).unwrap().flush().unwrap();
}

/// A last level of several files, and newer runs above all of them.
fn fill(engine: &Engine) {
    write_round(engine, 0);
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    write_round(engine, 1);
}

fn all(engine: &Engine) -> Vec<OwnedRow> {
    collect(engine.tree(TREE).unwrap().scan(&ScanRequest::rows(RowRange::ALL), None).unwrap())
}

fn metric(engine: &Engine, name: &str) -> u64 {
    engine.metrics().get(name).unwrap()
}

fn subcompactions(engine: &Engine) -> [u64; 2] {
    ["subcompactions_total", "subcompactions_helped_total"].map(|name| metric(engine, name))
}

fn ssts(machine: &SimEnv) -> usize {
    let files = machine.fs.files();
    files.iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "sst")).count()
}

#[test]
fn pieces_are_one_compaction_with_the_outcome_of_an_undivided_one() {
    let (machine, other) = (SimEnv::new(3), SimEnv::new(3));
    let (divided, whole) = (open(&machine, options(None)), open(&other, options(Some(1))));
    for engine in [&divided, &whole] {
        fill(engine);
    }
    let before = subcompactions(&divided);
    for engine in [&divided, &whole] {
        engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    }
    let [count, helped] = [0, 1].map(|at| subcompactions(&divided)[at] - before[at]);
    assert!((2..=4).contains(&count), "{count} pieces");
    assert!((1..=count).contains(&helped), "{helped} of {count} were written by others");
    assert_eq!(subcompactions(&whole), [0, 0]);
    for name in [
        "compactions_total",
        "level_runs{level=\"0\"}",
        "level_runs{level=\"1\"}",
        "level_runs{level=\"2\"}",
    ] {
        assert_eq!(metric(&divided, name), metric(&whole, name), "{name}");
    }
    assert_eq!(metric(&divided, "compactions_running"), 0);
    assert_eq!(all(&divided), all(&whole));
    let more = ssts(&machine).saturating_sub(ssts(&other)) as u64;
    assert!(more < count, "{more} files more of {count} pieces");
}

#[test]
fn power_lost_in_any_subcompaction_loses_nothing() {
    let begin = || {
        let machine = SimEnv::new(7);
        let engine = open(&machine, options(None));
        fill(&engine);
        (machine, engine)
    };
    let (machine, engine) = begin();
    let (want, first) = (all(&engine), machine.fs.operations());
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    let (last, after) = (machine.fs.operations(), ssts(&machine));
    assert!(subcompactions(&engine)[0] > 1);
    for operation in (first..=last).step_by(3) {
        let (machine, engine) = begin();
        machine.fs.power_off_at(operation);
        let _ = engine.tree(TREE).and_then(|tree| tree.compact_range(&RowRange::ALL));
        drop(engine);
        let machine = machine.power_loss();
        let engine = open(&machine, options(None));
        assert_eq!(all(&engine), want, "power lost at {operation}");
        engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
        assert_eq!(all(&engine), want, "compacted after power was lost at {operation}");
        // Where the compaction was installed before, its files are merged once more, undivided.
        assert!(ssts(&machine) <= after, "power lost at {operation}");
    }
}

#[test]
fn a_failed_subcompaction_leaves_no_file_of_any() {
    for call in [Call::Create, Call::WriteAt, Call::SyncFile, Call::SyncDir] {
        let machine = SimEnv::new(11);
        let engine = open(&machine, options(None));
        fill(&engine);
        let (want, before) = (all(&engine), ssts(&machine));
        let mut failures = 0;
        for after in 0.. {
            machine.fs.inject(FaultPoint::Call(call), after, 1, Fault::Io);
            match engine.tree(TREE).and_then(|tree| tree.compact_range(&RowRange::ALL)) {
                // That of a file, or of the directory that names them.
                Err(Error::Io { path, .. })
                    if path == Path::new(DIR) || path.extension().is_some_and(|e| e == "sst") =>
                {
                    assert_eq!(ssts(&machine), before, "{call:?} {after}");
                    assert_eq!(metric(&engine, "compactions_running"), 0);
                    failures += 1;
                }
                // The manifest's: it has its own tests.
                _ => break,
            }
            assert_eq!(all(&engine), want, "{call:?} {after}");
        }
        assert!(failures >= 2, "{call:?} failed {failures} times");
        assert!(subcompactions(&engine)[0] > 2 * failures, "each time there were pieces");
        assert!(subcompactions(&engine)[1] > 0, "and helpers");
    }
}

#[test]
fn threads_write_subcompactions_at_the_same_time() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open_with_env(Env::real(4), dir.path(), options(None)).unwrap();
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    fill(&engine);
    for round in 2..8 {
        let (before, snapshot) = (all(&engine), engine.snapshot());
        write_round(&engine, round);
        let now = all(&engine);
        engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
        assert_eq!(all(&engine), now, "round {round}");
        let rows = ScanRequest::rows(RowRange::ALL);
        assert_eq!(
            collect(engine.tree(TREE).unwrap().scan(&rows, Some(&snapshot)).unwrap()),
            before
        );
    }
    assert!(subcompactions(&engine)[0] >= 12, "{:?}", subcompactions(&engine));
    engine.close().unwrap();
    drop(engine);
    let report = check_dir(&Env::real(1), dir.path(), &mut |_| ()).unwrap();
    assert!(
        report.is_clean() && report.notes.is_empty(),
        "{:?} {:?}",
        report.findings,
        report.notes
    );
}

#[test]
fn closing_ends_all_subcompactions() {
    let dir = tempfile::tempdir().unwrap();
    // So slow that it takes half a second; whether closing comes before its end is not certain.
    let options =
        Options { background_rate: BackgroundRate::BytesPerSecond(1 << 20), ..options(None) };
    let engine = Engine::open_with_env(Env::real(4), dir.path(), options.clone()).unwrap();
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    fill(&engine);
    let want = all(&engine);
    std::thread::scope(|scope| {
        let compaction =
            scope.spawn(|| engine.tree(TREE).and_then(|tree| tree.compact_range(&RowRange::ALL)));
        eventually("it is divided", || subcompactions(&engine)[0] > 0);
        engine.close().unwrap();
        let outcome = compaction.join().unwrap();
        assert!(matches!(outcome, Ok(()) | Err(Error::Closed)), "{outcome:?}");
    });
    drop(engine);
    let report = check_dir(&Env::real(1), dir.path(), &mut |_| ()).unwrap();
    assert!(
        report.is_clean() && report.notes.is_empty(),
        "{:?} {:?}",
        report.findings,
        report.notes
    );
    let engine = open_real(dir.path(), options);
    assert_eq!(all(&engine), want);
}
