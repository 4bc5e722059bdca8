//! Planted defects: of the driver, and of what its caller owes. A suite that does not notice one of
//! them is too weak.

use super::plan::{Fault, Plan};
use super::stuck::Stuck;
use cluster::mutants::Mutant;

/// A defect that a world is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// The driver breaks one of its rules.
    Driver(Mutant),
    /// A round is reported as saved before the sync.
    SavedBeforeSync,
    /// A failed sync is taken for a good one.
    FailedSyncIgnored,
    /// A flush is reported before it is on disk.
    FlushedTooEarly,
    /// The clock of a node stands still while the node does.
    ClockStandsStill,
    /// A leader is made to hand over by another node, without being asked.
    HandoverUnasked,
    /// The driver waits for its state machines.
    DriverWaitsForApply,
    /// A node is never told that another one is gone.
    LossUntold,
}

impl Defect {
    /// All defects that can be planted.
    pub fn all() -> Vec<Self> {
        let own = [
            Self::SavedBeforeSync,
            Self::FailedSyncIgnored,
            Self::FlushedTooEarly,
            Self::ClockStandsStill,
            Self::HandoverUnasked,
            Self::DriverWaitsForApply,
            Self::LossUntold,
        ];
        Mutant::ALL.iter().map(|mutant| Self::Driver(*mutant)).chain(own).collect()
    }

    /// Returns true if a world may suffer what brings the defect to light.
    pub(super) fn suits(self, plan: &Plan, stuck: Option<&Stuck>) -> bool {
        match self {
            Self::Driver(Mutant::OneReadContext) => plan.faults.contains(&Fault::HeldAnswers),
            Self::Driver(Mutant::StuckCountsAsLive) => stuck.is_some(),
            _ => true,
        }
    }
}

/// Heals the drivers of this thread when dropped.
pub(super) struct Planted;

/// Plants the defect in the drivers of this thread, if it is one of theirs.
pub(super) fn plant(defect: Option<Defect>) -> Planted {
    let mutant = match defect {
        Some(Defect::Driver(mutant)) => Some(mutant),
        _ => None,
    };
    set(mutant);
    Planted
}

impl Drop for Planted {
    fn drop(&mut self) {
        set(None);
    }
}

#[cfg(debug_assertions)]
fn set(mutant: Option<Mutant>) {
    Mutant::plant(mutant);
}

#[cfg(not(debug_assertions))]
fn set(mutant: Option<Mutant>) {
    assert!(mutant.is_none(), "defects of the driver need a build with debug assertions");
}
