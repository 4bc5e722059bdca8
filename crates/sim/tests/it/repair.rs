//! A repair saves what is not damaged, invents nothing, says what is lost, and leaves the old
//! directory as it was.
//!
//! By default bytes of larger files are tried with a stride; `STELE_FLIPS=1` (the stride) tries
//! every byte of every file.

use crate::byte_flips::{DIR, Store, places, points, store};
use base::env::Env;
use base::env::fs::FileSystem;
use base::env::sim::{Fault, FaultPoint};

use base::env::Rng;
use engine::WriteBatch;
use engine::check::check_dir;
use engine::internals::LogReader;
use engine::internals::OwnedRow;
use engine::internals::{FrozenBatch, Mutation};
use engine::repair::{Loss, Lost, RepairReport, repair_dir};
use engine::{Column, FamilyId, Timestamp, TreeId};
use engine::{ColumnOf, Engine, Error, RowRange, SequenceNumber};
use sim::image::Image;
use sim::machine::Machine;
use sim::oracle::content;
use sim::points::{Point, try_all};
use sim::sample;
use sim::workload::Step;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const INTO: &str = "/repaired";

/// A cell without its value: tree, row, family, qualifier, timestamp.
type Place = (TreeId, Vec<u8>, FamilyId, Vec<u8>, i64);

/// A store, and what it is held against after a repair.
struct Expected {
    store: Store,
    /// Every cell that was ever written, whatever became of it.
    written: BTreeSet<Place>,
    /// The rows that each batch of the log touches.
    logged: Vec<(TreeId, SequenceNumber, Vec<RowRange>)>,
}

fn expected(store: Store) -> Expected {
    let mut written = BTreeSet::new();
    for step in sample::steps() {
        let (Step::Write(tree, batch) | Step::Ingest(tree, batch, _)) = step else { continue };
        for mutation in batch.mutations(SequenceNumber(1)) {
            if let Mutation::Entry { row, entry } = mutation {
                let (family, qualifier) = (entry.column.family, entry.column.qualifier.to_vec());
                written.insert((tree, row.to_vec(), family, qualifier, entry.timestamp.0));
            }
        }
    }
    let logged = logged(&store.image);
    Expected { store, written, logged }
}

fn logged(image: &Image) -> Vec<(TreeId, SequenceNumber, Vec<RowRange>)> {
    let fs: Arc<dyn FileSystem> = Machine::new(1).env().fs;
    image.write(&*fs, Path::new(DIR)).unwrap();
    let mut reader = LogReader::open(fs, Path::new(DIR)).unwrap();
    let mut logged = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        let batch = FrozenBatch::decode(item.record.payload).unwrap();
        let rows = batch.mutations(item.record.first).map(|mutation| match mutation {
            Mutation::Entry { row, .. } => RowRange::single(row),
            Mutation::DropRange(range) => RowRange { start: range.start, end: range.end },
        });
        logged.push((item.record.tree, item.record.first, rows.collect()));
    }
    logged
}

impl Expected {
    /// Returns whether `report` says that something of the row may be missing.
    fn is_lost(&self, report: &RepairReport, tree: TreeId, row: &[u8]) -> bool {
        report.losses.iter().any(|loss| match &loss.lost {
            Lost::Rows { tree: of, rows } => of.is_none_or(|of| of == tree) && rows.contains(row),
            Lost::Batches { from, to, trees } => {
                trees.contains(&tree)
                    && self.logged.iter().any(|(of, first, rows)| {
                        // A batch has fewer mutations than this.
                        let touched = first.0 + 1000 >= *from && to.is_none_or(|to| first.0 <= to);
                        *of == tree && touched && rows.iter().any(|rows| rows.contains(row))
                    })
            }
        })
    }

