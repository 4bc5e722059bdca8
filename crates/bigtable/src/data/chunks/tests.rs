//! Messages of rows, decoded with the generated API.

use super::*;
use crate::api::data::ReadRowsResponse;
use crate::api::data::read_rows_response::CellChunk;
use crate::api::data::read_rows_response::cell_chunk::RowStatus;
use crate::call::bounds::Bounds;
use crate::server::Limits;
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
    assert_eq!(LargeRows::for_client("stele-console/1.0.0"), LargeRows::InParts);
    let value: Vec<u8> = (0..10 << 20).map(|i| (i % 251) as u8).collect();
    let cells = [cell("f", b"p", 0, &value), cell("f", b"q", 0, b"v"), cell("g", b"", 0, &value)];
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
    let bounds = Bounds::new(&Limits { answer_bytes_max: 1 << 20, ..Limits::within(0) });
    let taken = bounds.answer_for(None).reserve(1 << 20);
    let answer = bounds.answer_for(None);
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
    assert!(answer.refusal().is_some() && writer.take().is_empty());
    drop(taken);
    let answer = bounds.answer_for(None);
    let mut writer = ChunkWriter::new(LargeRows::Whole).counting(Some(answer.clone()));
    give(&mut writer, b"large", &large);
    writer.end();
    let [ReadRowsMessage(message)] = &writer.take()[..] else { panic!("one message") };
    assert!(answer.refusal().is_none() && message.len() > 5 << 20);
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
