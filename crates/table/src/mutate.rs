//! Changes of a row.

use crate::filter::RowFilter;
use bytes::Bytes;
use engine::{Timestamp, TimestampRange};

/// The version a written cell gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteTime {
    /// The server's clock, in whole milliseconds.
    Server,
    /// This timestamp: not negative, a multiple of 1000 microseconds.
    At(Timestamp),
}

impl WriteTime {
    /// The wire's form: -1 is the server's time, anything else a timestamp.
    pub fn from_micros(micros: i64) -> Self {
        if micros == -1 { Self::Server } else { Self::At(Timestamp(micros)) }
    }
}

/// One change of a row. Families are named; unknown ones are `NotFound`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowMutation {
    /// Writes a cell, replacing one of the same column and timestamp. Not in aggregate families.
    SetCell {
        /// Name of the family.
        family: String,
        /// Qualifier; may be empty.
        qualifier: Bytes,
        /// Version.
        timestamp: WriteTime,
        /// Value; may be empty.
        value: Bytes,
    },
    /// Adds an input to the cell of an aggregate family.
    AddToCell {
        /// Name of the family.
        family: String,
        /// Qualifier; may be empty.
        qualifier: Bytes,
        /// Version.
        timestamp: WriteTime,
        /// What is added.
        input: i64,
    },
    /// Merges an accumulated state (the value of another cell of the same aggregate: eight bytes,
    /// `i64` big-endian) into the cell of an aggregate family.
    MergeToCell {
        /// Name of the family.
        family: String,
        /// Qualifier; may be empty.
        qualifier: Bytes,
        /// Version.
        timestamp: WriteTime,
        /// The state.
        state: Bytes,
    },
    /// Deletes the cells of a column in a range of timestamps ([`TimestampRange::ALL`]: all).
    DeleteFromColumn {
        /// Name of the family.
        family: String,
        /// Qualifier; may be empty.
        qualifier: Bytes,
        /// Which versions; bounds are multiples of 1000 microseconds.
        range: TimestampRange,
    },
    /// Deletes a family of the row.
    DeleteFromFamily {
        /// Name of the family.
        family: String,
    },
    /// Deletes the row.
    DeleteFromRow,
}

/// Changes of one row, which take effect together, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowMutations {
    /// The row.
    pub row: Bytes,
    /// The changes; at least one.
    pub mutations: Vec<RowMutation>,
}

/// A change that depends on what the row holds.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckAndMutate {
    /// The row.
    pub row: Bytes,
    /// Holds if it yields any cell of the row. `None`: if the row has any cell.
    pub predicate: Option<RowFilter>,
    /// Applied if the predicate holds.
    pub on_true: Vec<RowMutation>,
    /// Applied if it does not. At least one of the two lists is not empty.
    pub on_false: Vec<RowMutation>,
}

/// How a new cell is made from the newest cell of its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Modify {
    /// These bytes after its value; an absent cell counts as empty.
    Append(Bytes),
    /// This much more, wrapping. Its value is eight bytes, an `i64` big-endian; an absent cell
    /// counts as 0.
    Increment(i64),
}

/// One rule of a read-modify-write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadModifyWriteRule {
    /// Name of the family; not an aggregate one.
    pub family: String,
    /// Qualifier; may be empty.
    pub qualifier: Bytes,
    /// What is done.
    pub modify: Modify,
}
