//! The same in a real engine, to hold the simulator against.

use super::Shown;
use crate::AnyError;
use bench_core::SplitMix64;
use engine::{
    Column, Compression, Durability, Engine, FamilyId, Options, RowRange, Timestamp, TreeId,
    TreeOptions, WriteBatch,
};

const TREE: TreeId = TreeId(1);
const VALUE_BYTES: usize = 1000;
/// Rows of a batch.
const BATCH: u64 = 64;

/// Fills an engine with `bytes` of live data, all in the last level, overwrites as many at random,
/// and shows what that cost.
pub(super) fn run(bytes: u64, options: &Options) -> Result<Shown, AnyError> {
    let dir = tempfile::tempdir()?;
    let options = Options { durability: Durability::None, ..options.clone() };
    let engine = Engine::open(dir.path(), options)?;
    let tree = TreeOptions {
        compression: Compression::None,
        compression_last: Compression::None,
        ..TreeOptions::default()
    };
    engine.create_tree(TREE, tree)?;
    let rows = bytes / VALUE_BYTES as u64;
    for first in (0..rows).step_by(BATCH as usize) {
        write(&engine, (first..(first + BATCH).min(rows)).map(spread))?;
    }
    engine.tree(TREE)?.compact_range(&RowRange::ALL)?;
    let live = metric(&engine, "level_bytes{level=\"2\"}") as f64;
    let (flushed, compacted) = written(&engine);
    let mut random = SplitMix64(1);
    let (mut runs, mut runs_max, mut bytes_max, mut looks) = (0, 0, 0, 0);
    for batch in 0..rows / BATCH {
        write(&engine, (0..BATCH).map(|_| spread(random.next_u64() % rows)))?;
        if batch % 8 == 0 {
            let now = sum(&engine, "runs");
            (runs, looks) = (runs + now, looks + 1);
            runs_max = runs_max.max(now);
            bytes_max = bytes_max.max(sum(&engine, "bytes"));
        }
    }
    let now = written(&engine);
    let (flushed, compacted) = ((now.0 - flushed) as f64, (now.1 - compacted) as f64);
    engine.close()?;
    Ok(Shown {
        write_amplification: (flushed + compacted) / flushed.max(1.0),
        space_amplification: bytes_max as f64 / live,
        runs_mean: runs as f64 / f64::from(looks).max(1.0),
        runs_max,
        stopped: 0.0,
    })
}

/// The key of a row, so that neighbours in number are far apart.
fn spread(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn write(engine: &Engine, rows: impl Iterator<Item = [u8; 8]>) -> Result<(), AnyError> {
    let mut batch = WriteBatch::new();
    for row in rows {
        batch.put(&row, Column::of(FamilyId(1), b"q"), Timestamp(1), &[7; VALUE_BYTES]);
    }
    engine.tree(TREE)?.write(&batch)?;
    Ok(())
}

fn metric(engine: &Engine, name: &str) -> u64 {
    engine.metrics().get(name).unwrap_or(0)
}

/// Bytes flushed and compacted.
fn written(engine: &Engine) -> (u64, u64) {
    (metric(engine, "flushed_bytes_total"), metric(engine, "compacted_bytes_total"))
}

/// The sum over levels of their `runs` or `bytes`.
fn sum(engine: &Engine, what: &str) -> u64 {
    let metrics = engine.metrics();
    metrics.get(&format!("level_{what}")).unwrap_or(0)
}
