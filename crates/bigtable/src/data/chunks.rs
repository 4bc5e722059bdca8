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
//!    answers wait for their clients ([`Answer`]). When larger rows are spread over messages is the
//!    client's choice ([`LargeRows`]).
//! 6. Messages are counted from their making, large ones while they grow. After one that found no
//!    room the writer takes nothing more: the read ends.

use crate::call::answers::{Answer, LARGE_BYTES};
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
    /// and, against an emulator, messages over 4 MiB.
    InParts,
}

impl LargeRows {
    /// Returns the encoding for the client that calls itself `name` in `x-goog-api-client`.
    pub(crate) fn for_client(name: &str) -> Self {
        if name.contains("gl-python/") { Self::InParts } else { Self::Whole }
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
    /// Counts the bytes of the messages.
    answer: Option<Arc<Answer>>,
    /// Bytes up to which `message` was counted while it grew.
    grown_to: usize,
    /// There was no room for the begun row.
    refused: bool,
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
        if self.refused {
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
            self.count_growth();
            if rest.is_empty() || self.refused {
                return;
            }
            head = Head::default();
        }
    }

    fn end(&mut self) {
        if self.refused {
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
        self.answer.as_ref().map_or(usize::MAX, |answer| answer.batch_bytes(MESSAGE_BYTES))
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
        Self { answer, ..self }
    }

    /// Counts a message that has grown large. Without room for it, forgets the begun row.
    fn count_growth(&mut self) {
        let len = self.message.len();
        if len < self.grown_to + LARGE_BYTES {
            return;
        }
        if let Some(answer) = &self.answer {
            if answer.grow_to(len) {
                self.grown_to = len;
            } else {
                self.refused = true;
                self.message = BytesMut::new();
                self.whole_rows_len = 0;
            }
        }
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
            let message = match &self.answer {
                Some(answer) => answer.count(message),
                None => message,
            };
            self.full.push(ReadRowsMessage(message));
            if let (1.., Some(answer)) = (std::mem::take(&mut self.grown_to), &self.answer) {
                answer.grow_to(0);
            }
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
mod tests {
    use super::*;
    use crate::api::data::ReadRowsResponse;
    use crate::api::data::read_rows_response::CellChunk;
    use crate::api::data::read_rows_response::cell_chunk::RowStatus;
    use crate::call::answers::Answers;
    use bytes::Bytes;
    use proptest::prelude::*;
    use prost::Message;
    use table::{Cell, Timestamp};

    fn cell(family: &str, qualifier: &[u8], timestamp: i64, value: &[u8]) -> Cell {
        Cell {
            family: family.into(),
            qualifier: Bytes::copy_from_slice(qualifier),
            timestamp: Timestamp(timestamp),
            value: Bytes::copy_from_slice(value),
            label: None,
        }
    }

    fn encode(rows: &[(&[u8], &[Cell])]) -> Vec<ReadRowsMessage> {
        encode_for(LargeRows::Whole, rows)
    }

    fn encode_for(large_rows: LargeRows, rows: &[(&[u8], &[Cell])]) -> Vec<ReadRowsMessage> {
        let mut writer = ChunkWriter::new(large_rows);
        for (key, cells) in rows {
            give(&mut writer, key, cells);
            writer.end();
        }
        writer.take()
    }

    fn give(writer: &mut ChunkWriter, key: &[u8], cells: &[Cell]) {
        writer.start(key);
        for cell in cells {
            writer.cell(&YieldedCell {
                family: &cell.family,
                qualifier: &cell.qualifier,
                timestamp: cell.timestamp,
                value: &cell.value,
                label: cell.label.as_ref(),
            });
        }
    }

    fn write(rows: &[(&[u8], &[Cell])]) -> Vec<ReadRowsResponse> {
        let decode = |message: ReadRowsMessage| ReadRowsResponse::decode(message.0).unwrap();
        encode(rows).into_iter().map(decode).collect()
    }

    fn chunks(rows: &[(&[u8], &[Cell])]) -> Vec<CellChunk> {
        write(rows).into_iter().flat_map(|message| message.chunks).collect()
    }

    /// One line a chunk: `key|family:qualifier@timestamp=value`, `+` for more pieces, `!` commit.
    fn text(chunk: &CellChunk) -> String {
        let mut out = String::from_utf8(chunk.row_key.to_vec()).unwrap();
        out.push('|');
        if let (Some(family), Some(qualifier)) = (&chunk.family_name, &chunk.qualifier) {
            out += &format!("{family}:{}", String::from_utf8(qualifier.clone()).unwrap());
        }
        out += &format!("@{}={}", chunk.timestamp_micros, chunk.value.escape_ascii());
        for label in &chunk.labels {
            out += &format!(" [{label}]");
        }
        if chunk.row_status == Some(RowStatus::CommitRow(true)) {
            out.push('!');
        }
        out
    }

    #[test]
    fn row_and_column_are_named_once() {
        let labelled = Cell { label: Some("left".into()), ..cell("g", b"", 0, b"") };
        let rows: &[(&[u8], &[Cell])] = &[
            (b"r1", &[cell("f", b"a", 2000, b"x"), cell("f", b"a", 1000, b"y")]),
            (b"r2", &[cell("f", b"a", 1000, b"z"), cell("f", b"b", -1, b""), labelled]),
            (b"r4", &[cell("f", b"", 0, b""), cell("g", b"", 0, b"")]),
        ];
        let lines: Vec<_> = chunks(rows).iter().map(text).collect();
        assert_eq!(
            lines,
            [
                "r1|f:a@2000=x",
                "|@1000=y!",
                "r2|f:a@1000=z",
                "|f:b@-1=",
                "|g:@0= [left]!",
                "r4|f:@0=",
                "|g:@0=!",
            ]
        );
    }

    #[test]
    fn long_values_come_in_pieces() {
        for len in [0, 1, VALUE_PIECE_BYTES_MAX, VALUE_PIECE_BYTES_MAX + 1, 3 << 20] {
            let value: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let cells = [cell("f", b"q", 7, &value), cell("f", b"q", 5, b"old")];
            let chunks = chunks(&[(b"r", &cells)]);
            let pieces = len.div_ceil(VALUE_PIECE_BYTES_MAX).max(1);
            assert_eq!(chunks.len(), pieces + 1, "{len}");
            let mut whole = Vec::new();
            for (i, chunk) in chunks[..pieces].iter().enumerate() {
                whole.extend_from_slice(&chunk.value);
                let more = i + 1 < pieces;
                assert_eq!(chunk.value_size, if more { len as i32 } else { 0 });
                assert_eq!(chunk.qualifier.is_some(), i == 0);
                assert_eq!(chunk.timestamp_micros, if i == 0 { 7 } else { 0 });
                assert_eq!(chunk.row_status, None);
            }
            assert_eq!(whole, value);
            assert_eq!(text(&chunks[pieces]), "|@5=old!");
        }
    }

    #[test]
    fn messages_hold_whole_rows() {
        let value = vec![b'v'; 100 << 10];
        let cells: Vec<_> = (0..20).map(|n| cell("f", &[n], 0, &value)).collect();
        let rows: Vec<(&[u8], &[Cell])> =
            vec![(b"a", &cells[..1]), (b"b", &cells), (b"c", &cells[..2]), (b"d", &cells[..2])];
        let keys: Vec<String> = write(&rows)
            .iter()
            .map(|message| {
                let last = message.chunks.last().unwrap();
                assert_eq!(last.row_status, Some(RowStatus::CommitRow(true)));
                assert!(!message.chunks[0].row_key.is_empty());
                message.chunks.iter().flat_map(|chunk| &chunk.row_key).map(|&b| b as char).collect()
            })
            .collect();
        assert_eq!(keys, ["ab", "cd"]);
    }

    #[test]
    fn parts_of_large_rows_begin_with_the_row_key() {
        assert_eq!(LargeRows::for_client("gl-go/1.26.8 gccl/1.58.0"), LargeRows::Whole);
        assert_eq!(LargeRows::for_client("gl-python/3.11 grpc/1.85"), LargeRows::InParts);
        let value: Vec<u8> = (0..10 << 20).map(|i| (i % 251) as u8).collect();
        let cells =
            [cell("f", b"p", 0, &value), cell("f", b"q", 0, b"v"), cell("g", b"", 0, &value)];
        let small = [cell("f", b"q", 0, b"v")];
        let rows: &[(&[u8], &[Cell])] = &[(b"a", &small), (b"b", &cells), (b"c", &small)];
        let messages: Vec<_> = encode_for(LargeRows::InParts, rows)
            .into_iter()
            .map(|message| ReadRowsResponse::decode(message.0).unwrap())
            .collect();
        assert!(messages.len() > 8);
        let mut values = Vec::new();
        for message in messages {
            assert!(message.encoded_len() < 4 << 20);
            for (i, chunk) in message.chunks.iter().enumerate() {
                assert!(i > 0 || !chunk.row_key.is_empty(), "a message begins without a row key");
                values.extend_from_slice(&chunk.value);
            }
        }
        assert_eq!(values, [&b"v"[..], &value, b"v", &value, b"v"].concat());
    }

    #[test]
    fn crowded_answers_have_small_messages_and_no_room_for_a_large_row() {
        let answers = Answers::new(1 << 20);
        let holder = Answer::new(&answers);
        let taken = holder.count(vec![0; 1 << 20].into());
        let answer = Answer::new(&answers);
        let mut writer = ChunkWriter::new(LargeRows::Whole).counting(Some(answer.clone()));
        let small = [cell("f", b"q", 0, &[b'v'; 1_000])];
        for row in 0..100 {
            give(&mut writer, format!("{row}").as_bytes(), &small);
            writer.end();
        }
        let lens: Vec<_> = writer.take().iter().map(|message| message.0.len()).collect();
        assert!(lens.len() > 10 && lens.iter().all(|len| *len < 12 << 10), "{lens:?}");
        let large = [cell("f", b"q", 0, &vec![b'v'; 5 << 20]), small[0].clone()];
        give(&mut writer, b"large", &large);
        writer.end();
        assert!(answer.is_refused() && writer.take().is_empty());
        drop(taken);
        let answer = Answer::new(&answers);
        let mut writer = ChunkWriter::new(LargeRows::Whole).counting(Some(answer.clone()));
        give(&mut writer, b"large", &large);
        writer.end();
        let [ReadRowsMessage(message)] = &writer.take()[..] else { panic!("one message") };
        assert!(!answer.is_refused() && message.len() > 5 << 20);
    }

    #[test]
    fn what_is_taken_early_ends_with_a_row() {
        let mut writer = ChunkWriter::default();
        let cells = [cell("f", b"1", 0, b"v"), cell("f", b"2", 0, b"v")];
        let mut chunks = |key: &[u8], ends: bool| {
            give(&mut writer, key, &cells);
            if ends {
                writer.end();
            }
            let message = writer.take().pop()?;
            Some(ReadRowsResponse::decode(message.0).unwrap().chunks.len())
        };
        assert_eq!(chunks(b"a", true), Some(2));
        assert_eq!(chunks(b"b", false), None);
    }

    #[test]
    fn a_row_that_is_forgotten_leaves_nothing() {
        for large_rows in [LargeRows::Whole, LargeRows::InParts] {
            let long = cell("f", b"1", 0, &vec![b'v'; 5 << 20]);
            let short = [cell("f", b"2", 0, b"v")];
            for forgotten in [short.to_vec(), vec![short[0].clone(), long.clone(), long]] {
                let mut writer = ChunkWriter::new(large_rows);
                give(&mut writer, b"a", &short);
                writer.end();
                give(&mut writer, b"b", &forgotten);
                writer.forget();
                give(&mut writer, b"b", &short);
                writer.end();
                let want = encode(&[(b"a", &short), (b"b", &short)]);
                let bytes = |messages: Vec<ReadRowsMessage>| {
                    messages.iter().map(|message| message.0.to_vec()).collect::<Vec<_>>().concat()
                };
                assert_eq!(bytes(writer.take()), bytes(want));
            }
        }
    }

    #[test]
    fn only_a_row_that_fits_no_message_is_spread_over_several() {
        let value = vec![b'v'; 100 << 20];
        let cells: Vec<_> = (0..3).map(|n| cell("f", &[n], 0, &value)).collect();
        let small = [cell("f", b"q", 0, b"v")];
        let messages = encode(&[(b"a", &small), (b"b", &cells), (b"c", &small)]);
        let lens: Vec<_> = messages.iter().map(|message| message.0.len()).collect();
        assert_eq!(lens.len(), 4, "{lens:?}");
        assert!(lens[0] < 100, "{lens:?}");
        assert!((MESSAGE_BYTES_MAX..256 << 20).contains(&lens[1]), "{lens:?}");
        let rows: usize = messages
            .into_iter()
            .map(|message| ReadRowsResponse::decode(message.0).unwrap())
            .flat_map(|message| message.chunks)
            .filter(|chunk| chunk.row_status.is_some())
            .count();
        assert_eq!(rows, 3);
    }

    #[test]
    fn progress_names_the_last_row_seen_for_clients_that_want_it() {
        for tells_scanned in [false, true] {
            let mut writer = ChunkWriter::default().telling_scanned(tells_scanned);
            give(&mut writer, b"row-1", &[cell("f", b"q", 0, b"v")]);
            writer.end();
            writer.scanned(b"row-9");
            let messages = writer.take().into_iter();
            let messages = messages.map(|message| ReadRowsResponse::decode(message.0).unwrap());
            let progress: Vec<_> = messages.skip(1).collect();
            assert_eq!(progress.len(), usize::from(tells_scanned));
            for message in progress {
                let key = &message.last_scanned_row_key[..];
                assert_eq!((key, message.chunks.len()), (&b"row-9"[..], 0));
            }
        }
    }

    proptest! {
        #[test]
        fn written_chunks_are_the_generated_encoding(
            key in proptest::collection::vec(any::<u8>(), 1..300),
            cells in proptest::collection::vec(
                ("[a-c]{0,2}", proptest::collection::vec(0u8..2, 0..2), any::<i64>(),
                 proptest::collection::vec(any::<u8>(), 0..400), proptest::option::of("[a-z]{1,3}")),
                1..20),
        ) {
            let wire: Vec<_> = cells.iter().map(|(family, qualifier, timestamp, value, label)| {
                Cell { label: label.as_deref().map(Arc::from), ..cell(family, qualifier, *timestamp, value) }
            }).collect();
            let [ReadRowsMessage(message)] = &encode(&[(&key, &wire)])[..] else {
                panic!("one message is enough")
            };
            let decoded = ReadRowsResponse::decode(message.clone()).unwrap();
            prop_assert_eq!(decoded.encode_to_vec(), &message[..]);
            prop_assert_eq!(decoded.chunks.len(), cells.len());
            for (chunk, (_, _, timestamp, value, label)) in decoded.chunks.iter().zip(&cells) {
                prop_assert_eq!(chunk.timestamp_micros, *timestamp);
                prop_assert_eq!(&chunk.value[..], &value[..]);
                prop_assert_eq!(chunk.labels.first(), label.as_ref());
            }
        }
    }
}
