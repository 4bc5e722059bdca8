//! Advice about space, snapshots, compactions that are behind, and the block cache.

use super::super::super::metrics::Disk;
use super::super::readings::{BLOCK_CACHE, EngineReading, UNTRACKED};
use super::super::samples::{EngineSample, Sample};
use super::{Advice, Severity, advice};
use std::sync::Arc;

/// Part of the disk below which compactions may find no room, and below which it is nearly full.
const FREE_LITTLE: f64 = 0.15;
const FREE_LEAST: f64 = 0.05;
/// Age in seconds of a snapshot that keeps many replaced files.
const SNAPSHOT_OLD: u64 = 3_600;
/// Debt of compactions that is large, how much more it is at the end of the last minute, and the samples
/// that show it.
const DEBT_LARGE: u64 = 1 << 30;
const DEBT_GROWTH: f64 = 1.2;
const DEBT_SAMPLES: usize = 4;
/// Disk reads of a get that are more than one block of data.
const DISK_READS_MANY: f64 = 1.5;

pub(super) fn disk(disk: Disk) -> Option<Advice> {
    let free = disk.free as f64 / disk.size.max(1) as f64;
    if disk.size == 0 || free >= FREE_LITTLE {
        return None;
    }
    let severity = if free < FREE_LEAST { Severity::Critical } else { Severity::Warning };
    Some(advice(
        severity,
        format!("The disk has {:.1} % left", free * 100.0),
        format!(
            "The file system of the data directory has {} of {} left. Compactions need about the size of \
             the largest table for a while. Add space, or drop rows, tables or old backups of tables.",
            size(disk.free),
            size(disk.size)
        ),
        "stelediskfillsup",
    ))
}

pub(super) fn snapshot(engine: &EngineReading) -> Option<Advice> {
    let age = engine.snapshot_age.filter(|age| *age > SNAPSHOT_OLD)?;
    Some(advice(
        Severity::Warning,
        format!("A read holds a snapshot for {:.1} hours", age as f64 / 3_600.0),
        "Replaced files stay on disk until it ends. Look for clients that read a whole table slowly, for \
         transactions of SQL that were left open, and for change streams that stand still.",
        "stelesnapshotold",
    ))
}

pub(super) fn debt(recent: &[Arc<Sample>]) -> Option<Advice> {
    let engines = recent.iter().filter_map(|sample| sample.engine.as_ref());
    let debts: Vec<u64> = engines.filter_map(|engine| engine.compaction_debt).collect();
    let (first, last) = (*debts.first()?, *debts.last()?);
    let grows = debts.windows(2).all(|pair| pair[0] <= pair[1]);
    let is_more = last as f64 >= first as f64 * DEBT_GROWTH;
    let is_seen = debts.len() >= DEBT_SAMPLES && last >= DEBT_LARGE;
    (is_seen && grows && is_more).then(|| {
        advice(
            Severity::Note,
            format!("Compactions are {} behind, and it grows", size(last)),
            "Writes come faster than compactions follow. Reads get slower, and writers will have to wait. \
             Raise background_threads, remove a background_rate, or write more slowly.",
            "stelewritersstopped",
        )
    })
}

pub(super) fn cache(recent: &[Arc<Sample>]) -> Option<Advice> {
    let engine = recent.last()?.engine.as_ref()?;
    let reads = engine.disk_reads_per_get.filter(|reads| *reads >= DISK_READS_MANY)?;
    let title = format!("A get reads {reads:.1} blocks from disk");
    let (cached, beside) = (memory_of(engine, BLOCK_CACHE), memory_of(engine, UNTRACKED));
    let budget = engine.memory_max.unwrap_or_default();
    if budget > 0 && beside > budget / 2 {
        let text = format!(
            "Memory that the engine does not track takes {} of the budget of {}, and leaves {} to the block \
             cache. A heap profile shows what allocated it.",
            size(beside),
            size(budget),
            size(cached)
        );
        return Some(advice(Severity::Note, title, text, "stelememoryuntracked"));
    }
    let text = format!(
        "The data in use is larger than the block cache, which has {} of the budget of {}. A larger \
         memory_bytes_max makes reads faster.",
        size(cached),
        size(budget)
    );
    Some(advice(Severity::Note, title, text, "stelereadsslow"))
}

fn memory_of(engine: &EngineSample, owner: &str) -> u64 {
    engine.memory.iter().filter(|one| one.owner == owner).map(|one| one.bytes).sum()
}

/// Returns a number of bytes as people read it.
fn size(bytes: u64) -> String {
    const MIB: f64 = (1 << 20) as f64;
    match bytes as f64 / MIB {
        mib if mib >= 1_024.0 => format!("{:.1} GiB", mib / 1_024.0),
        mib => format!("{mib:.0} MiB"),
    }
}
