//! Power losses, kills, full disks and failed calls. The promise: after a restart the state is
//! the last one that was installed, or that of an install whose outcome was never told.

use super::*;
use base::env::Rng;
use base::env::sim::{Fault, FaultPoint};

fn dir() -> &'static Path {
    Path::new("")
}

fn start(fs: &SimFs) -> crate::Result<ManifestSet> {
    let shape = Shape { manifest_record_bytes: 200, ..rolling_at(600) };
    ManifestSet::open_shaped(sim(fs), dir(), &shape)
}

/// Edits that fit `state`: a tree more or less, or an SSTable more, less or elsewhere.
fn some_edits(state: &State, set: &ManifestSet, rng: &mut Rng) -> Vec<Edit> {
    let trees: Vec<TreeId> = state.trees.keys().copied().collect();
    let highest = state.used.keys().chain(&trees).map(|tree| tree.0).max().unwrap_or(0);
    let Some(tree) = trees.get(rng.index(trees.len() + 1)).copied() else {
        return vec![create(highest + 1)];
    };
    if rng.chance(10) {
        return vec![Edit::DropTree { tree }];
    }
    let version = &state.trees[&tree];
    let sequence = state.last_sequence.0 + 1;
    let number = set.new_file().unwrap().0;
    let new = meta(number, ("a", "z"), (sequence, sequence + rng.below(5)));
    let position = LogPosition(new.sequence_max.0);
    let added = add(tree.0, 0, version.next_run().0, new);
    let mut edits = vec![added, Edit::Flushed { tree, position }];
    if let Some(run) = version.levels[0].last().filter(|_| rng.chance(40)) {
        edits.insert(0, remove(tree.0, 0, run.id.0, run.ssts[0].number.0));
    }
    edits
}

/// What may be found: the state that was told, and one whose install came to no end.
#[derive(Debug)]
struct Known {
    told: State,
    maybe: Option<State>,
}

impl Known {
    fn check(&mut self, found: &State, case: &str) {
        let told = *found == self.told;
        assert!(told || Some(found) == self.maybe.as_ref(), "{case}:\n{found:#?}\n{self:#?}");
        self.told = found.clone();
        self.maybe = None;
    }
}

fn run(fs: &SimFs, known: &mut Known, rng: &mut Rng, steps: usize) -> crate::Result<()> {
    let set = start(fs)?;
    known.check(&set.state(), "at the start");
    for _ in 0..steps {
        let before = set.state();
        let mut after = None;
        let installed = set.change(|state| {
            let edits = some_edits(state, &set, rng);
            let mut whole = edits.clone();
            // As an install does: file numbers given out are kept.
            let next = FileNumber(set.new_file().unwrap().0 + 1);
            whole.push(Edit::NextFile(next));
            after = Some(before.apply(&whole)?);
            Ok(edits)
        });
        match installed {
            Ok(state) => {
                assert_eq!(Some(&*state), after.as_ref());
                known.told = State::clone(&state);
            }
            Err(Error::NoSpace { .. }) => assert_eq!(set.state(), before),
            Err(error) => {
                assert_eq!(set.state(), before, "nothing is published");
                known.maybe = after;
                return Err(error);
            }
        }
    }
    if rng.chance(30) {
        set.close()?;
    }
    Ok(())
}

fn nothing() -> Known {
    Known { told: State::default(), maybe: None }
}

#[test]
fn installs_survive_a_power_loss_at_every_operation() {
    for seed in 0..4 {
        let fs = SimFs::new(seed);
        run(&fs, &mut nothing(), &mut Rng::new(seed), 25).unwrap();
        assert!(fs.operations() > 70);
        for at in 1..=fs.operations() {
            let case = format!("seed {seed}, power off at {at}");
            let (fs, mut known) = (SimFs::new(seed * 1000 + at), nothing());
            fs.power_off_at(at);
            let ended = run(&fs, &mut known, &mut Rng::new(seed), 25);
            // A manifest that was just begun may die while it tidies up, which nobody waits for.
            assert!(ended.is_err() || fs.is_off(), "{case}");
            let mut fs = if at % 3 == 0 { fs.kill() } else { fs.reboot() };
            for again in 1.. {
                fs.power_off_at(again);
                let opened = start(&fs);
                let off = fs.is_off();
                if let Ok(set) = opened {
                    known.check(&set.state(), &format!("{case}, again at {again}"));
                }
                fs = fs.reboot();
                if !off {
                    break;
                }
            }
            let set = start(&fs).unwrap_or_else(|error| panic!("{case}: {error}"));
            known.check(&set.state(), &case);
            let highest = known.told.trees.keys().chain(known.told.used.keys()).max().copied();
            set.install(&[create(highest.map_or(1, |tree| tree.0 + 1))]).unwrap();
        }
    }
}

