//! Batches of a read: pieces of rows, encoded one after the other up to the end of the frame.
//!
//! 1. Names of families and labels stand once in a batch, where they come first; later a number counts them.
//! 2. A cell of the column of the cell before it, in this batch, does not repeat its qualifier.
//! 3. A batch is decoded without the batches before it.

use super::{Frame, Result, Wire, WireError};
use crate::row::{Cell, RowPiece};
use crate::row_output::{RowOutput, YieldedCell};
use base::codec::PutBytes;
use bytes::Bytes;
use engine::Timestamp;
use std::sync::Arc;

const START: u8 = 1;
const CELL: u8 = 2;
const END: u8 = 3;
const SCANNED: u8 = 4;
/// Flag of a cell: it has a label.
const LABELLED: u8 = 1;
/// Flag of a cell: it is of the column of the cell before it.
const SAME_COLUMN: u8 = 2;

/// Encodes the rows of a read where they lie, for [`Answer::encode_rows`](super::Answer::encode_rows).
#[derive(Debug, Default)]
pub struct EncodedPieces {
    out: Vec<u8>,
    names: Vec<Arc<str>>,
    /// Family, by its number, and qualifier of the cell before.
    column: Option<(usize, Bytes)>,
    /// The state where the row begins that was begun.
    row: Option<(usize, usize)>,
}

impl EncodedPieces {
    /// Puts the number of a name, and the name if it is new.
    fn name(&mut self, name: &Arc<str>) -> usize {
        let same = |known: &Arc<str>| Arc::ptr_eq(known, name) || known == name;
        if let Some(number) = self.names.iter().position(same) {
            self.out.put_varint(number as u64);
            return number;
        }
        let number = self.names.len();
        self.out.put_varint(number as u64);
        self.out.put_string(name.as_bytes());
        self.names.push(Arc::clone(name));
        number
    }
}

impl RowOutput for EncodedPieces {
    type Batch = Vec<u8>;

    fn start(&mut self, key: &[u8]) {
        self.row = Some((self.out.len(), self.names.len()));
        self.out.push(START);
        self.out.put_string(key);
    }

    fn cell(&mut self, cell: &YieldedCell<'_>) {
        self.out.push(CELL);
        let flags = self.out.len();
        self.out.push(0);
        let family = self.name(cell.family);
        let is_same = |(number, qualifier): &(usize, Bytes)| {
            *number == family && qualifier[..] == *cell.qualifier
        };
        if self.column.as_ref().is_some_and(is_same) {
            self.out[flags] |= SAME_COLUMN;
        } else {
            self.out.put_string(cell.qualifier);
            self.column = Some((family, Bytes::copy_from_slice(cell.qualifier)));
        }
        self.out.put_i64(cell.timestamp.0);
        self.out.put_string(cell.value);
        if let Some(label) = cell.label {
            self.out[flags] |= LABELLED;
            self.name(label);
        }
    }

    fn end(&mut self) {
        self.out.push(END);
        self.row = None;
    }

    fn forget(&mut self) {
        if let Some((len, names)) = self.row.take() {
            self.out.truncate(len);
            self.names.truncate(names);
            self.column = None;
        }
    }

    fn scanned(&mut self, key: &[u8]) {
        self.out.push(SCANNED);
        self.out.put_string(key);
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(self).out
    }
}

/// Puts the pieces of a batch.
pub(super) fn put_pieces(pieces: &[RowPiece], out: &mut Vec<u8>) {
    let mut encoded = EncodedPieces { out: std::mem::take(out), ..EncodedPieces::default() };
    for piece in pieces {
        match piece {
            RowPiece::Start(key) => encoded.start(key),
            RowPiece::Cell(cell) => encoded.cell(&YieldedCell {
                family: &cell.family,
                qualifier: &cell.qualifier,
                timestamp: cell.timestamp,
                value: &cell.value,
                label: cell.label.as_ref(),
            }),
            RowPiece::End => encoded.end(),
            RowPiece::Scanned(key) => encoded.scanned(key),
        }
    }
    *out = encoded.take();
}

/// The pieces up to the end of the frame. Their order is the sender's to keep.
pub(super) fn read_pieces(frame: &mut Frame<'_>) -> Result<Vec<RowPiece>> {
    let (mut pieces, mut names, mut column) = (Vec::new(), Vec::new(), None);
    while !frame.reader.is_empty() {
        frame.item()?;
        pieces.push(match frame.u8("piece")? {
            START => RowPiece::Start(frame.string("row key")?),
            CELL => RowPiece::Cell(read_cell(frame, &mut names, &mut column)?),
            END => RowPiece::End,
            SCANNED => RowPiece::Scanned(frame.string("row key")?),
            _ => return Err(WireError::Invalid("piece")),
        });
    }
    Ok(pieces)
}

fn read_cell(
    frame: &mut Frame<'_>,
    names: &mut Vec<Arc<str>>,
    column: &mut Option<(Arc<str>, Bytes)>,
) -> Result<Cell> {
    let flags = frame.u8("flags")?;
    if flags & !(LABELLED | SAME_COLUMN) != 0 {
        return Err(WireError::Invalid("flags of a cell"));
    }
    let family = read_name(frame, names)?;
    let qualifier = match column {
        Some((before, qualifier)) if flags & SAME_COLUMN != 0 && *before == family => {
            qualifier.clone()
        }
        _ if flags & SAME_COLUMN != 0 => return Err(WireError::Invalid("repeated column")),
        _ => frame.string("qualifier")?,
    };
    *column = Some((Arc::clone(&family), qualifier.clone()));
    let timestamp = Timestamp(Wire::read(frame)?);
    let value = frame.string("value")?;
    let label = (flags & LABELLED != 0).then(|| read_name(frame, names)).transpose()?;
    Ok(Cell { family, qualifier, timestamp, value, label })
}

fn read_name(frame: &mut Frame<'_>, names: &mut Vec<Arc<str>>) -> Result<Arc<str>> {
    let number = usize::try_from(frame.u64("name")?).unwrap_or(usize::MAX);
    if number > names.len() {
        return Err(WireError::Invalid("name"));
    }
    if number == names.len() {
        names.push(frame.text("name")?.into());
    }
    Ok(Arc::clone(&names[number]))
}
