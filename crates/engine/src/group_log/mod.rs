//! The group log: one for a node of a cluster, shared by all its replication groups
//! (docs/format/group_log.md, decision 35).
//!
//! It keeps entries, hard states and descriptors of groups, in numbered segment files with the
//! framing, the recycling and the failure rules of the commit log (room `log`). It knows nothing of
//! consensus but what it must refuse: entries after a gap, terms and commits that fall, committed
//! entries that are replaced. It knows nothing of trees: it is told up to which entry a state machine
//! is durable.
//!
//! In: rounds of writes, at most one a group. Out: states at the next open, entries by index. May use
//! `log` and what is below it.
//!
//! Use: [`GroupLog::open`]; `append` and `sync` for each round of the driver, one sync for all groups;
//! `truncate` when trees were flushed, then `reclaim`; `close` at the end.
//!
//! 1. A write is acknowledged by the sync after it, never earlier.
//! 2. The parts of one write take effect together, whatever happens. The writes of a round need not: a
//!    power loss may keep a first part of the round.
//! 3. The later record wins. Whatever is appended again says what the log says already.
//! 4. A group comes into being by `Create` only, and after a removal only with a replica id that the
//!    removal allows: no record of a removed replica brings it back.
//! 5. Memory goes by records, not by entries; payloads are read from the disk.

mod entry_index;
pub(crate) mod fuzz;
mod groups;
mod handle;
mod reclaim;
mod record;
pub(crate) mod replay;
mod room;
mod segment_set;

pub use handle::{GroupLog, GroupLogSize};
pub use record::entry::{
    EntryId, GroupEntry, GroupId, GroupState, GroupWrite, HardState, OwnedGroupEntry, ReplicaState,
};

/// Name of the folder of the group log in a data directory.
pub const GROUP_LOG_DIR: &str = "group-log";

#[cfg(test)]
mod tests;
