//! Messages between the replicas of a group, as plain data, and their translation from and to messages
//! of the `raft` crate.
//!
//! 1. Nothing that a peer sends is decoded by the `raft` crate or its protobuf library, and no kind
//!    of message exists here that it would misuse.
//! 2. A message that passed [`Message::check`] has entries without a gap, terms that never fall, and
//!    indexes and terms far from overflow, since the `raft` crate panics at any other.

use super::data::{Entry, EntryId, GroupId, ReplicaId, Time};
use super::step::Rejected;
use raft::eraftpb::{self, MessageType};

/// Largest index and largest term of a message: whatever a replica adds to them, nothing overflows.
const NUMBER_MAX: u64 = 1 << 60;

/// The context with which the `raft` crate marks votes that a leader asked for.
const TRANSFER: &[u8] = raft::CAMPAIGN_TRANSFER;

/// A message from one replica of a group to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Group that both replicas belong to.
    pub group: GroupId,
    /// Replica that sends the message.
    pub from: ReplicaId,
    /// Replica that the message is for.
    pub to: ReplicaId,
    /// Term of the sender, or the one it wants to lead.
    pub term: u64,
    /// Content, with a kind for each purpose.
    pub body: Body,
}

/// The content of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Entries that a leader wants in the log.
    Append {
        /// The entry before the first of `entries`.
        previous: EntryId,
        /// Entries without a gap; none to probe, or to tell a commit.
        entries: Vec<Entry>,
        /// Last entry that is known to be committed.
        commit: u64,
        /// The leader's clock when it sent this.
        sent: Time,
    },
    /// The answer to an append.
    Appended {
        /// Last entry that agrees; the one before the first if the append was refused.
        index: u64,
        /// Last entry that the follower knows to be committed.
        commit: u64,
        /// An entry of the follower's log at which the leader may try again, if it was refused.
        refused: Option<EntryId>,
        /// The latest `sent` of the leader's messages in this term.
        heard: Time,
    },
    /// A leader's sign of life.
    Heartbeat {
        /// Last committed entry that the follower has.
        commit: u64,
        /// The read that the answer confirms.
        read: Option<ReadContext>,
        /// The leader's clock when it sent this.
        sent: Time,
    },
    /// The answer to a heartbeat.
    HeartbeatAnswer {
        /// Last entry that the follower knows to be committed.
        commit: u64,
        /// Copy of the read that the heartbeat had.
        read: Option<ReadContext>,
        /// The latest `sent` of the leader's messages in this term.
        heard: Time,
    },
    /// The request of a candidate for a vote.
    RequestVote {
        /// Kind of the election it is for.
        kind: VoteKind,
        /// Last entry of the candidate's log.
        last: EntryId,
        /// Last entry that the candidate knows to be committed.
        commit: EntryId,
    },
    /// The answer to a candidate.
    Vote {
        /// True for the answer in an election on trial.
        trial: bool,
        /// True if the candidate has the vote.
        granted: bool,
        /// Last entry that the voter knows to be committed, if it refuses.
        commit: EntryId,
    },
    /// The leader asks a follower to stand for election at once.
    TimeoutNow,
    /// The leader is about to sleep: nothing happens in the group.
    Sleep {
        /// Last entry of the log, committed by all.
        index: u64,
    },
    /// The follower has fallen asleep.
    Asleep {
        /// Copy of the index that the leader sent.
        index: u64,
    },
    /// The leader tells what of the log no replica needs from another one any more.
    Held {
        /// Last entry that all replicas have on disk which the log can still help.
        by_all: u64,
        /// The same without replicas that are not heard or do not get on, where the others are a majority.
        by_live: u64,
    },
}

/// Kinds of elections, by their right to break promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoteKind {
    /// An election on trial, which changes no term.
    Trial,
    /// An election that changes the term.
    Real,
    /// An election that the leader has asked for. No promise forbids it.
    Transfer,
}

/// Name of a read that asks a quorum. Unique among all starts of all replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadContext {
    /// Random number of the driver's start.
    pub start: u64,
    /// Number of the read since then.
    pub number: u64,
}

impl ReadContext {
    /// Returns the bytes that the `raft` crate carries.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        [self.start.to_le_bytes(), self.number.to_le_bytes()].concat()
    }

    /// Reads the bytes of a context; None for other bytes.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (start, number) = bytes.split_first_chunk()?;
        Some(Self {
            start: u64::from_le_bytes(*start),
            number: u64::from_le_bytes(number.try_into().ok()?),
        })
    }
}

impl Entry {
    /// Translates an entry of the `raft` crate.
    pub(super) fn from_raft(entry: &eraftpb::Entry) -> Self {
        let id = EntryId { term: entry.term, index: entry.index };
        Self { id, command: entry.data.clone() }
    }

    /// Translates into an entry of the `raft` crate.
    pub(super) fn to_raft(&self) -> eraftpb::Entry {
        eraftpb::Entry {
            term: self.id.term,
            index: self.id.index,
            data: self.command.clone(),
            ..eraftpb::Entry::default()
        }
    }
}

