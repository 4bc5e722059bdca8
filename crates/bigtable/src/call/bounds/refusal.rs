//! Reasons for which a call finds no room, counted, and as the status that its client gets.

use crate::call::status;
use std::sync::atomic::{AtomicU64, Ordering};
use tonic::Status;

/// A bound that a call would break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There are as many calls in flight as there may be.
    Calls,
    /// The identity has as many calls in flight as it may have.
    CallsOfIdentity,
    /// Requests that are being uploaded hold all that they may.
    Uploads,
    /// Uploads of the identity hold all that they may.
    UploadsOfIdentity,
    /// The request came too slowly.
    SlowUpload,
    /// Answers that clients have not taken hold all that they may.
    Answers,
    /// Answers to the identity hold all that they may.
    AnswersOfIdentity,
}

impl Refusal {
    const ALL: [Self; 7] = [
        Self::Calls,
        Self::CallsOfIdentity,
        Self::Uploads,
        Self::UploadsOfIdentity,
        Self::SlowUpload,
        Self::Answers,
        Self::AnswersOfIdentity,
    ];

    /// Returns the name of the reason in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::CallsOfIdentity => "calls_of_identity",
            Self::Uploads => "uploads",
            Self::UploadsOfIdentity => "uploads_of_identity",
            Self::SlowUpload => "slow_upload",
            Self::Answers => "answers",
            Self::AnswersOfIdentity => "answers_of_identity",
        }
    }

    /// Returns the status for the client, which names the bound `max`.
    pub(super) fn status(self, max: usize) -> Status {
        status::busy(match self {
            Self::Calls => format!("there are {max} calls in flight, as many as there may be"),
            Self::CallsOfIdentity => {
                format!("the identity has {max} calls in flight, as many as it may have")
            }
            Self::Uploads => format!(
                "requests that are being uploaded hold {max} bytes, which is all they may; try later"
            ),
            Self::UploadsOfIdentity => format!(
                "the identity's requests that are being uploaded may hold {max} bytes; try later"
            ),
            Self::SlowUpload => {
                format!("the request came too slowly; {max} bytes a second are needed")
            }
            Self::Answers => format!(
                "rows that clients have not taken hold {max} bytes, which is all they may, and there \
                 is no room for a large row; try later"
            ),
            Self::AnswersOfIdentity => format!(
                "large rows that the identity's clients have not taken may hold {max} bytes, and there \
                 is no room for another; try later"
            ),
        })
    }
}

/// Numbers of calls that were refused.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Relaxed: counts that stand by themselves.
    counts: [AtomicU64; Refusal::ALL.len()],
}

impl Refusals {
    /// Counts a call that is refused.
    pub(super) fn count(&self, refusal: Refusal) {
        self.counts[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers so far.
    pub(super) fn counts(&self) -> impl Iterator<Item = (Refusal, u64)> + '_ {
        Refusal::ALL
            .into_iter()
            .map(|refusal| (refusal, self.counts[refusal as usize].load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_count_and_its_label() {
        let refusals = Refusals::default();
        for (times, refusal) in Refusal::ALL.into_iter().enumerate() {
            (0..times).for_each(|_| refusals.count(refusal));
        }
        let counts: Vec<_> = refusals.counts().collect();
        for (times, (refusal, count)) in counts.iter().enumerate() {
            assert_eq!((*refusal, *count), (Refusal::ALL[times], times as u64));
            assert!(refusal.status(77).message().contains("77"), "{refusal:?}");
            let same = counts.iter().filter(|(other, _)| other.label() == refusal.label());
            assert_eq!(same.count(), 1, "{refusal:?}");
        }
    }
}
