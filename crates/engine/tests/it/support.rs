//! What the tests share: a small engine, and reading all of a scan.

use engine::OwnedCell;
use engine::internals::OwnedRow;
use engine::{Cell, Durability, Engine, Options, Scan, TreeId};
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) const TREE: TreeId = TreeId(1);

/// Sizes so small that a few dozen writes flush and a few hundred compact.
pub(crate) fn small() -> Options {
    Options {
        durability: Durability::None,
        memtable_bytes_max: 64 << 10,
        memory_bytes_max: 4 << 20,
        cache_bytes_max: Some(1 << 20),
        log_segment_bytes: 64 << 10,
        l0_runs_compact: 2,
        l0_runs_stall: 4,
        sst_bytes_max: 64 << 10,
        l1_bytes_max: 128 << 10,
        ..Options::default()
    }
}

pub(crate) fn open(dir: &Path, options: Options) -> Engine {
    Engine::open(dir, options).expect("the directory opens")
}

pub(crate) fn owned(cell: &Cell<'_>) -> OwnedCell {
    OwnedCell {
        family: cell.family,
        qualifier: cell.qualifier.to_vec(),
        timestamp: cell.timestamp,
        value: cell.value.to_vec(),
    }
}

pub(crate) fn collect(mut scan: Scan) -> Vec<OwnedRow> {
    let mut rows = Vec::new();
    while let Some(row) = scan.next_row().expect("the scan goes on") {
        let row = row.to_vec();
        let mut cells = Vec::new();
        while let Some(cell) = scan.next_cell().expect("the scan goes on") {
            cells.push(owned(&cell));
        }
        rows.push((row, cells));
    }
    rows
}

/// Waits for what background work does in its own time: jobs let go of the files they have read
/// after those who waited for them go on, and a thread that the system has stopped while it looks
/// at blocks keeps their memory.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
