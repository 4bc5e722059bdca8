//! Immutable segments of column pages. In memory a column is an Arrow array; on disk it is a row of
//! pages, each encoded by itself. docs/format/column_segment.md has the bytes.
//!
//! [`encode_segment`] makes pages and a [`SegmentDescriptor`] of arrays; [`Page::open`] checks a page, and
//! [`Page::decode`] and [`Page::decode_rows`] make an array of it. A descriptor answers, without any page,
//! how many rows there are and whether a page [may match](PageDescriptor::may_match) a comparison.
//!
//! 1. Bytes of pages and descriptors may be anything. What breaks the format is an [`Error::Corruption`]
//!    with an offset; no length is believed before it is compared with the limits below.
//! 2. The crate knows no files, trees or catalogs. The keeper of pages says which type a column has.
//! 3. Text is UTF-8 checked before it becomes a string array, also when the checksum of its page matches.

#[cfg(target_endian = "big")]
compile_error!("pages are little-endian, and arrays are made of them without swapping bytes");

mod column_type;
mod descriptor;
mod encoding;
mod error;
pub mod fuzz;
mod page;
mod segment;
mod values;

pub use column_type::ColumnType;
pub use descriptor::{
    Bound, Bounds, ColumnDescriptor, Comparison, DistinctSketch, PageDescriptor, SegmentDescriptor,
};
pub use encoding::EncodingKind;
pub use error::Error;
pub use page::{Choice, Compression, EncodedPage, Page, PageOptions, encode_page};
pub use segment::{EncodedSegment, encode_segment};

/// Most rows of a segment, and of a page.
pub const ROWS_MAX: usize = 1 << 16;
/// Longest page that has more than one row, with its header.
pub const PAGE_BYTES_MAX: usize = 1 << 20;
/// Longest value of text or bytes. One that does not fit into a page with others makes a page of its own.
pub const VALUE_BYTES_MAX: usize = 64 << 20;
/// Most columns of a segment.
pub const COLUMNS_MAX: usize = 4_096;

/// Bytes of a page before its body.
const HEADER_BYTES: usize = 64;
/// Longest body of a page with more than one row.
const BODY_BYTES_MAX: usize = PAGE_BYTES_MAX - HEADER_BYTES;

/// Returns the longest body, and the longest decoded text, of a page with so many rows.
fn body_bytes_max(rows: usize) -> usize {
    if rows == 1 { VALUE_BYTES_MAX + 64 } else { BODY_BYTES_MAX }
}
