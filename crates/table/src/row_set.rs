//! Which rows a read wants.

use bytes::Bytes;
use std::ops::Bound;

/// A range of row keys with any kind of bounds. An empty key as upper bound means no bound, as
/// clients send it. A range whose start lies after its end is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// Lower bound.
    pub start: Bound<Bytes>,
    /// Upper bound.
    pub end: Bound<Bytes>,
}

/// Single rows and ranges of rows, in any order, overlapping or not. When both lists are empty it
/// is every row. Each row is read once, in key order, whatever the order here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowSet {
    /// Single rows.
    pub keys: Vec<Bytes>,
    /// Ranges.
    pub ranges: Vec<KeyRange>,
}

impl RowSet {
    /// Every row.
    pub fn all() -> Self {
        Self::default()
    }

    /// One row.
    pub fn key(key: impl Into<Bytes>) -> Self {
        Self { keys: vec![key.into()], ranges: Vec::new() }
    }
}
