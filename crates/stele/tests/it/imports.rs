//! House rules of structure, read from the sources: who may import whom.
//!
//! 1. Crates import one way: `base ← engine ← table ← bigtable ← stele`, beside them
//!    `engine ← backup ← stele`; nobody imports `sim`, `stress`, `bench` or `python`. Read from the
//!    manifests.
//! 2. Inside the engine, the rooms below stay ignorant of the rooms above. Read from every path
//!    that names a room, `use` lines and others alike, test modules excepted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each crate with the crates of the workspace that it may depend on.
const CRATES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("engine", &["base"]),
    ("table", &["base", "engine"]),
    ("bigtable", &["base", "engine", "table"]),
    ("backup", &["base", "engine"]),
    ("stele", &["base", "engine", "table", "bigtable", "backup"]),
    ("sim", &["base", "engine", "table", "bigtable"]),
    ("stress", &["base", "engine"]),
    ("bench-core", &[]),
    ("bench", &["base", "bench-core", "engine", "table", "bigtable"]),
    ("bench-compare", &["base", "bench-core", "engine"]),
    ("python", &["engine"]),
];

/// Each file or folder of the engine's sources with the rooms it must not name. A room that does
/// not exist cannot be named, so the list may run ahead of the code. The log may name `cell` and
/// `manifest` for their ids (tree, sequence number, log position); batches are bytes to it.
const ENGINE: &[(&str, &str)] = &[
    ("cell.rs", "batch memtable sstable manifest log cache io read compaction commit engine"),
    ("batch.rs", "memtable sstable manifest log cache io read compaction commit engine"),
    ("log", "batch memtable sstable cache read compaction commit engine"),
    ("cache", "cell batch memtable sstable manifest log read compaction commit engine"),
    ("io", "cell batch memtable sstable manifest log cache read compaction commit engine"),
    ("memtable", "sstable log cache io compaction commit engine"),
    ("sstable", "manifest memtable log read compaction commit engine"),
    ("manifest", "sstable memtable cache io read compaction commit engine"),
    ("compaction/pick.rs", "io cache log memtable commit engine"),
    ("read/plan.rs", "log compaction commit engine"),
    ("read", "log compaction commit engine"),
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn crates_import_one_way() {
    let names: BTreeSet<&str> = CRATES.iter().map(|(name, _)| *name).collect();
    let found: BTreeSet<String> = std::fs::read_dir(workspace().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in &found {
        assert!(names.contains(name.as_str()), "say here what crate {name} may import");
    }
    for (name, allowed) in CRATES {
        let path = workspace().join("crates").join(name).join("Cargo.toml");
        let manifest: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
        for section in ["dependencies", "build-dependencies"] {
            let Some(toml::Value::Table(dependencies)) = manifest.get(section) else { continue };
            for dependency in dependencies.keys().filter(|name| names.contains(name.as_str())) {
                assert!(
                    allowed.contains(&dependency.as_str()),
                    "{name} must not import {dependency}"
                );
            }
        }
    }
}

#[test]
fn rooms_of_the_engine_import_one_way() {
    let root = workspace().join("crates/engine/src");
    let mut broken = Vec::new();
    for (room, forbidden) in ENGINE {
        for file in sources(&root.join(room)) {
            let text = without_tests(&std::fs::read_to_string(&file).unwrap());
            for other in rooms_named(&text) {
                if forbidden.split(' ').any(|room| room == other) {
                    broken.push(format!("{} names crate::{other}", file.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The `.rs` files at or below `path`, tests and what fuzz targets call left out; none if it does
/// not exist.
fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let mut files: Vec<PathBuf> =
        entries.flat_map(|entry| sources(&entry.unwrap().path())).collect();
    files.retain(|file| {
        file.extension().is_some_and(|ext| ext == "rs")
            && !file.components().any(|part| part.as_os_str() == "tests")
            && file.file_stem().is_some_and(|stem| stem != "tests" && stem != "fuzz")
    });
    files
}

/// The source up to its test module, without comments.
fn without_tests(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// First segments of all `crate::…` paths, grouped imports included.
fn rooms_named(text: &str) -> BTreeSet<String> {
    let mut rooms = BTreeSet::new();
    for (at, start) in text.match_indices("crate::") {
        let rest = &text[at + start.len()..];
        match rest.strip_prefix('{') {
            Some(group) => rooms.extend(top_names(group)),
            None => rooms.extend(leading_name(rest)),
        }
    }
    rooms
}

/// The names at depth zero of a braced import list.
fn top_names(group: &str) -> Vec<String> {
    let (mut depth, mut names, mut fresh) = (0usize, Vec::new(), true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => fresh = true,
            c if c.is_whitespace() => {}
            _ if depth == 0 && fresh => {
                names.extend(leading_name(&group[at..]));
                fresh = false;
            }
            _ => {}
        }
    }
    names
}

fn leading_name(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

#[test]
fn the_reader_of_paths_sees_every_form() {
    let text = "use crate::cell::{Cell, Row};\nuse crate::{batch::WriteBatch, log::{A, B}, \
                io};\nlet x = crate::engine::open();";
    let rooms = rooms_named(text);
    let want = ["batch", "cell", "engine", "io", "log"].map(str::to_owned);
    assert_eq!(rooms.into_iter().collect::<Vec<_>>(), want);
}
