//! Repairs of stores with copies of trees that have lost their manifest: each tree has its
//! own files, so rows that were deleted since a copy stay deleted.

use crate::support::{TREE, collect, small};
use base::env::{FileSystem, SimEnv};
use engine::check::check_dir;
use engine::checkpoint::{Copied, checkpoint_dir, note_copies};
use engine::repair::repair_dir;
use engine::{
    Column, Engine, FamilyId, Options, Result, RowRange, ScanRequest, Timestamp, TreeId,
    TreeOptions, WriteBatch,
};
use std::path::Path;

pub(crate) const COPY: TreeId = TreeId(77);
const COPY_OF_COPY: TreeId = TreeId(78);

pub(crate) fn dir() -> &'static Path {
    Path::new("/data")
}

fn into() -> &'static Path {
    Path::new("/repaired")
}

pub(crate) fn open(machine: &SimEnv, dir: &Path) -> Result<Engine> {
    let options = Options { durability: Options::default().durability, ..small() };
    Engine::open_with_env(machine.env(), dir, options)
}

pub(crate) fn put(engine: &Engine, row: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(row, Column::of(FamilyId(1), b"q"), Timestamp(1), b"value");
    engine.tree(TREE)?.write(&batch).map(|_| ())
}

pub(crate) fn rows(engine: &Engine, tree: TreeId) -> Vec<Vec<u8>> {
    let scan = engine.tree(tree).unwrap().scan(&ScanRequest::default(), None).unwrap();
    collect(scan).into_iter().map(|(row, _)| row).collect()
}

/// Steps that the life of a store has come to.
#[derive(Debug, Default, Clone, Copy)]
struct Progress {
    copied: bool,
    /// Row `a` is being deleted from the source.
    deleting: bool,
    deleted: bool,
    copied_again: bool,
    /// The first copy is being dropped.
    dropping: bool,
}

/// A store whose tree has rows `a` and `b`, in one SSTable.
pub(crate) fn store() -> (SimEnv, Engine) {
    let machine = SimEnv::new(1);
    let engine = open(&machine, dir()).unwrap();
    let tree = engine.create_tree(TREE, TreeOptions::default()).unwrap();
    put(&engine, b"a").unwrap();
    put(&engine, b"b").unwrap();
    tree.flush().unwrap();
    (machine, engine)
}

/// Copies the tree, deletes `a` for good, copies the copy, drops the first copy.
fn live(engine: &Engine, progress: &mut Progress) -> Result<()> {
    let tree = engine.tree(TREE)?;
    tree.copy_to(COPY)?;
    progress.copied = true;
    let mut batch = WriteBatch::new();
    batch.delete_row(b"a");
    progress.deleting = true;
    tree.write(&batch)?;
    progress.deleted = true;
    tree.compact_range(&RowRange::ALL)?;
    engine.tree(COPY)?.copy_to(COPY_OF_COPY)?;
    progress.copied_again = true;
    progress.dropping = true;
    engine.drop_tree(COPY)?;
    engine.close()
}

pub(crate) fn lose_manifest(machine: &SimEnv, dir: &Path) {
    for name in machine.fs.list(dir).unwrap() {
        let text = name.to_string_lossy();
        if text.starts_with("CURRENT") || text.starts_with("MANIFEST") {
            machine.fs.remove_file(&dir.join(&name)).unwrap();
        }
    }
}

