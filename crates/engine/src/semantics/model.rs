//! The meaning of writes and deletes, as the slowest and plainest code that can say it. It is the
//! specification that every other part is tested against, and nothing else uses it.
//!
//! A delete hides exactly the cells that it names (row, family, column, or row range), whose
//! timestamp it covers, and whose sequence number is smaller than its own. Nothing else hides a
//! cell, but a put or a fold at the same row, column and timestamp with a larger sequence number.
//!
//! Rules of garbage collection are applied to what is visible: a version that a delete hides does not
//! count (`kept`). What they let vanish may be gone, or still be there, at any time; who applies them
//! sees the same.

use crate::batch::{Mutation, WriteBatch};
use crate::cell::{
    Column, Entry, FamilyId, Kind, RangeTombstone, Scope, SequenceNumber, Timestamp,
};
use crate::merge_operator::{AnyOperand, Fold};
use crate::request::{Direction, OwnedCell, ScanRequest, Wanted};
use std::collections::BTreeMap;

/// An entry that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedEntry {
    pub family: FamilyId,
    pub scope: Scope,
    pub qualifier: Vec<u8>,
    pub timestamp: Timestamp,
    pub sequence: SequenceNumber,
    pub kind: Kind,
    pub value: Vec<u8>,
}

impl OwnedEntry {
    /// A copy of `entry`.
    pub fn copy_of(entry: &Entry<'_>) -> Self {
        Self {
            family: entry.column.family,
            scope: entry.column.scope,
            qualifier: entry.column.qualifier.to_vec(),
            timestamp: entry.timestamp,
            sequence: entry.sequence,
            kind: entry.kind,
            value: entry.value.to_vec(),
        }
    }

    pub fn borrow(&self) -> Entry<'_> {
        Entry {
            column: Column { family: self.family, scope: self.scope, qualifier: &self.qualifier },
            timestamp: self.timestamp,
            sequence: self.sequence,
            kind: self.kind,
            value: &self.value,
        }
    }

    fn hides(&self, cell: &Self) -> bool {
        let names = match self.scope {
            Scope::Row => true,
            Scope::Family => self.family == cell.family,
            Scope::Column => self.family == cell.family && self.qualifier == cell.qualifier,
        };
        let oldest = self.borrow().tombstone_oldest();
        self.kind == Kind::Tombstone
            && names
            && self.sequence > cell.sequence
            && cell.timestamp <= self.timestamp
            && oldest.is_some_and(|oldest| oldest <= cell.timestamp)
    }
}

/// A row and its visible cells.
pub type OwnedRow = (Vec<u8>, Vec<OwnedCell>);

/// One tree as a list of everything ever written to it.
#[derive(Debug, Clone, Default)]
pub struct Model {
    rows: BTreeMap<Vec<u8>, Vec<OwnedEntry>>,
    dropped: Vec<RangeTombstone>,
}

impl Model {
    /// Applies `batch`, whose first mutation has number `first`.
    pub fn apply(&mut self, batch: &WriteBatch, first: SequenceNumber) {
        for mutation in batch.mutations(first) {
            match mutation {
                Mutation::Entry { row, entry } => self.add(row, OwnedEntry::copy_of(&entry)),
                Mutation::DropRange(range) => self.drop_range(range),
            }
        }
    }

    /// Adds one entry, in whatever order.
    pub fn add(&mut self, row: &[u8], entry: OwnedEntry) {
        let entries = self.rows.entry(row.to_vec()).or_default();
        entries.push(entry);
        entries.sort_by(|a, b| a.borrow().cmp_in_row(&b.borrow()));
    }

    /// Adds one range tombstone, in whatever order.
    pub fn drop_range(&mut self, range: RangeTombstone) {
        self.dropped.push(range);
    }

    /// The visible cells of one row at `snapshot`, in order.
    pub fn row_at(&self, row: &[u8], snapshot: SequenceNumber) -> Vec<OwnedCell> {
        let entries: Vec<&OwnedEntry> = self
            .rows
            .get(row)
            .into_iter()
            .flatten()
            .filter(|entry| entry.sequence <= snapshot)
            .collect();
        let dropped = self
            .dropped
            .iter()
            .filter(|range| range.sequence <= snapshot && range.covers(row))
            .map(|range| range.sequence)
            .max();
        let visible: Vec<&OwnedEntry> = entries
            .iter()
            .copied()
            .filter(|cell| cell.kind != Kind::Tombstone && dropped < Some(cell.sequence))
            .filter(|cell| !entries.iter().any(|other| other.hides(cell)))
            .collect();
        visible.chunk_by(|a, b| same_cell(a, b)).map(fold).collect()
    }

