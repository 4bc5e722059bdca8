//! `bench cold`: random gets of data far larger than the cache, read past the page cache: one after
//! the other, as multi-gets, and in flight from one thread. To set beside what `fio` gets from a
//! file of the same size with the same block size and depth.

use crate::keys::{Draw, value};
use crate::measure::Phase;
use clap::Args;
use engine::{
    Column, ColumnOf, Compression, Durability, Engine, FamilyId, FilterGranularity, IngestOptions,
    Options, ReadPath, Result, Timestamp, TreeId, TreeOptions, TreeReader,
};
use std::path::PathBuf;

const TREE: TreeId = TreeId(1);
const FAMILY: FamilyId = FamilyId(1);

/// Options of `bench cold`.
#[derive(Debug, Args)]
pub(crate) struct ColdArgs {
    /// Rows to load.
    #[arg(long, default_value_t = 4_500_000)]
    rows: u64,
    /// Bytes of each key, 9 or more.
    #[arg(long, default_value_t = 50)]
    key_bytes: usize,
    /// Bytes of each value (incompressible).
    #[arg(long, default_value_t = 256)]
    value_bytes: usize,
    /// Bytes of a data block.
    #[arg(long, default_value_t = 4096)]
    block: u32,
    /// How many times larger than the cache the keys and values are.
    #[arg(long, default_value_t = 20)]
    times: u64,
    /// Gets of each kind.
    #[arg(long, default_value_t = 200_000)]
    reads: u64,
    /// Gets in flight, and keys of a multi-get.
    #[arg(long, default_value_t = 32)]
    depth: u64,
    /// Times to measure each kind, in turns.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Read through the page cache.
    #[arg(long)]
    buffered: bool,
    /// Read blocks of a multi-get one after the other.
    #[arg(long)]
    no_batches: bool,
    /// Directory of the data; used again if it is there. Default: a temporary one, removed at the
    /// end.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs the benchmark.
pub(crate) fn run(args: &ColdArgs) -> std::result::Result<(), Box<dyn std::error::Error>> {
    if args.key_bytes < 9 || args.times == 0 || args.rows == 0 {
        return Err("keys have 9 bytes or more, and there is a row and a cache".into());
    }
    let temporary = tempfile::tempdir()?;
    let dir = args.dir.clone().unwrap_or_else(|| temporary.path().join("cold"));
    let bytes = args.rows * (args.key_bytes + args.value_bytes) as u64;
    let cache = usize::try_from(bytes / args.times)?.max(1 << 20);
    let options = Options {
        durability: Durability::None,
        memory_bytes_max: cache + (256 << 20),
        cache_bytes_max: Some(cache),
        direct_reads: !args.buffered,
        read_path: ReadPath { batched_reads: !args.no_batches, ..ReadPath::default() },
        ..Options::default()
    };
    let engine = Engine::open(base::env::Env::real(2), &dir, options)?;
    let mut bench = Bench { tree: None, engine, args, draw: Draw(1) };
    if bench.engine.trees().is_empty() {
        print(args, &Phase::measure("load, sorted", || bench.load())?, 0.0);
    }
    bench.tree = Some(bench.engine.tree(TREE)?);
    bench.get(true)?;
    for _ in 0..args.rounds {
        bench.show("get, present, 1 in flight", |bench| bench.get(true))?;
        bench.show("get, absent", |bench| bench.get(false))?;
        bench.show("multi-get, present", Bench::multi_get)?;
        bench.show("get, present, in flight", Bench::in_flight)?;
    }
    if !args.json {
        bench.engine.metrics().values.iter().for_each(|(name, _, value)| {
            say(&format!("  {name} {value}"));
        });
    }
    Ok(bench.engine.close()?)
}

#[expect(clippy::print_stdout, reason = "the results of a benchmark are its output")]
fn say(line: &str) {
    println!("{line}");
}

fn print(args: &ColdArgs, phase: &Phase, reads: f64) {
    say(&match args.json {
        true => phase.json(),
        false => format!("{}   {reads:.4} disk reads/op", phase.line()),
    });
}

struct Bench<'a> {
    engine: Engine,
    tree: Option<TreeReader>,
    args: &'a ColdArgs,
    draw: Draw,
}

