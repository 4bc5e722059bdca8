//! Inputs and outputs of a step of the driver.

use super::data::{Entry, EntryId, GroupId, HardState, Member, NodeId, ReplicaId, Ticket, Time};
use super::message::Message;
use bytes::Bytes;
use std::collections::BTreeMap;

/// One thing that happened since the last step.
#[derive(Debug, Clone)]
pub enum Input {
    /// A message came from `from`. Messages of one connection come in the order they were sent.
    Message {
        /// Node at the other end of the connection.
        from: NodeId,
        /// The message that came from there.
        message: Message,
    },
    /// A client wants a command in the log.
    Propose {
        /// Group that the command is for.
        group: GroupId,
        /// Name that the answer will carry.
        ticket: Ticket,
        /// The term in which the command was evaluated, if it depends on what was read.
        term: Option<u64>,
        /// The command, which is not empty.
        command: Bytes,
    },
    /// A client wants to read all that was acknowledged before.
    Read {
        /// Group that the read is for.
        group: GroupId,
        /// Name that the answer will carry.
        ticket: Ticket,
        /// Grounds that the answer may rest on.
        proof: Proof,
    },
    /// The leader shall hand its office to another replica.
    Transfer {
        /// Group whose leader is to change.
        group: GroupId,
        /// Replica that is to lead.
        to: ReplicaId,
    },
    /// The log writes of a round are on disk, and so are the writes of all rounds before it.
    Saved {
        /// Number of the round that was saved.
        round: u64,
    },
    /// The state machine has applied the committed entries up to `index`.
    Applied {
        /// Group of the state machine.
        group: GroupId,
        /// Index of the last applied entry.
        index: u64,
    },
    /// The state machine has on disk what the entries up to `index` did.
    Flushed {
        /// Group of the state machine.
        group: GroupId,
        /// Index of the last flushed entry.
        index: u64,
    },
    /// The log on disk is too long: flushed entries that are kept for other replicas go as well.
    Shorten {
        /// Group whose log keeps room that is needed.
        group: GroupId,
        /// Flushed entries that stay in the log.
        keep: Keep,
    },
    /// Entries that the driver had asked for. None if they could not be read.
    Fetched {
        /// Group that the entries belong to.
        group: GroupId,
        /// First index that was asked for.
        first: u64,
        /// Entries from `first` on, as many as were read.
        entries: Vec<Entry>,
    },
    /// Nothing was heard of a node for some time, or its connection broke.
    Lost {
        /// Node that may be gone.
        node: NodeId,
    },
}

/// Flushed entries that a log keeps which is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Entries that a replica lacks which is heard and gets on.
    ForLive,
    /// None. They are committed, so a majority has all of them.
    Nothing,
}

/// Grounds that the answer to a read may rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The leader's lease, if it has one; else a quorum.
    Lease,
    /// A quorum that has answered after the read came. For callers that trust no clock.
    Quorum,
}

/// Work that a step asks of its caller.
#[derive(Debug, Default)]
pub struct Output {
    /// Messages by node, to be sent in their order.
    pub messages: BTreeMap<NodeId, Vec<Message>>,
    /// Log writes of all groups. They go to disk together, after the round before.
    pub round: Option<Round>,
    /// Committed entries to apply, in their order.
    pub committed: Vec<Committed>,
    /// Entries to read from the log on disk.
    pub fetches: Vec<Fetch>,
    /// Answers to proposals and reads.
    pub answers: Vec<(Ticket, Answer)>,
    /// Changes of role, term or leader.
    pub roles: Vec<RoleChange>,
    /// Leases that began, were prolonged or ended, and commits under them. They count from before the messages of the
    /// step are sent.
    pub leases: Vec<LeaseChange>,
    /// Replicas that the log cannot help any more.
    pub seeding: Vec<Seeding>,
    /// Groups whose log let go of entries that a replica lacks.
    pub let_go: Vec<GroupId>,
    /// Messages that were not understood, and why.
    pub rejected: Vec<(GroupId, Rejected)>,
    /// The driver has more to give: step again soon, with or without inputs.
    pub more: bool,
    /// When to step again at the latest. None while all groups sleep.
    pub next_tick: Option<Time>,
}

