//! What a read asks for.

use crate::batch::TimestampRange;
use crate::cell::{Column, FamilyId, Scope, Timestamp};

/// A half-open range of rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RowRange {
    /// First row of the range.
    pub start: Vec<u8>,
    /// First row after the range; `None` reaches to the end of the tree.
    pub end: Option<Vec<u8>>,
}

impl RowRange {
    /// Every row.
    pub const ALL: Self = Self { start: Vec::new(), end: None };

    /// The range that holds `row` alone.
    pub fn single(row: &[u8]) -> Self {
        let mut end = Vec::with_capacity(row.len() + 1);
        end.extend_from_slice(row);
        end.push(0);
        Self { start: row.to_vec(), end: Some(end) }
    }

    /// The range of all rows that start with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let end = end.last_mut().map(|last| *last += 1).map(|()| end);
        Self { start: prefix.to_vec(), end }
    }

    /// The first `len` bytes of all its rows, if they are the same in all; `None` for 0.
    pub fn shared_prefix(&self, len: usize) -> Option<&[u8]> {
        let prefix = self.start.get(..len).filter(|prefix| !prefix.is_empty())?;
        let within = match &self.end {
            Some(end) if end.starts_with(prefix) => true,
            end => *end == Self::prefix(prefix).end,
        };
        within.then_some(prefix)
    }

    /// Returns whether `row` lies in the range.
    pub fn contains(&self, row: &[u8]) -> bool {
        self.start.as_slice() <= row && self.end.as_deref().is_none_or(|end| row < end)
    }

    /// Returns whether no row can lie in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end <= &self.start)
    }

    /// Returns whether the range can hold only the row it starts with.
    pub fn is_single(&self) -> bool {
        self.end.as_ref().is_some_and(|end| {
            end.split_last().is_some_and(|(last, head)| *last == 0 && head == self.start)
        })
    }
}

/// Which way rows are walked. Within a row cells always come in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Rows ascending.
    #[default]
    Forward,
    /// Rows descending.
    Reverse,
}

/// A range of qualifiers in one family, half-open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifierRange {
    /// The family.
    pub family: FamilyId,
    /// First qualifier of the range.
    pub start: Vec<u8>,
    /// First qualifier after the range; `None` reaches to the end of the family.
    pub end: Option<Vec<u8>>,
}

impl QualifierRange {
    /// The whole of `family`.
    pub fn family(family: FamilyId) -> Self {
        Self { family, start: Vec::new(), end: None }
    }

    /// One column.
    pub fn column(family: FamilyId, qualifier: &[u8]) -> Self {
        let rows = RowRange::single(qualifier);
        Self { family, start: rows.start, end: rows.end }
    }
}

impl QualifierRange {
    /// The one qualifier the range holds, if it can hold only one.
    pub fn single(&self) -> Option<&[u8]> {
        let (last, head) = self.end.as_ref()?.split_last()?;
        (*last == 0 && head == self.start).then_some(self.start.as_slice())
    }
}

/// The columns a read wants: everything, or a sorted list of disjoint ranges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Columns {
    /// Every column.
    #[default]
    All,
    /// These ranges; sorted and disjoint (see [`Columns::ranges`]).
    Ranges(Vec<QualifierRange>),
}

impl Columns {
    /// The columns in any of `ranges`, which may come in any order and overlap.
    pub fn ranges(mut ranges: Vec<QualifierRange>) -> Self {
        ranges.retain(|range| range.end.as_ref().is_none_or(|end| *end > range.start));
        ranges.sort();
        let mut merged: Vec<QualifierRange> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match merged.last_mut() {
                Some(last)
                    if last.family == range.family
                        && last.end.as_ref().is_none_or(|end| *end >= range.start) =>
                {
                    if let Some(end) = &last.end
                        && range.end.as_ref().is_none_or(|e| e > end)
                    {
                        last.end = range.end;
                    }
                }
                _ => merged.push(range),
            }
        }
        Self::Ranges(merged)
    }

    /// Whether cells of `column` are wanted, and if not, the first column at or after it that may
    /// be; see [`Wanted`].
    pub fn wants(&self, column: Column<'_>) -> Wanted<'_> {
        let Self::Ranges(ranges) = self else { return Wanted::Yes };
        debug_assert_eq!(column.scope, Scope::Column);
        let key = (column.family, column.qualifier);
        let at = ranges.partition_point(|range| (range.family, range.start.as_slice()) <= key);
        if let Some(range) = at.checked_sub(1).and_then(|at| ranges.get(at))
            && range.family == column.family
            && range.end.as_deref().is_none_or(|end| column.qualifier < end)
        {
            return Wanted::Yes;
        }
        ranges
            .get(at)
            .map_or(Wanted::NoMore, |next| Wanted::NotBefore(Column::of(next.family, &next.start)))
    }

    /// Returns whether any column of `family` is wanted.
    pub fn wants_family(&self, family: FamilyId) -> bool {
        match self {
            Self::All => true,
            Self::Ranges(ranges) => ranges.iter().any(|range| range.family == family),
        }
    }
}

