//! Brings blocks of SSTables from disk into the cache for reads that miss them.
//!
//! In: the blocks that reads miss. Out: the same blocks, pinned or resident. `blocking_loads` waits
//! in the caller's thread, `async_loads` wakes a task. May use `cache` and `sstable`.

pub(crate) mod async_loads;
pub(crate) mod blocking_loads;
