//! The groups of a log: what each record makes of them, and what they still need. Pure.
//!
//! A record is checked, then written, then applied. A replay applies the same records again, with
//! weaker checks, because older segments may be gone:
//!
//! 1. While a log is written, each group keeps `start <= commit <= last`, and its entries are whole.
//! 2. In a replay, a whole state may stand before entries that were truncated, whose segments were
//!    freed. Then the group is *loose*: its entries begin after a gap. A later record closes the gap, or the log
//!    is damaged. [`Groups::check_replayed`] demands rule 1 of every group at the end.
//! 3. A segment may go when no group needs it: [`Groups::first_with_entries`] tells the groups whose
//!    entries are there, and [`Groups::to_carry`] the others, whose state has to be written again first.

use super::entry_index::{EntryIndex, Extent, NewEntries, Place};
use super::record::codec::{Parts, Rest, Role};
use super::record::entry::{EntryId, GroupId, GroupState, HardState, ReplicaState};
use crate::log::SegmentNumber;
use crate::log::framing::record::RECORD_HEADER_LEN;
use crate::marks::GroupLogMark;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most bytes that the record of a state takes on disk beside the descriptor: its header, and numbers of at
/// most ten bytes.
pub(super) const STATE_BYTES: u64 = RECORD_HEADER_LEN as u64 + 80;
/// Most bytes that the record of a removal takes on disk.
const REMOVAL_BYTES: u64 = RECORD_HEADER_LEN as u64 + 24;

/// A replica with its entries.
#[derive(Debug, Clone)]
pub(super) struct Group {
    /// Id of the replica; `None` if a replay has not met a whole state yet.
    replica: Option<u64>,
    hard: HardState,
    descriptor: Arc<[u8]>,
    pub(super) index: EntryIndex,
    /// Entries that were repeated, and do not count before the last of them.
    again: Vec<NewEntries>,
    /// The entries are being repeated.
    is_repeated: bool,
    /// A replay met a gap before the entries.
    loose: bool,
    /// The start that the newest whole state named, if a gap follows it.
    told: Option<EntryId>,
    /// Segment of the newest whole state.
    anchor: SegmentNumber,
    /// Segment of the first entry that was truncated since that whole state.
    owed: Option<SegmentNumber>,
}

#[derive(Debug, Clone)]
enum Slot {
    Alive(Box<Group>),
    Removed { least_replica: u64, anchor: SegmentNumber },
}

/// The groups of a log. See the file header.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    slots: BTreeMap<GroupId, Slot>,
    /// The sum that [`Self::states_bytes`] returns.
    states_bytes: u64,
}

/// Strictness of a record's check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// The record is about to be written for the layer above.
    Write,
    /// The record was read, and older ones may be gone.
    Replay,
}

type Refused = Result<(), &'static str>;

impl Groups {
    /// Checks that a record fits what is known of its group.
    pub(super) fn check(&self, parts: &Parts<'_>, check: Check) -> Refused {
        let group = match self.slots.get(&parts.group) {
            Some(Slot::Alive(group)) => group,
            Some(Slot::Removed { least_replica, .. }) => {
                return check_removed(parts, *least_replica);
            }
            None if parts.replica.is_none() && parts.removed.is_none() => {
                let is_replay = check == Check::Replay;
                return if is_replay { Ok(()) } else { Err("the group has no replica here") };
            }
            None => return check_first(parts),
        };
        if let Some(least) = parts.removed {
            let is_above = group.replica.is_none_or(|replica| replica < least);
            return if is_above { Ok(()) } else { Err("a removal that lets the replica return") };
        }
        group.check_identity(parts, check)?;
        group.check_hard(parts)?;
        match check {
            Check::Write => group.check_write(parts),
            Check::Replay => group.check_replay(parts),
        }
    }

    /// Applies a record that was checked, and that stands at `place`.
    pub(super) fn apply(&mut self, parts: &Parts<'_>, place: Place) {
        let before = self.state_bytes(parts.group);
        self.apply_to_slot(parts, place);
        self.states_bytes = self.states_bytes + self.state_bytes(parts.group) - before;
    }

    fn apply_to_slot(&mut self, parts: &Parts<'_>, place: Place) {
        if let Some(least_replica) = parts.removed {
            let slot = Slot::Removed { least_replica, anchor: place.segment };
            self.slots.insert(parts.group, slot);
            return;
        }
        let slot = self.slots.entry(parts.group).or_insert_with(|| Slot::Alive(Box::default()));
        if let Slot::Removed { .. } = slot {
            GroupLogMark::ReplicaFollowed.hit();
            *slot = Slot::Alive(Box::default());
        }
        if let Slot::Alive(group) = slot {
            group.apply(parts, place);
        }
    }

