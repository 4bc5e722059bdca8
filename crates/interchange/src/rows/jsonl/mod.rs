//! Rows as JSON, one object a line, as `docs/format/export.md` says.
//!
//! 1. A line that the writer writes is at most [`LINE_BYTES_MAX`] long and has at most [`LINE_CELLS_MAX`]
//!    cells, which the reader takes: a wide row is several lines, and a value whose escaped form is
//!    longer than [`ESCAPED_BYTES_MAX`] is written in Base64.
//! 2. The reader decodes each cell as it comes, so that memory is bounded by the line and the cells in it.

mod read;
mod write;

use super::limits::{self, RECORD_BYTES, RECORD_CELLS};

pub(super) use read::Reader;
pub(super) use write::Writer;
pub use write::rejected_lines;

/// Longest line, in bytes of JSON.
const LINE_BYTES_MAX: usize = 256 << 20;
/// Most cells that one line has.
const LINE_CELLS_MAX: usize = 1_000_000;
/// Longest escaped form of a value. In JSON it is at most twice as long.
const ESCAPED_BYTES_MAX: usize = 64 << 20;
/// Longest reason of a rejected row.
const REASON_BYTES_MAX: usize = 4 << 10;

/// Characters of JSON for a byte of a name or a value, at most.
const CHARS_OF_BYTE: usize = 6;
/// Characters of a cell in JSON beside its names and its value, at most.
const CHARS_OF_CELL: usize = 128;
/// Characters of a record without its last value, at most.
const CHARS_OF_RECORD: usize = CHARS_OF_BYTE * (RECORD_BYTES + limits::KEY_BYTES_MAX)
    + CHARS_OF_BYTE * (limits::QUALIFIER_BYTES_MAX + limits::FAMILY_BYTES_MAX + REASON_BYTES_MAX)
    + CHARS_OF_CELL * RECORD_CELLS;

const _: () = assert!(CHARS_OF_RECORD + limits::VALUE_BYTES_MAX / 3 * 4 + 4 < LINE_BYTES_MAX);
const _: () = assert!(CHARS_OF_RECORD + 2 * ESCAPED_BYTES_MAX < LINE_BYTES_MAX);
const _: () = assert!(RECORD_CELLS <= LINE_CELLS_MAX);