/// The answer of [`Columns::wants`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// The column is wanted.
    Yes,
    /// It is not; the next wanted column is not before this one.
    NotBefore(Column<'a>),
    /// It is not, nor any after it.
    NoMore,
}

/// A read of many rows, or of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanRequest {
    /// Which rows.
    pub rows: RowRange,
    /// Which way.
    pub direction: Direction,
    /// Which columns; a row without a visible cell in them is not met.
    pub columns: Columns,
    /// Which timestamps.
    pub timestamps: TimestampRange,
    /// At most this many cells of a column, the newest of those in `timestamps`. `None`: all.
    pub versions_max: Option<u32>,
}

impl Default for ScanRequest {
    fn default() -> Self {
        Self {
            rows: RowRange::ALL,
            direction: Direction::Forward,
            columns: Columns::All,
            timestamps: TimestampRange::ALL,
            versions_max: None,
        }
    }
}

impl ScanRequest {
    /// All cells of the rows in `rows`.
    pub fn rows(rows: RowRange) -> Self {
        Self { rows, ..Self::default() }
    }
}

/// A visible cell, lent by a scan until its next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cell<'a> {
    /// Its family.
    pub family: FamilyId,
    /// Its qualifier.
    pub qualifier: &'a [u8],
    /// Its version.
    pub timestamp: Timestamp,
    /// Its value; of an aggregate cell the folded value, an `i64` big-endian.
    pub value: &'a [u8],
}

/// A visible cell that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnedCell {
    /// Its family.
    pub family: FamilyId,
    /// Its qualifier.
    pub qualifier: Vec<u8>,
    /// Its version.
    pub timestamp: Timestamp,
    /// Its value, as that of a [`Cell`].
    pub value: Vec<u8>,
}

impl From<&Cell<'_>> for OwnedCell {
    fn from(cell: &Cell<'_>) -> Self {
        Self {
            family: cell.family,
            qualifier: cell.qualifier.to_vec(),
            timestamp: cell.timestamp,
            value: cell.value.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range() -> impl Strategy<Value = QualifierRange> {
        let bytes = || proptest::collection::vec(0u8..4, 0..3);
        (1u16..4, bytes(), proptest::option::of(bytes())).prop_map(|(family, start, end)| {
            QualifierRange { family: FamilyId(family), start, end }
        })
    }

    proptest! {
        #[test]
        fn merged_ranges_want_what_any_of_them_wants(
            ranges in proptest::collection::vec(range(), 0..6),
            family in 1u16..4,
            qualifier in proptest::collection::vec(0u8..4, 0..3),
        ) {
            let any = ranges.iter().any(|range| {
                range.family.0 == family
                    && range.start <= qualifier
                    && range.end.as_ref().is_none_or(|end| qualifier < *end)
            });
            let columns = Columns::ranges(ranges);
            let column = Column::of(FamilyId(family), &qualifier);
            match columns.wants(column) {
                Wanted::Yes => prop_assert!(any),
                Wanted::NotBefore(next) => {
                    prop_assert!(!any && next > column);
                    prop_assert_eq!(columns.wants(next), Wanted::Yes);
                }
                Wanted::NoMore => prop_assert!(!any),
            }
        }

        #[test]
        fn a_prefix_range_holds_just_the_rows_with_the_prefix(
            prefix in proptest::collection::vec(prop_oneof![Just(0u8), Just(254), Just(255)], 0..4),
            row in proptest::collection::vec(prop_oneof![Just(0u8), Just(254), Just(255)], 0..5),
        ) {
            prop_assert_eq!(RowRange::prefix(&prefix).contains(&row), row.starts_with(&prefix));
        }

        #[test]
        fn all_rows_of_a_range_have_its_shared_prefix(
            start in proptest::collection::vec(prop_oneof![Just(0u8), Just(254), Just(255)], 0..4),
            end in proptest::option::of(
                proptest::collection::vec(prop_oneof![Just(0u8), Just(254), Just(255)], 0..4),
            ),
            row in proptest::collection::vec(prop_oneof![Just(0u8), Just(254), Just(255)], 0..5),
            len in 0usize..4,
        ) {
            let rows = RowRange { start, end };
            match rows.shared_prefix(len) {
                Some(prefix) => {
                    prop_assert_eq!(prefix, &rows.start[..len]);
                    prop_assert!(!rows.contains(&row) || row.starts_with(prefix));
                }
                // The last row before the end, about, tells that the range goes on.
                None if len > 0 && rows.start.len() >= len && !rows.is_empty() => {
                    let after = RowRange::prefix(&rows.start[..len]).end;
                    prop_assert!(rows.contains(&after.expect("nothing comes after the last prefix")));
                }
                None => {}
            }
        }
    }
}
