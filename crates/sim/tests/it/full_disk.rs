//! The disk fills up at any moment: writes fail with `NoSpace`, reads go on, and when space
//! returns writes resume by themselves. Nothing acknowledged is lost, not even if the power goes.

use base::env::Rng;
use engine::Durability;
use engine::Error;
use sim::machine::Machine;
use sim::oracle::Trouble;
use sim::points::{Point, number, try_all};
use sim::session::Session;
use sim::workload::{self, Shape, Step, small_options};
use std::path::Path;
use std::time::Duration;

const DIR: &str = "/data/store";
const SHAPE: Shape =
    Shape { steps: 200, value_bytes_max: 6000, trees_max: 3, reopen_percent: 0, ..Shape::USUAL };

fn session(seed: u64) -> Session {
    Session::new(Machine::new(seed), Path::new(DIR), small_options(Durability::Sync))
}

fn told(step: &Step, trouble: &Trouble) -> String {
    let step = format!("{step:?}").chars().take(300).collect::<String>();
    format!("{step}: {trouble:?}")
}

/// Takes steps until `refusals` were refused for want of space, reading in between. Returns the
/// number of steps taken.
fn until_full(session: &mut Session, steps: &[Step], refusals: u32) -> Result<usize, String> {
    let mut refused = 0;
    for (taken, step) in steps.iter().enumerate() {
        match session.step(step) {
            Ok(()) => {}
            Err(Trouble::Refused(Error::NoSpace { .. })) => {
                refused += 1;
                session.check().map_err(|trouble| format!("reads go on: {trouble:?}"))?;
                if refused == refusals {
                    return Ok(taken + 1);
                }
            }
            Err(trouble) => return Err(told(step, &trouble)),
        }
    }
    Ok(steps.len())
}

/// Takes all steps, now that there is space. Retries of background work may take their time, so
/// a few refusals are forgiven at the start.
fn with_space(session: &mut Session, steps: &[Step]) -> Result<(), String> {
    let mut patience = 10;
    for step in steps {
        loop {
            match session.step(step) {
                Ok(()) => break,
                Err(Trouble::Refused(Error::NoSpace { .. })) if patience > 0 => {
                    patience -= 1;
                    session.machine().wait(Duration::from_secs(1));
                    (0..10).for_each(|_| session.machine().work());
                }
                Err(trouble) => return Err(format!("with space again: {}", told(step, &trouble))),
            }
        }
    }
    session.check().map_err(|trouble| format!("at the end: {trouble:?}"))
}

fn survive(Point { seed, at }: Point) -> Result<(), String> {
    let steps = workload::history(seed, &SHAPE);
    let mut rng = Rng::new(seed << 32 | at);
    let mut session = session(seed << 32 | at);
    let trouble = |trouble| format!("{trouble:?}");
    session.open().map_err(trouble)?;
    session.machine().set_capacity(Some(at));
    let refusals = 1 + rng.below(20) as u32;
    let taken = until_full(&mut session, &steps, refusals)?;
    match rng.below(4) {
        // Opened again while the disk is full.
        0 => {
            if rng.chance(50) {
                session.lose_power()
            } else {
                session.abandon()
            }
            match session.open() {
                Ok(()) => session.check().map_err(trouble)?,
                Err(Trouble::Refused(Error::NoSpace { .. })) => {}
                Err(other) => return Err(format!("opened on a full disk: {other:?}")),
            }
        }
        1 => session.lose_power(),
        _ => {}
    }
    session.machine().set_capacity(None);
    if !session.is_open() {
        session.open().map_err(trouble)?;
        session.check().map_err(trouble)?;
    }
    with_space(&mut session, &steps[taken..])?;
    session.lose_power();
    session.open().and_then(|()| session.check()).map_err(trouble)
}

#[test]
fn writes_resume_when_space_returns() {
    let count: u64 = number("STELE_FAULT_POINTS").unwrap_or(150);
    let points: Vec<Point> = (0..5u64)
        .flat_map(|seed| {
            let mut session = session(seed);
            session.open().unwrap();
            let empty = session.machine().used();
            with_space(&mut session, &workload::history(seed, &SHAPE)).unwrap();
            let full = session.machine().used();
            let mut rng = Rng::new(seed);
            let at = move |_| Point { seed, at: empty + rng.below(full - empty) };
            (0..count / 5).map(at).collect::<Vec<_>>()
        })
        .collect();
    try_all("writes_resume_when_space_returns", &points, survive);
}
