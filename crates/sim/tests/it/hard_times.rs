//! A clock that jumps and a budget of memory that is too small change no answer and lose nothing.

use base::env::Rng;
use engine::{Column, FamilyId, Timestamp, TreeId, WriteBatch};
use engine::{Durability, Options};
use sim::machine::Machine;
use sim::points::{Point, number, try_all};
use sim::session::Session;
use sim::workload::{self, Shape, Step, small_options};
use std::path::Path;
use std::time::Duration;

const DIR: &str = "/data/store";
const SECOND: i64 = 1_000_000;
const YEAR: i64 = 365 * 24 * 3600 * SECOND;

fn points() -> Vec<Point> {
    (0..number("STELE_SEEDS").unwrap_or(12u64)).map(|seed| Point { seed, at: 0 }).collect()
}

/// Takes the steps with something before each; ends with a power loss, and finds everything.
fn live(
    options: Options,
    seed: u64,
    steps: &[Step],
    mut before: impl FnMut(&Session),
) -> Result<(), String> {
    let mut session = Session::new(Machine::new(seed), Path::new(DIR), options);
    session.open().map_err(|trouble| format!("{trouble:?}"))?;
    for step in steps {
        before(&session);
        session.step(step).map_err(|trouble| {
            format!("{}: {trouble:?}", format!("{step:?}").chars().take(300).collect::<String>())
        })?;
    }
    session.check().map_err(|trouble| format!("{trouble:?}"))?;
    session.lose_power();
    before(&session);
    let again = session.open().and_then(|()| session.check());
    again.map_err(|trouble| format!("opened again: {trouble:?}"))
}

#[test]
fn a_clock_that_jumps_changes_nothing() {
    let shape = Shape { steps: 160, reopen_percent: 4, ..Shape::default() };
    try_all("a_clock_that_jumps_changes_nothing", &points(), |Point { seed, .. }| {
        let durabilities = [Durability::Sync, Durability::Interval(Duration::from_millis(50))];
        let mut rng = Rng::new(seed);
        let mut options = small_options(*rng.pick(&durabilities));
        // A power loss takes nothing that the oracle holds for durable, in either mode.
        options.l0_runs_stall = 8;
        live(options, seed, &workload::history(seed, &shape), |session| {
            if rng.chance(25) {
                let far = *rng.pick(&[1, SECOND, 3600 * SECOND, YEAR, 100 * YEAR, i64::MAX / 2]);
                let way = if rng.chance(50) { 1 } else { -1 };
                session.machine().jump(way * far);
            }
        })
    });
}

#[test]
fn a_budget_that_is_too_small_loses_nothing() {
    let shape = Shape {
        steps: 120,
        value_bytes_max: 60_000,
        trees_max: 3,
        reopen_percent: 2,
        ..Shape::USUAL
    };
    try_all("a_budget_that_is_too_small_loses_nothing", &points(), |Point { seed, .. }| {
        let options = Options {
            memory_bytes_max: 1 << 20,
            cache_bytes_max: None,
            memtable_bytes_max: 64 << 20,
            ..small_options(Durability::Sync)
        };
        let mut steps = workload::history(seed, &shape);
        let column = Column::of(FamilyId(1), b"larger than all memory there is");
        let mut batch = WriteBatch::new();
        batch.put(b"row-01", column, Timestamp(1), &vec![7; 3 << 20]);
        batch.put(b"row-02", column, Timestamp(1), &vec![8; 1 << 20]);
        steps.insert(shape.steps / 2, Step::Write(TreeId(1), batch));
        live(options, seed, &steps, |_| ())
    });
}
