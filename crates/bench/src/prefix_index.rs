//! `bench prefix-index`: what row prefixes buy. From a row to its data block by the search of an
//! index partition, by the prefix index, and by one that stores the prefixes: CPU and memory. Then
//! whole reads and scans of a tree without row prefixes, with them in its filters, and with the
//! prefix index as well.

use crate::timing::nanos_per_item;
use bench_core::{SplitMix64, print};
use clap::Args;
use engine::internals::{BlockFinder, FindBy};
use engine::{
    Column, ColumnOf, Durability, Engine, FamilyId, Options, Result, RowRange, ScanRequest,
    Timestamp, TreeId, TreeOptions, WriteBatch,
};

/// Options of `bench prefix-index`.
#[derive(Debug, Args)]
pub(crate) struct PrefixIndexArgs {
    /// Index partitions that are searched in turn: few lie in the processor's caches, many do not.
    #[arg(long, value_delimiter = ',', default_values_t = [4, 8192])]
    partitions: Vec<usize>,
    /// Searches in a round.
    #[arg(long, default_value_t = 400_000)]
    searches: usize,
    /// Rounds, of which the middle one counts.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Rows of the tree.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Runs that the rows lie in, each over the whole range of keys.
    #[arg(long, default_value_t = 8)]
    runs: u64,
    /// Rows of the tree that share a prefix.
    #[arg(long, default_value_t = 20)]
    per_prefix: u64,
    /// Reads and scans of each kind in a round.
    #[arg(long, default_value_t = 100_000)]
    reads: usize,
}

/// Bytes of a prefix.
const PREFIX_BYTES: u16 = 8;
/// Data blocks of a partition, and rows of each.
const BLOCKS: usize = 256;
const BLOCK_ROWS: usize = 60;
/// Partitions that differ; the rest are copies of them in other memory.
const DISTINCT: usize = 16;

const TREE: TreeId = TreeId(1);
const FAMILY: FamilyId = FamilyId(1);

/// Runs the benchmark.
pub(crate) fn run(args: &PrefixIndexArgs) -> std::result::Result<(), Box<dyn std::error::Error>> {
    print("from a row to its block; ns of CPU, the middle of all rounds; bytes of one partition");
    for partitions in &args.partitions {
        for per_prefix in [1, 8, 60, 480, 4000] {
            for present in [true, false] {
                search(args, *partitions, per_prefix, present)?;
            }
        }
    }
    print("whole reads; ns of CPU, the middle of all rounds; bytes of SSTables");
    for (name, row_prefix_bytes, prefix_index) in [
        ("no row prefixes", 0, false),
        ("filter keys", PREFIX_BYTES, false),
        ("filter keys, prefix index", PREFIX_BYTES, true),
    ] {
        let tree = TreeOptions { row_prefix_bytes, prefix_index, ..TreeOptions::default() };
        Tree::load(args, tree)?.measure(name)?;
    }
    Ok(())
}

/// A number that tells nothing of the one it is made of.
fn scattered(number: u64) -> u64 {
    SplitMix64(number).next_u64()
}

/// The `at`-th row of a partition: a prefix of 8 bytes, then 16 bytes that ascend in it. Prefixes
/// ascend in even steps, so that odd numbers give absent ones.
fn partition_row(partition: usize, prefix: u64, at: u64) -> Vec<u8> {
    let prefix = (prefix << 36) + (scattered(prefix / 2 + partition as u64) >> 30);
    [&prefix.to_be_bytes()[..], &at.to_be_bytes(), &scattered(at).to_be_bytes()].concat()
}

fn search(
    args: &PrefixIndexArgs,
    partitions: usize,
    per_prefix: u64,
    present: bool,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let count = (BLOCKS * BLOCK_ROWS) as u64;
    let row = |partition: usize, at: u64, absent: u64| {
        partition_row(partition, at / per_prefix * 2 + absent, at)
    };
    let asked: Vec<(usize, Vec<u8>)> = (0..args.searches as u64)
        .map(|at| {
            let (partition, place) = (scattered(at) as usize % partitions, scattered(!at) % count);
            (partition, row(partition % DISTINCT, place, u64::from(!present)))
        })
        .collect();
    let kind = if present { "present" } else { "absent " };
    let mut line = format!("{partitions:>5} partitions, {per_prefix:>4} rows a prefix, {kind}: ");
    for by in FindBy::ALL {
        let mut distinct = Vec::new();
        for partition in 0..DISTINCT.min(partitions) {
            let rows: Vec<Vec<u8>> = (0..count).map(|at| row(partition, at, 0)).collect();
            let finder = BlockFinder::new(&rows, BLOCK_ROWS, PREFIX_BYTES, by);
            distinct.push(finder.map_err(|damage| damage.to_string())?);
        }
        let finders: Vec<BlockFinder> =
            (0..partitions).map(|at| distinct[at % distinct.len()].clone()).collect();
        let mut sum = 0;
        let (_, nanos) = nanos_per_item(args.rounds, asked.len(), || {
            for (partition, row) in &asked {
                sum += finders[*partition].block_of(row);
            }
        });
        std::hint::black_box(sum);
        line += &format!(" {by:?} {nanos:.1} ns {} B |", distinct[0].bytes());
    }
    print(&line);
    Ok(())
}

