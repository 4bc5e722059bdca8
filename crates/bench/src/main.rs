//! Benchmarks: each subcommand prints what it measured. Speed claims come from here and never
//! from timed tests; ratios within one run count more than absolute figures.

mod front;
mod keys;
mod kv;
mod measure;

use clap::Parser;
use std::process::ExitCode;

/// Measures Stele. Build with --release.
#[derive(Debug, Parser)]
#[command(name = "bench")]
enum Bench {
    /// The engine by itself: load, point reads, scan, bytes on disk.
    Kv(kv::KvArgs),
    /// The same through the Bigtable API of a running server.
    Bigtable(front::FrontArgs),
}

#[expect(clippy::print_stderr, reason = "a program tells its user what went wrong")]
fn main() -> ExitCode {
    let done = match Bench::parse() {
        Bench::Kv(args) => kv::run(&args).map_err(|error| error.to_string()),
        Bench::Bigtable(args) => front::run(&args).map_err(|error| error.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
