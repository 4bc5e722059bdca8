//! Flags of single workloads.

use super::run::{LanesArgs, RunArgs, SizeArgs, ValueArgs};
use super::values::{exponent, share};
use crate::choose::ZIPF_EXPONENT;
use clap::{Args, ValueEnum};

/// Arguments of the workload `key-value`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stele load key-value --num-unique-keys 1000000 --value-size 256 --html report.html
  stele load key-value --num-threads-write 8 --num-threads-read 0 --num-writes 1000000 --seed 7
  stele load key-value --read-only --seed 7 --num-unique-keys 1000000 --rate 5000")]
pub struct KeyValueArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// Keys to insert; later writes update them. 1 to 1000000000000.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000,
          visible_alias = "num_unique_keys", help_heading = "Workload",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub(crate) num_unique_keys: u64,

    #[command(flatten)]
    pub(crate) lanes: LanesArgs,

    #[command(flatten)]
    pub(crate) value: ValueArgs,

    /// Only read keys that an earlier run with the same --seed or --uuid and --value-size inserted;
    /// --num-threads-write is ignored. All of --num-unique-keys must be there, or those up to
    /// --max-written-key.
    #[arg(long, visible_alias = "read_only", help_heading = "Workload")]
    pub(crate) read_only: bool,

    /// Number of the last key that an earlier run inserted; numbers begin at 0. [default: none]
    #[arg(long, value_name = "NUMBER", visible_alias = "max_written_key",
          help_heading = "Workload",
          value_parser = clap::value_parser!(u64).range(..1_000_000_000_000))]
    pub(crate) max_written_key: Option<u64>,
}

/// A core workload of YCSB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum YcsbWorkload {
    /// Half reads, half updates, zipfian.
    A,
    /// 95 % reads, 5 % updates, zipfian.
    B,
    /// Reads only, of zipfian keys.
    C,
    /// 95 % reads, 5 % inserts; the latest rows are read most.
    D,
    /// 95 % scans, 5 % inserts, zipfian.
    E,
    /// Half reads, half read-modify-writes, zipfian.
    F,
}

/// Order of the row keys of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyOrder {
    /// Rows that were inserted one after the other lie far apart.
    Hashed,
    /// Rows lie in the order in which they were inserted. Scans then verify that no row is missing.
    Ordered,
}

/// Arguments of the workload `ycsb`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stele load ycsb a --rows 1000000 --threads 64 --duration 5m --html a.html
  stele load ycsb e --rows 100000 --key-order ordered
  stele load ycsb b --rate 20000 --arrivals constant --json b.json")]
pub struct YcsbArgs {
    /// Core workload, one of A to F.
    #[arg(value_enum, ignore_case = true)]
    pub(crate) workload: YcsbWorkload,

    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) size: SizeArgs,

    /// Columns of each row, 1 to 1000.
    #[arg(long, value_name = "COUNT", default_value_t = 10, visible_alias = "fieldcount",
          help_heading = "Workload", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) field_count: u32,

    /// Bytes of each value, 1 to 1048576.
    #[arg(long, value_name = "BYTES", default_value_t = 100, visible_alias = "fieldlength",
          help_heading = "Workload", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub(crate) field_length: u32,

    /// Most rows of a scan; each scan draws its own number, 1 to 10000.
    #[arg(long, value_name = "COUNT", default_value_t = 100, visible_alias = "maxscanlength",
          help_heading = "Workload", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) max_scan_length: u64,

    /// Order of the row keys of inserted rows.
    #[arg(
        long,
        value_enum,
        default_value = "hashed",
        visible_alias = "insertorder",
        help_heading = "Workload"
    )]
    pub(crate) key_order: KeyOrder,

    /// Exponent of the zipfian distribution, 0.01 to 0.999.
    #[arg(long, value_name = "NUMBER", default_value_t = ZIPF_EXPONENT, value_parser = exponent,
          help_heading = "Workload")]
    pub(crate) zipf_exponent: f64,
}

/// Arguments of the workload `time-series`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stele load time-series --series 10000 --rate 5000 --duration 10m
  stele load time-series --num-threads-write 16 --num-threads-read 4 --read-points 100")]
