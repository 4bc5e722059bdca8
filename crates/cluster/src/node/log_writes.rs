//! Between the driver's words and the group log's: rounds to writes, and states to replicas.
//!
//! An entry with a command has kind 1 in the log, and one without has kind 0.

use crate::group::{Entry, EntryId, GroupId, HardState, Member, ReplicaId, SavedReplica, Write};
use engine::group_log::{
    EntryId as LogEntryId, GroupEntry, GroupId as LogGroupId, GroupLog, GroupState, GroupWrite,
    HardState as LogHardState, OwnedGroupEntry, ReplicaState,
};

/// Kinds of entries in the log, frozen.
const OF_CONSENSUS: u8 = 0;
const COMMAND: u8 = 1;

pub(super) fn log_group(group: GroupId) -> LogGroupId {
    LogGroupId(group.0)
}

pub(super) fn log_id(id: EntryId) -> LogEntryId {
    LogEntryId { index: id.index, term: id.term }
}

/// A write of the driver, with its entries as the log takes them.
pub(super) struct Prepared<'a> {
    group: LogGroupId,
    hard: Option<LogHardState>,
    first: u64,
    entries: Vec<GroupEntry<'a>>,
}

impl<'a> Prepared<'a> {
    /// Prepares a write for the group log.
    pub(super) fn new(write: &'a Write) -> Self {
        let hard = write.state.map(|hard| LogHardState {
            term: hard.term,
            vote: hard.vote.map_or(0, |vote| vote.0),
            commit: hard.commit,
        });
        Self {
            group: log_group(write.group),
            hard,
            first: write.entries.first().map_or(0, |entry| entry.id.index),
            entries: write.entries.iter().map(to_log).collect(),
        }
    }

    /// Returns the write for the log; None if nothing is to be written.
    pub(super) fn as_write(&self) -> Option<GroupWrite<'_>> {
        let Self { group, hard, first, entries } = self;
        let is_empty = hard.is_none() && entries.is_empty();
        (!is_empty).then_some(GroupWrite::Append {
            group: *group,
            hard: *hard,
            descriptor: None,
            snapshot: None,
            first: *first,
            entries,
        })
    }
}

fn to_log(entry: &Entry) -> GroupEntry<'_> {
    let kind = if entry.command.is_empty() { OF_CONSENSUS } else { COMMAND };
    GroupEntry { term: entry.id.term, kind, payload: &entry.command }
}

/// Translates an entry of the log. None if it is of a kind that this build does not know.
pub(super) fn from_log(entry: OwnedGroupEntry) -> Option<Entry> {
    let OwnedGroupEntry { index, term, kind, payload } = entry;
    let known = match kind {
        OF_CONSENSUS => payload.is_empty(),
        COMMAND => !payload.is_empty(),
        _ => false,
    };
    known.then(|| Entry { id: EntryId { term, index }, command: payload.into() })
}

/// Why a replica cannot be read from the log.
#[derive(Debug)]
pub(super) enum ReadError {
    Log(engine::Error),
    /// The entry at this index is of a kind that this build does not know.
    Kind(u64),
}

/// Bytes of entries that are read from the log at once.
const READ_BYTES: usize = 4 << 20;

/// Reads a replica from the log. Its state machine has flushed up to `flushed`; of entries up to there
/// only the terms are read.
pub(super) fn read_replica(
    log: &GroupLog,
    group: GroupId,
    state: &ReplicaState,
    members: Vec<Member>,
    flushed: u64,
) -> Result<SavedReplica, ReadError> {
    let (id, end) = (log_group(group), state.last.index + 1);
    let (start, hard) = (state.start, state.hard);
    let mut next = start.index + 1;
    let mut terms = Vec::new();
    while next < end && next <= flushed {
        let Some(term) = log.term(id, next) else { break };
        terms.push(term);
        next += 1;
    }
    let mut entries = Vec::new();
    while next < end {
        let read = log.entries(id, next..end, READ_BYTES).map_err(ReadError::Log)?;
        let Some(read) = read.filter(|read| !read.is_empty()) else { break };
        for entry in read {
            next = entry.index + 1;
            entries.push(from_log(entry).ok_or(ReadError::Kind(next - 1))?);
        }
    }
    Ok(SavedReplica {
        group,
        members,
        start: EntryId { term: start.term, index: start.index },
        terms,
        entries,
        state: HardState {
            term: hard.term,
            vote: (hard.vote != 0).then_some(ReplicaId(hard.vote)),
            commit: hard.commit,
        },
        flushed,
    })
}

/// Returns the state of the replica of a group, if it has one here.
pub(super) fn alive(log: &GroupLog, group: GroupId) -> Option<ReplicaState> {
    match log.state(log_group(group))? {
        GroupState::Alive(state) => Some(state),
        GroupState::Removed { .. } => None,
    }
}
