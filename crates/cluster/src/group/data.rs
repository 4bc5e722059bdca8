//! Names, times and log entries: the plain data that flow through the driver.

use bytes::Bytes;
use std::time::Duration;

/// A group of replicas that agree on one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

/// A server of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// A replica of a group. Never 0, and never used twice in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u64);

/// The caller's name for a request; the answer carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Nanoseconds of a node's own clock since any origin. It never goes back, and it goes on while the
/// machine sleeps (`CLOCK_BOOTTIME`): leases stand on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time(pub u64);

impl Time {
    /// Returns the time `span` later, or the last time there is.
    pub fn after(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

/// The place of an entry in a log, with the term of the leader that wrote it there. Two logs that
/// agree on one have the same entries up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct EntryId {
    /// Term of the leader that proposed the entry.
    pub term: u64,
    /// Position in the log, counted from 1; 0 is before the first entry.
    pub index: u64,
}

/// One entry of a group's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Place and term of the entry.
    pub id: EntryId,
    /// The command for the state machine. Empty for the entry that a leader begins its term with.
    pub command: Bytes,
}

/// State that a replica must remember over a restart beside its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HardState {
    /// The latest term that the replica has seen.
    pub term: u64,
    /// The replica that got this one's vote in that term.
    pub vote: Option<ReplicaId>,
    /// An index up to which entries are known to be committed. Not the newest one: a commit alone is
    /// never written.
    pub commit: u64,
}

/// A replica and the node that it lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Name of the replica in its group.
    pub replica: ReplicaId,
    /// Node that the replica lives on.
    pub node: NodeId,
}

/// A replica as its node finds it on disk, or as it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedReplica {
    /// Group that the replica belongs to.
    pub group: GroupId,
    /// All voters of the group, the replica on this node among them.
    pub members: Vec<Member>,
    /// The last entry that is no longer in the log; zeros if none is missing.
    pub start: EntryId,
    /// Terms of the first entries after `start`, of which the rest is not given: they are flushed, and
    /// need no memory.
    pub terms: Vec<u64>,
    /// The entries after the ones of `terms`, without a gap.
    pub entries: Vec<Entry>,
    /// The last state that was saved.
    pub state: HardState,
    /// The state machine has on disk what entries up to here did. Later ones are given out again.
    pub flushed: u64,
}

impl SavedReplica {
    /// Returns a replica that has never voted and has no log.
    pub fn new(group: GroupId, members: Vec<Member>) -> Self {
        Self {
            group,
            members,
            start: EntryId::default(),
            terms: Vec::new(),
            entries: Vec::new(),
            state: HardState::default(),
            flushed: 0,
        }
    }
}

/// Why a replica cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    /// The group is open already.
    Open,
    /// No member lives on this node, two members are the same, or a replica is called 0.
    Members,
    /// The log has a gap, or terms or indexes that no log can have.
    Log,
    /// The log ends before an entry that is known to be committed, so entries were lost. The replica
    /// must not vote; it needs another copy.
    LogLost {
        /// Last entry of the log.
        last: u64,
        /// Index that was committed or flushed.
        committed: u64,
    },
    /// The state machine has less than the log no longer has.
    FlushLost {
        /// Index up to which the state machine is on disk.
        flushed: u64,
        /// Index up to which the log is gone.
        start: u64,
    },
}
