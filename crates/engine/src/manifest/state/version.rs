//! Immutable versions: the files of one tree at one moment.
//!
//! Invariants (checked by `invariants.rs` at every install):
//! 1. `levels` has [`LEVELS`] entries. Within level 0 and level 1 runs are ordered newest first,
//!    that is by falling [`RunId`]; the last level has at most one run. No run is empty.
//! 2. The SSTables of a run are sorted by `first_row` and share no row: a row of a run lies
//!    entirely in one SSTable. Their spans ([`SstMeta::span`]) are disjoint as well: a range
//!    tombstone that covers rows of several SSTables of a run is cut at their borders.
//! 3. Recency: for any row, every entry in a run, and every range tombstone that covers the row,
//!    is newer (has a larger sequence number) than all of the runs after it, level 0 first.
//!    Merging only neighbouring runs keeps this. It holds row by row, not file by file, and an
//!    old put at the bottom may have lost its number (it is then 0).

use crate::cell::SequenceNumber;
use crate::log::LogPosition;
use crate::options::TreeOptions;
use std::sync::Arc;

pub(crate) use crate::files::FileNumber;
pub use crate::files::sst_meta::SstMeta;

/// Number of levels: fresh runs, a tier of larger runs, and the one last run (lazy levelling).
pub const LEVELS: usize = 3;

/// Names a run within its level. In one level, a larger id is a newer run: a flush takes
/// [`TreeVersion::next_run`], a merge the largest id of the runs it replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RunId(pub u64);

/// A sorted run: SSTables in row order that share no row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Run {
    /// Its id; also orders the runs of its level.
    pub id: RunId,
    /// Sorted by `first_row`, disjoint, not empty.
    pub ssts: Vec<Arc<SstMeta>>,
}

impl Run {
    /// Bytes of all its files.
    pub fn bytes(&self) -> u64 {
        self.ssts.iter().map(|sst| sst.bytes).sum()
    }

    /// Largest sequence number in the run.
    pub fn sequence_max(&self) -> SequenceNumber {
        self.ssts.iter().map(|sst| sst.sequence_max).max().unwrap_or_default()
    }
}

/// Says that changes of a tree are kept for readers, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeLog {
    /// The changes of all later sequence numbers are kept.
    pub since: SequenceNumber,
    /// None of them has an earlier commit time; in microseconds since the epoch. Change logs that
    /// began apart have different times.
    pub since_micros: u64,
    /// A change that was committed longer ago than this may be gone; in microseconds, not 0.
    pub retention_micros: u64,
}

/// The files of one tree at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeVersion {
    /// The options the tree was created with.
    pub options: TreeOptions,
    /// Every batch up to here is in SSTables; replay starts after it.
    pub flushed: LogPosition,
    /// Level by level, newest run first.
    pub levels: [Vec<Run>; LEVELS],
    /// Set while the changes of the tree are kept.
    pub change_log: Option<ChangeLog>,
}

impl TreeVersion {
    /// A tree without files.
    pub fn empty(options: TreeOptions) -> Self {
        let (flushed, levels) = (LogPosition::default(), Default::default());
        Self { options, flushed, levels, change_log: None }
    }

    /// The id of the next run that is newer than all of this tree.
    pub fn next_run(&self) -> RunId {
        RunId(self.runs().map(|run| run.id.0).max().unwrap_or(0).saturating_add(1))
    }

    /// All runs, newest first.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.levels.iter().flatten()
    }
}
