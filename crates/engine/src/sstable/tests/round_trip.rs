//! Random and adversarial rows against a plain sorted list of them.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn row_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = || prop_oneof![4 => Just(0u8), 4 => Just(b'a'), 2 => Just(0xff), 1 => any::<u8>()];
    prop_oneof![
        4 => proptest::collection::vec(byte(), 0..4),
        4 => proptest::collection::vec(byte(), 4..14),
        2 => proptest::collection::vec(byte(), 0..12)
            .prop_map(|tail| [b"https://example.org/a/very/long/prefix/".to_vec(), tail].concat()),
        1 => (byte(), 1000usize..70_000).prop_map(|(byte, len)| vec![byte; len.min(65_536)]),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => proptest::collection::vec(any::<u8>(), 0..40),
        2 => (any::<u8>(), 100usize..6000).prop_map(|(byte, len)| vec![byte; len]),
        1 => (any::<u8>(), 6000usize..200_000).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn entry() -> impl Strategy<Value = OwnedEntry> {
    let qualifier = || {
        prop_oneof![
            4 => proptest::collection::vec(prop_oneof![Just(0u8), Just(b'q'), Just(0xff)], 0..4),
            1 => (any::<u8>(), 300usize..3000).prop_map(|(byte, len)| vec![byte; len]),
        ]
    };
    let timestamp = || {
        prop_oneof![
            3 => 0i64..5,
            3 => (0i64..5).prop_map(|ms| 1_700_000_000_000_000 + ms * 1000),
            1 => any::<i64>(),
            1 => Just(i64::MAX),
            1 => Just(i64::MIN),
        ]
    };
    let sequence = prop_oneof![3 => Just(0u64), 3 => 1u64..5, 1 => 0..=(1u64 << 56) - 1];
    let key = (1u16..4, qualifier(), timestamp(), sequence);
    let operator = prop_oneof![Just(Operator::SumInt64), Just(Operator::MaxInt64)];
    let what = prop_oneof![
        6 => value().prop_map(|value| (Kind::Put, Scope::Column, value)),
        1 => (operator, any::<i64>()).prop_map(|(operator, value)| {
            (Kind::Merge, Scope::Column, Operand { operator, value }.encode().to_vec())
        }),
        1 => (0u8..3).prop_map(|scope| {
            (Kind::Tombstone, Scope::from_byte(scope).unwrap(), i64::MIN.to_le_bytes().to_vec())
        }),
    ];
    (key, what).prop_map(|((family, qualifier, timestamp, sequence), (kind, scope, value))| {
        let column = match scope {
            Scope::Row => Column::ROW,
            Scope::Family => Column::family(FamilyId(family)),
            Scope::Column => Column::of(FamilyId(family), &qualifier),
        };
        entry_of(column, timestamp, sequence, kind, &value)
    })
}

fn rows(count: usize, entries: usize) -> impl Strategy<Value = Rows> {
    let entries = proptest::collection::vec(entry(), 1..entries);
    proptest::collection::btree_map(row_key(), entries, 1..count)
        .prop_map(|rows| rows.into_iter().map(|(row, entries)| (row, ordered(entries))).collect())
}

fn sst_options() -> impl Strategy<Value = SstOptions> {
    (10u32..17, 0u8..3, 0u8..17, 0u8..3, 6u32..15, 0u16..8, any::<bool>()).prop_map(
        |(block, compression, bits, granularity, large, prefix, index)| SstOptions {
            block_bytes: 1 << block,
            compression: Compression::from_byte(compression).unwrap(),
            filter_bits_per_key: bits,
            filter_granularity: FilterGranularity::from_byte(granularity).unwrap(),
            large_value_bytes: 1 << large,
            row_prefix_bytes: prefix,
            prefix_index: index && prefix > 0,
            shape: Shape::DEFAULT,
        },
    )
}

/// A move of the cursor, and its outcome on a plain list: the place of the row it stands on.
#[derive(Debug, Clone)]
enum Move {
    Seek(Vec<u8>),
    SeekBefore(Option<Vec<u8>>),
    SeekNear(prop::sample::Index, bool, bool),
    Next,
    Previous,
    Entries(usize),
    Skip(u16, Vec<u8>),
    SkipNear(prop::sample::Index),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let qualifier = proptest::collection::vec(prop_oneof![Just(0u8), Just(b'q')], 0..4);
    let one = prop_oneof![
        row_key().prop_map(Move::Seek),
        proptest::option::of(row_key()).prop_map(Move::SeekBefore),
        (any::<prop::sample::Index>(), any::<bool>(), any::<bool>())
            .prop_map(|(at, after, before)| Move::SeekNear(at, after, before)),
        Just(Move::Next),
        Just(Move::Previous),
        (0usize..30).prop_map(Move::Entries),
        (0u16..5, qualifier).prop_map(|(family, qualifier)| Move::Skip(family, qualifier)),
        any::<prop::sample::Index>().prop_map(Move::SkipNear),
    ];
    proptest::collection::vec(one, 1..60)
}

/// Where a cursor over `rows` must be.
struct Expected<'a> {
    rows: &'a Rows,
    at: Option<usize>,
    entry: usize,
}

