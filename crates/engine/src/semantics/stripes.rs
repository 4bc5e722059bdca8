//! Stripes: which sequence numbers the live snapshots can tell apart.

use crate::cell::SequenceNumber;

/// What tells where readers can tell entries apart.
pub(crate) trait Borders: std::fmt::Debug + Send + Sync {
    /// The sequence numbers that are held, ascending, and what is published.
    fn borders(&self) -> Vec<SequenceNumber>;
}

/// Nobody holds a snapshot, and nothing is published.
#[derive(Debug)]
pub(crate) struct NoSnapshots;

impl Borders for NoSnapshots {
    fn borders(&self) -> Vec<SequenceNumber> {
        vec![SequenceNumber(0)]
    }
}

/// The live snapshots, as borders between stripes. Stripe 0 holds what every view sees, that is
/// what is at or below the oldest snapshot; the last stripe what only reads of "now" see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stripes {
    snapshots: Vec<SequenceNumber>,
}

impl Stripes {
    /// The stripes between `snapshots`, which come in any order and may repeat. Without any there
    /// is one stripe.
    pub(crate) fn new(mut snapshots: Vec<SequenceNumber>) -> Self {
        snapshots.sort_unstable();
        snapshots.dedup();
        Self { snapshots }
    }

    /// The stripe of `sequence`. Entries of one stripe are seen by the same views.
    pub(crate) fn of(&self, sequence: SequenceNumber) -> usize {
        self.snapshots.partition_point(|snapshot| *snapshot < sequence)
    }

    /// Returns whether no view can see `older` without `newer`.
    pub(crate) fn together(&self, older: SequenceNumber, newer: SequenceNumber) -> bool {
        self.of(older) == self.of(newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_belongs_to_the_stripe_it_ends() {
        let stripes = Stripes::new([9, 5, 5].map(SequenceNumber).to_vec());
        let of = |sequence| stripes.of(SequenceNumber(sequence));
        assert_eq!([0, 5, 6, 9, 10].map(of), [0, 0, 1, 1, 2]);
        assert_eq!(Stripes::default().of(SequenceNumber::MAX), 0);
    }
}
