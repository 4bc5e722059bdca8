//! `bench ablate`: what each part of the read path buys. The same reads of the same files, with
//! everything on and with one part switched off, in turns.
//!
//! 1. Each data set is written once. Every engine that reads it has a directory of its own, in
//!    which the files of the first appear again by hard links, so that both sides of a comparison
//!    are open and warm at the same time, and a disturbance of the machine meets both.
//! 2. A pair is one slice of each side: the same questions in the same order. Which side comes
//!    first changes from pair to pair. Ratios are taken within a pair.
//! 3. Questions are made outside of the measured time.

mod data;
mod facts;
mod pairs;
mod report;
mod switches;
mod workloads;

use clap::{Args, ValueEnum};
use data::{DataSet, Loaded, Opened, Room};
use pairs::Compared;
use report::Report;
use std::path::{Path, PathBuf};
use switches::SWITCHES;
use workloads::{Warmth, Workload};

/// What ends the benchmark before its time.
type AnyError = Box<dyn std::error::Error>;

/// Options of `bench ablate`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AblateArgs {
    /// Rows of the data set of keys; wide rows are an eighth of it, rows in eight runs a quarter.
    #[arg(long, default_value_t = 2_000_000)]
    rows: u64,
    /// Reads in one slice of cached work; a slice of scanning reads everything once.
    #[arg(long, default_value_t = 100_000)]
    reads: u64,
    /// Reads in one slice of work that goes to disk.
    #[arg(long, default_value_t = 4_000)]
    cold_reads: u64,
    /// Slices of each side.
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Switches to turn off, by name. Default: each of them.
    #[arg(long, value_delimiter = ',')]
    switches: Vec<String>,
    /// Data sets to read, by name. Default: each of them.
    #[arg(long, value_delimiter = ',', value_enum)]
    data: Vec<DataSet>,
    /// Directory to create for the data; must not exist. Default: a temporary one. Removed at the
    /// end if it is temporary.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
    /// Seed of the questions.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the benchmark.
pub(crate) fn run(args: &AblateArgs) -> Result<(), AnyError> {
    let known = |name: &String| SWITCHES.iter().any(|switch| switch.name == name);
    if let Some(unknown) = args.switches.iter().find(|name| !known(name)) {
        let names: Vec<_> = SWITCHES.iter().map(|switch| switch.name).collect();
        return Err(format!("no switch is called {unknown}; there are {}", names.join(", ")).into());
    }
    if args.pairs == 0 || args.rows < data::ROWS_MIN {
        return Err(format!("at least 1 pair and {} rows", data::ROWS_MIN).into());
    }
    let temporary = tempfile::tempdir()?;
    let dir = match &args.dir {
        Some(dir) if dir.exists() => {
            return Err(format!("{} exists; choose a new directory", dir.display()).into());
        }
        Some(dir) => dir.clone(),
        None => temporary.path().join("ablate"),
    };
    let mut report = Report::new(args.json);
    let sets = if args.data.is_empty() { DataSet::value_variants() } else { &args.data };
    for set in sets {
        measure(args, &set.load(args.rows, &dir.join(set.name()))?, &dir, &mut report)?;
    }
    report.finish();
    Ok(())
}

/// Measures one data set: what is known of it, and what each switch does to its workloads.
fn measure(
    args: &AblateArgs,
    data: &Loaded,
    dir: &Path,
    report: &mut Report,
) -> Result<(), AnyError> {
    report.memory(data.set, &facts::memory(data)?);
    for warmth in [Warmth::Cached, Warmth::Cold] {
        let workloads: Vec<_> = Workload::of(data.set, warmth).collect();
        if workloads.is_empty() {
            continue;
        }
        let room = match warmth {
            Warmth::Cached => Room::Everything,
            Warmth::Cold => Room::Twentieth,
        };
        let on = data.open(&dir.join("on"), room, |_| {})?;
        warm(args, &on, &workloads)?;
        for workload in &workloads {
            report.filter_use(workload.name, &facts::filter_use(args, workload, &on)?);
        }
        let wanted =
            |name: &str| args.switches.is_empty() || args.switches.iter().any(|n| n == name);
        for switch in SWITCHES.iter().filter(|switch| wanted(switch.name)) {
            let off = data.open(&dir.join("off"), room, switch.off)?;
            warm(args, &off, &workloads)?;
            for workload in &workloads {
                let compared = Compared::measure(args, workload, &on, &off)?;
                report.compared(switch, workload, &compared);
            }
            off.remove()?;
        }
        on.remove()?;
    }
    Ok(())
}

/// Brings in what the workloads read: all of it, or until the cache has been filled more than once.
fn warm(args: &AblateArgs, opened: &Opened, workloads: &[&Workload]) -> Result<(), AnyError> {
    if opened.room == Room::Everything {
        workloads::scan_all(opened)?;
    }
    for workload in workloads {
        for round in 0..2 {
            let questions = workload.questions(args, opened, u64::MAX - round);
            (workload.run)(opened, &questions)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: AblateArgs,
    }

    fn small(more: &[&str]) -> AblateArgs {
        let args = ["ablate", "--rows", "4000", "--reads", "320", "--cold-reads", "64"];
        Cli::parse_from(args.iter().chain(more)).args
    }

    #[test]
    fn the_benchmark_runs_small() {
        run(&small(&["--pairs", "1"])).unwrap();
        run(&small(&["--pairs", "2", "--switches", "filters", "--data", "wide", "--json"]))
            .unwrap();
    }

    #[test]
    fn an_unknown_switch_is_refused_by_name() {
        let refused = run(&small(&["--switches", "luck"])).unwrap_err().to_string();
        assert!(refused.contains("luck") && refused.contains("filters"), "{refused}");
    }
}
