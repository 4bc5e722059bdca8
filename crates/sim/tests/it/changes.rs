//! Readers of changes get every committed batch once, in the order of commits, whatever happens to
//! the process and the machine: what they tell is what reads of the trees see.
//!
//! `STELE_CHANGE_HISTORIES=2000 cargo test --release -p sim changes` tries that many histories.

use base::env::sim::{Fault, FaultPoint, SimEnv};
use base::env::{Clock, Rng};
use engine::internals::Shape;
use engine::{Change, ChangePosition, ChangeReader, Column, Engine, Error, FamilyId, ReadUpTo};
use engine::{Durability, Options, SequenceNumber, Timestamp, TreeId, TreeOptions, WriteBatch};
use sim::points::{Point, number, try_all};
use std::path::Path;
use std::time::Duration;

const DIR: &str = "/data";
/// Trees whose changes are kept, and one whose are not.
const FOLLOWED: [TreeId; 2] = [TreeId(1), TreeId(2)];
const OTHER: TreeId = TreeId(3);
const TREES: [TreeId; 3] = [FOLLOWED[0], FOLLOWED[1], OTHER];
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A mutation as a test names it: its tree and its row, which no other mutation has.
type Told = (TreeId, u64);

fn column() -> Column<'static> {
    Column::of(FamilyId(1), b"q")
}

fn options(durability: Durability) -> Options {
    let shape = Shape { log_segment_bytes_min: 256, ..Shape::DEFAULT };
    Options {
        durability,
        log_segment_bytes: 4 << 10,
        memtable_bytes_max: 64 << 10,
        memory_bytes_max: 4 << 20,
        cache_bytes_max: Some(1 << 20),
        shape,
        ..Options::default()
    }
}

/// A machine, its engine, a reader, and what both are to tell.
struct World {
    machine: SimEnv,
    engine: Option<Engine>,
    reader: Option<ChangeReader>,
    durability: Durability,
    rng: Rng,
    /// Mutations that were tried, in order; acknowledged ones stay in it, others only if
    /// the next open finds them.
    tried: Vec<(Told, bool)>,
    /// Mutations that readers were given.
    got: Vec<Told>,
    /// From where the next reader goes on.
    position: ChangePosition,
    next_row: u64,
}

impl World {
    fn new(seed: u64, durability: Durability) -> Self {
        let (machine, rng) = (SimEnv::new(seed), Rng::new(seed));
        machine.clock.set_micros(1_000_000_000);
        let mut world = Self {
            machine,
            engine: None,
            reader: None,
            durability,
            rng,
            tried: Vec::new(),
            got: Vec::new(),
            position: ChangePosition::at(0),
            next_row: 0,
        };
        let engine = world.open().expect("a new machine opens");
        for tree in TREES {
            engine.create_tree(tree, TreeOptions::default()).unwrap();
        }
        engine.keep_changes(&FOLLOWED, DAY).unwrap();
        world
    }

    fn open(&mut self) -> Result<Engine, Error> {
        if self.engine.is_none() {
            let env = self.machine.env();
            let opened = Engine::open_with_env(env, Path::new(DIR), options(self.durability))?;
            self.engine = Some(opened);
        }
        Ok(self.engine.clone().unwrap())
    }

    /// Writes a batch of a few rows of a few sizes.
    fn write(&mut self) -> Result<(), Error> {
        let engine = self.open()?;
        let tree = *self.rng.pick(&TREES);
        let mut batch = WriteBatch::new();
        let mut rows = Vec::new();
        for _ in 0..1 + self.rng.below(4) {
            let len = *self.rng.pick(&[1, 20, 300, 300, 3_000, 9_000]);
            let row = self.next_row;
            self.next_row += 1;
            batch.put(&row.to_be_bytes(), column(), Timestamp(7), &vec![row as u8; len]);
            rows.push(((tree, row), false));
        }
        let count = rows.len();
        self.tried.extend(rows);
        engine.tree(tree)?.write(&batch)?;
        let from = self.tried.len() - count;
        self.tried[from..].iter_mut().for_each(|(_, acknowledged)| *acknowledged = true);
        Ok(())
    }

