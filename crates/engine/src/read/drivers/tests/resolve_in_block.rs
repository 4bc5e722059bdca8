//! Rows with tombstones and with large values, which are read without merging.

use super::*;

/// The cells of family 1 that a way of reading gives of a row.
type Cells = Vec<(Vec<u8>, i64, Vec<u8>)>;

/// What each way of reading rows gives of `row`, which is the same; a get of column `q` as well.
/// All that is needed stays in the cache, so that no way has to wait.
fn by_every_way(tree: &Tree, row: &[u8], snapshot: Option<&Snapshot>) -> Cells {
    let (cells, by_task) = by_each_way(tree, row, snapshot);
    assert!(by_task, "{}", row.escape_ascii());
    cells
}

/// The same where the cache may not keep it; and whether the row was read without a thread.
fn by_each_way(tree: &Tree, row: &[u8], snapshot: Option<&Snapshot>) -> (Cells, bool) {
    let columns = Columns::All;
    let selection = RowSelection::of(&columns);
    let mut cells = Vec::new();
    tree.read_row_with(row, &selection, snapshot, |cell| cells.push(owned(cell))).unwrap();
    let by_task = read_in_task(tree, row, std::iter::empty(), &selection, snapshot);
    let differs = by_task.as_ref().is_some_and(|by_task| *by_task != cells);
    assert!(!differs, "{}", row.escape_ascii());
    let of = ColumnOf { row, family: FamilyId(1), qualifier: b"q" };
    let newest = cells.iter().find(|cell| cell.qualifier == b"q");
    let newest = newest.map(|cell| (cell.timestamp, cell.value.clone()));
    assert_eq!(tree.get(of, snapshot).unwrap(), newest, "{}", row.escape_ascii());
    let mut many = None;
    tree.multi_get_with(&[of], snapshot, |_, cell| {
        many = cell.map(|(timestamp, value)| (timestamp, value.to_vec()));
    })
    .unwrap();
    assert_eq!(many, newest, "{}", row.escape_ascii());
    let mut gets = tree.in_flight(1, snapshot);
    gets.submit(0, of);
    assert_eq!(gets.wait().unwrap().1.unwrap(), newest, "{}", row.escape_ascii());
    let cells = cells.into_iter().map(|cell| (cell.qualifier, cell.timestamp.0, cell.value));
    (cells.collect(), by_task.is_some())
}

