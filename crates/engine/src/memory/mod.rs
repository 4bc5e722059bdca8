//! Memory: one budget that blocks, memtables and pinned metadata share.
//!
//! In: charges, and the untracked memory of the process. Out: how much the block cache may keep,
//! and whether memtables must be flushed. Uses no other room.

#[doc(hidden)]
pub(crate) mod budget;
