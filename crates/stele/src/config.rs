//! Configuration of the server: a TOML file, overridden by the environment, overridden by flags.
//!
//! One struct, [`Settings`], names every setting once; the file (by `serde`) and the command line
//! with its environment (by `clap`) each fill one, and the layers are laid over each other before
//! [`Config`] resolves defaults and checks ranges. Keys of the file that no setting has are refused
//! with their name, because a misspelt safety setting must not be ignored; `environment` does the
//! same with variables.

use crate::size::ByteSize;
use anyhow::Context;
use clap::Args;
use engine::{Durability, Options};
use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use table::local::READ_IDLE_MAX;
use table::meter::NAMED_MAX;

mod cluster;
mod limits;
mod security;
mod sql;
mod storage;
#[cfg(test)]
mod tests;
mod traces;

pub(crate) use cluster::{Cluster, DirectoryAt, EtcdTls};
pub(crate) use security::{Reach, Security};
pub(crate) use sql::Sql;
pub(crate) use traces::Traces;

/// The configuration is wrong; nothing was touched. The text says what to change.
#[derive(Debug)]
pub(crate) struct ConfigError(pub(crate) String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file in TOML. Its keys are the long flags with _ instead of -. [default: none]
    #[arg(long, env = "STELE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    settings: Settings,
}

