//! Each call of the file system fails once, for each reason it can: the engine says so and goes on,
//! or stops and says so; and whatever came before, opening it again finds all that was
//! acknowledged, in files that check clean.
//!
//! By default a few calls of each kind are tried; `STELE_FAULT_POINTS=N` tries N of each, and every
//! single one where there are not more.

use crate::sick_disk::{again, go_on, heal};
use base::env::Rng;
use base::env::sim::{Call, Fault, FaultPoint};
use engine::Durability;
use engine::check::check_dir;
use engine::{Column, Error, FamilyId, Timestamp, TreeId, WriteBatch};
use sim::machine::Machine;
use sim::oracle::Trouble;
use sim::points::{Point, number, try_all};
use sim::session::{Divided, Session};
use sim::workload::{self, Shape, Step, small_options};
use std::path::Path;
use std::sync::Mutex;

const DIR: &str = "/data/store";
const SHAPE: Shape =
    Shape { steps: 100, value_bytes_max: 6000, trees_max: 3, reopen_percent: 2, ..Shape::USUAL };
const SEEDS: u64 = 3;

fn session(seed: u64) -> Session {
    Session::new(Machine::new(seed), Path::new(DIR), small_options(Durability::Sync))
}

/// Goes through `steps`, leaving the engine and opening it again in between. What the disk refuses
/// is part of it.
fn live(session: &mut Session, seed: u64, steps: &[Step]) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    match session.open() {
        Err(Trouble::Refused(Error::Io { .. } | Error::NoSpace { .. })) => {
            session.lose_power();
            session.open().map_err(|trouble| format!("opening once more: {trouble:?}"))?;
        }
        opened => opened.map_err(|trouble| format!("opening: {trouble:?}"))?,
    }
    let mut parts = steps.chunks(steps.len() / 3).peekable();
    while let Some(part) = parts.next() {
        go_on(session, part)?;
        if parts.peek().is_none() {
            heal(session).map_err(|what| format!("once all is well: {what}"))?;
        }
        again(session, &mut rng)?;
    }
    match session.close() {
        Ok(()) | Err(Trouble::Refused(Error::Io { .. } | Error::NoSpace { .. })) => {}
        Err(Trouble::Refused(Error::WritesStopped(_))) => {}
        Err(trouble) => return Err(format!("closing: {trouble:?}")),
    }
    Ok(())
}

/// The store can be opened, holds what it must, and has no file that is damaged or nobody's.
fn is_sound(session: &mut Session) -> Result<(), Trouble> {
    session.machine().heal();
    session.lose_power();
    session.open()?;
    session.check()?;
    session.close()?;
    let report = check_dir(&session.machine().env(), Path::new(DIR), &mut |_| ())?;
    if report.is_clean() && report.notes.is_empty() {
        return Ok(());
    }
    Err(format!("left over: {:?} {:?}", report.findings, report.notes).into())
}

/// Histories during which calls fail.
pub(crate) struct Histories {
    /// Their seeds are those below.
    pub(crate) seeds: u64,
    pub(crate) of: fn(u64) -> Vec<Step>,
    /// True if only those calls fail that are made while compactions are divided, as long as all
    /// goes well.
    pub(crate) where_divided: bool,
}

const ANY: Histories =
    Histories { seeds: SEEDS, of: |seed| workload::history(seed, &SHAPE), where_divided: false };

impl Histories {
    /// Of each kind the calls that may fail, by their numbers where none does.
    fn calls(&self, seed: u64) -> Vec<Vec<u64>> {
        let mut session = session(seed);
        session.open().unwrap();
        let count = |session: &Session| Call::ALL.map(|call| session.machine().calls(call));
        let mut calls = vec![Vec::new(); Call::ALL.len()];
        let (mut before, mut divided) = ([0; Call::ALL.len()], session.divided());
        for step in (self.of)(seed) {
            session.step(&step).unwrap();
            let after = count(&session);
            if !self.where_divided || session.divided() != divided {
                for (kind, (before, after)) in calls.iter_mut().zip(before.into_iter().zip(after)) {
                    kind.extend(before..after);
                }
            }
            (before, divided) = (after, session.divided());
        }
        calls
    }

