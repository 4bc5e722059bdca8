//! DuckDB and ClickHouse as libraries in a process of Python, which runs `embedded.py` and answers requests.
//!
//! 1. Requests and answers are lines of JSON. The process ends when its value is dropped.
//! 2. CPU time comes from `getrusage` of the process, so it has all threads, and is exact to microseconds.

use super::data::{clickhouse_columns, clickhouse_table};
use super::engine::{Cost, Execution, Kind, REST, REST_CPU, REST_PATIENCE};
use crate::AnyError;
use bench_core::hits::create_table;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The program that the process runs.
const PROGRAM: &str = include_str!("embedded.py");
/// Time that the process may take to end by itself.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// A library in its process.
pub(super) struct Embedded {
    kind: Kind,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    /// The process, which is killed when this is dropped.
    child: Child,
}

/// An answer of the process. Each request fills some of the fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    error: Option<String>,
    cpu_s: f64,
    wall_s: f64,
    rows: u64,
    peak_bytes: u64,
    table_bytes: u64,
    version: String,
}

impl Embedded {
    /// Starts Python. The library itself is loaded by the first request.
    pub(super) async fn start(kind: Kind, python: &Path, home: &Path) -> Result<Self, AnyError> {
        let package = if kind == Kind::DuckDb { "duckdb" } else { "chdb" };
        let mut command = Command::new(python);
        command.arg("-c").arg(PROGRAM).arg(package).arg(home).kill_on_drop(true);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| {
            let python = python.display();
            format!("{python} does not start: {error}; --python names a Python interpreter")
        })?;
        let requests = child.stdin.take().ok_or("no standard input")?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let answers = BufReader::new(stdout).lines();
        let mut embedded = Self { kind, requests, answers, child };
        // The library is loaded before anything is measured.
        embedded.usage().await?;
        Ok(embedded)
    }

    /// Ends the process and waits for its end, so that its files are at rest.
    pub(super) async fn end(self) -> Result<(), AnyError> {
        let Self { mut child, requests, .. } = self;
        drop(requests);
        if tokio::time::timeout(END_PATIENCE, child.wait()).await.is_err() {
            child.kill().await?;
        }
        Ok(())
    }

    /// Creates the table and loads it from `file`.
    pub(super) async fn load(&mut self, file: &Path) -> Result<Cost, AnyError> {
        let create = match self.kind {
            Kind::DuckDb => create_table("hits"),
            _ => clickhouse_table(),
        };
        self.ask(&json!({ "do": "create", "create": create })).await?;
        self.add(file).await
    }

    /// Adds the rows of `file`. The CPU time lasts until the process is at rest.
    pub(super) async fn add(&mut self, file: &Path) -> Result<Cost, AnyError> {
        let file = file.to_str().ok_or("the folder of the data has a name that is not UTF-8")?;
        let before = self.usage().await?.cpu_s;
        let columns = clickhouse_columns();
        let said = self.ask(&json!({ "do": "load", "file": file, "columns": columns })).await?;
        let cpu_s = self.rest().await? - before;
        Ok(Cost { cpu_s, wall_s: said.wall_s })
    }

    /// Runs a query for a time, at least once.
    pub(super) async fn query(
        &mut self,
        text: &str,
        least: Duration,
    ) -> Result<Execution, AnyError> {
        let request = json!({ "do": "query", "sql": text, "seconds_min": least.as_secs_f64() });
        let Said { cpu_s, wall_s, rows, .. } = self.ask(&request).await?;
        Ok(Execution { cost: Cost { cpu_s, wall_s }, rows, answer: None })
    }

    pub(super) async fn peak_bytes(&mut self) -> Result<u64, AnyError> {
        Ok(self.usage().await?.peak_bytes)
    }

    pub(super) async fn table_bytes(&mut self) -> Result<u64, AnyError> {
        Ok(self.ask(&json!({ "do": "size" })).await?.table_bytes)
    }

    pub(super) async fn version(&mut self) -> Result<String, AnyError> {
        Ok(self.usage().await?.version)
    }

    async fn usage(&mut self) -> Result<Said, AnyError> {
        self.ask(&json!({ "do": "usage" })).await
    }

    /// Waits until the process uses no CPU time. Returns its CPU time so far.
    async fn rest(&mut self) -> Result<f64, AnyError> {
        let deadline = Instant::now() + REST_PATIENCE;
        let mut last = self.usage().await?.cpu_s;
        loop {
            tokio::time::sleep(REST).await;
            let now = self.usage().await?.cpu_s;
            if now - last <= REST_CPU.as_secs_f64() {
                return Ok(now);
            }
            if Instant::now() > deadline {
                return Err("the process does not come to rest".into());
            }
            last = now;
        }
    }

    async fn ask(&mut self, request: &Value) -> Result<Said, AnyError> {
        let ended = "the Python process has ended; its last words are on standard error";
        let line = format!("{request}\n");
        self.requests.write_all(line.as_bytes()).await.map_err(|_| ended)?;
        self.requests.flush().await.map_err(|_| ended)?;
        let answer = self.answers.next_line().await?.ok_or(ended)?;
        read_answer(&answer)
    }
}

fn read_answer(line: &str) -> Result<Said, AnyError> {
    let mut said: Said = serde_json::from_str(line)?;
    match said.error.take() {
        Some(error) => Err(error.into()),
        None => Ok(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_results_or_errors() {
        let said = read_answer(r#"{"rows": 10, "cpu_s": 0.25, "wall_s": 0.5}"#).unwrap();
        assert_eq!((said.rows, said.table_bytes), (10, 0));
        assert!((said.cpu_s - 0.25).abs() < 1e-9);
        let error = read_answer(r#"{"error": "no such table"}"#).unwrap_err();
        assert_eq!(error.to_string(), "no such table");
        assert!(read_answer("a line of another program").is_err());
    }
}
