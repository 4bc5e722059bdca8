//! The `stele` binary. Nothing is decided here but which subcommand runs and what its outcome
//! means as an exit status:
//!
//! | status | meaning |
//! |---|---|
//! | 0 | done; for `check`: clean; for `repair`: nothing is lost; for `backup verify`: whole |
//! | 1 | failed, and the last line on standard error says why and what to do; for `check` and `backup verify`: damaged; for `repair`: something is lost |
//! | 2 | refused before anything was touched: a bad flag, configuration or file; for `check`: unusable |

mod admin;
mod adopt;
mod cert;
mod cli;
mod cluster;
mod config;
mod connect;
mod copies;
mod dev_cluster;
mod environment;
mod export;
mod identity;
mod import;
mod inspect;
mod load;
mod load_sorted;
mod logging;
mod manual;
mod serve;
mod size;
mod state_file;
mod table_args;

use clap::Parser;
use cli::{Cli, Command};
use config::ConfigError;
use profile::heap::SampledAllocator;
use std::io::Write;
use std::process::ExitCode;

/// The system's allocator; `serve` has some of its allocations sampled, for heap profiles.
#[global_allocator]
static ALLOCATOR: SampledAllocator = SampledAllocator;

fn main() -> ExitCode {
    base::allocator::give_back_what_is_freed();
    base::env::real::raise_open_files_max();
    let outcome = match Cli::parse().command {
        Command::Serve(args) => {
            environment::check().map_err(Into::into).and_then(|ignored| serve::run(&args, &ignored))
        }
        Command::Import(args) => import::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Load(args) => load::run(&args),
        Command::LoadSorted(args) => load_sorted::run(&args),
        Command::Dump(args) => inspect::dump(&args),
        Command::Check(args) => inspect::check(&args),
        Command::Adopt(args) => adopt::run(&args),
        Command::Repair(args) => inspect::repair(&args),
        Command::Admin(args) => admin::run(&args),
        Command::Checkpoint(args) => copies::checkpoint(&args),
        Command::Clone(args) => copies::clone(&args),
        Command::Backup(args) => copies::backup(&args),
        Command::Restore(args) => copies::restore(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::DevCluster(args) => dev_cluster::run(&args),
        Command::Cert(args) => cert::run(&args),
        Command::Identity(args) => identity::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
        Command::Version => version(),
    };
    outcome.unwrap_or_else(|error| fail(&error))
}

/// Says on standard error what went wrong, with its causes.
fn fail(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "stele: {error:#}");
    if error.is::<ConfigError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}

fn version() -> anyhow::Result<ExitCode> {
    writeln!(std::io::stdout(), "stele {}", env!("CARGO_PKG_VERSION"))?;
    Ok(ExitCode::SUCCESS)
}
