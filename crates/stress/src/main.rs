//! `stele-stress`: works on a store with many threads, kills the process that does it at random
//! moments, and compares what it finds with what was acknowledged.
//!
//! ```text
//! parent   draws a cycle, starts a worker, listens to it, kills it; sometimes checks every byte of
//!   |      what it left; prints progress and the verdict
//! worker   opens the store, reads everything and compares; works; at quiet moments reads everything
//!          again and accounts for each file; until it is killed
//! ```
//!
//! The directory of a run holds `store`, `copy` (a checkpoint being verified), and the files that
//! must survive a kill: `run.json` and the worker's [`book`]. `before` is the store as it was before
//! the last worker opened it.
//!
//! | exit status | meaning |
//! |---|---|
//! | 0 | nothing was wrong |
//! | 1 | something was wrong, or the run failed |
//! | 2 | the arguments were refused before anything was touched |

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

use clap::Parser;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Works on a store of its own with many threads, kills the process again and again, and verifies.
///
/// A worker process writes, deletes, reads, scans, holds snapshots, flushes, compacts, ingests,
/// and makes and verifies checkpoints, with other options in each cycle. The parent kills it by
/// signal 9 at random moments. The next worker must find every acknowledged write, each batch that
/// was in flight whole or not at all, and nothing else. The run also watches memory, open files and
/// leftover files. It prints progress every 10 seconds, at the end a histogram of write latencies,
/// and a summary as the last line. If anything is wrong, the exit status is 1, the directory is
/// kept, and the command that repeats the run is printed.
#[derive(Debug, Parser)]
#[command(name = "stele-stress", version, max_term_width = 100)]
struct StressArgs {
    /// How long to run, in minutes; fractions such as 0.5 are fine
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    minutes: f64,
    /// Seed of options, operations and moments of kills. Threads still interleave as they happen to.
    /// Default: drawn from the clock, and printed
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
    /// Be the worker of this cycle in the run of --data-dir: the parent starts workers so
    #[arg(long, value_name = "N", hide = true)]
    worker_cycle: Option<u64>,
}

/// Arguments that cannot be accepted; nothing was touched.
#[derive(Debug)]
struct ArgumentError(String);

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ArgumentError {}

fn main() -> ExitCode {
    base::allocator::give_back_what_is_freed();
    base::env::real::raise_open_files_max();
    let args = StressArgs::parse();
    let outcome = match args.worker_cycle {
        Some(cycle) => worker::run(&args.data_dir, cycle),
        None => drill::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "stele-stress: {error:#}");
        if error.is::<ArgumentError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        StressArgs::command().debug_assert();
    }
}
