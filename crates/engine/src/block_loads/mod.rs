//! Brings blocks of SSTables from disk into the cache for reads that miss them.
//!
//! In: the blocks that reads miss. Out: the same blocks, pinned or resident. `blocking_loads` waits
//! in the caller's thread, `async_loads` wakes a task. May use `cache` and `sstable`.

pub(crate) mod async_loads;
pub(crate) mod blocking_loads;

use crate::counters::point_counters::PointCounters;
use crate::counters::read_waits::ReadWaits;
use crate::sstable::BlockCache;
use base::env::Env;
use std::sync::Arc;

/// What loads of blocks need of an engine.
#[derive(Clone, Copy)]
pub(crate) struct LoadContext<'a> {
    pub(crate) env: &'a Env,
    pub(crate) cache: &'a Arc<BlockCache>,
    pub(crate) counters: &'a PointCounters,
    /// How long reads that went to the disk waited.
    pub(crate) waits: &'a ReadWaits,
    /// True if blocks are read side by side.
    pub(crate) batched: bool,
    /// Bytes that are in flight at once.
    pub(crate) bytes_max: u64,
}
