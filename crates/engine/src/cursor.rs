//! The contract of everything that yields entries row by row: a memtable, a sorted run of
//! SSTables, and the merge of several of them.
//!
//! Rules, for every implementation:
//! 1. A new cursor stands on no row. `seek` and `seek_before` may be called at any time; `next_row`
//!    and `prev_row` only while the cursor stands on a row.
//! 2. Standing on a row, `row` lends its key and `next_entry` lends the row's entries in the order
//!    of `crate::cell`, each once, from the first. Within a row the direction is always forward,
//!    also in reverse scans, since tombstones must come before what they hide.
//! 3. `next_row` and `prev_row` may be called before the row's entries are used up.
//! 4. Lent bytes live until the next call on the cursor.
//! 5. After an error the cursor stands on no row; only a seek is legal. Going on without the
//!    broken part could resurrect what it was hiding.
//! 6. A row that holds only tombstones is still a row here. Range tombstones are not entries and
//!    are not seen through cursors.

use crate::cell::{Column, Entry};
use crate::error::Result;

/// Walks rows in order, forwards or backwards, and each row's entries forwards.
pub trait RowCursor {
    /// Moves to the first row that is not less than `row`, or to no row.
    fn seek(&mut self, row: &[u8]) -> Result<()>;

    /// Moves to the last row less than `bound` (`None`: to the last row), or to no row.
    fn seek_before(&mut self, bound: Option<&[u8]>) -> Result<()>;

    /// Moves to the following row, or to no row.
    fn next_row(&mut self) -> Result<()>;

    /// Moves to the preceding row, or to no row.
    fn prev_row(&mut self) -> Result<()>;

    /// The row the cursor stands on.
    fn row(&self) -> Option<&[u8]>;

    /// The next entry of this row; `None` when they are used up.
    fn next_entry(&mut self) -> Result<Option<Entry<'_>>>;

    /// Skips the entries of this row whose column is less than `column`. Never moves backwards.
    fn skip_to_column(&mut self, column: Column<'_>) -> Result<()>;
}
