//! What point reads count.

use super::striped::Striped;

/// What point reads count.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PointCount {
    Reads,
    /// Those that had to be merged.
    Merged,
    /// Blocks they had to bring in.
    Fetched,
    /// Of these, those they read from disk themselves.
    DiskReads,
    /// Bytes of these.
    DiskBytes,
    /// Blocks read side by side with others.
    Batched,
}

/// Kinds of [`PointCount`].
pub(crate) const POINT_COUNTS: usize = 6;

/// Counters of point reads.
pub(crate) type PointCounters = Striped<POINT_COUNTS>;
