//! `bench bulk`: a load of sorted keys through `SstWriter` and `Engine::ingest`, in CPU per key
//! net of the generator, with what can be left to compaction in both positions; and what reads
//! cost before and after that compaction.

use crate::measure::Phase;
use bench_core::{SplitMix64, print, random_value};
use clap::{Args, ValueEnum};
use engine::{
    Column, ColumnOf, Compression, Durability, Engine, FamilyId, FilterGranularity, IngestOptions,
    Options, Result, RowRange, ScanRequest, Timestamp, TreeId, TreeOptions,
};
use std::hint::black_box;
use std::path::{Path, PathBuf};

/// Options of `bench bulk`.
#[derive(Debug, Args)]
pub(crate) struct BulkArgs {
    /// Rows to load.
    #[arg(long, default_value_t = 3_000_000)]
    rows: u64,
    /// Bytes of each key, 8 or more.
    #[arg(long, default_value_t = 50)]
    key_bytes: usize,
    /// Bytes of each value (incompressible).
    #[arg(long, default_value_t = 256)]
    value_bytes: usize,
    /// Columns of each row, in 3 families; 1 is one unnamed column.
    #[arg(long, default_value_t = 1)]
    columns: u16,
    /// Percent of each value that all values have in common, so that it can be compressed away.
    #[arg(long, default_value_t = 0)]
    compressible_percent: usize,
    /// Compressions of the table's last level to try, one after the other.
    #[arg(long, value_delimiter = ',', default_values = ["none", "lz4", "zstd"])]
    compression: Vec<BulkCompression>,
    /// What is left to compaction, to try one after the other.
    #[arg(long, value_delimiter = ',', default_values = ["nothing", "filters", "compression", "both"])]
    defer: Vec<Defer>,
    /// Gets of each kind before and after a compaction of everything; 0: only load.
    #[arg(long, default_value_t = 0)]
    reads: u64,
    /// Times to load with each.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Directory to create; must not exist. Default: a temporary one, removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BulkCompression {
    None,
    Lz4,
    Zstd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Defer {
    Nothing,
    Filters,
    Compression,
    Both,
}

impl BulkCompression {
    fn of_engine(self) -> Compression {
        match self {
            Self::None => Compression::None,
            Self::Lz4 => Compression::Lz4,
            Self::Zstd => Compression::Zstd,
        }
    }
}

/// Runs the benchmark.
pub(crate) fn run(args: &BulkArgs) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = match &args.dir {
        Some(dir) if dir.exists() => {
            return Err(format!("{} exists; choose a new directory", dir.display()).into());
        }
        Some(dir) => dir.clone(),
        None => temporary.path().join("bulk"),
    };
    if args.key_bytes < 8 || args.columns == 0 || args.compressible_percent > 100 {
        return Err("keys have 8 bytes or more, rows a column or more, a hundred percent".into());
    }
    for _ in 0..args.rounds {
        for compression in &args.compression {
            for defer in &args.defer {
                Round { args, compression: *compression, defer: *defer }.run(&dir)?;
                std::fs::remove_dir_all(&dir)?;
            }
        }
    }
    Ok(())
}

const TREE: TreeId = TreeId(1);

/// One load into a new directory.
struct Round<'a> {
    args: &'a BulkArgs,
    /// That of the tree's last level.
    compression: BulkCompression,
    defer: Defer,
}

