//! Row ranges that were dropped, and the sequence numbers of the drops.
//!
//! Invariants:
//! 1. Of ranges that lie over one another only the newest is kept that some reader sees: the newest
//!    of all, and of each stripe between the snapshots that were known when the index was made. So
//!    n ranges take memory for O(n) fragments, and a reader that sees all of them looks a row up by
//!    one binary search, however many ranges were ever dropped.
//! 2. An index knows the readers that it can tell the truth (`exact_at`): those that see all of its
//!    ranges, none, or whole stripes of them. For another one is made.

use super::range_cover::{Cover, Spans};
use crate::cell::{RangeTombstone, SequenceNumber};
use crate::request::RowRange;
use crate::semantics::stripes::Stripes;
use std::sync::Arc;

/// An index over range tombstones.
#[derive(Debug, Clone, Default)]
pub struct DroppedRanges {
    /// Smallest number and largest; both 0 without any ranges.
    oldest: SequenceNumber,
    newest: SequenceNumber,
    /// The newest range over each row.
    all: Cover,
    /// The same of the ranges that the snapshots told apart, newest first. Empty if there is one
    /// stripe: then it is `all`.
    stripes: Vec<Stripe>,
}

#[derive(Debug, Clone)]
struct Stripe {
    oldest: SequenceNumber,
    newest: SequenceNumber,
    cover: Cover,
}

impl DroppedRanges {
    /// Indexes `tombstones`, which may come in any order, overlap and repeat, for readers at
    /// `snapshots` and for all that see every range or none.
    pub fn new<'a>(
        tombstones: impl Iterator<Item = &'a RangeTombstone>,
        snapshots: Vec<SequenceNumber>,
    ) -> Self {
        let spans = Spans::new(tombstones);
        let all = spans.newest_first();
        let (Some(newest), Some(oldest)) = (all.first(), all.last()) else {
            return Self::default();
        };
        let together = Stripes::new(snapshots);
        let stripes = all.chunk_by(|a, b| together.together(a.sequence, b.sequence));
        let stripes = stripes.filter(|stripe| stripe.len() < all.len()).map(|stripe| Stripe {
            oldest: stripe[stripe.len() - 1].sequence,
            newest: stripe[0].sequence,
            cover: spans.cover(stripe),
        });
        Self {
            oldest: oldest.sequence,
            newest: newest.sequence,
            stripes: stripes.collect(),
            all: spans.cover(all),
        }
    }

    /// Number of fragments that are kept, a measure of its memory.
    pub fn fragments(&self) -> usize {
        let of_stripes: usize = self.stripes.iter().map(|stripe| stripe.cover.fragments()).sum();
        self.all.fragments() + of_stripes
    }

    /// Bytes of memory it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_stripe = |stripe: &Stripe| size_of::<Stripe>() + stripe.cover.memory_bytes();
        self.all.memory_bytes() + self.stripes.iter().map(of_stripe).sum::<usize>()
    }

    /// Returns whether no range was dropped.
    pub fn is_empty(&self) -> bool {
        self.all.fragments() == 0
    }

    /// Returns whether `newest` and `alike` are right for a reader at `snapshot` (invariant 2).
    pub fn exact_at(&self, snapshot: SequenceNumber) -> bool {
        let whole = |oldest, newest| snapshot >= newest || snapshot < oldest;
        let stripe = |stripe: &Stripe| whole(stripe.oldest, stripe.newest);
        whole(self.oldest, self.newest)
            || !self.stripes.is_empty() && self.stripes.iter().all(stripe)
    }

    /// Returns whether a range may cover `row` for a reader at `snapshot`, whatever that is. `false` is
    /// certain.
    #[inline]
    pub fn may_cover(&self, row: &[u8], snapshot: SequenceNumber) -> bool {
        snapshot >= self.oldest && self.all.newest(row) > SequenceNumber(0)
    }

    /// Returns whether a range covers one of `rows`.
    pub fn covers_any_of(&self, rows: &RowRange) -> bool {
        self.all.over(rows).next().is_some()
    }

    /// Sequence number of the newest tombstone that covers `row` and that a reader at `snapshot`
    /// sees; 0 if there is none. Cells of the row with a smaller number are hidden.
    pub fn newest(&self, row: &[u8], snapshot: SequenceNumber) -> SequenceNumber {
        debug_assert!(self.exact_at(snapshot), "an index made for other snapshots");
        let covers = self.covers(snapshot).map(|cover| cover.newest(row));
        covers.into_iter().find(|newest| newest.0 > 0).unwrap_or_default()
    }

    /// Rows around `row`, from the first bound (`None`: from the first row of all) to before the
    /// second (`None`: to the last), for each of which `newest` gives the same as for `row`.
    pub fn alike(&self, row: &[u8], snapshot: SequenceNumber) -> (Option<&[u8]>, Option<&[u8]>) {
        narrowest(self.covers(snapshot).map(|cover| cover.around(row)))
    }

    /// Returns the ranges that a reader at `snapshot` sees, newest first.
    fn covers(&self, snapshot: SequenceNumber) -> impl Iterator<Item = &Cover> {
        let all = (snapshot >= self.newest).then_some(&self.all);
        let stripes = if all.is_some() { &[] } else { self.stripes.as_slice() };
        let seen = stripes.iter().filter(move |stripe| stripe.oldest <= snapshot);
        all.into_iter().chain(seen.map(|stripe| &stripe.cover))
    }
}

