//! Change streams as messages: requests to the table layer's values, and changes of rows in pieces of
//! about a mebibyte. Changes that wait for their client are counted with the other answers.
//!
//! Clients put a change together again by these rules:
//! 1. The first message of a change has its row, commit time and cluster; later ones have the type
//!    `CONTINUATION` and chunks only; the last one is `done`, with the token.
//! 2. A long value comes in several messages. Its piece is the last chunk of a message, but for the
//!    last piece, which is the first chunk of one.

use crate::api::data;
use crate::api::data::mutation::{self, Mutation as Wire};
use crate::api::data::read_change_stream_request::StartFrom;
use crate::api::data::read_change_stream_response::data_change::Type;
use crate::api::data::read_change_stream_response::mutation_chunk::ChunkInfo;
use crate::api::data::read_change_stream_response::{
    CloseStream, DataChange, Heartbeat, MutationChunk, StreamRecord,
};
use crate::api::data::row_range::{EndKey, StartKey};
use crate::api::data::value::Kind;
use crate::api::timestamp;
use crate::call::bounds::answers::{Answer, Reserved};
use crate::call::status;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use table::mutate::WriteTime;
use table::{
    AddInput, ChangeRecord, ChangeStream, ChangesFrom, Error, ReadChanges, Result, RowChange,
    RowMutation, RowRange, TimestampRange,
};
use tonic::Status;

/// Bytes of mutations in a message, about, and of a piece of a value.
const MESSAGE_BYTES: usize = 1 << 20;
/// Time between heartbeats unless a request says otherwise, and what it may say.
const HEARTBEAT: Duration = Duration::from_secs(5);
const HEARTBEATS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);

/// Converts the request of a `ReadChangeStream` call.
pub(crate) fn read_changes(request: data::ReadChangeStreamRequest) -> Result<ReadChanges> {
    let Some(partition) = request.partition else {
        return Err(Error::invalid("partition", "is not set"));
    };
    let from = match request.start_from {
        None => ChangesFrom::Now,
        Some(StartFrom::StartTime(time)) => {
            ChangesFrom::Time(micros(&time).map_err(|error| error.within("start_time"))?)
        }
        Some(StartFrom::ContinuationTokens(tokens)) => {
            let parts = tokens.tokens.into_iter().map(|token| {
                let missing = || Error::invalid("continuation_tokens", "a partition is not set");
                Ok((row_range(token.partition.ok_or_else(missing)?), token.token))
            });
            ChangesFrom::Tokens(parts.collect::<Result<_>>()?)
        }
    };
    let until = request.end_time.as_ref().map(micros).transpose();
    Ok(ReadChanges {
        rows: row_range(partition),
        from,
        until_micros: until.map_err(|error| error.within("end_time"))?,
        heartbeat: heartbeat(request.heartbeat_duration)?,
    })
}

fn heartbeat(wire: Option<prost_types::Duration>) -> Result<Duration> {
    let Some(wire) = wire else { return Ok(HEARTBEAT) };
    let given = Duration::try_from(wire).ok().filter(|given| HEARTBEATS.contains(given));
    let rule = "must be from 100 milliseconds to an hour";
    given.ok_or_else(|| Error::invalid("heartbeat_duration", rule))
}

fn micros(time: &prost_types::Timestamp) -> Result<i64> {
    crate::api::micros(time).ok_or_else(|| Error::invalid("", "is no time"))
}

/// Returns the rows of a partition; an empty end key is no end.
fn row_range(partition: data::StreamPartition) -> RowRange {
    let after = |key: Bytes| [&key[..], &[0]].concat();
    let range = partition.row_range.unwrap_or_default();
    RowRange {
        start: match range.start_key {
            Some(StartKey::StartKeyClosed(key)) => key.to_vec(),
            Some(StartKey::StartKeyOpen(key)) => after(key),
            None => Vec::new(),
        },
        end: match range.end_key {
            Some(EndKey::EndKeyOpen(key)) if key.is_empty() => None,
            Some(EndKey::EndKeyOpen(key)) => Some(key.to_vec()),
            Some(EndKey::EndKeyClosed(key)) => Some(after(key)),
            None => None,
        },
    }
}

/// Returns the partition of `rows`.
pub(crate) fn partition(rows: &RowRange) -> data::StreamPartition {
    let start = Bytes::copy_from_slice(&rows.start);
    let end = Bytes::copy_from_slice(rows.end.as_deref().unwrap_or_default());
    let row_range = data::RowRange {
        start_key: Some(StartKey::StartKeyClosed(start)),
        end_key: Some(EndKey::EndKeyOpen(end)),
    };
    data::StreamPartition { row_range: Some(row_range) }
}