/// Each case is a row: what is written to the older file, then to the newer one, and what a reader
/// must see of it. None of it is merged, for readers before and after the newer file.
#[test]
fn tombstones_are_decided_in_place() {
    fn put(batch: &mut WriteBatch, row: &[u8], qualifier: &[u8], timestamp: i64) {
        let column = Column::of(FamilyId(1), qualifier);
        batch.put(row, column, Timestamp(timestamp), &timestamp.to_be_bytes());
    }
    fn up_to(end: i64) -> TimestampRange {
        TimestampRange { start: Timestamp::MIN, end: Some(Timestamp(end)) }
    }
    // The row, what is written to each file, what is seen, and whether one file decides the row.
    // Whole rows in two files are merged, unless the newer one has deleted the row.
    type Write = fn(&mut WriteBatch, &[u8]);
    type Seen = &'static [(&'static [u8], i64)];
    let cases: [(&str, Write, Write, Seen, bool); 10] = [
        (
            "deleted",
            |b, r| (1..4).for_each(|time| put(b, r, b"q", time)),
            |b, r| b.delete_row(r),
            &[],
            true,
        ),
        (
            "deleted, and put again with an old timestamp",
            |b, r| put(b, r, b"q", 9),
            |b, r| {
                b.delete_row(r);
                put(b, r, b"q", 2);
            },
            &[(b"q", 2)],
            true,
        ),
        (
            "put and deleted in one batch",
            |b, r| put(b, r, b"q", 9),
            |b, r| {
                put(b, r, b"q", 2);
                b.delete_row(r);
            },
            &[],
            true,
        ),
        (
            "only old timestamps deleted",
            |b, r| put(b, r, b"q", 9),
            |b, r| b.delete(r, Column::ROW, up_to(9)),
            &[(b"q", 9)],
            false,
        ),
        (
            "old timestamps deleted of a family, newer file has older cell",
            |b, r| (5..8).for_each(|time| put(b, r, b"q", time)),
            |b, r| {
                b.delete(r, Column::family(FamilyId(1)), up_to(7));
                put(b, r, b"q", 3);
            },
            &[(b"q", 7), (b"q", 3)],
            false,
        ),
        (
            "another family deleted",
            |b, r| put(b, r, b"q", 1),
            |b, r| b.delete_family(r, FamilyId(2)),
            &[(b"q", 1)],
            false,
        ),
        (
            "another column deleted",
            |b, r| put(b, r, b"q", 1),
            |b, r| b.delete_column(r, FamilyId(1), b"p"),
            &[(b"q", 1)],
            false,
        ),
        (
            "column deleted, another put",
            |b, r| put(b, r, b"q", 1),
            |b, r| {
                b.delete_column(r, FamilyId(1), b"q");
                put(b, r, b"r", 1);
            },
            &[(b"r", 1)],
            false,
        ),
        (
            "all in the older file",
            |b, r| {
                put(b, r, b"p", 1);
                put(b, r, b"q", 5);
                b.delete_family(r, FamilyId(1));
                put(b, r, b"q", 4);
                put(b, r, b"q", 3);
                b.delete(r, Column::of(FamilyId(1), b"q"), up_to(4));
            },
            |_, _| {},
            &[(b"q", 4)],
            true,
        ),
        (
            "the same cell overwritten in one file",
            |b, r| {
                put(b, r, b"q", 1);
                put(b, r, b"q", 1);
            },
            |_, _| {},
            &[(b"q", 1)],
            true,
        ),
    ];
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path(), Some(FilterGranularity::Row), 14);
    let tree = engine.tree(TREE).unwrap();
    let (mut older, mut newer) = (WriteBatch::new(), WriteBatch::new());
    for (name, before, after, ..) in &cases {
        before(&mut older, name.as_bytes());
        after(&mut newer, name.as_bytes());
    }
    engine.tree(TREE).unwrap().write(&older).unwrap();
    engine.tree(TREE).unwrap().flush().unwrap();
    let early = engine.snapshot();
    let read_early = || {
        let rows =
            cases.iter().map(|(name, ..)| by_every_way(&tree, name.as_bytes(), Some(&early)));
        rows.collect::<Vec<_>>()
    };
    let merged = || engine.metrics().get("point_reads_merged_total").unwrap();
    let before = read_early();
    engine.tree(TREE).unwrap().write(&newer).unwrap();
    engine.tree(TREE).unwrap().flush().unwrap();
    assert_eq!(merged(), 0, "none before the newer file");
    for (name, _, _, want, in_place) in &cases {
        let merged_before = merged();
        let want: Cells = want
            .iter()
            .map(|(qualifier, time)| (qualifier.to_vec(), *time, time.to_be_bytes().to_vec()))
            .collect();
        assert_eq!(by_every_way(&tree, name.as_bytes(), None), want, "{name}");
        // A task, a row; never a get.
        let rows_merged = if *in_place { 0 } else { 2 };
        assert_eq!(merged() - merged_before, rows_merged, "{name}");
    }
    assert_eq!(read_early(), before, "what is later than a reader is not seen");
}

/// Values with a block of their own are lent from it by every way of reading, of memory or not.
#[test]
fn large_values_are_lent_without_merging() {
    let dir = tempfile::tempdir().unwrap();
    let open = |cache_bytes| {
        let (durability, memory_bytes_max) = (Durability::None, 64 << 20);
        let cache_bytes_max = Some(cache_bytes);
        let options =
            Options { durability, memory_bytes_max, cache_bytes_max, ..Options::default() };
        Engine::open_with_env(Env::real(1), dir.path(), options).unwrap()
    };
    // Of which the last is larger than any frame of the smallest cache.
    let lens = [10, 4095, 4096, 20_000, 70_000];
    let row = |number: usize| format!("row {number:03}").into_bytes();
    let value = |number: usize, len: usize| vec![number as u8; len];
    let engine = open(1 << 20);
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let mut batch = WriteBatch::new();
    for number in 0..100 {
        for version in 0..number % 3 + 1 {
            let column = Column::of(FamilyId(1), b"q");
            let len = lens[(number + version) % lens.len()];
            batch.put(&row(number), column, Timestamp(version as i64), &value(number, len));
        }
    }
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    engine.tree(TREE).unwrap().flush().unwrap();
    drop(engine);
    for cache_bytes in [1 << 20, 32 << 20] {
        let engine = open(cache_bytes);
        let tree = engine.tree(TREE).unwrap();
        let of = |name: &str| engine.metrics().get(name).unwrap();
        let mut misses = 0;
        for _ in 0..2 {
            misses = of("cache_misses_total");
            for number in 0..100 {
                let want = (0..number % 3 + 1).rev().map(|version| {
                    let len = lens[(number + version) % lens.len()];
                    (b"q".to_vec(), version as i64, value(number, len))
                });
                let (cells, by_task) = by_each_way(&tree, &row(number), None);
                assert!(cells == want.collect::<Cells>(), "row {number}");
                assert!(by_task || cache_bytes == 1 << 20, "row {number}");
            }
        }
        // In the small cache what a round has brought in may be evicted before the next.
        if cache_bytes == 32 << 20 {
            assert_eq!(of("point_reads_merged_total"), 0);
            assert_eq!(of("cache_misses_total"), misses, "all was resident the second time");
        }
    }
}
