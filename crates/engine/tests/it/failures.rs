//! Work that fails: who is told, when it is tried again, and that nobody waits for ever. On a
//! simulated machine unless threads are what is tested.

use crate::support::{TREE, small};
use base::env::sim::{Call, Fault, FaultPoint, SimEnv};
use engine::Options;
use engine::elision_policy::{ElisionPolicy, ElisionRules, Verdict};
use engine::{
    Column, ColumnOf, Durability, Engine, Error, FamilyId, RowRange, SequenceNumber, Timestamp,
    TreeId, TreeOptions, WriteBatch,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const DIR: &str = "/store";

/// One segment of the log is enough: whatever is created is an SSTable.
fn options() -> Options {
    Options { log_segment_bytes: 16 << 20, ..small() }
}

fn open(machine: &SimEnv, options: Options) -> Engine {
    let engine = Engine::open_with_env(machine.env(), Path::new(DIR), options).unwrap();
    if !engine.trees().contains(&TREE) {
        engine.create_tree(TREE, TreeOptions::default()).unwrap();
    }
    write(&engine, u64::MAX).unwrap();
    engine
}

fn batch(row: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    let value: Vec<u8> =
        (0..4000u64).map(|at| row.wrapping_mul(7919).wrapping_add(at * at) as u8).collect();
    batch.put(&row.to_be_bytes(), Column::of(FamilyId(1), b"q"), Timestamp(0), &value);
    batch
}

fn write(engine: &Engine, row: u64) -> engine::Result<SequenceNumber> {
    engine.tree(TREE).and_then(|tree| tree.write(&batch(row)))
}

fn fill(engine: &Engine, mut rows: std::ops::Range<u64>) {
    rows.try_for_each(|row| write(engine, row).map(|_| ())).unwrap();
}

fn has(engine: &Engine, row: u64) -> bool {
    engine
        .tree(TREE)
        .unwrap()
        .get(ColumnOf::new(&row.to_be_bytes(), FamilyId(1), b"q"), None)
        .unwrap()
        .is_some()
}

fn metric(engine: &Engine, name: &str) -> u64 {
    engine.metrics().get(name).unwrap()
}

fn ssts(machine: &SimEnv) -> Vec<PathBuf> {
    let files = machine.fs.files().into_iter().map(|(path, _)| path);
    files.filter(|path| path.extension().is_some_and(|kind| kind == "sst")).collect()
}

/// Lets `seconds` pass, with all that background work does meanwhile.
fn pass(machine: &SimEnv, seconds: u64) {
    for _ in 0..seconds * 10 {
        machine.clock.advance(Duration::from_millis(100));
        while machine.tasks.run_ready() {}
    }
}

/// Writes rows from `first` on until one is refused; gives it and the error.
fn until_refused(engine: &Engine, first: u64) -> (u64, Error) {
    let refused = (first..first + 10_000).find_map(|row| Some((row, write(engine, row).err()?)));
    refused.expect("memory is small")
}

#[test]
fn a_tree_takes_writes_again_by_itself_when_its_disk_is_well() {
    let machine = SimEnv::new(1);
    let engine = open(&machine, options());
    machine.fs.inject(FaultPoint::Call(Call::Create), 0, u64::MAX, Fault::Io);
    let (row, error) = until_refused(&engine, 0);
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    assert_eq!(metric(&engine, "trees_failing"), 1);
    pass(&machine, 100);
    let refused = write(&engine, row);
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    // Tries become rare: not ten a second for all that time.
    let failures = metric(&engine, "background_failures_total");
    assert!((10..40).contains(&failures), "{failures} tries");
    machine.fs.clear_faults();
    pass(&machine, 11);
    write(&engine, row).unwrap();
    assert_eq!(metric(&engine, "trees_failing"), 0);
    assert!((0..=row).all(|row| has(&engine, row)));
}

#[test]
fn a_failure_that_passes_is_felt_by_no_writer() {
    let machine = SimEnv::new(1);
    let engine = open(&machine, options());
    machine.fs.inject(FaultPoint::Call(Call::Create), 0, 2, Fault::Io);
    fill(&engine, 0..500);
    assert_eq!(metric(&engine, "background_failures_total"), 2);
}

#[test]
fn a_flush_by_hand_tells_how_its_own_try_went() {
    let machine = SimEnv::new(1);
    let engine = open(&machine, options());
    machine.fs.inject(FaultPoint::Call(Call::Create), 0, 1, Fault::Io);
    fill(&engine, 0..20);
    while metric(&engine, "background_failures_total") == 0 {
        assert!(machine.tasks.run_ready(), "a flush was begun");
    }
    assert_eq!(metric(&engine, "flushes_total"), 0);
    engine.tree(TREE).unwrap().flush().unwrap();
    assert!(metric(&engine, "flushes_total") > 0 && !ssts(&machine).is_empty());
    // And when it is its own try that fails.
    write(&engine, 100).unwrap();
    machine.fs.inject(FaultPoint::Call(Call::Create), 0, 1, Fault::Io);
    let failed = engine.tree(TREE).and_then(|tree| tree.flush());
    assert!(matches!(failed, Err(Error::Io { op: "create", .. })), "{failed:?}");
    engine.tree(TREE).unwrap().flush().unwrap();
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
}

#[test]
fn files_that_are_not_installed_are_removed() {
    for after in 0.. {
        let machine = SimEnv::new(1);
        let engine = open(&machine, Options { durability: Durability::None, ..options() });
        fill(&engine, 0..10);
        machine.fs.inject(FaultPoint::Call(Call::SyncFile), after, 1, Fault::Io);
        let failed = engine.tree(TREE).and_then(|tree| tree.flush());
        let came = !machine.fs.clear_faults();
        let Err(error) = failed else {
            assert!(came || after > 1, "the sync of the log was among them");
            if came { continue } else { return }
        };
        pass(&machine, 3);
        let Error::Io { path, .. } = &error else { panic!("{error}") };
        let manifest = path.to_string_lossy().contains("MANIFEST");
        // What the manifest may name is left to the next open.
        // The engine may have flushed since then.
        let installed = metric(&engine, "level_runs{level=\"0\"}") as usize;
        let files = ssts(&machine);
        assert!(files.len() == installed || manifest, "{error}: {files:?}, {installed} installed");
    }
}

#[test]
fn a_panic_in_the_background_stops_writes_and_leaves_nobody_waiting() {
    for (point, after) in [(Call::Create, 0), (Call::WriteAt, 3), (Call::SyncFile, 1)] {
        let mut machine = SimEnv::new(1);
        let engine = open(&machine, options());
        machine.fs.inject(FaultPoint::Call(point), after, 1, Fault::Panic);
        let (row, error) = until_refused(&engine, 0);
        let Error::WritesStopped(why) = &error else { panic!("{error}") };
        assert!(why.why.contains("simulated panic") && why.why.contains("tree 1"), "{why}");
        assert_eq!(metric(&engine, "background_panics_total"), 1);
        assert_eq!(metric(&engine, "writes_stopped"), 1);
        for refused in [
            write(&engine, row).map(|_| ()),
            engine.tree(TREE).and_then(|tree| tree.flush()),
            engine.tree(TREE).and_then(|tree| tree.compact_range(&RowRange::ALL)),
            engine.create_tree(TreeId(2), TreeOptions::default()).map(drop),
        ] {
            assert!(matches!(refused, Err(Error::WritesStopped(_))), "{refused:?}");
        }
        assert!((0..row).all(|row| has(&engine, row)), "reads go on");
        pass(&machine, 30);
        engine.sync().unwrap();
        let _ = engine.close();
        drop(engine);
        machine = machine.power_loss();
        let engine = open(&machine, options());
        assert!((0..row).all(|row| has(&engine, row)), "what was acknowledged is there");
        write(&engine, row).unwrap();
    }
}

/// Rules whose policy has a defect.
struct Broken;

impl ElisionRules for Broken {
    fn policy(&self, _: i64) -> Box<dyn ElisionPolicy> {
        Box::new(Self)
    }
}

impl ElisionPolicy for Broken {
    fn verdict(&self, _: FamilyId, _: u32, _: Timestamp) -> Verdict {
        panic!("a defect of the rules")
    }
}

#[test]
fn writers_on_other_threads_are_told_of_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::open(dir.path(), small()).unwrap();
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    engine.tree(TREE).unwrap().set_elision_rules(Arc::new(Broken)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let engine = &engine;
            scope.spawn(move || {
                let (_, error) = until_refused(engine, thread << 32);
                let Error::WritesStopped(why) = &error else { panic!("{error}") };
                assert!(why.why.contains("a defect of the rules"), "{why}");
            });
        }
    });
    engine.close().unwrap();
}

