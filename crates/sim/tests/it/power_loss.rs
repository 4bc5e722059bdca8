//! Power is lost at any operation on the disk, again and again: what was acknowledged as durable
//! is there, what was not is there wholly or not at all, in order and without a hole, and work
//! goes on.
//!
//! `STELE_CRASH_POINTS=10000 cargo test --release -p sim power_loss` tries that many; a failure
//! prints how to try just that one.

use base::env::Rng;
use base::env::sim::{Call, Fault, FaultPoint};
use engine::{Column, Engine, FamilyId, IngestOptions, RowRange, Timestamp, TreeId, WriteBatch};
use engine::{Compression, Durability, Options, TreeOptions};
use sim::machine::Machine;
use sim::oracle::Trouble;
use sim::points::{Point, number, try_all};
use sim::session::Session;
use sim::workload::{self, Shape, Step, small_options};
use std::path::{Path, PathBuf};
use std::time::Duration;

const DIR: &str = "/data/store";

/// A session on a new machine, and the choices that remain to be made.
fn session(seed: u64, durability: Durability) -> Session {
    Session::new(Machine::new(seed), Path::new(DIR), small_options(durability))
}

/// Opens the engine if need be, and takes the steps from `next` on. Stops with what went wrong,
/// or at the first step after the power went.
fn go_on(session: &mut Session, steps: &[Step], next: &mut usize) -> Result<(), Trouble> {
    if !session.is_open() {
        session.open()?;
        session.check()?;
    }
    while let Some(step) = steps.get(*next) {
        *next += 1;
        session.step(step)?;
        if session.machine().power_is_out() {
            return Ok(());
        }
    }
    session.check()?;
    session.close()?;
    session.open()?;
    session.check()?;
    session.close()?;
    nothing_is_left_over(session)
}

/// Every file of the closed store is whole and is one that the store knows.
fn nothing_is_left_over(session: &Session) -> Result<(), Trouble> {
    let report = engine::check::check_dir(&session.machine().env(), Path::new(DIR), &mut |_| ())?;
    if report.is_clean() && report.notes.is_empty() {
        return Ok(());
    }
    Err(format!("left over: {:?} {:?}", report.findings, report.notes).into())
}

/// Operations on the disk of a whole history without a power loss.
fn operations(seed: u64, steps: &[Step], durability: Durability) -> u64 {
    let mut session = session(seed, durability);
    let done = go_on(&mut session, steps, &mut 0);
    done.unwrap_or_else(|trouble| panic!("seed {seed}, no power loss: {trouble:?}"));
    session.machine().operations()
}

/// Loses power at operation `at`, and once or twice more soon after.
fn survive(point: Point, steps: &[Step], durability: Durability) -> Result<(), String> {
    let mut session = session(point.seed << 32 | point.at, durability);
    survive_in(&mut session, point, steps, durability)
}

/// The same in this session.
pub(crate) fn survive_in(
    session: &mut Session,
    point: Point,
    steps: &[Step],
    durability: Durability,
) -> Result<(), String> {
    let Point { seed, at } = point;
    let mut rng = Rng::new(seed << 32 | at);
    session.machine().lose_power_at(at);
    let (mut next, mut losses) = (0, 0);
    loop {
        let before = next;
        let done = go_on(session, steps, &mut next);
        let out = session.machine().power_is_out();
        match done {
            Err(Trouble::Refused(_)) | Ok(()) if out => {
                losses += 1;
                session.lose_power();
                if losses < 3 {
                    // Often within the next recovery.
                    let soon = *rng.pick(&[8, 40, 400]);
                    session
                        .machine()
                        .lose_power_at(session.machine().operations() + rng.below(soon));
                }
            }
            Ok(()) => return Ok(()),
            Err(trouble) => {
                let step = steps.get(next.max(1) - 1);
                let step = format!("{step:?}").chars().take(300).collect::<String>();
                return Err(format!(
                    "{durability:?}, {losses} power losses, steps {before} to {next} ({step}): {trouble:?}"
                ));
            }
        }
    }
}

/// Tries `share` percent of all points asked for, over several histories of `shape`: every
/// operation in turn if there are not more, a random choice of them otherwise.
fn try_many(
    test: &str,
    seeds: std::ops::Range<u64>,
    share: u64,
    shape: &Shape,
    durability: Durability,
) {
    let count = number("STELE_CRASH_POINTS").unwrap_or(500u64) * share / 100;
    let each = count.div_ceil(seeds.end - seeds.start);
    let mut points = Vec::new();
    for seed in seeds {
        let operations = operations(seed, &workload::history(seed, shape), durability);
        let mut rng = Rng::new(seed);
        let at = |n| if operations <= each { n } else { rng.below(operations) };
        points.extend((0..each.min(operations)).map(at).map(|at| Point { seed, at }));
    }
    try_all(test, &points, |point| {
        survive(point, &workload::history(point.seed, shape), durability)
    });
}

