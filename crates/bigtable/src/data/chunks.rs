//! Rows to the wire: the cell chunks of `ReadRowsResponse`. They are written while the row is read,
//! from where its cells lie in the block cache straight into the bytes of the message: a value is
//! copied once, and a scan allocates per message and not per cell.
//!
//! Invariants, which clients check:
//! 1. The row key stands in the first chunk of a row, and with [`LargeRows::InParts`] again in the
//!    first chunk of every message that goes on with the row; nowhere else.
//! 2. Family and qualifier stand together, when either differs from the previous cell of the row
//!    and always in its first chunk; they are wrapped, so that an empty one differs from none.
//! 3. A value longer than [`VALUE_PIECE_BYTES_MAX`] is cut into pieces of that length. Every piece
//!    but the last carries the length of the whole value; pieces after the first carry nothing
//!    else, so family, qualifier, timestamp and label stand in the first one.
//! 4. The last chunk of a row commits it. Rows are never reset. That a chunk is the last one is
//!    known only when the row ends, so the mark is added to it then; until then it stays here.
//! 5. A message is sent at the first end of a row at which it has [`MESSAGE_BYTES`], or less while many
//!    answers wait for their clients ([`Meter`]). When larger rows are spread over messages is the
//!    client's choice ([`LargeRows`]).
//! 6. Messages are counted from their making, large ones while they grow. After one that found no
//!    room the writer takes nothing more: the read ends.

use crate::call::bounds::answers::{Answer, LARGE_BYTES};
use crate::call::bounds::meter::Meter;
use crate::wire::ReadRowsMessage;
use crate::wire::fields::put_varint;
use bytes::{BufMut, BytesMut};
use std::sync::Arc;
use table::{RowOutput, YieldedCell};

/// Longest piece of a value in one chunk.
pub(crate) const VALUE_PIECE_BYTES_MAX: usize = 1 << 20;
/// A message that has grown to this size is sent when its row ends.
pub(crate) const MESSAGE_BYTES: usize = 256 << 10;
/// A message of [`LargeRows::Whole`] that has grown to this size is sent at once: below the 256 MiB
/// that clients take, and memory stays bounded.
pub(crate) const MESSAGE_BYTES_MAX: usize = 240 << 20;
/// A message of [`LargeRows::InParts`] that has grown to this size is sent at once. With one more
/// piece of a value it stays below the 4 MiB that gRPC takes unless told otherwise.
pub(crate) const PART_BYTES: usize = 2 << 20;

/// Encoding of rows that are larger than a message. Clients accept different encodings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LargeRows {
    /// In one message, as long as any client takes it: the Go client refuses messages that end
    /// within a row.
    #[default]
    Whole,
    /// In parts, each beginning with the row key: the Python client refuses a part without one
    /// and, against an emulator, messages over 4 MiB. The console of a server shows the beginning of a
    /// row, and takes no long message.
    InParts,
}

impl LargeRows {
    /// Returns the encoding for the client that calls itself `name` in `x-goog-api-client`.
    pub(crate) fn for_client(name: &str) -> Self {
        let takes_parts = ["gl-python/", "stele-console/"].iter().any(|of| name.contains(of));
        if takes_parts { Self::InParts } else { Self::Whole }
    }

    fn message_bytes_max(self) -> usize {
        match self {
            Self::Whole => MESSAGE_BYTES_MAX,
            Self::InParts => PART_BYTES,
        }
    }
}

/// Gathers the rows of a read into messages.
#[derive(Debug, Default)]
pub(crate) struct ChunkWriter {
    message: BytesMut,
    /// Bytes of `message` up to the end of its last whole row.
    whole_rows_len: usize,
    full: Vec<ReadRowsMessage>,
    /// Messages of `full` that hold the begun row only.
    parts: usize,
    large_rows: LargeRows,
    /// Says how far a read is that has no rows to show.
    tells_scanned: bool,
    /// Bytes of the last finished message: the next may well be as long.
    message_len: usize,
    row_key: Vec<u8>,
    /// True if the next chunk has to carry it.
    row_key_due: bool,
    /// Bytes of the last chunk, at the end of `message`, without its field key and length.
    last_chunk_len: usize,
    /// The column of the last cell of the row.
    column: Option<(Arc<str>, Vec<u8>)>,
    /// Counts the bytes of the messages, and ends the read if there is no room for the begun row.
    meter: Meter,
}

impl RowOutput for ChunkWriter {
    type Batch = Vec<ReadRowsMessage>;

    fn start(&mut self, key: &[u8]) {
        if self.message.is_empty() {
            self.message.reserve(self.message_len.min(2 * MESSAGE_BYTES));
        }
        self.row_key.clear();
        self.row_key.extend_from_slice(key);
        self.row_key_due = true;
        self.parts = 0;
        self.column = None;
    }

