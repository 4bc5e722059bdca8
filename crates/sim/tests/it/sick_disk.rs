//! Reads, writes and syncs fail now and then: reads give an error and then recover; a failure of
//! the log stops writes until the engine is opened again, and nothing acknowledged is lost.

use base::env::Rng;
use base::env::sim::{Fault, FaultPoint};
use engine::Durability;
use engine::WriteBatch;
use engine::{Column, Error, FamilyId, Timestamp};
use sim::machine::Machine;
use sim::oracle::Trouble;
use sim::points::{Point, number, try_all};
use sim::session::Session;
use sim::workload::{self, Shape, Step, small_options};
use std::path::Path;
use std::time::Duration;

const DIR: &str = "/data/store";
const SHAPE: Shape =
    Shape { steps: 160, value_bytes_max: 6000, trees_max: 3, reopen_percent: 1, ..Shape::USUAL };

fn session(seed: u64) -> Session {
    Session::new(Machine::new(seed), Path::new(DIR), small_options(Durability::Sync))
}

/// Takes the steps; errors of the disk and stopped writes are part of it, and reading must go on
/// through all of them.
pub(crate) fn go_on(session: &mut Session, steps: &[Step]) -> Result<u32, String> {
    let mut errors = 0;
    for step in steps {
        match session.step(step) {
            Ok(()) => {}
            Err(Trouble::Refused(
                Error::Io { .. }
                | Error::NoSpace { .. }
                | Error::Unavailable(_)
                | Error::WritesStopped(_),
            )) => {
                errors += 1;
                if session.is_open() {
                    // The one fault has passed; what was read before can be read now.
                    session.check().map_err(|trouble| format!("reading goes on: {trouble:?}"))?;
                } else {
                    // What a failed sync should have written may be in memory and not on the disk,
                    // so only a restart of the machine makes sure that both are the same.
                    session.lose_power();
                    session.open().map_err(|trouble| format!("opening again: {trouble:?}"))?;
                }
            }
            Err(trouble) => {
                let step = format!("{step:?}").chars().take(300).collect::<String>();
                return Err(format!("{step}: {trouble:?}"));
            }
        }
    }
    Ok(errors)
}

/// Seconds within which work that failed is tried again, once all is well.
const HEALS_WITHIN: u32 = 11;

/// The machine is well from now on: a write goes through, at once or soon, or after the engine was
/// opened again if it says that writes are stopped.
pub(crate) fn heal(session: &mut Session) -> Result<(), String> {
    session.machine().heal();
    let Some(tree) = session.oracle().trees().next() else { return Ok(()) };
    let (mut refusals, mut opened) = (0u32, false);
    loop {
        let mut batch = WriteBatch::new();
        let column = Column::of(FamilyId(1), b"healed");
        batch.put(b"row-00", column, Timestamp(0), &refusals.to_be_bytes());
        match session.step(&Step::Write(tree, batch)) {
            Ok(()) => return Ok(()),
            Err(Trouble::Refused(Error::Unavailable(_) | Error::NoSpace { .. }))
                if refusals < HEALS_WITHIN =>
            {
                session.machine().wait(Duration::from_secs(1));
                (0..20).for_each(|_| session.machine().work());
            }
            Err(Trouble::Refused(Error::WritesStopped(_))) if !opened => {
                opened = true;
                session.lose_power();
                session.open().map_err(|trouble| format!("opening after a stop: {trouble:?}"))?;
            }
            Err(trouble) => return Err(format!("after {refusals} refusals: {trouble:?}")),
        }
        refusals += 1;
    }
}

/// Leaves the engine (by closing, by dropping it, or by a power loss) and opens it again.
pub(crate) fn again(session: &mut Session, rng: &mut Rng) -> Result<(), String> {
    match rng.below(3) {
        0 => match session.close() {
            Ok(()) => {}
            Err(Trouble::Refused(
                Error::Io { .. } | Error::NoSpace { .. } | Error::WritesStopped(_),
            )) => {}
            Err(trouble) => return Err(format!("closing: {trouble:?}")),
        },
        1 => session.abandon(),
        _ => session.lose_power(),
    }
    let opened = match session.open() {
        Err(Trouble::Refused(Error::Io { .. } | Error::NoSpace { .. })) => {
            session.lose_power(); // As above.
            session.open()
        }
        opened => opened,
    };
    let checked = opened.and_then(|()| match session.check() {
        // The accident may still be to come; it passes.
        Err(Trouble::Refused(Error::Io { .. })) => session.check(),
        checked => checked,
    });
    checked.map_err(|trouble| format!("opened again: {trouble:?}"))
}

/// What befalls the disk once in a history.
#[derive(Debug, Clone, Copy)]
struct Accident {
    point: FaultPoint,
    fault: Fault,
}

fn survive(Point { seed, at }: Point, accident: Accident) -> Result<(), String> {
    let steps = workload::history(seed, &SHAPE);
    let mut rng = Rng::new(seed << 32 | at);
    let mut session = session(seed << 32 | at);
    session.open().map_err(|trouble| format!("{trouble:?}"))?;
    session.machine().fail(accident.point, at, accident.fault);
    let (first, second) = steps.split_at(SHAPE.steps * 3 / 4);
    let wrong = |what: &str| format!("{accident:?} at {at}: {what}");
    let errors = go_on(&mut session, first).map_err(|what| wrong(&what))?;
    again(&mut session, &mut rng).map_err(|what| wrong(&format!("{errors} errors; {what}")))?;
    let errors = go_on(&mut session, second).map_err(|what| wrong(&what))?;
    again(&mut session, &mut rng).map_err(|what| wrong(&format!("{errors} errors; {what}")))
}

/// Lets the accident happen at one call in many histories, each of `calls` calls or so.
fn try_many(test: &str, point: FaultPoint, fault: Fault, calls: u64) {
    let count: u64 = number("STELE_FAULT_POINTS").unwrap_or(60);
    let mut rng = Rng::new(1);
    let points: Vec<Point> =
        (0..count).map(|n| Point { seed: n % 6, at: rng.below(calls) }).collect();
    try_all(test, &points, |at| survive(at, Accident { point, fault }));
}

#[test]
fn a_failed_read_is_reported_and_passes() {
    try_many("a_failed_read_is_reported_and_passes", FaultPoint::Read, Fault::Io, 2000);
}

#[test]
fn a_failed_or_short_write_loses_nothing_acknowledged() {
    let test = "a_failed_or_short_write_loses_nothing_acknowledged";
    try_many(test, FaultPoint::Write, Fault::Io, 400);
}

#[test]
fn a_failed_sync_loses_nothing_acknowledged() {
    try_many("a_failed_sync_loses_nothing_acknowledged", FaultPoint::Sync, Fault::Io, 400);
}

#[test]
fn a_sync_that_finds_no_space_loses_nothing_acknowledged() {
    let test = "a_sync_that_finds_no_space_loses_nothing_acknowledged";
    try_many(test, FaultPoint::Sync, Fault::NoSpace, 400);
}

#[test]
fn a_failure_to_name_a_file_loses_nothing_acknowledged() {
    let test = "a_failure_to_name_a_file_loses_nothing_acknowledged";
    try_many(test, FaultPoint::Name, Fault::Io, 100);
}
