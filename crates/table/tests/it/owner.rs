//! Whose a store is: what is not a server's is refused and stays as it is.

use crate::harness::{Harness, set, show};
use engine::kv::Kv;
use engine::owner::give_to_server;
use engine::{Column, ColumnOf, Engine, Env, Options, Owner, TreeId, TreeOptions, WriteBatch};
use std::path::Path;
use std::sync::Arc;
use table::local::adopt::{RECOVERED, adopt_trees};
use table::*;

fn open(dir: &Path) -> Engine {
    Engine::open_with_env(Env::real(1), dir, Options::default()).unwrap()
}

/// A store of a program that embeds the engine: keys in tree 1, and a tree where a server has tables.
fn embedded(dir: &Path) {
    Kv::open(dir, Options::default()).unwrap().put(b"key", b"value").unwrap();
    let engine = open(dir);
    engine.create_tree(TreeId(20), TreeOptions::default()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"row", Column::of(FamilyId(3), b"q"), Timestamp(5_000), b"cell");
    engine.tree(TreeId(20)).unwrap().write(&batch).unwrap();
    engine.close().unwrap();
}

#[test]
fn a_store_of_another_program_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    embedded(dir.path());
    let engine = open(dir.path());
    match Local::open(engine.clone(), Arc::new(base::env::SystemClock)) {
        Err(Error::FailedPrecondition(text)) => assert!(text.contains("stele adopt"), "{text}"),
        other => panic!("{:?}", other.map(|_| ())),
    }
    assert_eq!(engine.owner(), Some(Owner::Embedder));
    assert_eq!(engine.trees(), [TreeId(1), TreeId(20)]);
    engine.close().unwrap();
    drop(engine);
    let kv = Kv::open(dir.path(), Options::default()).unwrap();
    assert_eq!(kv.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[tokio::test]
async fn a_store_of_another_program_becomes_tables_when_it_is_adopted() {
    let dir = tempfile::tempdir().unwrap();
    embedded(dir.path());
    let moved = give_to_server(&Env::real(1), dir.path(), Options::default()).unwrap();
    assert_eq!(moved, [(TreeId(1), TreeId(21))]);
    // A crash here leaves trees that no table names: they are kept, and adopted the second time.
    assert_eq!(Harness::open(dir.path()).engine.trees(), [1, 20, 21].map(TreeId));
    let moved = give_to_server(&Env::real(1), dir.path(), Options::default()).unwrap();
    assert_eq!(moved, []);
    let engine = open(dir.path());
    assert_eq!(adopt_trees(&engine, 7).unwrap().len(), 2);
    engine.close().unwrap();
    drop(engine);
    let h = Harness::open(dir.path());
    let mut shown = String::new();
    for tree in [20, 21] {
        let name = TableName::new(format!("{RECOVERED}tree-{tree}")).unwrap();
        let read = h.local.read_rows(&name, ReadRows::default(), Pieces::default()).await.unwrap();
        shown += &show(&read.collect_rows().await.unwrap());
    }
    assert_eq!(shown, "row family-3:q@5=cell\nkey family-1:@0=value\n");
    // New tables get trees of their own.
    h.create(&["f"], &[]).await;
    h.mutate("a", vec![set("f", "q", 1, "v")]).await.unwrap();
    assert_eq!(h.engine.trees().len(), 4);
}

#[tokio::test]
async fn nobody_but_a_server_writes_to_a_store_of_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let h = Harness::open(dir.path());
    h.create(&["f"], &[]).await;
    h.mutate("a", vec![set("f", "q", 1, "v")]).await.unwrap();
    h.engine.close().unwrap();
    drop(h);
    let refused = |outcome: engine::Result<()>| match outcome {
        Err(engine::Error::Unusable { what, .. }) => assert!(what.contains("server"), "{what}"),
        other => panic!("{other:?}"),
    };
    refused(Kv::open(dir.path(), Options::default()).map(|_| ()));
    let engine = open(dir.path());
    assert_eq!(engine.owner(), Some(Owner::Server));
    let tree = *engine.trees().last().unwrap();
    let mut batch = WriteBatch::new();
    batch.delete_row(b"a");
    refused(engine.tree(tree).and_then(|tree| tree.write(&batch)).map(|_| ()));
    refused(engine.drop_tree(tree));
    refused(engine.create_tree(TreeId(99), TreeOptions::default()).map(drop));
    let mut writer =
        engine.tree(tree).unwrap().sst_writer(&engine::IngestOptions::default()).unwrap();
    writer.put(b"b", Column::of(FamilyId(1), b"q"), Timestamp(0), b"v").unwrap();
    refused(engine.ingest(&mut writer.finish().unwrap()).map(|_| ()));
    // It can be read, and written once it is claimed.
    assert_eq!(
        engine
            .tree(tree)
            .unwrap()
            .get(ColumnOf::new(b"a", FamilyId(1), b"q"), None)
            .unwrap()
            .unwrap()
            .1,
        b"v"
    );
    engine.claim(Owner::Server).unwrap();
    engine.tree(tree).unwrap().write(&batch).unwrap();
}
