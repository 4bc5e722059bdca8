//! The log of a replica, as far as the `raft` crate must see it at once: all terms, and the entries
//! that are not applied, with some before them.
//!
//! 1. Entries in memory have no gap and end with the last entry of the log.
//! 2. Every entry above the applied one is in memory: the `raft` crate reads them and cannot wait.
//! 3. Terms are known from `start` to the last entry, as runs: a run is the first entry of a term.
//! 4. An entry in memory that is dropped is applied, so it is committed, saved and never replaced.

use super::super::data::{Entry, EntryId, HardState, OpenError, SavedReplica};
use super::super::step::Fetch;
use crate::marks::Mark;
use crate::shape::Shape;
use raft::eraftpb::{self, ConfState, Snapshot};
use raft::{GetEntriesContext, RaftState, StorageError};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes that an entry counts beside its command.
const ENTRY_BYTES: u64 = 32;

/// Returns the bytes that an entry counts in memory.
pub(super) fn bytes_of(entry: &Entry) -> u64 {
    ENTRY_BYTES + entry.command.len() as u64
}

/// The header of this file describes it.
pub(super) struct Log {
    start: EntryId,
    /// First entry of each term, in order; see invariant 3.
    runs: VecDeque<EntryId>,
    entries: VecDeque<InMemory>,
    /// Sum of the bytes of all entries that were ever dropped from the front of `entries`.
    bytes_dropped: u64,
    last: u64,
    applied: u64,
    state: HardState,
    voters: Vec<u64>,
    /// Wishes of the `raft` crate, which calls methods that must not change anything.
    wishes: RefCell<Wishes>,
    fetches_max: usize,
}

struct InMemory {
    entry: eraftpb::Entry,
    /// Bytes of all entries up to this one, since the log was opened.
    bytes_end: u64,
}

/// End and bytes of a fetch that the disk was not asked for yet, and the contexts that wait for it.
type FetchWish = (Option<(u64, usize)>, Vec<GetEntriesContext>);

#[derive(Default)]
struct Wishes {
    /// Reads that the disk must serve, by first index. A read that was given to the disk has no
    /// fetch any more.
    fetches: BTreeMap<u64, FetchWish>,
    /// Entries that the disk has served, while the `raft` crate takes them.
    served: Vec<eraftpb::Entry>,
    /// Replicas that are behind the log's start.
    seeding: BTreeSet<u64>,
}

impl Log {
    /// Opens a log as it was saved, after a check of everything that the `raft` crate relies on.
    pub(super) fn open(saved: &SavedReplica) -> Result<Self, OpenError> {
        let start = saved.start;
        let mut log = Self {
            start,
            runs: VecDeque::new(),
            entries: VecDeque::new(),
            bytes_dropped: 0,
            last: start.index,
            applied: saved.flushed,
            state: saved.state,
            voters: saved.members.iter().map(|member| member.replica.0).collect(),
            wishes: RefCell::default(),
            fetches_max: 2 * saved.members.len(),
        };
        let mut before = start;
        let follows = |before: EntryId, id: EntryId| {
            id.index == before.index + 1 && id.term >= before.term && id.term > 0
        };
        for term in &saved.terms {
            let id = EntryId { term: *term, index: before.index + 1 };
            if !follows(before, id) || id.index > saved.flushed {
                return Err(OpenError::Log);
            }
            before = id;
            log.note(id);
        }
        for entry in &saved.entries {
            if !follows(before, entry.id) {
                return Err(OpenError::Log);
            }
            before = entry.id;
            log.push(entry.to_raft());
        }
        if before.term > saved.state.term || (start.index == 0) != (start.term == 0) {
            return Err(OpenError::Log);
        }
        if saved.flushed < start.index {
            return Err(OpenError::FlushLost { flushed: saved.flushed, start: start.index });
        }
        let committed = saved.state.commit.max(saved.flushed);
        if committed > log.last {
            return Err(OpenError::LogLost { last: log.last, committed });
        }
        log.state.commit = committed;
        Ok(log)
    }