#[test]
fn nothing_is_lost_over_many_accidents() {
    for seed in 0..300 {
        let (mut rng, mut fs, mut known) = (Rng::new(seed), SimFs::new(seed), nothing());
        for round in 0..6 {
            let case = format!("seed {seed}, round {round}");
            if rng.chance(40) {
                fs.power_off_at(1 + rng.below(60));
            }
            if rng.chance(30) {
                fs.set_capacity(fs.used() + rng.below(2000));
            } else if rng.chance(40) {
                fs.inject(FaultPoint::Write, rng.below(30), 1, Fault::NoSpace);
            }
            match run(&fs, &mut known, &mut rng, 20) {
                Ok(()) | Err(Error::NoSpace { .. }) => {}
                // The injected fault can also hit where a full disk is not forgiven.
                Err(Error::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::StorageFull => {}
                Err(error) => assert!(fs.is_off(), "{case}: {error}"),
            }
            fs = if rng.chance(50) { fs.reboot() } else { fs.kill() };
            fs.set_capacity(u64::MAX);
        }
        let set = start(&fs).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        known.check(&set.state(), &format!("seed {seed}"));
        let names = fs.list(dir()).unwrap();
        assert_eq!(names.len(), 2, "seed {seed}: leftovers in {names:?}");
    }
}

#[test]
fn a_full_disk_refuses_installs_until_space_returns() {
    let fs = SimFs::new(3);
    let set = start(&fs).unwrap();
    set.install(&[create(1)]).unwrap();
    let mut refused = 0;
    for tree in 2..60 {
        if tree % 5 == 0 {
            fs.set_capacity(fs.used() + 150);
        }
        let before = set.state();
        if let Err(error) = set.install(&[create(tree)]) {
            assert!(matches!(error, Error::NoSpace { .. }), "{error}");
            assert_eq!(set.state(), before);
            refused += 1;
        }
    }
    assert!(refused > 10);
    fs.set_capacity(u64::MAX);
    set.install(&[create(99)]).unwrap();
    assert_eq!(*start(&fs.reboot()).unwrap().state(), *set.state());
}

#[test]
fn a_failed_write_or_sync_stops_installs_until_it_is_opened_again() {
    for point in [FaultPoint::Write, FaultPoint::Sync] {
        let fs = SimFs::new(1);
        let set = start(&fs).unwrap();
        set.install(&[create(1)]).unwrap();
        fs.inject(point, 0, 1, Fault::Io);
        let failed = set.install(&[create(2)]);
        assert!(matches!(failed, Err(Error::Io { .. })), "{point:?}: {failed:?}");
        assert!(matches!(set.install(&[create(3)]), Err(Error::WritesStopped(_))));
        assert!(matches!(set.close(), Err(Error::WritesStopped(_))));
        assert!(set.state().trees.contains_key(&TreeId(1)), "reads go on");
        let set = start(&fs.reboot()).unwrap();
        assert!(set.state().trees.contains_key(&TreeId(1)));
        set.install(&[create(4)]).unwrap();
    }
}

#[test]
fn a_new_directory_is_durable_with_all_above_it() {
    for seed in 0..50 {
        let fs = SimFs::new(seed);
        let deep = Path::new("/one/two/three");
        fs.create_dir_all(deep).unwrap();
        let set = ManifestSet::open(sim(&fs), deep).unwrap();
        set.install(&[create(1)]).unwrap();
        let fs = fs.reboot();
        assert_eq!(load(&fs, deep).unwrap().unwrap(), *set.state(), "seed {seed}");
    }
}
