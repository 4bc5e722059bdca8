//! The `run` command: which engines, which workloads, in which directory.

use crate::engines::{self, Entry, Result};
use crate::fio;
use crate::group::{self, Plan};
use crate::report::Report;
use crate::workloads::{self, Memory, Workload};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of `bench-compare run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Engines, separated by commas: stele, rocksdb, fjall, lmdb. Ratios need the first two.
    #[arg(long, value_delimiter = ',', default_value = "stele,rocksdb,fjall,lmdb")]
    engines: Vec<String>,
    /// Workloads, separated by commas; a name may end in `*`. Default: all of them; see `list`.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    workloads: Vec<String>,
    /// Configurations, separated by commas, as the table names them. An engine with none of them
    /// tries all it has, as without this.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    configurations: Vec<String>,
    /// Pairs of alternating slices for each workload. 7 or more for figures to quote.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Factor on the rows of every data set. 1: 3 million keys of cached data (0.9 GB an engine).
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Seconds that the slowest engine's slice should take; faster engines do the same calls.
    #[arg(long, default_value_t = 1.5)]
    slice_seconds: f64,
    /// Seed of the data and of the order of reads.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory on a disk in which data sets are made and removed again, some 6 GB at scale 1.
    /// Default: a temporary one in the current directory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// File for the results, one JSON object a line; replaced if it exists.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs what `args` ask for. Wrong answers of an engine are an error.
pub(crate) fn run(args: &RunArgs) -> Result<()> {
    if !(args.scale > 0.0 && args.slice_seconds > 0.0) {
        return Err("--scale and --slice-seconds must be above 0".into());
    }
    let engines: Vec<&'static Entry> =
        args.engines.iter().map(|name| engines::by_name(name)).collect::<Result<_>>()?;
    let engines = neighbours(engines);
    let workloads = chosen(workloads::all(args.scale), &args.workloads)?;
    let parent = args.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    std::fs::create_dir_all(&parent)?;
    let dir = tempfile::Builder::new().prefix("bench-compare-").tempdir_in(&parent)?;
    let in_memory = check_disk(dir.path())?;
    let mut report = Report::new(args.json.as_deref())?;
    let plan = Plan {
        engines: &engines,
        configurations: &args.configurations,
        pairs: args.pairs as usize,
        slice: Duration::from_secs_f64(args.slice_seconds),
        seed: args.seed,
        dir: dir.path(),
    };
    for workloads in groups(workloads) {
        let scarce = workloads.iter().find(|workload| workload.memory == Memory::Scarce);
        if scarce.is_some() && in_memory {
            return Err("uncached workloads need --dir on a disk, and this is memory".into());
        }
        group::run(&plan, &workloads, &mut report)?;
        if let Some(workload) = scarce {
            run_fio(dir.path(), workload, &mut report)?;
        }
    }
    bench_core::print(&report.table());
    Ok(())
}

/// Prints the workloads.
pub(crate) fn list() {
    for workload in workloads::all(1.0) {
        bench_core::print(&format!("{:<18} {}", workload.name, workload.about));
    }
}

/// Stele and RocksDB side by side, so that little time passes within a pair.
fn neighbours(mut engines: Vec<&'static Entry>) -> Vec<&'static Entry> {
    engines.sort_by_key(|entry| match entry.name {
        "stele" => 0,
        "rocksdb" => 1,
        _ => 2,
    });
    engines.dedup_by_key(|entry| entry.name);
    engines
}

fn chosen(all: Vec<Workload>, wanted: &[String]) -> Result<Vec<Workload>> {
    let matches = |name: &str, wanted: &str| match wanted.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == wanted,
    };
    for wanted in wanted {
        if !all.iter().any(|workload| matches(&workload.name, wanted)) {
            return Err(format!("no workload is called {wanted}; see `bench-compare list`").into());
        }
    }
    let keep = |workload: &Workload| {
        wanted.is_empty() || wanted.iter().any(|wanted| matches(&workload.name, wanted))
    };
    Ok(all.into_iter().filter(keep).collect())
}

/// Workloads that share data, memory and kind of work, together.
fn groups(workloads: Vec<Workload>) -> Vec<Vec<Workload>> {
    let mut groups: Vec<Vec<Workload>> = Vec::new();
    for workload in workloads {
        let same = |group: &&mut Vec<Workload>| {
            group.iter().any(|other| {
                other.data == workload.data
                    && other.memory == workload.memory
                    && other.is_load() == workload.is_load()
            })
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(workload),
            None => groups.push(vec![workload]),
        }
    }
    groups
}

/// Whether `dir` is in memory, which is told.
fn check_disk(dir: &Path) -> Result<bool> {
    let kind = crate::disk::file_system_of(dir).unwrap_or_else(|| "unknown".to_owned());
    crate::progress(&format!("data in {} ({kind})", dir.canonicalize()?.display()));
    let in_memory = crate::disk::is_memory(&kind);
    if in_memory {
        crate::progress("warning: this is memory; loads will look faster than on a disk");
    }
    Ok(in_memory)
}

fn run_fio(dir: &Path, workload: &Workload, report: &mut Report) -> Result<()> {
    for depth in [1, 32] {
        crate::progress(&format!("fio at depth {depth}"));
        match fio::measure(dir, workload.data.bytes(), depth) {
            Ok(all) => all.into_iter().try_for_each(|figures| report.figures(figures))?,
            Err(error) => report.skipped(&format!("fio-{depth}"), "fio", &error.to_string())?,
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
        args: RunArgs,
    }

    fn args(dir: &Path, workloads: &str) -> RunArgs {
        let engines: Vec<&str> = engines::ALL.iter().map(|entry| entry.name).collect();
        let line = format!(
            "run --engines {} --workloads {workloads} --pairs 2 --scale 0.0001 \
             --slice-seconds 0.01 --dir {} --json {}",
            engines.join(","),
            dir.display(),
            dir.join("out.json").display()
        );
        Cli::parse_from(line.split_whitespace()).args
    }

    #[test]
    fn every_way_of_arriving_and_reading_gives_the_same_answers_on_every_engine() {
        let dir = tempfile::tempdir().unwrap();
        let workloads = "get-*,multi-get-32,seek-*,scan,wide-*,runs-8-*,random-load,bulk-load,\
                         shape-url,shape-overwrite-20,shape-deletes,shape-value-65536";
        run(&args(dir.path(), workloads)).unwrap();
        let lines = std::fs::read_to_string(dir.path().join("out.json")).unwrap();
        let of_stele =
            lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let of_stele = of_stele.filter(|line| line["engine"] == "stele").count();
        assert_eq!(of_stele, 18, "each workload has a line");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "data is removed");
    }

    #[test]
    fn an_unknown_workload_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(run(&args(dir.path(), "get-hot")).is_err());
    }

    #[test]
    fn workloads_that_share_data_share_a_load() {
        let groups = groups(workloads::all(0.001));
        let names = |workload: &str| {
            let group = groups.iter().find(|group| group.iter().any(|w| w.name == workload));
            group.unwrap().iter().map(|workload| workload.name.as_str()).collect::<Vec<_>>()
        };
        let plain =
            ["get-hit", "get-hit-zipf", "get-miss", "multi-get-32", "seek-10", "seek-100", "scan"];
        assert_eq!(names("scan"), plain);
        assert_eq!(names("cold-get-1"), ["cold-get-1", "cold-get-32"]);
        assert_eq!(names("bulk-load"), ["random-load", "bulk-load"]);
    }
}
