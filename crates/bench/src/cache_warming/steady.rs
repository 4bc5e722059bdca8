//! Turns of one engine under gets and writes at a fixed ratio, while its own flushes and compactions
//! run when they are due: what a server meets. Gets that follow the end of a compaction are also
//! shown by themselves.

use super::{CacheWarmingArgs, FAMILY, Gets, Side, TREE, Written, get, show};
use crate::AnyError;
use crate::measure::Phase;
use bench_core::{SplitMix64, print};
use engine::{Column, Options, Timestamp, WriteBatch};
use hdrhistogram::Histogram;

/// Gets after the end of a compaction that are shown by themselves.
const AFTER: u64 = 2000;
/// Gets between two looks at the counters.
const LOOK: u64 = 100;
/// Gets before a turn that only warm the cache, as a share of it.
const WARMING: u64 = 4;

/// Returns the options that depend on the kind of turns.
pub(super) fn options(args: &CacheWarmingArgs) -> Options {
    match args.steady {
        Some(_) => Options {
            memtable_bytes_max: args.memtable,
            l1_bytes_max: 8 * args.memtable as u64,
            sst_bytes_max: 4 * args.memtable as u64,
            ..Options::default()
        },
        None => Options::default(),
    }
}

/// Runs a turn of `gets` gets and their writes.
pub(super) fn turn(side: &mut Side<'_>, name: &str, gets: u64) -> Result<(), AnyError> {
    side.seed += 10;
    side.engine.resume_compactions();
    run(side, gets / WARMING)?;
    let compactions = side.engine.metrics().get("compactions_total").unwrap_or(0);
    let mut gone = None;
    let phase = Phase::measure(name, || {
        gone = Some(run(side, gets)?);
        Ok::<_, AnyError>(gets)
    })?;
    let ended = side.engine.metrics().get("compactions_total").unwrap_or(0) - compactions;
    side.engine.pause_compactions();
    let Some([all, after]) = gone else { return Err("the turn did not run".into()) };
    show(name, &format!("{ended} compactions"), &all);
    show(name, "after them", &after);
    let (cpu, rate) = (phase.cpu_ns(), phase.per_second());
    print(&format!("{name:<14} CPU of all threads {cpu:.0} ns/get, {rate:.0} gets/s"));
    Ok(())
}

/// All gets of a part of a turn, and those after the end of a compaction.
fn run(side: &mut Side<'_>, gets: u64) -> Result<[Gets; 2], AnyError> {
    let tree = side.engine.tree(TREE)?;
    side.seed += 1;
    let mut draw = SplitMix64(side.seed);
    let counters = |side: &Side<'_>| {
        let metrics = side.engine.metrics();
        ["compactions_total", "point_disk_reads_total"].map(|name| metrics.get(name).unwrap_or(0))
    };
    let [mut all, mut after] = [Histogram::<u64>::new(3)?, Histogram::new(3)?];
    let (mut left_after, mut disk_reads_after) = (0, 0);
    let [mut compactions, before] = counters(side);
    let mut disk_reads = before;
    let mut value = vec![0; side.args.value_bytes];
    for at in 0..gets {
        if at % LOOK == 0 {
            let [ended, read] = counters(side);
            disk_reads_after += if left_after > 0 { read - disk_reads } else { 0 };
            left_after = if ended > compactions { AFTER } else { left_after.saturating_sub(LOOK) };
            (compactions, disk_reads) = (ended, read);
        }
        if at % side.args.gets_a_write == 0 {
            draw.fill(&mut value);
            let row = match side.args.written {
                Written::AsRead => side.row(&mut draw),
                Written::Any => draw.below(side.args.rows),
            };
            let mut batch = WriteBatch::new();
            batch.put(&row.to_be_bytes(), Column::of(FAMILY, b"q"), Timestamp(0), &value);
            tree.write(&batch)?;
        }
        let nanos = get(&tree, side.row(&mut draw))?;
        all.record(nanos)?;
        if left_after > 0 {
            after.record(nanos)?;
        }
    }
    let read = side.disk_reads() - before;
    let after = Gets { latencies: after, disk_reads: disk_reads_after };
    Ok([Gets { latencies: all, disk_reads: read }, after])
}
