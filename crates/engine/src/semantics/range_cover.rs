//! Overlapping row ranges, told apart by rows: which of them is the newest over each row.
//!
//! Invariants:
//! 1. Fragments ascend by start, each reaches to the start of the next, and no two neighbours have
//!    the same number. So n ranges make at most 2n fragments, however they overlap.
//! 2. A cover is built in O(n log n): each place is given a number once, by the newest range over it.

use crate::cell::{RangeTombstone, SequenceNumber};
use crate::request::RowRange;
use std::sync::Arc;

/// The newest of some ranges over every row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cover {
    fragments: Vec<Fragment>,
}

#[derive(Debug, Clone)]
struct Fragment {
    start: Arc<[u8]>,
    /// Sequence number of the newest range here; 0 for a gap.
    sequence: SequenceNumber,
}

/// A part of a cover over which one range is the newest: start, end (`None`: the end of the tree)
/// and the range's number.
pub(crate) type Part<'a> = (&'a [u8], Option<&'a [u8]>, SequenceNumber);

/// Ranges by the places of their ends among all ends, newest first.
pub(crate) struct Spans {
    borders: Vec<Arc<[u8]>>,
    spans: Vec<Span>,
}

/// From the border at `start` to before the one at `end`; without an end, as many as there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    start: usize,
    end: usize,
    pub(crate) sequence: SequenceNumber,
}

impl Spans {
    /// Those of `tombstones`, which may come in any order, overlap, repeat and be empty.
    pub(crate) fn new<'a>(tombstones: impl Iterator<Item = &'a RangeTombstone>) -> Self {
        let some = |t: &&RangeTombstone| t.end.as_ref().is_none_or(|end| *end > t.start);
        let tombstones: Vec<&RangeTombstone> = tombstones.filter(some).collect();
        let mut borders: Vec<&[u8]> = tombstones.iter().map(|t| t.start.as_slice()).collect();
        borders.extend(tombstones.iter().filter_map(|t| t.end.as_deref()));
        borders.sort_unstable();
        borders.dedup();
        let place = |key: &[u8]| borders.partition_point(|border| *border < key);
        let span = |t: &&RangeTombstone| Span {
            start: place(&t.start),
            end: t.end.as_deref().map_or(borders.len(), place),
            sequence: t.sequence,
        };
        let mut spans: Vec<Span> = tombstones.iter().map(span).collect();
        spans.sort_unstable_by_key(|span| std::cmp::Reverse(span.sequence));
        Self { borders: borders.into_iter().map(Arc::from).collect(), spans }
    }

    pub(crate) fn newest_first(&self) -> &[Span] {
        &self.spans
    }

    /// The cover of `spans`, which are some of these, newest first.
    pub(crate) fn cover(&self, spans: &[Span]) -> Cover {
        let mut cuts: Vec<usize> = spans.iter().flat_map(|span| [span.start, span.end]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let place = |border: usize| cuts.partition_point(|cut| *cut < border);
        let mut numbers = vec![SequenceNumber(0); cuts.len()];
        // The first place without a number that is not before a place is found by following these.
        let mut next: Vec<usize> = (0..=cuts.len()).collect();
        for span in spans {
            let end = place(span.end);
            let mut at = first_free(&mut next, place(span.start));
            while at < end {
                numbers[at] = span.sequence;
                next[at] = at + 1;
                at = first_free(&mut next, at + 1);
            }
        }
        let mut fragments: Vec<Fragment> = Vec::new();
        let mut before = SequenceNumber(0);
        for (cut, sequence) in cuts.iter().zip(numbers) {
            if let Some(start) = self.borders.get(*cut).filter(|_| sequence != before) {
                fragments.push(Fragment { start: Arc::clone(start), sequence });
            }
            before = sequence;
        }
        fragments.shrink_to_fit();
        Cover { fragments }
    }
}

/// The first of `at` and the places behind it that leads to itself. What is followed is shortened.
fn first_free(next: &mut [usize], mut at: usize) -> usize {
    while next[at] != at {
        next[at] = next[next[at]];
        at = next[at];
    }
    at
}

impl Cover {
    /// Number of the newest range over `row`; 0 if there is none.
    pub(crate) fn newest(&self, row: &[u8]) -> SequenceNumber {
        let at = self.behind(row).checked_sub(1).and_then(|at| self.fragments.get(at));
        at.map_or(SequenceNumber(0), |fragment| fragment.sequence)
    }

    /// Rows around `row`, from the first bound (`None`: from the first row of all) to before the
    /// second (`None`: to the last), of which `newest` gives the same.
    pub(crate) fn around(&self, row: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
        let behind = self.behind(row);
        let start = |at: usize| self.fragments.get(at).map(|fragment| &*fragment.start);
        (behind.checked_sub(1).and_then(start), start(behind))
    }

    /// The parts of which some row may lie in `rows`, in order, not clipped.
    pub(crate) fn over<'a>(&'a self, rows: &'a RowRange) -> impl Iterator<Item = Part<'a>> {
        let first = self.behind(&rows.start).saturating_sub(1);
        let parts = (first..self.fragments.len()).map(|at| {
            let Fragment { start, sequence } = &self.fragments[at];
            let end = self.fragments.get(at + 1).map(|next| &*next.start);
            (&**start, end, *sequence)
        });
        let reaches = |end: Option<&[u8]>| end.is_none_or(|end| rows.start.as_slice() < end);
        let parts = parts.filter(move |(_, end, number)| number.0 > 0 && reaches(*end));
        parts.take_while(|(start, ..)| rows.end.as_deref().is_none_or(|end| *start < end))
    }

    /// Number of fragments, gaps between ranges included.
    pub(crate) fn fragments(&self) -> usize {
        self.fragments.len()
    }

    /// Bytes of memory it takes, with keys that other covers of the same spans share.
    pub(crate) fn memory_bytes(&self) -> usize {
        // A shared key has two counts before it.
        const COUNTS: usize = 2 * size_of::<usize>();
        let keys: usize = self.fragments.iter().map(|fragment| fragment.start.len()).sum();
        keys + self.fragments.len() * (size_of::<Fragment>() + COUNTS)
    }

    fn behind(&self, row: &[u8]) -> usize {
        self.fragments.partition_point(|fragment| &*fragment.start <= row)
    }
}
