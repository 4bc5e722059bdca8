//! Groups, entries and the writes that a group log takes.

/// Id of a replication group. The layer above gives it, and never twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupId(pub u64);

/// Index and term of an entry, by which replicas know it. The entry before the first one has
/// index 0 and term 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EntryId {
    /// Place in the log of the group, from 1 upwards.
    pub index: u64,
    /// Term of the leader that proposed it.
    pub term: u64,
}

/// Numbers that a replica must not forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HardState {
    /// The newest term that the replica knows; it never falls.
    pub term: u64,
    /// The replica that got its vote in this term, or 0.
    pub vote: u64,
    /// Index of the newest entry known to be committed; it never falls.
    pub commit: u64,
}

/// An entry to be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupEntry<'a> {
    /// Term of the leader that proposed it.
    pub term: u64,
    /// Kind of the entry, which the layer above defines.
    pub kind: u8,
    /// Content, which the layer above defines.
    pub payload: &'a [u8],
}

/// An entry that was read from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedGroupEntry {
    /// Place in the log of the group.
    pub index: u64,
    /// Term of the leader that proposed it.
    pub term: u64,
    /// Kind of the entry, which the layer above defines.
    pub kind: u8,
    /// Content, which the layer above defines.
    pub payload: Vec<u8>,
}

impl OwnedGroupEntry {
    /// The entry without its index, borrowed.
    pub(in crate::group_log) fn borrow(&self) -> GroupEntry<'_> {
        GroupEntry { term: self.term, kind: self.kind, payload: &self.payload }
    }
}

/// One write of one group. Its parts take effect together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupWrite<'a> {
    /// Begins a replica. The group has no living replica here.
    Create {
        /// The group that is written.
        group: GroupId,
        /// Id of the replica; at least what the removal of an earlier one asked for.
        replica: u64,
        /// Its first hard state; the commit is the index of `start`.
        hard: HardState,
        /// Range, epoch and members, as the layer above keeps them. At most 1 MiB.
        descriptor: &'a [u8],
        /// The entry that the log begins after.
        start: EntryId,
    },
    /// Adds to a living replica.
    Append {
        /// The group that is written.
        group: GroupId,
        /// The hard state, if it changed.
        hard: Option<HardState>,
        /// The descriptor, if it changed.
        descriptor: Option<&'a [u8]>,
        /// The last entry of a snapshot that replaces the whole log of the group.
        snapshot: Option<EntryId>,
        /// Index of the first of `entries`; 0 without entries.
        first: u64,
        /// Entries, which replace all that the log has from `first` on.
        entries: &'a [GroupEntry<'a>],
    },
    /// Removes the replica, so that nothing in the log brings it back.
    Remove {
        /// The group, which may be unknown here.
        group: GroupId,
        /// A later replica has at least this id; above that of the one removed.
        least_replica: u64,
    },
}

impl GroupWrite<'_> {
    /// The group that the write is of.
    pub fn group(&self) -> GroupId {
        match self {
            Self::Create { group, .. }
            | Self::Append { group, .. }
            | Self::Remove { group, .. } => *group,
        }
    }
}

/// A group as the log knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupState {
    /// It has a replica here.
    Alive(ReplicaState),
    /// Its replica here was removed.
    Removed {
        /// A later replica has at least this id.
        least_replica: u64,
    },
}

/// State of a living replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaState {
    /// Id of the living replica.
    pub replica: u64,
    /// The newest hard state written.
    pub hard: HardState,
    /// The newest descriptor that was written.
    pub descriptor: std::sync::Arc<[u8]>,
    /// The entry that the log begins after.
    pub start: EntryId,
    /// The last entry; `start` in an empty log.
    pub last: EntryId,
}
