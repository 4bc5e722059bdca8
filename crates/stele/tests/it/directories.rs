//! `check`, `dump` and `repair`, and directories that cannot be opened.

use crate::rows::read_all;
use crate::server::{Server, run, stderr, stele};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// Small enough that a few thousand rows are flushed and compacted.
const SMALL: [&str; 3] =
    ["--memtable-bytes-max=64KiB", "--log-segment-bytes=64KiB", "--sst-bytes-max=64KiB"];

/// A directory with SSTables, a manifest and a log, left by a server that was killed.
fn used_directory(root: &Path) -> PathBuf {
    let dir = root.join("data");
    let mut server = Server::start(&dir, &SMALL);
    let text: String = (0..4000).map(|n| format!("row{n:05},{}\n", "v".repeat(80))).collect();
    let file = root.join("rows.csv");
    std::fs::write(&file, format!("k,v\n{text}")).unwrap();
    let mut import = stele();
    import.arg("import").arg(&file).args(["--table", "t", "--key", "k", "--create-table"]);
    import.args(["--endpoint", &server.bigtable().to_string()]);
    let output = import.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    server.kill_9();
    dir
}

fn check(dir: &Path) -> Output {
    run(&["check", dir.to_str().unwrap()])
}

fn dump(file: &Path) -> Output {
    run(&["dump", file.to_str().unwrap()])
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn of_kind(dir: &Path, kind: &str) -> PathBuf {
    let found = files(dir).into_iter().find(|path| path.to_string_lossy().contains(kind));
    found.unwrap_or_else(|| panic!("no {kind} among {:?}", files(dir)))
}

/// The same of a file that counts: a killed server may leave one that the manifest does not name
/// any more, or not yet, and the check says so.
fn of_kind_that_counts(dir: &Path, kind: &str) -> PathBuf {
    let said = stdout(&check(dir));
    let left_over = |path: &Path| said.contains(path.file_name().unwrap().to_str().unwrap());
    let mut of_kind = files(dir).into_iter().filter(|path| path.to_string_lossy().contains(kind));
    of_kind.find(|path| !left_over(path)).unwrap_or_else(|| panic!("no {kind} counts: {said}"))
}

fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 0x40;
    std::fs::write(file, bytes).unwrap();
}

/// As docs/embedding.md says: the tables are trees, and the server finds all as it was.
#[test]
fn a_servers_directory_opens_with_the_engine_alone() {
    use engine::{ColumnOf, Engine, FamilyId, Options, ScanRequest};
    let root = tempfile::tempdir().unwrap();
    let dir = used_directory(root.path());
    let engine = Engine::open_with_env(base::env::Env::real(1), &dir, Options::default()).unwrap();
    let trees = engine.trees();
    engine.claim(engine::Owner::Server).unwrap();
    let [_system, table] = trees[..] else { panic!("{trees:?}") };
    let mut scan = engine.tree(table).unwrap().scan(&ScanRequest::default(), None).unwrap();
    for number in 0..4000 {
        assert_eq!(scan.next_row().unwrap(), Some(format!("row{number:05}").as_bytes()));
        let cell = scan.next_cell().unwrap().unwrap();
        assert_eq!((cell.qualifier, cell.value), (&b"v"[..], &[b'v'; 80][..]));
    }
    assert_eq!(scan.next_row().unwrap(), None);
    let got = engine
        .tree(table)
        .unwrap()
        .get(ColumnOf::new(b"row00042", FamilyId(1), b"v"), None)
        .unwrap();
    assert_eq!(got.unwrap().1, [b'v'; 80]);
    drop((scan, engine));
    let mut server = Server::start(&dir, &SMALL);
    assert_eq!(read_all(server.bigtable(), "t").0.len(), 4000);
    assert!(server.terminate().success());
}

#[test]
fn a_killed_server_leaves_a_clean_directory_whose_files_can_all_be_shown() {
    let root = tempfile::tempdir().unwrap();
    let dir = used_directory(root.path());
    let before: Vec<_> =
        files(&dir).iter().map(|f| (f.clone(), std::fs::read(f).unwrap())).collect();
    let output = check(&dir);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("clean"), "{}", stdout(&output));
    for (kind, want) in [
        ("CURRENT", "MANIFEST-"),
        ("MANIFEST-", "create tree"),
        (".sst", "  row "),
        (".log", "Batch"),
    ] {
        let output = dump(&of_kind(&dir, kind));
        assert!(output.status.success(), "{kind}: {}", stderr(&output));
        assert!(stdout(&output).contains(want), "{kind}: {}", stdout(&output));
    }
    let after: Vec<_> =
        files(&dir).iter().map(|f| (f.clone(), std::fs::read(f).unwrap())).collect();
    assert!(before == after, "looking changed something");
    let server = Server::start(&dir, &SMALL);
    assert_eq!(read_all(server.bigtable(), "t").0.len(), 4000);
}

