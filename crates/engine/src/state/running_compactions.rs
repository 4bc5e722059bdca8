//! The compactions that run, of all trees, and whether they are paused.

use super::idle_threads::Threads;
use crate::cell::TreeId;
use crate::compaction::pick::{Plan, Reason};
use crate::locks::RunningCompactions;
use base::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Why a compaction runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionReason {
    /// A level had more than it may have.
    Shape,
    /// A file was mostly tombstones and expired cells.
    Garbage,
    /// Reads looked at several runs of a tree that nobody wrote.
    Quiet,
    /// `Tree::compact_range`.
    ByHand,
}

impl CompactionReason {
    /// All reasons, in the order of their numbers.
    pub(crate) const ALL: [Self; 4] = [Self::Shape, Self::Garbage, Self::Quiet, Self::ByHand];

    /// Returns the name of the reason in metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Shape => "shape",
            Self::Garbage => "garbage",
            Self::Quiet => "reads",
            Self::ByHand => "manual",
        }
    }
}

impl From<Reason> for CompactionReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Shape => Self::Shape,
            Reason::Garbage => Self::Garbage,
            Reason::Quiet => Self::Quiet,
        }
    }
}

/// A compaction that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningCompaction {
    /// Its tree.
    pub tree: TreeId,
    /// Why it runs.
    pub reason: CompactionReason,
    /// Bytes of its inputs; what it writes is seldom more.
    pub bytes_total: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// How many files it merges.
    pub ssts: usize,
    /// Numbers of the files that it merges.
    pub inputs: Vec<u64>,
    /// Level of the files that it writes.
    pub level: usize,
    /// Since when it runs.
    pub running_for: Duration,
}

/// Compactions of all trees.
#[derive(Debug, Default)]
pub(crate) struct Compactions {
    paused: AtomicBool,
    running: Mutex<BTreeMap<u64, Arc<Running>>, RunningCompactions>,
    next: AtomicU64,
    pub(crate) threads: Threads,
}

#[derive(Debug)]
pub(crate) struct Running {
    tree: TreeId,
    reason: CompactionReason,
    bytes_total: u64,
    /// Relaxed: stands by itself.
    bytes_written: AtomicU64,
    inputs: Vec<u64>,
    level: usize,
    since: Duration,
}

impl Running {
    /// Notes that it has written `bytes` bytes more.
    pub(crate) fn wrote(&self, bytes: u64) {
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Bytes of what runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompactionProgress {
    pub(crate) running: u64,
    pub(crate) bytes_total: u64,
    pub(crate) bytes_written: u64,
}

impl Compactions {
    pub(crate) fn progress(&self) -> CompactionProgress {
        let running = self.running.lock();
        let mut sum = CompactionProgress { running: running.len() as u64, ..Default::default() };
        for one in running.values() {
            sum.bytes_total += one.bytes_total;
            sum.bytes_written += one.bytes_written.load(Ordering::Relaxed);
        }
        sum
    }

    /// Those that run at `now`, oldest first.
    pub(crate) fn running(&self, now: Duration) -> Vec<RunningCompaction> {
        let running = self.running.lock();
        let one = |one: &Arc<Running>| RunningCompaction {
            tree: one.tree,
            reason: one.reason,
            bytes_total: one.bytes_total,
            bytes_written: one.bytes_written.load(Ordering::Relaxed),
            ssts: one.inputs.len(),
            inputs: one.inputs.clone(),
            level: one.level,
            running_for: now.saturating_sub(one.since),
        };
        running.values().map(one).collect()
    }

    pub(crate) fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
    }

    pub(crate) fn are_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Lists `plan` as long as `act` runs.
    pub(crate) fn listed<T>(
        &self,
        tree: TreeId,
        plan: &Plan,
        reason: CompactionReason,
        since: Duration,
        act: impl FnOnce(&Arc<Running>) -> T,
    ) -> T {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (bytes_total, bytes_written) = (plan.bytes(), AtomicU64::new(0));
        let inputs = plan.ssts().map(|sst| sst.number.0).collect();
        let (level, _) = plan.place();
        let one =
            Arc::new(Running { tree, reason, bytes_total, bytes_written, inputs, level, since });
        self.running.lock().insert(id, Arc::clone(&one));
        let _listed = Listed { compactions: self, id };
        act(&one)
    }
}

/// A compaction that is listed as running, until this is dropped.
struct Listed<'a> {
    compactions: &'a Compactions,
    id: u64,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.compactions.running.lock().remove(&self.id);
    }
}