/// Every setting, unset unless its layer sets it. Doc comments are the help texts.
#[derive(Debug, Default, Clone, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Data directory; created if missing. [default: ./stele-data]
    #[arg(long, env = "STELE_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Address of the Bigtable gRPC service. Port 0 picks a free port. [default: 127.0.0.1:8086]
    #[arg(long, env = "STELE_BIGTABLE_LISTEN", value_name = "HOST:PORT")]
    pub(crate) bigtable_listen: Option<String>,

    /// Address of /healthz, /readyz and /metrics. Port 0 picks a free port.
    /// [default: 127.0.0.1:8087]
    #[arg(long, env = "STELE_HTTP_LISTEN", value_name = "HOST:PORT")]
    pub(crate) http_listen: Option<String>,

    /// Address for PostgreSQL clients, or off. Port 0 picks a free port. A node of a cluster has no default.
    /// [default: 127.0.0.1:5433]
    #[arg(long, env = "STELE_SQL_LISTEN", value_name = "HOST:PORT")]
    pub(crate) sql_listen: Option<String>,

    /// Comma-separated names by which requests of /metrics and /admin may call the server, beside
    /// localhost and numeric addresses. Other names are refused, since a web page can choose them.
    /// [default: none]
    #[arg(long, env = "STELE_HTTP_HOSTS", value_name = "NAME,NAME")]
    pub(crate) http_hosts: Option<String>,

    /// Allow listening beyond loopback without TLS and authentication: everyone who reaches the
    /// port can read and write all data. true or false. [default: false]
    #[arg(long, env = "STELE_INSECURE_LISTEN", value_name = "BOOL",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) insecure_listen: Option<bool>,

    /// Refuse requests that name an instance or app profile that was not created. By default every
    /// name is accepted without being created. true or false. [default: false]
    #[arg(long, env = "STELE_STRICT_INSTANCES", value_name = "BOOL",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) strict_instances: Option<bool>,

    /// Days for which a deleted table can come back with UndeleteTable, 0 to 365. Its files stay on
    /// disk. 0 frees them at once, and at the next start the files of earlier deletions. [default: 7]
    #[arg(long, env = "STELE_DELETED_TABLE_DAYS", value_name = "DAYS")]
    pub(crate) deleted_table_days: Option<u64>,

    /// Run as a node of the cluster whose directory is in this etcd: HOST:PORT of its members, or
    /// https://HOST:PORT, separated by commas; or file:PATH for nodes of one machine. [default: none]
    #[arg(long, env = "STELE_JOIN", value_name = "ETCD", help_heading = CLUSTER)]
    pub(crate) join: Option<String>,

    /// CAs, in PEM, that sign the certificates of etcd. [default: the CAs of the system]
    #[arg(long, env = "STELE_ETCD_CA", value_name = "FILE", help_heading = CLUSTER)]
    pub(crate) etcd_ca: Option<PathBuf>,

    /// Certificate in PEM that is shown to etcd. [default: none]
    #[arg(long, env = "STELE_ETCD_CERT", value_name = "FILE", help_heading = CLUSTER)]
    pub(crate) etcd_cert: Option<PathBuf>,

    /// Private key of etcd-cert in PEM. [default: none]
    #[arg(long, env = "STELE_ETCD_KEY", value_name = "FILE", help_heading = CLUSTER)]
    pub(crate) etcd_key: Option<PathBuf>,

    /// Address for connections of other nodes. Port 0 picks a free port. [default: 127.0.0.1:8088]
    #[arg(long, env = "STELE_CLUSTER_LISTEN", value_name = "HOST:PORT", help_heading = CLUSTER)]
    pub(crate) cluster_listen: Option<String>,

    /// Address at which other nodes reach this one. [default: cluster-listen]
    #[arg(long, env = "STELE_ADVERTISE", value_name = "HOST:PORT", help_heading = CLUSTER)]
    pub(crate) advertise: Option<String>,

    /// Region of the node. [default: none]
    #[arg(long, env = "STELE_REGION", value_name = "NAME", help_heading = CLUSTER)]
    pub(crate) region: Option<String>,

    /// Zone of the region. Replicas of a tablet are placed in different zones, as far as there are
    /// enough. [default: none]
    #[arg(long, env = "STELE_ZONE", value_name = "NAME", help_heading = CLUSTER)]
    pub(crate) zone: Option<String>,

    /// Certificate of the server in PEM, followed by those between it and its CA. Both listeners
    /// then speak TLS only. The file is read again when it changes, and on SIGHUP.
    /// [default: none]
    #[arg(long, env = "STELE_TLS_CERT", value_name = "FILE", help_heading = SECURITY)]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Private key of tls-cert in PEM. [default: none]
    #[arg(long, env = "STELE_TLS_KEY", value_name = "FILE", help_heading = SECURITY)]
    pub(crate) tls_key: Option<PathBuf>,

    /// Certificates in PEM of the CAs that sign certificates of clients. Clients must then show
    /// one, unless identities are set: then a token does as well. [default: none]
    #[arg(long, env = "STELE_TLS_CLIENT_CA", value_name = "FILE", help_heading = SECURITY)]
    pub(crate) tls_client_ca: Option<PathBuf>,

    /// File of tokens, service accounts and issuers whose holders may call the server. Without
    /// a policy they may do everything. Read again when it changes, and on SIGHUP.
    /// [default: none]
    #[arg(long, env = "STELE_IDENTITIES", value_name = "FILE", help_heading = SECURITY)]
    pub(crate) identities: Option<PathBuf>,

    /// File of roles, which says what each identity may do. Read again when it changes, and on
    /// SIGHUP. [default: none]
    #[arg(long, env = "STELE_POLICY", value_name = "FILE", help_heading = SECURITY)]
    pub(crate) policy: Option<PathBuf>,

    /// Directory below which clients of /admin/checkpoint may have checkpoints made. It must be on
    /// the file system of the data directory. [default: data-dir]
    #[arg(long, env = "STELE_CHECKPOINT_DIR", value_name = "DIR", help_heading = SECURITY)]
    pub(crate) checkpoint_dir: Option<PathBuf>,

    /// File for the audit log: calls that administer, and calls that are refused. Opened again on
    /// SIGHUP. [default: the log]
    #[arg(long, env = "STELE_AUDIT_LOG", value_name = "FILE", help_heading = SECURITY)]
    pub(crate) audit_log: Option<PathBuf>,

    /// When writes are synced to disk: sync (before they are acknowledged), interval=MS (every MS
    /// milliseconds, 1 to 60000; a machine crash loses at most that much), none (never; the
    /// operating system decides; for bulk work that can be repeated). [default: sync]
    #[arg(long, env = "STELE_DURABILITY", value_name = "MODE")]
    pub(crate) durability: Option<String>,

    /// Seconds that a stopping server waits for requests in flight, 0 to 3600. [default: 10]
    #[arg(long, env = "STELE_DRAIN_SECONDS", value_name = "SECONDS")]
    pub(crate) drain_seconds: Option<u64>,

    /// Open connections of Bigtable clients, 1 to 1000000. Further ones are closed at once.
    /// [default: 10000]
    #[arg(long, env = "STELE_CONNECTIONS_MAX", value_name = "COUNT", help_heading = LIMITS)]
    pub(crate) connections_max: Option<usize>,

    /// Open connections of Bigtable clients from one address (of IPv6: from one network of 64 bits),
    /// 1 to 1000000. [default: half of connections-max]
    #[arg(long, env = "STELE_CONNECTIONS_PER_ADDRESS_MAX", value_name = "COUNT",
          help_heading = LIMITS)]
    pub(crate) connections_per_address_max: Option<usize>,

    /// Calls in flight of all Bigtable clients, 1 to 10000000. Further ones are refused with
    /// RESOURCE_EXHAUSTED and a delay. [default: one for each 16KiB of memory-bytes-max,
    /// at least 2000]
    #[arg(long, env = "STELE_CALLS_MAX", value_name = "COUNT", help_heading = LIMITS)]
    pub(crate) calls_max: Option<usize>,

    /// Calls in flight of one identity, on a server that knows its callers, 1 to 10000000. Of uploads and
    /// of answers an identity has half of the room of all. [default: half of calls-max]
    #[arg(long, env = "STELE_CALLS_PER_IDENTITY_MAX", value_name = "COUNT", help_heading = LIMITS)]
    pub(crate) calls_per_identity_max: Option<usize>,

    /// Calls in flight on one connection, 1 to 100000. Further ones wait at the client.
    /// [default: 1000]
    #[arg(long, env = "STELE_STREAMS_PER_CONNECTION_MAX", value_name = "COUNT",
          help_heading = LIMITS)]
    pub(crate) streams_per_connection_max: Option<u32>,

    /// Seconds after which a connection with nothing but pings is closed, 1 to 604800.
    /// [default: 3600]
    #[arg(long, env = "STELE_CONNECTION_IDLE_SECONDS", value_name = "SECONDS",
          help_heading = LIMITS)]
    pub(crate) connection_idle_seconds: Option<u64>,

    /// Seconds after which a client is told to make another connection, up to 604800; 0 is never.
    /// Calls in flight then have a minute to end. [default: 0]
    #[arg(long, env = "STELE_CONNECTION_AGE_SECONDS", value_name = "SECONDS",
          help_heading = LIMITS)]
    pub(crate) connection_age_seconds: Option<u64>,

    /// Seconds after which a read ends whose client takes nothing of it, 1 to 86400. Its snapshot keeps
    /// SSTables that compactions have replaced. [default: 300]
    #[arg(long, env = "STELE_READ_IDLE_SECONDS", value_name = "SECONDS")]
    pub(crate) read_idle_seconds: Option<u64>,

    /// Number of tables that have a label in metrics, 0 to 10000. The tables that are used first
    /// after the start get one. All others are summed as table="other". [default: 50]
    #[arg(long, env = "STELE_METRICS_TABLES_MAX", value_name = "COUNT")]
    pub(crate) metrics_tables_max: Option<usize>,

    /// Milliseconds from which on a request is logged as slow, with what it waited for and what its reads
    /// looked at; 0 logs every request, 0 to 86400000. At most 20 lines a second. [default: 1000]
    #[arg(long, env = "STELE_SLOW_REQUEST_MS", value_name = "MS")]
    pub(crate) slow_request_ms: Option<u64>,

    /// Bytes that are allocated between two samples for heap profiles, as a mean; 0 takes no samples. A
    /// lower value finds smaller users of memory and costs more. 0, or 16KiB to 1GiB. [default: 4MiB]
    #[arg(long, env = "STELE_HEAP_SAMPLE_BYTES", value_name = "SIZE")]
    pub(crate) heap_sample_bytes: Option<ByteSize>,

    /// Collector of spans, by OTLP over gRPC: http://HOST:PORT or https://HOST:PORT. [default: none]
    #[arg(long, env = "STELE_OTLP_ENDPOINT", value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,

    /// Part of the requests that are traced, 0 to 1. The traceparent of a caller decides for its own.
    /// [default: 0.01]
    #[arg(long, env = "STELE_OTLP_SAMPLING", value_name = "PART")]
    pub(crate) otlp_sampling: Option<f64>,

    /// Format of the log on standard error: text or json. [default: text]
    #[arg(long, env = "STELE_LOG_FORMAT", value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,

    /// Log level: error, warn, info, debug, trace or off. Levels can be set per crate, as in
    /// info,engine=debug. [default: info]
    #[arg(long, env = "STELE_LOG_LEVEL", value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,

    /// Threads for flushes and compactions, 1 to 64. [default: 2]
    #[arg(long, env = "STELE_BACKGROUND_THREADS", value_name = "COUNT", help_heading = ENGINE)]
    pub(crate) background_threads: Option<usize>,

    /// Memory budget, shared by the block cache, the memtables of all tables, and the metadata of
    /// open tables and files. This is the most important setting. 1MiB or more. [default: 512MiB]
    #[arg(long, env = "STELE_MEMORY_BYTES_MAX", value_name = "SIZE", help_heading = ENGINE)]
    pub(crate) memory_bytes_max: Option<ByteSize>,

    /// Maximum size of the block cache within memory-bytes-max. Set it to leave memory to the
    /// page cache of the operating system. 1MiB to memory-bytes-max.
    /// [default: all of the budget that is not otherwise used]
    #[arg(long, env = "STELE_CACHE_BYTES_MAX", value_name = "SIZE", help_heading = ENGINE)]
    pub(crate) cache_bytes_max: Option<ByteSize>,

    /// Read SSTables with direct I/O, bypassing the page cache of the operating system. Raise
    /// memory-bytes-max by the memory that the page cache would have used. Helps when the data is
    /// much larger than memory. true or false. [default: false]
    #[arg(long, env = "STELE_DIRECT_READS", value_name = "BOOL", help_heading = ENGINE,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) direct_reads: Option<bool>,

    /// Maximum SSTables kept open; cold ones are closed and reopened on demand. 16 or more. At
    /// startup the server raises its limit of open files to the hard limit (ulimit -Hn).
    /// [default: three quarters of the hard limit]
    #[arg(long, env = "STELE_OPEN_FILES_MAX", value_name = "COUNT", help_heading = ENGINE)]
    pub(crate) open_files_max: Option<usize>,

    /// Comma-separated read-path features to disable for diagnosis. Results never change, only
    /// speed. The features are huge-pages, hints, filters, point-reads, batched-reads,
    /// prefix-index, readahead, cache-warming, admission and counters (with the heat map). [default: none]
    #[arg(long, env = "STELE_READ_PATH_OFF", value_name = "LIST", help_heading = ENGINE)]
    pub(crate) read_path_off: Option<String>,

    /// Memtable size that triggers a flush. With many tables, memtables are flushed earlier, to
    /// stay within half of memory-bytes-max. A larger value makes fewer, larger files and a
    /// longer recovery. 64KiB to 4GiB. [default: 64MiB]
    #[arg(long, env = "STELE_MEMTABLE_BYTES_MAX", value_name = "SIZE", help_heading = ENGINE)]
    pub(crate) memtable_bytes_max: Option<ByteSize>,

    /// Size of one preallocated segment of the commit log. A larger value makes fewer files, a
    /// smaller value frees disk space sooner. 64KiB to 1GiB. [default: 64MiB]
    #[arg(long, env = "STELE_LOG_SEGMENT_BYTES", value_name = "SIZE", help_heading = ENGINE)]
    pub(crate) log_segment_bytes: Option<ByteSize>,

    /// Level-0 runs that trigger a compaction. A lower value makes reads faster and rewrites more
    /// data. 1 to 64. [default: 4]
    #[arg(long, env = "STELE_L0_RUNS_COMPACT", value_name = "COUNT", help_heading = ENGINE)]
    pub(crate) l0_runs_compact: Option<usize>,

    /// Level-0 runs at which writes wait for compaction; must exceed l0-runs-compact.
    /// [default: 12]
    #[arg(long, env = "STELE_L0_RUNS_STALL", value_name = "COUNT", help_heading = ENGINE)]
    pub(crate) l0_runs_stall: Option<usize>,

    /// SSTable size at which a compaction starts a new SSTable. 64KiB to 4GiB. [default: 128MiB]
    #[arg(long, env = "STELE_SST_BYTES_MAX", value_name = "SIZE", help_heading = ENGINE)]
    pub(crate) sst_bytes_max: Option<ByteSize>,

    /// Target size of the older run of level 1; data above it moves to the last level. 64KiB or
    /// more. [default: 512MiB]
    #[arg(long, env = "STELE_L1_BYTES_MAX", value_name = "SIZE", help_heading = ENGINE)]
    pub(crate) l1_bytes_max: Option<ByteSize>,

    /// Maximum subcompactions that a large compaction is split into. Idle background threads run
    /// them in parallel; one thread stays free for flushes. 1 disables splitting. 1 to 64.
    /// [default: background-threads]
    #[arg(long, env = "STELE_SUBCOMPACTIONS_MAX", value_name = "COUNT", help_heading = ENGINE)]
    pub(crate) subcompactions_max: Option<usize>,

    /// Write rate limit of flushes and compactions over all tables: off (no limit), auto (slows
    /// down when disk reads take longer than usual, speeds up when writers are throttled), or
    /// bytes per second, 1MiB or more. [default: off]
    #[arg(long, env = "STELE_BACKGROUND_RATE", value_name = "RATE", help_heading = ENGINE)]
    pub(crate) background_rate: Option<String>,
}

