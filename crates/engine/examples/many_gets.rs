//! One thread that keeps many gets at work on the disk.
//!
//! ```sh
//! cargo run -p engine --example many_gets [DIR]
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use engine::kv::{Kv, KvBatch};
use engine::{Options, Result};
use std::path::Path;

const KEYS: u64 = 5_000;
/// Gets that read from the disk at the same time.
const DEPTH: usize = 64;

/// Writes keys to `dir` and gets all of them, with a memory for blocks too small to hold them.
pub(crate) fn run(dir: &Path) -> Result<()> {
    let options = Options { memory_bytes_max: 2 << 20, ..Options::default() };
    let kv = Kv::open(dir, options)?;
    for start in (0..KEYS).step_by(500) {
        let mut batch = KvBatch::default();
        for number in start..start + 500 {
            batch.put(&number.to_be_bytes(), &value_of(number));
        }
        kv.write(&batch)?;
    }
    kv.engine().tree(engine::TreeId(1))?.compact_range(&engine::RowRange::ALL)?;

    let mut gets = kv.in_flight(DEPTH, None);
    let mut found = 0;
    let mut submitted = 0;
    while found < KEYS {
        // The number of a key is the tag by which its answer is known; answers come in any order.
        while submitted < KEYS && gets.in_flight() < DEPTH {
            gets.submit(submitted, &submitted.to_be_bytes());
            submitted += 1;
        }
        let (tag, value) = gets.wait().expect("gets are in flight");
        assert_eq!(value?, Some(value_of(tag)));
        found += 1;
    }
    println!("{found} keys, up to {DEPTH} at a time");
    Ok(())
}

fn value_of(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(100)
}

#[allow(dead_code, reason = "the test calls `run` in a directory of its own")]
fn main() -> Result<()> {
    run(Path::new(&std::env::args().nth(1).unwrap_or_else(|| "example-many-gets".into())))
}