    /// Compares what a repaired engine holds.
    fn compare(&self, report: &RepairReport, engine: &Engine) -> Result<(), String> {
        let found = content(engine).map_err(|error| format!("repaired, and yet: {error}"))?;
        for (tree, rows) in &found {
            for (row, cells) in rows {
                let unheard = cells.iter().find(|cell| {
                    let (qualifier, timestamp) = (cell.qualifier.clone(), cell.timestamp.0);
                    let place = (*tree, row.clone(), cell.family, qualifier, timestamp);
                    !self.written.contains(&place)
                });
                if unheard.is_some() {
                    return Err(format!("{tree:?} row {} was invented", row.escape_ascii()));
                }
            }
        }
        for (tree, rows) in &self.store.content {
            let found: BTreeMap<&[u8], &OwnedRow> =
                found.get(tree).into_iter().flatten().map(|row| (row.0.as_slice(), row)).collect();
            let expected: BTreeMap<&[u8], &OwnedRow> =
                rows.iter().map(|row| (row.0.as_slice(), row)).collect();
            let all: BTreeSet<&[u8]> = found.keys().chain(expected.keys()).copied().collect();
            for row in all {
                if found.get(row) != expected.get(row) && !self.is_lost(report, *tree, row) {
                    let (row, losses) = (row.escape_ascii(), &report.losses);
                    return Err(format!("{tree:?} row {row} differs unannounced: {losses:?}"));
                }
            }
        }
        let unknown = found.keys().find(|tree| !self.store.content.contains_key(tree));
        match unknown {
            // Of a drop whose only trace is damaged nobody knows.
            Some(tree) if *tree != sample::DROPPED || !report.rebuilt => {
                Err(format!("{tree:?} came back"))
            }
            _ => Ok(()),
        }
    }

    /// What is written to a repaired store is there when it is opened again.
    fn write(&self, engine: Engine, env: Env) -> Result<(), String> {
        let told = |error: Error| error.to_string();
        let mut batch = WriteBatch::new();
        let column = Column::of(FamilyId(1), b"new");
        batch.put(b"row-new", column, Timestamp(7), b"value");
        let trees = engine.trees();
        for tree in &trees {
            engine.tree(*tree).and_then(|tree| tree.write(&batch)).map_err(told)?;
        }
        drop(engine);
        let engine =
            Engine::open_with_env(env, Path::new(INTO), sample::options()).map_err(told)?;
        for tree in trees {
            let found = engine
                .tree(tree)
                .and_then(|tree| tree.get(ColumnOf::new(b"row-new", FamilyId(1), b"new"), None))
                .map_err(told)?;
            if found.is_none() {
                return Err(format!("{tree:?} lost what was written after the repair"));
            }
        }
        Ok(())
    }

    /// Repairs `image`, which was damaged in the file `damaged`.
    fn repair(&self, image: &Image, damaged: &Path, seed: u64) -> Result<RepairReport, String> {
        let machine = Machine::new(seed);
        let (env, dir, into) = (machine.env(), Path::new(DIR), Path::new(INTO));
        image.write(&*env.fs, dir).map_err(|error| error.to_string())?;
        let report = match repair_dir(&env, dir, into, &mut |_| ()) {
            Ok(report) => report,
            Err(Error::Unusable { what, .. }) if what.contains("newer") => {
                return Ok(RepairReport::default());
            }
            Err(error) => return Err(format!("no repair: {error}")),
        };
        let after = Image::read(&*env.fs, dir).map_err(|error| error.to_string())?;
        if after != *image {
            return Err("the old directory was changed".to_owned());
        }
        let name = damaged.to_string_lossy();
        let said = |text: &str| text.contains(&*name);
        let losses = report.losses.iter();
        let named = losses.map(|loss| loss.file.ends_with(damaged)).chain(
            report
                .notes
                .iter()
                .map(|note| said(note) || is_manifest(damaged) && note.contains("MANIFEST")),
        );
        if !report.is_complete() && !named.into_iter().any(|named| named) {
            return Err(format!("the damaged file is not named: {report:?}"));
        }
        let checked = check_dir(&env, into, &mut |_| ()).map_err(|error| error.to_string())?;
        if !checked.is_clean() || !checked.notes.is_empty() {
            return Err(format!("{:?} {:?}", checked.findings, checked.notes));
        }
        let engine =
            Engine::open_with_env(env, into, sample::options()).map_err(|e| e.to_string())?;
        self.compare(&report, &engine)?;
        for tree in engine.trees() {
            engine
                .tree(tree)
                .and_then(|tree| tree.compact_range(&RowRange::ALL))
                .map_err(|error| error.to_string())?;
        }
        self.compare(&report, &engine)?;
        self.write(engine, machine.env())?;
        Ok(report)
    }
}

