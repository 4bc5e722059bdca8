//! Rows of SSTables, walked and lent as they lie in their blocks.
//!
//! In: blocks that `read` found. Out: rows and cells, lent without a copy where no merge is needed.
//! May use `read` and what that uses.

pub(super) mod readahead;
pub(super) mod resolve_in_block;
pub(super) mod row_prefetch;
pub(super) mod row_span;
pub(super) mod simple_row;
pub(super) mod sst_cursor;
