//! Answers.

use super::rows::{put_pieces, read_pieces};
use super::{Frame, Result, VERSION, Wire, WireError, decode, encode};
use crate::error::Error;
use crate::local::TabletSamples;
use crate::row::{Cell, ReadStats, Row, RowBatch, RowPiece};
use crate::store::RowKeySample;
use bytes::Bytes;
use engine::Timestamp;

/// An answer to a [`Call`](super::Call), or a part of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A batch of a read; more may follow.
    Rows(RowBatch<Vec<RowPiece>>),
    /// The call was carried out. The last answer of a read, and of a call that returns nothing.
    Done,
    /// Results of the entries of a `MutateRows`.
    Results(Vec<std::result::Result<(), Error>>),
    /// The outcome of the predicate of a `CheckAndMutate`.
    Checked(bool),
    /// The row of a `ReadModifyWrite`.
    Row(Row),
    Samples(Vec<TabletSamples>),
    /// The call failed, or the read ended early. Nothing follows.
    Failed(Error),
}

impl Answer {
    /// Returns the frame of the answer.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Returns the frame of [`Answer::Rows`] for a batch of [`EncodedPieces`](super::EncodedPieces).
    pub fn encode_rows(batch: &RowBatch<Vec<u8>>) -> Vec<u8> {
        let mut out = Vec::with_capacity(ROWS_HEAD_BYTES_MAX + batch.rows.len());
        out.extend_from_slice(&[VERSION, ROWS]);
        batch.stats.put(&mut out);
        out.extend_from_slice(&batch.rows);
        out
    }

    /// Returns the answer of a frame.
    pub fn decode(frame: &Bytes) -> Result<Self> {
        decode(frame)
    }
}

const ROWS: u8 = 1;
/// Version, kind, and five varints.
const ROWS_HEAD_BYTES_MAX: usize = 52;

impl Wire for Answer {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Rows(batch) => {
                out.push(ROWS);
                batch.stats.put(out);
                put_pieces(&batch.rows, out);
            }
            Self::Done => out.push(2),
            Self::Results(results) => {
                out.push(3);
                results.put(out);
            }
            Self::Checked(holds) => out.extend_from_slice(&[4, u8::from(*holds)]),
            Self::Row(row) => {
                out.push(5);
                row.put(out);
            }
            Self::Samples(samples) => {
                out.push(6);
                samples.put(out);
            }
            Self::Failed(error) => {
                out.push(7);
                error.put(out);
            }
        }
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(match frame.u8("answer")? {
            ROWS => Self::Rows(RowBatch { stats: Wire::read(frame)?, rows: read_pieces(frame)? }),
            2 => Self::Done,
            3 => Self::Results(Wire::read(frame)?),
            4 => match frame.u8("outcome")? {
                0 => Self::Checked(false),
                1 => Self::Checked(true),
                _ => return Err(WireError::Invalid("outcome")),
            },
            5 => Self::Row(Wire::read(frame)?),
            6 => Self::Samples(Wire::read(frame)?),
            7 => Self::Failed(Wire::read(frame)?),
            _ => return Err(WireError::Invalid("answer")),
        })
    }
}

impl Wire for ReadStats {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { rows_seen, rows_returned, cells_seen, cells_returned, bytes_returned } = self;
        [rows_seen, rows_returned, cells_seen, cells_returned, bytes_returned]
            .iter()
            .for_each(|count| count.put(out));
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(Self {
            rows_seen: Wire::read(frame)?,
            rows_returned: Wire::read(frame)?,
            cells_seen: Wire::read(frame)?,
            cells_returned: Wire::read(frame)?,
            bytes_returned: Wire::read(frame)?,
        })
    }
}

impl Wire for std::result::Result<(), Error> {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_ref().err().cloned().put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(Option::read(frame)?.map_or(Ok(()), Err))
    }
}

impl Wire for Row {
    fn put(&self, out: &mut Vec<u8>) {
        self.key.put(out);
        self.cells.put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(Self { key: Wire::read(frame)?, cells: Wire::read(frame)? })
    }
}

