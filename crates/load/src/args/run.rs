//! Flags that all workloads have.

use super::values::{Part, StartAt, duration, positive_duration, rate};
use crate::Error;
use crate::pace::Spacing;
use clap::Args;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::time::Duration;

/// Flags that every workload has.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    #[command(flatten)]
    pub(crate) load: LoopArgs,

    #[command(flatten)]
    pub(crate) data: DataArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The endpoint and the table.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Endpoint and table")]
pub(crate) struct TargetArgs {
    /// Endpoint of the Bigtable API; with TLS, https://HOST:PORT.
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "BIGTABLE_EMULATOR_HOST",
        default_value = "127.0.0.1:8086",
        visible_alias = "nodes"
    )]
    pub(crate) endpoint: String,

    /// Endpoint of the table admin API. [default: the endpoint; for Google's service its own one]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) admin_endpoint: Option<String>,

    /// Project that the table belongs to.
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub(crate) project: String,

    /// Instance that the table belongs to.
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub(crate) instance: String,

    /// Table. Rows of other programs in it stay as they are.
    #[arg(long, value_name = "ID", default_value = "load", visible_alias = "create_table_name")]
    pub(crate) table: String,

    /// Column family of all cells.
    #[arg(long, value_name = "NAME", default_value = "f")]
    pub(crate) family: String,

    /// App profile to send with each request. [default: none]
    #[arg(long, value_name = "ID")]
    pub(crate) app_profile: Option<String>,

    /// Neither look for the table nor create it. Without this flag, a missing table or column family
    /// is created.
    #[arg(long)]
    pub(crate) no_create: bool,
}

/// The loop in which operations begin.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoopArgs {
    /// Connections that the workers share, 1 to 1000.
    #[arg(long, value_name = "COUNT", default_value_t = 4, visible_alias = "concurrent_clients",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) connections: u32,

    /// Open loop: begin so many operations a second, whether or not earlier ones ended. Latency then
    /// counts from the time that an operation was due. [default: closed loop, in which each worker
    /// begins an operation when its last one ends]
    #[arg(long, value_name = "OPS_PER_SECOND", value_parser = rate)]
    pub(crate) rate: Option<f64>,

    /// Gaps between the operations of an open loop.
    #[arg(long, value_enum, default_value = "poisson", requires = "rate")]
    pub(crate) arrivals: Spacing,

    /// Operations of an open loop that may be due and not begun, 1 to 10000000. Operations beyond that
    /// are counted and left out.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, requires = "rate",
          value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) backlog: u64,

    /// Duration of the measured run, for example 90s, 10m or 2h. Ctrl-C ends a run early and cleanly.
    /// [default: 60s, or no limit with a limit of operations]
    #[arg(long, value_name = "TIME", visible_alias = "run_time", value_parser = positive_duration)]
    pub(crate) duration: Option<Duration>,

    /// Time before the measured run that is left out of all results.
    /// [default: 5s, or 0s with a limit of operations]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) warm_up: Option<Duration>,

    /// Time limit of one call; a read-modify-write makes two.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = positive_duration)]
    pub(crate) timeout: Duration,

    /// End the run when every operation has failed for this long.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = positive_duration)]
    pub(crate) give_up_after: Duration,
}

/// The data set, and its share of several processes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Data")]
pub(crate) struct DataArgs {
    /// Seed of keys, values and the choice of operations. [default: random, or made from --uuid]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// Name of the data set, with which all its row keys begin. Runs of one workload with equal sizes
    /// and names use the same rows. [default: a UUID made from seed and sizes]
    #[arg(long, value_name = "NAME", conflicts_with = "no_uuid")]
    pub(crate) uuid: Option<String>,

    /// Use the data set `key`.
    #[arg(long, visible_alias = "nouuid")]
    pub(crate) no_uuid: bool,

    /// Cells whose versions are remembered, 1 to 1000000000, at 16 bytes each. With fewer than the run
    /// has, only recent writes are known, and old ones are not checked for staleness.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000_000,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) tracked_cells: u64,

    /// Share of this process, K/N: it takes its part of the keys and of the rate. Needs --seed or
    /// --uuid, equal in all processes. [default: 0/1]
    #[arg(long, value_name = "K/N")]
    pub(crate) process: Option<Part>,

    /// Begin the run (after the data is written) at this time: RFC 3339, or seconds since 1970.
    /// [default: at once]
    #[arg(long, value_name = "TIME")]
    pub(crate) start_at: Option<StartAt>,
}

/// Files and lines that tell results.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Reports")]
pub(crate) struct OutputArgs {
    /// Write the report as JSON to this file. [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the report as a page in HTML to this file. [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Title of the page in HTML.
    #[arg(long, value_name = "TEXT", default_value = "Load test")]
    pub(crate) title: String,

    /// Print no progress line each second.
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Size of the data of workloads with one kind of worker.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Workload")]
pub(crate) struct SizeArgs {
    /// Rows that are written before the run, 1 to 1000000000000.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, visible_alias = "recordcount",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub(crate) rows: u64,

    /// Workers that do operations, 1 to 10000.
    #[arg(long, value_name = "COUNT", default_value_t = 32, visible_alias = "num_threads",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) threads: u32,

    /// Operations after which the run ends. [default: no limit]
    #[arg(long, value_name = "COUNT", visible_alias = "operationcount",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) operations: Option<u64>,

    /// Do not write rows before the run: an earlier run with the same seed or name wrote them, with the
    /// same columns and bytes of a value.
    #[arg(long)]
    pub(crate) skip_fill: bool,
}

/// Workers of workloads with writers and readers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Workload")]
pub(crate) struct LanesArgs {
    /// Workers that write, 0 to 10000. [default: 2; of time series 16]
    #[arg(long, value_name = "COUNT", visible_alias = "num_threads_write",
          value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) num_threads_write: Option<u32>,

    /// Workers that read, 0 to 10000. [default: 24; of time series 16]
    #[arg(long, value_name = "COUNT", visible_alias = "num_threads_read",
          value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) num_threads_read: Option<u32>,

    /// Writes after which the writers end. The run ends when all limits are reached.
    /// [default: no limit]
    #[arg(long, value_name = "COUNT", visible_alias = "num_writes",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) num_writes: Option<u64>,

    /// Reads after which the readers end. [default: no limit]
    #[arg(long, value_name = "COUNT", visible_alias = "num_reads",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) num_reads: Option<u64>,
}

/// Size of the values of workloads whose rows have one column.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Workload")]
pub(crate) struct ValueArgs {
    /// Bytes of each value, 1 to 10485760.
    #[arg(long, value_name = "BYTES", default_value_t = 256, visible_alias = "value_size",
          value_parser = clap::value_parser!(u32).range(1..=10_485_760))]
    pub(crate) value_size: u32,
}

impl OutputArgs {
    /// Refuses files that cannot be written, before a long run is made for them.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for path in [&self.json, &self.html].into_iter().flatten() {
            let opened = OpenOptions::new().create(true).append(true).open(path);
            opened.map_err(|source| Error::File { path: path.clone(), source })?;
        }
        Ok(())
    }
}