pub struct TimeSeriesArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// Time series, 1 to 10000000. Each process of a run needs one for each writer.
    #[arg(long, value_name = "COUNT", default_value_t = 1000, help_heading = "Workload",
          value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) series: u64,

    #[command(flatten)]
    pub(crate) lanes: LanesArgs,

    /// Newest points that a read asks for, 1 to 1000. Each series has so many before the run.
    #[arg(long, value_name = "COUNT", default_value_t = 10, visible_alias = "read_batch_size",
          help_heading = "Workload", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) read_points: u64,

    /// Milliseconds from one point of a series to the next, 1 to 86400000.
    #[arg(long, value_name = "MS", default_value_t = 1000,
          visible_alias = "data_emit_rate_millis", help_heading = "Workload",
          value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub(crate) interval_ms: u64,

    /// Columns of each point, 1 to 100.
    #[arg(long, value_name = "COUNT", default_value_t = 1, help_heading = "Workload",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) columns: u32,

    /// Bytes of each value, 1 to 65536.
    #[arg(long, value_name = "BYTES", default_value_t = 16, visible_alias = "value_size",
          help_heading = "Workload", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) value_size: u32,
}

/// Arguments of the workload `wide-rows`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stele load wide-rows --rows 1000 --columns 5000 --read-columns 20 --read-proportion 0.8")]
pub struct WideRowsArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) size: SizeArgs,

    /// Columns of each row, 1 to 10000.
    #[arg(long, value_name = "COUNT", default_value_t = 1000, help_heading = "Workload",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) columns: u32,

    /// Neighbouring columns that a read asks for. [default: 10]
    #[arg(long, value_name = "COUNT", default_value_t = 10, hide_default_value = true,
          help_heading = "Workload", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) read_columns: u32,

    /// Share of the reads that ask for the whole row, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = share,
          help_heading = "Workload")]
    pub(crate) whole_row_proportion: f64,

    /// Share of reads among the operations, 0 to 1; the rest writes one column.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = share,
          help_heading = "Workload", visible_alias = "readproportion")]
    pub(crate) read_proportion: f64,

    /// Bytes of each value, 1 to 65536.
    #[arg(long, value_name = "BYTES", default_value_t = 32, visible_alias = "value_size",
          help_heading = "Workload", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) value_size: u32,
}

/// Arguments of the workload `hot-keys`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stele load hot-keys --rows 1000000 --hot-keys 0.0001 --hot-operations 0.95 --threads 64")]
pub struct HotKeysArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) size: SizeArgs,

    /// Share of the keys that are hot, 0 to 1; at least one key is.
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = share,
          help_heading = "Workload", visible_alias = "hotspotdatafraction")]
    pub(crate) hot_keys: f64,

    /// Share of the operations that use hot keys, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, value_parser = share,
          help_heading = "Workload", visible_alias = "hotspotopnfraction")]
    pub(crate) hot_operations: f64,

    /// Share of reads among the operations, 0 to 1; the rest are updates.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = share,
          help_heading = "Workload", visible_alias = "readproportion")]
    pub(crate) read_proportion: f64,

    #[command(flatten)]
    pub(crate) value: ValueArgs,
}

/// Arguments of the workload `missing-keys`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stele load missing-keys --rows 1000000 --missing 0.9 --threads 64 --duration 2m")]
pub struct MissingKeysArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) size: SizeArgs,

    /// Share of the reads whose row was never written, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, value_parser = share,
          help_heading = "Workload")]
    pub(crate) missing: f64,

    #[command(flatten)]
    pub(crate) value: ValueArgs,
}

/// Arguments of the workload `scans`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stele load scans --rows 1000000 --max-scan-length 1000 --threads 16 --html scans.html")]
pub struct ScansArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) size: SizeArgs,

    /// Most rows of a scan; each scan draws its own number, 1 to 100000.
    #[arg(long, value_name = "COUNT", default_value_t = 1000, visible_alias = "maxscanlength",
          help_heading = "Workload", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) max_scan_length: u64,

    /// Share of updates among the operations, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share,
          help_heading = "Workload")]
    pub(crate) update_proportion: f64,

    /// Bytes of each value, 1 to 1048576.
    #[arg(long, value_name = "BYTES", default_value_t = 256, visible_alias = "value_size",
          help_heading = "Workload", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub(crate) value_size: u32,
}
