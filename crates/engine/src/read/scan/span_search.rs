//! The search for row spans: rows of one block that a scan may lend without a look at its other
//! sources.
//!
//! Invariant: the rows of a row span follow the scan's current row, in its direction, in the block of
//! the only source that stands there. No other source has a row before the last of them, all lie
//! within the scan's range, all are plain, and no dropped range covers one.

use super::scan_source::Source;
use crate::marks::Mark;
use crate::merge::merge_cursor::MergeCursor;
use crate::request::{Direction, RowRange};
use crate::semantics::dropped_ranges::DroppedAt;
use crate::semantics::row_cursor::RowCursor;
use crate::sstable::{RowSpan, WantedCells};
use crate::tree::read_parts::ReadParts;
use std::ops::Bound;

/// Searches, but seldom where the rows of several sources alternate.
#[derive(Debug)]
pub(crate) struct RowSpanSearch {
    /// Rows at most that are merged after a search in vain before the next.
    rest_max: u8,
    /// Rows of a row span that is worth being made.
    rows_min: u32,
    /// Rows to be merged until the next search.
    rest: u8,
    /// The same after the next search, should it be in vain.
    next_rest: u8,
}

impl RowSpanSearch {
    /// A search that was not made yet.
    pub(crate) fn new(parts: &ReadParts) -> Self {
        let ReadParts { row_span_rest_max: rest_max, row_span_rows_min: rows_min, .. } = *parts;
        Self { rest_max, rows_min, rest: 0, next_rest: 0 }
    }

    /// The row span that begins with the current row of `merge`, which is plain and in no dropped
    /// range, if there is one and it was searched for. The row's key is then in `key`.
    #[inline]
    pub(crate) fn find(
        &mut self,
        merge: &mut MergeCursor<Source>,
        (rows, direction): (&RowRange, Direction),
        dropped: &DroppedAt,
        wanted: &WantedCells<'_>,
        key: &mut Vec<u8>,
    ) -> Option<RowSpan> {
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        let (source, other) = merge.only_source_and_next()?;
        let run = source.as_run()?;
        let row = run.row()?;
        let limit = match direction {
            Direction::Forward => before(other, rows, dropped, row),
            Direction::Reverse => behind(other, rows, dropped, row),
        };
        let found = run.row_span(self.rows_min, direction, limit, wanted, key);
        if found.is_some() {
            Mark::RowSpanLent.hit();
        }
        let in_vain = found.is_none() && other.is_some();
        self.next_rest = if in_vain { (2 * self.next_rest + 1).min(self.rest_max) } else { 0 };
        self.rest = self.next_rest;
        found
    }
}

/// What rows of a row span that goes forward come before.
fn before<'a>(
    other: Option<&'a [u8]>,
    rows: &'a RowRange,
    dropped: &'a DroppedAt,
    row: &[u8],
) -> Bound<&'a [u8]> {
    let end = dropped.alike(row).1;
    let limit = end.into_iter().chain(rows.end.as_deref()).chain(other).min();
    limit.map_or(Bound::Unbounded, Bound::Excluded)
}

/// What rows of a row span that goes backward come after, or end with.
fn behind<'a>(
    other: Option<&'a [u8]>,
    rows: &'a RowRange,
    dropped: &'a DroppedAt,
    row: &[u8],
) -> Bound<&'a [u8]> {
    let start = dropped.alike(row).0.unwrap_or_default().max(&rows.start);
    match other {
        Some(other) if other >= start => Bound::Excluded(other),
        _ => Bound::Included(start),
    }
}