    fn push(&mut self, entry: eraftpb::Entry) {
        self.note(EntryId { term: entry.term, index: entry.index });
        let bytes = ENTRY_BYTES + entry.data.len() as u64;
        self.entries.push_back(InMemory { bytes_end: self.bytes_end() + bytes, entry });
    }

    /// Notes the term of the next entry, which is the last one from now on.
    fn note(&mut self, id: EntryId) {
        if self.runs.back().map_or(self.start.term, |run| run.term) != id.term {
            self.runs.push_back(id);
        }
        self.last = id.index;
    }

    /// Appends saved or to be saved entries, in place of all from the first one's index on.
    pub(super) fn append(&mut self, entries: &[eraftpb::Entry]) {
        let Some(first) = entries.first().map(|entry| entry.index) else { return };
        assert!(self.applied < first && first <= self.last + 1, "a gap, or an applied entry");
        if first <= self.last {
            Mark::SuffixTruncated.hit();
            while self.entries.back().is_some_and(|kept| kept.entry.index >= first) {
                self.entries.pop_back();
            }
            while self.runs.back().is_some_and(|run| run.index >= first) {
                self.runs.pop_back();
            }
            self.last = first - 1;
        }
        entries.iter().for_each(|entry| self.push(entry.clone()));
    }

    /// Returns the index of the first entry in memory, or the next one without any.
    fn first_in_memory(&self) -> u64 {
        self.last + 1 - self.entries.len() as u64
    }

    fn bytes_end(&self) -> u64 {
        self.entries.back().map_or(self.bytes_dropped, |last| last.bytes_end)
    }

    /// Returns the bytes of the entries after `after` up to `to`, which are in memory.
    pub(super) fn bytes_between(&self, after: u64, to: u64) -> u64 {
        let end = |index: u64| match (index + 1).checked_sub(self.first_in_memory() + 1) {
            Some(place) => {
                self.entries.get(place as usize).map_or(self.bytes_end(), |at| at.bytes_end)
            }
            None => self.bytes_dropped,
        };
        end(to).saturating_sub(end(after))
    }

    /// Notes that entries up to `index` are applied, and drops some of them from memory.
    pub(super) fn applied(&mut self, index: u64, shape: &Shape) {
        assert!(self.applied <= index && index <= self.last, "applied what is not in the log");
        self.applied = index;
        while let Some(first) = self.entries.front() {
            let kept = self.bytes_between(self.first_in_memory() - 1, self.applied);
            if first.entry.index > self.applied || kept <= shape.cached_bytes_max as u64 {
                break;
            }
            self.bytes_dropped = first.bytes_end;
            self.entries.pop_front();
            Mark::EntriesEvicted.hit();
        }
    }

    /// Cuts off the log up to `index`, which is flushed, and returns the new start.
    pub(super) fn compact(&mut self, index: u64) -> EntryId {
        let term = self.term_at(index).expect("only entries of the log are cut off");
        self.start = EntryId { term, index };
        while self.runs.front().is_some_and(|run| run.index <= index) {
            self.runs.pop_front();
        }
        while let Some(first) = self.entries.front().filter(|first| first.entry.index <= index) {
            self.bytes_dropped = first.bytes_end;
            self.entries.pop_front();
        }
        Mark::LogCompacted.hit();
        self.start
    }

    /// Returns the last entry that the log no longer has.
    pub(super) fn start(&self) -> EntryId {
        self.start
    }

    /// Returns the index of the last entry.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the term of the entry at `index`, if the log has it or starts after it.
    pub(super) fn term_at(&self, index: u64) -> Option<u64> {
        if index < self.start.index || index > self.last {
            return None;
        }
        let runs = self.runs.partition_point(|run| run.index <= index);
        Some(runs.checked_sub(1).map_or(self.start.term, |run| self.runs[run].term))
    }

    /// Remembers the state that the next start would find.
    pub(super) fn set_state(&mut self, state: HardState) {
        self.state = state;
    }

    /// Takes the fetches that were wished for since the last call.
    pub(super) fn take_fetches(&mut self, group: super::super::data::GroupId) -> Vec<Fetch> {
        let wishes = self.wishes.get_mut();
        let fetches = wishes.fetches.iter_mut();
        let new = fetches.filter_map(|(first, (fetch, _))| {
            fetch.take().map(|(end, bytes_max)| Fetch { group, first: *first, end, bytes_max })
        });
        new.collect()
    }