    /// Lets a reader go on by one call, perhaps a new one from a position amid a batch.
    fn read(&mut self, bytes_max: usize, up_to: ReadUpTo) -> Result<bool, Error> {
        let engine = self.open()?;
        if self.rng.chance(30) {
            self.reader = None;
        }
        let position = self.position;
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(engine.change_reader(&FOLLOWED, position)?),
        };
        let changes = reader.read(bytes_max, up_to)?;
        let after = reader.position();
        let mut told = Vec::new();
        for batch in &changes.batches {
            for (sequence, change) in batch.changes() {
                let Change::Put { row, value, timestamp, .. } = change else {
                    panic!("only puts were written: {change:?}");
                };
                let row = u64::from_be_bytes(row.try_into().unwrap());
                assert!(timestamp == Timestamp(7) && value.iter().all(|byte| *byte == row as u8));
                if sequence > self.position.sequence {
                    told.push((sequence, (batch.tree(), row)));
                }
            }
        }
        // Perhaps this reader goes away before it has told all of it.
        let cut = self.rng.chance(30) && !told.is_empty();
        if cut {
            told.truncate(1 + self.rng.below(told.len() as u64) as usize);
            self.position.sequence = told.last().unwrap().0;
            self.reader = None;
        } else {
            self.position = after;
        }
        self.got.extend(told.into_iter().map(|(_, told)| told));
        Ok(changes.caught_up && !cut)
    }

    /// Mutations of followed trees that are committed, as reads see them.
    fn committed(&mut self) -> Result<Vec<Told>, Error> {
        let engine = self.open()?;
        let mut committed = Vec::new();
        for ((tree, row), acknowledged) in &self.tried {
            let key = row.to_be_bytes();
            let of = engine::ColumnOf::new(&key, FamilyId(1), b"q");
            let there = engine.tree(*tree)?.get(of, None)?.is_some();
            assert!(there || !acknowledged || self.durability != Durability::Sync);
            if there && FOLLOWED.contains(tree) {
                committed.push((*tree, *row));
            }
        }
        Ok(committed)
    }

    /// Reads to the end and compares.
    fn check(&mut self) -> Result<(), Error> {
        while !self.read(5_000, ReadUpTo::Settled)? {}
        let committed = self.committed()?;
        assert_eq!(self.got, committed);
        Ok(())
    }

    /// Ends the process, or the machine.
    fn crash(self, power: bool) -> Self {
        let Self { machine, engine, reader, durability, rng, mut tried, got, position, next_row } =
            self;
        let off = power || machine.fs.is_off();
        drop(reader);
        let machine = if off { machine.power_loss() } else { machine.kill() };
        drop(engine);
        if off && durability != Durability::Sync {
            // A power loss may take acknowledged writes, but no write that a reader was given.
            let known: Vec<Told> = got.clone();
            tried.iter_mut().for_each(|(told, kept)| *kept = known.contains(told));
        }
        let (engine, reader) = (None, None);
        Self { machine, engine, reader, durability, rng, tried, got, position, next_row }
    }

    fn step(&mut self) -> Result<(), Error> {
        match self.rng.below(100) {
            0..60 => self.write(),
            60..80 => {
                let up_to = *self.rng.pick(&[ReadUpTo::Committed, ReadUpTo::Settled]);
                let bytes = *self.rng.pick(&[1, 500, 50_000]);
                self.read(bytes, up_to).map(|_| ())
            }
            80..86 => {
                let engine = self.open()?;
                let tree = engine.tree(*self.rng.pick(&TREES))?;
                tree.flush()
            }
            86..90 => TREES.iter().try_for_each(|tree| self.open()?.tree(*tree)?.flush()),
            90..93 => {
                self.machine.clock.advance(Duration::from_secs(self.rng.below(100)));
                Ok(())
            }
            93..95 => self.check(),
            _ => {
                self.machine.tasks.run_ready();
                Ok(())
            }
        }
    }
}

