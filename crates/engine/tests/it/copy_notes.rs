//! Notes of copies, when disks fail and copies do not come to their end: what they name never counts to
//! another tree, and nothing else depends on them.

use crate::lost_manifest::{COPY, dir, lose_manifest, open, put, rows, store};
use crate::support::TREE;
use base::env::FileSystem;
use base::env::sim::{Call, Fault, FaultPoint, SimEnv};
use engine::check::check_dir;
use engine::repair::{RepairReport, repair_dir};
use engine::{
    Column, Engine, Error, FamilyId, IngestOptions, RowRange, Timestamp, TreeId, TreeOptions,
    WriteBatch,
};
use std::path::{Path, PathBuf};

/// The example of the format page: tree 77 has files 5 and 6.
const NOTE: [u8; 44] = [
    0x53, 0x54, 0x45, 0x4c, 0x43, 0x4f, 0x50, 0x59, 0x01, 0, 0, 0, 0x4d, 0, 0, 0, 2, 0, 0, 0, 0, 0,
    0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0xde, 0xa3, 0xde, 0x20,
];

fn note() -> PathBuf {
    dir().join(format!("{:010}.copy", COPY.0))
}

fn sst(number: u64) -> PathBuf {
    dir().join(format!("{number:010}.sst"))
}

fn ssts(machine: &SimEnv) -> Vec<PathBuf> {
    let mut names = machine.fs.list(dir()).unwrap();
    names.retain(|name| name.extension().is_some_and(|end| end == "sst"));
    names
}

fn write_note(machine: &SimEnv) {
    let mut file = machine.fs.create(&note()).unwrap();
    file.write_all_at(&NOTE, 0).unwrap();
    file.sync().unwrap();
    machine.fs.sync_dir(dir()).unwrap();
}

/// Deletes row `a` so that no SSTable of the tree has it.
fn delete_for_good(engine: &Engine) {
    let tree = engine.tree(TREE).unwrap();
    let mut batch = WriteBatch::new();
    batch.delete_row(b"a");
    tree.write(&batch).unwrap();
    tree.compact_range(&RowRange::ALL).unwrap();
}

/// A store with rows `a` to `c` in two SSTables, and a copy that failed at the second one: its first file
/// and its note are left.
fn store_with_failed_copy() -> (SimEnv, Engine) {
    let (machine, engine) = store();
    engine.pause_compactions();
    let tree = engine.tree(TREE).unwrap();
    put(&engine, b"c").unwrap();
    tree.flush().unwrap();
    machine.fs.inject(FaultPoint::Call(Call::Link), 1, 1, Fault::Io);
    machine.fs.inject(FaultPoint::Call(Call::Remove), 0, 1, Fault::Io);
    tree.copy_to(COPY).unwrap_err();
    machine.fs.clear_faults();
    drop(tree);
    (machine, engine)
}

fn closed(engine: Engine) {
    engine.close().unwrap();
}

type Rows = Vec<Vec<u8>>;

/// Repairs the store; what it told, and the rows of each tree.
fn repaired(machine: &SimEnv, into: &str) -> (RepairReport, Vec<(TreeId, Rows)>) {
    let report = repair_dir(&machine.env(), dir(), Path::new(into), &mut |_| ()).unwrap();
    let engine = open(machine, Path::new(into)).unwrap();
    let trees = engine.trees().into_iter().map(|tree| (tree, rows(&engine, tree))).collect();
    (report, trees)
}

fn named(rows: &[&str]) -> Rows {
    rows.iter().map(|row| row.as_bytes().to_vec()).collect()
}

/// Copies the tree, and has the manifest lose the edit that made the copy.
fn copy_and_forget(machine: &SimEnv, engine: Engine) {
    let manifest = machine.fs.list(dir()).unwrap();
    let manifest = manifest.iter().find(|name| name.to_string_lossy().starts_with("MANIFEST"));
    let manifest = dir().join(manifest.unwrap());
    let bytes = machine.fs.size(&manifest).unwrap();
    engine.tree(TREE).unwrap().copy_to(COPY).unwrap();
    closed(engine);
    machine.fs.open_write(&manifest).unwrap().set_len(bytes).unwrap();
}

