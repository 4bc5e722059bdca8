//! The meaning of writes and deletes, as the slowest and plainest code that can say it. It is the
//! specification that every other part is tested against, and nothing else uses it.
//!
//! A delete hides exactly the cells that it names (row, family, column, or row range), whose
//! timestamp it covers, and whose sequence number is smaller than its own. Nothing else hides a
//! cell, but a put or a fold at the same row, column and timestamp with a larger sequence number.

use crate::batch::{Mutation, WriteBatch};
use crate::cell::{
    Column, Entry, FamilyId, Kind, RangeTombstone, Scope, SequenceNumber, Timestamp,
};
use crate::merge::{Fold, Operand};
use crate::request::{Direction, ScanRequest, Wanted};
use std::collections::BTreeMap;

/// An entry that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedEntry {
    /// The family.
    pub family: FamilyId,
    /// The scope.
    pub scope: Scope,
    /// The qualifier.
    pub qualifier: Vec<u8>,
    /// The timestamp.
    pub timestamp: Timestamp,
    /// The sequence number.
    pub sequence: SequenceNumber,
    /// The kind.
    pub kind: Kind,
    /// The value.
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

    /// The entry, borrowed.
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

/// A visible cell that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnedCell {
    /// The family.
    pub family: FamilyId,
    /// The qualifier.
    pub qualifier: Vec<u8>,
    /// The timestamp.
    pub timestamp: Timestamp,
    /// The value.
    pub value: Vec<u8>,
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
                Mutation::Entry { row, entry } => {
                    let entries = self.rows.entry(row.to_vec()).or_default();
                    entries.push(OwnedEntry::copy_of(&entry));
                    entries.sort_by(|a, b| a.borrow().cmp_in_row(&b.borrow()));
                }
                Mutation::DropRange(range) => self.dropped.push(range),
            }
        }
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

    /// What a scan at `snapshot` yields.
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
            fold.push(Operand::decode(&entry.value).expect("a batch checks its operands"));
        }
        fold.finish().to_vec()
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
