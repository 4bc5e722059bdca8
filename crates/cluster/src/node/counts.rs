//! Counters of a node's groups, and replicas that were found to be behind.

use super::hosted::Hosted;
use crate::group::{GroupId, ReplicaId, RoleChange, Seeding, Time};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Pause before the log tells again of a replica that is still behind.
const TOLD_AGAIN: Duration = Duration::from_secs(600);

/// The header of this file describes it. Counters are relaxed: they guard nothing.
#[derive(Default)]
pub(super) struct Counts {
    elections_won: AtomicU64,
    /// Cuts of logs that other replicas still needed.
    forced_cuts: AtomicU64,
    /// True while the group log waits for space on its disk.
    waits_for_space: AtomicBool,
    /// When the log told of a replica that needs seeding.
    told: Mutex<BTreeMap<(GroupId, ReplicaId), Time>>,
}

impl Counts {
    /// Counts the election of the replica on this node.
    pub(super) fn note_role(&self, hosted: &Hosted, role: &RoleChange) {
        let before = *hosted.status.borrow();
        if role.leads && !(before.leads && before.term == role.term) {
            self.elections_won.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells of a replica that the log of its leader cannot help any more, now and then.
    pub(super) fn note_behind(&self, seeding: Seeding, now: Time) {
        let key = (seeding.group, seeding.replica);
        let mut told = self.told.lock();
        if told.get(&key).is_some_and(|told| told.after(TOLD_AGAIN) > now) {
            return;
        }
        told.insert(key, now);
        drop(told);
        let (group, replica) = (seeding.group.0, seeding.replica.0);
        tracing::error!(
            group,
            replica,
            "a replica was away for so long that the log has not kept what it lacks; it gets no more \
             writes, and its tablet has one replica less"
        );
    }

    pub(super) fn note_forced_cut(&self) {
        self.forced_cuts.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_waits_for_space(&self, waits: bool) {
        self.waits_for_space.store(waits, Ordering::Relaxed);
    }

    pub(super) fn waits_for_space(&self) -> bool {
        self.waits_for_space.load(Ordering::Relaxed)
    }

    pub(super) fn elections_won(&self) -> u64 {
        self.elections_won.load(Ordering::Relaxed)
    }

    pub(super) fn forced_cuts(&self) -> u64 {
        self.forced_cuts.load(Ordering::Relaxed)
    }
}