#[test]
fn a_copy_that_the_manifest_lost_is_kept_apart() {
    let (machine, engine) = store();
    copy_and_forget(&machine, engine);
    let (report, trees) = repaired(&machine, "/repaired");
    assert!(report.losses.is_empty() && !report.rebuilt, "{report:?}");
    assert_eq!(trees, [(TREE, named(&["a", "b"])), (COPY, named(&["a", "b"]))]);
    let told = |note: &String| note.contains("does not know tree 77");
    assert!(report.notes.iter().any(told), "{:?}", report.notes);
}

/// Its files have no numbers of their own, but the files of the source have.
#[test]
fn ingested_files_of_a_copy_that_the_manifest_lost_keep_their_place_in_the_order() {
    let (machine, engine) = store();
    engine.pause_compactions();
    let tree = engine.tree(TREE).unwrap();
    let mut batch = WriteBatch::new();
    batch.delete_row(b"a");
    tree.write(&batch).unwrap();
    tree.flush().unwrap();
    let mut writer = tree.sst_writer(&IngestOptions::default()).unwrap();
    writer.put(b"a", Column::of(FamilyId(1), b"q"), Timestamp(1), b"ingested").unwrap();
    engine.ingest(&mut writer.finish().unwrap()).unwrap();
    drop(tree);
    copy_and_forget(&machine, engine);
    let (report, trees) = repaired(&machine, "/repaired");
    assert!(report.losses.is_empty(), "{report:?}");
    assert_eq!(trees, [(TREE, named(&["a", "b"])), (COPY, named(&["a", "b"]))]);
    // Without any manifest none knows the place, and that is told.
    lose_manifest(&machine, dir());
    let (report, _) = repaired(&machine, "/rebuilt");
    let told = report.losses.iter().filter(|loss| loss.reason.contains("ingested"));
    assert_eq!(told.count(), 2, "{report:?}");
}

/// Whichever read of an open fails, and though nothing can be removed.
#[test]
fn no_open_fails_by_a_note_nor_gives_its_numbers_away() {
    for call in [Call::OpenRead, Call::ReadAt] {
        for after in 0.. {
            let (machine, engine) = store();
            closed(engine);
            write_note(&machine);
            machine.fs.inject(FaultPoint::Call(Call::Remove), 0, u64::MAX, Fault::Io);
            let before = machine.fs.calls(call);
            machine.fs.inject(FaultPoint::Call(call), after, 1, Fault::Io);
            let opened = open(&machine, dir());
            let calls = machine.fs.calls(call) - before;
            machine.fs.clear_faults();
            machine.fs.inject(FaultPoint::Call(Call::Remove), 0, u64::MAX, Fault::Io);
            match opened {
                Err(Error::Io { path, .. }) => assert!(path != note(), "{call:?} {after}"),
                Err(error) => assert!(!error.to_string().contains(".copy"), "{error}"),
                Ok(engine) => {
                    for _ in 0..6 {
                        put(&engine, b"c").unwrap();
                        engine.tree(TREE).unwrap().flush().unwrap();
                    }
                    let given = ssts(&machine);
                    let taken = [5, 6].map(|number| PathBuf::from(format!("{number:010}.sst")));
                    assert!(!taken.iter().any(|name| given.contains(name)), "{call:?} {after}");
                }
            }
            if calls <= after {
                assert!(after > 3, "{call:?}");
                break;
            }
        }
    }
}

/// Whichever read of a checkpoint fails.
#[test]
fn no_checkpoint_fails_by_a_note_nor_lacks_it() {
    for call in [Call::OpenRead, Call::ReadAt] {
        let (machine, engine) = store();
        engine.tree(TREE).unwrap().copy_to(COPY).unwrap();
        delete_for_good(&engine);
        for after in 0.. {
            let into = PathBuf::from(format!("/checkpoint-{after}"));
            machine.fs.inject(FaultPoint::Call(call), after, 1, Fault::Io);
            let made = engine.checkpoint(&into);
            let is_over = machine.fs.clear_faults();
            match made {
                Err(Error::Io { path, .. }) => assert!(path != note(), "{call:?} {after}"),
                Err(error) => assert!(!error.to_string().contains(".copy"), "{error}"),
                Ok(_) => {
                    let checked = check_dir(&machine.env(), &into, &mut |_| ()).unwrap();
                    assert_eq!((checked.findings, checked.notes), (vec![], vec![]));
                }
            }
            if is_over {
                assert!(after > 0, "{call:?}");
                break;
            }
        }
    }
}

