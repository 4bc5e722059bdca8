//! Stores of every released format version are opened forever.
//!
//! `testdata/store-vN` holds, for version N, the files of `sim::sample` after a clean close
//! (`closed/`) and after the process was killed (`killed/`), and what they contain
//! (`expected.txt`). They are never changed. `STELE_REGENERATE_GOLDEN=1` writes those of the
//! present version anew, which is right only before its release.

use base::env::{Env, RealFileSystem};
use engine::{Engine, RowRange, ScanRequest, WriteBatch};
use sim::image::Image;
use sim::machine::Machine;
use sim::oracle::answer;
use sim::sample;
use sim::session::Session;
use std::path::{Path, PathBuf};

/// The version that this program writes.
const VERSION: u32 = 1;
/// Fixtures stay small.
const BYTES_MAX: usize = 200 << 10;

fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/store-v{version}"))
}

fn regenerate() {
    let dir = Path::new("/data");
    let mut session = Session::new(Machine::new(1), dir, sample::options());
    session.open().unwrap();
    sample::build(&mut session).unwrap();
    let fixture = fixture(VERSION);
    let _ = std::fs::remove_dir_all(&fixture);
    let mut killed = Image::read(&*session.machine().env().fs, dir).unwrap();
    // What was preallocated of the last segment and never written says nothing.
    let is_log = |name: &Path| name.extension() == Some("log".as_ref());
    if let Some((_, log)) = killed.files.iter_mut().rfind(|(name, _)| is_log(name)) {
        log.truncate(log.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    }
    session.close().unwrap();
    let closed = Image::read(&*session.machine().env().fs, dir).unwrap();
    let mut bytes = 0;
    for (name, mut image) in [("killed", killed), ("closed", closed)] {
        image.files.remove(Path::new("LOCK"));
        bytes += image.bytes();
        image.write(&RealFileSystem, &fixture.join(name)).unwrap();
    }
    assert!(bytes <= BYTES_MAX, "{bytes} bytes");
    std::fs::write(fixture.join("expected.txt"), sample::expected(&session)).unwrap();
}

fn content(engine: &Engine) -> String {
    let mut text = String::new();
    for tree in engine.trees() {
        let rows = answer(engine, tree, &ScanRequest::rows(RowRange::ALL), None).unwrap();
        sample::print(&mut text, tree, &rows);
    }
    text
}

#[test]
fn stores_of_every_version_open_and_hold_what_they_held() {
    if std::env::var_os("STELE_REGENERATE_GOLDEN").is_some() {
        regenerate();
    }
    for version in 1..=VERSION {
        let fixture = fixture(version);
        let expected = std::fs::read_to_string(fixture.join("expected.txt")).unwrap();
        for name in ["closed", "killed"] {
            let case = format!("version {version}, {name}");
            let scratch = tempfile::tempdir().unwrap();
            let image = Image::read(&RealFileSystem, &fixture.join(name)).unwrap();
            image.write(&RealFileSystem, scratch.path()).unwrap();
            let open = || Engine::open(Env::real(1), scratch.path(), sample::options()).unwrap();
            let engine = open();
            assert_eq!(content(&engine), expected, "{case}");
            write_and_compact(&engine);
            let then = content(&engine);
            assert_ne!(then, expected, "{case}: it takes writes");
            drop(engine);
            assert_eq!(content(&open()), then, "{case}: opened again");
        }
    }
}

/// Rewrites what is old, with something new in it.
fn write_and_compact(engine: &Engine) {
    for tree in engine.trees() {
        let mut batch = WriteBatch::new();
        let column = engine::Column::of(engine::FamilyId(9), b"new");
        batch.put(b"row-new", column, engine::Timestamp(1), b"value");
        engine.write(tree, &batch).unwrap();
        engine.compact_range(tree, &RowRange::ALL).unwrap();
    }
}
