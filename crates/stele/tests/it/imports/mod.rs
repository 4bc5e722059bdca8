//! House rules of structure, read from the sources: who may import whom.
//!
//! 1. Crates import one way: `base ← engine ← table ← bigtable ← stele`, beside them
//!    `table ← relational ← sql ← stele`, `security ← sql`, `table ← cluster`, `security ← cluster`, `engine ← backup ← stele`, `base ← security ← stele`,
//!    `base ← interchange ← stele`, `base ← columnar ← sql`, `copy ← sql`,
//!    `base ← profile ← stele` and `bench-core ← load ← stele`; `copy` imports none; no crate imports `sim`, `bench` or `python`. Read from the manifests.
//! 2. The engine's rooms are its folders and the files at its root. [`ROOMS`] lists them, from the
//!    bottom up: a room names only rooms that are listed for it, and only rooms above its own line
//!    are listed for it. A room that does not exist, or is not listed, fails, and so does a
//!    neighbour that is listed and not named.
//! 3. No files of the engine name each other in a circle. A path leads to the file that defines what
//!    it names, through re-exports.
//! 4. A folder has at most [`FILES_MAX`] files; its sub-folders count as their own.
//!
//! What counts, for 2 and 3: every path that begins with `crate`, `super`, `self` or a child module,
//! in `use` lines and elsewhere. Left out are tests, what fuzz targets call, comments, and paths
//! from a file to the `mod.rs` of a folder that it lies in: Rust lets a file use what the modules
//! around it declare, and the folder is read as a whole. Calls of methods are no paths.

mod paths;

use paths::{Sources, circles};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each crate with the crates of the workspace that it may depend on.
const CRATES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("engine", &["base"]),
    ("table", &["base", "engine"]),
    ("bigtable", &["base", "engine", "table"]),
    ("backup", &["base", "engine"]),
    ("cluster", &["base", "engine", "table", "security"]),
    ("relational", &["base", "engine", "table"]),
    ("sql", &["base", "columnar", "copy", "engine", "relational", "security", "table"]),
    ("interchange", &["base"]),
    ("columnar", &["base"]),
    ("copy", &[]),
    ("security", &["base"]),
    (
        "stele",
        &[
            "base",
            "engine",
            "table",
            "bigtable",
            "backup",
            "cluster",
            "interchange",
            "security",
            "load",
            "profile",
            "relational",
            "sql",
        ],
    ),
    ("profile", &["base"]),
    ("load", &["base", "bench-core"]),
    ("sim", &["base", "engine", "table", "bigtable", "cluster", "relational"]),
    ("stress", &["base", "engine"]),
    ("bench-core", &[]),
    ("bench", &["base", "bench-core", "engine", "table", "cluster", "bigtable", "security"]),
    ("bench-compare", &["base", "bench-core", "engine"]),
    ("python", &["engine"]),
];

