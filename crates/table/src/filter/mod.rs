//! Row filters: what a read yields of each row. The tree mirrors `google.bigtable.v2.RowFilter`.
//!
//! A filter takes a row (a list of cells in order) and yields another list. Regular expressions
//! are of the RE2 dialect over raw bytes and match the whole text.

pub(crate) mod compile;
pub(crate) mod eval;
mod re2;
mod re2_sets;
pub(crate) mod reach;
#[cfg(test)]
pub(crate) mod reference;
pub(crate) mod regex;

use crate::subset::Subset;
use bytes::Bytes;
use engine::TimestampRange;
use std::ops::Bound;
use std::sync::Arc;

/// A row filter. Rules of the variants are checked when a request starts; whatever breaks one is
/// `InvalidArgument`.
#[derive(Debug, Clone, PartialEq)]
pub enum RowFilter {
    /// Each filter takes what the one before it yields. At least two; at most one of them may
    /// contain an [`RowFilter::ApplyLabel`].
    Chain(Vec<RowFilter>),
    /// Each filter takes a copy of the row; what they yield is put together in order of cells,
    /// duplicates kept, equal cells in order of their filters. At least two.
    Interleave(Vec<RowFilter>),
    /// One filter or another, as a third one says.
    Condition(Box<Condition>),
    /// Yields its cells straight to the result of the whole filter, past all enclosing filters,
    /// and nothing to the filter around it. Not inside a condition.
    Sink,
    /// A filter over some rows and columns of the table: it takes cells of that part only, whatever
    /// it is. For fronts; no level of nesting.
    Within(Arc<Subset>, Box<RowFilter>),
    /// Yields every cell. (A wire message with `false` here is the front's to refuse.)
    PassAll,
    /// Yields nothing.
    BlockAll,
    /// Every cell of a row whose key matches.
    RowKeyRegex(Bytes),
    /// Every cell of a row with this probability, which lies between 0 and 1, both excluded.
    RowSample(f64),
    /// Cells of families whose name matches. The pattern has no `:`.
    FamilyNameRegex(String),
    /// Cells whose qualifier matches.
    ColumnQualifierRegex(Bytes),
    /// Cells of a range of columns.
    ColumnRange(ColumnRange),
    /// Cells whose timestamp lies in the range; bounds are multiples of 1000 microseconds.
    TimestampRange(TimestampRange),
    /// Cells whose value matches.
    ValueRegex(Bytes),
    /// Cells whose value lies in the range.
    ValueRange(ValueRange),
    /// All but the first cells of the row, this many. Not negative.
    CellsPerRowOffset(i32),
    /// The first cells of the row, this many. Positive.
    CellsPerRowLimit(i32),
    /// The first (newest) cells of each column, this many. Positive.
    CellsPerColumnLimit(i32),
    /// Every cell, with an empty value.
    StripValue,
    /// Every cell, with this label: 1 to 15 of `[a-z0-9-]`.
    ApplyLabel(String),
}

/// A choice between two filters. An absent branch yields nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// Holds if it yields any cell.
    pub predicate: RowFilter,
    /// Taken if the predicate holds.
    pub on_true: Option<RowFilter>,
    /// Taken if it does not.
    pub on_false: Option<RowFilter>,
}

/// The columns of one family whose qualifier lies between two bounds. An unknown family has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnRange {
    /// Name of the family.
    pub family: String,
    /// Lower bound of the qualifier.
    pub start: Bound<Bytes>,
    /// Upper bound of the qualifier.
    pub end: Bound<Bytes>,
}

/// Values between two bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueRange {
    /// Lower bound.
    pub start: Bound<Bytes>,
    /// Upper bound.
    pub end: Bound<Bytes>,
}