/// Makes messages of what a stream of `rows` tells.
pub(crate) struct ChangeWriter {
    pub(crate) rows: RowRange,
    /// The id of the cluster that commits.
    pub(crate) cluster: String,
}

impl ChangeWriter {
    /// Returns the messages of an item.
    pub(crate) fn messages(&self, record: ChangeRecord) -> Vec<data::ReadChangeStreamResponse> {
        let records = match record {
            ChangeRecord::Row(change) => {
                self.data_changes(change).into_iter().map(StreamRecord::DataChange).collect()
            }
            ChangeRecord::Heartbeat { token, low_watermark_micros } => {
                let partition = Some(partition(&self.rows));
                vec![StreamRecord::Heartbeat(Heartbeat {
                    continuation_token: Some(data::StreamContinuationToken { partition, token }),
                    estimated_low_watermark: Some(timestamp(low_watermark_micros)),
                })]
            }
        };
        records.into_iter().map(response).collect()
    }

    /// Returns the message at the end of a stream that has told all it was asked for.
    pub(crate) fn end() -> data::ReadChangeStreamResponse {
        let status = Some(Default::default());
        response(StreamRecord::CloseStream(CloseStream { status, ..Default::default() }))
    }

    fn data_changes(&self, change: RowChange) -> Vec<DataChange> {
        let RowChange { row, commit_micros, tiebreaker, mutations, token } = change;
        let mut pieces = Pieces::default();
        mutations.into_iter().for_each(|mutation| pieces.add(mutation));
        let mut messages: Vec<DataChange> = pieces.finish().into_iter().map(continuation).collect();
        if let Some(first) = messages.first_mut() {
            first.r#type = Type::User as i32;
            first.source_cluster_id.clone_from(&self.cluster);
            first.row_key = row;
            first.commit_timestamp = Some(timestamp(commit_micros));
            first.tiebreaker = tiebreaker;
        }
        if let Some(last) = messages.last_mut() {
            last.done = true;
            last.token = token;
            last.estimated_low_watermark = Some(timestamp(commit_micros));
        }
        messages
    }
}

type Item = std::result::Result<data::ReadChangeStreamResponse, Status>;

/// The messages of one change stream, each made when it is wanted, and the one that ends it.
pub(crate) struct ChangeMessages {
    records: ChangeStream,
    writer: ChangeWriter,
    /// Messages to send before more changes are read.
    ready: std::vec::IntoIter<data::ReadChangeStreamResponse>,
    /// Counts the bytes of `ready`, until all of them are sent.
    answer: Option<Arc<Answer>>,
    reserved: Option<Reserved>,
    /// True after an error, or after the message that ends the stream.
    ended: bool,
}

impl ChangeMessages {
    /// The messages of `records` to the client of `answer`.
    pub(crate) fn new(
        records: ChangeStream,
        writer: ChangeWriter,
        answer: Option<Arc<Answer>>,
    ) -> Self {
        let ready = Vec::new().into_iter();
        Self { records, writer, ready, answer, reserved: None, ended: false }
    }

    /// Returns the messages as a stream. Dropping it ends the read.
    pub(crate) fn boxed(self) -> BoxStream<'static, Item> {
        let messages = stream::unfold(self, |mut messages| async move {
            let message = messages.next().await?;
            Some((message, messages))
        });
        messages.boxed()
    }

    async fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(message) = self.ready.next() {
                return Some(Ok(message));
            }
            self.reserved = None;
            if self.ended {
                return None;
            }
            let records = self.records.next().await;
            let prepared =
                records.map(|records| self.prepare(records.map_err(status::from_error)?));
            match prepared {
                Some(Ok(())) => {}
                Some(Err(status)) => {
                    self.ended = true;
                    return Some(Err(status));
                }
                None => {
                    self.ended = true;
                    return Some(Ok(ChangeWriter::end()));
                }
            }
        }
    }

    /// Makes the messages of `records`. Refuses them if they are large and there is no room.
    fn prepare(&mut self, records: Vec<ChangeRecord>) -> std::result::Result<(), Status> {
        let messages = records.into_iter().flat_map(|record| self.writer.messages(record));
        let messages: Vec<_> = messages.collect();
        if let Some(answer) = &self.answer {
            self.reserved = answer.reserve(messages.iter().map(Message::encoded_len).sum());
            if let Some(refusal) = answer.refusal() {
                return Err(refusal);
            }
        }
        self.ready = messages.into_iter();
        Ok(())
    }
}

