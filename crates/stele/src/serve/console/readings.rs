//! All metrics of the server that the console shows, read at one moment.
//!
//! Invariant: no other file of the console knows the name of a metric. A metric that the server does
//! not have reads as `None`, and the pages show a gap.

use super::super::metrics::{Disk, disk};
use super::super::state::State;
use base::histogram::Buckets;
use engine::Metrics;
use serde::Serialize;
use std::collections::BTreeMap;
use table::Local;
use table::meter::HotTablet;

/// Codes of errors of statements of PostgreSQL clients: the client's, and the server's own.
pub(super) const SQL_CLIENT_ERROR: &str = "SQL error";
pub(super) const SQL_SERVER_ERROR: &str = "SQL server error";
/// Owners of memory that advice speaks of.
pub(super) const BLOCK_CACHE: &str = "Block cache";
pub(super) const UNTRACKED: &str = "Untracked";
/// Hot tablets that are read.
const HOT_TABLETS: usize = 10;

/// A group of methods that people think of as one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Operation {
    Reads,
    Writes,
    Conditional,
    Queries,
    /// Statements of all PostgreSQL clients together.
    #[cfg(feature = "sql")]
    Sql,
    Other,
}

impl Operation {
    /// Returns the operation of a method; `None` for probes.
    fn of(method: &str) -> Option<Self> {
        match method {
            "ReadRows" | "SampleRowKeys" => Some(Self::Reads),
            "MutateRow" | "MutateRows" => Some(Self::Writes),
            "CheckAndMutateRow" | "ReadModifyWriteRow" => Some(Self::Conditional),
            "PrepareQuery" | "ExecuteQuery" => Some(Self::Queries),
            "Check" | "Watch" | "PingAndWarm" => None,
            _ => Some(Self::Other),
        }
    }

    /// Returns whether it is of PostgreSQL clients.
    #[cfg(feature = "sql")]
    pub(super) fn is_sql(self) -> bool {
        self == Self::Sql
    }

    #[cfg(not(feature = "sql"))]
    pub(super) fn is_sql(self) -> bool {
        false
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Durations {
    /// Upper end of each bucket in seconds, and the number of durations up to it.
    pub(super) up_to: Vec<(f64, u64)>,
    pub(super) count: u64,
}

impl Durations {
    /// Returns the durations of a histogram in microseconds.
    fn of(histogram: &Buckets) -> Self {
        let mut below = 0u64;
        let up_to = histogram.bounds.iter().zip(&histogram.counts).map(|(bound, count)| {
            below = below.saturating_add(*count);
            (*bound as f64 / 1e6, below)
        });
        Self { up_to: up_to.collect(), count: histogram.count() }
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        if self.up_to.is_empty() {
            self.up_to.clone_from(&other.up_to);
            return;
        }
        for (sum, part) in self.up_to.iter_mut().zip(&other.up_to) {
            sum.1 += part.1;
        }
    }
}

/// Readings of the filters that were asked at one granularity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FilterReading {
    pub(super) asked: Option<u64>,
    pub(super) useful: Option<u64>,
    pub(super) wrong: Option<u64>,
}

/// Sorted runs and bytes of a level over all trees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct LevelReading {
    pub(super) runs: Option<u64>,
    pub(super) bytes: Option<u64>,
}