/// Ranges that one reader sees: indexes of ranges, at its snapshot.
#[derive(Debug, Default)]
pub(crate) struct DroppedAt {
    ranges: Vec<Arc<DroppedRanges>>,
    snapshot: SequenceNumber,
}

impl DroppedAt {
    /// Those of `ranges`, all of which are exact at `snapshot`.
    pub(crate) fn new(mut ranges: Vec<Arc<DroppedRanges>>, snapshot: SequenceNumber) -> Self {
        ranges.retain(|ranges| !ranges.is_empty());
        Self { ranges, snapshot }
    }

    /// Sequence number of the newest tombstone over `row`; 0 if there is none.
    #[inline]
    pub(crate) fn newest(&self, row: &[u8]) -> SequenceNumber {
        let newest = self.ranges.iter().map(|ranges| ranges.newest(row, self.snapshot));
        newest.max().unwrap_or_default()
    }

    /// The largest first row, and the least row behind, of `DroppedRanges::alike`.
    pub(crate) fn alike(&self, row: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
        narrowest(self.ranges.iter().map(|ranges| ranges.alike(row, self.snapshot)))
    }
}

type Bounds<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Returns the intersection of `bounds`, which all contain one row.
fn narrowest<'a>(bounds: impl Iterator<Item = Bounds<'a>>) -> Bounds<'a> {
    bounds.fold((None, None), |(start, end), (from, to)| {
        (start.max(from), [end, to].into_iter().flatten().min())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(start: &[u8], end: Option<&[u8]>, sequence: u64) -> RangeTombstone {
        let end = end.map(<[u8]>::to_vec);
        RangeTombstone { start: start.to_vec(), end, sequence: SequenceNumber(sequence) }
    }

    fn numbers(numbers: &[u64]) -> Vec<SequenceNumber> {
        numbers.iter().map(|number| SequenceNumber(*number)).collect()
    }

    fn ranges() -> impl Strategy<Value = Vec<RangeTombstone>> {
        let one =
            (0u8..9, proptest::option::of(0u8..9), 1u64..20).prop_map(|(start, len, number)| {
                range(&[start], len.map(|len| vec![start.saturating_add(len)]).as_deref(), number)
            });
        proptest::collection::vec(one, 0..8)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_index_agrees_with_looking_at_every_tombstone(
            ranges in ranges(),
            snapshots in proptest::collection::vec(0u64..22, 0..4),
            row in proptest::collection::vec(0u8..10, 0..3),
        ) {
            let index = DroppedRanges::new(ranges.iter(), numbers(&snapshots));
            let exact = |at: &u64| index.exact_at(SequenceNumber(*at));
            prop_assert!(snapshots.iter().chain(&[0, 19, 30]).all(exact));
            for snapshot in (0..22).filter(exact) {
                let snapshot = SequenceNumber(snapshot);
                let newest = |row: &[u8]| -> SequenceNumber {
                    let seen = |range: &&RangeTombstone| range.covers(row) && range.sequence <= snapshot;
                    ranges.iter().filter(seen).map(|range| range.sequence).max().unwrap_or_default()
                };
                let want = newest(&row);
                prop_assert_eq!(index.newest(&row, snapshot), want);
                prop_assert!(want.0 == 0 || index.may_cover(&row, snapshot));
                let (start, end) = index.alike(&row, snapshot);
                for other in 0u8..20 {
                    let other = [other];
                    let around = start.is_none_or(|start| start <= &other[..])
                        && end.is_none_or(|end| &other[..] < end);
                    prop_assert!(!around || newest(&other) == want);
                }
            }
            for snapshot in (0..22).filter(|at| !exact(at)) {
                let seen = |range: &RangeTombstone| range.covers(&row) && range.sequence.0 <= snapshot;
                let any = ranges.iter().any(seen);
                prop_assert!(!any || index.may_cover(&row, SequenceNumber(snapshot)));
            }
        }
    }

    #[test]
    fn ranges_inside_of_one_another_take_memory_for_each_once() {
        const RANGES: u64 = if cfg!(miri) { 100 } else { 20_000 };
        let key = |number: u64| number.to_be_bytes();
        let nested = |number: u64| range(&key(number), Some(&key(9 * RANGES - number)), number + 1);
        let ranges: Vec<RangeTombstone> = (0..RANGES).map(nested).collect();
        for (case, snapshots) in [
            ("now", vec![]),
            ("some", (0..9).map(|n| SequenceNumber(n * RANGES / 9)).collect()),
            ("all", (1..=RANGES).map(SequenceNumber).collect()),
        ] {
            let index = DroppedRanges::new(ranges.iter(), snapshots);
            assert!(index.fragments() <= 4 * RANGES as usize, "{case}: {}", index.fragments());
            assert_eq!(index.newest(&key(4 * RANGES), SequenceNumber::MAX).0, RANGES, "{case}");
        }
    }
}
