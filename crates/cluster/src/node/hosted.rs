//! A replica of this node as its threads share it.

use crate::format::Descriptor;
use crate::group::{Entry, GroupId, LeaseChange, Member, ReplicaId, RoleChange, Time};
use engine::Tree;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// A term in which this node leads a group and has applied all entries of earlier terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready {
    /// Number of this node's term.
    pub term: u64,
    /// The newest time that a server gave to a cell in earlier terms, in microseconds; 0 without any.
    pub floor: u64,
}

/// The role of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Term that the replica is in.
    pub term: u64,
    /// True if the replica on this node leads.
    pub leads: bool,
    /// The leader, as far as this node knows.
    pub leader: Option<Member>,
    /// The last term of which this node has applied an entry.
    applied: Ready,
}

impl Status {
    /// Returns the term in which this node may answer and propose, if it may.
    pub fn ready(&self) -> Option<Ready> {
        (self.leads && self.applied.term == self.term).then_some(self.applied)
    }

    /// Returns the leader if it is another replica than `me`.
    pub(super) fn other_leader(&self, me: ReplicaId) -> Option<Member> {
        self.leader.filter(|leader| !self.leads && leader.replica != me)
    }
}

/// The lease as the driver told it.
#[derive(Debug, Clone, Copy)]
struct Lease {
    term: u64,
    end: Time,
    committed: u64,
}

/// The header of this file describes it.
pub(super) struct Hosted {
    pub(super) group: GroupId,
    pub(super) replica: ReplicaId,
    /// Trees in the order of the descriptor.
    pub(super) trees: Vec<Tree>,
    /// The newest descriptor, which is on disk.
    descriptor: Mutex<Arc<Descriptor>>,
    pub(super) status: watch::Sender<Status>,
    /// The lease of the leader on this node, if it has one.
    lease: Mutex<Option<Lease>>,
    /// When the driver was last told of a read. Publishes nothing.
    read_told: AtomicU64,
    /// Committed entries on their way to the task that applies them.
    pub(super) committed: mpsc::UnboundedSender<Vec<Entry>>,
    /// Last entry that the driver was told is applied; written after it was told.
    applied: AtomicU64,
    /// Last entry that the driver was told is flushed. Upkeep alone uses it.
    pub(super) flushed: AtomicU64,
    /// True when the replica is removed: what its task meets from now on does not count.
    removed: AtomicBool,
}

/// The entries that a replica is to apply.
pub(super) type Committed = mpsc::UnboundedReceiver<Vec<Entry>>;

impl Hosted {
    /// Returns a replica that has flushed up to `flushed`, and the entries that it will be given.
    pub(super) fn new(
        group: GroupId,
        replica: ReplicaId,
        trees: Vec<Tree>,
        descriptor: Descriptor,
        flushed: u64,
    ) -> (Arc<Self>, Committed) {
        let (committed, entries) = mpsc::unbounded_channel();
        let applied = Ready { term: 0, floor: 0 };
        let status = Status { term: 0, leads: false, leader: None, applied };
        let hosted = Self {
            group,
            replica,
            trees,
            descriptor: Mutex::new(Arc::new(descriptor)),
            status: watch::Sender::new(status),
            lease: Mutex::new(None),
            read_told: AtomicU64::new(0),
            committed,
            applied: AtomicU64::new(flushed),
            flushed: AtomicU64::new(flushed),
            removed: AtomicBool::new(false),
        };
        (Arc::new(hosted), entries)
    }

    pub(super) fn descriptor(&self) -> Arc<Descriptor> {
        Arc::clone(&self.descriptor.lock())
    }

    pub(super) fn set_descriptor(&self, descriptor: Descriptor) {
        *self.descriptor.lock() = Arc::new(descriptor);
    }

    /// Notes what the driver tells of the replica's role.
    pub(super) fn set_role(&self, role: &RoleChange) {
        self.status.send_modify(|status| {
            let RoleChange { term, leads, leader, .. } = *role;
            *status = Status { term, leads, leader, applied: status.applied };
        });
    }

    /// Notes what the driver tells of the lease.
    pub(super) fn set_lease(&self, lease: &LeaseChange) {
        let LeaseChange { term, committed, .. } = *lease;
        *self.lease.lock() = lease.end.map(|end| Lease { term, end, committed });
    }

    /// Returns true if the leader of `term` has a lease at the time `now`, which was read before the call, and all is
    /// applied here that any node may have shown by then.
    pub(super) fn has_lease(&self, term: u64, now: Time) -> bool {
        let lease = *self.lease.lock();
        lease.is_some_and(|lease| {
            lease.term == term && now < lease.end && lease.committed <= self.applied()
        })
    }

    /// Returns true if the driver was not told of a read for so long; it is to be told of this one.
    pub(super) fn tells_read(&self, now: Time, longest: Duration) -> bool {
        let told = Time(self.read_told.load(Ordering::Relaxed));
        if now < told.after(longest) {
            return false;
        }
        self.read_told.store(now.0, Ordering::Relaxed);
        true
    }

    /// Notes that the first entry of `term` is applied, when the newest time given was `floor`.
    pub(super) fn set_applied_term(&self, term: u64, floor: u64) {
        self.status.send_if_modified(|status| {
            let newer = term > status.applied.term;
            if newer {
                status.applied = Ready { term, floor };
            }
            newer
        });
    }

    /// Notes that the driver was told of applied entries up to `index`.
    pub(super) fn set_applied(&self, index: u64) {
        self.applied.store(index, Ordering::Release);
    }

    /// Returns the last entry that the driver knows to be applied.
    pub(super) fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    /// Returns the last entry that all trees have on disk and the driver knows to be applied.
    pub(super) fn flushed_now(&self) -> engine::Result<u64> {
        let mut flushed = self.applied();
        for tree in &self.trees {
            flushed = flushed.min(tree.flushed()?.0);
        }
        Ok(flushed)
    }

    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    pub(super) fn set_removed(&self) {
        self.removed.store(true, Ordering::Release);
    }
}