    /// Returns the rows that a scan at `snapshot` yields.
    pub fn scan(&self, request: &ScanRequest, snapshot: SequenceNumber) -> Vec<OwnedRow> {
        let mut rows: Vec<OwnedRow> = self
            .rows
            .keys()
            .filter(|row| request.rows.contains(row))
            .map(|row| (row.clone(), select(self.row_at(row, snapshot), request)))
            .filter(|(_, cells)| !cells.is_empty())
            .collect();
        if request.direction == Direction::Reverse {
            rows.reverse();
        }
        rows
    }
}

fn same_cell(a: &OwnedEntry, b: &OwnedEntry) -> bool {
    (a.family, &a.qualifier, a.timestamp) == (b.family, &b.qualifier, b.timestamp)
}

/// Folds the visible entries of one cell, newest first.
fn fold(entries: &[&OwnedEntry]) -> OwnedCell {
    let newest = entries[0];
    let base = entries.iter().position(|entry| entry.kind == Kind::Put);
    let value = if base == Some(0) {
        newest.value.clone()
    } else {
        let mut fold = base.map(|at| Fold::from_put(&entries[at].value)).unwrap_or_default();
        for entry in entries[..base.unwrap_or(entries.len())].iter().rev() {
            fold.push(AnyOperand::decode(&entry.value).expect("a batch checks its operands"));
        }
        let mut value = Vec::new();
        fold.finish(&mut value);
        value
    };
    OwnedCell {
        family: newest.family,
        qualifier: newest.qualifier.clone(),
        timestamp: newest.timestamp,
        value,
    }
}

fn select(cells: Vec<OwnedCell>, request: &ScanRequest) -> Vec<OwnedCell> {
    let mut column = None;
    let mut versions = 0;
    cells
        .into_iter()
        .filter(|cell| {
            let wanted = request.columns.wants(Column::of(cell.family, &cell.qualifier));
            if wanted != Wanted::Yes || !request.timestamps.contains(cell.timestamp) {
                return false;
            }
            let this = Some((cell.family, cell.qualifier.clone()));
            versions = if column == this { versions + 1 } else { 1 };
            column = this;
            request.versions_max.is_none_or(|max| versions <= max)
        })
        .collect()
}