/// Damages the file at `offset` in one of four ways, and says how.
fn damage(image: &mut Image, name: &Path, offset: usize, rng: &mut Rng) -> String {
    let content = image.files.get_mut(name).expect("it is one of its files");
    match rng.below(4) {
        0 | 1 => {
            let mask = 1 + rng.below(255) as u8;
            content[offset] ^= mask;
            format!("flipped by {mask:#x} at {offset}")
        }
        2 => {
            let end = content.len().min(offset + 1 + rng.below(600) as usize);
            content[offset..end].fill(0);
            format!("zeroed from {offset} to {end}")
        }
        _ => {
            content.truncate(offset);
            format!("cut to {offset}")
        }
    }
}

fn is_manifest(name: &Path) -> bool {
    name.to_string_lossy().starts_with("MANIFEST")
}

#[test]
fn a_repair_of_a_whole_store_loses_nothing() {
    let expected = expected(store());
    let report = expected.repair(&expected.store.image, Path::new("nothing"), 1).unwrap();
    assert!(report.is_complete() && report.notes.is_empty(), "{report:?}");
    assert!(report.rewritten == 0 && report.copied >= 2 && report.log_batches >= 2, "{report:?}");
}

#[test]
fn a_repair_saves_what_is_not_damaged_and_tells_what_is_lost() {
    let expected = expected(store());
    let places = places(&expected.store.image, 53);
    let test = "a_repair_saves_what_is_not_damaged_and_tells_what_is_lost";
    try_all(test, &points(&places), |Point { at, .. }| {
        let (name, offset) = &places[at as usize];
        let mut image = expected.store.image.clone();
        let how = damage(&mut image, name, *offset, &mut Rng::new(at));
        // A manifest that was cut exactly after a record looks like one of an earlier time.
        let cut = is_manifest(name) && !how.starts_with("flipped");
        match expected.repair(&image, name, at) {
            Err(what) if cut && what.contains("came back") => Ok(()),
            outcome => {
                outcome.map(drop).map_err(|what| format!("{} {how}: {what}", name.display()))
            }
        }
    });
}

#[test]
fn a_repair_without_a_file_tells_what_is_lost_with_it() {
    let expected = expected(store());
    for name in expected.store.image.files.keys() {
        let mut image = expected.store.image.clone();
        image.files.remove(name);
        let report = expected.repair(&image, name, 1);
        let report = report.unwrap_or_else(|what| panic!("without {}: {what}", name.display()));
        let counts = name.extension().is_some_and(|kind| kind == "sst" || kind == "log");
        // Without the manifest, no one knows when the ingested file became part of its tree.
        let of_ingested = |loss: &&Loss| loss.reason.contains("it was ingested");
        let ingested = report.losses.iter().filter(of_ingested).count();
        assert_eq!(
            usize::from(is_manifest(name)),
            ingested,
            "without {}: {report:?}",
            name.display()
        );
        assert_eq!(
            counts,
            report.losses.len() > ingested,
            "without {}: {report:?}",
            name.display()
        );
        assert_eq!(is_manifest(name), report.rebuilt, "without {}: {report:?}", name.display());
    }
}

#[test]
fn a_repair_without_any_manifest_finds_all_of_a_store_that_was_closed() {
    let expected = expected(store());
    let mut image = expected.store.image.clone();
    image.files.retain(|name, _| !is_manifest(name) && name != Path::new("CURRENT"));
    let report = expected.repair(&image, Path::new("CURRENT"), 1).unwrap();
    assert!(report.rebuilt, "{report:?}");
    // Nobody knows when the ingested file became part of its tree; all else is as it was.
    let losses: Vec<PathBuf> = report.losses.iter().map(|loss| loss.file.clone()).collect();
    assert!(losses.len() <= 1, "{report:?}");
}

