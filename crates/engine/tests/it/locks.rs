//! What is done while locks are held, on the simulated machine, which refuses I/O that the lock order
//! (`engine::locks`) does not list.

use crate::support::{TREE, small};
use base::env::sim::SimClock;
use base::env::{Clock, SimEnv};
use base::sync::holds_any;
use base::testing::in_own_process;
use engine::BackgroundRate;
use engine::group_log::{EntryId, GroupEntry, GroupId, GroupLog, GroupWrite, HardState};
use engine::internals::LOCKS;
use engine::internals::Shape;
use engine::{
    Column, ColumnOf, Engine, FamilyId, IngestOptions, Options, RowRange, ScanRequest, Timestamp,
    TreeId, TreeOptions, WriteBatch,
};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FAMILY: FamilyId = FamilyId(1);

/// A clock that lets somebody act when it is asked for the time by a thread without locks.
struct Hooked {
    clock: Arc<SimClock>,
    act: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for Hooked {
    fn now_micros(&self) -> i64 {
        self.clock.now_micros()
    }

    fn monotonic(&self) -> Duration {
        if !holds_any() {
            let act = self.act.lock().unwrap().take();
            act.into_iter().for_each(|act| act());
        }
        self.clock.monotonic()
    }
}

/// An engine with a tree, on a machine whose clock is the second.
fn hooked(machine: &SimEnv, options: Options) -> (Engine, Arc<Hooked>) {
    let (clock, act) = (Arc::clone(&machine.clock), Mutex::default());
    let hooked = Arc::new(Hooked { clock, act });
    let mut env = machine.env();
    env.clock = Arc::<Hooked>::clone(&hooked);
    let engine = Engine::open_with_env(env, Path::new("/data"), options).unwrap();
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    (engine, hooked)
}

fn put(engine: &Engine, row: u8, value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(&[row], Column::of(FAMILY, b"q"), Timestamp(1), value);
    engine.tree(TREE).unwrap().write(&batch).unwrap();
}

fn get(engine: &Engine, row: u8) -> Option<Vec<u8>> {
    let found = engine.tree(TREE).unwrap().get(ColumnOf::new(&[row], FAMILY, b"q"), None).unwrap();
    found.map(|(_, value)| value)
}

/// Ingests rows 0 to 9, of which some are in memory before and one is written while these are
/// flushed: it has to be flushed while commits stop.
fn ingest_beside_a_write(engine: &Engine, clock: &Hooked) {
    let mut writer = engine.tree(TREE).unwrap().sst_writer(&IngestOptions::default()).unwrap();
    for row in 0..10 {
        writer.put(&[row], Column::of(FAMILY, b"q"), Timestamp(1), b"ingested").unwrap();
    }
    let mut files = writer.finish().unwrap();
    put(engine, 1, b"before");
    let flushes = || engine.metrics().get("flushes_total").unwrap();
    let before = flushes();
    let other = engine.clone();
    *clock.act.lock().unwrap() = Some(Box::new(move || put(&other, 2, b"meanwhile")));
    engine.ingest(&mut files).unwrap();
    assert_eq!(flushes() - before, 2, "before commits stop, and while they do");
    assert!((0..10).all(|row| get(engine, row).unwrap() == b"ingested"));
}

/// Fills segments of a group log, repeats the entries that keep the oldest, and frees segments. The
/// states that are written again meanwhile need a segment, which is a spare.
fn free_segments_of_a_group_log(machine: &SimEnv, options: &Options) {
    let options = Options { log_segment_bytes: 64 << 10, ..options.clone() };
    let log = GroupLog::open(&machine.env(), Path::new("/data/group-log"), &options).unwrap();
    let (hard, start, long) = (HardState::default(), EntryId::default(), [7; 50 << 10]);
    let create = |group| GroupWrite::Create {
        group: GroupId(group),
        replica: 1,
        hard,
        descriptor: &long,
        start,
    };
    for group in 1..=4 {
        log.append(&[create(group)]).unwrap();
    }
    let entries = &[GroupEntry { term: 0, kind: 0, payload: b"entry" }][..];
    let append = |group, first, commit| GroupWrite::Append {
        group: GroupId(group),
        hard: Some(HardState { commit, ..hard }),
        descriptor: None,
        snapshot: None,
        first,
        entries,
    };
    log.append(&[append(1, 1, 1)]).unwrap();
    for round in 1..=3 {
        log.append_again(GroupId(1)).unwrap();
        log.append(&[append(1, round + 1, round + 1)]).unwrap();
        log.truncate(GroupId(1), round).unwrap();
        log.reclaim().unwrap();
    }
}

fn at_a_rate() -> Options {
    let background_rate = BackgroundRate::BytesPerSecond(1 << 20);
    Options { background_rate, ..small() }
}

/// Beside the order itself: an ingest that waits for the rate, or removes files and segments, while
/// commits stop would do so under their locks.
#[test]
fn an_ingest_neither_waits_nor_clears_away_while_commits_stop() {
    let machine = SimEnv::new(1);
    let (engine, clock) = hooked(&machine, at_a_rate());
    ingest_beside_a_write(&engine, &clock);
}

/// In a process of its own, which sees what this test does and nothing else.
#[test]
fn every_reason_for_io_under_a_lock_is_met() {
    in_own_process(|| {
        let machine = SimEnv::new(2);
        let shape = Shape { log_spares_max: 1, manifest_roll_bytes: 1, ..Shape::DEFAULT };
        let shape = Shape { open_files_min: 1, ..shape };
        let options = Options { shape, open_files_max: Some(1), ..at_a_rate() };
        let (engine, clock) = hooked(&machine, options.clone());
        ingest_beside_a_write(&engine, &clock);
        for round in 0..20 {
            put(&engine, 100, &[round; 50 << 10]);
            put(&engine, round, &[round; 50 << 10]);
            engine.tree(TREE).unwrap().flush().unwrap();
        }
        engine.create_tree(TreeId(2), TreeOptions::default()).unwrap();
        engine.drop_tree(TreeId(2)).unwrap();
        engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
        let mut scan =
            engine.tree(TREE).unwrap().scan(&ScanRequest::rows(RowRange::ALL), None).unwrap();
        while scan.next_row().unwrap().is_some() {}
        engine.close().unwrap();
        free_segments_of_a_group_log(&machine, &options);
        let left = LOCKS.iter().map(|lock| (lock.name(), lock.not_met()));
        let left: Vec<_> = left.filter(|(_, kinds)| !kinds.is_empty()).collect();
        assert!(left.is_empty() || !cfg!(debug_assertions), "listed, and not done: {left:?}");
    });
}