impl Wire for Cell {
    fn put(&self, out: &mut Vec<u8>) {
        self.family.to_string().put(out);
        self.qualifier.put(out);
        self.timestamp.0.put(out);
        self.value.put(out);
        self.label.as_ref().map(ToString::to_string).put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(Self {
            family: frame.text("family")?.into(),
            qualifier: Wire::read(frame)?,
            timestamp: Timestamp(Wire::read(frame)?),
            value: Wire::read(frame)?,
            label: Option::<String>::read(frame)?.map(Into::into),
        })
    }
}

impl Wire for TabletSamples {
    fn put(&self, out: &mut Vec<u8>) {
        self.tree.put(out);
        self.bytes.put(out);
        self.keys.put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(Self { tree: Wire::read(frame)?, bytes: Wire::read(frame)?, keys: Wire::read(frame)? })
    }
}

impl Wire for RowKeySample {
    fn put(&self, out: &mut Vec<u8>) {
        self.key.put(out);
        self.offset_bytes.put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        Ok(Self { key: Wire::read(frame)?, offset_bytes: Wire::read(frame)? })
    }
}

/// The kinds of things that errors name. Another kind is decoded as the last one.
const KINDS: [&str; 4] = ["table", "column family", "deleted table", "resource"];

/// The texts of an error: its tag, and what it says.
fn texts(error: &Error) -> (u8, &str, &str) {
    match error {
        Error::NotFound { what, name } => (1, what, name),
        Error::AlreadyExists { what, name } => (2, what, name),
        Error::InvalidArgument { field, message } => (3, field, message),
        Error::ResourceExhausted(text) => (4, "", text),
        Error::Busy(text) => (5, "", text),
        Error::FailedPrecondition(text) => (6, "", text),
        Error::OutOfRange(text) => (7, "", text),
        Error::Aborted(text) => (8, "", text),
        Error::PermissionDenied(text) => (9, "", text),
        Error::Unavailable(text) => (10, "", text),
        Error::DataLoss(text) => (11, "", text),
        Error::Internal(text) => (12, "", text),
        Error::NotLeader { .. } => (NOT_LEADER, "", ""),
    }
}

const NOT_LEADER: u8 = 13;

impl Wire for Error {
    fn put(&self, out: &mut Vec<u8>) {
        let (tag, what, text) = texts(self);
        out.push(tag);
        match self {
            Self::NotLeader { leader } => return leader.put(out),
            Self::NotFound { .. } | Self::AlreadyExists { .. } | Self::InvalidArgument { .. } => {
                what.to_owned().put(out);
            }
            _ => {}
        }
        text.to_owned().put(out);
    }

    fn read(frame: &mut Frame<'_>) -> Result<Self> {
        let tag = frame.u8("error")?;
        Ok(match tag {
            1 => Self::NotFound { what: kind(frame)?, name: Wire::read(frame)? },
            2 => Self::AlreadyExists { what: kind(frame)?, name: Wire::read(frame)? },
            3 => Self::InvalidArgument { field: Wire::read(frame)?, message: Wire::read(frame)? },
            4 => Self::ResourceExhausted(Wire::read(frame)?),
            5 => Self::Busy(Wire::read(frame)?),
            6 => Self::FailedPrecondition(Wire::read(frame)?),
            7 => Self::OutOfRange(Wire::read(frame)?),
            8 => Self::Aborted(Wire::read(frame)?),
            9 => Self::PermissionDenied(Wire::read(frame)?),
            10 => Self::Unavailable(Wire::read(frame)?),
            11 => Self::DataLoss(Wire::read(frame)?),
            12 => Self::Internal(Wire::read(frame)?),
            NOT_LEADER => Self::NotLeader { leader: Wire::read(frame)? },
            _ => return Err(WireError::Invalid("error")),
        })
    }
}

fn kind(frame: &mut Frame<'_>) -> Result<&'static str> {
    let named = frame.text("kind of a thing")?;
    let known = KINDS.iter().find(|kind| **kind == named);
    Ok(known.copied().unwrap_or("resource"))
}