#[test]
fn a_history_flushes_compacts_and_recycles_many_times() {
    let shape = Shape { steps: 300, reopen_percent: 0, ..Shape::default() };
    let mut session = session(0, Durability::Sync);
    session.open().unwrap();
    for step in workload::history(0, &shape) {
        session.step(&step).unwrap();
    }
    let metrics = session.engine().metrics();
    let many = [("flushes_total", 10), ("compactions_total", 5), ("ingests_total", 3)];
    for (name, least) in many {
        assert!(metrics.get(name).unwrap() >= least, "{name}: {:?}", metrics.get(name));
    }
    let names = session.machine().env().fs.list(Path::new(DIR)).unwrap();
    // Segments beyond the second are made of those that were retired.
    let logs = names.iter().filter(|name| name.extension() == Some("log".as_ref()));
    let (first, last) = (logs.clone().min().unwrap(), logs.max().unwrap());
    assert!(first > &PathBuf::from("0000000004.log"), "{names:?}");
    assert!(last > &PathBuf::from("0000000006.log"), "{names:?}");
}

#[test]
fn power_loss_at_every_operation_of_a_short_history() {
    let shape = Shape { steps: 30, reopen_percent: 5, ..Shape::default() };
    let test = "power_loss_at_every_operation_of_a_short_history";
    try_many(test, 100..102, 40, &shape, Durability::Sync);
}

/// Cells of `rows`, enough for several SSTables if `rows` are many.
fn cells(rows: impl Iterator<Item = u32>, value: u8) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for row in rows {
        let (row, value) = (format!("row-{row:02}"), vec![value; 3000]);
        batch.put(row.as_bytes(), Column::of(FamilyId(1), b"q1"), Timestamp(1), &value);
    }
    batch
}

/// Ingests of every kind: into nothing, over what is on disk, over what is in memory, of one file
/// and of several, one after the other, and with what was written between.
fn ingests() -> Vec<Step> {
    let tree = TreeId(1);
    let plain = IngestOptions { compression: Some(Compression::None), ..Default::default() };
    let ingest = |rows, value| Step::Ingest(tree, cells(rows, value), plain.clone());
    let mut dropped = WriteBatch::new();
    dropped.drop_row_range(b"row-30", None);
    vec![
        Step::Create(tree, TreeOptions::default()),
        ingest(0..40, 1),
        Step::Write(tree, cells(35..36, 2)),
        ingest(40..50, 3),
        ingest(30..50, 4),
        Step::Flush(tree),
        ingest(45..60, 5),
        Step::Write(tree, dropped),
        ingest(50..55, 6),
        Step::Write(tree, cells(52..53, 7)),
        Step::Work(2),
        ingest(70..80, 8),
        Step::Compact(tree, RowRange::ALL),
        ingest(90..95, 9),
        Step::Drop(tree),
    ]
}

#[test]
fn power_loss_at_every_operation_of_ingests() {
    let test = "power_loss_at_every_operation_of_ingests";
    let steps = ingests();
    let all = [Durability::Sync, Durability::None];
    let points = (0..).zip(all).flat_map(|(seed, durability)| {
        (0..operations(seed, &steps, durability)).map(move |at| Point { seed, at })
    });
    let points: Vec<Point> = points.collect();
    try_all(test, &points, |point| survive(point, &steps, all[point.seed as usize]));
}

#[test]
fn power_loss_loses_nothing_acknowledged() {
    let test = "power_loss_loses_nothing_acknowledged";
    try_many(test, 0..8, 30, &Shape::default(), Durability::Sync);
}

#[test]
fn power_loss_leaves_a_prefix_when_synced_at_intervals() {
    let durability = Durability::Interval(Duration::from_millis(50));
    let test = "power_loss_leaves_a_prefix_when_synced_at_intervals";
    try_many(test, 20..24, 15, &Shape::default(), durability);
}

#[test]
fn power_loss_leaves_a_prefix_in_bulk_mode() {
    let test = "power_loss_leaves_a_prefix_in_bulk_mode";
    try_many(test, 40..44, 15, &Shape::default(), Durability::None);
}

