//! The range tombstones of one compaction: which of them cover a row, and which pieces go on.
//!
//! Of each stripe the newest is kept over each row: an older one of the same stripe hides nothing
//! that the newer does not. So n of them, however they overlap, make O(n) pieces.

use crate::cell::{RangeTombstone, SequenceNumber};
use crate::options::Options;
use crate::request::RowRange;
use crate::semantics::range_cover::{Cover, Part, Spans};
use crate::semantics::stripes::Stripes;

static ALL_ROWS: RowRange = RowRange::ALL;

/// All range tombstones of the inputs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dropped {
    /// The stripes that have any, newest first, and the newest of each over each row.
    stripes: Vec<(usize, Cover)>,
}

/// What covers the row that was looked up last. Rows are best looked up in order.
#[derive(Debug, Default)]
pub(crate) struct Covering {
    /// Rows of which the same is true; `None` before the first.
    rows: Option<RowRange>,
    sequences: Vec<SequenceNumber>,
}

/// Bytes that a piece takes in a file, at most.
fn encoded_bytes((start, end, _): &Part<'_>) -> u64 {
    const LENGTHS_AND_NUMBER: usize = 20;
    (start.len() + end.map_or(0, <[u8]>::len) + LENGTHS_AND_NUMBER) as u64
}

fn owned((start, end, sequence): Part<'_>) -> RangeTombstone {
    RangeTombstone { start: start.to_vec(), end: end.map(<[u8]>::to_vec), sequence }
}

