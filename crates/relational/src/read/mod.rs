//! Reads of rows: by key, and scans of tables and indexes.
//!
//! 1. A view is one moment: a catalog, a snapshot taken after it, and what its transaction had written.
//! 2. Reads of one key never block their thread. Scans block: the caller runs them on a thread for it.
//! 3. Only wanted columns of a row are decoded.

mod entries;
mod projection;
mod referencing;
mod scan;
mod segments;
mod view;

pub use referencing::ReferencingScan;
pub use scan::{CancelFlag, KeyRange, RowScan, ScanSpec, ScanStatistics};
pub use segments::{Pages, Segment};
pub use view::View;

pub(crate) use projection::row_of;
pub(crate) use scan::last_row_id;