/// Each room of the engine with the rooms that it may name, all of them listed before it.
const ROOMS: &[(&str, &str)] = &[
    ("cell", ""),
    ("error", "cell"),
    ("locks", ""),
    ("marks", ""),
    ("merge_operator", ""),
    ("batch", "cell merge_operator"),
    ("request", "cell batch"),
    ("shape", ""),
    ("options", "error shape"),
    ("counters", "locks"),
    ("files", "cell error locks marks request options"),
    ("health", "error"),
    ("log", "cell error locks marks shape options"),
    ("group_log", "error locks marks options log"),
    ("manifest", "cell error locks marks request shape options files log"),
    ("memory", ""),
    ("cache", "error locks marks shape files memory"),
    ("semantics", "cell error merge_operator batch request"),
    ("memtable", "cell error locks marks batch request shape log memory semantics"),
    (
        "sstable",
        "cell error marks batch request shape options counters files memory cache semantics",
    ),
    ("block_loads", "error locks marks counters cache sstable"),
    ("merge", "cell error request cache semantics sstable"),
    (
        "compaction",
        "cell error marks merge_operator request shape options files log manifest memory cache semantics memtable sstable block_loads merge",
    ),
    (
        "tree",
        "cell error locks batch request shape options counters files health log manifest memory semantics memtable sstable compaction",
    ),
    ("write", "cell error locks batch options counters log manifest compaction tree"),
    (
        "state",
        "cell error locks options counters files health log manifest memory sstable block_loads compaction tree write",
    ),
    (
        "background",
        "error locks marks request shape options counters files health manifest sstable compaction tree write state",
    ),
    (
        "ingest",
        "cell error marks batch request shape options files health manifest memory semantics memtable sstable compaction tree write state background",
    ),
    ("changes", "cell error batch merge_operator options log manifest state"),
    ("metrics", "cell options manifest memory cache tree write state"),
    (
        "read",
        "cell error marks merge_operator batch request counters cache semantics memtable sstable block_loads merge tree state",
    ),
    (
        "recovery",
        "cell error batch options counters files log manifest memory cache sstable block_loads compaction tree write state background changes read",
    ),
    (
        "maintenance",
        "cell error batch request shape options files health log group_log manifest cache semantics memtable sstable compaction write state recovery",
    ),
    (
        "engine",
        "cell error batch request options health log manifest semantics tree write state background ingest changes metrics read recovery maintenance",
    ),
    ("kv", "cell error batch request options tree ingest read engine"),
    ("owner", "cell error options log manifest tree state recovery engine"),
    ("internals", ""),
];

/// Files that a folder of the engine may have, `mod.rs` included.
const FILES_MAX: usize = 10;

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

fn engine_sources() -> Sources {
    Sources::read(&workspace().join("crates/engine/src"))
}

#[test]
fn each_room_of_the_engine_names_only_its_neighbours_below() {
    let mut below = BTreeMap::new();
    for (room, neighbours) in ROOMS {
        let neighbours: BTreeSet<&str> = neighbours.split_whitespace().collect();
        let unknown: Vec<_> =
            neighbours.iter().filter(|room| !below.contains_key(**room)).collect();
        assert!(unknown.is_empty(), "{room} may name {unknown:?}, which are not listed before it");
        assert!(below.insert(*room, neighbours).is_none(), "{room} is listed twice");
    }
    let sources = engine_sources();
    let mut unused = below.clone();
    let mut broken = Vec::new();
    for (from, to) in sources.names() {
        let (Some(room), Some(other)) = (from.first(), to.first()) else { continue };
        if room == other {
            continue;
        }
        if !below.get(room.as_str()).is_some_and(|known| known.contains(other.as_str())) {
            broken.push(format!("{} must not name {}", from.join("::"), to.join("::")));
        }
        unused.get_mut(room.as_str()).map(|neighbours| neighbours.remove(other.as_str()));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    for (room, neighbours) in unused {
        assert!(neighbours.is_empty(), "{room} names none of {neighbours:?}: shorten its list");
    }
    let listed: BTreeSet<&str> = below.into_keys().collect();
    let found = sources.rooms();
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(found, listed, "the rooms there are, and those that are listed");
}

#[test]
fn no_files_of_the_engine_name_each_other_in_a_circle() {
    let found = circles(&engine_sources().names());
    assert!(found.is_empty(), "circles of files: {found:#?}");
}

#[test]
fn no_folder_of_the_engine_has_many_files() {
    fn count(folder: &Path, crowded: &mut Vec<String>) {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) =
            entries.partition(|path| path.is_dir());
        if files.len() > FILES_MAX {
            crowded.push(format!("{}: {} files", folder.display(), files.len()));
        }
        folders.iter().for_each(|folder| count(folder, crowded));
    }
    let root = workspace().join("crates/engine/src");
    let mut crowded = Vec::new();
    for entry in std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            count(&entry, &mut crowded);
        }
    }
    assert!(crowded.is_empty(), "{crowded:#?}");
}
