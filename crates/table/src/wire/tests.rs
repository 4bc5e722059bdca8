use super::*;
use crate::error::Error;
use crate::filter::{ColumnRange, Condition, RowFilter, ValueRange};
use crate::local::TabletSamples;
use crate::mutate::{
    CheckAndMutate, Modify, Once, OnceRow, ReadModifyWriteRule, RowMutation, RowMutations,
    WriteTime,
};
use crate::row::{Cell, ReadStats, Row, RowBatch, RowPiece};
use crate::row_output::{RowOutput, YieldedCell};
use crate::row_set::{KeyRange, RowSet};
use crate::schema::{AddInput, TableName};
use crate::store::{DropRows, ReadRows, RowKeySample};
use crate::subset::{Qualifiers, Subset};
use engine::{Direction, Timestamp, TimestampRange, TreeId};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::ops::Bound;
use std::sync::Arc;

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..6).prop_map(Bytes::from)
}

fn text() -> impl Strategy<Value = String> {
    "[a-zé]{0,5}"
}

fn table() -> TableName {
    TableName::new("projects/p/instances/i/tables/t").unwrap()
}

fn bound() -> impl Strategy<Value = Bound<Bytes>> {
    prop_oneof![
        bytes().prop_map(Bound::Included),
        bytes().prop_map(Bound::Excluded),
        Just(Bound::Unbounded)
    ]
}

fn times() -> impl Strategy<Value = TimestampRange> {
    (any::<i64>(), option::of(any::<i64>())).prop_map(|(start, end)| TimestampRange {
        start: Timestamp(start),
        end: end.map(Timestamp),
    })
}

fn subset() -> impl Strategy<Value = Subset> {
    let qualifiers = (vec(bytes(), 0..3), vec(bytes(), 0..2))
        .prop_map(|(exact, prefixes)| Qualifiers { exact, prefixes });
    (vec(bytes(), 0..3), proptest::collection::btree_map(text(), qualifiers, 0..3))
        .prop_map(|(rows, families)| Subset::new(&rows, families))
}

fn leaf() -> impl Strategy<Value = RowFilter> {
    use RowFilter as F;
    prop_oneof![
        Just(F::Sink),
        Just(F::PassAll),
        Just(F::BlockAll),
        Just(F::StripValue),
        bytes().prop_map(F::RowKeyRegex),
        (0.0..1.0).prop_map(F::RowSample),
        text().prop_map(F::FamilyNameRegex),
        bytes().prop_map(F::ColumnQualifierRegex),
        (text(), bound(), bound()).prop_map(|(family, start, end)| {
            F::ColumnRange(ColumnRange { family, start, end })
        }),
        times().prop_map(F::TimestampRange),
        bytes().prop_map(F::ValueRegex),
        (bound(), bound()).prop_map(|(start, end)| F::ValueRange(ValueRange { start, end })),
        any::<i32>().prop_map(F::CellsPerRowOffset),
        any::<i32>().prop_map(F::CellsPerRowLimit),
        any::<i32>().prop_map(F::CellsPerColumnLimit),
        text().prop_map(F::ApplyLabel),
    ]
}

fn filter() -> impl Strategy<Value = RowFilter> {
    use RowFilter as F;
    leaf().prop_recursive(4, 24, 4, |inner| {
        let condition = (inner.clone(), option::of(inner.clone()), option::of(inner.clone()))
            .prop_map(|(predicate, on_true, on_false)| Condition { predicate, on_true, on_false });
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(F::Chain),
            vec(inner.clone(), 0..4).prop_map(F::Interleave),
            condition.prop_map(|condition| F::Condition(Box::new(condition))),
            (subset(), inner).prop_map(|(part, of)| F::Within(Arc::new(part), Box::new(of))),
        ]
    })
}

fn read() -> impl Strategy<Value = ReadRows> {
    let range = (bound(), bound()).prop_map(|(start, end)| KeyRange { start, end });
    let rows = (vec(bytes(), 0..4), vec(range, 0..3));
    (rows, option::of(filter()), any::<u64>(), any::<bool>()).prop_map(
        |((keys, ranges), filter, rows_limit, forward)| ReadRows {
            rows: RowSet { keys, ranges },
            filter,
            rows_limit,
            direction: if forward { Direction::Forward } else { Direction::Reverse },
        },
    )
}

