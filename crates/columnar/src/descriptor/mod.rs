//! Description of a segment and its pages, in a record of its own. docs/format/column_segment.md has
//! the bytes.

mod bounds;
mod codec;
mod sketch;
mod zone;

pub use bounds::{Bound, Bounds};
pub use sketch::DistinctSketch;
pub use zone::Comparison;

pub(crate) use bounds::bounds_of;

use crate::{ColumnType, Compression, EncodingKind};

/// Description of a segment and its columns.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentDescriptor {
    /// Rows of each column, 1 to [`ROWS_MAX`](crate::ROWS_MAX).
    pub rows: u32,
    /// Columns in ascending order of their numbers.
    pub columns: Vec<ColumnDescriptor>,
}

/// Description of a column of a segment.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDescriptor {
    /// Number of the column in its table.
    pub number: u32,
    /// Type of the values in its pages.
    pub column_type: ColumnType,
    /// Estimate of how many different values it has.
    pub distinct: DistinctSketch,
    /// Its pages, in order of their rows.
    pub pages: Vec<PageDescriptor>,
}

/// Description of a page of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct PageDescriptor {
    /// Rows of the page, at least 1.
    pub rows: u32,
    /// Rows of the page without a value.
    pub nulls: u32,
    /// Length of the page in bytes, its header included.
    pub stored_bytes: u32,
    /// Compression of the page's body.
    pub compression: Compression,
    /// Its encodings, a parent before its children.
    pub tree: Vec<EncodingKind>,
    /// Its smallest and its largest value.
    pub bounds: Bounds,
}

impl SegmentDescriptor {
    /// Returns the column with a number.
    pub fn column(&self, number: u32) -> Option<&ColumnDescriptor> {
        let at = self.columns.binary_search_by_key(&number, |column| column.number).ok()?;
        Some(&self.columns[at])
    }
}

impl ColumnDescriptor {
    /// Returns the rows of the column that have a value: `count(column)`.
    pub fn count(&self) -> u64 {
        self.pages.iter().map(|page| u64::from(page.rows - page.nulls)).sum()
    }

    /// Returns each page with its first row.
    pub fn pages_with_first_row(&self) -> impl Iterator<Item = (u32, &PageDescriptor)> {
        self.pages.iter().scan(0, |next, page| {
            let first = *next;
            *next += page.rows;
            Some((first, page))
        })
    }
}