/// Readings of the engine. Counters count from its opening.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EngineReading {
    pub(super) gets: Option<u64>,
    pub(super) disk_reads: Option<u64>,
    pub(super) scans: Option<u64>,
    pub(super) filters: [(&'static str, FilterReading); 4],
    pub(super) memory_max: Option<u64>,
    /// Bytes of memory by owner.
    pub(super) memory: Vec<(&'static str, u64)>,
    pub(super) compactions_running: Option<u64>,
    pub(super) compaction_debt: Option<u64>,
    pub(super) compactions_paused: Option<u64>,
    pub(super) stalls: Option<u64>,
    pub(super) slowdowns: Option<u64>,
    pub(super) committed_bytes: Option<u64>,
    pub(super) flushed_bytes: Option<u64>,
    pub(super) compacted_bytes: Option<u64>,
    pub(super) syncs: Option<u64>,
    pub(super) levels: [LevelReading; 3],
    pub(super) trees: Option<u64>,
    pub(super) trees_failing: Option<u64>,
    pub(super) failures: Option<u64>,
    pub(super) writes_stopped: Option<u64>,
    /// Age of the oldest snapshot in seconds.
    pub(super) snapshot_age: Option<u64>,
}

impl EngineReading {
    fn of(metrics: &Metrics) -> Self {
        let get = |name| metrics.get(name);
        Self {
            gets: get("point_reads_total"),
            disk_reads: get("point_disk_reads_total"),
            scans: get("scans_total"),
            filters: ["row", "family", "column", "prefix"].map(|of| (of, filter(metrics, of))),
            memory_max: get("memory_limit_bytes"),
            memory: memory(metrics),
            compactions_running: get("compactions_running"),
            compaction_debt: get("compaction_debt_bytes"),
            compactions_paused: get("compactions_paused"),
            stalls: get("write_stalls_total"),
            slowdowns: get("write_slowdowns_total"),
            committed_bytes: get("commit_bytes_total"),
            flushed_bytes: get("flushed_bytes_total"),
            compacted_bytes: get("compacted_bytes_total"),
            syncs: get("commit_syncs_total"),
            levels: [0, 1, 2].map(|number| LevelReading {
                runs: metrics.get(&format!("level_runs{{level=\"{number}\"}}")),
                bytes: metrics.get(&format!("level_bytes{{level=\"{number}\"}}")),
            }),
            trees: get("trees"),
            trees_failing: get("trees_failing"),
            failures: get("background_failures_total"),
            writes_stopped: get("writes_stopped"),
            snapshot_age: get("oldest_snapshot_age_seconds"),
        }
    }
}

/// Returns the questions to filters of one granularity.
fn filter(metrics: &Metrics, of: &str) -> FilterReading {
    let label = format!("granularity=\"{of}\"");
    FilterReading {
        asked: metrics.get(&format!("filter_checks_total{{{label}}}")),
        useful: metrics.get(&format!("filter_checks_total{{{label},result=\"useful\"}}")),
        wrong: metrics.get(&format!("filter_false_positives_total{{{label}}}")),
    }
}

/// Returns the bytes of memory by owner, the usual largest first.
fn memory(metrics: &Metrics) -> Vec<(&'static str, u64)> {
    [
        (BLOCK_CACHE, "blocks"),
        ("Active memtables", "active_memtables"),
        ("Memtables to flush", "frozen_memtables"),
        ("Flushed memtables in use", "outlived_memtables"),
        ("Metadata", "metadata"),
        ("SSTables in the making", "building"),
        (UNTRACKED, "untracked"),
    ]
    .into_iter()
    .filter_map(|(owner, label)| {
        Some((owner, metrics.get(&format!("memory_bytes{{owner=\"{label}\"}}"))?))
    })
    .collect()
}

/// Requests, rows and bytes of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TableReading {
    pub(super) requests: u64,
    pub(super) rows_read: u64,
    pub(super) rows_written: u64,
    pub(super) bytes: u64,
}

/// Returns the readings of the tables that have counters of their own, by name.
fn tables(store: &Local) -> BTreeMap<String, TableReading> {
    let table = |of: table::meter::TableReading| {
        let volume = of.counters.volume();
        let reading = TableReading {
            requests: of.counters.latency().map(|(.., latency)| latency.count()).sum(),
            rows_read: volume.rows_read,
            rows_written: volume.rows_written,
            bytes: volume.read_bytes.saturating_add(volume.written_bytes),
        };
        (of.table.as_str().to_owned(), reading)
    };
    store.named_tables().into_iter().map(table).collect()
}

/// Readings of the door for PostgreSQL clients. Counters count from its opening.
#[cfg(feature = "sql")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SqlReading {
    pub(super) connections: u64,
    pub(super) connections_max: u64,
    /// Connections that found no place.
    pub(super) refused: u64,
    /// Bytes that queries hold, and may hold.
    pub(super) memory: u64,
    pub(super) memory_max: u64,
    /// Errors by the class of their SQLSTATE.
    pub(super) errors: BTreeMap<&'static str, u64>,
}