/// A tree of several runs.
struct Tree<'a> {
    args: &'a PrefixIndexArgs,
    engine: Engine,
    dir: tempfile::TempDir,
}

impl<'a> Tree<'a> {
    /// Writes rows whose prefixes lie in one run each; the runs overlap.
    fn load(
        args: &'a PrefixIndexArgs,
        tree: TreeOptions,
    ) -> std::result::Result<Self, Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let options = Options {
            durability: Durability::None,
            memtable_bytes_max: 4 << 30,
            l0_runs_compact: 63,
            l0_runs_stall: 64,
            memory_bytes_max: 16 << 30,
            ..Options::default()
        };
        let engine = Engine::open(dir.path(), options)?;
        engine.create_tree(TREE, tree)?;
        let column = Column::of(FAMILY, b"");
        for run in 0..args.runs {
            let mut batch = WriteBatch::new();
            for number in (0..args.rows).filter(|row| row / args.per_prefix % args.runs == run) {
                batch.put(&Self::row(args, number), column, Timestamp(0), &[7; 100]);
                if batch.len() == 1000 {
                    engine.tree(TREE)?.write(&batch)?;
                    batch.clear();
                }
            }
            engine.tree(TREE)?.write(&batch)?;
            engine.tree(TREE)?.flush()?;
        }
        Ok(Self { args, engine, dir })
    }

    /// Rows from `args.rows` on are absent.
    fn row(args: &PrefixIndexArgs, number: u64) -> Vec<u8> {
        let prefix = scattered(number / args.per_prefix);
        [&prefix.to_be_bytes()[..], &number.to_be_bytes(), &scattered(number).to_be_bytes()]
            .concat()
    }

    fn measure(&self, name: &str) -> Result<()> {
        let mut line = format!("{name:>26}:");
        for (kind, offset) in [("present", 0), ("absent", self.args.rows)] {
            let nanos = self.nanos(|number| {
                let row = Self::row(self.args, number + offset);
                let found =
                    self.engine.tree(TREE)?.get(ColumnOf::new(&row, FAMILY, b""), None)?.is_some();
                assert_eq!(found, offset == 0, "a get finds what is there");
                Ok(())
            })?;
            line += &format!(" get {kind} {nanos:.0},");
        }
        for (kind, offset) in [("present", 0), ("absent", self.args.rows)] {
            let nanos = self.nanos(|number| {
                let row = Self::row(self.args, number + offset);
                let request = ScanRequest::rows(RowRange::prefix(&row[..PREFIX_BYTES.into()]));
                let mut scan = self.engine.tree(TREE)?.scan(&request, None)?;
                let mut rows = 0;
                while scan.next_row()?.is_some() {
                    rows += 1;
                }
                assert_eq!(rows > 0, offset == 0, "a scan meets what is there");
                Ok(())
            })?;
            line += &format!(" scan of a prefix {kind} {nanos:.0},");
        }
        print(&format!("{line} {} B", self.disk_bytes()));
        let metrics = self.engine.metrics();
        for name in ["probed", "useful", "false_positives"] {
            let name = format!("filter_prefix_{name}_total");
            print(&format!("{:>28}{name} {}", "", metrics.get(&name).unwrap_or(0)));
        }
        Ok(())
    }

    /// CPU of one call of `read` with the number of a row; one round warms the cache.
    fn nanos(&self, mut read: impl FnMut(u64) -> Result<()>) -> Result<f64> {
        let mut failed = Ok(());
        let mut round = || {
            for at in 0..self.args.reads as u64 {
                let done = read(scattered(at) % self.args.rows);
                if done.is_err() {
                    failed = done;
                    return;
                }
            }
        };
        round();
        let (_, nanos) = nanos_per_item(self.args.rounds, self.args.reads, round);
        failed.map(|()| nanos)
    }

    fn disk_bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.dir.path()).into_iter().flatten().flatten();
        let ssts = files.filter(|file| file.path().extension().is_some_and(|end| end == "sst"));
        ssts.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: PrefixIndexArgs,
    }

    #[test]
    fn the_benchmark_runs_small() {
        let args = ["prefix-index", "--partitions", "2", "--searches", "500", "--rounds", "1"];
        let args = [&args[..], &["--rows", "2000", "--runs", "2", "--reads", "200"]].concat();
        run(&Cli::parse_from(args).args).unwrap();
    }
}
