//! `bench cache-warming`: gets of data far larger than the cache, most of them of few rows, while all of it
//! is compacted: what goes to disk right after a compaction, with and without cache warming.
//!
//! Two engines with the same rows take turns. A round updates random rows, flushes them, reads until
//! the cache is warm, compacts everything while it goes on reading, and reads on. Steady turns
//! (steady.rs) leave compactions to the engine.

mod steady;

use crate::AnyError;
use bench_core::{SplitMix64, print, random_value};
use clap::{Args, ValueEnum};
use engine::internals::ReadPath;
use engine::{
    Column, ColumnOf, Durability, Engine, FamilyId, IngestOptions, Options, RowRange, Timestamp,
    Tree, TreeId, TreeOptions, WriteBatch,
};
use hdrhistogram::Histogram;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const TREE: TreeId = TreeId(1);
const FAMILY: FamilyId = FamilyId(1);
/// Steps from a rank to its row, so that rows that are asked for often lie apart.
const STEP: u64 = 0x9e37_79b1;

/// Options of `bench cache-warming`.
#[derive(Debug, Args)]
pub(crate) struct CacheWarmingArgs {
    /// Rows to load.
    #[arg(long, default_value_t = 2_000_000)]
    rows: u64,
    /// Bytes of each value (incompressible).
    #[arg(long, default_value_t = 256)]
    value_bytes: usize,
    /// Bytes of a data block.
    #[arg(long, default_value_t = 16 << 10)]
    block: u32,
    /// How many times larger than the cache the values are.
    #[arg(long, default_value_t = 8)]
    times: u64,
    /// Rows are updated, in each round one of so many.
    #[arg(long, default_value_t = 20)]
    updates: u64,
    /// Gets before a compaction; some less after it.
    #[arg(long, default_value_t = 200_000)]
    gets: u64,
    /// Rounds of each engine.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Where the rows lie that are asked for often.
    #[arg(long, value_enum, default_value_t = Hot::Apart)]
    hot: Hot,
    /// Instead of rounds: turns of so many gets, with a write for every `--gets-a-write` of them,
    /// while compactions run when they are due.
    #[arg(long)]
    steady: Option<u64>,
    /// Gets for each write of a steady turn.
    #[arg(long, default_value_t = 4)]
    gets_a_write: u64,
    /// Bytes of a memtable of a steady turn.
    #[arg(long, default_value_t = 4 << 20)]
    memtable: usize,
    /// Rows that a steady turn writes.
    #[arg(long, value_enum, default_value_t = Written::AsRead)]
    written: Written,
    /// Read through the page cache.
    #[arg(long)]
    buffered: bool,
    /// Directory under which data is made and removed again. Default: that for temporary files.
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Hot {
    /// All over the table.
    Apart,
    /// In its first rows.
    Together,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Written {
    /// A row is written as often as it is read, compared with other rows.
    AsRead,
    /// Every row is written as often as any other.
    Any,
}

/// Runs the benchmark.
pub(crate) fn run(args: &CacheWarmingArgs) -> Result<(), AnyError> {
    if [args.rows, args.times, args.updates, args.gets_a_write].contains(&0) {
        return Err("there are rows, a cache, updates and gets".into());
    }
    let dir = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let mut sides = [("on", true), ("off", false)]
        .map(|(name, on)| Side::open(args, &dir.path().join(name), on).map(|side| (name, side)))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    for round in 0..args.rounds {
        for (name, side) in &mut sides {
            let name = format!("round {round}, {name}");
            match args.steady {
                Some(gets) => steady::turn(side, &name, gets)?,
                None => side.round(&name)?,
            }
        }
        sides.reverse();
    }
    for (name, side) in sides {
        let metrics = side.engine.metrics();
        for counter in ["warmed_total", "warmed_bytes_total", "warmed_used_total"] {
            let value = metrics.get(&format!("cache_{counter}")).unwrap_or(0);
            print(&format!("{name}: cache_{counter} {value}"));
        }
        side.engine.close()?;
    }
    Ok(())
}

struct Side<'a> {
    engine: Engine,
    args: &'a CacheWarmingArgs,
    draw: SplitMix64,
    /// Questions of this round are those of the other side's.
    seed: u64,
}

impl<'a> Side<'a> {
    fn open(args: &'a CacheWarmingArgs, dir: &Path, on: bool) -> Result<Self, AnyError> {
        let bytes = args.rows * args.value_bytes as u64;
        let cache = usize::try_from(bytes / args.times)?.max(1 << 20);
        let options = Options {
            durability: Durability::None,
            memory_bytes_max: cache + (256 << 20),
            cache_bytes_max: Some(cache),
            direct_reads: !args.buffered,
            read_path: ReadPath { cache_warming: on, ..ReadPath::default() },
            ..steady::options(args)
        };
        let engine = Engine::open(dir, options)?;
        engine
            .create_tree(TREE, TreeOptions { block_bytes: args.block, ..TreeOptions::default() })?;
        engine.pause_compactions();
        let mut writer = engine.tree(TREE)?.sst_writer(&IngestOptions::default())?;
        let mut bytes = vec![0; args.value_bytes];
        for row in 0..args.rows {
            random_value(row, &mut bytes);
            writer.put(&row.to_be_bytes(), Column::of(FAMILY, b"q"), Timestamp(0), &bytes)?;
        }
        engine.ingest(&mut writer.finish()?)?;
        engine.tree(TREE)?.compact_range(&RowRange::ALL)?;
        Ok(Self { engine, args, draw: SplitMix64(1), seed: 0 })
    }

