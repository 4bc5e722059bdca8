//! Before measuring: everything that fits is brought into memory, and everything is checked.

use crate::data::{CELLS_PER_WIDE_ROW, Data, Model};
use crate::engines::{BenchEngine, Result};
use crate::slice::{Timing, run_reads};
use crate::touched::Touched;
use crate::workloads::warming;
use bench_core::KeyKind;

/// Reads that load filters and settle a cache that holds everything.
const READS: u64 = 50_000;
/// Reads that fill a cache which holds a twentieth, from disk.
const READS_FROM_DISK: u64 = 60_000;

/// Warms `engine`: a scan of everything and some point reads, or point reads alone where data
/// does not fit.
pub(crate) fn warm(
    engine: &dyn BenchEngine,
    data: &Data,
    disk_bound: bool,
    seed: u64,
) -> Result<()> {
    let calls = if disk_bound { READS_FROM_DISK } else { READS };
    if !disk_bound {
        check_all(engine, data)?;
    }
    run_reads(engine, data, &*warming(data.spec.model, disk_bound), calls, seed, Timing::Whole)?;
    Ok(())
}

/// Scans everything and compares it with what was loaded.
pub(crate) fn check_all(engine: &dyn BenchEngine, data: &Data) -> Result<()> {
    let mut touched = Touched::default();
    engine.reader()?.scan(&mut touched)?;
    let mut expected = Touched::default();
    let mut key = Vec::new();
    for number in data.sorted().filter(|number| !data.is_deleted(*number)) {
        key.clear();
        data.append_key(number, KeyKind::Present, &mut key);
        expect_row(data, number, &key, &mut expected);
    }
    if touched != expected {
        return Err(format!("a scan gave {touched:?} and not {expected:?}").into());
    }
    Ok(())
}

/// What a scan gives of row `number`.
fn expect_row(data: &Data, number: u64, key: &[u8], expected: &mut Touched) {
    let cells = if data.spec.model == Model::Columns { CELLS_PER_WIDE_ROW } else { 1 };
    (0..cells).for_each(|cell| expected.entry(key, data.value(number, cell)));
}
