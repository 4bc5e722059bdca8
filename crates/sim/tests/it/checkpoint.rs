//! A checkpoint holds what was acknowledged before it, of all trees, and nothing after; one that
//! was not finished does not open; and the engine it was taken of is none the worse for it.

use base::env::sim::{Fault, FaultPoint};
use engine::Durability;
use engine::check::check_dir;
use engine::{Engine, Error, RowRange};
use sim::machine::Machine;
use sim::oracle::{Content, content};
use sim::points::{Point, number, try_all};
use sim::session::Session;
use sim::workload::{self, Shape, small_options};
use std::path::Path;

const DIR: &str = "/data/store";
const INTO: &str = "/data/checkpoint";
const SHAPE: Shape =
    Shape { steps: 120, value_bytes_max: 4000, trees_max: 3, reopen_percent: 1, ..Shape::USUAL };

/// A session that has gone through a history, and what its engine shows.
fn session(seed: u64) -> (Session, Content) {
    let mut session =
        Session::new(Machine::new(seed), Path::new(DIR), small_options(Durability::Sync));
    session.open().unwrap();
    for step in workload::history(seed, &SHAPE) {
        session.step(&step).unwrap();
    }
    session.check().unwrap();
    let shown = content(session.engine()).unwrap();
    (session, shown)
}

fn holds(machine: &Machine, expected: &Content) -> Result<(), String> {
    let checked = check_dir(&machine.env(), Path::new(INTO), &mut |_| ());
    let checked = checked.map_err(|error| error.to_string())?;
    if !checked.is_clean() {
        return Err(format!("{:?}", checked.findings));
    }
    let options = small_options(Durability::Sync);
    let copy = Engine::open_with_env(machine.env(), Path::new(INTO), options);
    let copy = copy.map_err(|error| error.to_string())?;
    let found = content(&copy).map_err(|error| error.to_string())?;
    if found == *expected { Ok(()) } else { Err("the checkpoint holds something else".to_owned()) }
}

#[test]
fn a_checkpoint_holds_its_moment_whatever_comes_after() {
    for seed in 1..=number("STELE_SEEDS").unwrap_or(8u64) {
        let (mut session, shown) = session(seed);
        session.engine().checkpoint(Path::new(INTO)).unwrap();
        // Files are merged and removed, segments of the log used again.
        for step in workload::history(seed + 1000, &SHAPE) {
            let _ = session.step(&step);
        }
        for tree in session.engine().trees() {
            session.engine().tree(tree).unwrap().compact_range(&RowRange::ALL).unwrap();
        }
        holds(session.machine(), &shown).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        let again = session.engine().checkpoint(Path::new(INTO));
        assert!(matches!(again, Err(Error::Unusable { .. })), "{again:?}");
    }
}

#[test]
fn power_lost_while_a_checkpoint_is_made_leaves_none_or_a_whole_one() {
    let seed = 1;
    let (whole, _) = session(seed);
    let before = whole.machine().operations();
    whole.engine().checkpoint(Path::new(INTO)).unwrap();
    let operations = whole.machine().operations() - before;
    let points: Vec<Point> = (0..operations).map(|at| Point { seed, at }).collect();
    let test = "power_lost_while_a_checkpoint_is_made_leaves_none_or_a_whole_one";
    try_all(test, &points, |Point { seed, at }| {
        let (mut session, shown) = session(seed);
        let before = session.machine().operations();
        session.machine().lose_power_at(before + at);
        let made = session.engine().checkpoint(Path::new(INTO));
        if made.is_ok() && !session.machine().power_is_out() {
            return Err(format!("the power did not fail in operation {at}"));
        }
        session.lose_power();
        session.open().map_err(|trouble| format!("{trouble:?}"))?;
        let found = content(session.engine()).map_err(|error| error.to_string())?;
        if found != shown {
            return Err("the engine lost something".to_owned());
        }
        let options = small_options(Durability::Sync);
        match Engine::open_with_env(session.machine().env(), Path::new(INTO), options) {
            // Nothing but an empty directory: the copy was not begun, or it was cleaned up.
            Ok(copy) if copy.trees().is_empty() => Ok(()),
            Ok(copy) => {
                drop(copy);
                holds(session.machine(), &shown)
            }
            Err(Error::Corruption(_) | Error::Unusable { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    });
}

#[test]
fn a_checkpoint_that_fails_leaves_nothing_behind_and_the_engine_as_it_was() {
    let kinds = [
        (FaultPoint::Read, Fault::Io),
        (FaultPoint::Write, Fault::NoSpace),
        (FaultPoint::Write, Fault::Io),
        (FaultPoint::Sync, Fault::Io),
        (FaultPoint::Name, Fault::Io),
        (FaultPoint::Name, Fault::NoSpace),
    ];
    for (point, fault) in kinds {
        for after in 0.. {
            let (mut session, shown) = session(1);
            session.machine().fail(point, after, fault);
            let made = session.engine().checkpoint(Path::new(INTO));
            let came = !session.machine().heal();
            let case = format!("{point:?} {fault:?} {after}: {made:?}");
            match made {
                Ok(()) => {
                    holds(session.machine(), &shown).unwrap_or_else(|e| panic!("{case}: {e}"))
                }
                Err(_) => {
                    let left = session.machine().env().fs.list(Path::new(INTO));
                    assert_eq!(left.unwrap_or_default().len(), 0, "{case}");
                }
            }
            assert_eq!(content(session.engine()).unwrap(), shown, "{case}");
            session.abandon();
            session.open().unwrap();
            assert_eq!(content(session.engine()).unwrap(), shown, "{case}, opened again");
            if !came {
                break;
            }
        }
    }
}