const CLUSTER: &str = "Cluster";
const LIMITS: &str = "Limits of clients";
const ENGINE: &str = "Storage engine";
const SECURITY: &str = "Security";

/// Form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Everything resolved and checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    pub(crate) data_dir: PathBuf,
    pub(crate) bigtable_listen: String,
    pub(crate) http_listen: String,
    pub(crate) http_hosts: Vec<String>,
    /// `None` without a door for PostgreSQL clients.
    pub(crate) sql: Option<Sql>,
    pub(crate) strict_instances: bool,
    pub(crate) deleted_table_days: u64,
    /// `None` for a single server.
    pub(crate) cluster: Option<Cluster>,
    pub(crate) reach: Reach,
    pub(crate) security: Security,
    pub(crate) checkpoint_dir: Option<PathBuf>,
    pub(crate) drain: Duration,
    pub(crate) read_idle: Duration,
    pub(crate) metrics_tables_max: usize,
    pub(crate) slow_request: Duration,
    /// Bytes between two samples; 0 for no samples.
    pub(crate) heap_sample_bytes: u64,
    pub(crate) traces: Option<Traces>,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: String,
    pub(crate) limits: bigtable::Limits,
    pub(crate) engine: Options,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: "./stele-data".into(),
            bigtable_listen: "127.0.0.1:8086".into(),
            http_listen: "127.0.0.1:8087".into(),
            http_hosts: Vec::new(),
            sql: Some(Sql::default()),
            strict_instances: false,
            deleted_table_days: 7,
            cluster: None,
            reach: Reach::Loopback,
            security: Security::default(),
            checkpoint_dir: None,
            drain: Duration::from_secs(10),
            read_idle: READ_IDLE_MAX,
            metrics_tables_max: NAMED_MAX,
            slow_request: Duration::from_secs(1),
            heap_sample_bytes: 4 << 20,
            traces: None,
            log_format: LogFormat::Text,
            log_level: "info".into(),
            limits: bigtable::Limits::within(Options::default().memory_bytes_max),
            engine: Options::default(),
        }
    }
}

