//! Frees the segments of a group log that no group needs.
//!
//! 1. A segment goes only after each group has its state, and all its entries, in later segments,
//!    and these are synced.
//! 2. A state is written again whole, and so are the entries of a group: from the first to the last.
//!    Both say what the log says already, so a crash in between changes nothing.
//! 3. On a full disk there is room for the states of all groups ([`super::room`]). They are written for one
//!    segment after the other, so that a segment which is freed gives its room to the states of the next.
//! 4. A repetition holds the writer's lock from its first record to its last: no write of any group
//!    comes between, and no truncation of the group ([`super::groups`]).

use super::handle::{Encoded, GroupLog};
use super::record::codec::{self, Parts, Role};
use super::record::entry::{GroupId, OwnedGroupEntry};
use crate::error::{Error, Result};
use crate::log::SegmentNumber;
use crate::log::framing::segment_writer::SegmentWriter;
use crate::marks::GroupLogMark;

impl GroupLog {
    /// Frees the segments before the first one that holds entries of any group, and returns how many. States
    /// of groups that stand there are written again first, and synced. A segment that is being read
    /// stays for the next call. Call it after truncations.
    ///
    /// After `NoSpace` nothing is lost and nothing was freed, and the call can be repeated. After a failure
    /// to remove a file likewise; a failed write or sync of the log stops writes.
    pub fn reclaim(&self) -> Result<usize> {
        let _turn = self.reclaiming.lock();
        let Some((mut oldest, newest)) = self.segments.ends() else { return Ok(0) };
        let limit = self.lock_groups().first_with_entries(newest);
        let mut freed = 0;
        while oldest < limit {
            match self.free(oldest) {
                Ok(true) => freed += 1,
                Ok(false) => break,
                Err(Error::NoSpace { .. }) if freed > 0 => break,
                Err(error) => return Err(error),
            }
            oldest = oldest.next();
        }
        Ok(freed)
    }

    /// Frees the oldest segment, which no group has entries in. Returns false if it is being read.
    fn free(&self, oldest: SegmentNumber) -> Result<bool> {
        self.carry(oldest.next())?;
        let states = self.lock_groups().states_bytes();
        self.segments.retire_before(oldest.next(), self.spares_for(states))
    }

    /// Writes the states again that stand in segments before `limit` only, and makes all durable.
    fn carry(&self, limit: SegmentNumber) -> Result<()> {
        let mut writer = self.lock_writer();
        let groups = self.lock_groups().to_carry(limit);
        let mut groups = groups.into_iter().peekable();
        while groups.peek().is_some() {
            let (mut payloads, mut bytes) = (Vec::new(), 0);
            {
                let states = self.lock_groups();
                while let Some(group) = groups.next_if(|_| bytes < self.state_part_bytes()) {
                    let mut payload = Vec::new();
                    states.encode_state(group, &mut payload);
                    bytes += payload.len();
                    payloads.push(payload);
                }
            }
            GroupLogMark::StateCarried.hit();
            self.write_states(&mut writer, &payloads)?;
        }
        writer.sync()
    }

    /// Appends all entries of `group` again, and syncs them, so that they keep no old segment. For
    /// a group whose entries cannot be flushed; the next [`Self::reclaim`] frees what it kept.
    /// Costs a read and a write of all its entries ([`Self::kept_bytes`]), and other writes wait meanwhile.
    ///
    /// Errors are the ones of [`Self::append`] and [`Self::entries`]. `NoSpace` tells that the copy does
    /// not fit, or not beside the room for states. Then the group is as it was, and the call can be
    /// repeated.
    pub fn append_again(&self, group: GroupId) -> Result<()> {
        let mut writer = self.lock_writer();
        if let Some(alive) = self.lock_groups().alive_mut(group) {
            alive.begin_again();
        }
        let repeated = self.repeat(&mut writer, group);
        if let Some(alive) = self.lock_groups().alive_mut(group) {
            alive.end_again();
        }
        let states = self.lock_groups().states_bytes();
        // It may have needed fewer spares than were made for it.
        let trimmed = self.segments.trim_spares(self.spares_for(states));
        repeated.and(trimmed)?;
        writer.sync()
    }

    fn repeat(&self, writer: &mut SegmentWriter, group: GroupId) -> Result<()> {
        let indexes = self.lock_groups().alive(group).map(|alive| {
            let (start, last) = (alive.index.start(), alive.index.last());
            start.index + 1..last.index + 1
        });
        let Some(mut indexes) = indexes else { return Ok(()) };
        let first = indexes.start;
        self.make_room_for_entries(writer, group)?;
        while let Some(entries) = self.entries(group, indexes.clone(), self.part_bytes)? {
            let at = indexes.start;
            indexes.start += entries.len() as u64;
            let is_last = indexes.is_empty();
            let role = if is_last { Role::AgainEnd } else { Role::Again };
            match (is_last, at == first) {
                (true, true) => GroupLogMark::AgainInOneRecord.hit(),
                (true, false) => GroupLogMark::AgainInParts.hit(),
                _ => {}
            }
            let mut payload = Vec::new();
            if is_last {
                self.lock_groups().encode_state(group, &mut payload);
            } else {
                Parts { group, ..Parts::default() }.encode_state(&mut payload);
            }
            let borrowed = entries.iter().map(OwnedGroupEntry::borrow);
            codec::encode_entries(&mut payload, role, at, borrowed);
            self.write_entries(writer, &payload)?;
        }
        Ok(())
    }

    /// Writes a record of a repetition, if the room for states stays.
    fn write_entries(&self, writer: &mut SegmentWriter, payload: &[u8]) -> Result<()> {
        let encoded = [Encoded::own(payload)];
        self.keep_room_for_states(writer, &encoded)?;
        self.write(&encoded, || writer.append(&[encoded[0].record()]))
    }

    /// Writes states. A full disk need not have space for a whole segment.
    fn write_states(&self, writer: &mut SegmentWriter, payloads: &[Vec<u8>]) -> Result<()> {
        let encoded: Vec<_> = payloads.iter().map(|payload| Encoded::own(payload)).collect();
        let records: Vec<_> = encoded.iter().map(Encoded::record).collect();
        self.write(&encoded, || writer.append_at_need(&records))
    }
}
