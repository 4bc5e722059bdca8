//! Stores whose files are not those that their manifest names, and whose numbers are used up.

use super::{Lost, RepairReport, repair_dir};
use crate::batch::WriteBatch;
use crate::cell::{Column, FamilyId, Timestamp, TreeId};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::files::FileNumber;
use crate::maintenance::check::check_dir;
use crate::manifest::{ManifestSet, Owner, SstMeta};
use crate::options::{Options, TreeOptions};
use crate::owner::{give_to_server, trees_with_moved_ssts};
use crate::request::{RowRange, ScanRequest};
use base::env::FileSystem;
use base::env::sim::SimEnv;
use std::path::Path;

const TREE: TreeId = TreeId(1);

fn dir() -> &'static Path {
    Path::new("/data")
}

fn into() -> &'static Path {
    Path::new("/repaired")
}

fn row(prefix: &str, row: u32) -> Vec<u8> {
    format!("{prefix}{row:04}").into_bytes()
}

/// A closed store with one SSTable of `tree`, which has `count` rows and, if `drops`, a range
/// tombstone; and what the manifest says of it.
fn store(tree: TreeId, prefix: &str, count: u32, drops: bool) -> (SimEnv, SstMeta) {
    let machine = SimEnv::new(1);
    let engine = Engine::open_with_env(machine.env(), dir(), Options::default()).unwrap();
    engine.create_tree(tree, TreeOptions::default()).unwrap();
    for at in 0..count {
        let mut batch = WriteBatch::new();
        let value = [at as u8; 1000];
        batch.put(&row(prefix, at), Column::of(FamilyId(1), b"q"), Timestamp(1), &value);
        engine.tree(tree).unwrap().write(&batch).unwrap();
    }
    if drops {
        let mut batch = WriteBatch::new();
        batch.drop_row_range(b"", None);
        engine.tree(tree).unwrap().write(&batch).unwrap();
    }
    engine.tree(tree).unwrap().flush().unwrap();
    engine.close().unwrap();
    drop(engine);
    let state = ManifestSet::open(machine.env().fs, dir()).unwrap().state();
    let meta = state.tree(tree).unwrap().runs().next().unwrap().ssts[0].as_ref().clone();
    (machine, meta)
}

