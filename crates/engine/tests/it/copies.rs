//! Copies of trees: the same files under second names, and from then on trees of their own.

use crate::support::{TREE, collect, open, small};
use base::env::Env;
use engine::check::check_dir;
use engine::repair::repair_dir;
use engine::{
    Column, Engine, Error, FamilyId, RowRange, ScanRequest, Timestamp, TreeId, TreeOptions,
    WriteBatch,
};
use std::path::Path;

const COPY: TreeId = TreeId(77);

fn put(engine: &Engine, tree: TreeId, row: &[u8], value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(row, Column::of(FamilyId(1), b"q"), Timestamp(1), value);
    engine.tree(tree).unwrap().write(&batch).unwrap();
}

fn rows(engine: &Engine, tree: TreeId) -> Vec<Vec<u8>> {
    let scan = engine.tree(tree).unwrap().scan(&ScanRequest::default(), None).unwrap();
    collect(scan).into_iter().map(|(row, _)| row).collect()
}

fn ssts(dir: &Path) -> usize {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".sst")).count()
}

#[test]
fn a_copy_is_a_tree_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    engine.pause_compactions();
    let tree = engine.create_tree(TREE, TreeOptions::default()).unwrap();
    put(&engine, TREE, b"a", b"1");
    tree.flush().unwrap();
    put(&engine, TREE, b"b", b"2");
    tree.copy_to(COPY).unwrap();
    assert_eq!(ssts(dir.path()), 4, "two files, each under two names");
    put(&engine, TREE, b"c", b"3");
    put(&engine, COPY, b"d", b"4");
    assert_eq!(rows(&engine, TREE), [b"a", b"b", b"c"]);
    assert_eq!(rows(&engine, COPY), [b"a", b"b", b"d"]);
    engine.tree(COPY).unwrap().compact_range(&RowRange::ALL).unwrap();
    assert_eq!(rows(&engine, TREE), [b"a", b"b", b"c"]);
    let again = tree.copy_to(COPY);
    assert!(matches!(&again, Err(Error::InvalidArgument(_))), "{again:?}");
    engine.drop_tree(TREE).unwrap();
    assert_eq!(rows(&engine, COPY), [b"a", b"b", b"d"]);
    engine.close().unwrap();
    drop((engine, tree));

    let engine = open(dir.path(), small());
    assert_eq!(engine.trees(), [COPY]);
    assert_eq!(rows(&engine, COPY), [b"a", b"b", b"d"]);
    assert_eq!(ssts(dir.path()), 1, "no name is left behind");
}

#[test]
fn a_check_finds_nothing_wrong_with_copies_of_copies() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    engine.pause_compactions();
    let tree = engine.create_tree(TREE, TreeOptions::default()).unwrap();
    put(&engine, TREE, b"a", b"1");
    tree.copy_to(COPY).unwrap();
    engine.tree(COPY).unwrap().copy_to(TreeId(78)).unwrap();
    let lower = engine.tree(COPY).unwrap().copy_to(TreeId(50));
    assert!(matches!(&lower, Err(Error::InvalidArgument(_))), "{lower:?}");
    engine.close().unwrap();
    drop((engine, tree));
    let report = check_dir(&Env::real(1), dir.path(), &mut |_| ()).unwrap();
    assert_eq!((report.ssts, report.findings), (3, Vec::new()));
    let repaired = tempfile::tempdir().unwrap();
    let report = repair_dir(&Env::real(1), dir.path(), repaired.path(), &mut |_| ()).unwrap();
    assert_eq!(report.losses, []);
    let engine = open(repaired.path(), small());
    for tree in [TREE, COPY, TreeId(78)] {
        assert_eq!(rows(&engine, tree), [b"a"]);
    }
}

#[test]
fn a_copy_of_an_empty_tree_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    engine.create_tree(TREE, TreeOptions::default()).unwrap().copy_to(COPY).unwrap();
    assert!(rows(&engine, COPY).is_empty());
    put(&engine, COPY, b"a", b"1");
    assert!(rows(&engine, TREE).is_empty());
}
