//! `bench compaction-sim`: what compaction costs at sizes that nobody wants to write for it.
//!
//! A tree of sizes only: the engine's own picks and splits decide, nothing is read or written.
//! Rows are drawn evenly from a universe of `size` bytes, all of which are in the last level at the
//! start; then every write overwrites one. Time is counted: flushes come at the rate of writes, and
//! a compaction takes its bytes divided by the rate of compactions, two at a time. Where a tree has
//! all the runs it may, the next flush waits, and when another memtable is full writers do.
//!
//! Beside it, `--check` runs a real engine at a small size with the same options, so that the
//! simulator can be believed.

mod real;
mod tree;

use crate::AnyError;
use bench_core::print;
use clap::Args;
use engine::Options;
use std::fmt::Write;
use tree::SimTree;

/// Files of the last level of a simulated tree, at most: a larger tree has larger files. How much is
/// rewritten does not depend on that, for files are cut by what they overlap.
const FILES_MAX: u64 = 1024;
const MIB: u64 = 1 << 20;

/// Options of `bench compaction-sim`.
#[derive(Debug, Args)]
pub(crate) struct CompactionSimArgs {
    /// Sizes of trees, in GiB.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,500,1000,5000,20000")]
    gib: Vec<u64>,
    /// Rate of writes, in MiB a second.
    #[arg(long, default_value_t = 4.0)]
    write_mib: f64,
    /// Rate at which each of two compactions reads and writes, in MiB a second.
    #[arg(long, default_value_t = 100.0)]
    compact_mib: f64,
    /// Size of a memtable, in MiB.
    #[arg(long, default_value_t = 64)]
    memtable_mib: u64,
    /// How often level 1 is filled anew while figures are taken.
    #[arg(long, default_value_t = 6)]
    rounds: u64,
    /// Compare with a real engine of this many MiB, with sizes a sixty-fourth of the usual.
    #[arg(long)]
    check: bool,
    /// Size of the real engine, in MiB of live data.
    #[arg(long, default_value_t = 128)]
    check_mib: u64,
}

/// What a run showed.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    /// Bytes flushed and compacted for a byte flushed.
    write_amplification: f64,
    /// Bytes on disk for a byte of live data, at most.
    space_amplification: f64,
    /// Runs in front of a scan: the mean over time, and the most.
    runs_mean: f64,
    runs_max: u64,
    /// Part of the time that writers would stand still.
    stopped: f64,
}

/// Runs the simulation and prints a line for each size.
pub(crate) fn run(args: &CompactionSimArgs) -> Result<(), AnyError> {
    let mut text = String::new();
    heading(&mut text)?;
    if args.check {
        let options = small_options();
        let bytes = args.check_mib * MIB;
        let simulated = simulate(bytes, &options, args, args.rounds.max(6));
        line(&mut text, &format!("{} MiB, simulated", args.check_mib), &simulated)?;
        let real = real::run(bytes, &options)?;
        line(&mut text, &format!("{} MiB, engine", args.check_mib), &real)?;
    }
    for gib in &args.gib {
        let bytes = gib << 30;
        let mut options = Options {
            memtable_bytes_max: (args.memtable_mib * MIB) as usize,
            ..Options::default()
        };
        options.sst_bytes_max = options.sst_bytes_max.max(bytes / FILES_MAX);
        let shown = simulate(bytes, &options, args, args.rounds);
        line(&mut text, &format!("{gib} GiB"), &shown)?;
    }
    print(text.trim_end());
    Ok(())
}

/// Those of the check: a sixty-fourth of the usual.
fn small_options() -> Options {
    let usual = Options::default();
    Options {
        memtable_bytes_max: usual.memtable_bytes_max / 64,
        sst_bytes_max: usual.sst_bytes_max / 64,
        l1_bytes_max: usual.l1_bytes_max / 64,
        ..usual
    }
}

fn simulate(bytes: u64, options: &Options, args: &CompactionSimArgs, rounds: u64) -> Shown {
    let rates =
        tree::Rates { write: args.write_mib * MIB as f64, compact: args.compact_mib * MIB as f64 };
    let mut tree = SimTree::new(bytes, options.clone(), rates);
    let flushes = tree.flushes_of_a_round();
    tree.run(flushes);
    tree.forget();
    tree.run(flushes * rounds);
    tree.shown()
}

fn heading(text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "{:<22} {:>10} {:>10} {:>12} {:>9} {:>9}",
        "live data", "write amp", "space amp", "runs (mean)", "runs max", "stopped"
    )
}

fn line(text: &mut String, name: &str, shown: &Shown) -> std::fmt::Result {
    let Shown { write_amplification, space_amplification, runs_mean, runs_max, stopped } = shown;
    writeln!(
        text,
        "{name:<22} {write_amplification:>10.1} {space_amplification:>10.2} {runs_mean:>12.1} \
         {runs_max:>9} {:>7.1} %",
        stopped * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(write_mib: f64) -> CompactionSimArgs {
        CompactionSimArgs {
            gib: Vec::new(),
            write_mib,
            compact_mib: 100.0,
            memtable_mib: 64,
            rounds: 2,
            check: false,
            check_mib: 0,
        }
    }

    #[test]
    fn figures_are_within_what_the_shape_promises() {
        let shown = simulate(10 << 30, &Options::default(), &args(2.0), 2);
        assert!((3.0..40.0).contains(&shown.write_amplification), "{shown:?}");
        assert!((1.0..1.6).contains(&shown.space_amplification), "{shown:?}");
        assert!(shown.runs_mean <= 6.0 && shown.runs_max <= 6, "{shown:?}");
        assert_eq!(shown.stopped, 0.0, "{shown:?}");
    }

    #[test]
    fn writers_stop_when_compactions_cannot_keep_up() {
        let shown = simulate(10 << 30, &Options::default(), &args(200.0), 2);
        assert!(shown.stopped > 0.3, "{shown:?}");
        assert!(
            shown.runs_max as usize <= engine::internals::runs_max(&Options::default()),
            "{shown:?}"
        );
    }
}
