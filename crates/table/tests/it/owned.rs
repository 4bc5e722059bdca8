//! Trees that tables of another layer own: kept, checked, adopted, and dropped if their creation was
//! interrupted.

use crate::harness::Harness;
use base::env::Env;
use engine::{Column, Engine, FamilyId, Timestamp, TreeId, WriteBatch};
use std::path::Path;
use table::local::adopt::adopt_trees;
use table::local::check::{Misfits, check_tables};
use table::*;

fn open(dir: &Path) -> (Engine, Result<Local>) {
    let env = Env::real(1);
    let engine = Engine::open_with_env(env, dir, engine::Options::default()).unwrap();
    let local = Local::open(engine.clone(), Env::real(1).clock);
    (engine, local)
}

fn write_system(engine: &Engine, fill: impl FnOnce(&mut WriteBatch)) {
    let mut batch = WriteBatch::new();
    fill(&mut batch);
    engine.tree(TreeOwnership::SYSTEM_TREE).unwrap().write(&batch).unwrap();
}

/// A store with an owned tree, which has a cell, and one whose creation was not finished.
fn store(dir: &Path) -> (TreeId, TreeId) {
    let (engine, local) = open(dir);
    let ownership = local.unwrap().tree_ownership().unwrap();
    let (owned, unfinished) = (ownership.create().unwrap(), ownership.create().unwrap());
    write_system(&engine, |batch| {
        TreeOwnership::claim(batch, &OwnedTrees::of_sql(16_384, vec![owned]));
    });
    let mut batch = WriteBatch::new();
    batch.put(b"row", Column::of(FamilyId(1), b""), Timestamp(0), b"value");
    engine.tree(owned).unwrap().write(&batch).unwrap();
    engine.close().unwrap();
    (owned, unfinished)
}

#[tokio::test]
async fn owned_trees_stay_and_no_front_lists_them() {
    let dir = tempfile::tempdir().unwrap();
    let (owned, unfinished) = store(dir.path());
    let misfits = check_tables(&Env::real(1), dir.path()).unwrap().unwrap();
    assert_eq!(misfits.findings, Vec::<String>::new());
    assert_eq!(misfits.notes.len(), 1, "{misfits:?}");
    let h = Harness::open(dir.path());
    assert!(h.engine.trees().contains(&owned) && !h.engine.trees().contains(&unfinished));
    assert!(h.local.list_tables("").await.unwrap().is_empty());
    let ownership = h.local.tree_ownership().unwrap();
    assert_eq!(ownership.owned().unwrap(), [OwnedTrees::of_sql(16_384, vec![owned])]);
    // Given up: the next open drops it.
    write_system(&h.engine, |batch| {
        TreeOwnership::remove(batch, "sql/16384");
        TreeOwnership::disown(batch, &[owned]);
    });
    h.engine.close().unwrap();
    drop((h, ownership));
    let (engine, local) = open(dir.path());
    assert!(local.unwrap().tree_ownership().unwrap().owned().unwrap().is_empty());
    assert!(!engine.trees().contains(&owned));
}

#[test]
fn a_missing_owned_tree_is_told_refused_and_adopted() {
    let dir = tempfile::tempdir().unwrap();
    let (owned, _) = store(dir.path());
    let (engine, local) = open(dir.path());
    local.unwrap();
    engine.drop_tree(owned).unwrap();
    engine.close().unwrap();
    drop(engine);
    let misfits = check_tables(&Env::real(1), dir.path()).unwrap().unwrap();
    assert!(misfits.findings[0].contains("table sql/16384 uses tree"), "{misfits:?}");
    let (engine, local) = open(dir.path());
    assert!(matches!(local, Err(Error::DataLoss(_))));
    let done = adopt_trees(&engine, 7).unwrap();
    assert!(done[0].contains("table sql/16384 was deleted"), "{done:?}");
    engine.close().unwrap();
    drop(engine);
    let misfits = check_tables(&Env::real(1), dir.path()).unwrap();
    assert_eq!(misfits, Some(Misfits::default()));
    open(dir.path()).1.unwrap();
}

#[test]
fn a_damaged_record_of_owned_trees_is_told_and_refused() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let (engine, _) = open(dir.path());
    write_system(&engine, |batch| {
        let column = Column::of(FamilyId(1), b"");
        batch.put(b"table/sql/16384", column, Timestamp(0), &[3, 9]);
    });
    engine.close().unwrap();
    drop(engine);
    let misfits = check_tables(&Env::real(1), dir.path()).unwrap().unwrap();
    assert!(misfits.findings[0].contains("invalid owner"), "{misfits:?}");
    let (engine, local) = open(dir.path());
    assert!(matches!(local, Err(Error::DataLoss(_))));
    // The tree has data, so it becomes a table that shows them.
    let done = adopt_trees(&engine, 7).unwrap();
    assert!(done.iter().any(|line| line.contains("is now table")), "{done:?}");
}

#[test]
fn adopting_leaves_owned_trees_alone() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let (engine, local) = open(dir.path());
    local.unwrap();
    assert_eq!(adopt_trees(&engine, 7).unwrap(), Vec::<String>::new());
}
