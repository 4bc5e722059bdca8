//! The end of a step: everything that the `raft` crate wants done.
//!
//! 1. Messages of a leader may leave before its own log writes are saved. Messages of others wait for
//!    all log writes that came before them.
//! 2. One message of a follower need not wait for entries: the answer to a heartbeat, which says
//!    nothing of them. It waits for the term and the vote only. So a slow disk costs no leader its
//!    office or its lease.

use super::super::data::{Entry, EntryId, GroupId, HardState, Member, ReplicaId, Time};
use super::super::message::{Body, Message};
use super::super::step::{Committed, LeaseChange, Seeding, Write};
use super::{Replica, Step, Stranded};
use crate::marks::Mark;
use crate::mutants::Mutant;
use raft::eraftpb;

/// Writes of a replica, and the messages that wait for them.
pub(in super::super) struct Collected {
    /// Number to report to [`Replica::saved`].
    pub(in super::super) ready: u64,
    /// Log writes, if there are any.
    pub(in super::super) write: Option<Write>,
    /// Messages that wait for this write and all before it.
    pub(in super::super) held: Vec<(Member, Message)>,
}

impl Replica {
    /// Looks at the requests of the step, and takes what is to be done. Returns what is to be saved.
    pub(in super::super) fn collect(&mut self, step: &mut Step<'_>) -> Option<Collected> {
        self.take_requests(step);
        let cut = self.cut.take();
        let group = self.group;
        let collected = match !self.halted && self.raft.has_ready() {
            true => {
                let mut collected = self.take_ready(step);
                if let Some(start) = cut {
                    let write = collected.write.get_or_insert_with(|| empty_write(group));
                    self.write_start(write, start);
                }
                Some(collected)
            }
            false => cut.map(|start| {
                let mut write = empty_write(group);
                self.write_start(&mut write, start);
                Collected { ready: 0, write: Some(write), held: Vec::new() }
            }),
        };
        self.take_wishes(step);
        self.tell_lease(step);
        self.count_held(step);
        collected
    }

    /// Tells the lease if it has changed, or what is committed under it.
    fn tell_lease(&mut self, step: &mut Step<'_>) {
        let committed = self.raft.raft.raft_log.committed;
        let lease = self.told_lease(step).map(|end| (end, committed));
        if lease != self.lease_told {
            self.lease_told = lease;
            let (group, term, end) = (self.group, self.raft.raft.term, lease.map(|(end, _)| end));
            step.out.leases.push(LeaseChange { group, term, end, committed });
        }
    }

    /// Returns the end of the lease under which reads may be answered without the driver.
    fn told_lease(&self, step: &Step<'_>) -> Option<Time> {
        let may_read = !self.halted && self.leads() && self.raft.raft.commit_to_current_term();
        may_read.then(|| self.lease.end(self.members.len(), step.limits.election_timeout))?
    }

    /// Counts again what the replica holds.
    fn count_held(&mut self, step: &mut Step<'_>) {
        let (store, before) = (self.raft.store(), self.held);
        self.held = store.bytes_between(self.raft.raft.raft_log.applied, store.last());
        self.came = 0;
        *step.held = (*step.held + self.held).saturating_sub(before);
    }

    /// Returns the bytes of entries that the replica holds and has not applied.
    pub(in super::super) fn held(&self) -> u64 {
        self.held
    }

    /// Returns true if the replica has more to do at once.
    pub(in super::super) fn has_more(&self) -> bool {
        !self.halted && self.raft.has_ready()
    }

    fn take_ready(&mut self, step: &mut Step<'_>) -> Collected {
        let mut ready = self.raft.ready();
        let number = ready.number();
        let confirmed = ready.take_read_states();
        self.give_committed(ready.take_committed_entries(), step);
        let now = ready.take_messages();
        let later = ready.take_persisted_messages();
        let write = self.take_write(&ready.take_entries());
        self.raft.advance_append_async(ready);
        for message in &now {
            self.send(message, step);
        }
        let mut held = Vec::new();
        for message in &later {
            self.hold(message, &mut held, step);
        }
        self.take_confirmed(confirmed, step);
        Collected { ready: number, write, held }
    }

