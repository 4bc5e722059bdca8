//! `bench bulk`: a load of sorted keys through `SstWriter` and `Engine::ingest`, in CPU per key
//! net of the generator, with what can be left to compaction in both positions.

use crate::keys::{Draw, value};
use crate::measure::Phase;
use clap::{Args, ValueEnum};
use engine::{
    Column, Compression, Durability, Engine, FamilyId, FilterGranularity, IngestOptions, Options,
    Result, ScanRequest, Timestamp, TreeId, TreeOptions,
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
    /// Compressions to try, one after the other.
    #[arg(long, value_delimiter = ',', default_values = ["none", "lz4", "zstd"])]
    compression: Vec<BulkCompression>,
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
    if args.key_bytes < 8 || args.columns == 0 {
        return Err("keys have 8 bytes or more, rows a column or more".into());
    }
    for _ in 0..args.rounds {
        for compression in &args.compression {
            for filters in [true, false] {
                round(args, &dir, *compression, filters)?;
                std::fs::remove_dir_all(&dir)?;
            }
        }
    }
    Ok(())
}

/// Loads everything once into a new directory.
fn round(args: &BulkArgs, dir: &Path, compression: BulkCompression, filters: bool) -> Result<()> {
    let generator = Phase::measure("generator", || generate(args, |_, _, _, _| Ok(())))?;
    let options = Options { durability: Durability::None, ..Options::default() };
    let engine = Engine::open(base::env::Env::real(2), dir, options)?;
    let (tree, granularity) = match args.columns {
        1 => (TreeId(1), FilterGranularity::Row),
        _ => (TreeId(1), FilterGranularity::Column),
    };
    let options = TreeOptions { filter_granularity: Some(granularity), ..TreeOptions::default() };
    engine.create_tree(tree, options)?;
    let options = IngestOptions { compression: Some(compression.of_engine()), filters };
    let mut bytes = 0;
    let name = format!("{compression:?}, filters {filters}").to_lowercase();
    let mut load = Phase::measure(&name, || -> Result<u64> {
        let mut writer = engine.sst_writer(tree, &options)?;
        let rows = generate(args, |row, column, at, value| writer.put(row, column, at, value))?;
        let mut files = writer.finish()?;
        bytes = files.bytes();
        engine.ingest(&mut files)?;
        Ok(rows)
    })?;
    let mut scan = engine.scan(tree, &ScanRequest::default(), None)?;
    let mut rows = 0;
    while scan.next_row()?.is_some() {
        rows += 1;
    }
    assert_eq!(rows, args.rows, "a scan meets every row");
    load.cpu = load.cpu.saturating_sub(generator.cpu);
    load.wall = load.wall.saturating_sub(generator.wall);
    print(&match args.json {
        true => load.json(),
        false => format!("{}   {bytes} bytes", load.line()),
    });
    engine.close()
}

/// Makes all cells, in order, and gives the number of rows.
fn generate(
    args: &BulkArgs,
    mut each: impl FnMut(&[u8], Column<'_>, Timestamp, &[u8]) -> Result<()>,
) -> Result<u64> {
    let (mut key, mut cell) = (vec![0; args.key_bytes], vec![0; args.value_bytes]);
    let columns: Vec<(FamilyId, String)> = match args.columns {
        1 => vec![(FamilyId(1), String::new())],
        // Three families, the columns of each named in order.
        n => (0..n).map(|at| (FamilyId(1 + at * 3 / n), format!("column-{at:05}"))).collect(),
    };
    for row in 0..args.rows {
        key[..8].copy_from_slice(&row.to_be_bytes());
        Draw(row).fill(&mut key[8..]);
        for (at, (family, qualifier)) in columns.iter().enumerate() {
            value(row << 16 | at as u64, &mut cell);
            let column = Column::of(*family, qualifier.as_bytes());
            each(black_box(&key), column, Timestamp(0), black_box(&cell))?;
        }
    }
    Ok(args.rows)
}

#[expect(clippy::print_stdout, reason = "the results of a benchmark are its output")]
fn print(line: &str) {
    println!("{line}");
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
            let args = ["bulk", "--rows", "2000", "--rounds", "1", "--columns", columns, "--json"];
            run(&Cli::parse_from(args).args).unwrap();
        }
    }
}
