//! A simple model of a group log, and random writes that it must accept.

use super::super::{
    EntryId, GroupEntry, GroupId, GroupLog, GroupState, GroupWrite, HardState, OwnedGroupEntry,
};
use crate::error::{Error, Result};
use base::env::Rng;
use std::collections::BTreeMap;

/// A write that owns its bytes.
#[derive(Debug, Clone)]
pub(super) enum Owned {
    Create {
        replica: u64,
        hard: HardState,
        descriptor: Vec<u8>,
        start: EntryId,
    },
    Append {
        hard: Option<HardState>,
        descriptor: Option<Vec<u8>>,
        snapshot: Option<EntryId>,
        first: u64,
        entries: Vec<(u64, u8, Vec<u8>)>,
    },
    Remove {
        least_replica: u64,
    },
}

/// Appends a round of writes.
pub(super) fn append(log: &GroupLog, round: &[(GroupId, Owned)]) -> Result<()> {
    let entries: Vec<Vec<GroupEntry<'_>>> =
        round.iter().map(|(_, write)| write.entries()).collect();
    let writes = round.iter().zip(&entries).map(|((group, write), entries)| {
        let group = *group;
        match write {
            Owned::Create { replica, hard, descriptor, start } => {
                let (replica, hard, start) = (*replica, *hard, *start);
                GroupWrite::Create { group, replica, hard, descriptor, start }
            }
            Owned::Append { hard, descriptor, snapshot, first, .. } => GroupWrite::Append {
                group,
                hard: *hard,
                descriptor: descriptor.as_deref(),
                snapshot: *snapshot,
                first: *first,
                entries,
            },
            Owned::Remove { least_replica } => {
                GroupWrite::Remove { group, least_replica: *least_replica }
            }
        }
    });
    log.append(&writes.collect::<Vec<_>>())
}

impl Owned {
    fn entries(&self) -> Vec<GroupEntry<'_>> {
        let Self::Append { entries, .. } = self else { return Vec::new() };
        let borrowed = entries.iter();
        borrowed
            .map(|(term, kind, payload)| GroupEntry { term: *term, kind: *kind, payload })
            .collect()
    }
}

/// A living replica. Entries are kept from `base` on, which is where the log may begin at the
/// earliest; `start` is where it begins at the latest.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Replica {
    replica: u64,
    hard: HardState,
    descriptor: Vec<u8>,
    base: EntryId,
    start: EntryId,
    entries: BTreeMap<u64, (u64, u8, Vec<u8>)>,
}

impl Replica {
    fn term(&self, index: u64) -> u64 {
        match self.entries.get(&index) {
            Some((term, ..)) => *term,
            None => self.base.term,
        }
    }

    fn last(&self) -> EntryId {
        let index = self.entries.keys().next_back().copied().unwrap_or(self.base.index);
        EntryId { index, term: self.term(index) }
    }
}

/// All groups: living ones, and the least replica ids of removed ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Model {
    alive: BTreeMap<GroupId, Replica>,
    removed: BTreeMap<GroupId, u64>,
}

impl Model {
    pub(super) fn apply(&mut self, group: GroupId, write: &Owned) {
        match write.clone() {
            Owned::Create { replica, hard, descriptor, start } => {
                let (base, entries) = (start, BTreeMap::new());
                let new = Replica { replica, hard, descriptor, base, start, entries };
                self.removed.remove(&group);
                assert!(self.alive.insert(group, new).is_none());
            }
            Owned::Remove { least_replica } => {
                self.alive.remove(&group);
                self.removed.insert(group, least_replica);
            }
            Owned::Append { hard, descriptor, snapshot, first, entries } => {
                let of = self.alive.get_mut(&group).unwrap();
                of.hard = hard.unwrap_or(of.hard);
                of.descriptor = descriptor.unwrap_or(of.descriptor.clone());
                if let Some(snapshot) = snapshot {
                    (of.base, of.start) = (snapshot, snapshot);
                    of.entries.clear();
                }
                if !entries.is_empty() {
                    of.entries.split_off(&first);
                    of.entries.extend((first..).zip(entries));
                }
            }
        }
    }

    /// A random write that the log must take.
    pub(super) fn draw(&self, group: GroupId, rng: &mut Rng) -> Owned {
        let Some(of) = self.alive.get(&group) else {
            let least = self.removed.get(&group).copied().unwrap_or(1);
            let start = match rng.chance(70) {
                true => EntryId::default(),
                false => EntryId { index: 1 + rng.below(5), term: 1 },
            };
            let hard = HardState { term: 1 + rng.below(3), vote: 0, commit: start.index };
            let (replica, descriptor) = (least + rng.below(2), vec![7; rng.index(40)]);
            return Owned::Create { replica, hard, descriptor, start };
        };
        if rng.chance(4) {
            return Owned::Remove { least_replica: of.replica + 1 + rng.below(2) };
        }
        of.draw(rng)
    }

