//! Room for states on a full disk: what [`GroupLog::reclaim`] has to write before it can free a segment.
//!
//! 1. After every round, and after every record of a repetition, the states of all groups fit into the rest
//!    of the current segment, or into spares. So a log that filled its disk can free all segments that it does not need.
//! 2. A write that would leave less makes spares first. On a disk that has no space for them nothing is written.
//! 3. States are written in parts of at most a quarter of a segment ([`GroupLog::state_part_bytes`]): what
//!    does not fit at the end of a segment is less than half of it.

use super::codec::Parts;
use super::entry::GroupId;
use super::groups::STATE_BYTES;
use super::handle::{Encoded, GroupLog};
use crate::error::{Error, Result};
use crate::log::framing::record::{FILE_HEADER_LEN, RECORD_HEADER_LEN};
use crate::log::framing::segment_writer::SegmentWriter;

impl GroupLog {
    /// Makes sure that the states of all groups still fit after these records (rule 1). Does nothing without
    /// records.
    pub(super) fn keep_room_for_states(
        &self,
        writer: &SegmentWriter,
        records: &[Encoded<'_>],
    ) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let new: u64 = records.iter().map(|record| state_bytes(&record.parts)).sum();
        let states = self.lock_groups().states_bytes() + new;
        let lens = || records.iter().map(|record| record.payload.len());
        if writer.has_room(lens().chain([states as usize])) {
            return Ok(());
        }
        let spares = if writer.has_room(lens()) {
            self.spares_for(states)
        } else {
            // The records begin a segment, which takes a spare.
            let taken: u64 = lens().map(|len| (RECORD_HEADER_LEN + len) as u64).sum();
            let fits = taken + states <= self.fresh_bytes();
            1 + if fits { 0 } else { self.spares_for(states) }
        };
        match self.segments.ensure_spares(spares, self.segment_bytes) {
            Err(full @ Error::NoSpace { .. }) => Err(full),
            // Another failure is the writer's to meet, and to stop for.
            _ => Ok(()),
        }
    }

    /// Makes sure that the entries of `group` can be written again, and that the states of all groups
    /// still fit then. `NoSpace` if not.
    pub(super) fn make_room_for_entries(
        &self,
        writer: &SegmentWriter,
        group: GroupId,
    ) -> Result<()> {
        let (bytes, largest, states) = {
            let groups = self.lock_groups();
            let Some(alive) = groups.alive(group) else { return Ok(()) };
            let (bytes, largest) = alive.index.bytes();
            (bytes, largest, groups.states_bytes())
        };
        if writer.has_room([bytes, states, states].into_iter().map(|len| len as usize)) {
            return Ok(());
        }
        let fresh = self.fresh_bytes();
        let lost = (largest + self.part_bytes as u64).min(fresh / 2);
        let spares = (bytes + states).div_ceil((fresh - lost).max(1)) as usize;
        self.segments.ensure_spares(spares + self.spares_for(states), self.segment_bytes)
    }

    /// Returns the number of spares that take so many bytes of states.
    pub(super) fn spares_for(&self, states: u64) -> usize {
        let fresh = self.fresh_bytes();
        if states <= fresh { 1 } else { states.div_ceil((fresh / 2).max(1)) as usize }
    }

    /// Returns the bytes of states that are written at once, about.
    pub(super) fn state_part_bytes(&self) -> usize {
        self.part_bytes.min((self.segment_bytes / 4) as usize)
    }

    /// Returns the bytes of records that a new segment takes.
    fn fresh_bytes(&self) -> u64 {
        self.segment_bytes.saturating_sub(FILE_HEADER_LEN + RECORD_HEADER_LEN as u64)
    }
}

/// Returns the most bytes that a record adds to the states of all groups.
fn state_bytes(parts: &Parts<'_>) -> u64 {
    let descriptor = parts.descriptor.map_or(0, <[u8]>::len) as u64;
    let is_new = parts.replica.is_some() || parts.removed.is_some();
    descriptor + if is_new { STATE_BYTES } else { 0 }
}
