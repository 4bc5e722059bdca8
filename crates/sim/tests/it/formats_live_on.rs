//! Stores of every step of the version ladder (docs/format/versions.md) are opened forever, and
//! what is newer than this program is refused with what to do.
//!
//! `testdata/NAME` holds the files of `sim::sample`, as it was when the step was taken, after a
//! clean close (`closed/`) and after the process was killed (`killed/`), and what they contain
//! (`expected.txt`). They are never changed. `STELE_REGENERATE_GOLDEN=1` writes those of the
//! newest step anew, which is right only before its release.

use base::checksum::{crc32c, xxh3};
use base::env::{Env, RealFileSystem};
use engine::check::check_dir;
use engine::repair::repair_dir;
use engine::{Engine, Error, RowRange, ScanRequest, WriteBatch};
use sim::image::Image;
use sim::machine::Machine;
use sim::oracle::answer;
use sim::sample;
use sim::session::Session;
use std::path::{Path, PathBuf};

/// The steps that have been, oldest first. The last is what this program writes.
const STEPS: [&str; 6] = [
    "store-v1",
    "store-v1-origin",
    "store-v1-ages",
    "store-v1-identity",
    "store-v2-frames",
    "store-v2-owner",
];
/// Fixtures stay small.
const BYTES_MAX: usize = 200 << 10;

fn fixture(step: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(step)
}

fn regenerate() {
    let dir = Path::new("/data");
    let mut session = Session::new(Machine::new(1), dir, sample::options());
    session.open().unwrap();
    sample::build(&mut session).unwrap();
    let fixture = fixture(STEPS[STEPS.len() - 1]);
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
fn stores_of_every_step_open_and_hold_what_they_held() {
    if std::env::var_os("STELE_REGENERATE_GOLDEN").is_some() {
        regenerate();
    }
    for step in STEPS {
        let fixture = fixture(step);
        let expected = std::fs::read_to_string(fixture.join("expected.txt")).unwrap();
        for name in ["closed", "killed"] {
            let case = format!("{step}, {name}");
            let scratch = tempfile::tempdir().unwrap();
            let image = Image::read(&RealFileSystem, &fixture.join(name)).unwrap();
            image.write(&RealFileSystem, scratch.path()).unwrap();
            let checked = check_dir(&Env::real(1), scratch.path(), &mut |_| ()).unwrap();
            assert_eq!(checked.findings, [], "{case}");
            assert_eq!(repaired(scratch.path()), expected, "{case}");
            let open =
                || Engine::open_with_env(Env::real(1), scratch.path(), sample::options()).unwrap();
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

/// What a repair makes of the store in `dir`.
fn repaired(dir: &Path) -> String {
    let into = tempfile::tempdir().unwrap();
    let report = repair_dir(&Env::real(1), dir, into.path(), &mut |_| ()).unwrap();
    assert!(report.is_complete(), "{report:?}");
    content(&Engine::open_with_env(Env::real(1), into.path(), sample::options()).unwrap())
}

/// Rewrites what is old, with something new in it.
fn write_and_compact(engine: &Engine) {
    for tree in engine.trees() {
        let mut batch = WriteBatch::new();
        let column = engine::Column::of(engine::FamilyId(9), b"new");
        batch.put(b"row-new", column, engine::Timestamp(1), b"value");
        engine.tree(tree).unwrap().write(&batch).unwrap();
        engine.tree(tree).unwrap().compact_range(&RowRange::ALL).unwrap();
    }
}

/// Writes a version into the header of a segment or manifest, and the Stele that reads it.
fn set_version_of_records(file: &mut [u8], version: u8) {
    file[8] = version;
    file[12..16].copy_from_slice(&[7, 0, 3, 0]);
    let checksum = crc32c(&[&file[..28]]).to_le_bytes();
    file[28..32].copy_from_slice(&checksum);
}

/// Writes `value` at `at` of the footer of an SSTable.
fn change_footer(file: &mut [u8], at: usize, value: u8) {
    let footer = file.len() - 64;
    file[footer + at] = value;
    let checksum = xxh3(&file[footer..footer + 48]).to_le_bytes();
    file[footer + 48..footer + 56].copy_from_slice(&checksum);
}

#[test]
fn what_is_newer_is_refused_with_file_versions_and_what_to_do() {
    let newest = fixture(STEPS[STEPS.len() - 1]);
    let store = Image::read(&RealFileSystem, &newest.join("closed")).unwrap();
    type Raise = fn(&mut [u8]);
    let raises: [(&str, Raise, [&str; 3]); 4] = [
        (".log", |file| set_version_of_records(file, 3), ["format 3", "up to 2", "Stele 3.7"]),
        ("MANIFEST", |file| set_version_of_records(file, 2), ["format 2", "up to 1", "Stele 3.7"]),
        (
            ".sst",
            |file| change_footer(file, 46, 3),
            ["version 3", "versions up to 2", "use a newer Stele"],
        ),
        (
            ".sst",
            |file| change_footer(file, 36, 0x80),
            ["features 0x8", "unknown to this program", "use a newer Stele"],
        ),
    ];
    for (kind, raise, wanted) in raises {
        let mut image = store.clone();
        let is_of_kind = |name: &Path| name.to_string_lossy().contains(kind);
        let newer = image.files.iter_mut().rfind(|(name, _)| is_of_kind(name));
        let (name, file) = newer.unwrap();
        raise(file);
        let name = name.to_string_lossy().into_owned();
        let scratch = tempfile::tempdir().unwrap();
        let (dir, into) = (scratch.path().join("store"), scratch.path().join("into"));
        image.write(&RealFileSystem, &dir).unwrap();
        let env = || Env::real(1);
        let refusals = [
            Engine::open_with_env(env(), &dir, sample::options()).map(drop),
            check_dir(&env(), &dir, &mut |_| ()).map(drop),
            repair_dir(&env(), &dir, &into, &mut |_| ()).map(drop),
        ];
        for refusal in refusals {
            let Err(error @ Error::Unusable { .. }) = refusal else {
                panic!("{name}: {refusal:?}");
            };
            let text = error.to_string();
            let told = wanted.iter().all(|wanted| text.contains(wanted)) && text.contains(&name);
            assert!(told, "{name}: {text}");
        }
        let left = std::fs::read_dir(&into).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{name}: a refused repair leaves nothing");
    }
}
