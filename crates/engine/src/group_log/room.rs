//! Room for states on a full disk: what [`GroupLog::reclaim`] has to write before it can free a segment.
//!
//! 1. After every round, and after every record of a repetition, the states of all groups fit into the rest
//!    of the current segment, or into spares. So a log that filled its disk can free all segments that it does not need.
//! 2. A write that would leave less makes spares first. On a disk that has no space for them nothing is written.
//! 3. A segment that was written before a restart is cut, and takes nothing more. The space that it had for states
//!    then takes a short segment: the log begins it when it is opened, if there is no space for a spare.
//! 4. States are written in parts of at most a quarter of a segment ([`GroupLog::state_part_bytes`]): what
//!    does not fit at the end of a segment is less than half of it.

use super::handle::{Encoded, GroupLog};
use super::record::entry::GroupId;
use crate::error::{Error, Result};
use crate::log::framing::record::{FILE_HEADER_LEN, RECORD_HEADER_LEN};
use crate::log::framing::segment_writer::SegmentWriter;

/// Blocks of a file system of which a short segment may take a part only, and their bytes.
const LOST_BYTES: u64 = 2 * 4096;
/// Most part of a segment that is kept for such blocks.
const LOST_PART: u64 = 64;

impl GroupLog {
    /// Takes over the spares of an earlier process, and makes room for the states of all groups, as far as there
    /// is space (rule 3).
    pub(super) fn keep_room_at_start(&self) -> Result<()> {
        let states = self.lock_groups().states_bytes();
        let spares = self.spares_for(states);
        self.segments.adopt_spares(spares)?;
        if self.segments.count() == 0 {
            return Ok(());
        }
        for count in (1..=spares).rev() {
            match self.segments.ensure_spares(count) {
                Err(Error::NoSpace { .. }) => {}
                done if count == spares => return done,
                done => {
                    done?;
                    break;
                }
            }
        }
        match self.lock_writer().reserve(states.min(self.fresh_bytes())) {
            Err(Error::NoSpace { .. }) => Ok(()),
            done => done,
        }
    }

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
        let states = {
            let groups = self.lock_groups();
            let new: u64 = records.iter().map(|record| groups.growth(&record.parts)).sum();
            groups.states_bytes() + new
        };
        let lens = || records.iter().map(|record| record.payload.len());
        if writer.has_room(lens().chain([self.room_in_segment(states)])) {
            return Ok(());
        }
        let spares = if writer.has_room(lens()) {
            self.spares_for(states)
        } else {
            // The records begin a segment, which takes a spare.
            let taken: u64 = lens().map(|len| (RECORD_HEADER_LEN + len) as u64).sum();
            let fits = taken + self.room_in_segment(states) as u64 <= self.fresh_bytes();
            1 + if fits { 0 } else { self.spares_for(states) }
        };
        match self.segments.ensure_spares(spares) {
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
            // Its state goes with the last entries.
            (bytes + groups.state_bytes(group), largest, groups.states_bytes())
        };
        if writer.has_room([bytes as usize, self.room_in_segment(states)].into_iter()) {
            return Ok(());
        }
        let fresh = self.fresh_bytes();
        let lost = (largest + self.part_bytes as u64).min(fresh / 2);
        let spares = bytes.div_ceil((fresh - lost).max(1)) as usize;
        self.segments.ensure_spares(spares + self.spares_for(states))
    }

    /// Returns the bytes that the rest of a segment has for so many bytes of states: as many as a segment takes
    /// that has only them (rule 3).
    fn room_in_segment(&self, states: u64) -> usize {
        let lost = LOST_BYTES.min(self.segment_bytes / LOST_PART);
        (states + FILE_HEADER_LEN + RECORD_HEADER_LEN as u64 + lost) as usize
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
