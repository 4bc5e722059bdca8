//! Compactions that no write asks for: of garbage, and of quiet trees that are read; pausing them;
//! and writers that are slowed before they stop. On a simulated machine, whose clock the tests move.

use crate::support::{TREE, collect, small};
use base::env::sim::SimEnv;
use engine::elision_policy::{ElisionPolicy, ElisionRules, Verdict};
use engine::{
    BackgroundRate, Column, ColumnOf, Durability, Engine, Error, FamilyId, IngestOptions, Options,
    RowRange, ScanRequest, Timestamp, TreeOptions, WriteBatch,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const FAMILY: FamilyId = FamilyId(1);
const HOUR_MICROS: i64 = 3_600_000_000;

/// An engine whose shape asks for nothing unless `l0_runs_compact` says so.
fn open(machine: &SimEnv, options: Options) -> Engine {
    let options = Options { durability: Durability::Sync, ..options };
    let engine = Engine::open_with_env(machine.env(), Path::new("data"), options).unwrap();
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    engine
}

fn calm() -> Options {
    Options { l0_runs_compact: 20, l0_runs_stall: 40, ..small() }
}

/// Writes a cell into each of `rows` rows and flushes.
fn fill(engine: &Engine, rows: u16, timestamp: i64) {
    let mut batch = WriteBatch::new();
    for row in 0..rows {
        let column = Column::of(FAMILY, b"q");
        batch.put(&row.to_be_bytes(), column, Timestamp(timestamp), &[7; 100]);
    }
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    engine.tree(TREE).unwrap().flush().unwrap();
}

fn metric(engine: &Engine, name: &str) -> u64 {
    engine.metrics().get(name).unwrap()
}

fn runs(engine: &Engine) -> u64 {
    ["level_runs{level=\"0\"}", "level_runs{level=\"1\"}", "level_runs{level=\"2\"}"]
        .map(|name| metric(engine, name))
        .iter()
        .sum()
}

fn rows(engine: &Engine) -> usize {
    collect(engine.tree(TREE).unwrap().scan(&ScanRequest::rows(RowRange::ALL), None).unwrap()).len()
}

/// Lets `time` pass and does what is due then.
fn pass(machine: &SimEnv, time: Duration) {
    machine.clock.advance(time);
    while machine.tasks.run_ready() {}
}

const A_LOOK: Duration = Duration::from_secs(11);

/// Cells live for an hour.
struct AnHour;

struct After(i64);

impl ElisionRules for AnHour {
    fn policy(&self, now_micros: i64) -> Box<dyn ElisionPolicy> {
        Box::new(After(now_micros - HOUR_MICROS))
    }
}

impl ElisionPolicy for After {
    fn verdict(&self, _: FamilyId, _: u32, timestamp: Timestamp) -> Verdict {
        if timestamp.0 < self.0 { Verdict::Elide } else { Verdict::Keep }
    }
}

#[test]
fn expired_cells_leave_the_disk_although_nobody_asks() {
    let machine = SimEnv::new(1);
    let engine = open(&machine, calm());
    engine.tree(TREE).unwrap().set_elision_rules(Arc::new(AnHour)).unwrap();
    let now = machine.env().clock.now_micros();
    fill(&engine, 300, now);
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    pass(&machine, A_LOOK);
    assert_eq!(metric(&engine, "compactions_total{reason=\"garbage\"}"), 0, "nothing has expired");
    let before = metric(&engine, "level_bytes{level=\"2\"}");
    pass(&machine, Duration::from_secs(3700));
    assert_eq!(metric(&engine, "compactions_total{reason=\"garbage\"}"), 1);
    assert!(before > 1_000, "{before}");
    assert_eq!((metric(&engine, "level_bytes{level=\"2\"}"), rows(&engine)), (0, 0));
}

#[test]
fn expired_cells_that_a_snapshot_sees_wait_for_it_and_are_not_rewritten_in_vain() {
    let machine = SimEnv::new(2);
    let engine = open(&machine, calm());
    engine.tree(TREE).unwrap().set_elision_rules(Arc::new(AnHour)).unwrap();
    let snapshot = engine.snapshot();
    let now = machine.env().clock.now_micros();
    fill(&engine, 300, now);
    for _ in 0..5 {
        pass(&machine, Duration::from_secs(3700));
    }
    assert_eq!(metric(&engine, "compactions_total{reason=\"garbage\"}"), 0);
    drop(snapshot);
    pass(&machine, A_LOOK);
    assert_eq!(metric(&engine, "compactions_total{reason=\"garbage\"}"), 1);
    assert_eq!(runs(&engine), 0);
}

#[test]
fn tombstones_of_a_quiet_tree_leave_the_disk_with_what_they_hide() {
    let machine = SimEnv::new(3);
    let engine = open(&machine, calm());
    fill(&engine, 300, 1);
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    let mut batch = WriteBatch::new();
    (0..299u16).for_each(|row| batch.delete_row(&row.to_be_bytes()));
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    engine.tree(TREE).unwrap().flush().unwrap();
    pass(&machine, A_LOOK);
    assert_eq!(metric(&engine, "compactions_total{reason=\"garbage\"}"), 1);
    assert_eq!((runs(&engine), rows(&engine)), (1, 1));
    assert!(metric(&engine, "level_bytes{level=\"2\"}") < 2_000);
    pass(&machine, A_LOOK);
    assert_eq!(metric(&engine, "compactions_total{reason=\"garbage\"}"), 1, "once was enough");
}

#[test]
fn a_dropped_range_leaves_the_disk_with_what_it_hides() {
    let machine = SimEnv::new(4);
    let engine = open(&machine, calm());
    fill(&engine, 300, 1);
    let mut batch = WriteBatch::new();
    batch.drop_row_range(&[], None);
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    engine.tree(TREE).unwrap().flush().unwrap();
    pass(&machine, A_LOOK);
    assert_eq!((runs(&engine), rows(&engine)), (0, 0));
}

#[test]
fn a_quiet_tree_that_is_read_comes_down_to_one_run() {
    let machine = SimEnv::new(5);
    let engine = open(&machine, calm());
    (0..3).for_each(|round| fill(&engine, 300, round));
    for _ in 0..3 {
        pass(&machine, A_LOOK);
    }
    assert_eq!(runs(&engine), 3, "nobody reads");
    for _ in 0..200 {
        assert_eq!(rows(&engine), 300);
    }
    fill(&engine, 1, 9);
    pass(&machine, A_LOOK);
    assert_eq!(runs(&engine), 4, "it was written a moment ago");
    for _ in 0..200 {
        assert_eq!(rows(&engine), 300);
    }
    pass(&machine, A_LOOK);
    assert_eq!((runs(&engine), metric(&engine, "compactions_total{reason=\"reads\"}")), (1, 1));
    let compactions = metric(&engine, "compactions_total");
    (0..200).for_each(|_| assert_eq!(rows(&engine), 300));
    pass(&machine, 3 * A_LOOK);
    assert_eq!(metric(&engine, "compactions_total"), compactions, "one run rests");
}

#[test]
fn a_pause_stops_compactions_and_never_a_write() {
    let machine = SimEnv::new(6);
    let engine = open(&machine, Options { l0_runs_compact: 2, l0_runs_stall: 6, ..small() });
    engine.pause_compactions();
    assert!(engine.compactions_paused());
    (0..2).for_each(|round| fill(&engine, 50, round));
    pass(&machine, A_LOOK);
    assert_eq!((runs(&engine), metric(&engine, "compactions_total")), (2, 0));
    engine.resume_compactions();
    pass(&machine, A_LOOK);
    assert_eq!((runs(&engine), metric(&engine, "compactions_paused")), (1, 0));
    engine.pause_compactions();
    for round in 0..30 {
        fill(&engine, 50, round);
        assert!(metric(&engine, "level_runs{level=\"0\"}") <= 6);
    }
    assert_eq!(metric(&engine, "write_stalls_total"), 0);
    assert_eq!(metric(&engine, "compactions_running"), 0);
    assert_eq!(rows(&engine), 50);
}

#[test]
fn a_tree_at_rest_is_not_compacted_but_to_let_its_writers_go_on() {
    let machine = SimEnv::new(6);
    let engine = open(&machine, Options { l0_runs_compact: 2, l0_runs_stall: 6, ..small() });
    let tree = engine.tree(TREE).unwrap();
    tree.set_at_rest(true).unwrap();
    (0..2).for_each(|round| fill(&engine, 50, round));
    pass(&machine, A_LOOK);
    assert_eq!((runs(&engine), metric(&engine, "compactions_total")), (2, 0));
    (0..30).for_each(|round| fill(&engine, 50, round));
    assert_eq!(metric(&engine, "write_stalls_total"), 0);
    pass(&machine, A_LOOK);
    (0..2).for_each(|round| fill(&engine, 50, round));
    let left = runs(&engine);
    tree.set_at_rest(false).unwrap();
    pass(&machine, A_LOOK);
    assert!(left > 1 && runs(&engine) == 1, "{left}");
}

#[test]
fn a_compaction_by_hand_runs_during_a_pause() {
    let machine = SimEnv::new(7);
    let engine = open(&machine, calm());
    (0..3).for_each(|round| fill(&engine, 50, round));
    engine.pause_compactions();
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    assert_eq!(runs(&engine), 1);
}

#[test]
fn writers_are_slowed_before_they_stop_and_the_histogram_says_so() {
    let machine = SimEnv::new(8);
    let engine = open(&machine, Options { l0_runs_compact: 1, l0_runs_stall: 3, ..small() });
    let stalls = |engine: &Engine| {
        engine.metrics().histogram("write_stall_seconds").unwrap().buckets.clone()
    };
    assert_eq!(stalls(&engine).count(), 0);
    engine.pause_compactions();
    fill(&engine, 50, 1);
    assert_eq!(stalls(&engine).count(), 0);
    // The second run is one more than starts a compaction, which waits in the queue meanwhile.
    fill(&engine, 50, 2);
    for timestamp in 3..6 {
        let mut batch = WriteBatch::new();
        batch.put(b"row", Column::of(FAMILY, b"q"), Timestamp(timestamp), &[7; 10_000]);
        engine.tree(TREE).unwrap().write(&batch).unwrap();
    }
    assert!(metric(&engine, "write_slowdowns_total") > 0);
    assert_eq!(metric(&engine, "write_stalls_total"), 0);
    assert_eq!(stalls(&engine).count(), metric(&engine, "write_slowdowns_total"));
}

#[test]
fn an_ingest_that_failed_waits_for_room_when_it_is_tried_again() {
    let machine = SimEnv::new(13);
    let engine = open(&machine, Options { l0_runs_compact: 1, l0_runs_stall: 3, ..small() });
    engine.pause_compactions();
    let mut writer = engine.tree(TREE).unwrap().sst_writer(&IngestOptions::default()).unwrap();
    writer.put(b"row", Column::of(FAMILY, b"q"), Timestamp(1), b"value").unwrap();
    let mut files = writer.finish().unwrap();
    engine.ready_ingest(&mut files).unwrap();
    // The row is in memory: that is to be flushed before, and there is no space.
    let mut batch = WriteBatch::new();
    batch.put(b"row", Column::of(FAMILY, b"q"), Timestamp(1), &[7; 1_000]);
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    machine.fs.set_capacity(machine.fs.used());
    let failed = engine.ingest(&mut files);
    assert!(matches!(failed, Err(Error::NoSpace { .. })), "{failed:?}");
    machine.fs.set_capacity(u64::MAX);
    (0..2).for_each(|round| fill(&engine, 50, round));
    batch.put(b"other", Column::of(FAMILY, b"q"), Timestamp(1), &[7; 30_000]);
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    let slowed = metric(&engine, "write_slowdowns_total");
    engine.ingest(&mut files).unwrap();
    assert_eq!(metric(&engine, "write_slowdowns_total"), slowed + 1);
}

#[test]
fn a_limited_engine_does_all_its_work() {
    for background_rate in [BackgroundRate::Auto, BackgroundRate::BytesPerSecond(1 << 20)] {
        let machine = SimEnv::new(9);
        let engine = open(&machine, Options { background_rate, ..small() });
        (0..12).for_each(|round| fill(&engine, 100, round));
        pass(&machine, A_LOOK);
        assert_eq!(rows(&engine), 100, "{background_rate:?}");
        assert!(metric(&engine, "compactions_total") > 0);
        assert!(metric(&engine, "background_bytes_per_second") >= 1 << 20);
    }
}

/// It pins the files and the memtable it began with; the cache, the space on disk and everybody
/// else go on as if it was not there.
#[test]
fn a_scan_held_for_an_hour_costs_what_it_began_with() {
    const ROWS: u16 = 300;
    let machine = SimEnv::new(10);
    let options = Options { l0_runs_compact: 2, l0_runs_stall: 6, ..small() };
    let engine = open(&machine, options);
    fill(&engine, ROWS, 1);
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"in memory", Column::of(FAMILY, b"q"), Timestamp(1), b"value");
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    let mut scan =
        engine.tree(TREE).unwrap().scan(&ScanRequest::rows(RowRange::ALL), None).unwrap();
    assert!(scan.next_row().unwrap().is_some());
    let began_with = metric(&engine, "level_bytes{level=\"2\"}");
    for minute in 0..60 {
        fill(&engine, ROWS, i64::from(minute) + 2);
        pass(&machine, Duration::from_secs(60));
        if minute % 10 == 4 {
            engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
        }
        let want = if minute < 4 { 0..=began_with } else { began_with..=began_with };
        let held = metric(&engine, "obsolete_sst_bytes");
        assert!(want.contains(&held), "minute {minute}: {held} of {began_with}");
        assert!(metric(&engine, "memory_bytes{owner=\"outlived_memtables\"}") > 0);
    }
    // What is read again and again stays in the cache: its frames come free although others wait.
    let all_resident = (0..1_000).any(|_| {
        let before = metric(&engine, "cache_misses_total");
        for row in 0..ROWS {
            assert!(
                engine
                    .tree(TREE)
                    .unwrap()
                    .get(ColumnOf::new(&row.to_be_bytes(), FAMILY, b"q"), None)
                    .unwrap()
                    .is_some()
            );
        }
        metric(&engine, "cache_misses_total") == before
    });
    assert!(all_resident, "the cache does not keep what is read");
    let bytes =
        ["level_bytes{level=\"0\"}", "level_bytes{level=\"1\"}", "level_bytes{level=\"2\"}"]
            .map(|name| metric(&engine, name));
    assert!(bytes.iter().sum::<u64>() < 8 * 61 * began_with, "{bytes:?}");
    let mut rows = 1;
    while let Some(cell) = scan.next_cell().unwrap() {
        assert_eq!(cell.timestamp, Timestamp(1));
        assert_eq!(scan.next_cell().unwrap().map(|cell| cell.timestamp), None);
        if scan.next_row().unwrap().is_none() {
            break;
        }
        rows += 1;
    }
    assert_eq!(rows, ROWS + 1);
    drop(scan);
    pass(&machine, A_LOOK);
    let held = ["obsolete_ssts", "memory_bytes{owner=\"outlived_memtables\"}"]
        .map(|name| metric(&engine, name));
    assert_eq!(held, [0; 2]);
}

