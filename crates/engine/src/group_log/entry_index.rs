//! Index over the entries of one group: the record that holds each, and the terms. Pure.
//!
//! 1. Memory goes by records and by changes of the term, not by entries.
//! 2. Extents follow each other without a gap, from the entry after `start` on. The first one may
//!    reach back to entries before.
//! 3. Segments of extents never fall, for entries are appended at the end only.

use super::record::entry::EntryId;
use crate::log::SegmentNumber;
use std::collections::VecDeque;

/// Place of a record on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: SegmentNumber,
    /// Start of the record in its segment.
    pub(super) offset: u64,
    pub(super) payload_len: u32,
}

/// Entries in one record that count; the record may hold more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) place: Place,
}

/// A range of entries of one record, with the terms at which they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewEntries {
    pub(super) extent: Extent,
    /// Entries that have another term than the one before, the first always.
    pub(super) terms: Vec<EntryId>,
}

/// The entries of one group. See the file header.
#[derive(Debug, Clone, Default)]
pub(super) struct EntryIndex {
    start: EntryId,
    extents: VecDeque<Extent>,
    /// Entries at which the term changes, ascending. The first may stand before the start.
    terms: VecDeque<EntryId>,
}

impl EntryIndex {
    /// The entry before the first one.
    pub(super) fn start(&self) -> EntryId {
        self.start
    }

    /// The last entry, or the start of an empty log.
    pub(super) fn last(&self) -> EntryId {
        let Some(extent) = self.extents.back() else { return self.start };
        let term = self.terms.back().map_or(0, |entry| entry.term);
        EntryId { index: extent.last, term }
    }

    /// Term of the entry at `index`, or of the start; `None` for another.
    pub(super) fn term(&self, index: u64) -> Option<u64> {
        if index == self.start.index {
            return Some(self.start.term);
        }
        if index < self.start.index || index > self.last().index {
            return None;
        }
        let after = self.terms.partition_point(|entry| entry.index <= index);
        Some(self.terms.get(after.checked_sub(1)?)?.term)
    }

    /// The oldest segment that holds an entry.
    pub(super) fn oldest_segment(&self) -> Option<SegmentNumber> {
        self.extents.front().map(|extent| extent.place.segment)
    }

    /// Number of records that the index knows.
    pub(super) fn records(&self) -> usize {
        self.extents.len()
    }

    /// Bytes of all records that hold entries, and of the largest one.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let lens = self.extents.iter().map(|extent| u64::from(extent.place.payload_len));
        lens.fold((0, 0), |(sum, largest), len| (sum + len, largest.max(len)))
    }

    /// Returns the extents that hold the entries from `first` on.
    pub(super) fn from(&self, first: u64) -> impl Iterator<Item = Extent> {
        let at = self.extents.partition_point(|extent| extent.last < first);
        self.extents.range(at..).copied()
    }

    /// Replaces all entries from the first new one on, which follows the start or an entry.
    pub(super) fn replace(&mut self, new: &NewEntries) {
        let first = new.extent.first;
        debug_assert!(first > self.start.index && first <= self.last().index + 1);
        self.cut_from(first);
        let before = self.terms.back().map(|entry| entry.term);
        let changes =
            new.terms.iter().filter(|entry| entry.index > first || before != Some(entry.term));
        self.terms.extend(changes);
        self.extents.push_back(new.extent);
    }

    /// Removes all entries from `first` on.
    fn cut_from(&mut self, first: u64) {
        while self.extents.back().is_some_and(|extent| extent.first >= first) {
            self.extents.pop_back();
        }
        if let Some(extent) = self.extents.back_mut() {
            extent.last = extent.last.min(first - 1);
        }
        while self.terms.back().is_some_and(|entry| entry.index >= first) {
            self.terms.pop_back();
        }
    }

    /// Removes the entries up to `start`, which is one of them or lies behind all of them.
    pub(super) fn truncate(&mut self, start: EntryId) {
        while self.extents.front().is_some_and(|extent| extent.last <= start.index) {
            self.extents.pop_front();
        }
        if self.extents.is_empty() {
            self.terms.clear();
        }
        // The change before the first entry tells its term.
        while self.terms.get(1).is_some_and(|entry| entry.index <= start.index + 1) {
            self.terms.pop_front();
        }
        self.start = start;
    }

    /// Removes all entries; the log goes on after `start`.
    pub(super) fn reset(&mut self, start: EntryId) {
        self.extents.clear();
        self.terms.clear();
        self.start = start;
    }
}