    /// Draws an index up to which `group` can be truncated, and notes that it is.
    pub(super) fn truncate(&mut self, group: GroupId, rng: &mut Rng) -> Option<u64> {
        let of = self.alive.get_mut(&group)?;
        let index = of.start.index + rng.below(of.hard.commit - of.start.index + 1);
        of.start = EntryId { index, term: of.term(index) };
        Some(index)
    }

    /// Compares what `log` holds, every entry of it; the error says where they differ.
    pub(super) fn compare(&self, log: &GroupLog) -> std::result::Result<(), String> {
        let found = log.groups();
        if found.len() != self.alive.len() + self.removed.len() {
            return Err(format!("{} groups: {found:?}", found.len()));
        }
        for (group, state) in found {
            match state {
                GroupState::Removed { least_replica } => {
                    if self.removed.get(&group) != Some(&least_replica) {
                        return Err(format!("{group:?} is removed, {least_replica}"));
                    }
                }
                GroupState::Alive(state) => {
                    let Some(of) = self.alive.get(&group) else {
                        return Err(format!("{group:?} lives"));
                    };
                    of.compare(log, group, &state)?;
                }
            }
        }
        Ok(())
    }
}

impl Replica {
    fn draw(&self, rng: &mut Rng) -> Owned {
        let (old, last) = (self.hard, self.last());
        let term = old.term.max(last.term) + u64::from(rng.chance(15));
        let snapshot = rng.chance(4).then(|| EntryId {
            index: last.index + rng.below(3),
            term: last.term + u64::from(rng.chance(20)),
        });
        let snapshot = snapshot.filter(|new| new.index >= old.commit);
        let (floor, last) = match snapshot {
            Some(new) => (new.index, new),
            None => (old.commit.max(self.start.index), last),
        };
        let first = last.index + 1 - rng.below((last.index - floor).min(3) + 1);
        let mut entries = Vec::new();
        if rng.chance(85) {
            let before = if first == last.index + 1 { last.term } else { self.term(first - 1) };
            for _ in 0..1 + rng.index(3) {
                let len = if rng.chance(5) { rng.index(900) } else { rng.index(60) };
                let payload = (0..len).map(|at| (at as u8).wrapping_mul(first as u8)).collect();
                let span = term.max(before) - before + 1;
                entries.push((before + rng.below(span), rng.below(4) as u8, payload));
            }
            entries.sort_by_key(|(term, ..)| *term);
        }
        let end = if entries.is_empty() { last.index } else { first + entries.len() as u64 - 1 };
        let least = old.commit.max(floor.min(end));
        let hard =
            (snapshot.is_some() || entries.is_empty() || rng.chance(50)).then(|| HardState {
                term,
                vote: if term > old.term || old.vote == 0 { rng.below(4) } else { old.vote },
                commit: least + rng.below(end - least + 1),
            });
        let descriptor = rng.chance(5).then(|| vec![9; rng.index(30)]);
        let first = if entries.is_empty() { 0 } else { first };
        Owned::Append { hard, descriptor, snapshot, first, entries }
    }

    fn compare(
        &self,
        log: &GroupLog,
        group: GroupId,
        state: &super::super::ReplicaState,
    ) -> std::result::Result<(), String> {
        let (start, last) = (state.start, state.last);
        let in_range = (self.base.index..=self.start.index).contains(&start.index);
        let same = state.replica == self.replica
            && state.hard == self.hard
            && *state.descriptor == *self.descriptor
            && last == self.last()
            && start.term == self.term(start.index);
        if !in_range || !same {
            return Err(format!("{group:?} is {state:?}, not {self:?}"));
        }
        if log.entries(group, start.index..start.index + 1, 9).map_err(text)?.is_some() {
            return Err(format!("{group:?} has an entry at its start"));
        }
        let mut next = start.index + 1;
        while next <= last.index {
            let read = log.entries(group, next..last.index + 1, 100).map_err(text)?;
            for OwnedGroupEntry { index, term, kind, payload } in read.unwrap_or_default() {
                let there = self.entries.get(&index) == Some(&(term, kind, payload));
                if index != next || !there || log.term(group, index) != Some(term) {
                    return Err(format!("{group:?} differs at {index}, in place of {next}"));
                }
                next += 1;
            }
        }
        Ok(())
    }
}

fn text(error: Error) -> String {
    error.to_string()
}
