//! `load-sorted`: into a closed directory, in order or sorted first, and killed.

use crate::rows::read_all;
use crate::server::{Server, stderr, stele};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder for inputs with a data directory in it.
struct Setting {
    root: tempfile::TempDir,
}

impl Setting {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, input: &Path, args: &[&str]) -> Command {
        let mut command = stele();
        command.arg("load-sorted").arg(input).arg("--data-dir").arg(self.data());
        command.args(["--table", "t", "--create-table", "--key", "k"]).args(args);
        command.current_dir(self.root.path()).stdin(Stdio::null());
        command
    }

    fn load(&self, input: &Path, args: &[&str]) -> Output {
        self.command(input, args).output().unwrap()
    }

    /// What a server on the directory serves.
    fn cells(&self) -> Vec<String> {
        let mut server = Server::start(&self.data(), &[]);
        let cells = read_all(server.bigtable(), "t").0;
        assert!(server.terminate().success());
        cells
    }

    /// Files of the data directory whose names end so.
    fn files(&self, extension: &str) -> usize {
        let Ok(names) = std::fs::read_dir(self.data()) else { return 0 };
        let names = names.map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|ext| ext == extension)).count()
    }
}

#[track_caller]
fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn sorted_input_and_input_sorted_first_give_the_same_rows() {
    let sorted = "k,v,w\na,1,x\nb,2,\nb,3,\nc,,z\n";
    // The later of two records of one key wins, cell by cell, in the order of the input.
    let unsorted = "{\"k\":\"c\",\"w\":\"z\"}\n{\"k\":\"b\",\"v\":2}\n{\"k\":\"a\",\"v\":1,\"w\":\"x\"}\n\
                    {\"k\":\"b\",\"v\":3}\n";
    for (name, text, args) in [
        ("a.csv", sorted, &[][..]),
        ("a.csv", sorted, &["--sort", "--defer-filters", "--defer-compression"]),
        ("a.jsonl", unsorted, &["--sort"]),
    ] {
        let setting = Setting::new();
        let input = setting.file(name, text);
        let said = succeeded(&setting.load(&input, args));
        assert!(said.starts_with("loaded 3 rows with 4 cells (1 files, "), "{said}");
        assert!(said.ends_with(") into projects/local/instances/local/tables/t\n"), "{said}");
        assert_eq!(setting.cells(), ["a f:v=1", "a f:w=x", "b f:v=3", "c f:w=z"], "{name}");
        assert_eq!(setting.files("sort"), 0);
        assert!(!setting.root.path().join("a.csv.rejects").exists());
    }
}

#[test]
fn rows_out_of_order_are_named_and_nothing_is_loaded() {
    let setting = Setting::new();
    let input = setting.file("a.csv", "k,v\na,1\nc,2\nb,3\nd,4\n");
    let refused = setting.load(&input, &[]);
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    for part in ["nothing was loaded", "line 4", "\"b\"", "\"c\" on line 3", "--sort"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(setting.files("sst"), 0, "no file is left");
    assert_eq!(setting.cells(), [""; 0]);
    succeeded(&setting.load(&input, &["--sort"]));
    assert_eq!(setting.cells(), ["a f:v=1", "b f:v=3", "c f:v=2", "d f:v=4"]);
}

#[test]
fn a_load_goes_over_what_is_there() {
    let setting = Setting::new();
    let first = setting.file("a.csv", "k,v,w\na,1,1\nb,1,1\n");
    let second = setting.file("b.csv", "k,v\nb,2\nc,2\n");
    succeeded(&setting.load(&first, &["--timestamp", "7000"]));
    succeeded(&setting.load(&second, &["--timestamp", "7000"]));
    assert_eq!(setting.cells(), ["a f:v=1", "a f:w=1", "b f:v=2", "b f:w=1", "c f:v=2"]);
}

#[test]
fn bad_lines_go_to_a_file_and_too_many_of_them_stop_the_load() {
    let setting = Setting::new();
    let long = "x".repeat(5000);
    let input = setting.file("a.csv", &format!("k,v\na,1\nbad\n,2\n{long},3\nz,4\n"));
    let said = succeeded(&setting.load(&input, &[]));
    assert!(said.contains("loaded 2 rows") && said.contains("3 lines rejected"), "{said}");
    let rejects = std::fs::read_to_string(setting.root.path().join("a.csv.rejects")).unwrap();
    for part in ["\"line\":3", "\"line\":4", "\"line\":5", "4096 bytes"] {
        assert!(rejects.contains(part), "{part}: {rejects}");
    }
    let files = setting.files("sst");
    let stopped = setting.load(&input, &["--max-rejects", "2", "--sort"]);
    assert_eq!(stopped.status.code(), Some(1));
    let said = stderr(&stopped);
    assert!(said.contains("nothing was loaded") && said.contains("line 5"), "{said}");
    assert_eq!((setting.files("sst"), setting.files("sort")), (files, 0));
}

#[test]
fn a_load_that_is_killed_leaves_nothing_once_the_directory_is_opened() {
    let setting = Setting::new();
    succeeded(&setting.load(&setting.file("a.csv", "k,v\nold,1\n"), &[]));
    let files = setting.files("sst");
    let args = ["--format", "tsv", "--header", "k,v", "--sort", "--sort-memory", "1MiB"];
    let mut command = setting.command(Path::new("-"), &args);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let value = "v".repeat(1000);
    let deadline = Instant::now() + Duration::from_secs(60);
    for number in (0..u32::MAX).rev() {
        writeln!(input, "{number:010}\t{value}").unwrap();
        if setting.files("sort") >= 2 {
            break;
        }
        assert!(Instant::now() < deadline, "nothing was sorted");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(setting.files("sort") >= 2);
    assert_eq!(setting.cells(), ["old f:v=1"]);
    assert_eq!((setting.files("sort"), setting.files("sst")), (0, files));
}

#[test]
fn more_than_the_memory_of_a_sort_is_loaded_too() {
    let setting = Setting::new();
    let value = "v".repeat(500);
    let rows = (0..6000u32).map(|n| format!("{:04}\t{value}\n", n * 7919 % 6000));
    let input = setting.file("a.tsv", &rows.collect::<String>());
    let args = ["--header", "k,v", "--sort", "--sort-memory", "1MiB"];
    let said = succeeded(&setting.load(&input, &args));
    assert!(said.contains("loaded 6,000 rows with 6,000 cells"), "{said}");
    assert!(said.contains("sorted in ") && said.contains(" parts"), "{said}");
    let cells = setting.cells();
    assert_eq!(cells.len(), 6000);
    assert_eq!(cells[42], format!("0042 f:v={value}"));
    assert_eq!(setting.files("sort"), 0);
}

#[test]
fn wrong_options_and_a_directory_in_use_are_refused() {
    let setting = Setting::new();
    let input = setting.file("a.csv", "k,v\na,1\n");
    for (args, want) in [
        (&["--sort-memory", "8MiB"][..], "--sort"),
        (&["--sort", "--sort-memory", "1KiB"], "1MiB"),
        (&["--timestamp", "5"], "--timestamp"),
        (&["--format", "nothing"], "--format"),
    ] {
        let output = setting.load(&input, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(want), "{args:?}: {}", stderr(&output));
    }
    let _server = Server::start(&setting.data(), &[]);
    let refused = setting.load(&input, &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("in use"), "{}", stderr(&refused));
}
