//! Counters of the cache.

/// Something that is counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counted {
    Inserted,
    Evicted,
    NotKept,
    Rejected,
    Warmed,
    WarmedBytes,
    WarmedUsed,
}

/// Kinds of [`Counted`].
pub(super) const COUNTED: usize = 7;

/// Kinds of blocks that readers ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// Rows and their entries, in order.
    Data,
    /// A partition of an index.
    Index,
    /// A partition of a filter.
    Filter,
    /// One value that was too large for a data block.
    LargeValue,
}

impl BlockKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Data, Self::Index, Self::Filter, Self::LargeValue];

    /// Returns the place of its hits among the counters, or of its misses.
    pub(super) fn counter(self, is_hit: bool) -> usize {
        COUNTED + 2 * self as usize + usize::from(is_hit)
    }
}

/// Counters, with a hit and a miss of each kind of block.
pub(super) const COUNTERS: usize = COUNTED + 2 * BlockKind::ALL.len();

/// Blocks of a kind that readers asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Blocks found in memory by readers that then held them. Point reads look without holding,
    /// and are not counted.
    pub hits: u64,
    /// Blocks that had to be loaded, by the reader or by another that it joined.
    pub misses: u64,
}

/// A reading of the cache's counters and gauges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Blocks that readers asked for, by [`BlockKind`].
    pub lookups: [Lookups; 4],
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

#[cfg(test)]
impl CacheCounters {
    /// Returns the hits of all kinds.
    pub(super) fn hits(&self) -> u64 {
        self.lookups.iter().map(|of| of.hits).sum()
    }

    /// Returns the misses of all kinds.
    pub(super) fn misses(&self) -> u64 {
        self.lookups.iter().map(|of| of.misses).sum()
    }
}
