//! The hook through which the table layer's GC rules reach compaction.

use crate::cell::{FamilyId, Timestamp};

/// Decision to keep or remove a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The cell stays.
    Keep,
    /// Compaction may drop the cell; reads of the layer above no longer show it.
    Elide,
}

/// Decides which cells of a tree may vanish. A pure function of its arguments for as long as one
/// compaction holds it (the time of day is fixed when the policy value is made), and monotonic:
/// where a cell may vanish as version `n`, a cell of the same family that is as old or older may
/// vanish as version `n` or any later one. Reads that apply the policy therefore see the same
/// cells before and after a compaction, at a snapshot too.
///
/// A version that a delete hides does not count, so that deleting newer versions brings older ones
/// back, unless a compaction removed those while they were garbage. None does for the sake of a
/// version that is known to be deleted: a compaction asks memtables and files that it does not merge
/// for deletes of the row before it removes a cell that only newer versions make garbage. A delete
/// that comes after it asked comes too late: it brings the cell back only until the outputs are
/// installed. Snapshots taken in between go on seeing what they saw.
pub trait ElisionPolicy: Send + Sync + 'static {
    /// Returns whether the cell that is version `version` of its column (0 is the newest of those that
    /// no delete hides) and carries `timestamp` may vanish.
    fn verdict(&self, family: FamilyId, version: u32, timestamp: Timestamp) -> Verdict;
}

/// Gives a policy at the start of each compaction, so that it can look at the clock once.
pub trait ElisionRules: Send + Sync + 'static {
    /// The policy of a compaction that starts at `now_micros` since the Unix epoch.
    fn policy(&self, now_micros: i64) -> Box<dyn ElisionPolicy>;
}

/// Keeps everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeepAll;

impl ElisionPolicy for KeepAll {
    fn verdict(&self, _: FamilyId, _: u32, _: Timestamp) -> Verdict {
        Verdict::Keep
    }
}

impl ElisionRules for KeepAll {
    fn policy(&self, _: i64) -> Box<dyn ElisionPolicy> {
        Box::new(KeepAll)
    }
}
