//! `bench door`: what a request costs the server, beside a server that answers constants (the cost of
//! the RPC library alone) and Google's emulator, under one loader: Google's Go client.
//!
//! Each target is a process with its own loader. A slice is one kind of work on one target for some
//! seconds; a round has a slice of each target, and each round begins with another one. What counts
//! is work per second of the server's CPU, as a ratio within a round: the loader shares the machine
//! with the server, so that wall time says little.
//!
//! The Go programs are built when they are wanted, with modules that Go fetches.

mod constant;
mod report;
mod secured;
mod targets;

use crate::AnyError;
use bench_core::print;
use clap::{Args, ValueEnum};
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use report::{Slice, Table};
use std::path::PathBuf;
use targets::Target;
use tokio::io::AsyncReadExt;

/// Options of the subcommand `bench door`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DoorArgs {
    /// Server binary, such as target/release/stele; may be given many times.
    #[arg(long, required_unless_present = "answer_constants")]
    server: Vec<PathBuf>,
    /// Flag for each server binary, such as --server-flag=--durability=none.
    #[arg(long, allow_hyphen_values = true)]
    server_flag: Vec<String>,
    /// Measure each server binary a second time, with TLS, a token and a policy.
    #[arg(long)]
    secured: bool,
    /// Slices of each work on each target, in turns.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Length of a slice in seconds.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Work to measure, in its order. Default: all.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Work>,
    /// Requests in flight, each by a goroutine of its own.
    #[arg(long, default_value_t = 32)]
    goroutines: usize,
    /// Rows of the table on each target.
    #[arg(long, default_value_t = 10_000)]
    rows: u64,
    /// Bytes of each value (incompressible).
    #[arg(long, default_value_t = 1024)]
    value_bytes: usize,
    /// Directory for the data of servers; default: a temporary one.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
    /// Answer constants, in place of measuring: what `bench door` starts for itself.
    #[arg(long, hide = true)]
    answer_constants: bool,
}

/// Work that the loader does again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// Reads a row by its key.
    Read,
    /// Writes a row by its key.
    Write,
    /// Increments a cell of a row.
    Modify,
    /// Writes 100 rows in one request.
    Bulk,
    /// Reads 1,000 rows in order.
    Scan,
}

impl Work {
    const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Modify, Self::Bulk, Self::Scan];

    /// The word by which the loader knows it.
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Modify => "modify",
            Self::Bulk => "bulk",
            Self::Scan => "scan",
        }
    }
}

/// Runs the benchmark, or the server of constants for it.
pub(crate) fn run(args: &DoorArgs) -> Result<(), AnyError> {
    if args.answer_constants {
        return constant::run(args.value_bytes);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(args))
}

async fn measure(args: &DoorArgs) -> Result<(), AnyError> {
    let dir = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let mut targets = Target::start_all(args, dir.path()).await?;
    let works = if args.only.is_empty() { &Work::ALL[..] } else { &args.only };
    for work in works {
        let mut table = Table::new(*work, targets.iter().map(Target::name));
        for round in 0..args.rounds {
            for at in 0..targets.len() {
                let at = (at + round) % targets.len();
                let target = &mut targets[at];
                target.rest().await?;
                let slice = target.slice(*work, args.seconds).await?;
                table.add(at, slice);
            }
        }
        table.lines(args.json).iter().for_each(|line| print(line));
    }
    for target in targets {
        target.end().await?;
    }
    Ok(())
}

/// Ends when standard input does: with the process that holds its other end.
async fn end_of_input() {
    let (mut input, mut bytes) = (tokio::io::stdin(), [0; 64]);
    while input.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}