#[test]
fn a_repair_that_fails_leaves_nothing_that_opens() {
    let expected = expected(store());
    let machine = Machine::new(1);
    let (env, dir, into) = (machine.env(), Path::new(DIR), Path::new(INTO));
    expected.store.image.write(&*env.fs, dir).unwrap();
    let before = machine.operations();
    repair_dir(&env, dir, into, &mut |_| ()).unwrap();
    let operations = machine.operations() - before;
    for at in 0..operations {
        let mut machine = Machine::new(at);
        expected.store.image.write(&*machine.env().fs, dir).unwrap();
        machine.env().fs.sync_dir(Path::new("/")).unwrap();
        let written = machine.operations();
        machine.lose_power_at(written + at);
        let repaired = repair_dir(&machine.env(), dir, into, &mut |_| ());
        assert!(repaired.is_err() || machine.power_is_out(), "the power failed in operation {at}");
        machine.restore_power();
        let env = machine.env();
        let after = Image::read(&*env.fs, dir).unwrap();
        assert_eq!(after, expected.store.image, "power lost in operation {at}");
        // Either nothing counts yet, or everything does.
        match check_dir(&env, into, &mut |_| ()) {
            Err(Error::Unusable { .. }) => {}
            Ok(report) if report.is_clean() => {
                let engine = Engine::open_with_env(env, into, sample::options()).unwrap();
                let report = RepairReport::default();
                expected.compare(&report, &engine).unwrap_or_else(|what| panic!("{at}: {what}"));
            }
            Ok(report) => {
                let engine = Engine::open_with_env(env, into, sample::options());
                assert!(engine.is_err(), "{at}: opens, and yet {:?}", report.findings);
            }
            Err(error) => panic!("{at}: {error}"),
        }
    }
}

/// A machine with the store on it, everything durable.
fn machine(expected: &Expected, seed: u64) -> Machine {
    let machine = Machine::new(seed);
    expected.store.image.write(&*machine.env().fs, Path::new(DIR)).unwrap();
    machine
}

fn left_behind(machine: &Machine) -> Vec<PathBuf> {
    machine.env().fs.list(Path::new(INTO)).unwrap_or_default()
}

#[test]
fn a_full_disk_ends_a_repair_with_its_name_and_nothing_left_behind() {
    let expected = expected(store());
    let whole = machine(&expected, 1);
    let before = whole.used();
    repair_dir(&whole.env(), Path::new(DIR), Path::new(INTO), &mut |_| ()).unwrap();
    let needed = whole.used() - before;
    for room in (0..needed).step_by(777) {
        let machine = machine(&expected, room);
        machine.set_capacity(Some(before + room));
        let repaired = repair_dir(&machine.env(), Path::new(DIR), Path::new(INTO), &mut |_| ());
        match repaired {
            Err(Error::NoSpace { path, .. }) => {
                assert!(path.starts_with(INTO), "{}", path.display())
            }
            other => panic!("with {room} of {needed} bytes: {other:?}"),
        }
        assert_eq!(left_behind(&machine), Vec::<PathBuf>::new(), "with {room} bytes");
    }
}

#[test]
fn a_sick_disk_is_survived_or_ends_a_repair() {
    let expected = expected(store());
    for point in [FaultPoint::Read, FaultPoint::Write, FaultPoint::Sync, FaultPoint::Name] {
        for after in (0..).step_by(5) {
            let machine = machine(&expected, after);
            machine.fail(point, after, Fault::Io);
            let repaired = repair_dir(&machine.env(), Path::new(DIR), Path::new(INTO), &mut |_| ());
            let came = !machine.heal();
            let image = Image::read(&*machine.env().fs, Path::new(DIR)).unwrap();
            assert_eq!(image, expected.store.image, "{point:?} {after}");
            match repaired {
                Ok(report) => {
                    let engine =
                        Engine::open_with_env(machine.env(), Path::new(INTO), sample::options())
                            .unwrap();
                    let compared = expected.compare(&report, &engine);
                    compared.unwrap_or_else(|what| panic!("{point:?} {after}: {what}"));
                }
                Err(Error::Io { .. } | Error::Corruption(_)) => {}
                Err(error) => panic!("{point:?} {after}: {error:?}"),
            }
            if !came {
                break;
            }
        }
    }
}