    fn cell(&mut self, cell: &YieldedCell<'_>) {
        if self.meter.is_refused() {
            return;
        }
        // A large value is copied only if there is room for all of it.
        if cell.value.len() >= LARGE_BYTES && !self.has_room(cell.value.len()) {
            return;
        }
        let same_column = self.column.as_ref().is_some_and(|(family, qualifier)| {
            family == cell.family && qualifier == cell.qualifier
        });
        if !same_column {
            self.enter_column(cell);
        }
        let mut head = Head {
            row_key: &[],
            column: (!same_column).then_some((cell.family, cell.qualifier)),
            timestamp_micros: cell.timestamp.0,
            label: cell.label.map(|label| &**label),
        };
        let mut rest = cell.value;
        loop {
            self.make_room();
            let (piece, after) = rest.split_at(rest.len().min(VALUE_PIECE_BYTES_MAX));
            rest = after;
            let value_size = if rest.is_empty() { 0 } else { cell.value.len() as u64 };
            if std::mem::take(&mut self.row_key_due) {
                head.row_key = &self.row_key;
            }
            self.last_chunk_len = Chunk { head, piece, value_size }.write(&mut self.message);
            if !self.has_room(0) || rest.is_empty() {
                return;
            }
            head = Head::default();
        }
    }

    fn end(&mut self) {
        if self.meter.is_refused() {
            return;
        }
        self.commit();
        self.whole_rows_len = self.message.len();
        if self.whole_rows_len >= self.batch_bytes_max().min(MESSAGE_BYTES) {
            self.flush();
        }
    }

    fn forget(&mut self) {
        self.full.truncate(self.full.len() - self.parts);
        self.message.truncate(self.whole_rows_len);
    }

    fn scanned(&mut self, key: &[u8]) {
        if self.tells_scanned {
            self.flush();
            self.full.push(scanned_to(key));
        }
    }

    /// The messages up to the last whole row: the client gets what is there.
    fn take(&mut self) -> Vec<ReadRowsMessage> {
        self.flush();
        self.parts = 0;
        std::mem::take(&mut self.full)
    }

    fn batch_bytes_max(&self) -> usize {
        self.meter.batch_bytes(MESSAGE_BYTES)
    }
}

impl ChunkWriter {
    /// A writer of no rows yet.
    pub(crate) fn new(large_rows: LargeRows) -> Self {
        Self { large_rows, ..Self::default() }
    }

    /// The same writer for a client that wants to know how far a read without rows is.
    pub(crate) fn telling_scanned(self, tells_scanned: bool) -> Self {
        Self { tells_scanned, ..self }
    }

    /// The same writer, whose messages count as parts of `answer`.
    pub(crate) fn counting(self, answer: Option<Arc<Answer>>) -> Self {
        Self { meter: Meter::of(answer), ..self }
    }

    /// Returns whether the message may have `more` bytes than it has. Else forgets the begun row: the read
    /// ends.
    fn has_room(&mut self, more: usize) -> bool {
        let has_room = self.meter.grow_to(self.message.len() + more);
        if !has_room {
            self.message = BytesMut::new();
            self.whole_rows_len = 0;
        }
        has_room
    }

    fn enter_column(&mut self, cell: &YieldedCell<'_>) {
        let (family, qualifier) =
            self.column.get_or_insert_with(|| (Arc::clone(cell.family), Vec::new()));
        if family != cell.family {
            *family = Arc::clone(cell.family);
        }
        qualifier.clear();
        qualifier.extend_from_slice(cell.qualifier);
    }

    /// Finishes the message with its last whole row, if it has any.
    fn flush(&mut self) {
        self.finish(self.whole_rows_len);
    }

    fn finish(&mut self, len: usize) {
        if len > 0 {
            self.message_len = len;
            let message = self.message.split_to(len).freeze();
            self.full.push(ReadRowsMessage(self.meter.made(message)));
        }
        self.whole_rows_len = 0;
    }

    /// Before another chunk of a row: finishes a message that is too long for it.
    fn make_room(&mut self) {
        if self.message.len() < self.large_rows.message_bytes_max() {
            return;
        }
        self.flush();
        self.finish(self.message.len());
        self.parts += 1;
        self.row_key_due |= self.large_rows == LargeRows::InParts;
    }

    /// Adds to the last chunk that it commits the row. The chunk is moved if its length, which
    /// comes before it, then takes a byte more.
    fn commit(&mut self) {
        let (old, new) = (self.last_chunk_len, self.last_chunk_len + COMMIT.len());
        let start = self.message.len() - old;
        let more = varint_len(new as u64) - varint_len(old as u64);
        self.message.put_bytes(0, more);
        self.message.copy_within(start..start + old, start + more);
        let mut len_field = &mut self.message[start - varint_len(old as u64)..start + more];
        put_varint(&mut len_field, new as u64);
        self.message.put_slice(&COMMIT);
    }
}

/// A message that says how far the scan has come without a row to show for it.
fn scanned_to(row: &[u8]) -> ReadRowsMessage {
    let mut message = BytesMut::with_capacity(bytes_len(row));
    put_bytes(&mut message, response::LAST_SCANNED_ROW_KEY, row);
    ReadRowsMessage(message.freeze())
}