impl Bench<'_> {
    /// Measures a way of reading, with its disk reads.
    fn show(&mut self, name: &str, read: impl FnOnce(&mut Self) -> Result<u64>) -> Result<()> {
        let disk_reads = |bench: &Self| bench.engine.metrics().get("point_disk_reads_total");
        let before = disk_reads(self);
        let phase = Phase::measure(name, || read(self))?;
        let reads = disk_reads(self).unwrap_or(0) - before.unwrap_or(0);
        print(self.args, &phase, reads as f64 / phase.operations.max(1) as f64);
        Ok(())
    }

    fn tree(&self) -> TreeReader {
        self.tree.clone().expect("set when the data is loaded")
    }

    /// Key `number`, in the order of numbers; absent ones lie between those that are loaded.
    fn key(&self, number: u64, present: bool, out: &mut [u8]) {
        let spread = u64::MAX / self.args.rows;
        Draw(number).fill(out);
        out[..8].copy_from_slice(&(number * spread).to_be_bytes());
        out[8] = u8::from(present);
    }

    fn load(&self) -> Result<u64> {
        let options = TreeOptions {
            block_bytes: self.args.block,
            compression: Compression::None,
            compression_last: Compression::None,
            filter_granularity: Some(FilterGranularity::Row),
            ..TreeOptions::default()
        };
        self.engine.create_tree(TREE, options)?;
        let mut writer = self.engine.sst_writer(TREE, &IngestOptions::default())?;
        let (mut key, mut bytes) = (vec![0; self.args.key_bytes], vec![0; self.args.value_bytes]);
        for number in 0..self.args.rows {
            self.key(number, true, &mut key);
            value(number, &mut bytes);
            writer.put(&key, Column::of(FAMILY, b""), Timestamp(0), &bytes)?;
        }
        self.engine.ingest(&mut writer.finish()?)?;
        Ok(self.args.rows)
    }

    fn get(&mut self, present: bool) -> Result<u64> {
        let tree = self.tree();
        let mut row = vec![0; self.args.key_bytes];
        let mut found = 0;
        for _ in 0..self.args.reads {
            let number = self.draw.below(self.args.rows);
            self.key(number, present, &mut row);
            found += u64::from(tree.get_with(of(&row), None, |_, value| value.len())?.is_some());
        }
        assert_eq!(found, if present { self.args.reads } else { 0 });
        Ok(self.args.reads)
    }

    fn multi_get(&mut self) -> Result<u64> {
        let tree = self.tree();
        let mut rows = vec![vec![0; self.args.key_bytes]; self.args.depth as usize];
        let (mut found, mut asked) = (0, 0);
        while asked < self.args.reads {
            for row in &mut rows {
                let number = self.draw.below(self.args.rows);
                self.key(number, true, row);
            }
            let wanted: Vec<_> = rows.iter().map(|row| of(row)).collect();
            tree.multi_get_with(&wanted, None, |_, cell| found += u64::from(cell.is_some()))?;
            asked += self.args.depth;
        }
        assert_eq!(found, asked);
        Ok(asked)
    }

    fn in_flight(&mut self) -> Result<u64> {
        let mut gets = self.tree().in_flight(self.args.depth as usize, None);
        let mut row = vec![0; self.args.key_bytes];
        let (mut found, mut asked) = (0, 0);
        loop {
            while asked < self.args.reads && gets.in_flight() < self.args.depth as usize {
                let number = self.draw.below(self.args.rows);
                self.key(number, true, &mut row);
                gets.submit(asked, of(&row));
                asked += 1;
            }
            let Some((_, answer)) = gets.wait() else { break };
            found += u64::from(answer?.is_some());
        }
        assert_eq!(found, self.args.reads);
        Ok(self.args.reads)
    }
}

fn of(row: &[u8]) -> ColumnOf<'_> {
    ColumnOf { row, family: FAMILY, qualifier: b"" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ColdArgs,
    }

    #[test]
    fn the_benchmark_runs_small() {
        let args = ["cold", "--rows", "3000", "--reads", "300", "--depth", "4", "--rounds", "1"];
        run(&Cli::parse_from(args).args).unwrap();
        let others = ["--json", "--buffered", "--no-batches"];
        run(&Cli::parse_from(args.iter().chain(&others)).args).unwrap();
    }
}
