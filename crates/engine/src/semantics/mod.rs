//! The meaning of writes and deletes, apart from how they are stored.
//!
//! The `model` specifies it. The other files hold the pure parts that memtables, SSTables, reads and
//! compactions share: merge operators, the hook of elision policies, stripes of sequence numbers,
//! range tombstones as ranges, and the contract of row cursors. In and out: values of the root
//! (`cell`, `batch`, `request`). Uses no other room.

pub(crate) mod dropped_ranges;
pub mod elision_policy;
#[doc(hidden)]
pub(crate) mod model;
pub(crate) mod range_cover;
#[doc(hidden)]
pub(crate) mod row_cursor;
#[doc(hidden)]
pub(crate) mod stripes;
