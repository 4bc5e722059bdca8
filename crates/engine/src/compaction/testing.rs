//! Random changes, and sorted runs in memory, for the tests of this folder.

use super::row_elision::EntrySink;
use crate::batch::{Mutation, TimestampRange, WriteBatch};
use crate::cell::{Column, Entry, FamilyId, Kind, RangeTombstone, SequenceNumber, Timestamp};
use crate::error::Result;
use crate::manifest::{FileNumber, SstMeta};
use crate::merge_operator::{Operand, Operator};
use crate::request::RowRange;
use crate::semantics::model::{Model, OwnedEntry};
use crate::semantics::row_cursor::testing::Owned;
use proptest::prelude::*;

/// What a manifest may know of a file of one entry a byte, none of them a tombstone.
pub(super) fn file(number: u64, first_row: &[u8], last_row: &[u8], sequence: u64) -> SstMeta {
    SstMeta {
        number: FileNumber(number),
        bytes: 1,
        first_row: first_row.to_vec(),
        last_row: last_row.to_vec(),
        entries: 1,
        tombstones: 0,
        range_tombstones: 0,
        dropped: None,
        sequence_min: SequenceNumber(0),
        sequence_max: SequenceNumber(sequence),
        timestamp_min: Timestamp(0),
        timestamp_max: Timestamp(0),
    }
}

/// One mutation: what, row, family, qualifier, timestamp, number.
pub(super) type Change = (u8, u8, u16, u8, i64, i64);

/// Changes of so many rows, and of few columns and timestamps.
pub(super) fn changes(rows: u8) -> impl Strategy<Value = Vec<Change>> {
    let one = (0u8..16, 0..rows, 1u16..3, 0u8..2, 0i64..4, 0i64..3);
    proptest::collection::vec(one, 1..60)
}

/// A batch of one change.
pub(super) fn batch_of(&(what, row, family, qualifier, timestamp, number): &Change) -> WriteBatch {
    let (row, qualifier) = ([b'a' + row], [b'q'; 1][..usize::from(qualifier)].to_vec());
    let (family, at) = (FamilyId(family), Timestamp(timestamp));
    let column = Column::of(family, &qualifier);
    let range = TimestampRange {
        start: Timestamp(timestamp - number),
        end: Some(Timestamp(timestamp + 1)),
    };
    let operator = match number {
        0 => Operator::MaxInt64,
        _ => Operator::SumInt64,
    };
    let mut batch = WriteBatch::new();
    match what {
        0..=4 => batch.put(&row, column, at, &number.to_be_bytes()),
        5 => batch.put(&row, column, at, b"text"),
        6..=9 => batch.merge(&row, column, at, Operand { operator, value: timestamp + 7 }),
        10 | 11 => batch.delete(&row, column, range),
        12 => batch.delete(&row, Column::family(family), range),
        13 => batch.delete(&row, Column::ROW, range),
        14 => batch.delete_row(&row),
        _ => batch.drop_row_range(&row, (number > 0).then_some(&[row[0] + number as u8])),
    }
    batch
}

/// A sorted run in memory.
#[derive(Debug, Clone, Default)]
pub(super) struct MemoryRun {
    pub(super) entries: Vec<Owned>,
    pub(super) dropped: Vec<RangeTombstone>,
}

impl MemoryRun {
    /// Returns whether it has a tombstone of `row`, or a range over it.
    pub(super) fn deletes(&self, row: &[u8]) -> bool {
        let of_row = |(at, entry): &Owned| at == row && entry.kind == Kind::Tombstone;
        self.entries.iter().any(of_row) || self.dropped.iter().any(|range| range.covers(row))
    }

    /// The smallest range that holds all of it.
    pub(super) fn hull(&self) -> Option<RowRange> {
        let rows = self.entries.iter().map(|(row, _)| RowRange::single(row));
        let dropped = self.dropped.iter().cloned();
        let ranges = dropped.map(|RangeTombstone { start, end, .. }| RowRange { start, end });
        rows.chain(ranges).reduce(|a, b| RowRange {
            start: a.start.min(b.start),
            end: a.end.zip(b.end).map(|(a, b)| a.max(b)),
        })
    }
}

/// Collects what a compaction writes.
#[derive(Default)]
pub(super) struct Collect {
    pub(super) row: Vec<u8>,
    pub(super) entries: Vec<Owned>,
}

impl EntrySink for Collect {
    fn entry(&mut self, entry: Entry<'_>) -> Result<()> {
        self.entries.push((self.row.clone(), OwnedEntry::copy_of(&entry)));
        Ok(())
    }
}

/// What is read from `runs`.
pub(super) fn model_of<'a>(runs: impl IntoIterator<Item = &'a MemoryRun>) -> Model {
    let mut model = Model::default();
    for run in runs {
        run.entries.iter().for_each(|(row, entry)| model.add(row, entry.clone()));
        run.dropped.iter().for_each(|range| model.drop_range(range.clone()));
    }
    model
}

/// Numbers the changes from 1 and cuts them into runs, newest first.
pub(super) fn runs_of(changes: &[Change], cuts: &[u8]) -> Vec<MemoryRun> {
    let mut runs = vec![MemoryRun::default()];
    for (sequence, change) in (1u64..).map(SequenceNumber).zip(changes) {
        if cuts.iter().any(|cut| u64::from(*cut) == sequence.0) {
            runs.insert(0, MemoryRun::default());
        }
        for mutation in batch_of(change).mutations(sequence) {
            match mutation {
                Mutation::Entry { row, entry } => {
                    runs[0].entries.push((row.to_vec(), OwnedEntry::copy_of(&entry)));
                }
                Mutation::DropRange(range) => runs[0].dropped.push(range),
            }
        }
    }
    runs
}
