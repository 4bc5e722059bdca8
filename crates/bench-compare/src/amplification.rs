//! The `amplification` command: rows are overwritten at random, and what an engine writes, keeps and
//! reads for it is counted: by the engine's own counters where it has them, and by the sizes of its
//! files.
//!
//! Data of gigabytes would have to be written for hours to show the levels of a large tree. So the
//! memtable, files and levels of each engine are its defaults divided by `--parts`: the tree has the
//! shape of one that is so many times as large, but for what does not shrink (blocks, keys).

use crate::data::{Arrival, Data, DataSpec, Model, What};
use crate::engines::{self, BenchEngine, Entry, Merging, Result, Setup, Sizes, Written};
use crate::keys::KeyShape;
use crate::load;
use crate::measure::wait_until_quiet;
use crate::source::Source;
use crate::touched::Touched;
use crate::zipfian::Zipfian;
use bench_core::{KeyKind, Spent, SplitMix64, Stopwatch};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MEMTABLE_BYTES: u64 = 64 << 20;
/// Part of the data that the cache holds.
const CACHE_PART: u64 = 20;
/// How often runs are counted and files measured.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Reads that warm the cache, and those that are counted.
const GETS: u64 = 20_000;

/// Options of `bench-compare amplification`.
#[derive(Debug, Args)]
pub(crate) struct AmplificationArgs {
    /// Engines, separated by commas, of those that count what they write: stele, rocksdb.
    #[arg(long, value_delimiter = ',', default_value = "stele,rocksdb")]
    engines: Vec<String>,
    /// Rows, all of them there before the overwrites begin.
    #[arg(long, default_value_t = 3_000_000)]
    rows: u64,
    /// Bytes of each value; keys have 50.
    #[arg(long, default_value_t = 256)]
    value_bytes: usize,
    /// Overwrites, in multiples of the rows.
    #[arg(long, default_value_t = 2.0)]
    times: f64,
    /// Which rows are overwritten.
    #[arg(long, value_enum, default_value_t = Choice::Uniform)]
    keys: Choice,
    /// What default sizes are divided by: 8 gives memtables of 8 MiB. 1..=64.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=64))]
    parts: u64,
    /// Seed of the data and of the order of overwrites.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory on a disk in which data is made and removed again. Default: a temporary one in
    /// the current directory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// File for the results, one JSON object a line; replaced if it exists.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// All rows equally often.
    Uniform,
    /// Zipfian with exponent 0.99.
    Zipf,
}

/// What one engine did.
#[derive(Debug, Clone, Serialize)]
struct Amplified {
    /// Always `amplification`.
    workload: &'static str,
    engine: String,
    /// Rows there are, and overwrites of them.
    rows: u64,
    overwrites: u64,
    /// Bytes of keys and values of the overwrites.
    given_bytes: u64,
    /// Bytes of files that flushes and merging wrote for them, until all was at rest.
    flushed_bytes: u64,
    compacted_bytes: u64,
    /// Both for a byte given.
    write_amplification: f64,
    /// Bytes of all files for a byte of keys and values: at most, and at rest.
    space_amplification_max: f64,
    space_amplification_at_rest: f64,
    /// Sorted runs on disk while rows were overwritten: their mean over time, and the most; and at
    /// rest.
    runs_mean: f64,
    runs_max: u64,
    runs_at_rest: u64,
    /// Blocks read from disk for a get of a random row at rest.
    disk_reads_per_get: f64,
    /// Overwrites a second on the clock, and CPU time of the process for each, merging included.
    ops_per_s: f64,
    cpu_ns_per_op: f64,
    /// Every option that was set.
    options: String,
}

/// Measures the engines one after the other.
pub(crate) fn run(args: &AmplificationArgs) -> Result<()> {
    let rows = 1..=u64::from(u32::MAX);
    if !(rows.contains(&args.rows) && args.times > 0.0) {
        return Err("--rows must be 1 to 4294967295 and --times above 0".into());
    }
    let parent = args.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    std::fs::create_dir_all(&parent)?;
    let dir = tempfile::Builder::new().prefix("bench-compare-").tempdir_in(&parent)?;
    let mut json = args.json.as_ref().map(File::create).transpose()?;
    let spec = DataSpec {
        rows: args.rows,
        shape: KeyShape::Random,
        value_bytes: args.value_bytes,
        model: Model::Keys,
        arrival: Arrival::Sorted,
    };
    let data = Data::new(spec, args.seed);
    let mut all = Vec::new();
    for name in &args.engines {
        let entry = engines::by_name(name)?;
        crate::progress(&format!("{name}: overwriting {} times {} rows", args.times, args.rows));
        let amplified = measure(entry, &data, args, dir.path())?;
        if let Some(file) = &mut json {
            writeln!(file, "{}", serde_json::to_string(&amplified)?)?;
        }
        all.push(amplified);
    }
    bench_core::print(&table(&all));
    Ok(())
}