/// A reading of all that the console shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Reading {
    /// Requests by operation and code.
    pub(super) requests: BTreeMap<(Operation, String), Durations>,
    pub(super) in_flight: Option<f64>,
    /// Tables that have counters of their own.
    pub(super) tables: BTreeMap<String, TableReading>,
    /// The tablets whose rows were used most in the last minutes, the hottest first.
    pub(super) tablets: Vec<HotTablet>,
    /// `None` while the data directory is opening.
    pub(super) engine: Option<EngineReading>,
    /// The file system of the data directory.
    pub(super) disk: Option<Disk>,
    /// `None` without the door for PostgreSQL clients.
    #[cfg(feature = "sql")]
    pub(super) sql: Option<SqlReading>,
}

impl Reading {
    /// Reads the metrics of a server. Takes time in proportion to its trees, and blocks.
    pub(super) fn take(server: &State) -> Self {
        let mut requests: BTreeMap<(Operation, String), Durations> = BTreeMap::new();
        server.requests().each(|method, code, latency| {
            if let Some(operation) = Operation::of(method) {
                let durations = Durations::of(&latency);
                requests.entry((operation, code.to_owned())).or_default().add(&durations);
            }
        });
        #[cfg(feature = "sql")]
        add_statements(server, &mut requests);
        Self {
            requests,
            tables: server.store().map(|store| tables(store)).unwrap_or_default(),
            tablets: server
                .store()
                .map(|store| store.heat().hottest_tablets(HOT_TABLETS))
                .unwrap_or_default(),
            in_flight: Some(server.requests().in_flight() as f64),
            engine: server.engine().map(|engine| EngineReading::of(&engine.metrics())),
            disk: server.engine().and_then(disk),
            #[cfg(feature = "sql")]
            sql: sql(server),
        }
    }
}

/// Returns the readings of the door for PostgreSQL clients.
#[cfg(feature = "sql")]
fn sql(server: &State) -> Option<SqlReading> {
    let (counts, memory) = server.sql()?;
    Some(SqlReading {
        connections: counts.connections(),
        connections_max: counts.connections_max(),
        refused: counts.refused(),
        memory: memory.bytes() as u64,
        memory_max: memory.max() as u64,
        errors: counts.errors().collect(),
    })
}

/// Adds the statements of PostgreSQL clients, with a code for the errors of clients and one for the
/// server's own. Planning for later is not counted.
#[cfg(feature = "sql")]
fn add_statements(server: &State, requests: &mut BTreeMap<(Operation, String), Durations>) {
    let Some((counts, _)) = server.sql() else { return };
    for (statement, result, latency) in counts.latency() {
        if statement == "prepare" {
            continue;
        }
        let code = match result {
            "ok" => "OK",
            "server_error" => SQL_SERVER_ERROR,
            _ => SQL_CLIENT_ERROR,
        };
        let durations = Durations::of(&latency);
        requests.entry((Operation::Sql, code.to_owned())).or_default().add(&durations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Engine, Options};

    /// A renamed metric would leave a gap in the pages without a word.
    #[test]
    fn every_metric_that_is_read_exists() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(dir.path(), Options::default()).unwrap();
        let metrics = engine.metrics();
        let reading = format!("{:?}", EngineReading::of(&metrics));
        assert!(!reading.contains("None"), "{reading}");
        assert_eq!(memory(&metrics).len(), 7);
    }

    #[test]
    fn requests_are_read_by_operation_and_code() {
        let server = State::new(None);
        let path = |method: &str| format!("/google.bigtable.v2.Bigtable/{method}");
        drop(server.requests().start(&path("MutateRow")));
        drop(server.requests().start(&path("MutateRows")));
        drop(server.requests().start("/grpc.health.v1.Health/Check"));
        let _open = server.requests().start(&path("ReadRows"));
        let reading = Reading::take(&server);
        assert_eq!((reading.in_flight, reading.engine), (Some(1.0), None));
        let counts = reading.requests.iter().map(|(key, durations)| (key.clone(), durations.count));
        let writes = ((Operation::Writes, "CANCELLED".to_owned()), 2);
        assert_eq!(counts.collect::<Vec<_>>(), [writes]);
    }

    #[test]
    fn durations_of_methods_of_one_operation_add_up() {
        let mut sum = Durations::default();
        for _ in 0..2 {
            sum.add(&Durations { up_to: vec![(0.1, 1), (1.0, 3)], count: 4 });
        }
        assert_eq!(sum, Durations { up_to: vec![(0.1, 2), (1.0, 6)], count: 8 });
    }
}