impl Config {
    /// The configuration that `args`, the environment (which `clap` has read) and the file give.
    pub(crate) fn load(args: &ServeArgs) -> anyhow::Result<Self> {
        let file = args.config.as_deref().map(read_file).transpose()?.unwrap_or_default();
        Ok(Self::resolve(args.settings.clone().over(file))?)
    }

    /// Fills in defaults and checks every range.
    fn resolve(settings: Settings) -> Result<Self, ConfigError> {
        let default = Self::default();
        let engine = storage::resolve(&settings, default.engine)?;
        let deleted_table_days = settings.deleted_table_days.unwrap_or(default.deleted_table_days);
        in_range("deleted_table_days", deleted_table_days, 0..=365)?;
        let drain_seconds = settings.drain_seconds.unwrap_or(default.drain.as_secs());
        in_range("drain_seconds", drain_seconds, 0..=3600)?;
        let security = Security::resolve(&settings)?;
        let traces = Traces::resolve(&settings)?;
        let cluster = Cluster::resolve(&settings)?;
        let insecure = settings.insecure_listen.unwrap_or(false);
        let sql = Sql::resolve(&settings, &security, insecure)?;
        let limits = limits::resolve(&settings, engine.memory_bytes_max)?;
        let read_idle_seconds = settings.read_idle_seconds.unwrap_or(default.read_idle.as_secs());
        in_range("read_idle_seconds", read_idle_seconds, 1..=86_400)?;
        let metrics_tables_max = settings.metrics_tables_max.unwrap_or(default.metrics_tables_max);
        in_range("metrics_tables_max", metrics_tables_max as u64, 0..=10_000)?;
        let slow_ms = settings.slow_request_ms.unwrap_or(default.slow_request.as_millis() as u64);
        in_range("slow_request_ms", slow_ms, 0..=86_400_000)?;
        let heap_sample_bytes =
            settings.heap_sample_bytes.map_or(default.heap_sample_bytes, |bytes| bytes.0);
        if heap_sample_bytes != 0 {
            in_range("heap_sample_bytes", heap_sample_bytes, 16 << 10..=1 << 30)?;
        }
        Ok(Self {
            data_dir: settings.data_dir.unwrap_or(default.data_dir),
            bigtable_listen: settings.bigtable_listen.unwrap_or(default.bigtable_listen),
            http_listen: settings.http_listen.unwrap_or(default.http_listen),
            http_hosts: settings
                .http_hosts
                .as_deref()
                .map(parse_hosts)
                .transpose()?
                .unwrap_or_default(),
            sql,
            strict_instances: settings.strict_instances.unwrap_or(default.strict_instances),
            deleted_table_days,
            cluster,
            reach: if insecure { Reach::Anywhere } else { security.reach() },
            security,
            checkpoint_dir: settings.checkpoint_dir,
            drain: Duration::from_secs(drain_seconds),
            read_idle: Duration::from_secs(read_idle_seconds),
            metrics_tables_max,
            slow_request: Duration::from_millis(slow_ms),
            heap_sample_bytes,
            traces,
            log_format: settings.log_format.unwrap_or(default.log_format),
            log_level: settings.log_level.unwrap_or(default.log_level),
            limits,
            engine,
        })
    }
}

