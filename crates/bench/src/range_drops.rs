//! `bench range-drops`: memory and time of many dropped row ranges that all lie over one another.

use crate::AnyError;
use bench_core::print;
use clap::Args;
use engine::{
    Column, ColumnOf, Durability, Engine, FamilyId, Options, Timestamp, TreeId, TreeOptions,
    WriteBatch,
};
use std::path::Path;
use std::time::Instant;

const TREE: TreeId = TreeId(1);
const FAMILY: FamilyId = FamilyId(1);
/// Gets of which the time is taken.
const GETS: u32 = 1000;

/// Options of `bench range-drops`.
#[derive(Debug, Args)]
pub(crate) struct RangeDropsArgs {
    /// Numbers of ranges.
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000,100000")]
    ranges: Vec<u64>,
}

/// Runs the benchmark: each number of ranges in one batch, and in as many batches.
pub(crate) fn run(args: &RangeDropsArgs) -> Result<(), AnyError> {
    print(
        "  ranges  batches  commit s  memtable B/range  get us  reopen s  flush s  disk B/range  \
         reopen s  get us",
    );
    for &ranges in &args.ranges {
        for batches in [1, ranges] {
            print(&measure(ranges, ranges / batches)?);
        }
    }
    Ok(())
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Drops `ranges` ranges, each within the one before, so many in a batch.
fn measure(ranges: u64, in_batch: u64) -> Result<String, AnyError> {
    let dir = tempfile::tempdir()?;
    let mut engine = open(dir.path())?;
    engine.create_tree(TREE, TreeOptions::default())?;
    let mut batch = WriteBatch::new();
    for number in 0..1000 {
        batch.put(&key(number * ranges / 100), Column::of(FAMILY, b""), Timestamp(1), b"value");
    }
    engine.tree(TREE)?.write(&batch)?;
    let begun = Instant::now();
    for first in (0..ranges).step_by(usize::try_from(in_batch)?) {
        let mut batch = WriteBatch::new();
        for number in first..first + in_batch {
            batch.drop_row_range(&key(number), Some(&key(9 * ranges - number)));
        }
        engine.tree(TREE)?.write(&batch)?;
    }
    let commit = begun.elapsed().as_secs_f64();
    let metric = |engine: &Engine, name: &str| engine.metrics().get(name).unwrap_or(0);
    let memory = metric(&engine, "memory_bytes{owner=\"active_memtables\"}") / ranges;
    let get_in_memory = get(&engine, ranges)?;
    let (again, from_log) = reopen(engine, dir.path())?;
    engine = again;
    let begun = Instant::now();
    engine.tree(TREE)?.flush()?;
    let flush = begun.elapsed().as_secs_f64();
    let disk = metric(&engine, "flushed_bytes_total") / ranges;
    let (again, from_files) = reopen(engine, dir.path())?;
    engine = again;
    let get_on_disk = get(&engine, ranges)?;
    engine.close()?;
    let batches = ranges / in_batch;
    Ok(format!(
        "{ranges:>8} {batches:>8} {commit:>9.3} {memory:>17} {get_in_memory:>7.2} {from_log:>9.3} \
         {flush:>8.3} {disk:>13} {from_files:>9.3} {get_on_disk:>7.2}"
    ))
}

fn open(dir: &Path) -> Result<Engine, AnyError> {
    let options = Options { durability: Durability::None, ..Options::default() };
    Ok(Engine::open(dir, options)?)
}

/// Closes and opens again; tells the seconds that opening took.
fn reopen(engine: Engine, dir: &Path) -> Result<(Engine, f64), AnyError> {
    engine.close()?;
    drop(engine);
    let begun = Instant::now();
    Ok((open(dir)?, begun.elapsed().as_secs_f64()))
}

/// Microseconds of a get of a row that was dropped.
fn get(engine: &Engine, ranges: u64) -> Result<f64, AnyError> {
    let tree = engine.tree(TREE)?;
    let begun = Instant::now();
    for number in 0..u64::from(GETS) {
        let row = key(ranges + number % ranges);
        let of = ColumnOf { row: &row, family: FAMILY, qualifier: b"" };
        if tree.get(of, None)?.is_some() {
            return Err("a dropped row is there".into());
        }
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / f64::from(GETS))
}