/// Copies all files of the store to `into`.
fn copy_files(machine: &SimEnv, into: &Path) {
    machine.fs.create_dir_all(into).unwrap();
    for name in machine.fs.list(dir()).unwrap() {
        let file = machine.fs.open_read(&dir().join(&name)).unwrap();
        let mut bytes = vec![0; file.size().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        machine.fs.create(&into.join(&name)).unwrap().write_all_at(&bytes, 0).unwrap();
    }
}

/// Repairs the store in `from`, and verifies what each tree has.
fn repaired(machine: &SimEnv, from: &Path, into: &Path, progress: Progress, case: &str) {
    repair_dir(&machine.env(), from, into, &mut |_| ()).unwrap();
    let engine = open(machine, into).unwrap();
    let of_tree = rows(&engine, TREE);
    let (both, kept) = ([b"a".to_vec(), b"b".to_vec()], [b"b".to_vec()]);
    assert!(of_tree == kept || of_tree == both && !progress.deleted, "{case}: {of_tree:?}");
    assert!(of_tree == both || progress.deleting, "{case}: {of_tree:?}");
    for (tree, is_there) in
        [(COPY, progress.copied && !progress.dropping), (COPY_OF_COPY, progress.copied_again)]
    {
        if is_there {
            assert_eq!(rows(&engine, tree), both, "{case}: tree {}", tree.0);
        }
    }
    engine.close().unwrap();
}

/// Whatever moment the power goes, with the manifest or without it.
#[test]
fn trees_keep_their_files_whenever_the_power_goes() {
    let (machine, engine) = store();
    let before = machine.fs.operations();
    live(&engine, &mut Progress::default()).unwrap();
    let operations = machine.fs.operations();
    drop(engine);
    assert!(operations > before + 20);
    for operation in before + 1..=operations + 1 {
        let (machine, engine) = store();
        machine.fs.power_off_at(operation);
        let mut progress = Progress::default();
        let ended = live(&engine, &mut progress);
        assert_eq!(ended.is_ok(), operation > operations);
        drop(engine);
        let machine = machine.power_loss();
        let case = format!("power lost in operation {operation}, {progress:?}");

        let copy = Path::new("/as-it-was");
        copy_files(&machine, copy);
        let engine = open(&machine, copy).unwrap();
        let trees = engine.trees();
        engine.close().unwrap();
        drop(engine);
        let checked = check_dir(&machine.env(), copy, &mut |_| ()).unwrap();
        assert_eq!((checked.findings, checked.notes), (vec![], vec![]), "{case}");
        for tree in [COPY, COPY_OF_COPY] {
            let note = machine.fs.exists(&copy.join(format!("{:010}.copy", tree.0))).unwrap();
            assert_eq!(note, trees.contains(&tree), "{case}: note of tree {}", tree.0);
        }

        let with_manifest = Path::new("/with-manifest");
        repaired(&machine, dir(), with_manifest, progress, &case);
        lose_manifest(&machine, dir());
        repaired(&machine, dir(), into(), progress, &case);
    }
}

/// Directories that are made of others have notes as well.
#[test]
fn notes_go_along_with_their_trees() {
    let (machine, engine) = store();
    let mut progress = Progress::default();
    let tree = engine.tree(TREE).unwrap();
    tree.copy_to(COPY).unwrap();
    put(&engine, b"c").unwrap();
    tree.flush().unwrap();
    let mut batch = WriteBatch::new();
    batch.delete_row(b"a");
    batch.delete_row(b"c");
    tree.write(&batch).unwrap();
    tree.compact_range(&RowRange::ALL).unwrap();
    engine.tree(COPY).unwrap().copy_to(COPY_OF_COPY).unwrap();
    (progress.copied, progress.copied_again) = (true, true);
    (progress.deleting, progress.deleted) = (true, true);
    let checkpoint = Path::new("/checkpoint");
    engine.checkpoint(checkpoint).unwrap();
    engine.close().unwrap();
    drop((engine, tree));
    let fs = &machine.fs;

    // As a restored backup, which has no notes until they are made.
    let restored = Path::new("/restored");
    checkpoint_dir(&machine.env(), dir(), restored, Copied::OtherStore).unwrap();
    for tree in [COPY, COPY_OF_COPY] {
        fs.remove_file(&restored.join(format!("{:010}.copy", tree.0))).unwrap();
    }
    note_copies(fs, restored).unwrap();
    for (case, from) in [("checkpoint", checkpoint), ("restored", restored), ("store", dir())] {
        // With its manifest, then twice without.
        let into = |step| format!("/{case}-{step}");
        repaired(&machine, from, Path::new(&into(0)), progress, case);
        lose_manifest(&machine, from);
        repaired(&machine, from, Path::new(&into(1)), progress, case);
        for step in 0..2 {
            let from = into(step);
            lose_manifest(&machine, Path::new(&from));
            let again = into(2 + step);
            repaired(&machine, Path::new(&from), Path::new(&again), progress, case);
        }
    }
}

/// A damaged note is told, and costs nothing while the manifest is there.
#[test]
fn a_damaged_note_is_found() {
    let (machine, engine) = store();
    engine.tree(TREE).unwrap().copy_to(COPY).unwrap();
    engine.close().unwrap();
    drop(engine);
    let note = dir().join(format!("{:010}.copy", COPY.0));
    let mut file = machine.fs.open_write(&note).unwrap();
    file.write_all_at(b"x", 20).unwrap();
    file.sync().unwrap();
    drop(file);
    let checked = check_dir(&machine.env(), dir(), &mut |_| ()).unwrap();
    let [finding] = &checked.findings[..] else { panic!("{:?}", checked.findings) };
    assert_eq!(finding.file, note);
    assert!(finding.advice.contains("no data is lost"), "{}", finding.advice);
    let progress = Progress { copied: true, ..Progress::default() };
    repaired(&machine, dir(), into(), progress, "damaged note");
    lose_manifest(&machine, into());
    repaired(&machine, into(), Path::new("/again"), progress, "new note");
    lose_manifest(&machine, dir());
    let report = repair_dir(&machine.env(), dir(), Path::new("/without"), &mut |_| ()).unwrap();
    let told = |note: &String| note.contains("0000000077.copy") && note.contains("of tree 77");
    assert!(report.notes.iter().any(told), "{:?}", report.notes);
}

/// A note stays as long as a reader holds a file of the dropped tree.
#[test]
fn a_note_outlives_the_files_of_its_tree() {
    let (machine, engine) = store();
    engine.tree(TREE).unwrap().copy_to(COPY).unwrap();
    let note = dir().join(format!("{:010}.copy", COPY.0));
    let scan = engine.tree(COPY).unwrap().scan(&ScanRequest::default(), None).unwrap();
    engine.drop_tree(COPY).unwrap();
    assert!(machine.fs.exists(&note).unwrap());
    drop(scan);
    put(&engine, b"c").unwrap();
    engine.tree(TREE).unwrap().flush().unwrap();
    assert!(!machine.fs.exists(&note).unwrap());
}