#[test]
fn a_compaction_by_hand_that_panics_says_so() {
    let machine = SimEnv::new(1);
    let engine = open(&machine, options());
    engine.pause_compactions();
    for row in 0..2 {
        write(&engine, row).unwrap();
        engine.tree(TREE).unwrap().flush().unwrap();
    }
    engine.tree(TREE).unwrap().set_elision_rules(Arc::new(Broken)).unwrap();
    let Err(Error::WritesStopped(why)) =
        engine.tree(TREE).and_then(|tree| tree.compact_range(&RowRange::ALL))
    else {
        panic!("it went well")
    };
    assert!(why.why.contains("a manual compaction of tree"), "{why}");
    assert!(why.why.contains("panicked: a defect of the rules"), "{why}");
    assert_eq!(engine.compactions(), []);
    assert!((0..2).all(|row| has(&engine, row)));
    engine.close().unwrap();
}

#[test]
fn a_damaged_file_is_left_alone_until_it_is_tried_again() {
    let machine = SimEnv::new(1);
    let engine = open(&machine, options());
    engine.pause_compactions();
    for row in 0..3 {
        write(&engine, row).unwrap();
        engine.tree(TREE).unwrap().flush().unwrap();
    }
    let damaged = ssts(&machine).remove(0);
    let intact = machine.fs.read(&damaged).unwrap();
    machine.fs.flip(&damaged, 100, 1).unwrap();
    engine.resume_compactions();
    pass(&machine, 1);
    let failures = || metric(&engine, "background_failures_total");
    assert_eq!((failures(), metric(&engine, "trees_failing")), (1, 1));
    pass(&machine, 50);
    assert_eq!(failures(), 1, "not again and again");
    pass(&machine, 15);
    assert_eq!(failures(), 2);
    // Whoever asks for it is told the place.
    let by_hand = engine.tree(TREE).and_then(|tree| tree.compact_range(&RowRange::ALL));
    assert!(matches!(by_hand, Err(Error::Corruption(_))), "{by_hand:?}");
    machine.fs.overwrite(&damaged, &intact).unwrap();
    pass(&machine, 1);
    assert_eq!((failures(), metric(&engine, "trees_failing")), (2, 0));
    assert_eq!(metric(&engine, "level_runs{level=\"0\"}"), 0);
    assert!((0..3).all(|row| has(&engine, row)));
}

#[test]
fn who_compacts_by_hand_does_not_wait_for_what_was_set_aside() {
    let machine = SimEnv::new(1);
    let engine = open(&machine, options());
    engine.pause_compactions();
    for row in 0..2 {
        write(&engine, row).unwrap();
        engine.tree(TREE).unwrap().flush().unwrap();
    }
    machine.fs.flip(&ssts(&machine)[0], 100, 1).unwrap();
    // It is queued, and ends while the call below waits for it.
    engine.resume_compactions();
    assert_eq!(engine.metrics().get("background_failures_total"), Some(0));
    let by_hand = engine.tree(TREE).and_then(|tree| tree.compact_range(&RowRange::ALL));
    assert!(matches!(by_hand, Err(Error::Corruption(_))), "{by_hand:?}");
    assert!(metric(&engine, "background_failures_total") > 0);
}