fn write_time() -> impl Strategy<Value = WriteTime> {
    prop_oneof![
        Just(WriteTime::Server),
        any::<i64>().prop_map(|at| WriteTime::At(Timestamp(at))),
        any::<i64>().prop_map(|at| WriteTime::Truncated(Timestamp(at))),
    ]
}

fn mutation() -> impl Strategy<Value = RowMutation> {
    use RowMutation as M;
    let input = prop_oneof![
        bytes().prop_map(AddInput::Raw),
        bytes().prop_map(AddInput::Bytes),
        text().prop_map(AddInput::String),
        any::<i64>().prop_map(AddInput::Int64),
    ];
    prop_oneof![
        (text(), bytes(), write_time(), bytes()).prop_map(
            |(family, qualifier, timestamp, value)| M::SetCell {
                family,
                qualifier,
                timestamp,
                value
            }
        ),
        (text(), bytes(), write_time(), input).prop_map(|(family, qualifier, timestamp, input)| {
            M::AddToCell { family, qualifier, timestamp, input }
        }),
        (text(), bytes(), write_time(), bytes()).prop_map(
            |(family, qualifier, timestamp, state)| M::MergeToCell {
                family,
                qualifier,
                timestamp,
                state
            }
        ),
        (text(), bytes(), times()).prop_map(|(family, qualifier, range)| M::DeleteFromColumn {
            family,
            qualifier,
            range
        }),
        text().prop_map(|family| M::DeleteFromFamily { family }),
        Just(M::DeleteFromRow),
    ]
}

fn once_row() -> impl Strategy<Value = OnceRow> {
    let once = (bytes(), option::of(any::<i64>()))
        .prop_map(|(token, start_micros)| Once { token, start_micros });
    (option::of(once), bytes(), vec(mutation(), 0..4)).prop_map(|(once, row, mutations)| OnceRow {
        change: RowMutations { row, mutations },
        once,
    })
}

fn trees() -> impl Strategy<Value = Vec<TreeId>> {
    vec(any::<u32>().prop_map(TreeId), 0..4)
}

fn call() -> impl Strategy<Value = Call> {
    let check = (bytes(), option::of(filter()), vec(mutation(), 0..3), vec(mutation(), 0..3));
    let modify =
        prop_oneof![bytes().prop_map(Modify::Append), any::<i64>().prop_map(Modify::Increment)];
    let rule = (text(), bytes(), modify)
        .prop_map(|(family, qualifier, modify)| ReadModifyWriteRule { family, qualifier, modify });
    let drop = prop_oneof![Just(DropRows::All), bytes().prop_map(DropRows::Prefix)];
    prop_oneof![
        read().prop_map(|request| Call::ReadRows(table(), request)),
        vec(once_row(), 0..4).prop_map(|rows| Call::MutateRows(table(), rows)),
        check.prop_map(|(row, predicate, on_true, on_false)| {
            let check = CheckAndMutate { row, predicate, on_true, on_false };
            Call::CheckAndMutate(table(), check)
        }),
        (bytes(), vec(rule, 0..3)).prop_map(|(row, rules)| Call::ReadModifyWrite {
            table: table(),
            row,
            rules
        }),
        (drop, trees()).prop_map(|(rows, trees)| Call::DropRows { table: table(), rows, trees }),
        trees().prop_map(|trees| Call::SampleTablets { table: table(), trees }),
    ]
}

fn cell() -> impl Strategy<Value = Cell> {
    // Few names, so that they come again.
    let name = || "[ab]".prop_map(|name| Arc::<str>::from(name.as_str()));
    (name(), "[xy]?", any::<i64>(), bytes(), option::of(name())).prop_map(
        |(family, qualifier, timestamp, value, label)| Cell {
            family,
            qualifier: qualifier.into(),
            timestamp: Timestamp(timestamp),
            value,
            label,
        },
    )
}

