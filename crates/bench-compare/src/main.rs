//! Named workloads over Stele's engine and its peers, side by side in one run. How to run it and
//! how to read what it prints: `docs/benchmark-method.md`.

#[cfg(feature = "jemalloc")]
mod allocator;
mod amplification;
mod data;
mod disk;
mod engines;
mod fio;
mod group;
mod keys;
mod load;
mod measure;
mod report;
mod run;
mod slice;
mod source;
mod touched;
mod warm;
mod workloads;
mod zipfian;

use clap::Parser;
use std::process::ExitCode;

/// Compares Stele with RocksDB, fjall and LMDB. Build with --release.
#[derive(Debug, Parser)]
#[command(name = "bench-compare")]
enum Cli {
    /// Runs workloads and prints what each engine did, and the ratio of Stele to RocksDB.
    Run(run::RunArgs),
    /// Overwrites rows at random and prints what that costs: bytes written and kept for each byte
    /// of data, and sorted runs.
    Amplification(amplification::AmplificationArgs),
    /// Lists the workloads.
    List,
}

fn main() -> ExitCode {
    let done = match Cli::parse() {
        Cli::Run(args) => run::run(&args),
        Cli::Amplification(args) => amplification::run(&args),
        Cli::List => {
            run::list();
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            progress(&format!("bench-compare: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Tells on standard error what is going on.
#[expect(clippy::print_stderr, reason = "progress of a long run, and errors, are for its user")]
fn progress(line: &str) {
    eprintln!("{line}");
}