impl Expected<'_> {
    fn stand_on(&mut self, at: Option<usize>) {
        self.at = at.filter(|at| *at < self.rows.len());
        self.entry = 0;
    }

    fn lower_bound(&self, row: &[u8]) -> usize {
        self.rows.partition_point(|(key, _)| key.as_slice() < row)
    }
}

fn run(step: &Move, cursor: &mut SstCursor, expected: &mut Expected<'_>) -> Result<()> {
    let skip_to = |cursor: &mut SstCursor, expected: &mut Expected<'_>, column: Column<'_>| {
        let Some(at) = expected.at else { return Ok(()) };
        let entries = &expected.rows[at].1;
        while entries.get(expected.entry).is_some_and(|entry| entry.borrow().column < column) {
            expected.entry += 1;
        }
        cursor.skip_to_column(column)
    };
    match step {
        Move::Seek(row) => {
            expected.stand_on(Some(expected.lower_bound(row)));
            cursor.seek(row)
        }
        Move::SeekBefore(bound) => {
            let after = bound.as_ref().map_or(expected.rows.len(), |b| expected.lower_bound(b));
            expected.stand_on(after.checked_sub(1));
            cursor.seek_before(bound.as_deref())
        }
        Move::SeekNear(at, after, before) => {
            let mut row = at.get(expected.rows).0.clone();
            if *after {
                row.push(0);
            }
            let step = if *before { Move::SeekBefore(Some(row)) } else { Move::Seek(row) };
            run(&step, cursor, expected)
        }
        Move::Next if expected.at.is_some() => {
            expected.stand_on(expected.at.map(|at| at + 1));
            cursor.next_row()
        }
        Move::Previous if expected.at.is_some() => {
            expected.stand_on(expected.at.and_then(|at| at.checked_sub(1)));
            cursor.prev_row()
        }
        Move::Entries(count) => {
            for _ in 0..*count {
                if cursor.entry().is_some() {
                    cursor.next_entry()?;
                    expected.entry += 1;
                }
            }
            Ok(())
        }
        Move::Skip(family, qualifier) => {
            let column = Column::of(FamilyId(*family), qualifier);
            let column = if *family == 0 { Column::ROW } else { column };
            skip_to(cursor, expected, column)
        }
        Move::SkipNear(near) => {
            let Some(at) = expected.at else { return Ok(()) };
            let entry = near.get(&expected.rows[at].1);
            skip_to(cursor, expected, entry.borrow().column)
        }
        Move::Next | Move::Previous => Ok(()),
    }
}

fn check(cursor: &mut SstCursor, expected: &Expected<'_>) {
    let row = expected.at.map(|at| &expected.rows[at]);
    assert_eq!(cursor.row(), row.map(|(row, _)| row.as_slice()));
    let entry = row.and_then(|(_, entries)| entries.get(expected.entry));
    assert_eq!(cursor.entry(), entry.map(|entry| entry.borrow().key()));
    if let Some(entry) = entry {
        assert_eq!(cursor.entry_with_value().unwrap(), entry.borrow());
    }
}

/// The filter finds all that is there, and every row that has a tombstone.
fn check_filter(sst: &SstReader, rows: &Rows) {
    for (row, entries) in rows {
        let has_tombstone = entries.iter().any(|entry| entry.kind == Kind::Tombstone);
        assert!(sst.may_contain(&FilterQuery::row(row)).unwrap());
        let query = FilterQuery::column(row, FamilyId(77), b"absent");
        assert!(!has_tombstone || sst.may_have_tombstone(&query).unwrap());
        assert!(!has_tombstone || sst.may_contain(&query).unwrap());
        for entry in entries {
            let family = FilterQuery::family(row, entry.family);
            let column = FilterQuery::column(row, entry.family, &entry.qualifier);
            assert!(sst.may_contain(&family).unwrap() && sst.may_contain(&column).unwrap());
        }
    }
}

