//! `bench kv`: the engine by itself: load, point reads, scan, bytes on disk.

use crate::keys::{Draw, KeyKind, key, value};
use crate::measure::Phase;
use clap::Args;
use engine::{
    Column, Columns, Durability, Engine, FamilyId, FilterGranularity, Options, QualifierRange,
    Result, RowRange, ScanRequest, Timestamp, TreeId, TreeOptions, WriteBatch,
};
use std::path::{Path, PathBuf};

const TREE: TreeId = TreeId(1);
const FAMILY: FamilyId = FamilyId(1);

/// Options of `bench kv`.
#[derive(Debug, Args)]
pub(crate) struct KvArgs {
    /// Rows to load.
    #[arg(long, default_value_t = 5_000_000)]
    rows: u64,
    /// Bytes of each key.
    #[arg(long, default_value_t = 50)]
    key_bytes: usize,
    /// Bytes of each value (incompressible).
    #[arg(long, default_value_t = 256)]
    value_bytes: usize,
    /// Point reads of each kind.
    #[arg(long, default_value_t = 1_000_000)]
    reads: u64,
    /// Rows in one write batch.
    #[arg(long, default_value_t = 100)]
    batch: u64,
    /// Block cache, in MiB.
    #[arg(long, default_value_t = 4096)]
    cache_mib: usize,
    /// Sync every commit (the server's default) instead of leaving it to the system.
    #[arg(long)]
    sync: bool,
    /// Directory to create; must not exist. Default: a temporary one, removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
    /// Seed of the order of loads and reads.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the benchmark.
pub(crate) fn run(args: &KvArgs) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = match &args.dir {
        Some(dir) if dir.exists() => {
            return Err(format!("{} exists; choose a new directory", dir.display()).into());
        }
        Some(dir) => dir.clone(),
        None => temporary.path().join("kv"),
    };
    let options = Options {
        durability: if args.sync { Durability::Sync } else { Durability::None },
        memory_bytes_max: (args.cache_mib + 256) << 20,
        cache_bytes_max: Some(args.cache_mib << 20),
        ..Options::default()
    };
    let engine = Engine::open(base::env::Env::real(2), &dir, options)?;
    let tree =
        TreeOptions { filter_granularity: Some(FilterGranularity::Row), ..TreeOptions::default() };
    engine.create_tree(TREE, tree)?;
    let bench = Bench { engine, args };
    let show = |phase: Phase| print(&if args.json { phase.json() } else { phase.line() });
    show(Phase::measure("load, random order", || bench.load())?);
    show(Phase::measure("settle (flush, compact)", || bench.settle())?);
    show(Phase::measure("scan, first (disk)", || bench.scan())?);
    show(Phase::measure("scan, cached", || bench.scan())?);
    show(Phase::measure("get, existing (warming)", || bench.get(KeyKind::Present))?);
    show(Phase::measure("get, existing", || bench.get(KeyKind::Present))?);
    show(Phase::measure("get, missing", || bench.get(KeyKind::Absent))?);
    let bytes = disk_bytes(&dir)?;
    let raw = args.rows * (args.key_bytes + args.value_bytes) as u64;
    print(&if args.json {
        format!("{{\"disk_bytes\":{bytes},\"raw_bytes\":{raw}}}")
    } else {
        format!(
            "bytes on disk {bytes}, {:.3} of the raw keys and values",
            bytes as f64 / raw as f64
        )
    });
    if !args.json {
        bench.engine.metrics().values.iter().for_each(|(name, _, value)| {
            print(&format!("  {name} {value}"));
        });
    }
    bench.engine.close()?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the results of a benchmark are its output")]
fn print(line: &str) {
    println!("{line}");
}

struct Bench<'a> {
    engine: Engine,
    args: &'a KvArgs,
}

impl Bench<'_> {
    fn column() -> Column<'static> {
        Column::of(FAMILY, b"")
    }

    /// Loads every key once, in random order (the keys themselves are random).
    fn load(&self) -> Result<u64> {
        let (mut key_bytes, mut value_bytes) =
            (vec![0; self.args.key_bytes], vec![0; self.args.value_bytes]);
        let mut batch = WriteBatch::new();
        for number in 0..self.args.rows {
            key(number, KeyKind::Present, &mut key_bytes);
            value(number, &mut value_bytes);
            batch.put(&key_bytes, Self::column(), Timestamp(0), &value_bytes);
            if batch.len() as u64 == self.args.batch || number + 1 == self.args.rows {
                self.engine.write(TREE, &batch)?;
                batch.clear();
            }
        }
        Ok(self.args.rows)
    }

    fn settle(&self) -> Result<u64> {
        self.engine.compact_range(TREE, &RowRange::ALL)?;
        Ok(1)
    }

    fn get(&self, kind: KeyKind) -> Result<u64> {
        let mut draw = Draw(self.args.seed);
        let mut key_bytes = vec![0; self.args.key_bytes];
        let mut found = 0;
        for _ in 0..self.args.reads {
            key(draw.below(self.args.rows), kind, &mut key_bytes);
            found += u64::from(self.engine.get(TREE, &key_bytes, FAMILY, b"", None)?.is_some());
        }
        let want = if kind == KeyKind::Present { self.args.reads } else { 0 };
        assert_eq!(found, want, "every loaded key is found and no other");
        Ok(self.args.reads)
    }

    fn scan(&self) -> Result<u64> {
        let request = ScanRequest {
            columns: Columns::Ranges(vec![QualifierRange::family(FAMILY)]),
            ..ScanRequest::default()
        };
        let mut scan = self.engine.scan(TREE, &request, None)?;
        let (mut rows, mut bytes) = (0, 0);
        while scan.next_row()?.is_some() {
            while let Some(cell) = scan.next_cell()? {
                bytes += cell.value.len() as u64;
            }
            rows += 1;
        }
        assert_eq!(rows, self.args.rows, "a scan meets every row");
        assert_eq!(bytes, rows * self.args.value_bytes as u64);
        Ok(rows)
    }
}

fn disk_bytes(dir: &Path) -> std::io::Result<u64> {
    let sizes = std::fs::read_dir(dir)?.map(|entry| {
        let entry = entry?;
        let is_sst = entry.path().extension().is_some_and(|extension| extension == "sst");
        if is_sst { entry.metadata().map(|data| data.len()) } else { Ok(0) }
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: KvArgs,
    }

    #[test]
    fn the_benchmark_runs_small() {
        let args = ["kv", "--rows", "2000", "--reads", "500", "--cache-mib", "8", "--json"];
        run(&Cli::parse_from(args).args).unwrap();
    }
}
