//! Importing files into a running server, and into a directory without one.

use crate::rows::read_all;
use crate::server::{Server, stderr, stele};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// A server with its directory, and a folder for inputs.
pub(crate) struct Setting {
    pub(crate) server: Server,
    pub(crate) root: tempfile::TempDir,
}

impl Setting {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// The server gets these flags.
    pub(crate) fn with(flags: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        Self { server: Server::start(&root.path().join("data"), flags), root }
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Imports `file` into table `t` of the server, which is made.
    pub(crate) fn import(&self, file: &Path, args: &[&str]) -> Output {
        let mut command = stele();
        command.arg("import").arg(file).args(["--table", "t", "--create-table"]).args(args);
        command.args(["--endpoint", &self.server.bigtable().to_string()]);
        command.current_dir(self.root.path()).stdin(Stdio::null()).output().unwrap()
    }

    pub(crate) fn cells(&self) -> Vec<String> {
        read_all(self.server.bigtable(), "t").0
    }
}

#[track_caller]
pub(crate) fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn each_format_gives_the_same_rows() {
    for (name, text) in [
        ("a.csv", "id,name,note\n1,\"x,y\",\n2,z,n\n"),
        ("a.tsv", "id\tname\tnote\n1\tx,y\t\n2\tz\tn\n"),
        (
            "a.jsonl",
            "{\"id\":1,\"name\":\"x,y\",\"note\":null}\n{\"note\":\"n\",\"name\":\"z\",\"id\":\"2\"}\n",
        ),
        ("a.deb822", "id: 1\nname: x,y\n\nid: 2\nname: z\nnote: n\n"),
    ] {
        let setting = Setting::new();
        let file = setting.file(name, text);
        let said = succeeded(&setting.import(&file, &["--key", "id"]));
        assert_eq!(
            said,
            "imported 2 rows with 3 cells into projects/local/instances/local/tables/t\n"
        );
        assert_eq!(setting.cells(), ["1 f:name=x,y", "2 f:name=z", "2 f:note=n"], "{name}");
        for end in ["import", "rejects"] {
            let left = setting.root.path().join(format!("{name}.{end}"));
            assert!(!left.exists(), "{} stays behind", left.display());
        }
    }
}

#[test]
fn keys_and_columns_go_where_the_options_say() {
    let setting = Setting::new();
    let file = setting.file("a.txt", "de;berlin;3;x\n");
    let options = [
        "--format",
        "csv",
        "--delimiter",
        ";",
        "--header",
        "country,city,people,extra",
        "--key",
        "country",
        "--key",
        "city",
        "--key-separator",
        "/",
        "--family",
        "rest",
        "--column",
        "people=count:all",
        "--column",
        "city=names:",
        "--skip",
        "extra",
        "--timestamp",
        "7000",
    ];
    succeeded(&setting.import(&file, &options));
    let (cells, timestamps) = read_all(setting.server.bigtable(), "t");
    assert_eq!(cells, ["de/berlin count:all=3", "de/berlin names:=berlin"]);
    assert_eq!(timestamps, [7000]);
}

#[test]
fn bad_lines_go_to_a_file_and_the_rest_goes_on() {
    let setting = Setting::new();
    let long = "k".repeat(5000);
    let text = format!("k,v\na,1\nb\n,2\n{long},3\nc,4\n");
    let file = setting.file("a.csv", &text);
    let said = succeeded(&setting.import(&file, &["--key", "k", "--batch-rows", "2"]));
    assert!(said.contains("imported 2 rows") && said.contains("3 lines rejected"), "{said}");
    assert_eq!(setting.cells(), ["a f:v=1", "c f:v=4"]);
    let rejects = std::fs::read_to_string(setting.root.path().join("a.csv.rejects")).unwrap();
    let rejects: Vec<serde_json::Value> =
        rejects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines: Vec<u64> = rejects.iter().map(|reject| reject["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [3, 4, 5]);
    assert_eq!(rejects[0]["text"], "b");
    for (reject, reason) in rejects.iter().zip(["1 fields", "key field k", "4096"]) {
        let said = reject["reason"].as_str().unwrap();
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn too_many_bad_lines_stop_the_import_and_a_larger_limit_goes_on() {
    let setting = Setting::new();
    let text: String = (0..100).map(|n| format!("{n},v\nbad\n")).collect();
    let file = setting.file("a.csv", &format!("k,v\n{text}"));
    let options = ["--key", "k", "--batch-rows", "10", "--batches", "1"];
    let stopped = setting.import(&file, &[&options[..], &["--max-rejects", "20"]].concat());
    assert_eq!(stopped.status.code(), Some(1));
    assert!(stderr(&stopped).contains("--max-rejects"), "{}", stderr(&stopped));
    assert!(setting.root.path().join("a.csv.import").exists());
    let before = setting.cells().len();
    assert!(before > 0 && before < 100, "{before}");

    let finished = setting.import(&file, &options);
    assert!(stderr(&finished).contains("resuming"), "{}", stderr(&finished));
    let said = succeeded(&finished);
    assert!(said.contains("imported 100 rows") && said.contains("100 lines rejected"), "{said}");
    let (cells, timestamps) = read_all(setting.server.bigtable(), "t");
    assert_eq!((cells.len(), timestamps.len()), (100, 1), "one timestamp over both parts");
    let rejects = std::fs::read_to_string(setting.root.path().join("a.csv.rejects")).unwrap();
    assert_eq!(rejects.lines().count(), 100, "each bad line once");
    assert!(!setting.root.path().join("a.csv.import").exists());
}

#[test]
fn an_import_goes_on_after_the_server_was_killed() {
    let mut setting = Setting::new();
    let text: String = (0..500).map(|n| format!("{n},v\nbad\n")).collect();
    let file = setting.file("a.csv", &format!("k,v\n{text}"));
    let options = ["--key", "k", "--batch-rows", "50", "--max-rejects", "100"];
    assert_eq!(setting.import(&file, &options).status.code(), Some(1));
    setting.server.kill_9();
    let away = setting.import(&file, &options);
    assert_eq!(away.status.code(), Some(1));
    assert!(stderr(&away).contains("no server responds"), "{}", stderr(&away));
    setting.server.restart();
    succeeded(&setting.import(&file, &options[..4]));
    assert_eq!(setting.cells().len(), 500);
}

#[test]
fn a_changed_job_or_input_is_not_mixed_with_the_old_one() {
    let setting = Setting::new();
    let file = setting.file("a.csv", "k,v\na,1\nbad\nb,2\nbad\n");
    let options = ["--key", "k", "--batch-rows", "1", "--batches", "1", "--max-rejects", "0"];
    assert_eq!(setting.import(&file, &options).status.code(), Some(1));
    let other = setting.import(&file, &["--key", "v"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(stderr(&other).contains("--restart"), "{}", stderr(&other));
    setting.file("a.csv", "k,v\nlonger,1\nb,2\n");
    let changed = setting.import(&file, &options);
    assert_eq!(changed.status.code(), Some(1));
    let said = stderr(&changed);
    assert!(said.contains("--restart") && said.contains("another version of stele"), "{said}");
    succeeded(&setting.import(&file, &[&options[..], &["--restart"]].concat()));
    assert_eq!(setting.cells(), ["a f:v=1", "b f:v=2", "longer f:v=1"]);
}

#[test]
fn the_later_of_two_records_with_one_key_wins() {
    let setting = Setting::new();
    let text: String = (0..400).map(|n| format!("{},{n}\n", n % 3)).collect();
    let file = setting.file("a.csv", &format!("k,v\n{text}"));
    succeeded(&setting.import(&file, &["--key", "k"]));
    assert_eq!(setting.cells(), ["0 f:v=399", "1 f:v=397", "2 f:v=398"]);
}

#[test]
fn standard_input_is_imported_too() {
    let setting = Setting::new();
    let mut command = stele();
    command.args(["import", "-", "--format", "jsonl", "--table", "t", "--key", "k"]);
    command.args(["--create-table", "--endpoint", &setting.server.bigtable().to_string()]);
    command.current_dir(setting.root.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"{\"k\":\"a\",\"v\":1}\nnonsense\n").unwrap();
    drop(input);
    succeeded(&child.wait_with_output().unwrap());
    assert_eq!(setting.cells(), ["a f:v=1"]);
    assert!(setting.root.path().join("import.rejects").exists());
}

#[test]
fn a_missing_table_or_family_is_named_with_what_to_do() {
    let setting = Setting::new();
    let file = setting.file("a.csv", "k,v\na,1\n");
    let mut command = stele();
    command.arg("import").arg(&file).args(["--table", "none", "--key", "k"]);
    let output =
        command.args(["--endpoint", &setting.server.bigtable().to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("tables/none") && said.contains("--create-table"), "{said}");
}

#[test]
fn bad_options_are_refused_before_anything_is_read() {
    let setting = Setting::new();
    let file = setting.file("a.unknown", "");
    for (options, want) in [
        (&["--key", "k"][..], "--format"),
        (&["--format", "csv"], "--key"),
        (&["--key", "k", "--format", "csv", "--column", "x"], "FIELD=FAMILY:QUALIFIER"),
        (&["--key", "k", "--format", "csv", "--delimiter", "\""], "--delimiter"),
        (&["--key", "k", "--format", "csv", "--timestamp", "5"], "--timestamp"),
        (&["--key", "k", "--format", "csv", "--batch-rows", "0"], "--batch-rows"),
        (&["--key", "k", "--format", "csv", "--project", ""], "projects/"),
    ] {
        let output = setting.import(&file, options);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(want), "{options:?}: {}", stderr(&output));
    }
}

#[test]
fn a_closed_directory_is_imported_into_without_a_server() {
    let mut setting = Setting::new();
    let file = setting.file("a.csv", "k,v\na,1\n");
    let data = setting.root.path().join("data");
    let direct = || {
        let mut command = stele();
        command.arg("import").arg(&file).args(["--table", "t", "--key", "k", "--create-table"]);
        command.arg("--data-dir").arg(&data).output().unwrap()
    };
    let refused = direct();
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("in use"), "{}", stderr(&refused));
    assert!(setting.server.terminate().success());
    succeeded(&direct());
    setting.server.restart();
    assert_eq!(setting.cells(), ["a f:v=1"]);
}
