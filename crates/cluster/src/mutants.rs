//! Planted defects: each undoes one rule of the driver, so that a suite can prove that it would notice.
//!
//! Only a build with debug assertions has them, as it has coverage marks. In any other build
//! [`Mutant::planted`] is the constant `false`. A defect is planted in one thread.

#[cfg(debug_assertions)]
use std::cell::Cell;

/// One rule that the driver can be made to break. For tests of tests only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// A replica with a history starts without a promise, and votes at once.
    RestartedVoterVotes,
    /// Replicas vote whatever they have promised, and stand for election themselves.
    PromiseBroken,
    /// A leader keeps its lease while it hands its office over.
    TransferKeepsLease,
    /// A lease counts from the answer of a follower, not from the message that it answers.
    LeaseFromAnswer,
    /// All reads that ask a quorum have the same context.
    OneReadContext,
    /// A leader reads before it has committed an entry of its term.
    ReadsBeforeOwnTerm,
    /// A proposal is answered when its index is applied, whoever proposed the entry there.
    ProposalsByIndex,
    /// A follower acknowledges entries and gives votes before they are saved.
    AnswersBeforeSaved,
    /// A leader falls asleep without the consent of its followers.
    LeaderSleepsAlone,
    /// A log that is too long keeps what a replica lacks which is heard and does not get on.
    StuckCountsAsLive,
}

impl Mutant {
    /// All defects that can be planted.
    pub const ALL: &[Self] = &[
        Self::RestartedVoterVotes,
        Self::PromiseBroken,
        Self::TransferKeepsLease,
        Self::LeaseFromAnswer,
        Self::OneReadContext,
        Self::ReadsBeforeOwnTerm,
        Self::ProposalsByIndex,
        Self::AnswersBeforeSaved,
        Self::LeaderSleepsAlone,
        Self::StuckCountsAsLive,
    ];

    /// Plants the defect in the drivers of this thread, in place of any other; None heals them.
    #[cfg(debug_assertions)]
    pub fn plant(one: Option<Self>) {
        PLANTED.set(one);
    }

    /// Returns true if the defect is planted in this thread.
    #[inline(always)]
    pub(crate) fn planted(self) -> bool {
        #[cfg(debug_assertions)]
        return PLANTED.get() == Some(self);
        #[cfg(not(debug_assertions))]
        false
    }
}

#[cfg(debug_assertions)]
thread_local! {
    static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
}