/// Log writes that become durable by one sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// Counted from 1 for each driver.
    pub number: u64,
    /// At most one for each group.
    pub writes: Vec<Write>,
}

/// Log writes of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Group that the log belongs to.
    pub group: GroupId,
    /// Entries up to this one are no longer needed.
    pub start: Option<EntryId>,
    /// Entries without a gap. They replace everything in the log from the first one's index on.
    pub entries: Vec<Entry>,
    /// The state to remember from now on.
    pub state: Option<HardState>,
}

/// Committed entries of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Group that the entries belong to.
    pub group: GroupId,
    /// Entries that follow those given out before.
    pub entries: Vec<Entry>,
}

/// A wish to read entries from the log on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetch {
    /// Group that the entries belong to.
    pub group: GroupId,
    /// The first index to read.
    pub first: u64,
    /// Index after the last one to read.
    pub end: u64,
    /// Bytes of commands after which to stop; the first entry is read in any case.
    pub bytes_max: usize,
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The command of a proposal is applied on this node.
    Applied {
        /// Place of the command in the log.
        id: EntryId,
    },
    /// Another entry took the place of the proposal: the command never comes into effect.
    Superseded,
    /// The state machine of this node has all that was acknowledged before the read came.
    Readable {
        /// Applied index that the read needs; it is applied now.
        index: u64,
        /// Term of the leader. A command that is evaluated on this read is proposed with it.
        term: u64,
    },
    /// Nothing was done, for a reason.
    Refused(Refusal),
}

/// Why nothing was done. Each proves that no command came into the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The node has no replica of the group.
    UnknownGroup,
    /// Another replica leads, or none does.
    NotLeader {
        /// The leader, as far as this node knows.
        leader: Option<Member>,
    },
    /// The command was evaluated in a term that is over.
    TermChanged {
        /// Term that the leader is in now.
        term: u64,
    },
    /// The leader hands its office over.
    Transferring {
        /// Replica that is to lead.
        to: ReplicaId,
    },
    /// The command has more bytes than a command may have.
    TooLarge {
        /// Bytes that a command may have.
        bytes_max: usize,
    },
    /// The command is empty, which only the driver's own entries are.
    Empty,
    /// Too much is under way in the group. Later there may be room.
    Full,
}

/// A change of a replica's role, term or leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleChange {
    /// Group that the replica belongs to.
    pub group: GroupId,
    /// Term that the replica is in.
    pub term: u64,
    /// True if the replica on this node leads the group.
    pub leads: bool,
    /// The leader, as far as this node knows.
    pub leader: Option<Member>,
}

/// The lease of the leader on this node, under which it answers reads by itself. A read that finds, at a time
/// before `end`, that `committed` is applied here, sees all that was acknowledged before that time, and all that
/// another node has shown: a former leader may have applied entries of this term before this leader has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseChange {
    /// Group that the lease is of.
    pub group: GroupId,
    /// Term in which this node leads.
    pub term: u64,
    /// End of the lease by the clock of the node; `None` without a lease.
    pub end: Option<Time>,
    /// Last entry that is committed, which is of `term` where there is a lease.
    pub committed: u64,
}

/// A replica that needs entries which are no longer in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeding {
    /// Group that the replica belongs to.
    pub group: GroupId,
    /// Replica that is too far behind.
    pub replica: ReplicaId,
}

/// Why a message was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// The node has no replica of the group.
    UnknownGroup,
    /// The sender is no member of the group on that node, or the message is for another replica.
    WrongMember,
    /// The message breaks a rule that no correct replica breaks. The text names the rule.
    Malformed(&'static str),
    /// The leader knows of committed entries that this replica has acknowledged and does not have.
    /// The replica takes part in nothing from now on. It needs another copy.
    LogLost,
}