/// Random histories and questions for tests, over few enough names that deletes meet their cells.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::batch::TimestampRange;
    use crate::merge_operator::{Operand, Operator};
    use crate::request::{Columns, QualifierRange, RowRange};
    use proptest::option;
    use proptest::prelude::*;

    fn rows() -> impl Strategy<Value = Vec<u8>> + Clone {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(b'a'), Just(255)], 0..3)
    }

    fn qualifiers() -> impl Strategy<Value = Vec<u8>> + Clone {
        prop_oneof![Just(vec![]), Just(b"a".to_vec()), Just(b"a\0".to_vec()), Just(b"b".to_vec())]
    }

    fn ranges() -> impl Strategy<Value = TimestampRange> + Clone {
        let any = (-1i64..5, option::of(-1i64..6)).prop_map(|(start, end)| TimestampRange {
            start: Timestamp(start),
            end: end.map(Timestamp),
        });
        prop_oneof![Just(TimestampRange::ALL), any]
    }

    fn operators() -> impl Strategy<Value = Operator> + Clone {
        prop_oneof![
            4 => Just(Operator::SumInt64),
            1 => Just(Operator::MinInt64),
            1 => Just(Operator::MaxInt64)
        ]
    }

    /// One mutation, to be put into a batch.
    #[derive(Debug, Clone)]
    enum Change {
        Put(Vec<u8>, u16, Vec<u8>, i64, Vec<u8>),
        Merge(Vec<u8>, u16, Vec<u8>, i64, Operand),
        DeleteColumn(Vec<u8>, u16, Vec<u8>, TimestampRange),
        DeleteFamily(Vec<u8>, u16, TimestampRange),
        DeleteRow(Vec<u8>, TimestampRange),
        DropRange(Vec<u8>, Option<Vec<u8>>),
    }

    impl Change {
        fn apply(&self, batch: &mut WriteBatch) {
            match self {
                Self::Put(row, family, qualifier, timestamp, value) => {
                    let column = Column::of(FamilyId(*family), qualifier);
                    batch.put(row, column, Timestamp(*timestamp), value);
                }
                Self::Merge(row, family, qualifier, timestamp, operand) => {
                    let column = Column::of(FamilyId(*family), qualifier);
                    batch.merge(row, column, Timestamp(*timestamp), *operand);
                }
                Self::DeleteColumn(row, family, qualifier, range) => {
                    batch.delete(row, Column::of(FamilyId(*family), qualifier), *range);
                }
                Self::DeleteFamily(row, family, range) => {
                    batch.delete(row, Column::family(FamilyId(*family)), *range);
                }
                Self::DeleteRow(row, range) => batch.delete(row, Column::ROW, *range),
                Self::DropRange(start, end) => batch.drop_row_range(start, end.as_deref()),
            }
        }
    }

    /// Short ones, and some that have a block of their own in SSTables.
    fn values() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            9 => proptest::collection::vec(any::<u8>(), 0..10),
            1 => (any::<u8>(), 4096usize..6000).prop_map(|(byte, len)| vec![byte; len]),
        ]
    }

    fn puts() -> impl Strategy<Value = Change> {
        (rows(), 1u16..4, qualifiers(), -1i64..5, values())
            .prop_map(|(r, f, q, t, v)| Change::Put(r, f, q, t, v))
    }

    fn deletes() -> impl Strategy<Value = Change> {
        let family = 1u16..4;
        prop_oneof![
            2 => (rows(), family.clone(), qualifiers(), ranges())
                .prop_map(|(r, f, q, t)| Change::DeleteColumn(r, f, q, t)),
            1 => (rows(), family, ranges()).prop_map(|(r, f, t)| Change::DeleteFamily(r, f, t)),
            1 => (rows(), ranges()).prop_map(|(r, t)| Change::DeleteRow(r, t)),
        ]
    }

    fn changes() -> impl Strategy<Value = Change> {
        let operand =
            (operators(), any::<i64>()).prop_map(|(operator, value)| Operand { operator, value });
        prop_oneof![
            8 => puts(),
            4 => (rows(), 1u16..4, qualifiers(), -1i64..5, operand)
                .prop_map(|(r, f, q, t, o)| Change::Merge(r, f, q, t, o)),
            4 => deletes(),
            1 => (rows(), option::of(rows())).prop_map(|(s, e)| Change::DropRange(s, e)),
        ]
    }

    fn batches_of(changes: impl Strategy<Value = Change>) -> impl Strategy<Value = WriteBatch> {
        proptest::collection::vec(changes, 0..8).prop_map(|changes| {
            let mut batch = WriteBatch::new();
            changes.iter().for_each(|change| change.apply(&mut batch));
            batch
        })
    }

    /// A batch of up to eight mutations.
    pub(crate) fn batches() -> impl Strategy<Value = WriteBatch> {
        batches_of(changes())
    }

    /// A batch of up to eight puts.
    pub(crate) fn put_batches() -> impl Strategy<Value = WriteBatch> {
        batches_of(puts())
    }

    /// A batch of up to eight puts and deletes of single rows.
    pub(crate) fn put_and_delete_batches() -> impl Strategy<Value = WriteBatch> {
        batches_of(prop_oneof![3 => puts(), 2 => deletes()])
    }

    /// A question about any rows, columns, timestamps and versions.
    pub(crate) fn requests() -> impl Strategy<Value = ScanRequest> {
        let range =
            (1u16..4, qualifiers(), option::of(qualifiers())).prop_map(|(family, start, end)| {
                QualifierRange { family: FamilyId(family), start, end }
            });
        let columns = prop_oneof![
            Just(Columns::All),
            proptest::collection::vec(range, 0..4).prop_map(Columns::ranges)
        ];
        let rows = prop_oneof![
            Just(RowRange::ALL),
            rows().prop_map(|row| RowRange::single(&row)),
            (rows(), option::of(rows())).prop_map(|(start, end)| RowRange { start, end })
        ];
        let direction = prop_oneof![Just(Direction::Forward), Just(Direction::Reverse)];
        (rows, direction, columns, ranges(), option::of(0u32..3)).prop_map(
            |(rows, direction, columns, timestamps, versions_max)| ScanRequest {
                rows,
                direction,
                columns,
                timestamps,
                versions_max,
            },
        )
    }
}
