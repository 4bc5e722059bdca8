//! `checkpoint`, `clone`, `backup` and `restore` of stores that run and of stores that do not.

use crate::rows::read_all;
use crate::server::{Server, run, stderr, stele};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Small enough that a few thousand rows are flushed and compacted.
const SMALL: [&str; 3] =
    ["--memtable-bytes-max=64KiB", "--log-segment-bytes=64KiB", "--sst-bytes-max=64KiB"];
/// Time that something may take to happen.
const PATIENCE: Duration = Duration::from_secs(60);

fn import(server: &Server, root: &Path, rows: std::ops::Range<u32>) -> Command {
    let text: String = rows.clone().map(|n| format!("row{n:05},{}\n", "v".repeat(80))).collect();
    let file = root.join(format!("rows-{}.csv", rows.start));
    std::fs::write(&file, format!("k,v\n{text}")).unwrap();
    let mut import = stele();
    import.arg("import").arg(&file).args(["--table", "t", "--key", "k", "--create-table"]);
    import.args(["--endpoint", &server.bigtable().to_string()]).stdin(Stdio::null());
    import
}

fn succeed(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(output: &Output, says: &str) {
    assert_eq!(output.status.code(), Some(2), "{}", stderr(output));
    assert!(stderr(output).contains(says), "{}", stderr(output));
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Rows that a server on `dir` serves.
fn rows(dir: &Path) -> usize {
    let server = Server::start(dir, &SMALL);
    read_all(server.bigtable(), "t").0.len()
}

/// Every file below `dir`, with its length.
fn files(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push((path.clone(), path.metadata().unwrap().len())),
        }
    }
    found.sort();
    found
}

#[test]
fn a_server_is_backed_up_while_it_is_written_to_and_comes_back() {
    let root = tempfile::tempdir().unwrap();
    let within = format!("--checkpoint-dir={}", text(root.path()));
    let server = Server::start(&root.path().join("data"), &[&SMALL[..], &[&within]].concat());
    succeed(import(&server, root.path(), 0..3000).output().unwrap());
    let http = format!("http://{}", server.http());
    let (to, copy) = (root.path().join("backups"), root.path().join("copy"));
    let mut writing = import(&server, root.path(), 3000..9000).spawn().unwrap();
    let first = succeed(run(&["backup", &http, "--to", text(&to)]));
    assert!(first.contains("up to sequence number"), "{first}");
    succeed(run(&["checkpoint", &http, text(&copy)]));
    assert!(writing.wait().unwrap().success());
    let second = succeed(run(&["backup", &http, "--to", text(&to), "--json"]));
    let second: serde_json::Value = serde_json::from_str(&second).unwrap();
    assert_eq!(files(&root.path().join("data/checkpoints")), [], "a checkpoint was left");
    drop(server);

    let list = succeed(run(&["backup", "list", "--from", text(&to), "--json"]));
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let backups = list["backups"].as_array().unwrap();
    assert_eq!(backups.len(), 2);
    assert_eq!(backups[1]["backup"], second["backup"]);
    assert_eq!(backups[1]["sequence"], second["sequence"]);
    let (old, new) = (root.path().join("old"), root.path().join("new"));
    let id = backups[0]["backup"].as_str().unwrap();
    let from = ["restore", "--from", text(&to)];
    succeed(run(&[&from[..], &["--backup", id, "--to", text(&old)]].concat()));
    succeed(run(&[&from[..], &["--to", text(&new), "--verify"]].concat()));
    refused(&run(&[&from[..], &["--to", text(&new)]].concat()), "not empty");
    assert!((3000..=9000).contains(&rows(&old)));
    assert!((3000..=9000).contains(&rows(&copy)));
    assert_eq!(rows(&new), 9000);
}

