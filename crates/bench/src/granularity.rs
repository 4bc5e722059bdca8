//! What filters of whole rows save a tree of wide rows that is only read by rows: the same data
//! and reads with the finest granularity and with the one learned from the reads.

use crate::measure::Phase;
use crate::timing::nanos_per_item;
use base::env::RealFileSystem;
use bench_core::{SplitMix64, random_value, thread_cpu};
use engine::SequenceNumber;
use engine::internals::{Entry, Kind};
use engine::internals::{FilterWriter, SstMemory, sst_memory};
use engine::{
    Column, Columns, Durability, Engine, FamilyId, FilterGranularity, IngestOptions, Options,
    Result, RowRange, RowSelection, Timestamp, TreeId, TreeOptions,
};
use std::hint::black_box;
use std::path::Path;

#[derive(Debug, clap::Args)]
pub(crate) struct GranularityArgs {
    /// Rows.
    #[arg(long, default_value_t = 400_000)]
    rows: u64,
    /// Columns of each row, in three families.
    #[arg(long, default_value_t = 12)]
    columns: usize,
    /// Reads of rows that are there, and of rows that are not.
    #[arg(long, default_value_t = 300_000)]
    reads: usize,
    /// Times everything is done, with both in turns.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

const TREE: TreeId = TreeId(1);
const VALUE_BYTES: usize = 32;
/// Bits of filter per key, as by default.
const BITS: u8 = 12;
/// Reads after which the tree knows what is asked of it.
const READS_TO_LEARN: usize = 5_000;

/// Measures and prints a line a round and granularity.
#[expect(clippy::print_stdout, reason = "the results of a benchmark are its output")]
pub(crate) fn run(args: &GranularityArgs) -> Result<()> {
    for granularity in FilterGranularity::ALL {
        let nanos = build(args, granularity);
        println!(
            "a filter of granularity {granularity:?} alone: {nanos:.0} ns of CPU a row to build"
        );
    }
    println!(
        "granularity  filter B/row  share of file  compaction CPU ns/row  row ns  absent row ns  \
         false positives %"
    );
    for _ in 0..args.rounds {
        for fixed in [Some(FilterGranularity::Column), None] {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let got = measure(args, dir.path(), fixed)?;
            let name = if fixed.is_some() { "column" } else { "automatic" };
            println!(
                "{name:<11}  {:>12.1}  {:>12.2}%  {:>21.0}  {:>6.0}  {:>13.0}  {:>17.3}",
                got.filter_bytes, got.share, got.compaction, got.present, got.absent, got.wrong
            );
        }
    }
    Ok(())
}

struct Measured {
    filter_bytes: f64,
    share: f64,
    compaction: f64,
    present: f64,
    absent: f64,
    wrong: f64,
}

/// The key of a row; those of odd numbers are not there, and lie among those that are.
fn row_key(number: u64) -> [u8; 16] {
    let mut key = *b"--------/the-row";
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// CPU nanoseconds that the filter of a file costs a row, the middle of all rounds.
fn build(args: &GranularityArgs, granularity: FilterGranularity) -> f64 {
    let names: Vec<String> = (0..args.columns).map(|at| format!("column-{at:05}")).collect();
    let rows = args.rows.min(100_000);
    let (_, nanos) = nanos_per_item(args.rounds, rows as usize, || {
        let mut writer = FilterWriter::new(granularity, BITS).expect("bits are above 0");
        for row in 0..rows {
            let entries = names.iter().enumerate().map(|(at, name)| Entry {
                column: Column::of(family(args, at), name.as_bytes()),
                timestamp: Timestamp(1),
                sequence: SequenceNumber(1),
                kind: Kind::Put,
                value: &[],
            });
            writer.add_row(&row_key(row * 2), entries);
            if writer.is_full() {
                let full = FilterWriter::new(granularity, BITS).expect("bits are above 0");
                let full = std::mem::replace(&mut writer, full);
                black_box(full.finish().expect("it was just written").bytes());
            }
        }
        black_box(writer.finish().expect("it was just written").bytes());
    });
    nanos
}

/// The family of a column.
fn family(args: &GranularityArgs, column: usize) -> FamilyId {
    FamilyId((1 + column * 3 / args.columns) as u16)
}

/// Adds one more run of all rows.
fn ingest(args: &GranularityArgs, engine: &Engine, time: i64) -> Result<()> {
    let names: Vec<String> = (0..args.columns).map(|at| format!("column-{at:05}")).collect();
    let mut writer = engine.tree(TREE)?.sst_writer(&IngestOptions::default())?;
    let mut bytes = [0; VALUE_BYTES];
    for row in 0..args.rows {
        for (at, name) in names.iter().enumerate() {
            let column = Column::of(family(args, at), name.as_bytes());
            random_value(row << 16 | at as u64, &mut bytes);
            writer.put(&row_key(row * 2), column, Timestamp(time), &bytes)?;
        }
    }
    engine.ingest(&mut writer.finish()?)?;
    Ok(())
}

fn measure(
    args: &GranularityArgs,
    dir: &Path,
    filter_granularity: Option<FilterGranularity>,
) -> Result<Measured> {
    let options = Options {
        durability: Durability::None,
        memory_bytes_max: 1 << 30,
        l0_runs_compact: 8,
        ..Options::default()
    };
    let engine = Engine::open(dir, options)?;
    engine.create_tree(TREE, TreeOptions { filter_granularity, ..TreeOptions::default() })?;
    ingest(args, &engine, 1)?;
    ingest(args, &engine, 2)?;
    read(args, &engine, READS_TO_LEARN, 0)?;
    let compacted = Phase::measure("", || {
        engine.tree(TREE).and_then(|tree| tree.compact_range(&RowRange::ALL)).map(|()| args.rows)
    })?;
    let memory = memory_of(dir)?;
    read(args, &engine, args.reads, 0)?;
    let present = read(args, &engine, args.reads, 0)?;
    let wrong =
        || engine.metrics().get("filter_false_positives_total{granularity=\"row\"}").unwrap_or(0);
    let before = wrong();
    let absent = read(args, &engine, args.reads, 1)?;
    Ok(Measured {
        filter_bytes: memory.filter_bytes as f64 / args.rows as f64,
        share: memory.filter_bytes as f64 * 100.0 / memory.file_bytes as f64,
        compaction: compacted.cpu_ns(),
        present,
        absent,
        wrong: (wrong() - before) as f64 * 100.0 / args.reads as f64,
    })
}

/// Reads whole rows of even numbers, plus `odd`; CPU nanoseconds a read.
fn read(args: &GranularityArgs, engine: &Engine, reads: usize, odd: u64) -> Result<f64> {
    let tree = engine.tree(TREE)?;
    let (mut random, mut cells) = (SplitMix64(5), 0);
    let start = thread_cpu();
    for _ in 0..reads {
        let row = random.next_u64() % args.rows * 2 + odd;
        let selection = RowSelection::of(&Columns::All);
        cells += tree.read_row_with(&row_key(row), &selection, None, |_| {})?;
    }
    let nanos = (thread_cpu() - start).as_nanos() as f64 / reads as f64;
    let there = if odd == 0 { 2 * args.columns * reads } else { 0 };
    assert_eq!(cells, there as u64, "every read meets its row");
    Ok(nanos)
}

/// The metadata of all SSTables in `dir`.
fn memory_of(dir: &Path) -> Result<SstMemory> {
    let mut sum = SstMemory::default();
    for entry in std::fs::read_dir(dir).expect("the directory is there") {
        let path = entry.expect("the directory can be read").path();
        if path.extension().is_some_and(|extension| extension == "sst") {
            let of = sst_memory(&RealFileSystem, &path)?;
            sum.filter_bytes += of.filter_bytes;
            sum.file_bytes += of.file_bytes;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measurement_runs_small() {
        run(&GranularityArgs { rows: 500, columns: 12, reads: 200, rounds: 1 }).unwrap();
    }
}
