//! The part of a segment that a scan reads: its rows that may pass the filters, and the pages that have them.
//!
//! 1. Pages of a column lie at other rows than pages of another, so batches go by rows.
//! 2. A batch needs at most [`PAGES_MAX`] full pages of a column, or one page with a single long value.

use std::ops::Range;

use columnar::SegmentDescriptor;
use datafusion::common::ScalarValue;
use relational::{DataType, Error, Result};

use super::super::stored_type;
use super::zones::{Zone, kept};

/// Most rows of a batch.
const BATCH_ROWS: u32 = 8_192;
/// Most pages of a column that a batch needs; a page of one row, which may be long, counts as so many.
const PAGES_MAX: u32 = 8;

/// A column that a scan returns.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The number of the column in its table.
    pub(super) number: u32,
    /// The type of its values.
    pub(super) data_type: DataType,
    /// The value of all rows in segments that do not have the column.
    pub(super) missing: ScalarValue,
}

/// A segment that is to be read.
#[derive(Debug)]
pub(super) struct Part {
    /// The number of the segment in its table.
    pub(super) number: u64,
    /// Rows that may pass the filters, in ascending order.
    kept: Vec<Range<u32>>,
    /// For each wanted column the rows at which its pages end; nothing if the segment does not have it.
    ends: Vec<Option<Box<[u32]>>>,
}

impl Part {
    /// Returns the part of a segment that may pass the filters; nothing if no row does. XX001 if the segment does
    /// not fit its table.
    pub(super) fn of(
        number: u64,
        segment: &SegmentDescriptor,
        wanted: &[Wanted],
        zones: &[Zone],
    ) -> Result<Option<Self>> {
        let kept = kept(zones, segment);
        if kept.is_empty() {
            return Ok(None);
        }
        let ends = wanted.iter().map(|column| ends(segment, column)).collect::<Result<_>>()?;
        Ok(Some(Self { number, kept, ends }))
    }

    /// Returns the number of rows that are read.
    pub(super) fn rows(&self) -> u64 {
        self.kept.iter().map(|rows| u64::from(rows.end - rows.start)).sum()
    }

    /// Returns the number of pages that are read.
    pub(super) fn pages(&self) -> usize {
        let is_read = |page: &Range<u32>| {
            self.kept.iter().any(|rows| rows.start < page.end && page.start < rows.end)
        };
        let read = |ends: &[u32]| {
            (0..ends.len()).filter_map(|at| page_rows(ends, at)).filter(is_read).count()
        };
        self.ends.iter().flatten().map(|ends| read(ends)).sum()
    }

    /// Returns the rows at which the pages of a wanted column end, by its place; nothing if the segment does not
    /// have it.
    pub(super) fn ends(&self, at: usize) -> Option<&[u32]> {
        self.ends.get(at)?.as_deref()
    }

    /// Returns the rows of the next batch, from a row on; nothing at the end.
    pub(super) fn batch(&self, row: u32) -> Option<Range<u32>> {
        let rows = self.kept.iter().find(|rows| rows.end > row)?;
        let start = rows.start.max(row);
        let end = rows.end.min(start.saturating_add(BATCH_ROWS));
        let columns = self.ends.iter().flatten();
        Some(start..columns.fold(end, |end, ends| end.min(reach(ends, start))))
    }
}

/// Returns the rows at which the pages of a column end.
fn ends(segment: &SegmentDescriptor, wanted: &Wanted) -> Result<Option<Box<[u32]>>> {
    let Some(column) = segment.column(wanted.number) else { return Ok(None) };
    let (number, found) = (wanted.number, column.column_type);
    if found != stored_type(&wanted.data_type)? {
        let text = format!("column {number} has values of {found:?}, not of {}", wanted.data_type);
        return Err(Error::corrupted(text));
    }
    let pages = column.pages_with_first_row();
    let ends: Box<[u32]> = pages.map(|(first, page)| first.saturating_add(page.rows)).collect();
    if ends.last() != Some(&segment.rows) {
        let text = format!("pages of column {number} do not have the rows of the segment");
        return Err(Error::corrupted(text));
    }
    Ok(Some(ends))
}

/// Returns the place of the page that has a row.
pub(super) fn page_of(ends: &[u32], row: u32) -> usize {
    ends.partition_point(|end| *end <= row)
}

/// Returns the rows of a page; nothing behind the last one.
pub(super) fn page_rows(ends: &[u32], at: usize) -> Option<Range<u32>> {
    let start = match at.checked_sub(1) {
        Some(before) => *ends.get(before)?,
        None => 0,
    };
    Some(start..*ends.get(at)?)
}

/// Returns the row at which a batch ends that begins at `row`, by the pages of one column.
fn reach(ends: &[u32], row: u32) -> u32 {
    let (mut weight, mut reached) = (0, row);
    for page in (page_of(ends, row)..).map_while(|at| page_rows(ends, at)) {
        weight += if page.end - page.start == 1 { PAGES_MAX } else { 1 };
        if weight > PAGES_MAX && reached > row {
            break;
        }
        reached = page.end;
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kept: &[(u32, u32)], ends: &[&[u32]]) -> Part {
        let kept = kept.iter().map(|(start, end)| *start..*end).collect();
        let ends = ends.iter().map(|ends| Some((*ends).into())).collect();
        Part { number: 1, kept, ends }
    }

    /// Returns the rows of all batches of a part.
    fn batches(part: &Part) -> Vec<(u32, u32)> {
        let mut row = 0;
        let next = || {
            let rows = part.batch(row)?;
            row = rows.end;
            Some((rows.start, rows.end))
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn batches_have_the_kept_rows() {
        let whole = part(&[(0, 20_000)], &[&[20_000]]);
        assert_eq!(batches(&whole), [(0, 8_192), (8_192, 16_384), (16_384, 20_000)]);
        let few = part(&[(5, 7), (9_000, 9_001)], &[&[6, 20_000]]);
        assert_eq!(batches(&few), [(5, 7), (9_000, 9_001)]);
        assert_eq!((few.rows(), few.pages()), (3, 2));
        let without_columns = part(&[(0, 10)], &[]);
        assert_eq!(batches(&without_columns), [(0, 10)]);
    }

    #[test]
    fn batches_end_before_they_need_too_many_pages() {
        let short: Vec<u32> = (1..=20).map(|page| page * 100).collect();
        assert_eq!(
            batches(&part(&[(0, 2_000)], &[&short])),
            [(0, 800), (800, 1_600), (1_600, 2_000)]
        );
        assert_eq!(batches(&part(&[(0, 3)], &[&[1, 2, 3]])), [(0, 1), (1, 2), (2, 3)]);
        assert_eq!(batches(&part(&[(0, 12)], &[&[10, 11, 12]])), [(0, 10), (10, 11), (11, 12)]);
    }

    #[test]
    fn pages_have_their_rows() {
        let ends = [10, 11, 30];
        assert_eq!([0, 9, 10, 11, 29].map(|row| page_of(&ends, row)), [0, 0, 1, 2, 2]);
        assert_eq!(page_rows(&ends, 0), Some(0..10));
        assert_eq!(page_rows(&ends, 2), Some(11..30));
        assert_eq!(page_rows(&ends, 3), None);
    }
}
