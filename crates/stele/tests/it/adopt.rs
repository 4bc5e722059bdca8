//! `stele adopt`: a store that an embedding program made becomes a server's.

use crate::rows::read_named;
use crate::server::{Server, run, stderr};
use engine::{Column, Engine, FamilyId, Options, Timestamp, TreeId, TreeOptions, WriteBatch};
use std::path::Path;

/// A tree whose number a server keeps for itself, and one whose number it does not.
const TREES: [TreeId; 2] = [TreeId(1), TreeId(40)];

fn open(dir: &Path) -> Engine {
    Engine::open_with_env(base::env::Env::real(1), dir, Options::default()).unwrap()
}

fn put(engine: &Engine, tree: TreeId, row: &str) -> engine::Result<()> {
    let mut batch = WriteBatch::new();
    for family in [3, 9] {
        let column = Column::of(FamilyId(family), b"q");
        batch.put(row.as_bytes(), column, Timestamp(1_000), format!("{}", tree.0).as_bytes());
    }
    engine.tree(tree).and_then(|tree| tree.write(&batch)).map(drop)
}

#[test]
fn what_a_server_refuses_it_serves_after_adopt() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("embedded");
    let engine = open(&dir);
    for tree in TREES {
        engine.create_tree(tree, TreeOptions::default()).unwrap();
        put(&engine, tree, "a").unwrap();
        put(&engine, tree, "b").unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    let path = dir.to_str().unwrap();
    let any = "127.0.0.1:0";
    let listen = ["--bigtable-listen", any, "--http-listen", any];
    let refused = run(&[&["serve", "--data-dir", path][..], &listen].concat());
    assert!(!refused.status.success());
    let said = stderr(&refused);
    assert!(said.contains("embeds the engine") && said.contains("'stele adopt'"), "{said}");

    let adopted = run(&["adopt", path]);
    assert!(adopted.status.success(), "{}", stderr(&adopted));
    let said = String::from_utf8(adopted.stdout).unwrap();
    assert!(said.contains("tree 1 is now tree ") && said.contains("belongs to servers"), "{said}");
    let tables = said.split_whitespace().filter(|word| word.starts_with("projects/recovered/"));
    let tables: Vec<&str> = tables.collect();
    assert_eq!(tables.len(), TREES.len(), "{said}");

    let mut server = Server::start(&dir, &[]);
    let mut served: Vec<String> =
        tables.iter().flat_map(|table| read_named(server.bigtable(), table).0).collect();
    served.sort();
    let mut held = Vec::new();
    for row in ["a", "b"] {
        for family in [3, 9] {
            held.extend(TREES.map(|tree| format!("{row} family-{family}:q={}", tree.0)));
        }
    }
    assert_eq!(served, held);
    assert!(server.terminate().success());

    // The program that made it reads it, and writes to it no more; to adopt it again changes nothing.
    let engine = open(&dir);
    let refused = put(&engine, TREES[1], "c").unwrap_err().to_string();
    assert!(refused.contains("it belongs to a server"), "{refused}");
    engine.close().unwrap();
    drop(engine);
    let again = String::from_utf8(run(&["adopt", path]).stdout).unwrap();
    assert_eq!(again.lines().count(), 1, "{again}");
}
