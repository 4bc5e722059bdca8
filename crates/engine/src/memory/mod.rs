//! Memory: one budget that blocks, memtables and pinned metadata share.
//!
//! In: charges, and what the process has beside them. Out: how much the block cache may keep, and
//! whether memtables must be flushed. Uses no other room.

#[doc(hidden)]
pub mod budget;