/// Fields that only the first chunk of a cell carries. Later chunks have the default.
#[derive(Clone, Copy, Default)]
struct Head<'a> {
    row_key: &'a [u8],
    column: Option<(&'a str, &'a [u8])>,
    timestamp_micros: i64,
    label: Option<&'a str>,
}

/// A chunk that does not commit its row, or not yet.
struct Chunk<'a> {
    head: Head<'a>,
    piece: &'a [u8],
    value_size: u64,
}

impl Chunk<'_> {
    /// Appends the chunk as one element of `ReadRowsResponse.chunks`; gives its bytes without field
    /// key and length.
    fn write(&self, out: &mut BytesMut) -> usize {
        let len = self.len();
        out.reserve(1 + varint_len(len as u64) + len + COMMIT.len() + 1);
        out.put_u8(response::CHUNKS);
        put_varint(out, len as u64);
        let start = out.len();
        if !self.head.row_key.is_empty() {
            put_bytes(out, chunk::ROW_KEY, self.head.row_key);
        }
        if let Some((family, qualifier)) = self.head.column {
            put_wrapped(out, chunk::FAMILY_NAME, family.as_bytes());
            put_wrapped(out, chunk::QUALIFIER, qualifier);
        }
        if self.head.timestamp_micros != 0 {
            out.put_u8(chunk::TIMESTAMP_MICROS);
            put_varint(out, self.head.timestamp_micros as u64);
        }
        if let Some(label) = self.head.label {
            put_bytes(out, chunk::LABELS, label.as_bytes());
        }
        if !self.piece.is_empty() {
            put_bytes(out, chunk::VALUE, self.piece);
        }
        if self.value_size != 0 {
            out.put_u8(chunk::VALUE_SIZE);
            put_varint(out, self.value_size);
        }
        debug_assert_eq!(out.len() - start, len);
        len
    }

    fn len(&self) -> usize {
        let unless_empty = |bytes: &[u8]| if bytes.is_empty() { 0 } else { bytes_len(bytes) };
        let unless_zero = |n: u64| if n == 0 { 0 } else { 1 + varint_len(n) };
        unless_empty(self.head.row_key)
            + self.head.column.map_or(0, |(family, qualifier)| {
                wrapped_len(family.as_bytes()) + wrapped_len(qualifier)
            })
            + unless_zero(self.head.timestamp_micros as u64)
            + self.head.label.map_or(0, |label| bytes_len(label.as_bytes()))
            + unless_empty(self.piece)
            + unless_zero(self.value_size)
    }
}

/// Last bytes of a chunk that commits its row.
const COMMIT: [u8; 2] = [chunk::COMMIT_ROW, 1];

/// Field keys of `ReadRowsResponse`: number and wire type.
mod response {
    pub(super) const CHUNKS: u8 = 1 << 3 | 2;
    pub(super) const LAST_SCANNED_ROW_KEY: u8 = 2 << 3 | 2;
}

/// Field keys of `ReadRowsResponse.CellChunk`.
mod chunk {
    pub(super) const ROW_KEY: u8 = 1 << 3 | 2;
    pub(super) const FAMILY_NAME: u8 = 2 << 3 | 2;
    pub(super) const QUALIFIER: u8 = 3 << 3 | 2;
    pub(super) const TIMESTAMP_MICROS: u8 = 4 << 3;
    pub(super) const LABELS: u8 = 5 << 3 | 2;
    pub(super) const VALUE: u8 = 6 << 3 | 2;
    pub(super) const VALUE_SIZE: u8 = 7 << 3;
    pub(super) const COMMIT_ROW: u8 = 9 << 3;
}

/// Field key of the one field of `StringValue` and `BytesValue`.
const WRAPPED_VALUE: u8 = 1 << 3 | 2;

fn put_bytes(out: &mut BytesMut, key: u8, bytes: &[u8]) {
    out.put_u8(key);
    put_varint(out, bytes.len() as u64);
    out.put_slice(bytes);
}

fn bytes_len(bytes: &[u8]) -> usize {
    1 + varint_len(bytes.len() as u64) + bytes.len()
}

fn put_wrapped(out: &mut BytesMut, key: u8, bytes: &[u8]) {
    out.put_u8(key);
    if bytes.is_empty() {
        out.put_u8(0);
    } else {
        put_varint(out, bytes_len(bytes) as u64);
        put_bytes(out, WRAPPED_VALUE, bytes);
    }
}

fn wrapped_len(bytes: &[u8]) -> usize {
    if bytes.is_empty() {
        return 2;
    }
    let inner = bytes_len(bytes);
    1 + varint_len(inner as u64) + inner
}

fn varint_len(n: u64) -> usize {
    (u64::BITS - (n | 1).leading_zeros()).div_ceil(7) as usize
}

#[cfg(test)]
mod tests;
