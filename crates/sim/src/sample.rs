//! A small store that has something of everything: several trees of different options, one of them
//! with row prefixes, SSTables on every level, one that was ingested, dropped ranges, aggregates, a log of several segments that is still needed,
//! a store that has an id, and a manifest of many edits. The fixtures of released formats and the byte flips are made
//! of it.

use crate::oracle::Trouble;
use crate::session::Session;
use crate::workload::{self, Step, small_options};
use base::checksum::crc32c;
use base::env::Rng;
use engine::IngestOptions;
use engine::WriteBatch;
use engine::internals::OwnedRow;
use engine::{Column, FamilyId, Timestamp, TreeId};
use engine::{Compression, Durability, FilterGranularity, Options, TreeOptions};
use engine::{RowRange, ScanRequest};
use std::fmt::Write;

/// Trees whose data is mostly in SSTables.
const FLUSHED: [TreeId; 2] = [TreeId(1), TreeId(2)];
/// A tree that is only in the log.
const LOGGED: TreeId = TreeId(3);
/// A tree that was dropped.
pub const DROPPED: TreeId = TreeId(4);

/// The options to open it with.
pub fn options() -> Options {
    small_options(Durability::Sync)
}

/// How it comes to be.
pub fn steps() -> Vec<Step> {
    let mut rng = Rng::new(1);
    let mut steps = Vec::new();
    for (tree, options) in trees() {
        steps.push(Step::Create(tree, options));
    }
    steps.push(Step::Create(DROPPED, TreeOptions::default()));
    let mut batch = WriteBatch::new();
    let column = Column::of(FamilyId(1), b"large");
    batch.put(b"row-large", column, Timestamp(1), &[b'a'; 44 << 10]);
    steps.push(Step::Write(LOGGED, batch));
    let mut write = |steps: &mut Vec<Step>, tree, batches| {
        for _ in 0..batches {
            steps.push(Step::Write(tree, workload::batch(&mut rng, 400)));
        }
    };
    write(&mut steps, DROPPED, 3);
    for tree in FLUSHED {
        write(&mut steps, tree, 16);
        steps.push(Step::Compact(tree, RowRange::ALL));
        for _ in 0..3 {
            write(&mut steps, tree, 6);
            steps.extend([Step::Flush(tree), Step::Work(20)]);
        }
        write(&mut steps, tree, 3);
    }
    let mut loaded = WriteBatch::new();
    for number in 0..20u8 {
        loaded.put(&[b's', number], column, Timestamp(1), &[number; 200]);
    }
    steps.push(Step::Ingest(FLUSHED[1], loaded, IngestOptions::default()));
    // Without it nothing but the manifest would know of the ingest.
    write(&mut steps, LOGGED, 1);
    steps.push(Step::Drop(DROPPED));
    write(&mut steps, LOGGED, 6);
    steps
}

fn trees() -> [(TreeId, TreeOptions); 3] {
    let small = TreeOptions { block_bytes: 1 << 10, ..TreeOptions::default() };
    let other = TreeOptions {
        compression: Compression::None,
        compression_last: Compression::Zstd,
        filter_bits_per_key: 8,
        filter_granularity: Some(FilterGranularity::Family),
        ..small.clone()
    };
    let prefixed = TreeOptions { row_prefix_bytes: 2, prefix_index: true, ..small };
    [(FLUSHED[0], prefixed), (FLUSHED[1], other), (LOGGED, TreeOptions::default())]
}

/// Takes the steps in `session`, which is open and new.
pub fn build(session: &mut Session) -> Result<(), Trouble> {
    for step in steps() {
        session.step(&step)?;
    }
    session.engine().store_id()?;
    session.check()
}

/// All that `session` must hold, as text that a reviewer can read.
pub fn expected(session: &Session) -> String {
    let oracle = session.oracle();
    let mut text = String::new();
    for tree in oracle.trees() {
        let rows = oracle.answer(tree, &ScanRequest::rows(RowRange::ALL), oracle.last());
        print(&mut text, tree, &rows);
    }
    text
}

/// Adds the rows of `tree` to `text`. A long value is told by its length and checksum.
pub fn print(text: &mut String, tree: TreeId, rows: &[OwnedRow]) {
    let mut line = |what: String| writeln!(text, "{what}").expect("a string takes all");
    line(format!("tree {}", tree.0));
    for (row, cells) in rows {
        line(format!("  row \"{}\"", row.escape_ascii()));
        for cell in cells {
            let value = match cell.value.len() {
                0..=40 => format!("\"{}\"", cell.value.escape_ascii()),
                len => format!("{len} bytes, crc32c {:08x}", crc32c(&[&cell.value])),
            };
            let (family, qualifier) = (cell.family.0, cell.qualifier.escape_ascii());
            line(format!("    {family}:\"{qualifier}\" @{} = {value}", cell.timestamp.0));
        }
    }
}
