//! Random histories against the model: power losses, kills, full disks and failed calls, at every
//! operation and at random ones. The promise: what was synced is there after a restart, nothing is
//! invented, a write is whole or absent, and a round refused for want of space never appears.

use super::model::{self, Model, Owned};
use super::*;
use base::env::Rng;
use base::env::sim::{Fault, FaultPoint};

/// The history of a log, as its user knows it: the states after each write since the newest one
/// that is on disk.
struct History {
    states: Vec<Model>,
}

impl Default for History {
    fn default() -> Self {
        Self { states: vec![Model::default()] }
    }
}

impl History {
    fn now(&self) -> &Model {
        self.states.last().unwrap()
    }

    fn now_mut(&mut self) -> &mut Model {
        self.states.last_mut().unwrap()
    }

    fn note(&mut self, round: &[(GroupId, Owned)]) {
        for (group, write) in round {
            let mut next = self.now().clone();
            next.apply(*group, write);
            self.states.push(next);
        }
    }

    fn synced(&mut self) {
        let now = self.states.pop().unwrap();
        self.states = vec![now];
    }

    /// Compares a log that was opened again, from the newest state that it may have.
    fn reopened(&mut self, log: &GroupLog, case: &str) {
        let mut differences = Vec::new();
        while let Some(state) = self.states.pop() {
            match state.compare(log) {
                Ok(()) => return self.states = vec![state],
                Err(text) => differences.push(text),
            }
        }
        panic!("{case}: no state that it may have; from the newest on: {differences:#?}");
    }

    fn round(&self, rng: &mut Rng, groups: u64) -> Vec<(GroupId, Owned)> {
        // Half of the groups are written seldom.
        let chosen = (1..=groups).filter(|_| rng.chance(60)).map(GroupId).collect::<Vec<_>>();
        let chosen = chosen.into_iter().filter(|group| group.0 <= groups / 2 || rng.chance(30));
        let chosen: Vec<_> = chosen.collect();
        chosen.into_iter().map(|group| (group, self.now().draw(group, rng))).collect()
    }
}

/// Options with a drawn shape and segments of some hundred bytes.
fn drawn(seed: u64) -> Options {
    let shape = Shape::drawn(seed, 50);
    let mut rng = Rng::new(seed);
    let log_segment_bytes = 300 + rng.below(1500);
    Options { log_segment_bytes, shape, ..Options::default() }
}

fn is_for_the_machine(error: &Error) -> bool {
    matches!(error, Error::NoSpace { .. } | Error::Io { .. } | Error::WritesStopped(_))
}

/// Writes, syncs, truncates and frees until the machine fails or the script ends.
fn run(machine: &SimEnv, history: &mut History, rng: &mut Rng, steps: u64) -> crate::Result<()> {
    let groups = 2 + rng.below(5);
    let log = open(machine, &drawn(rng.next_u64()))?;
    if machine.fs.is_off() {
        // The power failed while the log took back room for which there was no space.
        return Err(Error::Closed);
    }
    history.reopened(&log, "at the start");
    for _ in 0..steps {
        let group = GroupId(1 + rng.below(groups));
        match rng.below(20) {
            0..=9 => {
                let round = history.round(rng, groups);
                let appended = model::append(&log, &round);
                match &appended {
                    Err(Error::NoSpace { .. }) => {}
                    Err(error) => assert!(is_for_the_machine(error), "{error}: {round:?}"),
                    Ok(()) => {}
                }
                if !matches!(appended, Err(Error::NoSpace { .. })) {
                    history.note(&round);
                }
                appended?;
            }
            10..=12 => {
                log.sync()?;
                history.synced();
            }
            13..=15 => {
                if let Some(index) = history.now_mut().truncate(group, rng) {
                    log.truncate(group, index).unwrap();
                }
            }
            16..=17 => drop(log.reclaim()?),
            18 => {
                let pinning = log.groups_to_flush();
                log.append_again(pinning.first().copied().unwrap_or(group))?;
                history.synced();
            }
            _ => history.now().compare(&log).unwrap(),
        }
    }
    history.now().compare(&log).unwrap();
    if rng.chance(30) {
        log.close()?;
        history.synced();
    }
    Ok(())
}