#[test]
fn damage_is_found_with_file_and_offset_and_a_server_refuses_it() {
    for (kind, at, refused) in
        [("CURRENT", 3, true), ("MANIFEST-", 60, true), (".sst", 200, false), (".log", 4, true)]
    {
        let root = tempfile::tempdir().unwrap();
        let dir = used_directory(root.path());
        let file = of_kind_that_counts(&dir, kind);
        flip(&file, at);
        let output = check(&dir);
        assert_eq!(output.status.code(), Some(1), "{kind}: {}", stdout(&output));
        let said = stdout(&output);
        assert!(said.contains(file.file_name().unwrap().to_str().unwrap()), "{kind}: {said}");
        assert!(said.contains("at offset") && said.contains("damaged"), "{kind}: {said}");
        assert!(said.contains("next: ") && said.contains("stele repair"), "{kind}: {said}");
        let json = run(&["check", "--json", dir.to_str().unwrap()]);
        assert_eq!(json.status.code(), Some(1), "{kind}");
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(json["verdict"], "damaged", "{kind}: {json}");
        assert_eq!(json["findings"][0]["file"], file.to_str().unwrap(), "{kind}: {json}");
        if refused {
            let output = serve(&dir);
            assert_eq!(output.status.code(), Some(1), "{kind}: {}", stderr(&output));
            assert!(stderr(&output).contains("corruption in"), "{kind}: {}", stderr(&output));
        }
    }
}

#[test]
fn a_table_without_its_tree_is_found_by_name_and_a_server_refuses_it() {
    use engine::{Engine, Options, Owner};
    let root = tempfile::tempdir().unwrap();
    let dir = used_directory(root.path());
    let engine = Engine::open_with_env(base::env::Env::real(1), &dir, Options::default()).unwrap();
    engine.claim(Owner::Server).unwrap();
    let [_system, table] = engine.trees()[..] else { panic!("{:?}", engine.trees()) };
    engine.drop_tree(table).unwrap();
    drop(engine);
    let output = check(&dir);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let (said, tree) = (stdout(&output), table.0);
    assert!(said.contains(&format!("/tables/t uses tree {tree}, which does not exist")), "{said}");
    assert!(stderr(&serve(&dir)).contains("which is missing"), "{}", stderr(&serve(&dir)));
}

#[test]
fn a_missing_sstable_is_found_and_a_server_refuses_to_start() {
    let root = tempfile::tempdir().unwrap();
    let dir = used_directory(root.path());
    let file = of_kind_that_counts(&dir, ".sst");
    std::fs::remove_file(&file).unwrap();
    let output = check(&dir);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("missing"), "{}", stdout(&output));
    let name = file.file_name().unwrap().to_str().unwrap();
    let said = stderr(&serve(&dir));
    assert!(said.contains(name), "{said}");
}

#[test]
fn a_directory_is_shown_by_its_manifest_and_a_file_by_range() {
    let root = tempfile::tempdir().unwrap();
    let dir = used_directory(root.path());
    let output = run(&["dump", dir.to_str().unwrap(), "--tree", "16"]);
    let said = stdout(&output);
    assert!(said.contains("tree 16, flushed up to") && !said.contains("tree 1,"), "{said}");
    assert!(said.contains("level ") && said.contains("SSTable "), "{said}");
    let file = of_kind_that_counts(&dir, ".sst");
    let file = file.to_str().unwrap();
    let rows = |output: &Output| stdout(output).matches("  row ").count();
    let all = rows(&run(&["dump", file]));
    let first = stdout(&run(&["dump", file]));
    let first = first.lines().find_map(|line| line.strip_prefix("  row ")).unwrap().to_owned();
    let after = format!("{first}\\x00");
    assert_eq!(rows(&run(&["dump", file, "--from", &first, "--to", &after])), 1);
    assert_eq!(rows(&run(&["dump", file, "--from", &after])), all - 1);
    assert_eq!(rows(&run(&["dump", file, "--no-entries"])), 0);
    assert_eq!(run(&["dump", file, "--from", "\\q"]).status.code(), Some(2));
}

fn repair(dir: &Path, into: &Path, more: &[&str]) -> Output {
    let args = ["repair", "--data-dir", dir.to_str().unwrap(), "--into", into.to_str().unwrap()];
    run(&[&args[..], more].concat())
}

