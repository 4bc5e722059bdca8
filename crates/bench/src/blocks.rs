//! Our data block against a block of LevelDB's kind (prefix-compressed keys, a restart point every
//! 16 entries): time of a get within a block, of reading a block whole, and bytes.
//!
//! The data is larger than the processor's caches; every get goes to a random block. Blocks are
//! not compressed and their place is known, so nothing but the block is measured.

mod restart;

use crate::timing::{Random, nanos_per_item};
use engine::cell::{Column, Entry, FamilyId, Kind, SequenceNumber, Timestamp};
use engine::sstable::measure::{BlockWriter, DataBlock, lz4_len};
use restart::{RestartBlock, RestartWriter, encode_key};

#[derive(Debug, clap::Args)]
pub(crate) struct BlocksArgs {
    /// Bytes of values and keys of each data set.
    #[arg(long, default_value_t = 96)]
    mib: usize,
    /// Gets of each run.
    #[arg(long, default_value_t = 200_000)]
    gets: usize,
    /// Runs of each measurement; the least and the middle are shown.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

/// What rows look like.
struct Shape {
    name: &'static str,
    columns: usize,
    versions: usize,
    value_len: usize,
    key: fn(usize) -> Vec<u8>,
}

const SHAPES: [Shape; 3] = [
    Shape { name: "W1: 1 cell of 100 B", columns: 1, versions: 1, value_len: 100, key: short_key },
    Shape { name: "W2: 10 x 3 of 32 B", columns: 10, versions: 3, value_len: 32, key: short_key },
    Shape { name: "URL: 1 cell of 100 B", columns: 1, versions: 1, value_len: 100, key: url_key },
];

/// 20 bytes that differ from each other early.
fn short_key(row: usize) -> Vec<u8> {
    format!("{:016x}{:04x}", Random(row as u64).next(), row % 10_000).into_bytes()
}

/// Heads that tie: many rows of one host, told apart by what is far behind.
fn url_key(row: usize) -> Vec<u8> {
    let host = row / 37;
    format!("https://host-{host:06}.example.org/catalogue/items/details?id={row:08}").into_bytes()
}

/// One get: the row by its place in order and its key, column and version, 0 being the newest.
/// Asked one after the other, so that they come from the cache and only the block does not.
struct Question {
    row: usize,
    key: Vec<u8>,
    column: usize,
    version: usize,
}

#[expect(clippy::print_stdout, reason = "the results of a benchmark are its output")]
pub(crate) fn run(arguments: &BlocksArgs) {
    println!("ns of CPU, least / middle of {} runs; MB of blocks", arguments.rounds);
    println!(
        "{:20} {:>6} | {:>11} {:>11} {:>5} | {:>11} {:>11} {:>5} | {:>8} | {:>17} | {:>17}",
        "",
        "",
        "get: ours",
        "restart-16",
        "",
        "cell: ours",
        "restart-16",
        "",
        "check",
        "MB raw",
        "MB LZ4"
    );
    for shape in &SHAPES {
        for block_kib in [4, 16, 32] {
            measure(arguments, shape, block_kib << 10);
        }
    }
}

#[expect(clippy::print_stdout, reason = "the results of a benchmark are its output")]
fn measure(arguments: &BlocksArgs, shape: &Shape, block_bytes: usize) {
    let keys = keys(arguments, shape);
    let ours = build_ours(shape, &keys, block_bytes);
    let other = build_restart(shape, &keys, block_bytes);
    let questions = questions(arguments, shape, &keys);
    let get = (
        get_ours(arguments, shape, &ours, &questions),
        get_restart(arguments, shape, &other, &questions),
    );
    let cells = keys.len() * shape.columns * shape.versions;
    let scan = (scan_ours(&ours, cells), scan_restart(&other, cells));
    let check = check_ours(arguments, &ours);
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    let pair = |(least, middle): (f64, f64)| format!("{least:.0} / {middle:.0}");
    let fine = |(least, middle): (f64, f64)| format!("{least:.1}/{middle:.1}");
    println!(
        "{:20} {:>2} KiB | {:>11} {:>11} {:>5.2} | {:>11} {:>11} {:>5.2} | {:>5.1} us | {:>5.1} {:>5.1} {:>5.3} | {:>5.1} {:>5.1} {:>5.3}",
        shape.name,
        block_bytes >> 10,
        pair(get.0),
        pair(get.1),
        get.1.0 / get.0.0,
        fine(scan.0),
        fine(scan.1),
        scan.1.0 / scan.0.0,
        check.0 / 1000.0,
        megabytes(ours.bytes),
        megabytes(other.bytes),
        ours.bytes as f64 / other.bytes as f64,
        megabytes(ours.lz4_bytes),
        megabytes(other.lz4_bytes),
        ours.lz4_bytes as f64 / other.lz4_bytes as f64,
    );
}

/// Sorted row keys of as many rows as fill the data set.
fn keys(arguments: &BlocksArgs, shape: &Shape) -> Vec<Vec<u8>> {
    let row_bytes = (shape.key)(0).len() + shape.columns * shape.versions * (shape.value_len + 13);
    let rows = arguments.mib * (1 << 20) / row_bytes;
    let mut keys: Vec<Vec<u8>> = (0..rows).map(shape.key).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn questions(arguments: &BlocksArgs, shape: &Shape, keys: &[Vec<u8>]) -> Vec<Question> {
    let mut random = Random(7);
    let mut question = || {
        let row = random.below(keys.len());
        Question {
            row,
            key: keys[row].clone(),
            column: random.below(shape.columns),
            version: random.below(shape.versions),
        }
    };
    (0..arguments.gets).map(|_| question()).collect()
}

fn qualifier(column: usize) -> [u8; 5] {
    let digit = b'0' + column as u8 % 10;
    [b'c', b'o', b'l', b'_', digit]
}

/// The timestamp of a version, 0 being the newest: microseconds with millisecond steps.
fn timestamp(row: usize, version: usize) -> i64 {
    1_700_000_000_000_000 + (row % 1000) as i64 * 1000 - version as i64 * 1_000_000
}

fn value(shape: &Shape, row: usize) -> Vec<u8> {
    let mut value = vec![row as u8; shape.value_len];
    // Half of it noise, so that compression finds about as much as in real data.
    let noise = Random(row as u64).next().to_le_bytes();
    let half = value.len() / 2;
    value[half..].iter_mut().enumerate().for_each(|(at, byte)| {
        *byte = noise[at % 8].wrapping_mul(at as u8 | 1);
    });
    value
}

/// Blocks of one kind, and for each row the block it is in.
struct Built<B> {
    blocks: Vec<B>,
    block_of: Vec<u32>,
    bytes: usize,
    lz4_bytes: usize,
    /// Some blocks as bytes.
    sample: Vec<Vec<u8>>,
}

const SAMPLE_BLOCKS: usize = 200;

fn build_ours(shape: &Shape, keys: &[Vec<u8>], block_bytes: usize) -> Built<DataBlock> {
    let mut built =
        Built { blocks: vec![], block_of: vec![], bytes: 0, lz4_bytes: 0, sample: vec![] };
    let mut writer = BlockWriter::default();
    let cut = |writer: &mut BlockWriter, built: &mut Built<DataBlock>| {
        let block = writer.finish();
        built.bytes += block.len();
        built.lz4_bytes += lz4_len(&block);
        if built.sample.len() < SAMPLE_BLOCKS {
            built.sample.push(block.clone());
        }
        built.blocks.push(DataBlock::new(block).expect("it was just written"));
    };
    for (row, key) in keys.iter().enumerate() {
        writer.start_row(key);
        built.block_of.push(built.blocks.len() as u32);
        for column in 0..shape.columns {
            for version in 0..shape.versions {
                writer.push(&Entry {
                    column: Column::of(FamilyId(1), &qualifier(column)),
                    timestamp: Timestamp(timestamp(row, version)),
                    sequence: SequenceNumber(0),
                    kind: Kind::Put,
                    value: &value(shape, row),
                });
            }
        }
        if writer.len() >= block_bytes {
            cut(&mut writer, &mut built);
        }
    }
    if !writer.is_empty() {
        cut(&mut writer, &mut built);
    }
    built
}

fn build_restart(shape: &Shape, keys: &[Vec<u8>], block_bytes: usize) -> Built<RestartBlock> {
    let mut built =
        Built { blocks: vec![], block_of: vec![], bytes: 0, lz4_bytes: 0, sample: vec![] };
    let mut writer = RestartWriter::default();
    for (row, key) in keys.iter().enumerate() {
        built.block_of.push(built.blocks.len() as u32);
        for column in 0..shape.columns {
            for version in 0..shape.versions {
                let key = encode_key(key, &qualifier(column), timestamp(row, version));
                writer.push(&key, &value(shape, row));
            }
        }
        if writer.len() >= block_bytes || row + 1 == keys.len() {
            let block = writer.finish();
            built.bytes += block.len();
            built.lz4_bytes += lz4_len(block.bytes());
            built.blocks.push(block);
        }
    }
    built
}

fn get_ours(
    arguments: &BlocksArgs,
    shape: &Shape,
    built: &Built<DataBlock>,
    questions: &[Question],
) -> (f64, f64) {
    nanos_per_item(arguments.rounds, questions.len(), || {
        for Question { row, key, column, version } in questions {
            let qualifier = qualifier(*column);
            let column = Column::of(FamilyId(1), &qualifier);
            let newest = Timestamp(timestamp(*row, *version));
            let block = &built.blocks[built.block_of[*row] as usize];
            let value = block.get(key, &column, newest);
            assert!(value.is_some_and(|value| found(shape, *row, value)), "our block lost a cell");
        }
    })
}

fn get_restart(
    arguments: &BlocksArgs,
    shape: &Shape,
    built: &Built<RestartBlock>,
    questions: &[Question],
) -> (f64, f64) {
    let mut scratch = Vec::new();
    nanos_per_item(arguments.rounds, questions.len(), || {
        for Question { row, key, column, version } in questions {
            let qualifier = qualifier(*column);
            let key = encode_key(key, &qualifier, timestamp(*row, *version));
            let block = &built.blocks[built.block_of[*row] as usize];
            let value = block.get(&key, &mut scratch);
            assert!(value.is_some_and(|value| found(shape, *row, value)), "a cell was lost");
        }
    })
}

fn found(shape: &Shape, row: usize, value: &[u8]) -> bool {
    value.len() == shape.value_len && value[0] == row as u8
}

/// Checking a block as when it enters the cache, per block; a copy of its bytes included.
fn check_ours(arguments: &BlocksArgs, built: &Built<DataBlock>) -> (f64, f64) {
    nanos_per_item(arguments.rounds, built.sample.len(), || {
        for block in &built.sample {
            std::hint::black_box(DataBlock::new(block.clone()).is_ok());
        }
    })
}

fn scan_ours(built: &Built<DataBlock>, cells: usize) -> (f64, f64) {
    nanos_per_item(3, cells, || {
        let read: usize = built.blocks.iter().map(|b| std::hint::black_box(b.read_all()).0).sum();
        assert_eq!(read, cells);
    })
}

fn scan_restart(built: &Built<RestartBlock>, cells: usize) -> (f64, f64) {
    let mut scratch = Vec::new();
    nanos_per_item(3, cells, || {
        let mut read = |block: &RestartBlock| std::hint::black_box(block.read_all(&mut scratch)).0;
        assert_eq!(built.blocks.iter().map(&mut read).sum::<usize>(), cells);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measurement_runs_small() {
        run(&BlocksArgs { mib: 1, gets: 500, rounds: 1 });
    }
}