fn setup(data: &Data, args: &AmplificationArgs) -> Setup {
    Setup {
        model: Model::Keys,
        row_bytes: 0,
        cache_bytes: (data.spec.bytes() / CACHE_PART).max(2 << 20) as usize,
        memtable_bytes: (MEMTABLE_BYTES / args.parts) as usize,
        disk_bound: true,
        merging: Merging::Automatic,
        of_runs: false,
        sizes: Sizes::Parts(args.parts),
    }
}

fn measure(
    entry: &Entry,
    data: &Data,
    args: &AmplificationArgs,
    parent: &Path,
) -> Result<Amplified> {
    let setup = setup(data, args);
    let configuration = (entry.configurations)(&setup)?[0];
    let dir = parent.join(entry.name);
    std::fs::create_dir_all(&dir)?;
    let engine = (entry.open)(&dir, &setup, configuration)?;
    let counted = || engine.written().ok_or("this engine does not count what it writes");
    load::prepare(&*engine, data)?;
    let before = counted()?;
    let live = data.spec.bytes() as f64;
    let watched = Watched::default();
    let watch = Stopwatch::start();
    let (overwrites, making, seen) =
        watched.during(&*engine, &dir, || overwrite(&*engine, data, args))?;
    engine.flush()?;
    let idle = wait_until_quiet().ok_or("background work never came to rest")?;
    let spent = watch.spent().without(idle).without(making);
    let after = counted()?;
    crate::warm::check_all(&*engine, data)?;
    let given = overwrites * data.spec.bytes() / data.spec.rows;
    let (flushed, compacted) = (after.flushed - before.flushed, after.compacted - before.compacted);
    let amplified = Amplified {
        workload: "amplification",
        engine: entry.name.to_owned(),
        rows: data.spec.rows,
        overwrites,
        given_bytes: given,
        flushed_bytes: flushed,
        compacted_bytes: compacted,
        write_amplification: (flushed + compacted) as f64 / given as f64,
        space_amplification_max: seen.bytes_max as f64 / live,
        space_amplification_at_rest: crate::disk::sst_bytes(&dir) as f64 / live,
        runs_mean: seen.runs as f64 / seen.looks.max(1) as f64,
        runs_max: seen.runs_max,
        runs_at_rest: after.runs,
        disk_reads_per_get: reads_per_get(&*engine, data, args.seed)?,
        ops_per_s: overwrites as f64 / spent.wall.as_secs_f64(),
        cpu_ns_per_op: spent.cpu.as_nanos() as f64 / overwrites as f64,
        options: engine.options(),
    };
    engine.close()?;
    std::fs::remove_dir_all(&dir)?;
    Ok(amplified)
}

/// Overwrites rows; gives how many, and what making them cost.
fn overwrite(
    engine: &dyn BenchEngine,
    data: &Data,
    args: &AmplificationArgs,
) -> Result<(u64, Spent)> {
    let rows = data.spec.rows;
    let count = (rows as f64 * args.times).ceil() as u64;
    let mut draw = SplitMix64(args.seed ^ 0x616d_706c);
    let zipfian = (args.keys == Choice::Zipf).then(|| Zipfian::new(rows));
    let numbers = (0..count).map(|_| match &zipfian {
        Some(zipfian) => zipfian.draw(&mut draw),
        None => draw.below(rows),
    });
    let mut source = Source::new(data, What::First, numbers);
    while let Some(cells) = source.next_chunk() {
        cells.chunks(load::BATCH).try_for_each(|batch| engine.write(batch))?;
    }
    Ok((source.cells(), source.making()))
}

/// What was seen while rows were overwritten.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    looks: u64,
    runs: u64,
    runs_max: u64,
    bytes_max: u64,
}