impl Settings {
    /// These settings where set, `below` elsewhere.
    fn over(self, below: Self) -> Self {
        macro_rules! first_set {
            ($($field:ident),* $(,)?) => { Self { $($field: self.$field.or(below.$field)),* } };
        }
        first_set!(
            data_dir,
            bigtable_listen,
            http_listen,
            sql_listen,
            http_hosts,
            insecure_listen,
            strict_instances,
            deleted_table_days,
            join,
            etcd_ca,
            etcd_cert,
            etcd_key,
            cluster_listen,
            advertise,
            region,
            zone,
            tls_cert,
            tls_key,
            tls_client_ca,
            identities,
            policy,
            checkpoint_dir,
            audit_log,
            durability,
            drain_seconds,
            connections_max,
            connections_per_address_max,
            calls_max,
            calls_per_identity_max,
            streams_per_connection_max,
            connection_idle_seconds,
            connection_age_seconds,
            read_idle_seconds,
            metrics_tables_max,
            slow_request_ms,
            heap_sample_bytes,
            otlp_endpoint,
            otlp_sampling,
            log_format,
            log_level,
            background_threads,
            memory_bytes_max,
            cache_bytes_max,
            direct_reads,
            open_files_max,
            read_path_off,
            memtable_bytes_max,
            log_segment_bytes,
            l0_runs_compact,
            l0_runs_stall,
            sst_bytes_max,
            l1_bytes_max,
            subcompactions_max,
            background_rate,
        )
    }
}

