//! Imports that were stopped, and what the same command does when it is run again: it never skips a row
//! that is not there, and never writes a second version of a cell.

use crate::import::{Setting, succeeded};
use crate::rows::read_all;
use crate::server::{Server, stderr, stele};
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};
use tonic::transport::{Channel, Endpoint};

use admin::bigtable_table_admin_client::BigtableTableAdminClient;
use admin::modify_column_families_request::{Modification, modification::Mod};

const TABLE: &str = "projects/local/instances/local/tables/t";
/// Time that something may take to happen.
const PATIENCE: Duration = Duration::from_secs(60);
const ROWS: usize = 40;
const OPTIONS: [&str; 6] = ["--key", "k", "--batch-rows", "5", "--batches", "1"];

/// A file of rows with a bad line in the middle, and the import of it stopped there.
fn stopped(setting: &Setting) -> PathBuf {
    let row = |n: usize| if n == ROWS / 2 { "bad\n".to_owned() } else { format!("{n},v\n") };
    let text: String = (0..=ROWS).map(row).collect();
    let file = setting.file("a.csv", &format!("k,v\n{text}"));
    let stopped = setting.import(&file, &[&OPTIONS[..], &["--max-rejects", "0"]].concat());
    assert_eq!(stopped.status.code(), Some(1), "{}", stderr(&stopped));
    let there = setting.cells().len();
    assert!((1..ROWS).contains(&there), "{there}");
    file
}

#[track_caller]
fn refused(output: &Output, says: &str) {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    let said = stderr(output);
    assert!(said.contains("--restart") && said.contains(says), "{said}");
}

/// Every row is there, each cell once.
#[track_caller]
fn all_once(server: SocketAddr) {
    let (cells, timestamps) = read_all(server, "t");
    assert_eq!((cells.len(), timestamps.len()), (ROWS, 1), "{cells:?} {timestamps:?}");
}

fn admin(server: &Server, act: impl AsyncFnOnce(BigtableTableAdminClient<Channel>)) {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.bigtable())).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        act(BigtableTableAdminClient::new(endpoint.connect().await.unwrap())).await;
    });
}

