//! Calls, and the values that only calls have.

use super::{Frame, Result, Wire, WireError, decode, encode};
use crate::mutate::{
    CheckAndMutate, Modify, Once, OnceRow, ReadModifyWriteRule, RowMutation, RowMutations,
    WriteTime,
};
use crate::row_set::{KeyRange, RowSet};
use crate::schema::{AddInput, TableName};
use crate::store::{DropRows, ReadRows};
use base::codec::PutBytes;
use bytes::Bytes;
use engine::{Direction, Timestamp, TimestampRange, TreeId};
use std::ops::Bound;

/// A call of [`crate::Store`] that one node carries out for another.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// [`crate::Store::read_rows`]. Answers: [`Answer::Rows`](super::Answer), any number, then an end.
    ReadRows(TableName, ReadRows),
    /// [`crate::Store::mutate_rows_once`], or `mutate_rows` if no row has a token.
    MutateRows(TableName, Vec<OnceRow>),
    CheckAndMutate(TableName, CheckAndMutate),
    ReadModifyWrite {
        table: TableName,
        row: Bytes,
        rules: Vec<ReadModifyWriteRule>,
    },
    /// Drop rows of some tablets: [`crate::Local::drop_rows_of`].
    DropRows {
        table: TableName,
        rows: DropRows,
        /// Trees of the tablets that the callee leads.
        trees: Vec<TreeId>,
    },
    /// Sample some tablets of a table: [`crate::Local::sample_tablets`].
    SampleTablets {
        table: TableName,
        trees: Vec<TreeId>,
    },
}

impl Call {
    /// Returns the frame of the call.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Returns the call of a frame.
    pub fn decode(frame: &Bytes) -> Result<Self> {
        decode(frame)
    }
}

impl Wire for Call {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::ReadRows(table, request) => {
                out.push(1);
                table.put(out);
                request.put(out);
            }
            Self::MutateRows(table, rows) => {
                out.push(2);
                table.put(out);
                rows.put(out);
            }
            Self::CheckAndMutate(table, request) => {
                out.push(3);
                table.put(out);
                request.put(out);
            }
            Self::ReadModifyWrite { table, row, rules } => {
                out.push(4);
                table.put(out);
                row.put(out);
                rules.put(out);
            }
            Self::DropRows { table, rows, trees } => {
                out.push(5);
                table.put(out);
                rows.put(out);
                trees.put(out);
            }
            Self::SampleTablets { table, trees } => {
                out.push(6);
                table.put(out);
                trees.put(out);
            }
        }
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        let kind = frame.u8("call")?;
        let table = TableName::read(frame)?;
        Ok(match kind {
            1 => Self::ReadRows(table, Wire::read(frame)?),
            2 => Self::MutateRows(table, Wire::read(frame)?),
            3 => Self::CheckAndMutate(table, Wire::read(frame)?),
            4 => {
                Self::ReadModifyWrite { table, row: Wire::read(frame)?, rules: Wire::read(frame)? }
            }
            5 => Self::DropRows { table, rows: Wire::read(frame)?, trees: Wire::read(frame)? },
            6 => Self::SampleTablets { table, trees: Wire::read(frame)? },
            _ => return Err(WireError::Invalid("call")),
        })
    }
}

impl Wire for TableName {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_string(self.as_str().as_bytes());
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Self::new(frame.text("table name")?).map_err(|_| WireError::Invalid("table name"))
    }
}

impl Wire for TreeId {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_varint(self.0.into());
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        u32::try_from(frame.u64("tree")?).map(Self).map_err(|_| WireError::Invalid("tree"))
    }
}

impl Wire for ReadRows {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(match self.direction {
            Direction::Forward => 1,
            Direction::Reverse => 2,
        });
        self.rows_limit.put(out);
        self.rows.keys.put(out);
        self.rows.ranges.put(out);
        self.filter.put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        let direction = match frame.u8("direction")? {
            1 => Direction::Forward,
            2 => Direction::Reverse,
            _ => return Err(WireError::Invalid("direction")),
        };
        let rows_limit = Wire::read(frame)?;
        let rows = RowSet { keys: Wire::read(frame)?, ranges: Wire::read(frame)? };
        Ok(Self { rows, filter: Wire::read(frame)?, rows_limit, direction })
    }
}

impl Wire for KeyRange {
    fn put(&self, out: &mut Vec<u8>) {
        self.start.put(out);
        self.end.put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(Self { start: Wire::read(frame)?, end: Wire::read(frame)? })
    }
}

impl Wire for Bound<Bytes> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Unbounded => out.push(0),
            Self::Included(key) => {
                out.push(1);
                key.put(out);
            }
            Self::Excluded(key) => {
                out.push(2);
                key.put(out);
            }
        }
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        match frame.u8("bound")? {
            0 => Ok(Self::Unbounded),
            1 => Ok(Self::Included(Wire::read(frame)?)),
            2 => Ok(Self::Excluded(Wire::read(frame)?)),
            _ => Err(WireError::Invalid("bound")),
        }
    }
}

impl Wire for TimestampRange {
    fn put(&self, out: &mut Vec<u8>) {
        self.start.0.put(out);
        self.end.map(|end| end.0).put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        let start = Timestamp(Wire::read(frame)?);
        Ok(Self { start, end: Option::<i64>::read(frame)?.map(Timestamp) })
    }
}