    fn give_committed(&mut self, entries: Vec<eraftpb::Entry>, step: &mut Step<'_>) {
        let Some(last) = entries.last() else { return };
        self.given = last.index;
        if self.given < self.raft.raft.raft_log.committed {
            Mark::CommittedLeft.hit();
        }
        let entries = entries.iter().map(Entry::from_raft).collect();
        step.out.committed.push(Committed { group: self.group, entries });
    }

    /// Takes the entries and the state to be written. A commit alone is not worth a write.
    fn take_write(&mut self, entries: &[eraftpb::Entry]) -> Option<Write> {
        self.raft.mut_store().append(entries);
        let raft = &self.raft.raft;
        let vote = (raft.vote != 0).then_some(ReplicaId(raft.vote));
        let state = HardState { term: raft.term, vote, commit: raft.raft_log.committed };
        let voted = (state.term, state.vote) != (self.written.term, self.written.vote);
        if entries.is_empty() && !voted {
            return None;
        }
        let new = state != self.written;
        self.written = state;
        self.raft.mut_store().set_state(state);
        Some(Write {
            entries: entries.iter().map(Entry::from_raft).collect(),
            state: new.then_some(state),
            ..empty_write(self.group)
        })
    }

    /// Writes that the log begins after `start` from now on. The log on disk gives up no entry before it
    /// knows that the entry is committed, and a commit alone was never written.
    fn write_start(&mut self, write: &mut Write, start: EntryId) {
        write.start = Some(start);
        if self.written.commit < start.index {
            self.written.commit = self.raft.raft.raft_log.committed;
            self.raft.mut_store().set_state(self.written);
            write.state = Some(self.written);
        }
    }

    fn translate(&self, message: &eraftpb::Message, now: Time) -> Option<(Member, Message)> {
        let to = self.member(message.to)?;
        let heard = self.promise.heard(message.term);
        Some((to, Message::from_raft(self.group, message, now, heard)))
    }

    fn send(&self, message: &eraftpb::Message, step: &mut Step<'_>) {
        let Some((to, message)) = self.translate(message, step.now) else { return };
        step.out.messages.entry(to.node).or_default().push(message);
    }

    fn hold(
        &self,
        message: &eraftpb::Message,
        held: &mut Vec<(Member, Message)>,
        step: &mut Step<'_>,
    ) {
        let Some((to, message)) = self.translate(message, step.now) else { return };
        let saved = (self.saved.term, self.saved.vote);
        let now = (self.written.term, self.written.vote);
        let heartbeat = matches!(message.body, Body::HeartbeatAnswer { .. }) && saved == now;
        if heartbeat || Mutant::AnswersBeforeSaved.planted() {
            if self.raft.raft.raft_log.persisted < self.raft.raft.raft_log.last_index() {
                Mark::HeartbeatAnsweredEarly.hit();
            }
            step.out.messages.entry(to.node).or_default().push(message);
        } else {
            held.push((to, message));
        }
    }

    /// Takes note that log writes up to `ready` are saved, with `state` if it was written.
    pub(in super::super) fn saved(
        &mut self,
        ready: u64,
        state: Option<HardState>,
        step: &mut Step<'_>,
    ) {
        self.saved = state.unwrap_or(self.saved);
        self.raft.on_persist_ready(ready);
        self.settle(step);
    }

    /// Takes what the log must have from the disk, and which replicas it cannot help. From time to
    /// time such a replica is asked for the start of the log, in case it was seeded.
    fn take_wishes(&mut self, step: &mut Step<'_>) {
        let group = self.group;
        let seeding = self.raft.mut_store().take_seeding();
        step.out.fetches.extend(self.raft.mut_store().take_fetches(group));
        for replica in seeding.into_iter().map(ReplicaId) {
            let known = self.seeded.get(&replica).copied();
            let again = known.map(|known| known.told.after(step.limits.election_timeout));
            if again.is_none_or(|again| again <= step.now) {
                Mark::SeedingNeeded.hit();
                let since = known.map_or(step.now, |known| known.since);
                self.seeded.insert(replica, Stranded { since, told: step.now });
                step.out.seeding.push(Seeding { group, replica });
                let start = self.raft.store().start().index;
                if let Some(progress) = self.raft.raft.mut_prs().get_mut(replica.0) {
                    progress.become_probe();
                    progress.next_idx = start + 1;
                }
            }
        }
    }
}

fn empty_write(group: GroupId) -> Write {
    Write { group, start: None, entries: Vec::new(), state: None }
}