#[test]
fn a_stopped_store_is_copied_cloned_and_backed_up_without_opening_it() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let mut server = Server::start(&dir, &SMALL);
    succeed(import(&server, root.path(), 0..2000).output().unwrap());
    let (copy, clone) = (root.path().join("copy"), root.path().join("clone"));
    refused(&run(&["checkpoint", text(&dir), text(&copy)]), "http://");
    refused(&run(&["backup", text(&dir), "--to", text(&root.path().join("b"))]), "http://");
    server.kill_9();
    let to = root.path().join("backups");
    succeed(run(&["backup", text(&dir), "--to", text(&to), "--check"]));
    let before = files(&dir);
    succeed(run(&["checkpoint", text(&dir), text(&copy)]));
    succeed(run(&["clone", text(&copy), text(&clone)]));
    assert_eq!(files(&dir), before);
    refused(&run(&["clone", text(&dir), text(&clone)]), "not empty");
    refused(&run(&["clone", text(root.path()), text(&root.path().join("x"))]), "no data directory");
    // The checkpoint is the same store, the clone another.
    let again = succeed(run(&["backup", text(&copy), "--to", text(&to), "--json"]));
    let again: serde_json::Value = serde_json::from_str(&again).unwrap();
    assert!(again["kept_files"].as_u64() > Some(0), "{again}");
    refused(&run(&["backup", text(&clone), "--to", text(&to)]), "choose another destination");
    assert_eq!(rows(&clone), 2000);

    succeed(run(&["backup", "verify", "--from", text(&to)]));
    let ssts = files(&to.join("sst"));
    let mut bytes = std::fs::read(&ssts[0].0).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&ssts[0].0, bytes).unwrap();
    let verified = run(&["backup", "verify", "--from", text(&to), "--json"]);
    assert_eq!(verified.status.code(), Some(1));
    let verified: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
    let name = ssts[0].0.file_name().unwrap().to_str().unwrap();
    assert_eq!(verified["findings"][0]["object"], format!("sst/{name}"));
    assert_eq!(verified["findings"][0]["offset"], 0);
    let failed = run(&["restore", "--from", text(&to), "--to", text(&root.path().join("r"))]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(stderr(&failed).contains(name), "{}", stderr(&failed));

    let deleted = succeed(run(&["backup", "delete", "--from", text(&to), "--keep", "1"]));
    assert!(deleted.contains("deleted 20"), "{deleted}");
    succeed(run(&["backup", "list", "--from", text(&to)]));
    refused(&run(&["backup", "list", "--from", "ftp://somewhere/x"]), "s3://BUCKET/PREFIX");
    refused(&run(&["backup", "list", "--from", text(&root.path().join("none"))]), "does not exist");
}