/// `stele import` of `file` into the table of a directory.
fn direct(file: &Path, dir: &Path, args: &[&str]) -> Output {
    let mut command = stele();
    command.arg("import").arg(file).args(["--table", "t", "--create-table"]).args(OPTIONS);
    command.args(args).arg("--data-dir").arg(dir).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn an_import_does_not_go_on_in_another_store() {
    let mut setting = Setting::new();
    let file = stopped(&setting);
    let other = Server::start(&setting.root.path().join("other"), &[]);
    let there = |args: &[&str]| {
        let mut command = stele();
        command.arg("import").arg(&file).args(["--table", "t", "--create-table"]).args(OPTIONS);
        command.args(args).args(["--endpoint", &other.bigtable().to_string()]);
        command.stdin(Stdio::null()).output().unwrap()
    };
    refused(&there(&[]), "another store");
    assert_eq!(read_all(other.bigtable(), "t").0, [""; 0]);
    refused(&direct(&file, &setting.root.path().join("third"), &[]), "another store");
    // Where it began it goes on, whoever has the store open.
    assert!(setting.server.terminate().success());
    succeeded(&direct(&file, &setting.root.path().join("data"), &[]));
    setting.server.restart();
    all_once(setting.server.bigtable());
    succeeded(&there(&["--restart"]));
    all_once(other.bigtable());
}

#[test]
fn an_import_does_not_go_on_in_a_table_that_was_made_anew() {
    let setting = Setting::new();
    let file = stopped(&setting);
    admin(&setting.server, async |mut admin| {
        let delete = admin::DeleteTableRequest { name: TABLE.into() };
        admin.delete_table(delete).await.unwrap();
    });
    refused(&setting.import(&file, &OPTIONS), "recreated");
    assert_eq!(setting.cells(), [""; 0]);
    succeeded(&setting.import(&file, &[&OPTIONS[..], &["--restart"]].concat()));
    all_once(setting.server.bigtable());
}

/// Garbage collection may take what an import wrote: then it goes on when it is told to.
#[test]
fn an_import_goes_on_without_what_it_wrote_when_told_to() {
    let setting = Setting::new();
    let file = stopped(&setting);
    let before = setting.cells().len();
    admin(&setting.server, async |mut admin| {
        let target = admin::drop_row_range_request::Target::DeleteAllDataFromTable(true);
        let request = admin::DropRowRangeRequest { name: TABLE.into(), target: Some(target) };
        admin.drop_row_range(request).await.unwrap();
    });
    refused(&setting.import(&file, &OPTIONS), "--assume-written");
    succeeded(&setting.import(&file, &[&OPTIONS[..], &["--assume-written"]].concat()));
    assert_eq!(setting.cells().len(), ROWS - before);
}

#[test]
fn an_import_does_not_go_on_where_what_it_wrote_was_deleted() {
    for family in [false, true] {
        let setting = Setting::new();
        let file = stopped(&setting);
        admin(&setting.server, async |mut admin| {
            if family {
                let drop = Modification {
                    id: "f".into(),
                    r#mod: Some(Mod::Drop(true)),
                    ..Default::default()
                };
                let request = admin::ModifyColumnFamiliesRequest {
                    name: TABLE.into(),
                    modifications: vec![drop],
                    ..Default::default()
                };
                admin.modify_column_families(request).await.unwrap();
            } else {
                let target = admin::drop_row_range_request::Target::DeleteAllDataFromTable(true);
                let request =
                    admin::DropRowRangeRequest { name: TABLE.into(), target: Some(target) };
                admin.drop_row_range(request).await.unwrap();
            }
        });
        refused(&setting.import(&file, &OPTIONS), "deleted");
        succeeded(&setting.import(&file, &[&OPTIONS[..], &["--restart"]].concat()));
        all_once(setting.server.bigtable());
    }
}

#[test]
fn an_import_that_begins_anew_writes_the_same_cells() {
    let setting = Setting::new();
    let file = stopped(&setting);
    let with = |args: &[&str]| setting.import(&file, &[&OPTIONS[..], args].concat());
    let other = with(&["--timestamp", "7000"]);
    refused(&other, "--timestamp");
    succeeded(&with(&["--restart"]));
    all_once(setting.server.bigtable());
    // It was complete, so this is another one, and gets the timestamp that is asked for.
    succeeded(&with(&["--timestamp", "7000"]));
    assert_eq!(read_all(setting.server.bigtable(), "t").1.len(), 2);
}

#[test]
fn an_input_of_the_same_lengths_is_another_input() {
    let setting = Setting::new();
    let file = stopped(&setting);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("3,v", "3,w", 1)).unwrap();
    refused(&setting.import(&file, &OPTIONS), "the input has changed");
}