/// Names of hosts, in lower case, without ports.
fn parse_hosts(text: &str) -> Result<Vec<String>, ConfigError> {
    let is_name = |name: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        !name.is_empty() && name.bytes().all(plain)
    };
    let names = text.split(',').map(|name| name.trim().to_ascii_lowercase());
    let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    match names.iter().find(|name| !is_name(name)) {
        None => Ok(names),
        Some(name) => Err(ConfigError(format!(
            "invalid http_hosts name {name:?}; use names without ports, separated by commas"
        ))),
    }
}

/// `durability` as it is written.
pub(crate) fn describe_durability(durability: Durability) -> String {
    match durability {
        Durability::Sync => "every write synced before it is acknowledged".into(),
        Durability::Interval(every) => format!("writes synced every {} ms", every.as_millis()),
        Durability::None => "writes not synced".into(),
    }
}

fn in_range<T: PartialOrd + fmt::Display>(
    name: &str,
    value: T,
    range: std::ops::RangeInclusive<T>,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    let (start, end) = range.into_inner();
    Err(ConfigError(format!("option {name} must be from {start} to {end}, not {value}")))
}

fn read_file(path: &Path) -> anyhow::Result<Settings> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError(error.to_string()))
        .with_context(|| format!("could not read configuration file {}", path.display()))?;
    let settings = toml::from_str(&text).map_err(|error| ConfigError(error.to_string()));
    settings.with_context(|| format!("invalid configuration file {}", path.display()))
}