    /// Takes what the disk has served for the fetch from `first` on, and returns the contexts that
    /// wait for it. Entries that differ from the log count as not served.
    pub(super) fn serve(&mut self, first: u64, entries: &[Entry]) -> Vec<GetEntriesContext> {
        let right = (first..).zip(entries).all(|(index, entry)| {
            entry.id.index == index && self.term_at(index) == Some(entry.id.term)
        });
        let wishes = self.wishes.get_mut();
        let Some((_, contexts)) = wishes.fetches.remove(&first) else { return Vec::new() };
        if !right || entries.is_empty() || first <= self.start.index {
            Mark::FetchInVain.hit();
            return Vec::new();
        }
        Mark::EntriesFetched.hit();
        wishes.served = entries.iter().map(Entry::to_raft).collect();
        contexts
    }

    /// Drops the entries of the last fetch, after the `raft` crate has taken them.
    pub(super) fn served(&mut self) {
        self.wishes.get_mut().served = Vec::new();
    }

    /// Returns true while entries are fetched from the disk.
    pub(super) fn fetches(&self) -> bool {
        !self.wishes.borrow().fetches.is_empty()
    }

    /// Takes the replicas that were found to be behind the start of the log.
    pub(super) fn take_seeding(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.wishes.get_mut().seeding)
    }

    /// Returns entries of `[low, high)` up to so many bytes, the first one in any case.
    fn cut<'a>(
        entries: impl Iterator<Item = &'a eraftpb::Entry>,
        high: u64,
        bytes_max: Option<u64>,
    ) -> Vec<eraftpb::Entry> {
        let mut left = bytes_max.unwrap_or(u64::MAX);
        let mut first = true;
        let fit = entries.take_while(|entry| {
            let bytes = ENTRY_BYTES + entry.data.len() as u64;
            let fits = (first || bytes <= left) && entry.index < high;
            left = left.saturating_sub(bytes);
            first = false;
            fits
        });
        fit.cloned().collect()
    }
}

impl raft::Storage for Log {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let mut state = eraftpb::HardState::default();
        state.term = self.state.term;
        state.vote = self.state.vote.map_or(0, |vote| vote.0);
        state.commit = self.state.commit;
        let mut members = ConfState::default();
        members.set_voters(self.voters.clone());
        Ok(RaftState::new(state, members))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> raft::Result<Vec<eraftpb::Entry>> {
        let max_size = max_size.into();
        if low <= self.start.index {
            return Err(StorageError::Compacted.into());
        }
        if low >= self.first_in_memory() {
            let skip = (low - self.first_in_memory()) as usize;
            let entries = self.entries.iter().skip(skip).map(|kept| &kept.entry);
            return Ok(Self::cut(entries, high, max_size));
        }
        let mut wishes = self.wishes.borrow_mut();
        if wishes.served.first().is_some_and(|first| first.index == low) {
            return Ok(Self::cut(wishes.served.iter(), high, max_size));
        }
        if !context.can_async() {
            return Err(StorageError::Unavailable.into());
        }
        let waiting: usize = wishes.fetches.values().map(|(_, contexts)| contexts.len()).sum();
        if waiting < self.fetches_max {
            let bytes_max = usize::try_from(max_size.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
            let end = high.min(self.first_in_memory());
            let new = || (Some((end, bytes_max)), Vec::new());
            wishes.fetches.entry(low).or_insert_with(new).1.push(context);
        }
        Err(StorageError::LogTemporarilyUnavailable.into())
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        let missing = || match index < self.start.index {
            true => StorageError::Compacted.into(),
            false => StorageError::Unavailable.into(),
        };
        self.term_at(index).ok_or_else(missing)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.start.index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last)
    }

    fn snapshot(&self, _request_index: u64, to: u64) -> raft::Result<Snapshot> {
        self.wishes.borrow_mut().seeding.insert(to);
        Err(StorageError::SnapshotTemporarilyUnavailable.into())
    }
}