#[test]
fn a_repair_makes_a_directory_that_serves_what_is_left() {
    let root = tempfile::tempdir().unwrap();
    let (dir, into) = (used_directory(root.path()), root.path().join("new"));
    let whole = repair(&dir, &root.path().join("whole"), &[]);
    assert_eq!(whole.status.code(), Some(0), "{}{}", stdout(&whole), stderr(&whole));
    assert!(stdout(&whole).contains("nothing is lost"), "{}", stdout(&whole));
    let file = of_kind_that_counts(&dir, ".sst");
    flip(&file, 200);
    let output = repair(&dir, &into, &["--json"]);
    assert_eq!(output.status.code(), Some(1), "{}{}", stdout(&output), stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let loss = &report["losses"][0];
    assert_eq!(loss["file"], file.to_str().unwrap(), "{report}");
    let (from, to) = (&loss["lost"]["from_row"], &loss["lost"]["to_row"]);
    let (from, to) = (from.as_str().unwrap(), to.as_str().unwrap());
    let server = Server::start(&into, &SMALL);
    let cells = read_all(server.bigtable(), "t").0;
    let rows: BTreeSet<&str> = cells.iter().filter_map(|cell| cell.split(' ').next()).collect();
    let left = rows.len();
    assert!((3000..4000).contains(&left), "{left} rows, lost {from} to {to}");
    for n in 0..4000 {
        let row = format!("row{n:05}");
        let is_lost = from <= row.as_str() && row.as_str() < to;
        assert!(is_lost || rows.contains(row.as_str()), "{row} is lost, not from {from} to {to}");
    }
}

#[test]
fn a_repair_is_refused_where_it_would_do_harm() {
    let root = tempfile::tempdir().unwrap();
    let dir = used_directory(root.path());
    let full = root.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("letter.txt"), "dear").unwrap();
    let missing = root.path().join("missing");
    for (from, into, why) in [
        (&dir, &dir, "is inside the damaged directory"),
        (&dir, &dir.join("in"), "is inside the damaged directory"),
        (&dir, &full, "not empty"),
        (&missing, &root.path().join("new"), "no such directory"),
        (&full, &root.path().join("new"), "no data directory"),
    ] {
        let output = repair(from, into, &[]);
        assert_eq!(output.status.code(), Some(2), "{why}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{why}: {}", stderr(&output));
    }
    assert_eq!(check(&dir).status.code(), Some(0));
}

#[test]
fn a_directory_in_use_is_refused_with_what_to_do() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let _server = Server::start(&dir, &[]);
    let second = serve(&dir);
    assert_eq!(second.status.code(), Some(1));
    assert!(stderr(&second).contains("in use by another process"), "{}", stderr(&second));
    let output = check(&dir);
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&output).contains("in use"), "{}", stdout(&output));
}

#[test]
fn what_is_no_data_directory_is_unusable() {
    let root = tempfile::tempdir().unwrap();
    for dir in [root.path().join("missing"), root.path().to_owned()] {
        let output = check(&dir);
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    }
    assert!(files(root.path()).is_empty(), "checking made something");
    let output = dump(&root.path().join("letter.txt"));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("CURRENT"), "{}", stderr(&output));
}

/// Runs a server that must end by itself.
fn serve(dir: &Path) -> Output {
    let any = "127.0.0.1:0";
    let dir = dir.to_str().unwrap();
    run(&["serve", "--data-dir", dir, "--bigtable-listen", any, "--http-listen", any])
}

#[test]
fn no_error_tells_its_cause_twice() {
    let root = tempfile::tempdir().unwrap();
    let damaged = root.path().join("damaged");
    std::fs::create_dir(&damaged).unwrap();
    std::fs::write(damaged.join("CURRENT"), "nothing that Stele wrote").unwrap();
    let (damaged, file) = (damaged.to_str().unwrap(), damaged.join("CURRENT"));
    let below = file.join("new");
    let below = below.to_str().unwrap();
    let backups = format!("file://{}", root.path().join("backups").display());
    for line in [
        &["serve", "--data-dir", damaged, "--http-listen", "127.0.0.1:0"][..],
        &["serve", "--data-dir", below, "--bigtable-listen", "127.0.0.1:0"],
        &["adopt", damaged],
        &["clone", damaged, below],
        &["backup", damaged, "--to", &backups],
        &["restore", "--from", &backups, "--to", below],
    ] {
        let output = run(line);
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains("stele: "), "{line:?}: {said}");
        let last = said.lines().last().unwrap();
        let parts: Vec<&str> = last.split(": ").collect();
        let different: BTreeSet<&str> = parts.iter().copied().collect();
        assert_eq!(parts.len(), different.len(), "{line:?}: {said}");
    }
}