fn batch() -> impl Strategy<Value = RowBatch<Vec<RowPiece>>> {
    let piece = prop_oneof![
        bytes().prop_map(RowPiece::Start),
        cell().prop_map(RowPiece::Cell),
        cell().prop_map(RowPiece::Cell),
        Just(RowPiece::End),
        bytes().prop_map(RowPiece::Scanned),
    ];
    (vec(piece, 0..12), any::<[u64; 5]>()).prop_map(|(rows, counts)| {
        let [rows_seen, rows_returned, cells_seen, cells_returned, bytes_returned] = counts;
        let stats =
            ReadStats { rows_seen, rows_returned, cells_seen, cells_returned, bytes_returned };
        RowBatch { rows, stats }
    })
}

fn error() -> impl Strategy<Value = Error> {
    let texts = prop_oneof![
        Just(Error::ResourceExhausted as fn(String) -> Error),
        Just(Error::Busy as fn(String) -> Error),
        Just(Error::FailedPrecondition as fn(String) -> Error),
        Just(Error::OutOfRange as fn(String) -> Error),
        Just(Error::Aborted as fn(String) -> Error),
        Just(Error::PermissionDenied as fn(String) -> Error),
        Just(Error::Unavailable as fn(String) -> Error),
        Just(Error::DataLoss as fn(String) -> Error),
        Just(Error::Internal as fn(String) -> Error),
    ];
    prop_oneof![
        (texts, text()).prop_map(|(of, text)| of(text)),
        text().prop_map(Error::no_table),
        text().prop_map(Error::no_family),
        text().prop_map(|name| Error::AlreadyExists { what: "table", name }),
        (text(), text()).prop_map(|(field, message)| Error::InvalidArgument { field, message }),
        option::of(any::<u64>()).prop_map(|leader| Error::NotLeader { leader }),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    let sample =
        (bytes(), any::<u64>()).prop_map(|(key, offset_bytes)| RowKeySample { key, offset_bytes });
    let samples = (any::<u32>(), any::<u64>(), vec(sample, 0..3))
        .prop_map(|(tree, bytes, keys)| TabletSamples { tree: TreeId(tree), bytes, keys });
    let row = (bytes(), vec(cell(), 0..4)).prop_map(|(key, cells)| Row { key, cells });
    let result = option::of(error()).prop_map(|error| error.map_or(Ok(()), Err));
    prop_oneof![
        batch().prop_map(Answer::Rows),
        Just(Answer::Done),
        vec(result, 0..4).prop_map(Answer::Results),
        any::<bool>().prop_map(Answer::Checked),
        row.prop_map(Answer::Row),
        vec(samples, 0..3).prop_map(Answer::Samples),
        error().prop_map(Answer::Failed),
    ]
}

/// Decodes `frame` cut at every length, and with some of its bytes changed: nothing panics, and what is
/// still a value keeps its encoding.
fn damaged(frame: &[u8]) {
    for len in 0..frame.len() {
        fuzz(&frame[..len]);
    }
    for at in 0..frame.len() {
        let mut changed = frame.to_vec();
        changed[at] ^= 1 << (at % 8);
        fuzz(&changed);
    }
}

proptest! {
    #[test]
    fn calls_come_back_as_they_were(call in call()) {
        let frame = Bytes::from(call.encode());
        prop_assert_eq!(Call::decode(&frame), Ok(call));
        damaged(&frame);
    }

    #[test]
    fn answers_come_back_as_they_were(answer in answer()) {
        let frame = Bytes::from(answer.encode());
        prop_assert_eq!(Answer::decode(&frame), Ok(answer));
        damaged(&frame);
    }
}

#[test]
fn version_1_is_frozen() {
    let mutation = RowMutation::SetCell {
        family: "f".into(),
        qualifier: "q".into(),
        timestamp: WriteTime::At(Timestamp(1_000)),
        value: "v".into(),
    };
    let change = RowMutations { row: "r".into(), mutations: vec![mutation] };
    let call =
        Call::MutateRows(TableName::new("p/t").unwrap(), vec![OnceRow { change, once: None }]);
    let golden = b"\x01\x02\x03p/t\x01\x00\x01r\x01\x01\x01f\x01q\x01\xe8\x03\0\0\0\0\0\0\x01v";
    assert_eq!(call.encode(), golden);

    let cell = |timestamp, value: &'static str| {
        RowPiece::Cell(Cell {
            family: "f".into(),
            qualifier: "q".into(),
            timestamp: Timestamp(timestamp),
            value: value.into(),
            label: None,
        })
    };
    let rows = vec![RowPiece::Start("r".into()), cell(2, "b"), cell(1, "a"), RowPiece::End];
    let stats = ReadStats {
        rows_seen: 1,
        rows_returned: 1,
        cells_seen: 2,
        cells_returned: 2,
        bytes_returned: 3,
    };
    let golden = b"\x01\x01\x01\x01\x02\x02\x03\
        \x01\x01r\x02\x00\x00\x01f\x01q\x02\0\0\0\0\0\0\0\x01b\
        \x02\x02\x00\x01\0\0\0\0\0\0\0\x01a\x03";
    assert_eq!(Answer::Rows(RowBatch { rows, stats }).encode(), golden);
}

