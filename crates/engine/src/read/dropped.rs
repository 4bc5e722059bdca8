//! Which rows lie in dropped ranges, and since when.
//!
//! The range tombstones of a view are cut at each other's ends into fragments, so that a row is
//! looked up by one binary search however many ranges were ever dropped.

use crate::cell::{RangeTombstone, SequenceNumber};
use std::collections::BTreeMap;

/// An index over range tombstones.
#[derive(Debug, Clone, Default)]
pub struct DroppedRanges {
    /// Sorted by start; each fragment reaches to the start of the next. The sequence numbers of
    /// the tombstones that cover it, descending; none for a gap.
    fragments: Vec<(Vec<u8>, Vec<SequenceNumber>)>,
}

impl DroppedRanges {
    /// Indexes `tombstones`, which may come in any order, overlap and repeat.
    pub fn new<'a>(tombstones: impl Iterator<Item = &'a RangeTombstone> + Clone) -> Self {
        let mut fragments: BTreeMap<&[u8], Vec<SequenceNumber>> = BTreeMap::new();
        for tombstone in tombstones.clone() {
            fragments.entry(&tombstone.start).or_default();
            if let Some(end) = &tombstone.end {
                fragments.entry(end).or_default();
            }
        }
        for tombstone in tombstones {
            for (start, covering) in fragments.range_mut(tombstone.start.as_slice()..) {
                if tombstone.end.as_deref().is_some_and(|end| *start >= end) {
                    break;
                }
                covering.push(tombstone.sequence);
            }
        }
        let fragments = fragments.into_iter().map(|(start, mut covering)| {
            covering.sort_unstable_by(|a, b| b.cmp(a));
            covering.dedup();
            (start.to_vec(), covering)
        });
        Self { fragments: fragments.collect() }
    }

    /// Bytes of memory it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of = |(start, covering): &(Vec<u8>, Vec<SequenceNumber>)| {
            start.len() + size_of_val(start) + size_of_val(covering) + size_of_val(&**covering)
        };
        self.fragments.iter().map(of).sum()
    }

    /// Whether no range was dropped.
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Sequence number of the newest tombstone that covers `row` and that a reader at `snapshot`
    /// sees; 0 if there is none. Cells of the row with a smaller number are hidden.
    pub fn newest(&self, row: &[u8], snapshot: SequenceNumber) -> SequenceNumber {
        let around = self.behind(row).checked_sub(1).and_then(|at| self.fragments.get(at));
        let Some((_, covering)) = around else { return SequenceNumber::default() };
        let visible = covering.partition_point(|sequence| *sequence > snapshot);
        covering.get(visible).copied().unwrap_or_default()
    }

    /// Rows around `row`, from the first bound (`None`: from the first row of all) to before the
    /// second (`None`: to the last), for each of which `newest` gives the same as for `row`.
    pub fn alike(&self, row: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
        let behind = self.behind(row);
        let start = |at: usize| self.fragments.get(at).map(|(start, _)| start.as_slice());
        (behind.checked_sub(1).and_then(start), start(behind))
    }

    /// The number of fragments that start at `row` or before it.
    fn behind(&self, row: &[u8]) -> usize {
        self.fragments.partition_point(|(start, _)| start.as_slice() <= row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_index_agrees_with_looking_at_every_tombstone(
            ranges in proptest::collection::vec((0u8..9, proptest::option::of(1u8..9), 1u64..20), 0..8),
            row in proptest::collection::vec(0u8..9, 0..3),
            snapshot in 0u64..22,
        ) {
            let ranges: Vec<RangeTombstone> = ranges
                .into_iter()
                .map(|(start, len, sequence)| RangeTombstone {
                    start: vec![start],
                    end: len.map(|len| vec![start.saturating_add(len)]),
                    sequence: SequenceNumber(sequence),
                })
                .collect();
            let snapshot = SequenceNumber(snapshot);
            let want = ranges
                .iter()
                .filter(|range| range.covers(&row) && range.sequence <= snapshot)
                .map(|range| range.sequence)
                .max();
            let index = DroppedRanges::new(ranges.iter());
            prop_assert_eq!(index.newest(&row, snapshot), want.unwrap_or_default());
        }
    }
}