#[test]
fn a_backup_that_was_killed_is_gone_on_with() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let mut server = Server::start(&dir, &SMALL);
    succeed(import(&server, root.path(), 0..3000).output().unwrap());
    server.kill_9();
    let to = root.path().join("backups");
    let arguments = ["backup", text(&dir), "--to", text(&to)];
    // So slow that it is never done before it is killed.
    let mut slow = stele().args(arguments).args(["--bytes-per-second", "4KiB"]).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while files(&to.join("sst")).is_empty() {
        assert!(Instant::now() < deadline, "nothing was sent");
        assert!(slow.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    let second = run(&arguments);
    refused(&second, "in use");
    slow.kill().unwrap();
    slow.wait().unwrap();
    let list = succeed(run(&["backup", "list", "--from", text(&to)]));
    assert!(list.contains("unfinished"), "{list}");
    let (id, _) = list.lines().last().unwrap().split_once(' ').unwrap();
    let done = run(&arguments);
    assert!(stderr(&done).contains(&format!("resuming backup {id}")), "{}", stderr(&done));
    assert!(succeed(done).contains(id));
    assert_eq!(files(&dir.join("checkpoints")), []);
    let list = succeed(run(&["backup", "list", "--from", text(&to)]));
    assert!(list.contains(id) && !list.contains("unfinished"), "{list}");
    let into = root.path().join("restored");
    succeed(run(&["restore", "--from", text(&to), "--to", text(&into)]));
    assert_eq!(rows(&into), 3000);
}

#[test]
fn a_server_makes_no_checkpoint_for_a_web_page_or_outside_of_what_was_said() {
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(&root.path().join("data"), &SMALL);
    let (status, _) = server.get("/admin/checkpoint");
    assert_eq!(status, 403, "a request without the header");
    let http = format!("http://{}", server.http());
    let outside = run(&["checkpoint", &http, text(&root.path().join("x"))]);
    assert_eq!(outside.status.code(), Some(1));
    assert!(stderr(&outside).contains("checkpoint_dir"), "{}", stderr(&outside));
    assert!(!root.path().join("x").exists());
    let full = root.path().join("data/full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("file"), "").unwrap();
    let taken = run(&["checkpoint", &http, text(&full)]);
    assert_eq!(taken.status.code(), Some(1));
    assert!(stderr(&taken).contains("not empty"), "{}", stderr(&taken));
    let nobody = run(&["checkpoint", "http://127.0.0.1:1", text(&root.path().join("x"))]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(stderr(&nobody).contains("check that the server runs"), "{}", stderr(&nobody));
}

/// A store of a stopped server, and the directory of its checkpoints with something of a backup in it.
fn with_checkpoint(root: &Path, id: &str, note: &str) -> (PathBuf, PathBuf) {
    let dir = root.join("data");
    let mut server = Server::start(&dir, &SMALL);
    succeed(import(&server, root, 0..100).output().unwrap());
    assert!(server.terminate().success());
    let checkpoint = dir.join("checkpoints").join(id);
    std::fs::create_dir_all(&checkpoint).unwrap();
    std::fs::write(checkpoint.join("0000000001.log"), "half of a log").unwrap();
    std::fs::write(checkpoint.with_extension("json"), note).unwrap();
    (dir, checkpoint)
}

const ID: &str = "20231114T221320000000Z-000000ab";

#[test]
fn a_backup_leaves_a_checkpoint_alone_that_another_is_making() {
    let root = tempfile::tempdir().unwrap();
    let to = root.path().join("backups");
    std::fs::create_dir(&to).unwrap();
    let to = to.canonicalize().unwrap();
    let note = format!("{{\"to\":\"{}\",\"taken_micros\":5}}", to.display());
    let (dir, checkpoint) = with_checkpoint(root.path(), ID, &note);
    // The other holds this from before its checkpoint is made.
    let lock = std::fs::File::create(checkpoint.with_extension("lock")).unwrap();
    lock.try_lock().unwrap();
    let before = files(&dir.join("checkpoints"));
    refused(&run(&["backup", text(&dir), "--to", text(&to)]), "in use");
    refused(&run(&["backup", text(&dir), "--to", text(&to), "--new"]), "in use");
    assert_eq!(files(&dir.join("checkpoints")), before);
    // To elsewhere they go side by side.
    succeed(run(&["backup", text(&dir), "--to", text(&root.path().join("elsewhere"))]));
    assert_eq!(files(&dir.join("checkpoints")), before);
    // Nobody is making it any more.
    drop(lock);
    succeed(run(&["backup", text(&dir), "--to", text(&to)]));
    assert_eq!(files(&dir.join("checkpoints")), []);
}

#[test]
fn a_checkpoint_whose_note_is_torn_does_not_stay_for_ever() {
    let root = tempfile::tempdir().unwrap();
    let (dir, checkpoint) = with_checkpoint(root.path(), ID, "{\"to\":\"/somewh");
    let done = run(&["backup", text(&dir), "--to", text(&root.path().join("backups"))]);
    assert!(stderr(&done).contains(text(&checkpoint)), "{}", stderr(&done));
    succeed(done);
    assert_eq!(files(&dir.join("checkpoints")), []);
}

#[test]
fn a_backup_that_was_given_up_at_its_destination_is_made_anew() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let mut server = Server::start(&dir, &SMALL);
    succeed(import(&server, root.path(), 0..3000).output().unwrap());
    assert!(server.terminate().success());
    let to = root.path().join("backups");
    let arguments = ["backup", text(&dir), "--to", text(&to)];
    let mut slow = stele().args(arguments).args(["--bytes-per-second", "4KiB"]).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while files(&to.join("sst")).is_empty() {
        assert!(Instant::now() < deadline, "nothing was sent");
        std::thread::sleep(Duration::from_millis(5));
    }
    slow.kill().unwrap();
    slow.wait().unwrap();
    let list = succeed(run(&["backup", "list", "--from", text(&to)]));
    let (id, _) = list.lines().last().unwrap().split_once(' ').unwrap();
    succeed(run(&["backup", "delete", "--from", text(&to), id]));
    let done = run(&arguments);
    assert!(stderr(&done).contains("abandoned"), "{}", stderr(&done));
    assert!(!succeed(done).contains(id));
    assert_eq!(files(&dir.join("checkpoints")), []);
    succeed(run(&["backup", "verify", "--from", text(&to)]));
    let list = succeed(run(&["backup", "list", "--from", text(&to)]));
    assert!(!list.contains(id), "{list}");
}
