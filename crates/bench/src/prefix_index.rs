//! `bench prefix-index`: what row prefixes buy. First the way to a data block by three kinds of
//! index (search.rs). Then whole reads and scans of a tree without row prefixes, with them in its
//! filters, and with the prefix index as well.

mod search;

use crate::AnyError;
use crate::timing::nanos_per_item;
use bench_core::{SplitMix64, print};
use clap::Args;
use engine::{
    Column, ColumnOf, Durability, Engine, FamilyId, Options, RowRange, ScanRequest, Timestamp,
    TreeId, TreeOptions, WriteBatch,
};

/// Options of `bench prefix-index`.
#[derive(Debug, Args)]
pub(crate) struct PrefixIndexArgs {
    /// Index partitions of all files together: few lie in the processor's caches, many do not.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 4096])]
    partitions: Vec<usize>,
    /// Files that they are in.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64])]
    files: Vec<usize>,
    /// Rows that share a prefix in each file.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 60, 480, 4000])]
    prefix_rows: Vec<u64>,
    /// Form of the prefixes in searches of indexes.
    #[arg(long, value_enum, default_value_t = search::Prefixes::Short)]
    prefixes: search::Prefixes,
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

const TREE: TreeId = TreeId(1);
const FAMILY: FamilyId = FamilyId(1);

/// Runs the benchmark.
pub(crate) fn run(args: &PrefixIndexArgs) -> Result<(), AnyError> {
    search::run(args)?;
    print(
        "whole reads; ns of CPU, the middle of all rounds; bytes of SSTables, and of blocks and metadata in memory",
    );
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

/// A tree of several runs.
struct Tree<'a> {
    args: &'a PrefixIndexArgs,
    engine: Engine,
    /// The directory, removed with the tree.
    _dir: tempfile::TempDir,
}

impl<'a> Tree<'a> {
    /// Writes rows whose prefixes lie in one run each; the runs overlap.
    fn load(args: &'a PrefixIndexArgs, tree: TreeOptions) -> Result<Self, AnyError> {
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
        // An idle engine would merge the runs.
        engine.pause_compactions();
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
        Ok(Self { args, engine, _dir: dir })
    }

    /// Rows from `args.rows` on are absent.
    fn row(args: &PrefixIndexArgs, number: u64) -> Vec<u8> {
        let prefix = scattered(number / args.per_prefix);
        [&prefix.to_be_bytes()[..], &number.to_be_bytes(), &scattered(number).to_be_bytes()]
            .concat()
    }

    fn measure(&self, name: &str) -> engine::Result<()> {
        // So that every block of every file is in the cache.
        let mut all = self.engine.tree(TREE)?.scan(&ScanRequest::rows(RowRange::ALL), None)?;
        while all.next_row()?.is_some() {}
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
        let metrics = self.engine.metrics();
        let memory = ["memory_bytes{owner=\"blocks\"}", "memory_bytes{owner=\"metadata\"}"]
            .map(|name| metrics.get(name).unwrap_or(0));
        let memory: u64 = memory.iter().sum();
        print(&format!("{line} {} B of files, {memory} B of memory", self.disk_bytes()?));
        for name in [
            "filter_checks_total{granularity=\"prefix\"}",
            "filter_checks_total{granularity=\"prefix\",result=\"useful\"}",
            "filter_false_positives_total{granularity=\"prefix\"}",
        ] {
            print(&format!("{:>28}{name} {}", "", metrics.get(name).unwrap_or(0)));
        }
        Ok(())
    }

    /// CPU of one call of `read` with the number of a row; one round warms the cache.
    fn nanos(&self, mut read: impl FnMut(u64) -> engine::Result<()>) -> engine::Result<f64> {
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

    fn disk_bytes(&self) -> engine::Result<u64> {
        let runs = self.engine.tree(TREE)?.files()?.runs;
        Ok(runs.iter().flat_map(|run| &run.ssts).map(|file| file.bytes).sum())
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
        let args = ["prefix-index", "--partitions", "2", "--files", "1,2", "--searches", "500"];
        for prefixes in ["short", "long"] {
            let more = ["--rounds", "1", "--rows", "2000", "--runs", "2", "--reads", "200"];
            let args =
                [&args[..], &more, &["--prefix-rows", "1,480", "--prefixes", prefixes]].concat();
            run(&Cli::parse_from(args).args).unwrap();
        }
    }
}
