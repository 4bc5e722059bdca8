//! What a filter needs to see of a table: a set of cells outside of which nothing can change what
//! the filter yields, so that the engine need not even read it.
//!
//! The rules, for a chain `f, g`: cells that `g` does not need can be kept from `f` as well, if
//! taking them away from `f` changes nothing else that `f` yields. [`Locality`] says how far that
//! holds: a filter that judges each cell by itself is local to the cell; one that counts the
//! versions of a column is local to the column; one that counts the cells of the row, or decides
//! by what the row holds, is local to the row; and a sink yields past `g`, so that nothing may be
//! taken away on behalf of `g`.

use crate::row_set;
use engine::{Columns, FamilyId, QualifierRange, RowRange, TimestampRange};

/// Largest unit that can be taken away from a filter's input and changes nothing else it yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Locality {
    /// None: it may yield past the filters around it.
    Sink,
    /// Whole rows.
    Row,
    /// Whole columns of a row.
    Column,
    /// Single cells.
    Cell,
}

/// A set of cells: in these rows, in these columns, with these timestamps, and of those the newest
/// of each column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Sorted and disjoint; `None` is every row.
    pub(crate) rows: Option<Vec<RowRange>>,
    pub(crate) columns: Columns,
    pub(crate) timestamps: TimestampRange,
    /// Newest versions of each column among `timestamps`; `None` is all.
    pub(crate) versions_max: Option<u32>,
}

impl Reach {
    /// Every cell.
    pub(crate) const ALL: Self = Self {
        rows: None,
        columns: Columns::All,
        timestamps: TimestampRange::ALL,
        versions_max: None,
    };

    /// No cell.
    pub(crate) fn nothing() -> Self {
        Self { columns: Columns::Ranges(Vec::new()), ..Self::ALL }
    }

    /// The rows in `rows`.
    pub(crate) fn rows(rows: Vec<RowRange>) -> Self {
        Self { rows: Some(row_set::merge(rows)), ..Self::ALL }
    }

    /// The columns in `columns`.
    pub(crate) fn columns(columns: Vec<QualifierRange>) -> Self {
        Self { columns: Columns::ranges(columns), ..Self::ALL }
    }

    /// Returns whether no cell at all is in reach.
    pub(crate) fn is_nothing(&self) -> bool {
        self.rows.as_ref().is_some_and(Vec::is_empty)
            || matches!(&self.columns, Columns::Ranges(ranges) if ranges.is_empty())
            || self.timestamps.is_empty()
    }

    /// Returns whether cells of `family` are in reach.
    pub(crate) fn has_family(&self, family: FamilyId) -> bool {
        self.columns.wants_family(family)
    }

    /// What both need, where `self` came first; `within` is the locality of what is between, and
    /// `uniform` whether it keeps all or none of the versions of a column in `self.timestamps`.
    pub(crate) fn narrow(&mut self, next: Self, within: Locality, uniform: bool) {
        if within >= Locality::Row {
            self.rows = match (self.rows.take(), next.rows) {
                (Some(a), Some(b)) => Some(row_set::intersect(&a, &b)),
                (a, b) => a.or(b),
            };
        }
        if within >= Locality::Column {
            self.columns = intersect_columns(&self.columns, &next.columns);
        }
        if within == Locality::Cell {
            let start = self.timestamps.start.max(next.timestamps.start);
            let end = match (self.timestamps.end, next.timestamps.end) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            self.timestamps = TimestampRange { start, end };
            if uniform {
                self.versions_max = next.versions_max;
            }
        }
    }

    /// Returns the reach that covers both.
    pub(crate) fn union(self, other: Self) -> Self {
        if self.is_nothing() {
            return other;
        }
        if other.is_nothing() {
            return self;
        }
        let rows = self.rows.zip(other.rows).map(|(a, b)| row_set::merge([a, b].concat()));
        let columns = match (self.columns, other.columns) {
            (Columns::Ranges(a), Columns::Ranges(b)) => Columns::ranges([a, b].concat()),
            _ => Columns::All,
        };
        let same_timestamps = self.timestamps == other.timestamps;
        let timestamps = TimestampRange {
            start: self.timestamps.start.min(other.timestamps.start),
            end: self.timestamps.end.zip(other.timestamps.end).map(|(a, b)| a.max(b)),
        };
        let versions = self.versions_max.zip(other.versions_max).map(|(a, b)| a.max(b));
        let versions_max = versions.filter(|_| same_timestamps);
        Self { rows, columns, timestamps, versions_max }
    }
}

fn intersect_columns(left: &Columns, right: &Columns) -> Columns {
    let (left, right) = match (left, right) {
        (Columns::All, other) | (other, Columns::All) => return other.clone(),
        (Columns::Ranges(left), Columns::Ranges(right)) => (left, right),
    };
    let (mut l, mut r) = (0, 0);
    let mut both = Vec::new();
    while let (Some(a), Some(b)) = (left.get(l), right.get(r)) {
        let a_first = if a.family == b.family {
            let start = a.start.as_slice().max(&b.start).to_vec();
            let a_first = row_set::ends_first(a.end.as_deref(), b.end.as_deref());
            let end = if a_first { a.end.clone() } else { b.end.clone() };
            both.push(QualifierRange { family: a.family, start, end });
            a_first
        } else {
            a.family < b.family
        };
        if a_first {
            l += 1;
        } else {
            r += 1;
        }
    }
    Columns::ranges(both)
}