fn check_meta(meta: &SstMeta, rows: &Rows) {
    let entries = || rows.iter().flat_map(|(_, entries)| entries);
    assert_eq!(meta.first_row, rows.first().unwrap().0);
    assert_eq!(meta.last_row, rows.last().unwrap().0);
    assert_eq!(meta.entries, entries().count() as u64);
    let tombstones = entries().filter(|entry| entry.kind == Kind::Tombstone).count();
    assert_eq!(meta.tombstones, tombstones as u64);
    assert_eq!(Some(meta.sequence_min), entries().map(|entry| entry.sequence).min());
    assert_eq!(Some(meta.sequence_max), entries().map(|entry| entry.sequence).max());
    assert_eq!(Some(meta.timestamp_min), entries().map(|entry| entry.timestamp).min());
    assert_eq!(Some(meta.timestamp_max), entries().map(|entry| entry.timestamp).max());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_move_of_a_cursor_is_that_of_a_sorted_list(
        rows in prop_oneof![rows(40, 6), rows(6, 120), rows(300, 3)],
        options in sst_options(),
        moves in moves(),
    ) {
        let (bytes, meta) = build(&rows, &[], &options);
        check_meta(&meta, &rows);
        let sst = open(bytes).unwrap();
        prop_assert_eq!(&read_all(&sst).unwrap(), &rows);
        sst.verify().unwrap();
        check_filter(&sst, &rows);
        let mut cursor = sst.cursor(CacheFill::Bypass);
        let mut expected = Expected { rows: &rows, at: None, entry: 0 };
        for step in &moves {
            run(step, &mut cursor, &mut expected).unwrap();
            check(&mut cursor, &expected);
        }
    }
}

/// Walks backwards over everything.
fn read_back(sst: &Arc<SstReader>) -> Rows {
    let mut cursor = sst.cursor(CacheFill::Insert);
    let mut rows = Vec::new();
    cursor.seek_before(None).unwrap();
    while let Some(row) = row_of(&mut cursor).unwrap() {
        rows.push(row);
        cursor.prev_row().unwrap();
    }
    rows.reverse();
    rows
}

fn wide_row(columns: usize, versions: i64) -> Vec<OwnedEntry> {
    let columns = (0..columns).flat_map(|column| {
        let qualifier = format!("column {column:05}");
        (0..versions).map(move |version| put(1, qualifier.as_bytes(), version, 0, b"some value"))
    });
    ordered(columns.collect())
}

#[test]
fn a_wide_row_spans_blocks_and_partitions() {
    let narrow = |row: &[u8]| (row.to_vec(), vec![put(1, b"q", 1, 0, b"v")]);
    for columns in [1000, 10_000, 60_000] {
        let rows = vec![
            narrow(b"a"),
            (b"b".to_vec(), wide_row(columns, 1)),
            (b"c".to_vec(), wide_row(columns / 10, 10)),
            narrow(b"d"),
        ];
        let (bytes, _) = build(&rows, &[], &options());
        let sst = open(bytes).unwrap();
        assert_eq!(read_all(&sst).unwrap(), rows);
        assert_eq!(read_back(&sst), rows);
        sst.verify().unwrap();
        check_filter(&sst, &rows);
        let mut cursor = sst.cursor(CacheFill::Insert);
        cursor.seek(b"b").unwrap();
        for column in (0..columns).step_by(97) {
            let qualifier = format!("column {column:05}");
            cursor.skip_to_column(Column::of(FamilyId(1), qualifier.as_bytes())).unwrap();
            assert_eq!(cursor.entry().unwrap().column.qualifier, qualifier.as_bytes());
        }
        cursor.prev_row().unwrap();
        assert_eq!(cursor.row(), Some(&b"a"[..]));
    }
}

#[test]
fn many_partitions_are_found_through_the_top_index() {
    let rows: Rows = (0..200_000)
        .map(|row| (format!("row {row:08}").into_bytes(), vec![put(1, b"q", row, 0, b"value")]))
        .collect();
    let (bytes, _) = build(&rows, &[], &options());
    let sst = open(bytes).unwrap();
    assert!(sst.top.partitions().len() > 4, "the test wants several partitions");
    assert_eq!(read_all(&sst).unwrap(), rows);
    let mut cursor = sst.cursor(CacheFill::Insert);
    for (row, entries) in rows.iter().step_by(171).rev() {
        cursor.seek(row).unwrap();
        assert_eq!(row_of(&mut cursor).unwrap().unwrap(), (row.clone(), entries.clone()));
    }
    let false_positives = (0..100_000)
        .filter(|row| {
            sst.may_contain(&FilterQuery::row(format!("row {row:08}x").as_bytes())).unwrap()
        })
        .count();
    assert!(false_positives < 2000, "{false_positives} of 100,000");
    let samples = sst.sample_rows(sst.bytes() / 10).unwrap();
    assert!((8..=10).contains(&samples.len()), "{}", samples.len());
    let range = RowRange { start: samples[1].0.clone(), end: Some(samples[3].0.clone()) };
    assert_eq!(sst.approximate_bytes(&range).unwrap(), samples[3].1 - samples[1].1);
    let all = sst.approximate_bytes(&RowRange::ALL).unwrap();
    assert!(all > sst.bytes() / 2 && all < sst.bytes());
}