    /// Lets each of `wanted` calls fail, for the reason `fault`, at many places. Gives how many that
    /// were, and what became of compactions that were divided.
    pub(crate) fn try_calls(&self, test: &str, fault: Fault, wanted: &[Call]) -> (usize, Divided) {
        let each = number("STELE_FAULT_POINTS").unwrap_or(4u64);
        let mut points = Vec::new();
        for seed in 0..self.seeds {
            for (call, calls) in Call::ALL.into_iter().zip(self.calls(seed)) {
                if !wanted.contains(&call) {
                    continue;
                }
                let mut rng = Rng::new(seed << 8 | call as u64);
                let share = usize::try_from(each.div_ceil(self.seeds)).unwrap();
                let at = |n| if calls.len() <= share { calls[n] } else { *rng.pick(&calls) };
                let places = (0..share.min(calls.len())).map(at).collect::<Vec<_>>();
                // The kind of the call goes into the number of the point.
                points.extend(places.iter().map(|at| Point { seed, at: at << 8 | call as u64 }));
            }
        }
        let divided = Mutex::new(Divided::default());
        try_all(test, &points, |Point { seed, at }| {
            let call = wanted.iter().find(|call| **call as u64 == at & 0xff);
            let call = *call.expect("it was drawn");
            // The same machine does the same until the call, which is then one of those chosen.
            let machine = if self.where_divided { seed } else { seed << 32 | at };
            let mut session = session(machine);
            session.machine().fail(FaultPoint::Call(call), at >> 8, fault);
            let lived = live(&mut session, seed, &(self.of)(seed));
            lived.map_err(|what| format!("{fault:?} in {call:?} {}: {what}", at >> 8))?;
            *divided.lock().unwrap() += session.divided();
            is_sound(&mut session)
                .map_err(|trouble| format!("{fault:?} in {call:?} {}: then {trouble:?}", at >> 8))
        });
        (points.len(), divided.into_inner().unwrap())
    }
}

#[test]
fn any_call_that_fails_is_survived() {
    ANY.try_calls("any_call_that_fails_is_survived", Fault::Io, &Call::ALL);
}

#[test]
fn a_panic_at_any_call_of_background_work_is_survived() {
    let test = "a_panic_at_any_call_of_background_work_is_survived";
    ANY.try_calls(test, Fault::Panic, &Call::ALL);
}

#[test]
fn any_call_that_finds_no_space_is_survived() {
    use Call::*;
    let wanted = [WriteAt, Allocate, SetLen, SyncFile, SyncDir, Create, Rename, Link, CreateDir];
    ANY.try_calls("any_call_that_finds_no_space_is_survived", Fault::NoSpace, &wanted);
}

#[test]
fn any_call_that_finds_no_descriptor_is_survived() {
    let point = FaultPoint::Descriptor;
    let wanted: Vec<Call> = Call::ALL.into_iter().filter(|call| point.covers(*call)).collect();
    let test = "any_call_that_finds_no_descriptor_is_survived";
    ANY.try_calls(test, Fault::NoDescriptor, &wanted);
}

#[test]
fn without_descriptors_reads_are_right_or_refused_and_nothing_is_lost() {
    let count = number("STELE_FAULT_POINTS").unwrap_or(30u64);
    let mut rng = Rng::new(5);
    let point = |n| Point { seed: n % SEEDS, at: rng.below(200) };
    let points: Vec<Point> = (0..count).map(point).collect();
    let test = "without_descriptors_reads_are_right_or_refused_and_nothing_is_lost";
    try_all(test, &points, |Point { seed, at }| {
        let mut session = session(seed << 32 | at);
        session.open().map_err(|trouble| format!("{trouble:?}"))?;
        session.machine().fail_on(FaultPoint::Descriptor, at, Fault::NoDescriptor);
        let mut refused = 0;
        for step in workload::history(seed, &SHAPE) {
            match session.step(&step) {
                Ok(()) => {}
                Err(Trouble::Refused(Error::Io { .. } | Error::WritesStopped(_))) => refused += 1,
                Err(trouble) => return Err(format!("{trouble:?}")),
            }
            if !session.is_open() || refused > 20 {
                break;
            }
            // An SSTable may have been closed so that another is opened, in vain.
            match session.check() {
                Ok(()) | Err(Trouble::Refused(Error::Io { op: "read" | "open", .. })) => {}
                Err(trouble) => return Err(format!("a read: {trouble:?}")),
            }
        }
        is_sound(&mut session).map_err(|trouble| format!("with descriptors again: {trouble:?}"))
    });
}

#[test]
fn after_a_failed_sync_of_the_log_no_write_is_taken_until_it_is_opened_again() {
    let tree = TreeId(1);
    let mut latched = 0;
    for at in 0..60 {
        let mut session = session(at);
        session.open().unwrap();
        session.step(&Step::Create(tree, Default::default())).unwrap();
        session.machine().fail(FaultPoint::Call(Call::SyncFile), at, Fault::Io);
        let write = |number: u64| {
            let mut batch = WriteBatch::new();
            let column = Column::of(FamilyId(1), b"q");
            batch.put(&number.to_be_bytes(), column, Timestamp(1), &[7; 3000]);
            Step::Write(tree, batch)
        };
        let failed = (0..200).find_map(|number| session.step(&write(number)).err());
        match &failed {
            Some(Trouble::Refused(Error::Io { path, .. })) if is_log(path) => {}
            // The sync was one of a flush, or was still to come.
            None | Some(Trouble::Refused(Error::Io { .. } | Error::WritesStopped(_))) => continue,
            other => panic!("{at}: {other:?}"),
        }
        latched += 1;
        for number in 1000..1003 {
            let again = session.step(&write(number));
            let stopped = matches!(again, Err(Trouble::Refused(Error::WritesStopped(_))));
            assert!(stopped, "{at}: {again:?}");
        }
        session.check().unwrap();
        is_sound(&mut session).unwrap();
        session.open().unwrap();
        session.step(&write(2000)).unwrap();
    }
    assert!(latched > 30, "{latched} of 60 hit the log");
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "log")
}
