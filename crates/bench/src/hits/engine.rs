//! The engines that are measured: three servers and two libraries, behind the same verbs.

use super::HitsArgs;
use super::answers::Answer;
use super::data::{Data, Part};
use super::embedded::Embedded;
use super::peer::ServerEngine;
use crate::AnyError;
use serde::Serialize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time that the background work of a load may take.
pub(super) const REST_PATIENCE: Duration = Duration::from_secs(600);
/// Time between two looks at the CPU time of an engine that shall come to rest.
pub(super) const REST: Duration = Duration::from_millis(300);
/// CPU time that an engine at rest uses between two looks at most.
pub(super) const REST_CPU: Duration = Duration::from_millis(10);

/// A kind of engine that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Stele with a columnar table.
    Columnar,
    /// Stele with a table of rows.
    Rows,
    /// PostgreSQL with its own tables.
    Postgres,
    /// DuckDB within a Python process.
    DuckDb,
    /// ClickHouse within a Python process.
    ClickHouse,
}

impl Kind {
    /// Returns the name in reports and of folders.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Columnar => "stele",
            Self::Rows => "stele-rows",
            Self::Postgres => "postgres",
            Self::DuckDb => "duckdb",
            Self::ClickHouse => "clickhouse",
        }
    }

    /// Returns true for a library in a process that this program starts.
    pub(super) fn is_embedded(self) -> bool {
        matches!(self, Self::DuckDb | Self::ClickHouse)
    }
}

/// CPU time and time on the clock, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Cost {
    pub(super) cpu_s: f64,
    pub(super) wall_s: f64,
}

/// The measurements of a load.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Loaded {
    pub(super) rows: u64,
    #[serde(flatten)]
    pub(super) cost: Cost,
    /// The largest resident memory until the end of the load.
    pub(super) peak_bytes: u64,
    /// By how much the directory of the data grew, logs and all.
    pub(super) directory_bytes: u64,
    /// The size of the table alone, where the engine tells it.
    pub(super) table_bytes: Option<u64>,
}

/// One run of a query: the means of its executions.
#[derive(Debug, Clone)]
pub(super) struct Execution {
    pub(super) cost: Cost,
    pub(super) rows: u64,
    /// The rows themselves, as servers send them.
    pub(super) answer: Option<Answer>,
}

/// A running engine with its data.
pub(super) struct Engine {
    pub(super) kind: Kind,
    home: PathBuf,
    process: Process,
}

enum Process {
    Server(Box<ServerEngine>),
    Embedded(Box<Embedded>),
}

impl Engine {
    /// Starts an engine without data in `home`, which it makes.
    pub(super) async fn start(kind: Kind, args: &HitsArgs, home: &Path) -> Result<Self, AnyError> {
        std::fs::create_dir(home)?;
        let process = if kind.is_embedded() {
            Process::Embedded(Box::new(Embedded::start(kind, &args.python, home).await?))
        } else {
            Process::Server(Box::new(ServerEngine::start(kind, args, home).await?))
        };
        Ok(Self { kind, home: home.to_owned(), process })
    }

    /// Ends the engine and waits for its end.
    pub(super) async fn end(self) -> Result<(), AnyError> {
        match self.process {
            Process::Server(server) => drop(server),
            Process::Embedded(embedded) => embedded.end().await?,
        }
        Ok(())
    }

    /// Creates the table and loads its rows.
    pub(super) async fn load(&mut self, args: &HitsArgs, data: &Data) -> Result<Loaded, AnyError> {
        let file = data.file_for(self.kind, Part::Table);
        let before = bytes_below(&self.home)?;
        let (rows, cost) = match &mut self.process {
            Process::Server(server) => server.load(&file, args.rows_of(self.kind)).await?,
            Process::Embedded(embedded) => (args.rows, embedded.load(&file).await?),
        };
        let (peak_bytes, table_bytes) = match &mut self.process {
            Process::Server(server) => (server.peak_bytes(), server.table_bytes().await?),
            Process::Embedded(embedded) => {
                (embedded.peak_bytes().await?, Some(embedded.table_bytes().await?))
            }
        };
        let directory_bytes = bytes_below(&self.home)?.saturating_sub(before);
        Ok(Loaded { rows, cost, peak_bytes, directory_bytes, table_bytes })
    }

    /// Adds the further rows. Returns none if this engine gets none.
    pub(super) async fn add_delta(
        &mut self,
        args: &HitsArgs,
        data: &Data,
    ) -> Result<Option<Cost>, AnyError> {
        if args.delta_rows_of(self.kind) == 0 {
            return Ok(None);
        }
        let cost = match &mut self.process {
            Process::Server(server) => server.insert_all(data).await?,
            Process::Embedded(embedded) => {
                embedded.add(&data.file_for(self.kind, Part::Delta)).await?
            }
        };
        Ok(Some(cost))
    }

    /// Does what the users of an engine do between a load and queries, unmeasured.
    pub(super) async fn prepare_for_queries(&mut self) -> Result<(), AnyError> {
        match &mut self.process {
            Process::Server(server) => server.analyze().await,
            Process::Embedded(_) => Ok(()),
        }
    }

    /// Runs a query, again and again for the least time of a run.
    pub(super) async fn query(
        &mut self,
        text: &str,
        args: &HitsArgs,
    ) -> Result<Execution, AnyError> {
        let least = Duration::from_millis(args.run_ms);
        match &mut self.process {
            Process::Server(server) => server.query(text, least).await,
            Process::Embedded(embedded) => embedded.query(text, least).await,
        }
    }

    /// Returns the largest resident memory so far.
    pub(super) async fn peak_bytes(&mut self) -> Result<u64, AnyError> {
        match &mut self.process {
            Process::Server(server) => Ok(server.peak_bytes()),
            Process::Embedded(embedded) => embedded.peak_bytes().await,
        }
    }

    /// Returns the engine's own name with its version.
    pub(super) async fn version(&mut self) -> Result<String, AnyError> {
        match &mut self.process {
            Process::Server(server) => server.version().await,
            Process::Embedded(embedded) => embedded.version().await,
        }
    }
}

/// Fails if a library is missing: before rows are made and engines loaded, not after.
pub(super) async fn check(args: &HitsArgs, kinds: &[Kind], dir: &Path) -> Result<(), AnyError> {
    for kind in kinds.iter().copied().filter(|kind| kind.is_embedded()) {
        let home = dir.join(format!("{}-check", kind.name()));
        Engine::start(kind, args, &home).await?.end().await?;
        std::fs::remove_dir_all(&home)?;
    }
    Ok(())
}

/// Returns the bytes on disk of all files below `dir`. Files that go meanwhile do not count.
fn bytes_below(dir: &Path) -> Result<u64, AnyError> {
    let mut bytes = 0;
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let entry = entry?;
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                // The system counts blocks of 512 bytes, whatever the file system has.
                bytes += metadata.blocks() * 512;
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_all_folders_count() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("inner")).unwrap();
        assert_eq!(bytes_below(dir.path()).unwrap(), 0);
        std::fs::write(dir.path().join("inner/file"), vec![7; 1 << 20]).unwrap();
        let file = std::fs::File::open(dir.path().join("inner/file")).unwrap();
        file.sync_all().unwrap();
        assert!(bytes_below(dir.path()).unwrap() > 0);
    }
}
