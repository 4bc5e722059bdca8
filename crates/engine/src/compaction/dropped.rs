//! The range tombstones of one compaction: which of them cover a row, and which pieces go on.
//!
//! They are kept as fragments: disjoint ranges in order, each with the sequence numbers that
//! cover the whole of it, the newest of each stripe (an older one of the same stripe hides
//! nothing that the newer does not).

use super::stripes::Stripes;
use crate::cell::{RangeTombstone, SequenceNumber};
use crate::request::RowRange;

/// All range tombstones of the inputs.
#[derive(Debug, Clone, Default)]
pub struct Dropped {
    fragments: Vec<Fragment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Fragment {
    rows: RowRange,
    /// Newest first, at most one a stripe.
    sequences: Vec<SequenceNumber>,
}

/// The part of `a` that lies in `b`, if any.
fn intersection(a: &RowRange, b: &RowRange) -> Option<RowRange> {
    let end = match (&a.end, &b.end) {
        (Some(a), Some(b)) => Some(a.min(b).clone()),
        (end, None) | (None, end) => end.clone(),
    };
    let both = RowRange { start: (&a.start).max(&b.start).clone(), end };
    (!both.is_empty()).then_some(both)
}

impl Dropped {
    /// Fragments of `tombstones`, which come in any order and may overlap.
    pub fn new(mut tombstones: Vec<RangeTombstone>, stripes: &Stripes) -> Self {
        tombstones.retain(|t| t.end.as_ref().is_none_or(|end| *end > t.start));
        tombstones.sort_by(|a, b| a.start.cmp(&b.start));
        let mut borders: Vec<&[u8]> = tombstones.iter().map(|t| t.start.as_slice()).collect();
        borders.extend(tombstones.iter().filter_map(|t| t.end.as_deref()));
        borders.sort_unstable();
        borders.dedup();
        let mut fragments = Vec::with_capacity(borders.len());
        let mut active: Vec<&RangeTombstone> = Vec::new();
        let mut waiting = tombstones.iter().peekable();
        for (index, start) in borders.iter().enumerate() {
            active.retain(|t| t.end.as_deref().is_none_or(|end| end > *start));
            while let Some(next) = waiting.next_if(|t| t.start.as_slice() == *start) {
                active.push(next);
            }
            let mut sequences: Vec<SequenceNumber> = active.iter().map(|t| t.sequence).collect();
            sequences.sort_unstable_by(|a, b| b.cmp(a));
            sequences.dedup_by_key(|sequence| stripes.of(*sequence));
            if !sequences.is_empty() {
                let end = borders.get(index + 1).map(|end| end.to_vec());
                fragments
                    .push(Fragment { rows: RowRange { start: start.to_vec(), end }, sequences });
            }
        }
        Self { fragments }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The sequence numbers that cover `row`: the newest of each stripe, newest first.
    pub fn covering(&self, row: &[u8]) -> &[SequenceNumber] {
        let after = self.fragments.partition_point(|f| f.rows.start.as_slice() <= row);
        match after.checked_sub(1).map(|at| &self.fragments[at]) {
            Some(fragment) if fragment.rows.contains(row) => &fragment.sequences,
            _ => &[],
        }
    }

    /// Whether tombstones of one stripe with everything numbered from `oldest` to `newest`, all
    /// newer than `newest`, cover the whole of `rows`. A file of such rows need not be read.
    pub fn hides_all(
        &self,
        rows: &RowRange,
        oldest: SequenceNumber,
        newest: SequenceNumber,
        stripes: &Stripes,
    ) -> bool {
        let hidden = |fragment: &Fragment| {
            let newest_of_stripe =
                fragment.sequences.iter().find(|sequence| stripes.together(oldest, **sequence));
            newest_of_stripe.is_some_and(|sequence| *sequence > newest)
        };
        let mut reached = Some(rows.start.as_slice());
        let after = self.fragments.partition_point(|f| f.rows.start <= rows.start);
        for fragment in &self.fragments[after.saturating_sub(1)..] {
            let Some(from) = reached else { return true };
            if rows.end.as_deref().is_some_and(|end| from >= end) {
                return true;
            }
            if !fragment.rows.contains(from) || !hidden(fragment) {
                return false;
            }
            reached = fragment.rows.end.as_deref();
        }
        reached.is_none_or(|from| rows.end.as_deref().is_some_and(|end| from >= end))
    }

    /// What a compaction must write: of tombstones that every view sees, only the parts over rows
    /// in one of `older` (the hulls of older runs that stay); the others whole.
    pub fn surviving(&self, older: &[RowRange], stripes: &Stripes) -> Self {
        let mut pieces = Vec::new();
        for fragment in &self.fragments {
            for &sequence in &fragment.sequences {
                let mut keep = |rows: RowRange| {
                    let RowRange { start, end } = rows;
                    pieces.push(RangeTombstone { start, end, sequence });
                };
                if stripes.of(sequence) > 0 {
                    keep(fragment.rows.clone());
                } else {
                    older
                        .iter()
                        .filter_map(|hull| intersection(&fragment.rows, hull))
                        .for_each(keep);
                }
            }
        }
        Self::new(pieces, stripes)
    }

    /// The pieces over `rows`, each as long as it can be, ordered by start.
    pub fn within(&self, rows: &RowRange) -> Vec<RangeTombstone> {
        let mut pieces: Vec<RangeTombstone> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        for fragment in &self.fragments {
            let Some(RowRange { start, end }) = intersection(&fragment.rows, rows) else {
                continue;
            };
            open.retain(|at| pieces[*at].end.as_ref() == Some(&start));
            let mut still_open = Vec::with_capacity(fragment.sequences.len());
            for &sequence in &fragment.sequences {
                let continued = open.iter().copied().find(|at| pieces[*at].sequence == sequence);
                let at = continued.unwrap_or_else(|| {
                    let start = start.clone();
                    pieces.push(RangeTombstone { start, end: None, sequence });
                    pieces.len() - 1
                });
                pieces[at].end.clone_from(&end);
                still_open.push(at);
            }
            open = still_open;
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range() -> impl Strategy<Value = RowRange> {
        (0u8..8, proptest::option::of(0u8..9))
            .prop_map(|(start, end)| RowRange { start: vec![start], end: end.map(|end| vec![end]) })
    }

    fn tombstones() -> impl Strategy<Value = Vec<RangeTombstone>> {
        proptest::collection::vec((range(), 1u64..40), 0..8).prop_map(|all| {
            let tombstone = |(RowRange { start, end }, sequence)| RangeTombstone {
                start,
                end,
                sequence: SequenceNumber(sequence),
            };
            all.into_iter().map(tombstone).collect()
        })
    }

    /// The newest covering sequence number of each stripe, by looking at every tombstone.
    fn naive(all: &[RangeTombstone], row: &[u8], stripes: &Stripes) -> Vec<SequenceNumber> {
        let covering = all.iter().filter(|t| t.covers(row));
        let mut found: Vec<SequenceNumber> = covering.map(|t| t.sequence).collect();
        found.sort_by(|a, b| b.cmp(a));
        found.dedup_by_key(|sequence| stripes.of(*sequence));
        found
    }

    proptest! {
        #[test]
        fn fragments_say_what_the_tombstones_say(
            all in tombstones(),
            snapshots in proptest::collection::vec(1u64..40, 0..4),
            older in proptest::collection::vec(range(), 0..3),
            clip in range(),
            rows in range(),
            numbers in (0u64..40, 0u64..40),
        ) {
            let stripes = Stripes::new(snapshots.into_iter().map(SequenceNumber).collect());
            let dropped = Dropped::new(all.clone(), &stripes);
            let kept = dropped.surviving(&older, &stripes);
            let pieces = kept.within(&clip);
            let (oldest, newest) = (numbers.0.min(numbers.1), numbers.0.max(numbers.1));
            let (oldest, newest) = (SequenceNumber(oldest), SequenceNumber(newest));
            let hides_all = dropped.hides_all(&rows, oldest, newest, &stripes);
            for byte in 0u8..9 {
                let row = [byte];
                let covering = naive(&all, &row, &stripes);
                prop_assert_eq!(dropped.covering(&row), &covering);
                let below = older.iter().any(|hull| hull.contains(&row));
                let mut want = covering.clone();
                want.retain(|sequence| below || stripes.of(*sequence) > 0);
                prop_assert_eq!(kept.covering(&row), &want);
                want.retain(|_| clip.contains(&row));
                prop_assert_eq!(naive(&pieces, &row, &stripes), want);
                if rows.contains(&row) && hides_all {
                    let hidden = covering
                        .iter()
                        .any(|q| *q > newest && stripes.of(*q) == stripes.of(oldest));
                    prop_assert!(hidden);
                }
            }
        }
    }

    #[test]
    fn pieces_are_whole_again_where_nothing_cuts_them() {
        let tombstone = |start: &[u8], end: &[u8], sequence| RangeTombstone {
            start: start.to_vec(),
            end: Some(end.to_vec()),
            sequence: SequenceNumber(sequence),
        };
        let all =
            vec![tombstone(b"a", b"z", 9), tombstone(b"c", b"e", 5), tombstone(b"f", b"g", 7)];
        let stripes = Stripes::new(vec![SequenceNumber(6)]);
        let dropped = Dropped::new(all, &stripes);
        let whole = vec![tombstone(b"a", b"z", 9), tombstone(b"c", b"e", 5)];
        assert_eq!(dropped.within(&RowRange::ALL), whole);
        let RangeTombstone { start, end, .. } = tombstone(b"b", b"d", 0);
        let cut = vec![tombstone(b"b", b"d", 9), tombstone(b"c", b"d", 5)];
        assert_eq!(dropped.within(&RowRange { start, end }), cut);
    }

    #[test]
    fn a_file_wholly_dropped_is_known() {
        let stripes = Stripes::new(vec![SequenceNumber(10)]);
        let ranges = [("a", "c", 20), ("c", "f", 21)].map(|(start, end, sequence)| {
            let (start, end) = (start.into(), Some(end.into()));
            RangeTombstone { start, end, sequence: SequenceNumber(sequence) }
        });
        let dropped = Dropped::new(ranges.to_vec(), &stripes);
        let hides = |start: &str, end: &str, oldest, newest| {
            let rows = RowRange { start: start.into(), end: Some(end.into()) };
            dropped.hides_all(&rows, SequenceNumber(oldest), SequenceNumber(newest), &stripes)
        };
        assert!(hides("b", "d", 11, 19));
        assert!(!hides("b", "d", 9, 19), "the snapshot sees what is at most 10");
        assert!(!hides("b", "d", 11, 20), "an entry as new as a tombstone");
        assert!(!hides("b", "g", 11, 19), "beyond the ranges");
    }
}
