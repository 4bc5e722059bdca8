//! Reads that agree with each other while others write, and a copy of a live engine.
//! DIR is new or empty.
//!
//! ```sh
//! cargo run -p engine --example snapshots [DIR]
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use engine::{
    Column, ColumnOf, Engine, FamilyId, Options, Result, Snapshot, Timestamp, Tree, TreeId,
    TreeOptions, WriteBatch,
};
use std::path::Path;

const ACCOUNTS: TreeId = TreeId(1);
const FAMILY: FamilyId = FamilyId(1);

/// Moves money between two accounts below `dir`, and adds up what there is at several moments.
pub(crate) fn run(dir: &Path) -> Result<()> {
    let engine = Engine::open(dir.join("live"), Options::default())?;
    let accounts = engine.create_tree(ACCOUNTS, TreeOptions::default())?;
    set_both(&accounts, 100, 0)?;
    let morning = engine.snapshot();

    // A batch is never seen in part, so the sum is the same at every moment.
    set_both(&accounts, 70, 30)?;
    let noon = engine.snapshot();
    set_both(&accounts, 20, 80)?;
    for (name, at) in [("morning", Some(&morning)), ("noon", Some(&noon)), ("now", None)] {
        let both = (balance(&accounts, b"ada", at)?, balance(&accounts, b"bob", at)?);
        println!("{name}: {both:?}");
        assert_eq!(both.0 + both.1, 100);
    }
    assert_eq!(balance(&accounts, b"ada", Some(&morning))?, 100);

    // The copy is a data directory of its own: it opens beside the live one and goes its own way.
    engine.checkpoint(&dir.join("copy"))?;
    set_both(&accounts, 0, 100)?;
    let copy = Engine::open(dir.join("copy"), Options::default())?;
    assert_eq!(balance(&copy.tree(ACCOUNTS)?, b"ada", None)?, 20);
    Ok(())
}

fn set_both(accounts: &Tree, ada: u64, bob: u64) -> Result<()> {
    let mut batch = WriteBatch::new();
    for (row, balance) in [(b"ada", ada), (b"bob", bob)] {
        let column = Column::of(FAMILY, b"balance");
        batch.put(row, column, Timestamp(0), &balance.to_be_bytes());
    }
    accounts.write(&batch).map(drop)
}

fn balance(accounts: &Tree, row: &[u8], at: Option<&Snapshot>) -> Result<u64> {
    let of = ColumnOf::new(row, FAMILY, b"balance");
    let read = |_, value: &[u8]| value.try_into().map_or(0, u64::from_be_bytes);
    Ok(accounts.get_with(of, at, read)?.unwrap_or(0))
}

#[allow(dead_code, reason = "the test calls `run` in a directory of its own")]
fn main() -> Result<()> {
    run(Path::new(&std::env::args().nth(1).unwrap_or_else(|| "example-snapshots".into())))
}
