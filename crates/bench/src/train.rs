//! `bench train`: starts a server binary on loopback with an empty directory and drives it through
//! named workloads, then stops it with SIGTERM and wants exit status 0. It gives an instrumented
//! binary its profile, and tells the CPU time that the server took for an operation of each
//! workload. Several binaries are driven in turns and compared (`scripts/build-optimized`,
//! `scripts/evaluate-optimized`).
//!
//! The tables that workloads read are filled before the first of them, whichever they are.

mod compare;
mod session;
mod workloads;

use crate::AnyError;
use crate::measure::Phase;
use crate::server::Server;
use bench_core::print;
use clap::Args;
use compare::Comparison;
use session::Session;
use std::path::{Path, PathBuf};
use std::time::Instant;
use workloads::Workload;

/// Small enough that every workload meets flushes, compactions and SSTables.
const FLAGS: [&str; 6] = [
    "--memtable-bytes-max=2MiB",
    "--log-segment-bytes=4MiB",
    "--l0-runs-compact=3",
    "--l1-bytes-max=16MiB",
    "--durability=interval=50",
    "--log-level=warn",
];

/// Options of `bench train`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrainArgs {
    /// Server binary to drive; may be given many times, to compare them with the first.
    #[arg(long, required_unless_present = "list")]
    server: Vec<PathBuf>,
    /// Times to drive each server, in turns.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Workloads, in the order they are run in. Default: each of them.
    #[arg(long, value_enum, value_delimiter = ',')]
    workloads: Vec<Workload>,
    /// Workloads to leave out.
    #[arg(long, value_enum, value_delimiter = ',')]
    leave_out: Vec<Workload>,
    /// Rows of each table.
    #[arg(long, default_value_t = 20_000)]
    rows: u64,
    /// Requests under way at once.
    #[arg(long, default_value_t = 8)]
    clients: u64,
    /// Seed of keys and questions.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the workloads' names and do nothing else.
    #[arg(long)]
    list: bool,
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
}

impl TrainArgs {
    /// The workloads to run.
    fn chosen(&self) -> Vec<Workload> {
        let all = if self.workloads.is_empty() { &Workload::ALL[..] } else { &self.workloads };
        all.iter().copied().filter(|workload| !self.leave_out.contains(workload)).collect()
    }
}

/// Runs the benchmark.
pub(crate) fn run(args: &TrainArgs) -> Result<(), AnyError> {
    if args.list {
        Workload::ALL.iter().for_each(|workload| print(workload.name()));
        return Ok(());
    }
    if args.rows == 0 || args.clients == 0 || args.rounds == 0 {
        return Err("at least 1 row, 1 client and 1 round".into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let alone = args.server.len() == 1 && args.rounds == 1;
    let mut comparison = Comparison::new(&args.server);
    for round in 0..args.rounds {
        // Another server begins in every round.
        for at in 0..args.server.len() {
            let at = (at + round) % args.server.len();
            let phases = runtime.block_on(train(args, &args.server[at].canonicalize()?))?;
            if alone {
                phases.iter().for_each(|phase| show(args, phase));
            }
            comparison.add(at, &phases);
        }
    }
    if !alone {
        comparison.lines(args.json).iter().for_each(|line| print(line));
    }
    Ok(())
}

/// Starts the server, drives it through the workloads, and stops it.
async fn train(args: &TrainArgs, binary: &Path) -> Result<Vec<Phase>, AnyError> {
    let dir = tempfile::tempdir()?;
    let server = Server::start(binary, dir.path(), &FLAGS.map(str::to_owned))?;
    let mut session = Session::open(args, server, dir.path()).await?;
    session.fill().await?;
    let mut phases = Vec::new();
    for workload in args.chosen() {
        session.server.rest().await?;
        let (begin, before) = (Instant::now(), session.server.cpu()?);
        let operations = workload.run(&mut session).await?;
        session.server.rest().await?;
        phases.push(Phase {
            name: workload.name().to_owned(),
            operations,
            wall: begin.elapsed(),
            cpu: session.server.cpu()?.saturating_sub(before),
            percentiles_us: None,
        });
    }
    session.server.terminate().await?;
    Ok(phases)
}

fn show(args: &TrainArgs, phase: &Phase) {
    print(&if args.json { phase.json() } else { phase.line() });
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: TrainArgs,
    }

    fn args(more: &[&str]) -> TrainArgs {
        Cli::parse_from(["train", "--server", "stele"].iter().chain(more)).args
    }

    #[test]
    fn workloads_are_chosen_and_left_out() {
        assert_eq!(args(&[]).chosen(), Workload::ALL);
        let chosen = args(&["--workloads", "scan,recovery", "--leave-out", "scan"]).chosen();
        assert_eq!(chosen, [Workload::Recovery]);
        let chosen = args(&["--leave-out", "scan,recovery"]).chosen();
        assert_eq!(chosen.len(), Workload::ALL.len() - 2);
    }

    #[test]
    fn a_server_that_does_not_start_is_an_error() {
        let mut args = args(&["--rows", "10"]);
        args.server = vec!["/bin/false".into()];
        let error = run(&args).unwrap_err().to_string();
        assert!(error.contains("did not start"), "{error}");
    }
}
