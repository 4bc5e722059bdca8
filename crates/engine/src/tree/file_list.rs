//! The files of a tree at one moment, as operators look at them.

use crate::tree::read_view::ReadView;

/// The files of a tree, and its memtables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeFiles {
    /// Sorted runs, the newest first, level by level.
    pub runs: Vec<RunFiles>,
    /// Bytes of the memtable that takes writes.
    pub active_bytes: u64,
    /// Bytes of each memtable that waits for its flush, newest first.
    pub frozen_bytes: Vec<u64>,
}

/// The files of a sorted run, which share no row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFiles {
    /// Level of the run, from 0.
    pub level: usize,
    /// Its files in the order of their rows.
    pub ssts: Vec<SstFile>,
}

/// An SSTable as the manifest knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SstFile {
    /// Number in the name of the file.
    pub number: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Entries in it, tombstones included.
    pub entries: u64,
    /// Tombstones among the entries, and range tombstones beside them.
    pub tombstones: u64,
    /// Smallest row with an entry.
    pub first_row: Vec<u8>,
    /// Largest row with an entry.
    pub last_row: Vec<u8>,
}

impl TreeFiles {
    /// Lists the files of a view.
    pub(crate) fn of(view: &ReadView) -> Self {
        let levels = view.version.levels.iter().enumerate();
        let runs = levels.flat_map(|(level, runs)| runs.iter().map(move |run| (level, run)));
        let runs = runs.map(|(level, run)| {
            let ssts = run.ssts.iter().map(|sst| SstFile {
                number: sst.number.0,
                bytes: sst.bytes,
                entries: sst.entries,
                tombstones: sst.tombstones.saturating_add(sst.range_tombstones),
                first_row: sst.first_row.clone(),
                last_row: sst.last_row.clone(),
            });
            RunFiles { level, ssts: ssts.collect() }
        });
        Self {
            runs: runs.collect(),
            active_bytes: view.active.bytes() as u64,
            frozen_bytes: view.frozen.iter().map(|memtable| memtable.bytes() as u64).collect(),
        }
    }
}