/// A file of a copy that did not come to its end, which cannot be removed yet.
#[test]
fn a_note_stays_with_the_files_that_it_names() {
    let (machine, engine) = store();
    closed(engine);
    write_note(&machine);
    let [source] = &ssts(&machine)[..] else { panic!("{:?}", ssts(&machine)) };
    machine.fs.hard_link(&dir().join(source), &sst(6)).unwrap();
    machine.fs.inject(FaultPoint::Call(Call::Remove), 0, 1, Fault::Io);
    let engine = open(&machine, dir()).unwrap();
    assert!(machine.fs.exists(&sst(6)).unwrap());
    delete_for_good(&engine);
    closed(engine);
    let copy = machine.power_loss();
    lose_manifest(&copy, dir());
    let (_, trees) = repaired(&copy, "/repaired");
    assert_eq!(trees, [(TREE, named(&["b"])), (COPY, named(&["a", "b"]))]);
}

/// The files of one that failed, and could not be removed, are not the source's.
#[test]
fn a_copy_that_is_tried_again_removes_what_the_one_before_left() {
    let (machine, engine) = store_with_failed_copy();
    let tree = engine.tree(TREE).unwrap();
    assert!(ssts(&machine).len() == 3 && machine.fs.exists(&note()).unwrap());
    delete_for_good(&engine);

    // While it cannot be removed, there is no copy.
    machine.fs.inject(FaultPoint::Call(Call::Remove), 0, 1, Fault::Io);
    let failed = tree.copy_to(COPY);
    assert!(matches!(&failed, Err(Error::Io { op: "remove", .. })), "{failed:?}");
    machine.fs.clear_faults();
    assert!(ssts(&machine).len() == 2 && machine.fs.exists(&note()).unwrap());
    tree.copy_to(COPY).unwrap();
    assert_eq!(ssts(&machine).len(), 2);
    engine.close().unwrap();
    drop((engine, tree));
    lose_manifest(&machine, dir());
    let (_, trees) = repaired(&machine, "/repaired");
    assert_eq!(trees, [(TREE, named(&["b", "c"])), (COPY, named(&["b", "c"]))]);
}

/// Its puts without its deletes would show what the source deleted.
#[test]
fn a_copy_of_which_files_are_missing_is_left_out_and_told() {
    let (machine, engine) = store_with_failed_copy();
    closed(engine);
    let (report, trees) = repaired(&machine, "/repaired");
    assert_eq!(trees, [(TREE, named(&["a", "b", "c"]))]);
    let [loss] = &report.losses[..] else { panic!("{report:?}") };
    assert!(loss.file.ends_with(note()) && loss.reason.contains("1 of 2 files"), "{loss:?}");
}

/// Else its rows would be counted to the new tree once the manifest is lost.
#[test]
fn the_id_of_a_failed_copy_is_not_used_until_its_files_are_gone() {
    let (machine, engine) = store_with_failed_copy();
    let tree = engine.tree(TREE).unwrap();
    assert!(machine.fs.exists(&note()).unwrap());
    let refused = engine.create_tree(COPY, TreeOptions::default()).map(drop);
    assert!(matches!(&refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    let damaged = machine.fs.create(&note()).unwrap();
    drop(damaged);
    for refused in
        [engine.tree_or_create(COPY, TreeOptions::default()).map(drop), tree.copy_to(COPY)]
    {
        assert!(matches!(&refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    }
    closed(engine);
    drop(tree);
    let engine = open(&machine, dir()).unwrap();
    assert!(!machine.fs.exists(&note()).unwrap());
    engine.create_tree(COPY, TreeOptions::default()).unwrap();
}

#[test]
fn a_check_tells_of_copied_ssts_without_a_note() {
    let (machine, engine) = store();
    engine.tree(TREE).unwrap().copy_to(COPY).unwrap();
    closed(engine);
    let told = || {
        let checked = check_dir(&machine.env(), dir(), &mut |_| ()).unwrap();
        assert_eq!(checked.findings, []);
        checked.notes
    };
    assert!(told().is_empty());
    machine.fs.remove_file(&note()).unwrap();
    let [told] = &told()[..] else { panic!("{:?}", told()) };
    assert!(told.contains("1 SSTables of tree 77"), "{told}");
}
