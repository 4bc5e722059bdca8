//! The command line of a load test. `run.rs` has the flags of all workloads, `workloads.rs` the flags of
//! single ones, `values.rs` reads durations and the like.
//!
//! Flags are in kebab case. Names of published tools are aliases, so that their command lines work.

mod run;
mod values;
mod workloads;

pub(crate) use run::{LanesArgs, RunArgs, SizeArgs};
pub(crate) use values::Part;
pub use workloads::{
    HotKeysArgs, KeyValueArgs, MissingKeysArgs, ScansArgs, TimeSeriesArgs, WideRowsArgs, YcsbArgs,
};
pub(crate) use workloads::{KeyOrder, YcsbWorkload};

use crate::{Error, Report};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// A workload to run, or reports to merge.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Insert keys, then update and read them.
    ///
    /// Writers insert --num-unique-keys keys one after the other and then update random ones. Readers
    /// read random keys among those inserted.
    KeyValue(Box<KeyValueArgs>),
    /// One of the workloads A to F of the Yahoo! Cloud Serving Benchmark.
    ///
    /// A: half reads, half updates. B: 95 % reads, 5 % updates. C: reads. D: 95 % reads of the
    /// latest rows, 5 % inserts. E: 95 % scans, 5 % inserts. F: half reads, half read-modify-writes.
    Ycsb(Box<YcsbArgs>),
    /// Append points to time series and read the newest points.
    TimeSeries(Box<TimeSeriesArgs>),
    /// Read and write columns of rows with many columns.
    WideRows(Box<WideRowsArgs>),
    /// Read and update rows of which a few get most operations.
    HotKeys(Box<HotKeysArgs>),
    /// Read rows of which a share was never written.
    MissingKeys(Box<MissingKeysArgs>),
    /// Scan ranges of rows, and verify that no row is left out.
    Scans(Box<ScansArgs>),
    /// Merge the JSON reports of processes that shared a run.
    Merge(MergeArgs),
    /// Make the HTML report of a JSON report.
    Report(ReportArgs),
}

/// Host of Google's data API, and that of its table admin API.
const GOOGLE: (&str, &str) = ("://bigtable.googleapis.com", "://bigtableadmin.googleapis.com");

impl Command {
    /// Returns the flags that all workloads have; `None` if the command runs no workload.
    pub(crate) fn run_args(&self) -> Option<&RunArgs> {
        match self {
            Self::KeyValue(args) => Some(&args.run),
            Self::Ycsb(args) => Some(&args.run),
            Self::TimeSeries(args) => Some(&args.run),
            Self::WideRows(args) => Some(&args.run),
            Self::HotKeys(args) => Some(&args.run),
            Self::MissingKeys(args) => Some(&args.run),
            Self::Scans(args) => Some(&args.run),
            Self::Merge(_) | Self::Report(_) => None,
        }
    }

    /// Returns the endpoints of the data API and the table admin API; `None` if the command runs no
    /// workload.
    pub fn endpoints(&self) -> Option<(String, String)> {
        let target = &self.run_args()?.target;
        let admin = target.admin_endpoint.clone();
        let admin = admin.unwrap_or_else(|| target.endpoint.replacen(GOOGLE.0, GOOGLE.1, 1));
        Some((target.endpoint.clone(), admin))
    }
}

/// Arguments of the command `merge`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  stele load merge a.json b.json --json all.json --html all.html")]
pub struct MergeArgs {
    /// JSON reports, one of each process.
    #[arg(value_name = "REPORT", required = true, num_args = 1..)]
    reports: Vec<PathBuf>,

    /// Write the merged report as JSON to this file. [default: none]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the merged report as a page in HTML to this file. [default: none]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl MergeArgs {
    /// Merges the reports, writes the wanted files, and returns the merged report.
    pub fn run(&self) -> Result<Report, Error> {
        let reports = self.reports.iter().map(|path| Report::read(path));
        let merged = Report::merge(reports.collect::<Result<_, _>>()?)?;
        merged.save(self.json.as_deref(), self.html.as_deref())?;
        Ok(merged)
    }
}

/// Arguments of the command `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// JSON report of a run.
    #[arg(value_name = "REPORT")]
    report: PathBuf,

    /// File for the page in HTML.
    #[arg(long, value_name = "FILE", required = true)]
    html: PathBuf,
}

impl ReportArgs {
    /// Makes the page and returns the report.
    pub fn run(&self) -> Result<Report, Error> {
        let report = Report::read(&self.report)?;
        report.save(None, Some(&self.html))?;
        Ok(report)
    }
}
