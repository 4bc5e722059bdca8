//! The contract of everything that yields entries row by row: a memtable, a sorted run of
//! SSTables, and the merge of several of them.
//!
//! Rules, for every implementation:
//! 1. A new cursor stands on no row. `seek` and `seek_before` may be called at any time; every
//!    other verb only while the cursor stands on a row.
//! 2. A cursor that has just come to a row stands on the row's first entry (every row has one).
//!    `next_entry` moves to the next one in the order of `crate::cell`, in the end past the last
//!    (`entry` is then `None`, and the cursor still stands on the row). Within a row the direction
//!    is always forward, also in reverse scans, since tombstones must come before what they hide.
//! 3. `next_row` and `prev_row` may be called before the row's entries are used up, and in any
//!    mixture.
//! 4. `row`, `entry` and `entry_with_value` lend bytes until the next call that moves the cursor.
//!    `entry_with_value` may have to read the disk (large values lie apart), so entries are judged
//!    by their key first.
//! 5. After an error the cursor stands on no row; only a seek is legal. Going on without the
//!    broken part could resurrect what it was hiding.
//! 6. A row that holds only tombstones is still a row here. Range tombstones are not entries and
//!    are not seen through cursors.

use crate::cell::{Column, Entry, EntryKey};
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

    /// The entry the cursor stands on; `None` past the row's last.
    fn entry(&self) -> Option<EntryKey<'_>>;

    /// That entry with its value. Call only while `entry` is `Some`.
    fn entry_with_value(&mut self) -> Result<Entry<'_>>;

    /// Moves to the row's next entry, or past the last. Call only while `entry` is `Some`.
    fn next_entry(&mut self) -> Result<()>;

    /// Moves to the row's first entry at or after the current one whose column is not less than
    /// `column`, or past the last. Never moves backwards.
    fn skip_to_column(&mut self, column: Column<'_>) -> Result<()>;
}