#[test]
fn synced_writes_survive_a_power_loss_at_every_operation() {
    for seed in 0..4 {
        let machine = SimEnv::new(seed);
        run(&machine, &mut History::default(), &mut Rng::new(seed), 60).unwrap();
        let operations = machine.fs.operations();
        assert!(operations > 60, "{operations}");
        for at in 1..=operations {
            let case = format!("seed {seed}, power off at {at}");
            let (machine, mut history) = (SimEnv::new(seed * 1000 + at), History::default());
            machine.fs.power_off_at(at);
            let ended = run(&machine, &mut history, &mut Rng::new(seed), 60);
            assert!(ended.is_err() && machine.fs.is_off(), "{case}: {ended:?}");
            recover(machine.power_loss(), &mut history, at, &case);
        }
    }
}

/// Opens the log, with the power failing again at every operation of the repair.
fn recover(mut machine: SimEnv, history: &mut History, seed: u64, case: &str) {
    for again in 1.. {
        machine.fs.power_off_at(again);
        let opened = open(&machine, &drawn(seed));
        let off = machine.fs.is_off();
        if let Ok(log) = &opened {
            // A state that an opened log has shown must stay.
            machine.fs.power_off_at(u64::MAX);
            if !machine.fs.is_off() {
                history.reopened(log, &format!("{case}, again at {again}"));
            }
        }
        drop(opened);
        machine = machine.power_loss();
        if !off {
            break;
        }
    }
    let log = open(&machine, &drawn(seed)).unwrap_or_else(|error| panic!("{case}: {error}"));
    history.reopened(&log, case);
    let round = history.round(&mut Rng::new(seed), 4);
    model::append(&log, &round).and_then(|()| log.sync()).unwrap();
    history.note(&round);
    history.now().compare(&log).unwrap();
}

#[test]
fn nothing_is_lost_or_resurrected_over_many_accidents() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut machine = SimEnv::new(seed);
        let mut history = History::default();
        for round in 0..8 {
            let case = format!("seed {seed}, round {round}");
            if rng.chance(40) {
                machine.fs.power_off_at(1 + rng.below(80));
            }
            if rng.chance(30) {
                machine.fs.set_capacity(machine.fs.used() + rng.below(4000));
            }
            if rng.chance(20) {
                let point = *rng.pick(&[FaultPoint::Write, FaultPoint::Sync]);
                let fault = *rng.pick(&[Fault::NoSpace, Fault::Io]);
                machine.fs.inject(point, rng.below(40), 1, fault);
            }
            if let Err(error) = run(&machine, &mut history, &mut rng, 60) {
                assert!(is_for_the_machine(&error) || machine.fs.is_off(), "{case}: {error}");
            }
            machine = if rng.chance(50) { machine.power_loss() } else { machine.kill() };
            machine.fs.clear_faults();
            machine.fs.set_capacity(u64::MAX);
            let log = open(&machine, &drawn(seed)).unwrap_or_else(|e| panic!("{case}: {e}"));
            history.reopened(&log, &case);
        }
    }
    let missed: Vec<_> = GroupLogMark::ALL.iter().filter(|mark| mark.hits() == 0).collect();
    let elsewhere = [GroupLogMark::SegmentRead, GroupLogMark::TruncationSkipped];
    let missed: Vec<_> = missed.into_iter().filter(|mark| !elsewhere.contains(mark)).collect();
    assert!(!cfg!(debug_assertions) || missed.is_empty(), "marks not hit: {missed:?}");
}

#[test]
fn a_full_disk_refuses_whole_rounds_until_space_returns() {
    for seed in 0..100 {
        let case = format!("seed {seed}");
        let mut rng = Rng::new(seed);
        let machine = SimEnv::new(seed);
        let mut history = History::default();
        let log = open(&machine, &drawn(seed)).unwrap();
        machine.fs.set_capacity(rng.below(4000));
        let mut refused = 0;
        for _ in 0..80 {
            if rng.chance(10) {
                machine.fs.set_capacity(machine.fs.used() + rng.below(2500));
            }
            if rng.chance(15) {
                machine.fs.inject(FaultPoint::Write, 0, 1, Fault::NoSpace);
            }
            let round = history.round(&mut rng, 4);
            match model::append(&log, &round) {
                Ok(()) => history.note(&round),
                Err(Error::NoSpace { .. }) => refused += 1,
                Err(error) => panic!("{case}: {error}"),
            }
            log.sync().unwrap_or_else(|error| panic!("{case}: {error}"));
            history.synced();
            history.now().compare(&log).unwrap();
        }
        assert!(refused > 0, "{case}");
        drop(log);
        machine.fs.clear_faults();
        let machine = if rng.chance(50) { machine.power_loss() } else { machine.kill() };
        machine.fs.set_capacity(u64::MAX);
        let log = open(&machine, &drawn(seed)).unwrap_or_else(|error| panic!("{case}: {error}"));
        history.reopened(&log, &case);
    }
}