impl Message {
    /// Checks what no correct replica gets wrong.
    pub(super) fn check(&self) -> Result<(), Rejected> {
        let wrong = |rule| Err(Rejected::Malformed(rule));
        let numbers = match &self.body {
            Body::Append { previous, commit, .. } => [previous.term, previous.index, *commit, 0],
            Body::Appended { index, commit, refused, .. } => {
                let hint = refused.unwrap_or_default();
                [*index, *commit, hint.term, hint.index]
            }
            Body::Heartbeat { commit, .. } | Body::HeartbeatAnswer { commit, .. } => {
                [*commit, 0, 0, 0]
            }
            Body::RequestVote { last, commit, .. } => {
                [last.term, last.index, commit.term, commit.index]
            }
            Body::Vote { commit, .. } => [commit.term, commit.index, 0, 0],
            Body::Sleep { index } | Body::Asleep { index } => [*index, 0, 0, 0],
            Body::Held { by_all, by_live } => [*by_all, *by_live, 0, 0],
            Body::TimeoutNow => [0; 4],
        };
        if self.term == 0 {
            return wrong("a message has a term");
        }
        if numbers.into_iter().any(|number| number > NUMBER_MAX) || self.term > NUMBER_MAX {
            return wrong("indexes and terms are below 2^60");
        }
        match &self.body {
            Body::Append { previous, entries, .. } => {
                let mut before = *previous;
                for entry in entries {
                    if entry.id.index != before.index + 1 {
                        return wrong("entries follow each other without a gap");
                    }
                    if entry.id.term < before.term || entry.id.term > self.term {
                        return wrong("terms of entries never fall, nor pass that of the message");
                    }
                    before = entry.id;
                }
                Ok(())
            }
            Body::RequestVote { last, .. } if last.term >= self.term => {
                wrong("a candidate's term is above that of its last entry")
            }
            _ => Ok(()),
        }
    }

    /// Translates into a message of the `raft` crate. None if the message is the driver's own.
    pub(super) fn into_raft(self) -> Option<eraftpb::Message> {
        let mut out = eraftpb::Message {
            from: self.from.0,
            to: self.to.0,
            term: self.term,
            ..eraftpb::Message::default()
        };
        let kind = match self.body {
            Body::Append { previous, entries, commit, .. } => {
                out.index = previous.index;
                out.log_term = previous.term;
                out.commit = commit;
                let entries: Vec<_> = entries.iter().map(Entry::to_raft).collect();
                out.set_entries(entries.into());
                MessageType::MsgAppend
            }
            Body::Appended { index, commit, refused, .. } => {
                out.index = index;
                out.commit = commit;
                if let Some(hint) = refused {
                    out.reject = true;
                    out.reject_hint = hint.index;
                    out.log_term = hint.term;
                }
                MessageType::MsgAppendResponse
            }
            Body::Heartbeat { commit, read, .. } => {
                out.commit = commit;
                out.context = read.map(ReadContext::to_bytes).unwrap_or_default().into();
                MessageType::MsgHeartbeat
            }
            Body::HeartbeatAnswer { commit, read, .. } => {
                out.commit = commit;
                out.context = read.map(ReadContext::to_bytes).unwrap_or_default().into();
                MessageType::MsgHeartbeatResponse
            }
            Body::RequestVote { kind, last, commit } => {
                (out.index, out.log_term) = (last.index, last.term);
                (out.commit, out.commit_term) = (commit.index, commit.term);
                match kind {
                    VoteKind::Trial => MessageType::MsgRequestPreVote,
                    VoteKind::Real => MessageType::MsgRequestVote,
                    VoteKind::Transfer => {
                        out.context = TRANSFER.into();
                        MessageType::MsgRequestVote
                    }
                }
            }
            Body::Vote { trial, granted, commit } => {
                out.reject = !granted;
                (out.commit, out.commit_term) = (commit.index, commit.term);
                match trial {
                    true => MessageType::MsgRequestPreVoteResponse,
                    false => MessageType::MsgRequestVoteResponse,
                }
            }
            Body::TimeoutNow => MessageType::MsgTimeoutNow,
            Body::Sleep { .. } | Body::Asleep { .. } | Body::Held { .. } => return None,
        };
        out.set_msg_type(kind);
        Some(out)
    }

    /// Translates a message of the `raft` crate, which gives out no other kinds than these here.
    ///
    /// `sent` is the time of now for messages of a leader, and `heard` the latest time of the leader
    /// that an answer is for.
    pub(super) fn from_raft(
        group: GroupId,
        message: &eraftpb::Message,
        sent: Time,
        heard: Time,
    ) -> Self {
        let commit = EntryId { term: message.commit_term, index: message.commit };
        let at = EntryId { term: message.log_term, index: message.index };
        let read = ReadContext::from_bytes(&message.context);
        let body = match message.get_msg_type() {
            MessageType::MsgAppend => Body::Append {
                previous: at,
                entries: message.entries.iter().map(Entry::from_raft).collect(),
                commit: message.commit,
                sent,
            },
            MessageType::MsgAppendResponse => Body::Appended {
                index: message.index,
                commit: message.commit,
                refused: message
                    .reject
                    .then_some(EntryId { term: message.log_term, index: message.reject_hint }),
                heard,
            },
            MessageType::MsgHeartbeat => Body::Heartbeat { commit: message.commit, read, sent },
            MessageType::MsgHeartbeatResponse => {
                Body::HeartbeatAnswer { commit: message.commit, read, heard }
            }
            MessageType::MsgRequestPreVote => {
                Body::RequestVote { kind: VoteKind::Trial, last: at, commit }
            }
            MessageType::MsgRequestVote => {
                let transfer = message.context == TRANSFER;
                let kind = if transfer { VoteKind::Transfer } else { VoteKind::Real };
                Body::RequestVote { kind, last: at, commit }
            }
            MessageType::MsgRequestPreVoteResponse => {
                Body::Vote { trial: true, granted: !message.reject, commit }
            }
            MessageType::MsgRequestVoteResponse => {
                Body::Vote { trial: false, granted: !message.reject, commit }
            }
            MessageType::MsgTimeoutNow => Body::TimeoutNow,
            other => panic!("the raft crate gave out a message of kind {other:?}"),
        };
        Self {
            group,
            from: ReplicaId(message.from),
            to: ReplicaId(message.to),
            term: message.term,
            body,
        }
    }
}