/// The numbers of a tree that was dropped before it was flushed are not given out again, though
/// the log segments that held them are gone and the manifest never met them.
#[test]
fn numbers_of_a_dropped_tree_are_not_given_out_again() {
    let mut machine = Machine::new(1);
    let options = || Options { memtable_bytes_max: 64 << 20, ..small_options(Durability::None) };
    let open = |machine: &Machine| {
        Engine::open_with_env(machine.env(), Path::new(DIR), options()).unwrap()
    };
    let write = |engine: &Engine, tree: TreeId| {
        let mut batch = WriteBatch::new();
        let column = Column::of(FamilyId(1), b"q");
        batch.put(b"row", column, Timestamp(1), &[7; 40 << 10]);
        engine.tree(tree).unwrap().write(&batch).unwrap()
    };
    let (dropped, kept) = (TreeId(1), TreeId(2));
    let engine = open(&machine);
    engine.create_tree(dropped, TreeOptions::default()).unwrap();
    engine.create_tree(kept, TreeOptions::default()).unwrap();
    let durable = write(&engine, dropped);
    engine.sync().unwrap();
    // Into further segments, which power takes with it.
    for _ in 0..3 {
        write(&engine, dropped);
    }
    engine.drop_tree(dropped).unwrap();
    machine.lose_power();
    drop(engine);
    machine.restore_power();
    let engine = open(&machine);
    assert!(write(&engine, kept) > durable);
}

#[test]
fn a_name_that_was_not_synced_is_gone_and_nothing_acknowledged_with_it() {
    let shape = Shape { steps: 80, ..Shape::default() };
    let test = "a_name_that_was_not_synced_is_gone_and_nothing_acknowledged_with_it";
    let count = number("STELE_CRASH_POINTS").unwrap_or(500u64) / 10;
    let mut points = Vec::new();
    for seed in 40..44 {
        let steps = workload::history(seed, &shape);
        let operations = operations(seed, &steps, Durability::Sync);
        let mut rng = Rng::new(seed);
        points.extend((0..count / 4).map(|_| Point { seed, at: rng.below(operations) }));
    }
    try_all(test, &points, |point| {
        let mut session = session(point.seed << 32 | point.at, Durability::Sync);
        session.machine().lose_unsynced_names();
        let steps = workload::history(point.seed, &shape);
        survive_in(&mut session, point, &steps, Durability::Sync)
    });
}

/// Of one log: what a process left of it that was killed before it had synced anything.
fn left_unsynced(seed: u64) -> Session {
    let options = Options {
        memtable_bytes_max: 64 << 20,
        memory_bytes_max: 16 << 20,
        log_segment_bytes: 1 << 20,
        ..small_options(Durability::None)
    };
    let mut session = Session::new(Machine::new(seed), Path::new(DIR), options.clone());
    session.open().unwrap();
    for tree in [TreeId(1), TreeId(2)] {
        session.step(&Step::Create(tree, TreeOptions::default())).unwrap();
    }
    for round in 0..12 {
        let tree = TreeId(1 + round % 3 / 2);
        let rows = 40 * round..40 * (round + 1);
        session.step(&Step::Write(tree, cells(rows, round as u8))).unwrap();
    }
    assert_eq!(session.engine().metrics().get("flushes_total"), Some(0));
    session.machine().fail_on(FaultPoint::Call(Call::SyncFile), 0, Fault::Io);
    session.abandon();
    session.machine().heal();
    session.set_options(Options { memory_bytes_max: 1 << 20, cache_bytes_max: None, ..options });
    session
}

#[test]
fn power_loss_in_a_recovery_that_flushes_leaves_a_prefix() {
    let mut session = left_unsynced(0);
    let before = session.machine().operations();
    session.open().unwrap();
    let metrics = session.engine().metrics();
    assert!(metrics.get("flushes_for_memory_total").unwrap() > 2, "memory was too small");
    let operations = session.machine().operations() - before;
    let points: Vec<Point> = (0..operations).map(|at| Point { seed: at % 3, at }).collect();
    let test = "power_loss_in_a_recovery_that_flushes_leaves_a_prefix";
    try_all(test, &points, |Point { seed, at }| {
        let mut session = left_unsynced(seed << 32 | at);
        session.machine().lose_power_at(session.machine().operations() + at);
        // What it comes to is asked for after the next one.
        if !matches!(session.open(), Ok(()) | Err(Trouble::Refused(_))) {
            return Err("opening, while power goes".to_owned());
        }
        session.lose_power();
        session.open().map_err(|trouble| format!("opening: {trouble:?}"))?;
        session.check().map_err(|trouble| format!("{trouble:?}"))?;
        session.close().map_err(|trouble| format!("closing: {trouble:?}"))?;
        nothing_is_left_over(&session).map_err(|trouble| format!("{trouble:?}"))
    });
}

#[test]
fn a_disk_too_full_for_the_flushes_of_a_recovery_opens_all_the_same() {
    let mut session = left_unsynced(0);
    session.machine().set_capacity(Some(session.machine().used() + (64 << 10)));
    session.open().unwrap();
    session.check().unwrap();
    session.machine().set_capacity(None);
    session.close().unwrap();
    session.open().unwrap();
    session.check().unwrap();
}
