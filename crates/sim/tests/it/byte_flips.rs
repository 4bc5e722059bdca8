//! Damage to any byte of any file is harmless or reported: never a panic, never another answer,
//! never less than before without an error that names the file.
//!
//! By default bytes of larger files are tried with a stride; `STELE_FLIPS=1` (the stride) tries
//! every byte of every file.

use base::env::Rng;
use engine::TreeId;
use engine::internals::OwnedRow;
use engine::{Corruption, Direction, Engine, Error, RowRange, ScanRequest};
use sim::image::Image;
use sim::machine::Machine;
use sim::oracle::{Content, answer, content, difference};
use sim::points::{Point, number, try_all};
use sim::sample;
use sim::session::Session;
use std::path::{Path, PathBuf};

pub(crate) const DIR: &str = "/data";

/// A store that was closed cleanly, and what it holds.
pub(crate) struct Store {
    pub(crate) image: Image,
    pub(crate) content: Content,
}

pub(crate) fn store() -> Store {
    let mut session = Session::new(Machine::new(1), Path::new(DIR), sample::options());
    session.open().unwrap();
    sample::build(&mut session).unwrap();
    let oracle = session.oracle();
    let all = ScanRequest::rows(RowRange::ALL);
    let content = oracle.trees().map(|tree| (tree, oracle.answer(tree, &all, oracle.last())));
    let content = content.collect();
    session.close().unwrap();
    let image = Image::read(&*session.machine().env().fs, Path::new(DIR)).unwrap();
    for kind in ["sst", "log"] {
        let count =
            image.files.keys().filter(|name| name.extension() == Some(kind.as_ref())).count();
        assert!(count >= 2, "{count} files of kind {kind}");
    }
    Store { image, content }
}

/// Opens a damaged store and asks it everything. Whoever answers must answer as before; whoever
/// fails must blame `damaged`. Returns whether there was an error.
fn examine(store: &Store, image: &Image, damaged: &Path, rng: &mut Rng) -> Result<bool, String> {
    let machine = Machine::new(rng.next_u64());
    image.write(&*machine.env().fs, Path::new(DIR)).map_err(|error| error.to_string())?;
    let engine = match Engine::open_with_env(machine.env(), Path::new(DIR), sample::options()) {
        Ok(engine) => engine,
        Err(error) => return blames(&error, damaged).map(|()| true),
    };
    let mut failed = compare(store, &engine, damaged, rng)?;
    if rng.chance(10) {
        // Nor may damage be compacted away.
        for tree in engine.trees() {
            if let Err(error) =
                engine.tree(tree).and_then(|tree| tree.compact_range(&RowRange::ALL))
            {
                blames(&error, damaged)?;
                failed = true;
            }
        }
        failed |= compare(store, &engine, damaged, rng)?;
    }
    Ok(failed)
}

fn compare(store: &Store, engine: &Engine, damaged: &Path, rng: &mut Rng) -> Result<bool, String> {
    let trees: Vec<TreeId> = store.content.keys().copied().collect();
    if engine.trees() != trees {
        return Err(format!("trees {:?} instead of {trees:?}", engine.trees()));
    }
    let mut failed = false;
    let mut ask = |tree, request: &ScanRequest, expected: &[OwnedRow]| match answer(
        engine, tree, request, None,
    ) {
        Ok(found) => match difference(&found, expected) {
            None => Ok(()),
            Some(what) => Err(format!("{tree:?} {request:?}: {what}")),
        },
        Err(error) => {
            failed = true;
            blames(&error, damaged)
        }
    };
    for (tree, rows) in &store.content {
        for row in rows {
            ask(*tree, &ScanRequest::rows(RowRange::single(&row.0)), std::slice::from_ref(row))?;
        }
        ask(*tree, &ScanRequest::rows(RowRange::ALL), rows)?;
        if rng.chance(25) {
            let backwards: Vec<OwnedRow> = rows.iter().rev().cloned().collect();
            let direction = Direction::Reverse;
            let request = ScanRequest { direction, ..ScanRequest::rows(RowRange::ALL) };
            ask(*tree, &request, &backwards)?;
        }
    }
    Ok(failed)
}