impl Seen {
    fn look(&mut self, written: Option<Written>, bytes: u64) {
        let runs = written.map_or(0, |written| written.runs);
        self.looks += 1;
        self.runs += runs;
        self.runs_max = self.runs_max.max(runs);
        self.bytes_max = self.bytes_max.max(bytes);
    }
}

/// Looks at an engine now and then while it is written.
#[derive(Debug, Default)]
struct Watched {
    over: AtomicBool,
}

impl Watched {
    fn during<T, U>(
        &self,
        engine: &dyn BenchEngine,
        dir: &Path,
        act: impl FnOnce() -> Result<(T, U)>,
    ) -> Result<(T, U, Seen)> {
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut seen = Seen::default();
                while !self.over.load(Ordering::Relaxed) {
                    seen.look(engine.written(), crate::disk::sst_bytes(dir));
                    std::thread::sleep(LOOK_EVERY);
                }
                seen
            });
            let done = act();
            self.over.store(true, Ordering::Relaxed);
            let seen = watch.join().map_err(|_| "the watch panicked")?;
            let (one, other) = done?;
            Ok((one, other, seen))
        })
    }
}

/// Blocks read from disk for a get of any row, once the cache is warm.
fn reads_per_get(engine: &dyn BenchEngine, data: &Data, seed: u64) -> Result<f64> {
    let mut draw = SplitMix64(seed ^ 0x6765_7473);
    let mut get_some = || -> Result<u64> {
        let before = engine.disk_reads().map_or(0, |reads| reads.reads);
        {
            let (mut reader, mut touched) = (engine.reader()?, Touched::default());
            let mut key = Vec::new();
            for _ in 0..GETS {
                key.clear();
                data.append_key(draw.below(data.spec.rows), KeyKind::Present, &mut key);
                reader.get(&key, &mut touched)?;
            }
        }
        Ok(engine.disk_reads().map_or(0, |reads| reads.reads) - before)
    };
    get_some()?;
    Ok(get_some()? as f64 / GETS as f64)
}

fn table(all: &[Amplified]) -> String {
    let mut text = format!(
        "{:<8} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>9} {:>10} {:>10}\n",
        "engine",
        "write amp",
        "space max",
        "space",
        "runs mean",
        "runs max",
        "at rest",
        "reads/get",
        "ops/s",
        "ns CPU/op"
    );
    for one in all {
        text += &format!(
            "{:<8} {:>9.2} {:>9.2} {:>9.2} {:>9.1} {:>8} {:>8} {:>9.2} {:>10.0} {:>10.0}\n",
            one.engine,
            one.write_amplification,
            one.space_amplification_max,
            one.space_amplification_at_rest,
            one.runs_mean,
            one.runs_max,
            one.runs_at_rest,
            one.disk_reads_per_get,
            one.ops_per_s,
            one.cpu_ns_per_op,
        );
    }
    for one in all {
        text += &format!("\n{}: {}", one.engine, one.options);
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: AmplificationArgs,
    }

    #[test]
    fn what_engines_write_and_keep_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let counting: Vec<&str> = engines::ALL.iter().map(|entry| entry.name).collect();
        let counting = counting.into_iter().filter(|name| ["stele", "rocksdb"].contains(name));
        let counting: Vec<&str> = counting.collect();
        for keys in ["uniform", "zipf"] {
            let line = format!(
                "amplification --engines {} --rows 20000 --times 2 --parts 64 --keys {keys} \
                 --dir {} --json {}",
                counting.join(","),
                dir.path().display(),
                dir.path().join("out.json").display()
            );
            run(&Cli::parse_from(line.split_whitespace()).args).unwrap();
            let lines = std::fs::read_to_string(dir.path().join("out.json")).unwrap();
            assert_eq!(lines.lines().count(), counting.len());
            for line in lines.lines() {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                let of = |name: &str| line[name].as_f64().unwrap();
                assert_eq!(of("overwrites"), 40_000.0);
                assert!(of("flushed_bytes") > 0.0 && of("write_amplification") > 0.0, "{line}");
                assert!(of("space_amplification_at_rest") > 0.9, "{line}");
                assert!(of("runs_at_rest") >= 1.0, "{line}");
            }
        }
    }
}