/// Takes random steps; every now and then the process or the machine dies, also in their midst.
fn history(seed: u64, durability: Durability) {
    let mut world = World::new(seed, durability);
    for _ in 0..200 {
        let (crash, power) = (world.rng.chance(4), world.rng.chance(50));
        if world.rng.chance(3) {
            let soon = world.machine.fs.operations() + 1 + world.rng.below(60);
            world.machine.fs.power_off_at(soon);
        }
        let done = world.step();
        let off = world.machine.fs.is_off();
        match done {
            Ok(()) => {}
            Err(_) if off => {}
            Err(error) => panic!("seed {seed}: {error}"),
        }
        if crash || off {
            world = world.crash(power);
            world.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
    world.check().unwrap();
}

#[test]
fn every_committed_batch_is_told_once_and_in_order() {
    let count = number("STELE_CHANGE_HISTORIES").unwrap_or(40u64);
    let points: Vec<_> = (0..count).map(|seed| Point { seed, at: 0 }).collect();
    try_all("every_committed_batch_is_told_once_and_in_order", &points, |point| {
        let modes = [Durability::Sync, Durability::None];
        history(point.seed, modes[point.seed as usize % 2]);
        Ok(())
    });
}

#[test]
fn what_a_failed_sync_leaves_behind_is_told_if_and_only_if_it_is_recovered() {
    let mut outcomes = [false; 2];
    for seed in 0..20 {
        let mut world = World::new(seed, Durability::Sync);
        world.write().unwrap();
        while !world.read(1 << 20, ReadUpTo::Committed).unwrap() {}
        let before = world.got.len();
        world.machine.fs.inject(FaultPoint::Sync, 0, 1, Fault::Io);
        while FOLLOWED.iter().all(|tree| world.tried.last().unwrap().0.0 != *tree)
            || world.write().is_ok()
        {
            world.write().unwrap_err();
        }
        // It is in the log, and was never published.
        let read = world.read(1 << 20, ReadUpTo::Committed);
        assert!(read.is_ok_and(|_| world.got.len() == before), "seed {seed}");
        world = world.crash(seed % 2 == 0);
        world.check().unwrap();
        outcomes[usize::from(world.got.len() > before)] = true;
    }
    assert_eq!(outcomes, [true; 2], "both happen");
}

#[test]
fn changes_expire_and_their_segments_go() {
    let mut world = World::new(1, Durability::Sync);
    let kept = |world: &World| {
        let metrics = world.engine.as_ref().unwrap().metrics();
        metrics.get("change_segments").unwrap()
    };
    for _ in 0..60 {
        world.write().unwrap();
    }
    let engine = world.open().unwrap();
    let flush = |engine: &Engine| {
        TREES.iter().for_each(|tree| engine.tree(*tree).unwrap().flush().unwrap());
    };
    flush(&engine);
    assert!(kept(&world) > 3, "{}", kept(&world));
    let mut slow = engine.change_reader(&FOLLOWED, ChangePosition::at(0)).unwrap();
    let first = slow.read(1, ReadUpTo::Committed).unwrap();
    assert_eq!(first.batches.len(), 1);
    world.machine.clock.advance(DAY + Duration::from_secs(1));
    world.write().unwrap();
    flush(&engine);
    assert!(kept(&world) <= 1, "all but what ends with the newest segments");
    // A late reader is told that it missed something.
    let late = loop {
        match slow.read(1 << 20, ReadUpTo::Committed) {
            Ok(changes) => assert!(!changes.caught_up, "it misses what was removed"),
            Err(error) => break error,
        }
    };
    assert!(matches!(late, Error::ChangesGone(_)), "{late}");
    // No tree keeps its changes any more.
    engine.forget_changes(&FOLLOWED).unwrap();
    assert_eq!(kept(&world), 0);
    assert!(
        world
            .machine
            .fs
            .files()
            .iter()
            .all(|(path, _)| { path.extension().is_none_or(|extension| extension != "changes") })
    );
    let ended = engine.change_reader(&FOLLOWED, ChangePosition::at(0)).unwrap_err();
    assert!(matches!(ended, Error::ChangesGone(_)), "{ended}");
}

#[test]
fn a_reader_ends_when_changes_are_kept_anew_or_the_tree_is_dropped() {
    let mut world = World::new(1, Durability::Sync);
    let engine = world.open().unwrap();
    let reader = |tree| engine.change_reader(&[tree], ChangePosition::at(0)).unwrap();
    let (mut anew, mut dropped) = (reader(FOLLOWED[0]), reader(FOLLOWED[1]));
    let before = engine.change_log(FOLLOWED[0]).unwrap();
    // A longer retention is no new beginning.
    engine.keep_changes(&FOLLOWED, 2 * DAY).unwrap();
    assert_eq!(engine.change_log(FOLLOWED[0]).unwrap().since, before.since);
    anew.read(1, ReadUpTo::Committed).unwrap();
    engine.forget_changes(&FOLLOWED[..1]).unwrap();
    engine.keep_changes(&FOLLOWED[..1], DAY).unwrap();
    assert_ne!(engine.change_log(FOLLOWED[0]).unwrap(), before);
    engine.drop_tree(FOLLOWED[1]).unwrap();
    for reader in [&mut anew, &mut dropped] {
        let ended = reader.read(1, ReadUpTo::Committed).unwrap_err();
        assert!(matches!(ended, Error::ChangesGone(_)), "{ended}");
    }
}

#[test]
fn a_copy_keeps_no_changes() {
    let mut world = World::new(1, Durability::Sync);
    (0..30).for_each(|_| world.write().unwrap());
    let engine = world.open().unwrap();
    engine.tree(FOLLOWED[0]).unwrap().flush().unwrap();
    engine.checkpoint(Path::new("/copy")).unwrap();
    let options = options(Durability::Sync);
    let copy = Engine::open_with_env(world.machine.env(), Path::new("/copy"), options).unwrap();
    assert!(FOLLOWED.iter().all(|tree| copy.change_log(*tree).is_none()));
    assert!(FOLLOWED.iter().all(|tree| engine.change_log(*tree).is_some()));
    world.check().unwrap();
}

#[test]
fn a_settled_reader_knows_how_late_it_is() {
    let mut world = World::new(1, Durability::Sync);
    let engine = world.open().unwrap();
    let mut reader = engine.change_reader(&FOLLOWED, ChangePosition::at(0)).unwrap();
    let mut before = 0;
    for _ in 0..50 {
        world.machine.clock.advance(Duration::from_millis(world.rng.below(3)));
        if world.rng.chance(50) {
            world.write().unwrap();
        }
        let changes = reader.read(1 << 20, ReadUpTo::Settled).unwrap();
        assert!(changes.caught_up);
        // Nothing comes with a time of before, however the clock goes.
        assert!(changes.batches.iter().all(|batch| batch.commit_micros() > before));
        before = reader.position().micros;
        assert!(before >= u64::try_from(world.machine.clock.now_micros()).unwrap());
        if world.rng.chance(10) {
            world.machine.clock.set_micros(1_000_000_000);
        }
    }
}

#[test]
fn damage_of_a_kept_segment_is_told_and_found() {
    let mut world = World::new(1, Durability::Sync);
    (0..60).for_each(|_| world.write().unwrap());
    let engine = world.open().unwrap();
    TREES.iter().for_each(|tree| engine.tree(*tree).unwrap().flush().unwrap());
    let files = world.machine.fs.files();
    let kept = |path: &Path| path.extension().is_some_and(|extension| extension == "changes");
    let (path, len) = files.iter().find(|(path, _)| kept(path)).unwrap().clone();
    drop((engine, world.engine.take()));
    let check = |machine: &SimEnv| {
        engine::check::check_dir(&machine.env(), Path::new(DIR), &mut |_| ()).unwrap()
    };
    assert!(check(&world.machine).is_clean());
    let content = world.machine.fs.read(&path).unwrap();
    let mut told = 0;
    for offset in (40..len as usize).step_by(97).filter(|offset| content[*offset] != 0) {
        world.machine.fs.flip(&path, offset, 1).unwrap();
        let report = check(&world.machine);
        let engine = world.open().unwrap();
        let mut reader = engine.change_reader(&FOLLOWED, ChangePosition::at(0)).unwrap();
        let error = loop {
            match reader.read(1 << 20, ReadUpTo::Committed) {
                Ok(changes) if changes.caught_up => break None,
                Ok(_) => {}
                Err(error) => break Some(error),
            }
        };
        // Readers do not look at records of other trees.
        if let Some(error) = error {
            assert!(matches!(error, Error::Corruption(_)), "{error}");
            told += 1;
        }
        assert!(report.findings.iter().any(|finding| finding.file == path), "offset {offset}");
        drop((reader, engine, world.engine.take()));
        world.machine.fs.flip(&path, offset, 1).unwrap();
    }
    assert!(told > 0);
}

#[test]
fn a_missing_kept_segment_is_no_hole_that_nobody_sees() {
    let mut world = World::new(1, Durability::Sync);
    (0..60).for_each(|_| world.write().unwrap());
    let engine = world.open().unwrap();
    TREES.iter().for_each(|tree| engine.tree(*tree).unwrap().flush().unwrap());
    let mut reader = engine.change_reader(&FOLLOWED, ChangePosition::at(0)).unwrap();
    let mut kept = world
        .machine
        .fs
        .files()
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "changes"));
    let (path, _) = kept.next_back().unwrap();
    world.machine.env().fs.remove_file(&path).unwrap();
    let error = loop {
        match reader.read(1 << 20, ReadUpTo::Committed) {
            Ok(changes) => assert!(!changes.caught_up),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Corruption(ref damage) if damage.file == path), "{error}");
}

#[test]
fn a_reader_waits_for_commits_without_a_thread() {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let mut world = World::new(1, Durability::Sync);
    world.write().unwrap();
    let engine = world.open().unwrap();
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    let last = engine.committed();
    let mut passed = pin!(engine.committed_after(SequenceNumber(last.0 - 1)));
    assert!(passed.as_mut().poll(&mut context).is_ready(), "it is committed already");
    let mut waits = pin!(engine.committed_after(last));
    assert!(waits.as_mut().poll(&mut context).is_pending());
    world.write().unwrap();
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert!(waits.as_mut().poll(&mut context).is_ready());
    let mut waits = pin!(engine.committed_after(engine.committed()));
    assert!(waits.as_mut().poll(&mut context).is_pending());
    engine.close().unwrap();
    assert_eq!(count.0.load(Ordering::SeqCst), 2, "whoever waits is let go");
    assert!(waits.as_mut().poll(&mut context).is_ready());
}
