//! Large compactions: divided into pieces that helpers write too, their outputs brought into memory
//! in the place of what reads had there, snapshots held across them. Power is lost at any operation
//! of them and any call of them fails; nothing acknowledged is lost, what snapshots show stays, and
//! no piece leaves a file behind.

use crate::every_call::Histories;
use crate::power_loss::survive_in;
use base::env::Rng;
use base::env::sim::{Call, Fault};
use engine::TimestampRange;
use engine::{Column, FamilyId, RowRange, ScanRequest, Timestamp, TreeId, WriteBatch};
use engine::{Columns, Direction};
use engine::{Compression, Durability, TreeOptions};
use sim::machine::Machine;
use sim::points::{Point, number, try_all, wanted};
use sim::session::{Divided, Session};
use sim::workload::{Step, small_options};
use std::path::Path;
use std::sync::Mutex;

const DIR: &str = "/data/store";
const TREE: TreeId = TreeId(1);
const FAMILY: FamilyId = FamilyId(1);
const ROWS: u64 = 80;
const SEEDS: u64 = 3;

fn session(seed: u64) -> Session {
    Session::new(Machine::new(seed), Path::new(DIR), small_options(Durability::Sync))
}

fn row(number: u64) -> Vec<u8> {
    format!("row-{number:02}").into_bytes()
}

/// A value that does not compress.
fn value(rng: &mut Rng) -> Vec<u8> {
    (0..250 + rng.index(250)).flat_map(|_| rng.next_u64().to_be_bytes()).collect()
}

/// Writes to most rows, deletes some others, and drops a range of them at times.
fn write(rng: &mut Rng, steps: &mut Vec<Step>) {
    for first in (0..ROWS).step_by(16) {
        let mut batch = WriteBatch::new();
        for number in first..first + 16 {
            match rng.below(12) {
                0 => batch.delete_row(&row(number)),
                1 => batch.delete(&row(number), Column::family(FAMILY), TimestampRange::ALL),
                2 | 3 => continue,
                _ => {
                    let at = Timestamp(rng.below(4) as i64);
                    let value = value(rng);
                    batch.put(&row(number), Column::of(FAMILY, b"q"), at, &value);
                }
            }
        }
        if rng.chance(15) {
            let start = rng.below(ROWS);
            batch.drop_row_range(&row(start), Some(&row(start + rng.below(20))));
        }
        steps.push(Step::Write(TREE, batch));
    }
}

/// Reads some rows again and again, so that their blocks are in memory; at a snapshot too.
fn read(rng: &mut Rng, steps: &mut Vec<Step>) {
    let start = rng.below(ROWS / 2);
    let rows = RowRange { start: row(start), end: Some(row(start + ROWS / 3)) };
    for direction in [Direction::Forward, Direction::Reverse, Direction::Forward] {
        let request = ScanRequest { rows: rows.clone(), direction, ..everything() };
        steps.push(Step::Ask(TREE, Box::new(request), rng.index(100)));
    }
}

fn everything() -> ScanRequest {
    ScanRequest { columns: Columns::All, ..ScanRequest::rows(RowRange::ALL) }
}

/// A last level of several files; then, again and again, runs above it that are merged into it.
fn history(seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let options = TreeOptions {
        block_bytes: *rng.pick(&[1 << 10, 4 << 10]),
        compression_last: *rng.pick(&[Compression::None, Compression::Lz4]),
        ..TreeOptions::default()
    };
    let mut steps = vec![Step::Create(TREE, options)];
    for _ in 0..3 {
        write(&mut rng, &mut steps);
        steps.push(Step::TakeSnapshot);
        write(&mut rng, &mut steps);
        steps.push(Step::Flush(TREE));
        read(&mut rng, &mut steps);
        steps.push(Step::Compact(TREE, RowRange::ALL));
        read(&mut rng, &mut steps);
        steps.push(Step::DropSnapshot(rng.index(100)));
        steps.push(Step::Work(1 + rng.index(3)));
    }
    steps
}

#[test]
fn compactions_of_these_histories_are_divided_with_snapshots_held_and_outputs_warmed() {
    for seed in 0..SEEDS {
        let mut session = session(seed);
        session.open().unwrap();
        for step in history(seed) {
            session.step(&step).unwrap();
        }
        session.check().unwrap();
        let names = ["subcompactions_total", "subcompactions_helped_total", "cache_warmed_total"];
        let [pieces, helped, warmed] = names.map(|name| session.metric(name));
        assert!(pieces >= 6 && helped >= 2, "seed {seed}: {helped} of {pieces} pieces helped");
        assert!(warmed >= 20, "seed {seed}: {warmed} blocks warmed");
        let Divided { steps, struck, with_snapshots } = session.divided();
        assert!(
            steps >= 3 && with_snapshots >= 3,
            "seed {seed}: {steps}, {with_snapshots} of them"
        );
        assert_eq!(struck, 0, "seed {seed}");
    }
}

/// The operations on the disk in steps during which compactions are divided, as long as the power
/// does not go.
fn operations(seed: u64) -> Vec<u64> {
    let mut session = session(seed);
    session.open().unwrap();
    let mut operations = Vec::new();
    for step in history(seed) {
        let (before, divided) = (session.machine().operations(), session.divided());
        session.step(&step).unwrap();
        if session.divided() != divided {
            operations.extend(before..session.machine().operations());
        }
    }
    operations
}

#[test]
fn power_lost_while_a_divided_compaction_runs_loses_nothing() {
    let each = number("STELE_CRASH_POINTS").unwrap_or(500u64) / 5 / SEEDS;
    let mut points = Vec::new();
    for seed in 0..SEEDS {
        let operations = operations(seed);
        let stride = operations.len().div_ceil(each.max(1) as usize).max(1);
        points.extend(operations.into_iter().step_by(stride).map(|at| Point { seed, at }));
    }
    let test = "power_lost_while_a_divided_compaction_runs_loses_nothing";
    let divided = Mutex::new(Divided::default());
    try_all(test, &points, |point| {
        let mut session = session(point.seed << 32 | point.at);
        let survived = survive_in(&mut session, point, &history(point.seed), Durability::Sync);
        *divided.lock().unwrap() += session.divided();
        survived
    });
    were_struck(divided.into_inner().unwrap(), points.len());
}

#[test]
fn any_call_of_a_divided_compaction_that_fails_is_survived() {
    let histories = Histories { seeds: SEEDS, of: history, where_divided: true };
    let test = "any_call_of_a_divided_compaction_that_fails_is_survived";
    let (tries, divided) = histories.try_calls(test, Fault::Io, &Call::ALL);
    were_struck(divided, tries);
}

/// Of so many accidents at least half came while a compaction was divided. Not all need to: another
/// machine does its background work in another order.
fn were_struck(divided: Divided, accidents: usize) {
    if wanted().is_none() {
        assert!(
            accidents > 0 && divided.struck >= accidents as u64 / 2,
            "{accidents}: {divided:?}"
        );
    }
}