#[test]
fn rows_encoded_where_they_lie_are_the_same_bytes() {
    let family: Arc<str> = "f".into();
    let label: Arc<str> = "l".into();
    let cell = |qualifier: &'static str, label| YieldedCell {
        family: &family,
        qualifier: qualifier.as_bytes(),
        timestamp: Timestamp(5),
        value: b"v",
        label,
    };
    let mut output = EncodedPieces::default();
    output.start(b"forgotten");
    output.cell(&cell("other", Some(&label)));
    output.forget();
    output.start(b"r");
    output.cell(&cell("q", None));
    output.cell(&cell("q", Some(&label)));
    output.end();
    output.scanned(b"s");
    let stats = ReadStats { rows_seen: u64::MAX, ..ReadStats::default() };
    let frame = Answer::encode_rows(&RowBatch { rows: output.take(), stats });
    let Ok(Answer::Rows(batch)) = Answer::decode(&frame.clone().into()) else {
        panic!("{frame:?}")
    };
    assert_eq!(batch.rows.len(), 5);
    assert_eq!(Answer::Rows(batch).encode(), frame);
    // The next batch stands by itself, also within a row.
    output.cell(&cell("q", None));
    let next = Answer::encode_rows(&RowBatch { rows: output.take(), stats });
    assert!(Answer::decode(&next.into()).is_ok());
}

#[test]
fn frames_are_bounded_whatever_they_say() {
    let decode = |frame: &[u8]| Call::decode(&Bytes::copy_from_slice(frame));
    let head = b"\x01\x02\x03p/t";
    // A count without its items.
    let counted = [&head[..], &[0xff; 9], &[0x01]].concat();
    assert!(matches!(decode(&counted), Err(WireError::Decode(_))));
    // More items than a frame may have: rows without key and mutations.
    let mut many = head.to_vec();
    many.put_varint(2 << 20);
    many.resize(many.len() + (6 << 20), 0);
    assert!(matches!(decode(&many), Err(WireError::TooMuch(_))));
    // A filter that nests without end.
    let mut deep = b"\x01\x01\x03p/t\x01\x00\x00\x00\x01".to_vec();
    deep.extend([1u8, 1].repeat(100_000));
    assert!(matches!(decode(&deep), Err(WireError::TooMuch(_))));
    assert_eq!(decode(b"\x02"), Err(WireError::Version(2)));
    assert_eq!(decode(b"\x00"), Err(WireError::Invalid("version")));
    assert!(decode(b"").is_err());
}

#[test]
fn errors_of_kinds_that_this_version_does_not_know_are_decoded() {
    let error = Error::NotFound { what: "authorized view", name: "v".into() };
    let decoded = Answer::decode(&Answer::Failed(error).encode().into());
    let expected = Error::NotFound { what: "resource", name: "v".into() };
    assert_eq!(decoded, Ok(Answer::Failed(expected)));
}
