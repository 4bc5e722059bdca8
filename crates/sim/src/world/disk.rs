//! The disk of a node: a real group log on a simulated file system, and what its state machines have
//! flushed.

use super::machine::Flushed;
use base::env::sim::{Fault, FaultPoint, SimEnv};
use bytes::Bytes;
use cluster::group::{
    Entry, EntryId, Fetch, GroupId, HardState, Member, ReplicaId, Round, SavedReplica, Write,
};
use engine::Options;
use engine::group_log::{self, GroupEntry, GroupLog, GroupState, GroupWrite};
use engine::internals::Shape;
use std::collections::BTreeMap;
use std::path::Path;

const DIR: &str = "/group-log";

/// The disk of a node, with the log while its process lives.
pub(super) struct Disk {
    sim: SimEnv,
    options: Options,
    log: Option<GroupLog>,
    /// Flushed state of the state machines. A flush is whole or absent.
    pub(super) flushed: BTreeMap<GroupId, Flushed>,
}

/// The end of a process, by its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It was killed: the machine goes on, and what was written is there.
    Kill,
    /// The machine lost power, and what was not synced may be gone.
    PowerLoss,
}

impl Disk {
    /// Returns an empty disk, whose log has segments of so many bytes.
    pub(super) fn new(seed: u64, log_segment_bytes: u64, log_segments_max: usize) -> Self {
        let shape =
            Shape { log_segment_bytes_min: 256, log_segments_max, ..Options::default().shape };
        let options = Options { log_segment_bytes, shape, ..Options::default() };
        Self { sim: SimEnv::new(seed), options, log: None, flushed: BTreeMap::new() }
    }

    /// Opens the log, as a process that starts does.
    pub(super) fn open(&mut self) -> engine::Result<()> {
        self.log = Some(GroupLog::open(&self.sim.env(), Path::new(DIR), &self.options)?);
        Ok(())
    }

    /// Ends the process, and perhaps the power.
    pub(super) fn end(&mut self, end: End) {
        self.log = None;
        let before = std::mem::replace(&mut self.sim, SimEnv::new(0));
        self.sim = match end {
            End::Kill => before.kill(),
            End::PowerLoss => before.power_loss(),
        };
    }

    fn log(&self) -> &GroupLog {
        self.log.as_ref().expect("a process that lives has its log open")
    }

    /// Begins a replica of a group, durably.
    pub(super) fn create(&self, group: GroupId, replica: ReplicaId) -> engine::Result<()> {
        let create = GroupWrite::Create {
            group: group_log::GroupId(group.0),
            replica: replica.0,
            hard: group_log::HardState::default(),
            descriptor: &[],
            start: group_log::EntryId::default(),
        };
        self.log().append(&[create])?;
        self.log().sync()
    }

    /// Appends a round. The starts in it are noted after the writes.
    pub(super) fn append(&self, round: &Round) -> engine::Result<()> {
        let entries: Vec<Vec<GroupEntry<'_>>> = round.writes.iter().map(entries).collect();
        let writes: Vec<GroupWrite<'_>> = round
            .writes
            .iter()
            .zip(&entries)
            .filter(|(write, _)| write.state.is_some() || !write.entries.is_empty())
            .map(|(write, entries)| to_log(write, entries))
            .collect();
        if !writes.is_empty() {
            self.log().append(&writes)?;
        }
        for write in &round.writes {
            if let Some(start) = write.start {
                self.log().truncate(group_log::GroupId(write.group.0), start.index)?;
            }
        }
        Ok(())
    }

    /// Syncs all that was appended before.
    pub(super) fn sync(&self) -> engine::Result<()> {
        self.log().sync()
    }

    /// Lets the next sync fail.
    pub(super) fn fail_sync(&self) {
        self.sim.fs.inject(FaultPoint::Sync, 0, 1, Fault::Io);
    }