impl Round<'_> {
    /// Loads everything once; reads, compacts and reads again if there are reads to make.
    fn run(&self, dir: &Path) -> Result<()> {
        let args = self.args;
        let generator = Phase::measure("generator", || generate(args, |_, _, _, _| Ok(())))?;
        let options = Options { durability: Durability::None, ..Options::default() };
        let engine = Engine::open(dir, options)?;
        let granularity = match args.columns {
            1 => FilterGranularity::Row,
            _ => FilterGranularity::Column,
        };
        let compression_last = self.compression.of_engine();
        let filter_granularity = Some(granularity);
        let options = TreeOptions { filter_granularity, compression_last, ..Default::default() };
        engine.create_tree(TREE, options)?;
        let mut load = self.load(&engine)?;
        load.cpu = load.cpu.saturating_sub(generator.cpu);
        load.wall = load.wall.saturating_sub(generator.wall);
        self.show(&load, &engine);
        if args.reads > 0 {
            self.read(&engine, "before")?;
            let compact = self.phase("compact", || {
                engine.tree(TREE)?.compact_range(&RowRange::ALL)?;
                Ok(args.rows)
            })?;
            self.show(&compact, &engine);
            self.read(&engine, "after")?;
        }
        engine.close()
    }

    fn phase(&self, name: &str, work: impl FnOnce() -> Result<u64>) -> Result<Phase> {
        let Self { compression, defer, .. } = self;
        let name = format!("{compression:?}, defer {defer:?}: {name}").to_lowercase();
        Phase::measure(&name, work)
    }

    fn load(&self, engine: &Engine) -> Result<Phase> {
        let deferred = matches!(self.defer, Defer::Compression | Defer::Both);
        let compression = deferred.then_some(Compression::None);
        let filters = !matches!(self.defer, Defer::Filters | Defer::Both);
        self.phase("load", || {
            let mut writer =
                engine.tree(TREE)?.sst_writer(&IngestOptions { compression, filters })?;
            let put = |row: &[u8], column: Column<'_>, at, value: &[u8]| {
                writer.put(row, column, at, value)
            };
            let rows = generate(self.args, put)?;
            engine.ingest(&mut writer.finish()?)?;
            Ok(rows)
        })
    }

    /// Gets of a column of rows that are there, of rows that are not, and a scan.
    fn read(&self, engine: &Engine, when: &str) -> Result<()> {
        let args = self.args;
        let columns = columns(args);
        let (family, qualifier) = &columns[0];
        for (kind, there) in [("hits", true), ("misses", false)] {
            let mut draw = SplitMix64(7);
            let mut key = vec![0; args.key_bytes];
            // The first time brings blocks into memory.
            for timed in [false, true] {
                let reads = self.phase(&format!("{kind} {when}"), || {
                    for _ in 0..args.reads {
                        row_key(draw.below(args.rows), &mut key);
                        let last = key.len() - 1;
                        key[last] ^= u8::from(!there);
                        let found = engine
                            .tree(TREE)?
                            .get(ColumnOf::new(&key, *family, qualifier.as_bytes()), None)?;
                        assert_eq!(found.is_some(), there, "what was loaded is there");
                    }
                    Ok(args.reads)
                })?;
                if timed {
                    self.show(&reads, engine);
                }
            }
        }
        let scan = self.phase(&format!("scan {when}"), || {
            let mut scan = engine.tree(TREE)?.scan(&ScanRequest::default(), None)?;
            let mut rows = 0;
            while scan.next_row()?.is_some() {
                rows += 1;
            }
            assert_eq!(rows, args.rows, "a scan meets every row");
            Ok(rows)
        })?;
        self.show(&scan, engine);
        Ok(())
    }

    fn show(&self, phase: &Phase, engine: &Engine) {
        let metrics = engine.metrics();
        let bytes = metrics.get("level_bytes").unwrap_or(0);
        print(&match self.args.json {
            true => phase.json(),
            false => format!("{}   {bytes} bytes", phase.line()),
        });
    }
}

/// The key of row `number`, in order of the numbers.
fn row_key(number: u64, key: &mut [u8]) {
    key[..8].copy_from_slice(&number.to_be_bytes());
    SplitMix64(number).fill(&mut key[8..]);
}

fn columns(args: &BulkArgs) -> Vec<(FamilyId, String)> {
    match args.columns {
        1 => vec![(FamilyId(1), String::new())],
        // Three families, the columns of each named in order.
        n => (0..n).map(|at| (FamilyId(1 + at * 3 / n), format!("column-{at:05}"))).collect(),
    }
}

/// Makes all cells, in order, and gives the number of rows.
fn generate(
    args: &BulkArgs,
    mut each: impl FnMut(&[u8], Column<'_>, Timestamp, &[u8]) -> Result<()>,
) -> Result<u64> {
    let (mut key, mut cell) = (vec![0; args.key_bytes], vec![0; args.value_bytes]);
    let columns = columns(args);
    let same = args.value_bytes * args.compressible_percent / 100;
    for row in 0..args.rows {
        row_key(row, &mut key);
        for (at, (family, qualifier)) in columns.iter().enumerate() {
            random_value(row << 16 | at as u64, &mut cell[same..]);
            let column = Column::of(*family, qualifier.as_bytes());
            each(black_box(&key), column, Timestamp(0), black_box(&cell))?;
        }
    }
    Ok(args.rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: BulkArgs,
    }

    #[test]
    fn the_benchmark_runs_small() {
        for columns in ["1", "12"] {
            let mut args = vec!["bulk", "--rows", "2000", "--rounds", "1", "--reads", "100"];
            args.extend(["--compressible-percent", "50", "--columns", columns, "--json"]);
            run(&Cli::parse_from(args).args).unwrap();
        }
    }
}