    /// Checks every group after a replay; the error names the group and its fault.
    pub(super) fn check_replayed(&self) -> Result<(), (GroupId, &'static str)> {
        for (id, slot) in &self.slots {
            if let Slot::Alive(group) = slot {
                group.check_replayed().map_err(|what| (*id, what))?;
            }
        }
        Ok(())
    }

    /// The living group of this id.
    pub(super) fn alive(&self, group: GroupId) -> Option<&Group> {
        match self.slots.get(&group) {
            Some(Slot::Alive(group)) => Some(group),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub(super) fn alive_mut(&mut self, group: GroupId) -> Option<&mut Group> {
        match self.slots.get_mut(&group) {
            Some(Slot::Alive(group)) => Some(group),
            _ => None,
        }
    }

    /// Every group with its state.
    pub(super) fn states(&self) -> impl Iterator<Item = (GroupId, GroupState)> {
        self.slots.iter().map(|(id, slot)| match slot {
            Slot::Alive(group) => (*id, GroupState::Alive(group.state())),
            Slot::Removed { least_replica, .. } => {
                (*id, GroupState::Removed { least_replica: *least_replica })
            }
        })
    }

    /// The state of one group.
    pub(super) fn state(&self, group: GroupId) -> Option<GroupState> {
        match self.slots.get(&group)? {
            Slot::Alive(group) => Some(GroupState::Alive(group.state())),
            Slot::Removed { least_replica, .. } => {
                Some(GroupState::Removed { least_replica: *least_replica })
            }
        }
    }

    /// The oldest segment that holds entries, at most `newest`.
    pub(super) fn first_with_entries(&self, newest: SegmentNumber) -> SegmentNumber {
        let of = self.alive_groups().filter_map(|(_, group)| group.index.oldest_segment());
        of.min().map_or(newest, |oldest| oldest.min(newest))
    }

    /// The groups with entries in segments before `limit`.
    pub(super) fn with_entries_before(&self, limit: SegmentNumber) -> Vec<GroupId> {
        let before = |group: &Group| group.index.oldest_segment().is_some_and(|at| at < limit);
        self.alive_groups().filter(|(_, group)| before(group)).map(|(id, _)| id).collect()
    }

    /// The groups whose state has to be written again before the segments before `limit` may go.
    pub(super) fn to_carry(&self, limit: SegmentNumber) -> Vec<GroupId> {
        let needs = |slot: &Slot| match slot {
            Slot::Alive(group) => group.anchor.min(group.owed.unwrap_or(limit)) < limit,
            Slot::Removed { anchor, .. } => *anchor < limit,
        };
        self.slots.iter().filter(|(_, slot)| needs(slot)).map(|(id, _)| *id).collect()
    }

    /// Appends to `out` the record without entries that tells the state of `group` again.
    pub(super) fn encode_state(&self, group: GroupId, out: &mut Vec<u8>) {
        match self.slots.get(&group) {
            Some(Slot::Alive(alive)) => alive.whole_state(group).encode_state(out),
            Some(Slot::Removed { least_replica, .. }) => {
                let removed = Some(*least_replica);
                Parts { group, removed, ..Parts::default() }.encode_state(out);
            }
            None => {}
        }
    }

    /// Most bytes that the states of all groups take on disk, each in a record.
    pub(super) fn states_bytes(&self) -> u64 {
        self.states_bytes
    }

    /// Returns the most bytes by which a record makes the states of all groups larger.
    pub(super) fn growth(&self, parts: &Parts<'_>) -> u64 {
        let before = self.state_bytes(parts.group);
        let after = match (parts.removed, parts.descriptor) {
            (Some(_), _) => REMOVAL_BYTES,
            (None, Some(descriptor)) => STATE_BYTES + descriptor.len() as u64,
            (None, None) => before,
        };
        after.saturating_sub(before)
    }

    /// Most bytes that the state of a group takes.
    pub(super) fn state_bytes(&self, group: GroupId) -> u64 {
        match self.slots.get(&group) {
            Some(Slot::Alive(alive)) => STATE_BYTES + alive.descriptor.len() as u64,
            Some(Slot::Removed { .. }) => REMOVAL_BYTES,
            None => 0,
        }
    }

    /// Number of groups, living or removed, and of records in the index.
    pub(super) fn counts(&self) -> (usize, usize) {
        let records = self.alive_groups().map(|(_, group)| group.index.records()).sum();
        (self.slots.len(), records)
    }

    fn alive_groups(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        self.slots.iter().filter_map(|(id, slot)| match slot {
            Slot::Alive(group) => Some((*id, &**group)),
            Slot::Removed { .. } => None,
        })
    }
}

impl Default for Group {
    fn default() -> Self {
        Self {
            replica: None,
            hard: HardState::default(),
            descriptor: Arc::from(&[][..]),
            index: EntryIndex::default(),
            again: Vec::new(),
            is_repeated: false,
            loose: true,
            told: None,
            anchor: SegmentNumber(0),
            owed: None,
        }
    }
}

/// Checks the first record of a group, or the first after its removal: a whole state, or a removal.
fn check_first(parts: &Parts<'_>) -> Refused {
    let (Some(hard), Some((start, _))) = (parts.hard, parts.start) else { return Ok(()) };
    let last = parts.entries.map_or(start.index, |entries| entries.last());
    let first = parts.entries.map_or(start.index + 1, |entries| entries.first);
    let fits = first == start.index + 1 && start.index <= hard.commit && hard.commit <= last;
    // A replica that is told again may have entries in earlier records.
    let is_again = matches!(parts.start, Some((_, Rest::Stays)));
    if fits || is_again { Ok(()) } else { Err("a commit that is not in the log") }
}

fn check_removed(parts: &Parts<'_>, least_replica: u64) -> Refused {
    match (parts.removed, parts.replica) {
        (Some(least), _) if least >= least_replica => Ok(()),
        (Some(_), _) => Err("a removal that an earlier one goes beyond"),
        (None, None) => Err("the replica was removed"),
        (None, Some(replica)) if replica < least_replica => {
            Err("a replica that was removed, or is older than one that was")
        }
        (None, Some(_)) => check_first(parts),
    }
}

impl Group {
    /// The state of a replica; of an unknown one, 0 stands for its id.
    fn state(&self) -> ReplicaState {
        ReplicaState {
            replica: self.replica.unwrap_or(0),
            hard: self.hard,
            descriptor: Arc::clone(&self.descriptor),
            start: self.index.start(),
            last: self.index.last(),
        }
    }

    /// The record that tells the state of this group again.
    pub(super) fn whole_state(&self, group: GroupId) -> Parts<'_> {
        Parts {
            group,
            replica: self.replica,
            hard: Some(self.hard),
            descriptor: Some(&self.descriptor),
            start: Some((self.index.start(), Rest::Stays)),
            ..Parts::default()
        }
    }

    /// The newest commit index known.
    pub(super) fn commit(&self) -> u64 {
        self.hard.commit
    }

    fn check_identity(&self, parts: &Parts<'_>, check: Check) -> Refused {
        match (parts.replica, self.replica) {
            (Some(_), Some(_)) if check == Check::Write => Err("the group has a replica here"),
            (Some(new), Some(old)) if new != old => Err("another replica of the group lives"),
            _ => Ok(()),
        }
    }

    fn check_hard(&self, parts: &Parts<'_>) -> Refused {
        let (old, Some(new)) = (self.hard, parts.hard) else { return Ok(()) };
        if new.term < old.term {
            return Err("a term that falls");
        }
        if new.commit < old.commit {
            return Err("a commit that falls");
        }
        if new.term == old.term && old.vote != 0 && new.vote != old.vote {
            return Err("a second vote in one term");
        }
        Ok(())
    }

    fn check_write(&self, parts: &Parts<'_>) -> Refused {
        let commit = parts.hard.map_or(self.hard.commit, |hard| hard.commit);
        let (mut start, mut last) = (self.index.start(), self.index.last());
        if let Some((new, Rest::Goes)) = parts.start {
            if new.index < self.hard.commit {
                return Err("a snapshot that is older than the commit");
            }
            (start, last) = (new, new);
        }
        if let Some(entries) = parts.entries {
            if entries.first > last.index + 1 {
                return Err("entries after a gap");
            }
            if entries.first <= start.index {
                return Err("entries that the log has given up");
            }
            if entries.first <= last.index && entries.first <= self.hard.commit {
                return Err("entries in place of committed ones");
            }
            let before = match entries.first - 1 == start.index {
                true => Some(start.term),
                false => self.index.term(entries.first - 1),
            };
            let term = entries.iter().next().map(|at| at.entry.term);
            if term < before {
                return Err("an entry of an older term than the one before");
            }
            last.index = entries.last();
        }
        if commit < start.index || commit > last.index {
            return Err("a commit that is not in the log");
        }
        Ok(())
    }

    /// Checks what holds even if older records are gone.
    fn check_replay(&self, parts: &Parts<'_>) -> Refused {
        let start = match parts.start {
            Some((start, Rest::Stays)) if !self.loose && start.index < self.index.start().index => {
                return Err("a start that goes back");
            }
            Some((start, Rest::Goes)) => start.index,
            Some((start, Rest::Stays)) if start.index >= self.index.start().index => start.index,
            _ if self.loose => 0,
            _ => self.index.start().index,
        };
        match parts.entries {
            Some(entries) if entries.role != Role::Again && entries.first <= start => {
                Err("entries that the log has given up")
            }
            _ => Ok(()),
        }
    }

    fn check_replayed(&self) -> Refused {
        if self.replica.is_none() {
            return Err("its first records are missing");
        }
        if self.loose {
            return Err("entries before the first ones that are there are missing");
        }
        let (start, last) = (self.index.start().index, self.index.last().index);
        if !(start..=last).contains(&self.hard.commit) {
            return Err("the commit is not in its log");
        }
        Ok(())
    }

    fn apply(&mut self, parts: &Parts<'_>, place: Place) {
        if parts.replica.is_some() {
            self.replica = parts.replica;
            self.anchor = place.segment;
            self.owed = None;
        }
        self.hard = parts.hard.unwrap_or(self.hard);
        if let Some(descriptor) = parts.descriptor
            && *self.descriptor != *descriptor
        {
            self.descriptor = descriptor.into();
        }
        match parts.start {
            Some((start, Rest::Goes)) => self.begin_at(start),
            Some((start, Rest::Stays)) => self.start_at(start),
            None => {}
        }
        let Some(entries) = parts.entries else { return };
        let extent = Extent { first: entries.first, last: entries.last(), place };
        let mut terms: Vec<EntryId> = Vec::new();
        for at in entries.iter() {
            let (index, term) = (at.index, at.entry.term);
            if terms.last().is_none_or(|before| before.term != term) {
                terms.push(EntryId { index, term });
            }
        }
        let begin = parts.start.map_or(0, |(start, _)| start.index);
        self.add(entries.role, begin, NewEntries { extent, terms });
    }

    /// Forgets all entries; the log begins after `start`.
    fn begin_at(&mut self, start: EntryId) {
        self.index.reset(start);
        self.again.clear();
        (self.loose, self.told, self.owed) = (false, None, None);
    }

    /// Forgets the entries up to `start`, which a whole state names.
    fn start_at(&mut self, start: EntryId) {
        if self.loose && start.index < self.index.start().index {
            self.told = Some(start);
        } else {
            self.index.truncate(start);
            (self.loose, self.told) = (false, None);
        }
    }

    /// Adds entries. A repetition that ends here began after the entry at `begin`.
    fn add(&mut self, role: Role, begin: u64, new: NewEntries) {
        let joins = |before: &NewEntries| before.extent.last + 1 == new.extent.first;
        if role == Role::New || !self.again.last().is_some_and(joins) {
            self.again.clear();
        }
        match role {
            Role::New => self.replace(&new),
            Role::Again => self.again.push(new),
            Role::AgainEnd => {
                let mut again = std::mem::take(&mut self.again);
                // Parts of an earlier repetition, which was not completed, may come before.
                again.retain(|part| part.extent.first > begin);
                again.iter().chain([&new]).for_each(|new| self.replace(new));
            }
        }
    }

    fn replace(&mut self, new: &NewEntries) {
        let before = new.extent.first - 1;
        if before < self.index.start().index || before > self.index.last().index {
            // Only a replay comes here: what stood in between was in segments that are gone.
            match self.replica {
                Some(_) => GroupLogMark::ReplayedOverGap.hit(),
                None => GroupLogMark::ReplayedBeforeState.hit(),
            }
            if !self.loose {
                self.told = Some(self.index.start());
            }
            let told = self.told.filter(|told| told.index == before);
            self.index.reset(told.unwrap_or(EntryId { index: before, term: 0 }));
            self.loose = told.is_none();
        }
        if new.extent.first <= self.index.last().index {
            GroupLogMark::SuffixReplaced.hit();
        }
        self.index.replace(new);
    }

    /// Begins a repetition of all entries; truncations do nothing until it ends.
    pub(super) fn begin_again(&mut self) {
        self.again.clear();
        self.is_repeated = true;
    }

    /// Ends a repetition, and forgets entries of one that was not completed.
    pub(super) fn end_again(&mut self) {
        self.again.clear();
        self.is_repeated = false;
    }

    /// Forgets the entries up to `start`, which is one of them.
    pub(super) fn truncate(&mut self, start: EntryId) {
        if self.is_repeated {
            return GroupLogMark::TruncationSkipped.hit();
        }
        let oldest = self.index.oldest_segment();
        self.index.truncate(start);
        self.owed = self.owed.or(oldest);
    }
}