    /// Returns the number of segments of the log; 0 without a process.
    pub(super) fn segments(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.size().segments)
    }

    /// Frees segments; returns groups that keep the oldest ones.
    pub(super) fn reclaim(&self) -> engine::Result<Vec<GroupId>> {
        self.log().reclaim()?;
        Ok(self.log().groups_to_flush().into_iter().map(|group| GroupId(group.0)).collect())
    }

    /// Appends again what the log has of a group.
    pub(super) fn append_again(&self, group: GroupId) -> engine::Result<()> {
        self.log().append_again(group_log::GroupId(group.0))
    }

    /// Reads entries of a group from the log.
    pub(super) fn fetch(&self, fetch: &Fetch) -> engine::Result<Vec<Entry>> {
        let indexes = fetch.first..fetch.end;
        let group = group_log::GroupId(fetch.group.0);
        let found = self.log().entries(group, indexes, fetch.bytes_max)?;
        Ok(found.unwrap_or_default().into_iter().map(from_log).collect())
    }

    /// Returns the replica of a group as it was saved. Of entries that are flushed it has the terms only.
    pub(super) fn saved(&self, group: GroupId, members: &[Member]) -> engine::Result<SavedReplica> {
        let name = group_log::GroupId(group.0);
        let Some(GroupState::Alive(state)) = self.log().state(name) else {
            panic!("{group:?} was created on this disk, and the log has no replica of it");
        };
        let flushed = self.flushed.get(&group).map_or(0, |flushed| flushed.id.index);
        let first = (flushed + 1).clamp(state.start.index + 1, state.last.index + 1);
        let flushed_here = state.start.index + 1..first;
        let terms = flushed_here.filter_map(|index| self.log().term(name, index)).collect();
        let indexes = first..state.last.index + 1;
        let mut entries = Vec::new();
        if !indexes.is_empty() {
            let found = self.log().entries(name, indexes, usize::MAX)?;
            entries.extend(found.unwrap_or_default().into_iter().map(from_log));
        }
        let vote = (state.hard.vote != 0).then_some(ReplicaId(state.hard.vote));
        Ok(SavedReplica {
            group,
            members: members.to_vec(),
            start: EntryId { term: state.start.term, index: state.start.index },
            terms,
            entries,
            state: HardState { term: state.hard.term, vote, commit: state.hard.commit },
            flushed,
        })
    }

    /// Puts a copy of another replica's state machine in place of a closed replica's own. Its log
    /// begins after the copy, unless it has the copy's last entry itself. A seeding is whole or absent,
    /// so no sync of it fails.
    pub(super) fn seed(&mut self, group: GroupId, copy: &Flushed) -> engine::Result<()> {
        let name = group_log::GroupId(group.0);
        let Some(GroupState::Alive(state)) = self.log().state(name) else { return Ok(()) };
        self.sim.fs.clear_faults();
        let own = self.flushed.get(&group).map_or(0, |flushed| flushed.id.index);
        if copy.id.index <= own {
            return Ok(());
        }
        if self.log().term(name, copy.id.index) != Some(copy.id.term) {
            let start = group_log::EntryId { index: copy.id.index, term: copy.id.term };
            let hard = group_log::HardState {
                term: state.hard.term.max(copy.id.term),
                vote: if state.hard.term < copy.id.term { 0 } else { state.hard.vote },
                commit: state.hard.commit.max(copy.id.index),
            };
            let snapshot = GroupWrite::Append {
                group: name,
                hard: Some(hard),
                descriptor: None,
                snapshot: Some(start),
                first: 0,
                entries: &[],
            };
            self.log().append(&[snapshot])?;
            self.log().sync()?;
        }
        self.flushed.insert(group, copy.clone());
        Ok(())
    }
}

fn entries(write: &Write) -> Vec<GroupEntry<'_>> {
    let entries = write.entries.iter();
    entries.map(|at| GroupEntry { term: at.id.term, kind: 1, payload: &at.command }).collect()
}

fn to_log<'a>(write: &Write, entries: &'a [GroupEntry<'a>]) -> GroupWrite<'a> {
    let hard = write.state.map(|state| group_log::HardState {
        term: state.term,
        vote: state.vote.map_or(0, |vote| vote.0),
        commit: state.commit,
    });
    GroupWrite::Append {
        group: group_log::GroupId(write.group.0),
        hard,
        descriptor: None,
        snapshot: None,
        first: write.entries.first().map_or(0, |first| first.id.index),
        entries,
    }
}

fn from_log(entry: group_log::OwnedGroupEntry) -> Entry {
    let id = EntryId { term: entry.term, index: entry.index };
    Entry { id, command: Bytes::from(entry.payload) }
}
