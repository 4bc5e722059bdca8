//! After a repair that lost records of tables, or trees, the store opens and shows all there is.

use crate::harness::{Harness, set, show};
use engine::{Engine, Owner, TreeId, WriteBatch};
use std::path::Path;
use table::local::adopt::{RECOVERED, adopt_trees};
use table::*;

const SYSTEM: TreeId = TreeId(1);

/// A table with a cell in each of two families and two tablets; its trees.
async fn store(dir: &Path) -> Vec<TreeId> {
    let h = Harness::open(dir);
    h.create(&["f", "g"], &["m"]).await;
    h.mutate("a", vec![set("f", "q", 1, "v"), set("g", "q", 2, "w")]).await.unwrap();
    h.mutate("z", vec![set("f", "q", 1, "x")]).await.unwrap();
    let table = h.local.get_table(&h.name).await.unwrap();
    h.engine.close().unwrap();
    table.tablets.iter().map(|tablet| tablet.tree).collect()
}

/// Changes the closed store in `dir` as a repair may leave it, and adopts.
fn adopt(dir: &Path, change: impl FnOnce(&Engine)) -> Vec<String> {
    let env = base::env::Env::real(1);
    let engine = Engine::open_with_env(env, dir, engine::Options::default()).unwrap();
    if engine.owner() == Some(Owner::Server) {
        engine.claim(Owner::Server).unwrap();
    }
    change(&engine);
    let done = adopt_trees(&engine, 7).unwrap();
    engine.close().unwrap();
    done
}

fn lose_record(engine: &Engine) {
    let mut batch = WriteBatch::new();
    batch.delete_row(b"table/projects/p/instances/i/tables/t");
    engine.tree(SYSTEM).unwrap().write(&batch).unwrap();
}

#[tokio::test]
async fn nothing_is_done_where_tables_and_trees_fit() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path()).await;
    assert_eq!(adopt(dir.path(), |_| ()), Vec::<String>::new());
}

#[tokio::test]
async fn trees_of_tables_out_of_service_are_theirs() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path()).await;
    let h = Harness::open(dir.path());
    h.local.keep_deleted_for(std::time::Duration::from_secs(60));
    let record: BackupRecord = Box::new(|_| RecordChange::put("backups/b", "made"));
    h.local.back_up_table(&h.name, "backups/b".into(), i64::MAX, record).await.unwrap();
    h.local.delete_table(&h.name).await.unwrap();
    let trees = h.engine.trees();
    h.engine.close().unwrap();
    drop(h);
    assert_eq!(adopt(dir.path(), |_| ()), Vec::<String>::new());
    // The first tree is the schema's, then come two of the table and two of its backup.
    let done = adopt(dir.path(), |engine| engine.drop_tree(trees[3]).unwrap());
    assert!(done[0].contains("backups/b, a table out of service, was deleted"), "{done:?}");
    let h = Harness::open(dir.path());
    h.local.keep_deleted_for(std::time::Duration::from_secs(60));
    assert_eq!(h.local.record("backups/b"), None, "the front knows of no backup");
    h.local.undelete_table(&h.name).await.unwrap();
    let read = h.local.read_rows(&h.name, ReadRows::default(), Pieces::default()).await.unwrap();
    assert_eq!(read.collect_rows().await.unwrap().len(), 2);
}

#[tokio::test]
async fn trees_without_a_table_become_tables() {
    let dir = tempfile::tempdir().unwrap();
    let trees = store(dir.path()).await;
    let done = adopt(dir.path(), lose_record);
    assert_eq!(done.len(), 2, "{done:?}");
    let h = Harness::open(dir.path());
    let mut shown = String::new();
    for tree in trees {
        let name = TableName::new(format!("{RECOVERED}tree-{}", tree.0)).unwrap();
        let read = h.local.read_rows(&name, ReadRows::default(), Pieces::default()).await.unwrap();
        shown += &show(&read.collect_rows().await.unwrap());
    }
    assert_eq!(shown, "a family-1:q@1=v\na family-2:q@2=w\nz family-1:q@1=x\n");
}

#[tokio::test]
async fn a_damaged_record_is_removed_and_its_trees_are_adopted() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path()).await;
    let done = adopt(dir.path(), |engine| {
        let mut batch = WriteBatch::new();
        let column = engine::Column::of(FamilyId(1), b"");
        let row = b"table/projects/p/instances/i/tables/t";
        batch.put(row, column, Timestamp(0), b"no record");
        engine.tree(SYSTEM).unwrap().write(&batch).unwrap();
    });
    assert!(done[0].contains("unreadable") && done.len() == 3, "{done:?}");
    Harness::open(dir.path());
}

#[tokio::test]
async fn a_table_whose_trees_were_dropped_was_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let trees = store(dir.path()).await;
    let done = adopt(dir.path(), |engine| {
        trees.iter().for_each(|tree| engine.drop_tree(*tree).unwrap());
    });
    assert!(done[0].contains("was deleted") && done.len() == 1, "{done:?}");
    let h = Harness::open(dir.path());
    assert_eq!(h.local.list_tables("").await.unwrap().len(), 0);
}

#[test]
fn a_directory_of_another_program_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let done = adopt(dir.path(), |engine| {
        for tree in [SYSTEM, TreeId(16)] {
            engine.create_tree(tree, engine::TreeOptions::default()).unwrap();
            let mut batch = WriteBatch::new();
            let column = engine::Column::of(FamilyId(1), b"");
            batch.put(b"row", column, Timestamp(0), b"value");
            engine.tree(tree).unwrap().write(&batch).unwrap();
        }
    });
    assert!(done[0].contains("does not belong to servers") && done.len() == 1, "{done:?}");
}
