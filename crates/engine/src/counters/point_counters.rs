//! Counters of the reads of a tree.

use base::striped::Striped;

/// Events that reads of a tree count.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PointCount {
    /// Reads of a column or a row.
    Reads,
    /// Point reads that had to be merged.
    Merged,
    /// Blocks that point reads had to bring in.
    Fetched,
    /// Blocks that point reads read from disk themselves.
    DiskReads,
    /// Bytes of the blocks that point reads read from disk.
    DiskBytes,
    /// Blocks that were read side by side with others.
    Batched,
    /// Scans, whatever became of them.
    Scans,
}

/// Kinds of [`PointCount`].
pub(crate) const POINT_COUNTS: usize = 7;

/// Counters of the reads of a tree.
pub(crate) type PointCounters = Striped<POINT_COUNTS>;
