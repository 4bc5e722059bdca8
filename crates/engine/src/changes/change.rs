//! A batch as a reader of changes gets it.

use crate::batch::{FrozenBatch, Mutation, TimestampRange};
use crate::cell::{Column, Entry, Kind, SequenceNumber, Timestamp, TreeId};
use crate::merge_operator::AnyOperand;

/// A batch that was committed.
#[derive(Debug, Clone)]
pub struct ChangeBatch {
    pub(super) tree: TreeId,
    pub(super) commit_micros: u64,
    pub(super) first: SequenceNumber,
    pub(super) batch: FrozenBatch,
}

/// A mutation of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<'a> {
    /// A cell was written, replacing an earlier one.
    Put {
        /// Row that contains the cell.
        row: &'a [u8],
        /// Column that contains the cell.
        column: Column<'a>,
        /// Version, also if the server set it.
        timestamp: Timestamp,
        /// Value, which may be empty.
        value: &'a [u8],
    },
    /// An operand was merged into a cell.
    Merge {
        /// Row that contains the cell.
        row: &'a [u8],
        /// Column that contains the cell.
        column: Column<'a>,
        /// Version, also if the server set it.
        timestamp: Timestamp,
        /// The operand with its operator.
        operand: AnyOperand,
    },
    /// Cells of a column, a family or a row were deleted.
    Delete {
        /// Row that the deletion is in.
        row: &'a [u8],
        /// Names a column, a family or the row.
        column: Column<'a>,
        /// Range of versions that were deleted.
        range: TimestampRange,
    },
    /// A range of rows was dropped.
    DropRows {
        /// First row of the range.
        start: Vec<u8>,
        /// Row after the last; `None` reaches to the end.
        end: Option<Vec<u8>>,
    },
}

impl ChangeBatch {
    /// Returns the tree that the batch belongs to.
    pub fn tree(&self) -> TreeId {
        self.tree
    }

    /// When the batch was committed, in microseconds since the epoch. Batches of one group have the
    /// same time; batches of a later group have a later one.
    pub fn commit_micros(&self) -> u64 {
        self.commit_micros
    }

    /// Sequence number of its last mutation.
    pub(super) fn last(&self) -> SequenceNumber {
        SequenceNumber(self.first.0 + self.batch.len() as u64 - 1)
    }

    /// Returns the bytes of the encoded batch.
    pub fn encoded_len(&self) -> usize {
        self.batch.encoding().len()
    }

    /// The mutations in their order, each with its sequence number.
    pub fn changes(&self) -> impl Iterator<Item = (SequenceNumber, Change<'_>)> {
        let numbers = (self.first.0..).map(SequenceNumber);
        numbers.zip(self.batch.mutations(self.first)).map(|(number, mutation)| {
            let change = match mutation {
                Mutation::DropRange(range) => {
                    Change::DropRows { start: range.start.clone(), end: range.end.clone() }
                }
                Mutation::Entry { row, entry } => match entry.kind {
                    Kind::Tombstone => {
                        Change::Delete { row, column: entry.column, range: deleted(&entry) }
                    }
                    Kind::Merge => Change::Merge {
                        row,
                        column: entry.column,
                        timestamp: entry.timestamp,
                        operand: AnyOperand::decode(entry.value)
                            .expect("a batch that was decoded has operands that decode"),
                    },
                    Kind::Put => Change::Put {
                        row,
                        column: entry.column,
                        timestamp: entry.timestamp,
                        value: entry.value,
                    },
                },
            };
            (number, change)
        })
    }
}

/// The versions that a tombstone deletes.
fn deleted(tombstone: &Entry<'_>) -> TimestampRange {
    let newest = tombstone.timestamp.0;
    TimestampRange {
        start: tombstone.tombstone_oldest().unwrap_or(Timestamp::MIN),
        end: newest.checked_add(1).map(Timestamp),
    }
}