impl Wire for DropRows {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::All => out.push(1),
            Self::Prefix(prefix) => {
                out.push(2);
                prefix.put(out);
            }
        }
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        match frame.u8("rows to drop")? {
            1 => Ok(Self::All),
            2 => Ok(Self::Prefix(Wire::read(frame)?)),
            _ => Err(WireError::Invalid("rows to drop")),
        }
    }
}

impl Wire for OnceRow {
    fn put(&self, out: &mut Vec<u8>) {
        self.once.put(out);
        self.change.row.put(out);
        self.change.mutations.put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        let once = Wire::read(frame)?;
        let change = RowMutations { row: Wire::read(frame)?, mutations: Wire::read(frame)? };
        Ok(Self { change, once })
    }
}

impl Wire for Once {
    fn put(&self, out: &mut Vec<u8>) {
        self.token.put(out);
        self.start_micros.put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(Self { token: Wire::read(frame)?, start_micros: Wire::read(frame)? })
    }
}

impl Wire for CheckAndMutate {
    fn put(&self, out: &mut Vec<u8>) {
        self.row.put(out);
        self.predicate.put(out);
        self.on_true.put(out);
        self.on_false.put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(Self {
            row: Wire::read(frame)?,
            predicate: Wire::read(frame)?,
            on_true: Wire::read(frame)?,
            on_false: Wire::read(frame)?,
        })
    }
}

impl Wire for RowMutation {
    fn put(&self, out: &mut Vec<u8>) {
        let mut column = |tag: u8, family: &String, qualifier: &Bytes| {
            out.push(tag);
            family.put(out);
            qualifier.put(out);
        };
        match self {
            Self::SetCell { family, qualifier, timestamp, value } => {
                column(1, family, qualifier);
                timestamp.put(out);
                value.put(out);
            }
            Self::AddToCell { family, qualifier, timestamp, input } => {
                column(2, family, qualifier);
                timestamp.put(out);
                input.put(out);
            }
            Self::MergeToCell { family, qualifier, timestamp, state } => {
                column(3, family, qualifier);
                timestamp.put(out);
                state.put(out);
            }
            Self::DeleteFromColumn { family, qualifier, range } => {
                column(4, family, qualifier);
                range.put(out);
            }
            Self::DeleteFromFamily { family } => {
                out.push(5);
                family.put(out);
            }
            Self::DeleteFromRow => out.push(6),
        }
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        let tag = frame.u8("mutation")?;
        if tag == 6 {
            return Ok(Self::DeleteFromRow);
        }
        let family = String::read(frame)?;
        if tag == 5 {
            return Ok(Self::DeleteFromFamily { family });
        }
        let qualifier = Bytes::read(frame)?;
        if tag == 4 {
            return Ok(Self::DeleteFromColumn { family, qualifier, range: Wire::read(frame)? });
        }
        let timestamp = WriteTime::read(frame)?;
        Ok(match tag {
            1 => Self::SetCell { family, qualifier, timestamp, value: Wire::read(frame)? },
            2 => Self::AddToCell { family, qualifier, timestamp, input: Wire::read(frame)? },
            3 => Self::MergeToCell { family, qualifier, timestamp, state: Wire::read(frame)? },
            _ => return Err(WireError::Invalid("mutation")),
        })
    }
}

impl Wire for WriteTime {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Server => out.push(0),
            Self::At(timestamp) => {
                out.push(1);
                timestamp.0.put(out);
            }
            Self::Truncated(timestamp) => {
                out.push(2);
                timestamp.0.put(out);
            }
        }
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        match frame.u8("time")? {
            0 => Ok(Self::Server),
            1 => Ok(Self::At(Timestamp(Wire::read(frame)?))),
            2 => Ok(Self::Truncated(Timestamp(Wire::read(frame)?))),
            _ => Err(WireError::Invalid("time")),
        }
    }
}

impl Wire for AddInput {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Raw(value) => {
                out.push(1);
                value.put(out);
            }
            Self::Bytes(value) => {
                out.push(2);
                value.put(out);
            }
            Self::String(value) => {
                out.push(3);
                value.put(out);
            }
            Self::Int64(value) => {
                out.push(4);
                value.put(out);
            }
        }
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(match frame.u8("input")? {
            1 => Self::Raw(Wire::read(frame)?),
            2 => Self::Bytes(Wire::read(frame)?),
            3 => Self::String(Wire::read(frame)?),
            4 => Self::Int64(Wire::read(frame)?),
            _ => return Err(WireError::Invalid("input")),
        })
    }
}

impl Wire for ReadModifyWriteRule {
    fn put(&self, out: &mut Vec<u8>) {
        self.family.put(out);
        self.qualifier.put(out);
        match &self.modify {
            Modify::Append(suffix) => {
                out.push(1);
                suffix.put(out);
            }
            Modify::Increment(amount) => {
                out.push(2);
                amount.put(out);
            }
        }
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        let (family, qualifier) = (Wire::read(frame)?, Wire::read(frame)?);
        let modify = match frame.u8("rule")? {
            1 => Modify::Append(Wire::read(frame)?),
            2 => Modify::Increment(Wire::read(frame)?),
            _ => return Err(WireError::Invalid("rule")),
        };
        Ok(Self { family, qualifier, modify })
    }
}