#[test]
fn the_largest_keys_and_values_work() {
    let long = |byte: u8, len: usize| vec![byte; len];
    let mut by_row = BTreeMap::new();
    for len in [1, 9, 65_535, 65_536] {
        let entries = vec![
            put(1, b"", 3, 1, &[]),
            put(1, &long(b'q', 65_535), 3, 1, b"v"),
            put(1, &long(b'q', 65_536), 3, 1, &long(1, 1 << 20)),
        ];
        by_row.insert(long(b'r', len), ordered(entries.clone()));
        by_row.insert([long(b'r', len - 1), vec![0]].concat(), ordered(entries));
    }
    by_row.insert(Vec::new(), vec![put(1, b"q", 1, 1, b"v")]);
    let rows: Rows = by_row.into_iter().collect();
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let options = SstOptions { compression, large_value_bytes: 1 << 20, ..options() };
        let (bytes, _) = build(&rows, &[], &options);
        let sst = open(bytes).unwrap();
        assert_eq!(read_all(&sst).unwrap(), rows);
        assert_eq!(read_back(&sst), rows);
        for (row, entries) in &rows {
            let mut cursor = sst.cursor(CacheFill::Insert);
            cursor.seek(row).unwrap();
            assert_eq!(row_of(&mut cursor).unwrap().unwrap(), (row.clone(), entries.clone()));
        }
    }
}

#[test]
fn the_bytes_of_a_range_are_told_without_reads_unless_a_bound_is_between_rows() {
    let rows: Rows = (0..20_000)
        .map(|row| (format!("row {row:08}").into_bytes(), vec![put(1, b"q", row, 0, b"value")]))
        .collect();
    let (mut bytes, _) = build(&rows, &[], &options());
    let whole = open(bytes.clone()).unwrap();
    let range = |start: &str, end: Option<&str>| RowRange {
        start: Vec::from(start),
        end: end.map(Vec::from),
    };
    for partition in whole.top.partitions() {
        bytes[partition.index.offset as usize] ^= 1;
    }
    let damaged = open(bytes).unwrap();
    let all = whole.approximate_bytes(&RowRange::ALL).unwrap();
    assert!(all > 0);
    for (start, end, want) in [
        ("", None, all),
        ("row 00000000", None, all),
        ("a", Some("row 00019999x"), all),
        ("row 00019999x", None, 0),
        ("s", Some("t"), 0),
        ("a", Some("row 00000000"), 0),
    ] {
        let told = damaged.approximate_bytes(&range(start, end)).unwrap();
        assert_eq!(told, want, "{start} {end:?}");
    }
    let last = range("row 00019000", None);
    assert!(whole.approximate_bytes(&last).unwrap() < all / 2);
    assert!(damaged.approximate_bytes(&last).is_err());
}

#[test]
fn a_file_of_dropped_ranges_alone_has_no_rows() {
    let range = |start: &[u8], end: Option<&[u8]>, sequence| RangeTombstone {
        start: start.to_vec(),
        end: end.map(<[u8]>::to_vec),
        sequence: SequenceNumber(sequence),
    };
    let dropped = [range(b"m", Some(b"p"), 9), range(b"b", None, 4), range(b"m", Some(b"p"), 9)];
    let (bytes, meta) = build(&Vec::new(), &dropped, &options());
    assert_eq!((meta.entries, meta.range_tombstones), (0, 2));
    assert_eq!(meta.first_row, b"b");
    assert_eq!(meta.dropped, Some(RowRange { start: b"b".to_vec(), end: None }));
    assert_eq!((meta.sequence_min.0, meta.sequence_max.0), (4, 9));
    let sst = open(bytes).unwrap();
    assert_eq!(sst.range_tombstones(), [dropped[1].clone(), dropped[0].clone()]);
    assert_eq!(read_all(&sst).unwrap(), Vec::new());
    sst.verify().unwrap();
    assert_eq!(read_back(&sst), Vec::new());
    assert!(!sst.may_contain(&FilterQuery::row(b"m")).unwrap());
    assert_eq!(sst.approximate_bytes(&RowRange::ALL).unwrap(), 0);
}

#[test]
#[should_panic(expected = "entries of a row out of order")]
fn entries_out_of_order_are_a_bug() {
    let rows = vec![(b"r".to_vec(), vec![put(1, b"b", 1, 1, b""), put(1, b"a", 1, 1, b"")])];
    build(&rows, &[], &options());
}

#[test]
#[should_panic(expected = "rows out of order")]
fn rows_out_of_order_are_a_bug() {
    let entries = vec![put(1, b"b", 1, 1, b"")];
    build(&vec![(b"s".to_vec(), entries.clone()), (b"r".to_vec(), entries)], &[], &options());
}