    fn round(&mut self, name: &str) -> Result<(), AnyError> {
        self.seed += 10;
        self.update()?;
        self.gets(1, self.args.gets)?;
        show(name, "before", &self.gets(2, self.args.gets)?);
        let over = AtomicBool::new(false);
        let (during, time) = std::thread::scope(|scope| {
            let compact = scope.spawn(|| {
                let start = Instant::now();
                let done =
                    self.engine.tree(TREE).and_then(|tree| tree.compact_range(&RowRange::ALL));
                over.store(true, Ordering::Relaxed);
                done.map(|()| start.elapsed())
            });
            let during = self.gets_while(3, || !over.load(Ordering::Relaxed));
            (during, compact.join())
        });
        let time = time.map_err(|_| "the compaction panicked")??;
        show(name, &format!("during, {:.2} s", time.as_secs_f64()), &during?);
        for (at, share) in [100, 100, 50, 25, 10, 2].into_iter().enumerate() {
            let gets = self.gets(4 + at as u64, self.args.gets / share)?;
            show(name, ["after", "then"][at.min(1)], &gets);
        }
        Ok(())
    }

    /// Updates random rows and writes them to disk.
    fn update(&mut self) -> Result<(), AnyError> {
        let mut bytes = vec![0; self.args.value_bytes];
        let mut left = self.args.rows / self.args.updates;
        while left > 0 {
            let mut batch = WriteBatch::new();
            for _ in 0..left.min(100) {
                let row = self.draw.below(self.args.rows);
                self.draw.fill(&mut bytes);
                batch.put(&row.to_be_bytes(), Column::of(FAMILY, b"q"), Timestamp(0), &bytes);
            }
            self.engine.tree(TREE)?.write(&batch)?;
            left -= left.min(100);
        }
        Ok(self.engine.tree(TREE)?.flush()?)
    }

    fn gets(&self, part: u64, count: u64) -> Result<Gets, AnyError> {
        let left = Cell::new(count);
        self.gets_while(part, || left.replace(left.get().saturating_sub(1)) > 0)
    }

    /// Gets of rows, the first of them most often, while `go_on` says so.
    fn gets_while(&self, part: u64, go_on: impl Fn() -> bool) -> Result<Gets, AnyError> {
        let tree = self.engine.tree(TREE)?;
        let mut draw = SplitMix64(self.seed + part);
        let before = self.disk_reads();
        let mut latencies = Histogram::<u64>::new(3)?;
        while go_on() {
            latencies.record(get(&tree, self.row(&mut draw))?)?;
        }
        Ok(Gets { latencies, disk_reads: self.disk_reads() - before })
    }

    /// A row: the chance of the one of rank r is about 1 / r of that of the first.
    fn row(&self, draw: &mut SplitMix64) -> u64 {
        let part = draw.next_u64() as f64 / u64::MAX as f64;
        let rank = ((self.args.rows as f64).powf(part) as u64).min(self.args.rows) - 1;
        match self.args.hot {
            Hot::Apart => (u128::from(rank) * u128::from(STEP) % u128::from(self.args.rows)) as u64,
            Hot::Together => rank,
        }
    }

    fn disk_reads(&self) -> u64 {
        self.engine.metrics().get("point_disk_reads_total").unwrap_or(0)
    }
}

/// Gets a row; gives the time in nanoseconds.
fn get(tree: &Tree, row: u64) -> Result<u64, AnyError> {
    let row = row.to_be_bytes();
    let column = ColumnOf { row: &row, family: FAMILY, qualifier: b"q" };
    let start = Instant::now();
    if tree.get_with(column, None, |_, value| value.len())?.is_none() {
        return Err("a row is not there".into());
    }
    Ok(u64::try_from(start.elapsed().as_nanos())?.max(1))
}

struct Gets {
    /// In nanoseconds.
    latencies: Histogram<u64>,
    disk_reads: u64,
}

fn show(name: &str, part: &str, gets: &Gets) {
    let count = gets.latencies.len().max(1);
    let [p50, p99, p999] =
        [0.5, 0.99, 0.999].map(|at| gets.latencies.value_at_quantile(at) as f64 / 1e3);
    print(&format!(
        "{name:<14} {part:<16} {count:>9} gets {:>8.4} disk reads/get   mean {:>7.1} us, \
         p50 {p50:.1} us, p99 {p99:.1} us, p99.9 {p999:.1} us",
        gets.disk_reads as f64 / count as f64,
        gets.latencies.mean() / 1e3,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: CacheWarmingArgs,
    }

    #[test]
    fn the_benchmark_runs_small() {
        for hot in ["apart", "together"] {
            let args =
                ["cache-warming", "--rows", "6000", "--gets", "500", "--rounds", "1", "--hot", hot];
            run(&Cli::parse_from(args).args).unwrap();
        }
        let args = ["cache-warming", "--rows", "6000", "--rounds", "1", "--steady", "3000"];
        run(&Cli::parse_from(args).args).unwrap();
    }
}