/// An import of standard input.
fn begin(setting: &Setting, args: &[&str]) -> Child {
    let mut command = stele();
    command.args(["import", "-", "--format", "csv", "--table", "t", "--create-table"]);
    command.args(["--key", "k", "--batch-rows", "1"]).args(args);
    command.args(["--endpoint", &setting.server.bigtable().to_string()]);
    command.current_dir(setting.root.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn lines(rows: std::ops::Range<usize>) -> String {
    rows.map(|n| format!("{n},v\n")).collect()
}

/// Gives the import its first rows and waits until they are in the table.
fn feed(setting: &Setting, import: &mut Child, rows: usize) {
    let input = import.stdin.as_mut().unwrap();
    write!(input, "k,v\n{}", lines(0..rows)).unwrap();
    input.flush().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let exists = || {
        let mut tables = 0;
        admin(&setting.server, async |mut admin| {
            let request = admin::ListTablesRequest {
                parent: "projects/local/instances/local".into(),
                ..Default::default()
            };
            tables = admin.list_tables(request).await.unwrap().into_inner().tables.len();
        });
        tables > 0
    };
    while !exists() || setting.cells().len() < rows {
        assert!(Instant::now() < deadline, "not all was written");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_import_that_was_killed_is_begun_anew_at_the_same_timestamp() {
    for kept in [true, false] {
        let setting = Setting::new();
        let checkpoint = ["--checkpoint", "place"];
        let args = if kept { &checkpoint[..] } else { &[] };
        let mut import = begin(&setting, args);
        feed(&setting, &mut import, ROWS / 2);
        import.kill().unwrap();
        let said = stderr(&import.wait_with_output().unwrap());
        let told = said.split_once("--timestamp ").map(|(_, rest)| rest.split(' ').next().unwrap());
        let again = match told {
            Some(micros) => vec!["--timestamp", micros],
            None => checkpoint.to_vec(),
        };
        assert_eq!(told.is_none(), kept, "{said}");
        let mut import = begin(&setting, &again);
        write!(import.stdin.take().unwrap(), "k,v\n{}", lines(0..ROWS)).unwrap();
        succeeded(&import.wait_with_output().unwrap());
        all_once(setting.server.bigtable());
    }
}

#[test]
fn rows_that_a_server_may_have_lost_are_written_again() {
    let mut setting = Setting::with(&["--durability", "none"]);
    let args = ["--checkpoint", "place"];
    let mut import = begin(&setting, &args);
    feed(&setting, &mut import, ROWS / 2);
    let place = || std::fs::read_to_string(setting.root.path().join("place")).unwrap();
    let before = place();
    setting.server.kill_9();
    setting.server.restart();
    write!(import.stdin.take().unwrap(), "{}", lines(ROWS / 2..ROWS)).unwrap();
    let stopped = import.wait_with_output().unwrap();
    assert_eq!(stopped.status.code(), Some(1), "{}", stderr(&stopped));
    assert!(stderr(&stopped).contains("the server restarted"), "{}", stderr(&stopped));
    // Nothing that was acknowledged by the server's first life counts, but what it had synced.
    let at = |text: &str| {
        serde_json::from_str::<serde_json::Value>(text).unwrap()["place"]["offset"].clone()
    };
    let synced = at(&place()).as_u64().unwrap();
    assert!(synced <= "k,v\n".len() as u64 + lines(0..ROWS / 2).len() as u64, "{before}");
    let mut import = begin(&setting, &args);
    write!(import.stdin.take().unwrap(), "k,v\n{}", lines(0..ROWS)).unwrap();
    succeeded(&import.wait_with_output().unwrap());
    all_once(setting.server.bigtable());
}

#[test]
fn two_records_of_many_fields_go_into_two_requests() {
    let setting = Setting::new();
    let record = |key: &str, fields: usize| {
        let fields: String = (0..fields).map(|n| format!(",\"c{n}\":1")).collect();
        format!("{{\"k\":\"{key}\"{fields}}}\n")
    };
    let text = [record("a", 45_000), record("b", 60_000), record("c", 99_999)].concat();
    let file = setting.file("a.jsonl", &text);
    let said = succeeded(&setting.import(&file, &["--key", "k"]));
    assert!(said.contains("imported 3 rows with 204,999 cells"), "{said}");
}

#[test]
fn no_table_is_made_that_a_server_would_refuse() {
    let setting = Setting::new();
    let (file, dir) = (setting.file("a.csv", "k,v\na,1\n"), setting.root.path().join("direct"));
    for (what, project) in [("import", "a b"), ("load-sorted", "a b"), ("load-sorted", "a/b")] {
        let mut command = stele();
        command.arg(what).arg(&file).args(["--table", "t", "--key", "k", "--create-table"]);
        command.args(["--project", project]).arg("--data-dir").arg(&dir);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{what}: {}", stderr(&output));
        assert!(stderr(&output).contains("projects/"), "{}", stderr(&output));
        assert!(!dir.exists());
    }
}
