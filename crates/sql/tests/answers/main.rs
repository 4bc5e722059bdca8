//! Answers of SQL, as files of sqllogictest: the same files give the same answers on PostgreSQL.
//!
//! Each file of `testdata/answers` runs over a door with an empty database of its own.
//!
//! | variable | meaning |
//! |---|---|
//! | `STELE_TEST_POSTGRES` | a connection string; the files run there, each in a new database |
//! | `STELE_TEST_SLT` | files to run instead, with `:` between them |
//!
//! 1. Every statement of a file runs, also after one that failed: a failure lists all that differ.
//! 2. An expected error is an SQLSTATE in parentheses, as in `statement error (22012)`.
#![expect(clippy::unwrap_used, reason = "a failure is the test's own verdict")]

mod client;
mod differential;
#[path = "../door/server.rs"]
mod server;

use std::path::{Path, PathBuf};

use client::{Session, Target};
use sqllogictest::{Normalizer, Runner, parse_file};

/// Returns the files to run, in the order of their names.
fn files() -> Vec<PathBuf> {
    if let Ok(named) = std::env::var("STELE_TEST_SLT") {
        return named.split(':').map(PathBuf::from).collect();
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/answers");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "slt")).collect();
    files.sort();
    files
}

/// Runs one file and returns how many records it has, and what differed.
async fn run(file: &Path, target: &Target) -> (usize, Vec<String>) {
    let exact: Normalizer = |text| text.trim_end().to_owned();
    let mut runner = Runner::new(|| Session::open(target));
    runner.with_normalizer(exact);
    let mut wrong = Vec::new();
    let mut count = 0;
    for record in parse_file(file).unwrap() {
        let counts = matches!(
            record,
            sqllogictest::Record::Statement { .. } | sqllogictest::Record::Query { .. }
        );
        count += usize::from(counts);
        if let Err(problem) = runner.run_async(record).await {
            wrong.push(format!("{}", problem.display(false)));
        }
    }
    runner.shutdown_async().await;
    (count, wrong)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_answer_as_postgresql_does() {
    let mut all = Vec::new();
    let mut total = 0;
    for file in files() {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let target = Target::for_file(&name).await;
        let (count, wrong) = run(&file, &target).await;
        total += count;
        if !wrong.is_empty() {
            all.push(format!("{}: {} of {count} differ", file.display(), wrong.len()));
            all.extend(wrong);
        }
    }
    assert!(all.is_empty(), "{total} records\n{}", all.join("\n"));
    assert!(total > 0, "no record was run");
}
