//! Rounds on their way to the disk, and the messages that wait for them.

use super::data::{GroupId, HardState, Member};
use super::message::Message;
use super::replica::Collected;
use super::step::{Round, Write};
use crate::marks::Mark;
use std::collections::{BTreeMap, VecDeque};

/// The header of this file describes it.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// The number of the last round that was given out.
    last: u64,
    saving: VecDeque<Saving>,
}

#[derive(Debug)]
struct Saving {
    number: u64,
    groups: BTreeMap<GroupId, SavingGroup>,
}

/// Facts that become true of a group when a round is saved.
#[derive(Debug)]
pub(super) struct SavingGroup {
    /// The last ready of the `raft` crate that is saved then.
    pub(super) ready: u64,
    /// The last state that is saved then, if one was written.
    pub(super) state: Option<HardState>,
    /// Messages that may leave then.
    pub(super) held: Vec<(Member, Message)>,
}

impl Rounds {
    /// Notes that `collected`, which has no writes, waits for the writes of its group that are on
    /// their way. Gives it back without any.
    pub(super) fn attach(&mut self, group: GroupId, collected: Collected) -> Option<Collected> {
        let mut rounds = self.saving.iter_mut().rev();
        let Some(part) = rounds.find_map(|round| round.groups.get_mut(&group)) else {
            return Some(collected);
        };
        if !collected.held.is_empty() {
            Mark::MessageHeld.hit();
        }
        part.ready = collected.ready;
        part.held.extend(collected.held);
        None
    }

    /// Begins a round of what the groups have to write.
    pub(super) fn begin(&mut self, parts: Vec<(Collected, Write)>) -> Option<Round> {
        if parts.is_empty() {
            return None;
        }
        self.last += 1;
        if !self.saving.is_empty() {
            Mark::RoundsInFlight.hit();
        }
        let mut groups = BTreeMap::new();
        let mut writes = Vec::new();
        for (collected, write) in parts {
            let Collected { ready, held, .. } = collected;
            groups.insert(write.group, SavingGroup { ready, state: write.state, held });
            writes.push(write);
        }
        self.saving.push_back(Saving { number: self.last, groups });
        Some(Round { number: self.last, writes })
    }

    /// Returns what becomes true when `round` and all before it are saved, in order.
    pub(super) fn saved(&mut self, round: u64) -> Vec<(GroupId, SavingGroup)> {
        assert!(round <= self.last, "round {round} was never given out");
        let mut parts = Vec::new();
        while let Some(first) = self.saving.pop_front_if(|first| first.number <= round) {
            parts.extend(first.groups);
        }
        parts
    }

    /// Forgets a group that is closed.
    pub(super) fn forget(&mut self, group: GroupId) {
        for round in &mut self.saving {
            round.groups.remove(&group);
        }
    }
}
