//! Counters of the cache.

/// Something that is counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counted {
    Hit,
    Miss,
    Inserted,
    Evicted,
    NotKept,
    Rejected,
    Warmed,
    WarmedBytes,
    WarmedUsed,
}

/// Kinds of [`Counted`].
pub(super) const COUNTED: usize = 9;

/// A reading of the cache's counters and gauges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Blocks found in memory by readers that then held them. Point reads look without holding,
    /// and are not counted.
    pub hits: u64,
    /// Blocks that had to be loaded, those that joined another's load included.
    pub misses: u64,
    /// Blocks put in.
    pub inserted: u64,
    /// Blocks removed to make room.
    pub evicted: u64,
    /// Blocks that were loaded, lent and not kept, since no room came free in time.
    pub not_kept: u64,
    /// Blocks that were read, looked at and not kept, since others would have had to go that are
    /// worth more.
    pub rejected: u64,
    /// Blocks that took the place of those they came of, and their bytes.
    pub warmed: u64,
    /// See `warmed`.
    pub warmed_bytes: u64,
    /// Blocks added by cache warming that reads used later.
    pub warmed_used: u64,
    /// Bytes held now.
    pub bytes: u64,
    /// Bytes of memory taken from the system for them: what is free in the arena's slabs included.
    pub memory_bytes: u64,
    /// Bytes it may hold now.
    pub bytes_max: u64,
}