/// An error must name the damaged file and a place in it, or say that the version is unknown.
fn blames(error: &Error, damaged: &Path) -> Result<(), String> {
    let right = match error {
        Error::Corruption(Corruption { file, .. }) => file == &Path::new(DIR).join(damaged),
        Error::Unusable { what, .. } => what.contains("newer"),
        _ => false,
    };
    if right { Ok(()) } else { Err(format!("damage is reported as {error:?}")) }
}

/// The places of all files, `stride` apart in files that are longer than a few hundred bytes.
pub(crate) fn places(image: &Image, default_stride: usize) -> Vec<(PathBuf, usize)> {
    let mut places = Vec::new();
    for (name, content) in &image.files {
        let stride = number("STELE_FLIPS").unwrap_or(default_stride);
        let stride = if content.len() < 300 { 1 } else { stride };
        // Ends are where headers and footers are.
        let ends = (0..64).chain(content.len().saturating_sub(128)..content.len());
        let all = ends.chain((0..content.len()).step_by(stride));
        let all: std::collections::BTreeSet<usize> = all.filter(|at| *at < content.len()).collect();
        places.extend(all.into_iter().map(|at| (name.clone(), at)));
    }
    places
}

pub(crate) fn points(places: &[(PathBuf, usize)]) -> Vec<Point> {
    (0..places.len() as u64).map(|at| Point { seed: 0, at }).collect()
}

#[test]
fn a_flipped_byte_is_harmless_or_reported() {
    let store = store();
    let places = places(&store.image, 41);
    try_all("a_flipped_byte_is_harmless_or_reported", &points(&places), |point| {
        let (name, offset) = &places[point.at as usize];
        let mut rng = Rng::new(point.at);
        let mask = if rng.chance(50) { 1 << rng.below(8) } else { 1 + rng.below(255) as u8 };
        let mut image = store.image.clone();
        image.files.get_mut(name).expect("it is one of its files")[*offset] ^= mask;
        let examined = examine(&store, &image, name, &mut rng);
        examined.map(drop).map_err(|e| format!("{} ^ {mask:#x} at {offset}: {e}", name.display()))
    });
}

#[test]
fn a_cut_file_is_reported() {
    let store = store();
    let places = places(&store.image, 97);
    try_all("a_cut_file_is_reported", &points(&places), |point| {
        let (name, len) = &places[point.at as usize];
        if is_manifest(name) {
            return cut_manifest(&store, name, *len);
        }
        let mut image = store.image.clone();
        image.files.get_mut(name).expect("it is one of its files").truncate(*len);
        let mut rng = Rng::new(point.at);
        let examined = examine(&store, &image, name, &mut rng);
        examined.map(drop).map_err(|e| format!("{} cut to {len}: {e}", name.display()))
    });
}

fn is_manifest(name: &Path) -> bool {
    name.to_string_lossy().starts_with("MANIFEST")
}

/// A manifest that was cut at the end of a record looks like one of an earlier time. What the log
/// and the SSTables contradict is corruption, of whichever of them; a tree that was dropped after
/// the cut may be there again.
fn cut_manifest(store: &Store, name: &Path, len: usize) -> Result<(), String> {
    let machine = Machine::new(len as u64);
    let mut image = store.image.clone();
    image.files.get_mut(name).expect("it is one of its files").truncate(len);
    image.write(&*machine.env().fs, Path::new(DIR)).map_err(|error| error.to_string())?;
    match Engine::open_with_env(machine.env(), Path::new(DIR), sample::options()) {
        Err(Error::Corruption(_)) => Ok(()),
        Err(error) => Err(format!("cut to {len}: {error:?}")),
        Ok(engine) => {
            let mut found = content(&engine).map_err(|error| format!("cut to {len}: {error:?}"))?;
            found.retain(|tree, _| *tree != sample::DROPPED);
            if found == store.content {
                return Ok(());
            }
            let trees = (found.keys(), store.content.keys());
            Err(format!("cut to {len}: other content, trees {trees:?}"))
        }
    }
}

#[test]
fn a_missing_file_is_reported() {
    let store = store();
    for name in store.image.files.keys() {
        let mut image = store.image.clone();
        image.files.remove(name);
        let spare = name.extension() == Some("spare".as_ref());
        match examine(&store, &image, name, &mut Rng::new(1)) {
            Ok(failed) => {
                assert!(failed || spare || name == Path::new("LOCK"), "{name:?} is not missed");
            }
            Err(what) => panic!("without {name:?}: {what}"),
        }
    }
}