/// Writes a little more than a memtable takes, without asking for its flush.
fn overfill(engine: &Engine, timestamp: i64) {
    for row in 0..70u16 {
        let mut batch = WriteBatch::new();
        let column = Column::of(FAMILY, b"q");
        batch.put(&row.to_be_bytes(), column, Timestamp(timestamp), &[7; 1000]);
        engine.tree(TREE).unwrap().write(&batch).unwrap();
    }
}

#[test]
fn memtables_wait_in_memory_while_a_tree_has_all_the_runs_it_may() {
    let machine = SimEnv::new(10);
    let options = Options { l0_runs_compact: 4, l0_runs_stall: 40, ..small() };
    let most = engine::internals::runs_max(&options) as u64;
    assert_eq!(most, 6);
    let engine = open(&machine, options);
    // Who asks for a flush gets one.
    engine.pause_compactions();
    (0..5).for_each(|round| fill(&engine, 50, round));
    assert_eq!(runs(&engine), 5, "with the last level, which is empty as yet, six");
    let flushes = metric(&engine, "flushes_total");
    overfill(&engine, 10);
    assert_eq!(metric(&engine, "flushes_total"), flushes, "one more would be the seventh");
    assert!(metric(&engine, "memory_bytes{owner=\"frozen_memtables\"}") > 0);
    // Nothing happens on this machine before somebody waits: then a compaction makes a place,
    // although they are paused, and the flush follows.
    pass(&machine, Duration::from_secs(1));
    assert_eq!(metric(&engine, "compactions_total"), 1);
    assert_eq!(metric(&engine, "flushes_total"), flushes + 1);
    assert_eq!(metric(&engine, "memory_bytes{owner=\"frozen_memtables\"}"), 0);
    assert_eq!(runs(&engine), 2);
    (20..40).for_each(|timestamp| overfill(&engine, timestamp));
    pass(&machine, A_LOOK);
    assert!(metric(&engine, "sorted_runs_most") <= most);
    assert_eq!(rows(&engine), 70);
}