fn response(record: StreamRecord) -> data::ReadChangeStreamResponse {
    data::ReadChangeStreamResponse { stream_record: Some(record) }
}

fn continuation(chunks: Vec<MutationChunk>) -> DataChange {
    DataChange { r#type: Type::Continuation as i32, chunks, ..Default::default() }
}

/// Chunks of mutations, cut into messages.
#[derive(Default)]
struct Pieces {
    full: Vec<Vec<MutationChunk>>,
    open: Vec<MutationChunk>,
    open_bytes: usize,
}

impl Pieces {
    fn add(&mut self, mutation: RowMutation) {
        let wire = wire(mutation);
        let long = match &wire {
            Wire::SetCell(set) => Some(set.value.clone()).filter(|v| v.len() > MESSAGE_BYTES),
            _ => None,
        };
        let Some(value) = long else {
            let bytes = mutation_bytes(&wire);
            if self.open_bytes + bytes > MESSAGE_BYTES {
                self.cut();
            }
            return self.push(wire, None, bytes);
        };
        self.cut();
        let Wire::SetCell(set) = wire else { return };
        for start in (0..value.len()).step_by(MESSAGE_BYTES) {
            let piece = value.slice(start..value.len().min(start + MESSAGE_BYTES));
            let is_last = start + piece.len() == value.len();
            let bytes = piece.len();
            let info = ChunkInfo {
                chunked_value_size: i32::try_from(value.len()).unwrap_or(i32::MAX),
                chunked_value_offset: i32::try_from(start).unwrap_or(i32::MAX),
                last_chunk: is_last,
            };
            let set = mutation::SetCell { value: piece, ..set.clone() };
            self.push(Wire::SetCell(set), Some(info), bytes);
            if !is_last {
                self.cut();
            }
        }
    }

    fn push(&mut self, mutation: Wire, chunk_info: Option<ChunkInfo>, bytes: usize) {
        let mutation = Some(data::Mutation { mutation: Some(mutation) });
        self.open.push(MutationChunk { chunk_info, mutation });
        self.open_bytes += bytes;
    }

    /// Ends the message that is being filled, if it has anything.
    fn cut(&mut self) {
        if !self.open.is_empty() {
            self.full.push(std::mem::take(&mut self.open));
        }
        self.open_bytes = 0;
    }

    fn finish(mut self) -> Vec<Vec<MutationChunk>> {
        self.cut();
        self.full
    }
}

/// Returns about how long a mutation is in a message.
fn mutation_bytes(mutation: &Wire) -> usize {
    64 + match mutation {
        Wire::SetCell(set) => set.column_qualifier.len() + set.value.len(),
        Wire::DeleteFromColumn(delete) => delete.column_qualifier.len(),
        other => prost::Message::encoded_len(&data::Mutation { mutation: Some(other.clone()) }),
    }
}

fn raw(kind: Kind) -> Option<data::Value> {
    Some(data::Value { kind: Some(kind), ..Default::default() })
}

/// Returns a committed mutation, which has all its times, as a message.
fn wire(mutation: RowMutation) -> Wire {
    let micros = |time: WriteTime| match time {
        WriteTime::At(time) | WriteTime::Truncated(time) => time.0,
        WriteTime::Server => -1,
    };
    match mutation {
        RowMutation::SetCell { family, qualifier, timestamp, value } => {
            Wire::SetCell(mutation::SetCell {
                family_name: family,
                column_qualifier: qualifier,
                timestamp_micros: micros(timestamp),
                value,
            })
        }
        RowMutation::AddToCell { family, qualifier, timestamp, input } => {
            Wire::AddToCell(mutation::AddToCell {
                family_name: family,
                column_qualifier: raw(Kind::RawValue(qualifier)),
                timestamp: raw(Kind::RawTimestampMicros(micros(timestamp))),
                input: raw(match input {
                    AddInput::Int64(value) => Kind::IntValue(value),
                    AddInput::Raw(value) => Kind::RawValue(value),
                    AddInput::Bytes(value) => Kind::BytesValue(value),
                    AddInput::String(value) => Kind::StringValue(value),
                }),
            })
        }
        RowMutation::MergeToCell { family, qualifier, timestamp, state } => {
            Wire::MergeToCell(mutation::MergeToCell {
                family_name: family,
                column_qualifier: raw(Kind::RawValue(qualifier)),
                timestamp: raw(Kind::RawTimestampMicros(micros(timestamp))),
                input: raw(Kind::RawValue(state)),
            })
        }
        RowMutation::DeleteFromColumn { family, qualifier, range } => {
            Wire::DeleteFromColumn(mutation::DeleteFromColumn {
                family_name: family,
                column_qualifier: qualifier,
                time_range: Some(time_range(range)),
            })
        }
        RowMutation::DeleteFromFamily { family } => {
            Wire::DeleteFromFamily(mutation::DeleteFromFamily { family_name: family })
        }
        RowMutation::DeleteFromRow => Wire::DeleteFromRow(mutation::DeleteFromRow {}),
    }
}

/// Returns a range of times; 0 stands for no bound.
fn time_range(range: TimestampRange) -> data::TimestampRange {
    data::TimestampRange {
        start_timestamp_micros: range.start.0.max(0),
        end_timestamp_micros: range.end.map_or(0, |end| end.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::bounds::Bounds;
    use crate::server::Limits;
    use table::Timestamp;

    fn set(len: usize, fill: u8) -> RowMutation {
        RowMutation::SetCell {
            family: "f".to_owned(),
            qualifier: Bytes::from_static(b"q"),
            timestamp: WriteTime::At(Timestamp(7_000)),
            value: vec![fill; len].into(),
        }
    }

    fn change(mutations: Vec<RowMutation>) -> RowChange {
        let (row, token) = (Bytes::from_static(b"row"), "token".to_owned());
        RowChange { row, commit_micros: 1_500_001, tiebreaker: 9, mutations, token }
    }

    fn written(mutations: Vec<RowMutation>) -> Vec<DataChange> {
        let writer = ChangeWriter { rows: RowRange::ALL, cluster: "c".to_owned() };
        let messages = writer.messages(ChangeRecord::Row(change(mutations)));
        let records = messages.into_iter().map(|message| match message.stream_record {
            Some(StreamRecord::DataChange(change)) => change,
            other => panic!("{other:?}"),
        });
        records.collect()
    }

    /// The lengths of all values, put together from pieces as clients do.
    fn joined(messages: &[DataChange]) -> Vec<(usize, u8)> {
        let mut values = Vec::new();
        let mut open: Option<(i32, Vec<u8>)> = None;
        for message in messages {
            for (at, chunk) in message.chunks.iter().enumerate() {
                let Some(Wire::SetCell(set)) =
                    chunk.mutation.as_ref().and_then(|m| m.mutation.as_ref())
                else {
                    panic!("{chunk:?}")
                };
                let Some(info) = chunk.chunk_info else {
                    assert!(open.is_none(), "nothing comes between pieces");
                    values.push((set.value.len(), set.value.first().copied().unwrap_or(0)));
                    continue;
                };
                let (size, value) = open.get_or_insert((info.chunked_value_size, Vec::new()));
                assert_eq!(
                    (*size, value.len() as i32),
                    (info.chunked_value_size, info.chunked_value_offset)
                );
                value.extend_from_slice(&set.value);
                assert_eq!(info.last_chunk, value.len() as i32 == *size);
                assert!(info.last_chunk || at + 1 == message.chunks.len());
                assert!(info.chunked_value_offset == 0 || at == 0);
                if info.last_chunk {
                    values.push((value.len(), value[0]));
                    open = None;
                }
            }
        }
        assert!(open.is_none());
        values
    }

    #[tokio::test]
    async fn changes_that_wait_are_counted_and_large_ones_need_room() {
        let bounds = Bounds::new(&Limits { answer_bytes_max: 1 << 20, ..Limits::within(0) });
        let messages = || {
            let records = [set(3 * MESSAGE_BYTES, 7), set(10_000, 8)]
                .map(|mutation| Ok(vec![ChangeRecord::Row(change(vec![mutation]))]));
            let writer = ChangeWriter { rows: RowRange::ALL, cluster: "c".to_owned() };
            let records = stream::iter(records).boxed();
            ChangeMessages::new(records, writer, Some(bounds.answer_for(None)))
        };
        let mut slow = messages();
        assert!(slow.next().await.unwrap().is_ok());
        assert!(bounds.holdings().answer_bytes > 3 * MESSAGE_BYTES);
        let mut other = messages();
        let refused = other.next().await.unwrap().unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert!(other.next().await.is_none(), "no message says that the stream ended well");
        let mut small = 0;
        while let Some(message) = slow.next().await {
            let large = message.unwrap().encoded_len() > MESSAGE_BYTES / 2;
            small += usize::from(!large && bounds.holdings().answer_bytes > 10_000);
        }
        assert_eq!((small, bounds.holdings().answer_bytes), (1, 0));
    }

    #[test]
    fn changes_of_any_size_are_put_together_again() {
        let sizes: &[&[usize]] = &[
            &[0],
            &[1, 2, 3],
            &[MESSAGE_BYTES],
            &[MESSAGE_BYTES + 1],
            &[3 * MESSAGE_BYTES + 5, 0, 7],
            &[10, 2 * MESSAGE_BYTES, 2 * MESSAGE_BYTES + 1, 10],
            &[MESSAGE_BYTES / 2; 7],
        ];
        for sizes in sizes {
            let fills = || sizes.iter().zip(1u8..);
            let messages = written(fills().map(|(len, fill)| set(*len, fill)).collect());
            let want: Vec<_> =
                fills().map(|(len, fill)| (*len, if *len > 0 { fill } else { 0 })).collect();
            assert_eq!(joined(&messages), want);
            let (first, last) = (&messages[0], &messages[messages.len() - 1]);
            assert_eq!((first.r#type, &first.row_key[..]), (Type::User as i32, &b"row"[..]));
            assert_eq!((first.source_cluster_id.as_str(), first.tiebreaker), ("c", 9));
            let time = first.commit_timestamp.unwrap();
            assert_eq!((time.seconds, time.nanos), (1, 500_001_000));
            assert_eq!((last.done, last.token.as_str()), (true, "token"));
            for (at, message) in messages.iter().enumerate() {
                assert_eq!(message.done, at + 1 == messages.len());
                assert_eq!(message.row_key.is_empty(), at > 0);
                assert!(prost::Message::encoded_len(message) < 2 * MESSAGE_BYTES + 4_096);
            }
        }
    }

    #[test]
    fn requests_name_what_is_wrong_with_them() {
        let good = || data::ReadChangeStreamRequest {
            partition: Some(partition(&RowRange::prefix(b"a"))),
            ..Default::default()
        };
        let read = read_changes(good()).unwrap();
        assert_eq!((read.rows, read.from), (RowRange::prefix(b"a"), ChangesFrom::Now));
        assert_eq!((read.until_micros, read.heartbeat), (None, HEARTBEAT));
        let time = |seconds, nanos| Some(prost_types::Timestamp { seconds, nanos });
        let beat = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
        let token = data::StreamContinuationToken::default();
        let tokens = data::StreamContinuationTokens { tokens: vec![token] };
        let tokens = Some(StartFrom::ContinuationTokens(tokens));
        let start = time(i64::MAX, 0).map(StartFrom::StartTime);
        for (field, wrong) in [
            ("partition", data::ReadChangeStreamRequest { partition: None, ..good() }),
            ("end_time", data::ReadChangeStreamRequest { end_time: time(1, -1), ..good() }),
            ("start_time", data::ReadChangeStreamRequest { start_from: start, ..good() }),
            ("continuation_tokens", data::ReadChangeStreamRequest { start_from: tokens, ..good() }),
            (
                "heartbeat_duration",
                data::ReadChangeStreamRequest { heartbeat_duration: beat(0, 1), ..good() },
            ),
            (
                "heartbeat_duration",
                data::ReadChangeStreamRequest { heartbeat_duration: beat(-5, 0), ..good() },
            ),
        ] {
            let error = read_changes(wrong).unwrap_err();
            let named = matches!(&error, Error::InvalidArgument { field: of, .. } if of == field);
            assert!(named, "{field}: {error:?}");
        }
    }

    #[test]
    fn partitions_round_trip() {
        for rows in [RowRange::ALL, RowRange::prefix(b"a"), RowRange::single(b"row")] {
            assert_eq!(row_range(partition(&rows)), rows);
        }
        let (start, end) = (Bytes::from_static(b"a"), Bytes::from_static(b"b"));
        let row_range_wire = data::RowRange {
            start_key: Some(StartKey::StartKeyOpen(start)),
            end_key: Some(EndKey::EndKeyClosed(end)),
        };
        let of = row_range(data::StreamPartition { row_range: Some(row_range_wire) });
        let (start, end) = (b"a\0".to_vec(), Some(b"b\0".to_vec()));
        assert_eq!(of, RowRange { start, end });
    }
}
