//! A bulk load: several threads write sorted SSTables, and all become visible at once.
//!
//! ```sh
//! cargo run -p engine --example bulk_load [DIR]
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use engine::{
    Column, Engine, FamilyId, IngestFiles, IngestOptions, Options, Result, RowRange, ScanRequest,
    Timestamp, Tree, TreeId, TreeOptions,
};
use std::ops::Range;
use std::path::Path;

const TREE: TreeId = TreeId(1);
const ROWS: u32 = 20_000;

/// Loads rows into `dir`, each thread a range of them of its own.
pub(crate) fn run(dir: &Path) -> Result<()> {
    let engine = Engine::open(dir, Options::default())?;
    let tree = engine.tree_or_create(TREE, TreeOptions::default())?;
    let (low, high) = std::thread::scope(|threads| {
        let low = threads.spawn(|| write_part(&tree, 0..ROWS / 2));
        let high = write_part(&tree, ROWS / 2..ROWS);
        (low.join().expect("a part is written without a panic"), high)
    });
    let mut files = low?;
    files.append(high?)?;
    println!("{} cells in {} bytes", files.cells(), files.bytes());

    // Nobody sees a row before this, and everybody all of them after it. It is durable.
    engine.ingest(&mut files)?;

    let mut scan = tree.scan(&ScanRequest::rows(RowRange::ALL), None)?;
    let mut rows = 0;
    while scan.next_row()?.is_some() {
        rows += 1;
    }
    assert_eq!(rows, ROWS);
    Ok(())
}

/// Writes the rows with the numbers in `part`. They come in order, as a scan would give them.
fn write_part(tree: &Tree, part: Range<u32>) -> Result<IngestFiles> {
    let mut writer = tree.sst_writer(&IngestOptions::default())?;
    for number in part {
        let value = format!("the value of row {number}");
        let column = Column::of(FamilyId(1), b"text");
        writer.put(&number.to_be_bytes(), column, Timestamp(0), value.as_bytes())?;
    }
    writer.finish()
}

#[allow(dead_code, reason = "the test calls `run` in a directory of its own")]
fn main() -> Result<()> {
    run(Path::new(&std::env::args().nth(1).unwrap_or_else(|| "example-bulk-load".into())))
}
