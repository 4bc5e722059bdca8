//! From arrays to the pages of a segment.

use crate::page::{encode_prepared, plain_page_bytes};
use crate::values::{Values, prepare};
use crate::{
    BODY_BYTES_MAX, COLUMNS_MAX, ColumnDescriptor, DistinctSketch, Error, PageOptions, ROWS_MAX,
    SegmentDescriptor,
};
use arrow_array::ArrayRef;
use std::ops::Range;

/// Most rows of a page that [`encode_segment`] makes, though the format has longer ones. A reader hands over as many
/// rows at once, so what waits for others keeps no more of a page alive than it has.
const PAGE_ROWS: usize = 8_192;

/// A segment that was encoded.
#[derive(Debug, Clone)]
pub struct EncodedSegment {
    /// Descriptor of the segment, not encoded.
    pub descriptor: SegmentDescriptor,
    /// Pages of each column, in the order of the descriptor.
    pub pages: Vec<Vec<Vec<u8>>>,
}

/// Returns columns as pages and a descriptor. Columns have ascending numbers, and all as many rows.
///
/// # Errors
///
/// [`Error::InvalidArgument`] for a type that segments do not have, columns that differ in their rows
/// or do not ascend, more rows or columns than a segment has, no row, and a value of more than
/// [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX).
pub fn encode_segment(
    columns: &[(u32, ArrayRef)],
    options: &PageOptions,
) -> Result<EncodedSegment, Error> {
    let rows = check(columns)?;
    let mut segment = EncodedSegment {
        descriptor: SegmentDescriptor { rows: rows as u32, columns: Vec::new() },
        pages: Vec::new(),
    };
    for (number, array) in columns {
        let prepared = prepare(array)?;
        let mut column = ColumnDescriptor {
            number: *number,
            column_type: prepared.column_type,
            distinct: DistinctSketch::default(),
            pages: Vec::new(),
        };
        column.distinct.add(&prepared);
        let mut pages = Vec::new();
        for rows in cut(&prepared.values) {
            let page = if rows.len() == array.len() {
                encode_prepared(&prepared, options)
            } else {
                // The value that NULL repeats, and thus the bounds, must come from the rows of the page.
                encode_prepared(&prepare(&array.slice(rows.start, rows.len()))?, options)
            };
            column.pages.push(page.descriptor);
            pages.push(page.bytes);
        }
        segment.descriptor.columns.push(column);
        segment.pages.push(pages);
    }
    Ok(segment)
}

/// Returns the rows that all columns have.
fn check(columns: &[(u32, ArrayRef)]) -> Result<usize, Error> {
    let refuse = |what: String| Err(Error::InvalidArgument(what));
    let rows = columns.first().map_or(0, |(_, array)| array.len());
    if !(1..=ROWS_MAX).contains(&rows) {
        return refuse(format!("{rows} rows; a segment has 1 to {ROWS_MAX}"));
    }
    if columns.len() > COLUMNS_MAX {
        return refuse(format!("{} columns; a segment has {COLUMNS_MAX}", columns.len()));
    }
    if columns.iter().any(|(_, array)| array.len() != rows) {
        return refuse("columns of a segment have as many rows as each other".to_owned());
    }
    if !columns.is_sorted_by(|a, b| a.0 < b.0) {
        return refuse("numbers of columns ascend in a segment".to_owned());
    }
    Ok(rows)
}

/// Returns the rows of each page: as many as fit by their plain form, at most [`PAGE_ROWS`] and at least one.
fn cut(values: &Values<'_>) -> Vec<Range<usize>> {
    let rows = values.len();
    if rows <= PAGE_ROWS && plain_page_bytes(values) <= BODY_BYTES_MAX {
        return std::iter::once(0..rows).collect();
    }
    let Values::Text(texts) = values else {
        // Pages of equal length. A null bitmap and its padding take at most an eighth of a byte a row and 64.
        let row = values.plain_bytes() as f64 / rows as f64 + 0.125;
        let pages = (row * rows as f64 / (BODY_BYTES_MAX - 128) as f64).ceil() as usize;
        let step = rows.div_ceil(pages).min(PAGE_ROWS);
        return (0..rows).step_by(step).map(|row| row..rows.min(row + step)).collect();
    };
    // Offset and bit of NULL of each row; the rest is for the first offset and padding.
    let budget = (BODY_BYTES_MAX - 128) * 8;
    let (mut pages, mut first, mut bits) = (Vec::new(), 0, 0);
    for (row, text) in texts.iter().enumerate() {
        let more = 8 * text.len() + 33;
        if row > first && (bits + more > budget || row - first >= PAGE_ROWS) {
            pages.push(first..row);
            (first, bits) = (row, 0);
        }
        bits += more;
    }
    pages.push(first..rows);
    pages
}