fn content(fs: &dyn FileSystem, path: &Path) -> Vec<u8> {
    let file = fs.open_read(path).unwrap();
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn put(machine: &SimEnv, path: &Path, bytes: &[u8]) {
    let mut file = machine.env().fs.create(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync().unwrap();
}

fn repair(machine: &SimEnv) -> Result<RepairReport> {
    repair_dir(&machine.env(), dir(), into(), &mut |_| ())
}

/// The rows of the repaired store.
fn rows(machine: &SimEnv) -> Vec<Vec<u8>> {
    rows_of(machine, TREE)
}

fn rows_of(machine: &SimEnv, tree: TreeId) -> Vec<Vec<u8>> {
    let engine = Engine::open_with_env(machine.env(), into(), Options::default()).unwrap();
    let mut scan = engine.tree(tree).unwrap().scan(&ScanRequest::default(), None).unwrap();
    let mut rows = Vec::new();
    while let Some(row) = scan.next_row().unwrap() {
        rows.push(row.to_vec());
    }
    rows
}

fn is_told(report: &RepairReport, row: &[u8]) -> bool {
    report.losses.iter().any(|loss| match &loss.lost {
        Lost::Rows { rows, .. } => rows.contains(row),
        _ => false,
    })
}

/// What became of a store of ten rows whose one file was replaced by `bytes`, which has rows of this
/// prefix.
fn all_is_told(bytes: &[u8], prefix: &str, count: u32, case: &str) {
    let (machine, meta) = store(TREE, "row", 10, false);
    put(&machine, &meta.number.sst_path(dir()), bytes);
    let report = repair(&machine).unwrap_or_else(|error| panic!("{case}: {error}"));
    for at in 0..10 {
        assert!(is_told(&report, &row("row", at)), "{case}: row {at}, {:?}", report.losses);
    }
    let kept = rows(&machine);
    assert!(kept.iter().all(|row| is_told(&report, row)), "{case}: {:?}", report.losses);
    for at in 0..count {
        let told = is_told(&report, &row(prefix, at));
        assert!(told, "{case}: foreign row {at}, {:?}", report.losses);
    }
}

#[test]
fn a_file_that_is_not_the_one_in_the_manifest_is_told_as_lost() {
    for (case, tree, prefix, count, drops) in [
        ("more rows", TREE, "row", 200, false),
        ("other rows", TREE, "other", 200, false),
        ("as many rows", TREE, "other", 10, false),
        ("rows and a range tombstone", TREE, "row", 10, true),
        ("of another tree", TreeId(2), "row", 200, false),
        ("of another tree, as many rows", TreeId(2), "row", 10, false),
    ] {
        let (other, meta) = store(tree, prefix, count, drops);
        let bytes = content(&*other.env().fs, &meta.number.sst_path(dir()));
        all_is_told(&bytes, prefix, count, case);
    }
}

/// Then its rows are all that tell which file it is.
#[test]
fn a_file_of_other_rows_without_its_properties_is_told_as_lost() {
    for (prefix, count) in [("row", 200), ("other", 200), ("other", 10)] {
        let (other, meta) = store(TREE, prefix, count, false);
        let bytes = content(&*other.env().fs, &meta.number.sst_path(dir()));
        // The last place where the last row stands is in the properties.
        let last = row(prefix, count - 1);
        let at = bytes.windows(last.len()).rposition(|part| part == last).unwrap();
        for damaged in [at..at + 1, bytes.len() - 30..bytes.len() - 29] {
            let mut bytes = bytes.clone();
            bytes[damaged.clone()].iter_mut().for_each(|byte| *byte ^= 1);
            all_is_told(&bytes, prefix, count, &format!("{prefix}, {count}, {damaged:?}"));
        }
    }
}

/// A number that no manifest may hold is not given to a file.
#[test]
fn a_repair_that_runs_out_of_file_numbers_says_so() {
    let machine = SimEnv::new(1);
    let engine = Engine::open_with_env(machine.env(), dir(), Options::default()).unwrap();
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    for _ in 0..2 {
        let mut batch = WriteBatch::new();
        batch.put(b"row", Column::of(FamilyId(1), b"q"), Timestamp(1), b"value");
        engine.tree(TREE).unwrap().write(&batch).unwrap();
        engine.tree(TREE).unwrap().flush().unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    let fs = machine.env().fs;
    let mut ssts: Vec<_> = fs.list(dir()).unwrap();
    ssts.retain(|name| FileNumber::of_sst(name).is_some());
    let last = FileNumber(FileNumber::END - 1).sst_path(dir());
    fs.rename(&dir().join(&ssts[1]), &last).unwrap();
    for name in fs.list(dir()).unwrap() {
        if name.extension().is_none_or(|kind| kind != "sst") {
            fs.remove_file(&dir().join(name)).unwrap();
        }
    }
    let repaired = repair(&machine).map(|_| ());
    let Err(Error::WritesStopped(what)) = repaired else { panic!("{repaired:?}") };
    assert!(what.why.contains("file numbers are used up"), "{what}");
    assert!(fs.list(into()).unwrap().is_empty(), "what was written is left");
}

/// The last commands of `stele adopt` may not have come to their end.
#[test]
fn files_of_a_tree_that_was_given_to_a_server_are_its_own() {
    for is_damaged in [false, true] {
        let (machine, meta) = store(TREE, "a", 10, false);
        let give = || give_to_server(&machine.env(), dir(), Options::default()).unwrap();
        let moved = TreeId::FIRST_OF_TABLES;
        assert_eq!((give(), give()), (vec![(TREE, moved)], vec![]));
        let checked = check_dir(&machine.env(), dir(), &mut |_| ()).unwrap();
        assert!(checked.findings.is_empty(), "{:?}", checked.findings);
        if is_damaged {
            // The footer, without which the file is read from its start.
            let path = meta.number.sst_path(dir());
            let mut bytes = content(&*machine.env().fs, &path);
            let footer = bytes.len() - 30;
            bytes[footer] ^= 1;
            put(&machine, &path, &bytes);
        }
        let report = repair(&machine).unwrap();
        assert!(report.losses.is_empty(), "{:?}", report.losses);
        assert_eq!(rows_of(&machine, moved).len(), 10);
        // Until they are written anew they are told.
        let engine = Engine::open_with_env(machine.env(), into(), Options::default()).unwrap();
        let told = if is_damaged { vec![] } else { vec![moved] };
        assert_eq!(trees_with_moved_ssts(&engine).unwrap(), told);
        engine.claim(Owner::Server).unwrap();
        engine.tree(moved).unwrap().compact_range(&RowRange::ALL).unwrap();
        assert_eq!(trees_with_moved_ssts(&engine).unwrap(), []);
    }
}

#[test]
fn a_stray_file_leaves_numbers_to_what_is_repaired() {
    for with_manifest in [true, false] {
        let (machine, _) = store(TREE, "a", 10, false);
        let fs = machine.env().fs;
        put(&machine, &FileNumber(FileNumber::END - 1).sst_path(dir()), &[]);
        if !with_manifest {
            for name in fs.list(dir()).unwrap() {
                if name.extension().is_none_or(|kind| kind != "sst") {
                    fs.remove_file(&dir().join(name)).unwrap();
                }
            }
        }
        let report = repair(&machine).unwrap();
        assert_eq!(report.losses.is_empty(), with_manifest, "{:?}", report.losses);
        let engine = Engine::open_with_env(machine.env(), into(), Options::default()).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(b"new", Column::of(FamilyId(1), b"q"), Timestamp(1), b"value");
        engine.tree(TREE).unwrap().write(&batch).unwrap();
        engine.tree(TREE).unwrap().flush().unwrap();
        engine.close().unwrap();
        drop(engine);
        assert_eq!(rows(&machine).len(), 11);
    }
}
