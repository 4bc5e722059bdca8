//! `stele stress`: works on a store with many threads, kills the process that does it at random
//! moments, and holds what is found to what was acknowledged.
//!
//! ```text
//! parent   draws a cycle, starts a worker, listens to it, kills it; sometimes checks every byte of
//!   |      what it left; prints progress and the verdict
//! worker   opens the store, reads everything and compares; works; at quiet moments reads everything
//!          again and accounts for each file; until it is killed
//! ```
//!
//! In the directory of a run lie `store`, `copy` (a checkpoint being verified), and what must
//! survive a kill: `run.json`, and the worker's [`book`]; `before` is the store as it was before the
//! last worker opened it.

mod batch;
mod book;
mod drill;
mod ledger;
mod look;
mod memory;
mod names;
mod plan;
mod report;
mod watch;
mod work;
mod worker;

use clap::Args;
use std::path::PathBuf;

pub(crate) use drill::run;
pub(crate) use worker::run as run_worker;

/// Arguments of `stress`.
#[derive(Debug, Args)]
pub(crate) struct StressArgs {
    /// How long to go on, in minutes; fractions such as 0.5 are fine
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    minutes: f64,
    /// What everything random follows from: options, operations, moments of kills. Threads still
    /// meet as they happen to. Default: one drawn from the clock, and printed
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// A new or empty directory for the store and what is expected of it. Kept if something is
    /// wrong, and removed otherwise
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Threads that write, 1..=99
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=99))]
    writers: u8,
    /// Threads that read, 0..=99
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(0..=99))]
    readers: u8,
    /// Rows of all writers together in each of three trees: about a kilobyte each. 1000..=200000
    #[arg(long, value_name = "N", default_value_t = 12_000, value_parser = clap::value_parser!(u32).range(1000..=200_000))]
    rows: u32,
}

/// Arguments of a worker.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// The directory of the run
    #[arg(long)]
    data_dir: PathBuf,
    /// The cycle
    #[arg(long)]
    cycle: u64,
}