/// The part of `piece` that lies in `rows`, if any.
fn clipped(piece: Part<'_>, rows: &RowRange) -> Option<RangeTombstone> {
    let RangeTombstone { start, end, sequence } = owned(piece);
    let RowRange { start, end } = intersection(&RowRange { start, end }, rows)?;
    Some(RangeTombstone { start, end, sequence })
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
    /// What `tombstones` say, which come in any order and may overlap.
    pub(crate) fn new(tombstones: &[RangeTombstone], stripes: &Stripes) -> Self {
        let spans = Spans::new(tombstones.iter());
        let of = |sequence| stripes.of(sequence);
        let alike = spans.newest_first().chunk_by(|a, b| of(a.sequence) == of(b.sequence));
        let stripes = alike.map(|alike| (of(alike[0].sequence), spans.cover(alike)));
        Self { stripes: stripes.collect() }
    }

    /// Returns whether there are none.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.stripes.is_empty()
    }

    /// Number of fragments that are kept, a measure of its memory.
    #[cfg(test)]
    pub(crate) fn fragments(&self) -> usize {
        self.stripes.iter().map(|(_, cover)| cover.fragments()).sum()
    }

    /// The sequence numbers that cover `row`: the newest of each stripe, newest first. They are put
    /// into `found`, if it is not for `row` already.
    pub(crate) fn covering<'a>(&self, row: &[u8], found: &'a mut Covering) -> &'a [SequenceNumber] {
        if !found.rows.as_ref().is_some_and(|rows| rows.contains(row)) {
            let (mut start, mut end) = (None, None);
            found.sequences.clear();
            for (_, cover) in &self.stripes {
                let (from, to) = cover.around(row);
                (start, end) = (start.max(from), [end, to].into_iter().flatten().min());
                found.sequences.extend(Some(cover.newest(row)).filter(|newest| newest.0 > 0));
            }
            let (start, end) = (start.unwrap_or_default().to_vec(), end.map(<[u8]>::to_vec));
            found.rows = Some(RowRange { start, end });
        }
        &found.sequences
    }

    /// Whether tombstones of one stripe with everything numbered from `oldest` to `newest`, all
    /// newer than `newest`, cover the whole of `rows`. A file of such rows need not be read.
    pub(crate) fn hides_all(
        &self,
        rows: &RowRange,
        oldest: SequenceNumber,
        newest: SequenceNumber,
        stripes: &Stripes,
    ) -> bool {
        let stripe = self.stripes.iter().find(|(stripe, _)| *stripe == stripes.of(oldest));
        let Some((_, cover)) = stripe else { return rows.is_empty() };
        let mut reached = Some(rows.start.as_slice());
        for (start, end, sequence) in cover.over(rows) {
            if reached.is_none_or(|reached| start > reached) || sequence <= newest {
                return false;
            }
            reached = end;
        }
        reached.is_none_or(|from| rows.end.as_deref().is_some_and(|end| from >= end))
    }

    /// What a compaction must write: of tombstones that every view sees, only the parts over rows
    /// in one of `older` (the hulls of older runs that stay); the others whole.
    pub(crate) fn surviving(&self, older: &[RowRange], stripes: &Stripes) -> Self {
        let mut pieces = Vec::new();
        for (stripe, cover) in &self.stripes {
            if *stripe > 0 {
                pieces.extend(cover.over(&ALL_ROWS).map(owned));
            } else {
                let within = |hull| cover.over(hull).filter_map(|piece| clipped(piece, hull));
                pieces.extend(older.iter().flat_map(within));
            }
        }
        Self::new(&pieces, stripes)
    }

    /// Borders between which the pieces take no more than about the bytes of a file, and no more than
    /// `Shape::dropped_bytes_max`; ascending.
    pub(crate) fn cuts(&self, options: &Options) -> Vec<Vec<u8>> {
        self.cuts_by(options.sst_bytes_max.min(options.shape.dropped_bytes_max as u64))
    }

    /// The same for pieces of `bytes_max` bytes. A border lies where a piece begins, so pieces over
    /// one row stay together.
    fn cuts_by(&self, bytes_max: u64) -> Vec<Vec<u8>> {
        let mut pieces: Vec<Part<'_>> =
            self.stripes.iter().flat_map(|(_, cover)| cover.over(&ALL_ROWS)).collect();
        pieces.sort_unstable_by_key(|(start, ..)| *start);
        let (mut cuts, mut bytes) = (Vec::new(), 0);
        for begun in pieces.chunk_by(|(a, ..), (b, ..)| a == b) {
            let start = begun[0].0;
            let more: u64 = begun.iter().map(encoded_bytes).sum();
            if bytes > 0 && bytes + more > bytes_max {
                cuts.push(start.to_vec());
                bytes = self.going_on(start);
            }
            bytes += more;
        }
        cuts
    }

    /// Bytes of the pieces that begin before `row` and cover it.
    fn going_on(&self, row: &[u8]) -> u64 {
        let rows = RowRange::single(row);
        let over = self.stripes.iter().flat_map(|(_, cover)| cover.over(&rows));
        over.filter(|(start, ..)| *start < row).map(|piece| encoded_bytes(&piece)).sum()
    }

    /// The pieces over `rows`, each as long as it can be, ordered by start.
    pub(crate) fn within(&self, rows: &RowRange) -> Vec<RangeTombstone> {
        let within = |(_, cover): &(usize, Cover)| {
            cover.over(rows).filter_map(|piece| clipped(piece, rows)).collect::<Vec<_>>()
        };
        let mut pieces: Vec<RangeTombstone> = self.stripes.iter().flat_map(within).collect();
        pieces.sort_by(|a, b| a.start.cmp(&b.start));
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
            looked_up in proptest::collection::vec(0u8..9, 1..20),
        ) {
            let stripes = Stripes::new(snapshots.into_iter().map(SequenceNumber).collect());
            let dropped = Dropped::new(&all, &stripes);
            let kept = dropped.surviving(&older, &stripes);
            let pieces = kept.within(&clip);
            let (oldest, newest) = (numbers.0.min(numbers.1), numbers.0.max(numbers.1));
            let (oldest, newest) = (SequenceNumber(oldest), SequenceNumber(newest));
            let hides_all = dropped.hides_all(&rows, oldest, newest, &stripes);
            let (mut found, mut found_kept) = (Covering::default(), Covering::default());
            for byte in looked_up {
                let row = [byte];
                let covering = naive(&all, &row, &stripes);
                prop_assert_eq!(dropped.covering(&row, &mut found), &covering);
                let below = older.iter().any(|hull| hull.contains(&row));
                let mut want = covering.clone();
                want.retain(|sequence| below || stripes.of(*sequence) > 0);
                prop_assert_eq!(kept.covering(&row, &mut found_kept), &want);
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
        let dropped = Dropped::new(&all, &stripes);
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
        let dropped = Dropped::new(&ranges, &stripes);
        let hides = |start: &str, end: &str, oldest, newest| {
            let rows = RowRange { start: start.into(), end: Some(end.into()) };
            dropped.hides_all(&rows, SequenceNumber(oldest), SequenceNumber(newest), &stripes)
        };
        assert!(hides("b", "d", 11, 19));
        assert!(!hides("b", "d", 9, 19), "the snapshot sees what is at most 10");
        assert!(!hides("b", "d", 11, 20), "an entry as new as a tombstone");
        assert!(!hides("b", "g", 11, 19), "beyond the ranges");
    }

    proptest! {
        #[test]
        fn pieces_between_cuts_fit(
            all in tombstones(),
            snapshots in proptest::collection::vec(1u64..40, 0..4),
            bytes_max in 1u64..200,
        ) {
            let stripes = Stripes::new(snapshots.into_iter().map(SequenceNumber).collect());
            let dropped = Dropped::new(&all, &stripes);
            let cuts = dropped.cuts_by(bytes_max);
            prop_assert!(cuts.is_sorted_by(|a, b| a < b));
            let starts = [Vec::new()].into_iter().chain(cuts.iter().cloned());
            let ends = cuts.iter().cloned().map(Some).chain([None]);
            for (start, end) in starts.zip(ends) {
                let pieces = dropped.within(&RowRange { start, end });
                let bytes: u64 =
                    pieces.iter().map(|t| encoded_bytes(&(&t.start, t.end.as_deref(), t.sequence))).sum();
                let apart = pieces.windows(2).any(|pair| pair[0].start < pair[1].start);
                // The ends of what a cut divides may be longer than those it had.
                let slack = 2 * dropped.stripes.len() as u64;
                prop_assert!(bytes <= bytes_max + slack || !apart, "{bytes} bytes");
                prop_assert!(!pieces.is_empty() || dropped.is_empty());
            }
        }
    }

    #[test]
    fn ranges_inside_of_one_another_take_memory_for_each_once() {
        const RANGES: u64 = if cfg!(miri) { 100 } else { 20_000 };
        let key = |number: u64| number.to_be_bytes().to_vec();
        let nested = |number: u64| RangeTombstone {
            start: key(number),
            end: Some(key(9 * RANGES - number)),
            sequence: SequenceNumber(number + 1),
        };
        let all: Vec<RangeTombstone> = (0..RANGES).map(nested).collect();
        for (case, snapshots) in [
            ("none", vec![]),
            ("some", (0..9).map(|n| SequenceNumber(n * RANGES / 9)).collect()),
            ("all", (1..=RANGES).map(SequenceNumber).collect()),
        ] {
            let stripes = Stripes::new(snapshots);
            let dropped = Dropped::new(&all, &stripes);
            assert!(dropped.fragments() <= 2 * all.len(), "{case}: {}", dropped.fragments());
            let pieces = dropped.within(&RowRange::ALL);
            assert!(pieces.len() <= 2 * all.len(), "{case}: {}", pieces.len());
            let surviving = dropped.surviving(&[RowRange::ALL], &stripes);
            assert_eq!(surviving.within(&RowRange::ALL), pieces, "{case}");
        }
    }
}
