//! What a check says of tables and trees that do not fit each other, in directories that nobody opens
//! for it, and that stay as they are.

use crate::harness::{Harness, set};
use base::env::Env;
use engine::{Engine, Owner, TreeId, TreeOptions, WriteBatch};
use std::path::Path;
use table::local::check::{Misfits, check_tables};
use table::*;

const SYSTEM: TreeId = TreeId(1);
const RECORD: &[u8] = b"table/projects/p/instances/i/tables/t";

/// A closed store with a table of two tablets; its trees.
async fn store(dir: &Path) -> Vec<TreeId> {
    let h = Harness::open(dir);
    h.create(&["f"], &["m"]).await;
    h.mutate("a", vec![set("f", "q", 1, "v")]).await.unwrap();
    let table = h.local.get_table(&h.name).await.unwrap();
    h.engine.close().unwrap();
    table.tablets.iter().map(|tablet| tablet.tree).collect()
}

/// Changes the closed store in `dir`, and checks it: with what was written in the log, or `flushed`.
fn checked(dir: &Path, flushed: bool, change: impl FnOnce(&Engine)) -> Option<Misfits> {
    let engine = Engine::open_with_env(Env::real(1), dir, engine::Options::default()).unwrap();
    if engine.owner() == Some(Owner::Server) {
        engine.claim(Owner::Server).unwrap();
    }
    change(&engine);
    if flushed {
        engine.tree(SYSTEM).unwrap().flush().unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    let files = || {
        let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            entries.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
        files.sort();
        files
    };
    let before = files();
    let misfits = check_tables(&Env::real(1), dir).unwrap();
    assert!(files() == before, "checking changed something");
    misfits
}

fn write(engine: &Engine, fill: impl FnOnce(&mut WriteBatch)) {
    let mut batch = WriteBatch::new();
    fill(&mut batch);
    engine.tree(SYSTEM).unwrap().write(&batch).unwrap();
}

#[tokio::test]
async fn what_fits_is_nothing_to_tell() {
    for flushed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        store(dir.path()).await;
        assert_eq!(checked(dir.path(), flushed, |_| ()), Some(Misfits::default()));
    }
}

#[tokio::test]
async fn tables_out_of_service_fit_or_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let h = Harness::open(dir.path());
    h.create(&["f"], &[]).await;
    h.local.keep_deleted_for(std::time::Duration::from_secs(60));
    let record: BackupRecord = Box::new(|_| RecordChange::put("backups/b", "made"));
    h.local.back_up_table(&h.name, "backups/b".into(), i64::MAX, record).await.unwrap();
    h.local.delete_table(&h.name).await.unwrap();
    let trees = h.engine.trees();
    h.engine.close().unwrap();
    drop(h);
    assert_eq!(checked(dir.path(), false, |_| ()), Some(Misfits::default()));
    let misfits = checked(dir.path(), true, |engine| {
        trees[1..].iter().for_each(|tree| engine.drop_tree(*tree).unwrap());
    });
    let findings = misfits.unwrap().findings;
    assert_eq!(findings.len(), 2, "{findings:?}");
    for (finding, row) in findings.iter().zip(["backup/backups/b", "deleted/projects/p"]) {
        assert!(finding.contains(row) && finding.contains("does not exist"), "{finding}");
    }
}

#[tokio::test]
async fn a_table_without_its_tree_is_named() {
    for flushed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let trees = store(dir.path()).await;
        let misfits = checked(dir.path(), flushed, |engine| engine.drop_tree(trees[1]).unwrap());
        let Misfits { findings, notes } = misfits.unwrap();
        let tree = trees[1].0;
        let what =
            format!("table projects/p/instances/i/tables/t uses tree {tree}, which does not exist");
        assert_eq!((findings, notes), (vec![what], vec![]));
    }
}

#[tokio::test]
async fn trees_of_no_table_are_noted() {
    for flushed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let trees = store(dir.path()).await;
        let misfits = checked(dir.path(), flushed, |engine| {
            write(engine, |batch| batch.delete_row(RECORD));
            engine.create_tree(TreeId(99), TreeOptions::default()).unwrap();
        });
        let Misfits { findings, notes } = misfits.unwrap();
        let note = |tree: &TreeId| {
            format!(
                "tree {} belongs to no table: it is kept; 'stele adopt' makes it a table",
                tree.0
            )
        };
        let all = [&trees[..], &[TreeId(99)]].concat();
        assert_eq!((findings, notes), (vec![], all.iter().map(note).collect()));
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let trees = store(dir.path()).await;
    let column = engine::Column::of(FamilyId(1), b"");
    let damaged = checked(dir.path(), true, |engine| {
        write(engine, |batch| batch.put(RECORD, column, Timestamp(0), b"no record"));
    });
    let Misfits { findings, notes } = damaged.unwrap();
    assert!(findings.len() == 1 && findings[0].contains("tables/t"), "{findings:?}");
    for (note, tree) in notes.iter().zip(&trees) {
        assert!(note.starts_with(&format!("tree {} belongs to no table", tree.0)), "{note}");
    }
    assert_eq!(notes.len(), trees.len());
}

#[tokio::test]
async fn a_record_of_the_front_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path()).await;
    let column = engine::Column::of(FamilyId(1), b"");
    let newer = checked(dir.path(), false, |engine| {
        write(engine, |batch| {
            batch.put(b"admin/projects/p/instances/a", column, Timestamp(0), b"\x01message");
            batch.put(b"admin/projects/p/instances/i", column, Timestamp(0), b"\x02message");
        });
    });
    let Misfits { findings, notes } = newer.unwrap();
    assert_eq!((findings.len(), notes), (1, vec![]));
    let text = "row 'admin/projects/p/instances/i': record of version 2, but this Stele reads";
    assert!(findings[0].contains(text), "{findings:?}");
}

#[test]
fn a_directory_of_another_program_is_left_alone() {
    for row in [&b"any"[..], b"table/any"] {
        let dir = tempfile::tempdir().unwrap();
        let misfits = checked(dir.path(), false, |engine| {
            for tree in [SYSTEM, TreeId(16)] {
                engine.create_tree(tree, TreeOptions::default()).unwrap();
            }
            let column = engine::Column::of(FamilyId(1), b"q");
            write(engine, |batch| batch.put(row, column, Timestamp(0), b"value"));
        });
        assert_eq!(misfits, None);
    }
    let dir = tempfile::tempdir().unwrap();
    let misfits = checked(dir.path(), false, |engine| {
        engine.create_tree(SYSTEM, TreeOptions::default()).unwrap();
    });
    assert_eq!(misfits, None);
}
