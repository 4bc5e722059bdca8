//! Sorted bulk load: what it yields, where its files go, and what is refused.

use crate::support::{TREE, collect, eventually, open, small};
use engine::internals::{Entry, Kind};
use engine::internals::{Model, OwnedEntry};
use engine::kv::Kv;
use engine::{
    Column, ColumnOf, Compression, Direction, Engine, Error, FamilyId, FilterGranularity,
    IngestFiles, IngestOptions, Options, RowRange, ScanRequest, SequenceNumber, Snapshot,
    SstWriter, Timestamp, TreeId, TreeOptions, WriteBatch,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

const FAMILY: FamilyId = FamilyId(1);

fn column(qualifier: &[u8]) -> Column<'_> {
    Column::of(FAMILY, qualifier)
}

fn engine(dir: &Path) -> Engine {
    let engine = open(dir, small());
    let compression_last = Compression::None;
    let options = TreeOptions { block_bytes: 1 << 10, compression_last, ..Default::default() };
    engine.create_tree(TREE, options).unwrap();
    engine
}

fn writer(engine: &Engine) -> SstWriter {
    engine.tree(TREE).unwrap().sst_writer(&IngestOptions::default()).unwrap()
}

/// Files with one cell in each of `rows`.
fn files(engine: &Engine, rows: impl Iterator<Item = u32>, value: &[u8]) -> IngestFiles {
    let mut writer = writer(engine);
    for row in rows {
        writer.put(&row.to_be_bytes(), column(b"q"), Timestamp(1), value).unwrap();
    }
    writer.finish().unwrap()
}

fn get(engine: &Engine, row: u32, snapshot: Option<&Snapshot>) -> Option<Vec<u8>> {
    let found = engine
        .tree(TREE)
        .unwrap()
        .get(ColumnOf::new(&row.to_be_bytes(), FAMILY, b"q"), snapshot)
        .unwrap();
    found.map(|(_, value)| value)
}

fn put(engine: &Engine, row: u32, value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(&row.to_be_bytes(), column(b"q"), Timestamp(1), value);
    engine.tree(TREE).unwrap().write(&batch).unwrap();
}

fn ssts(dir: &Path) -> usize {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|extension| extension == "sst")).count()
}

/// Runs of the three levels.
fn shape(engine: &Engine) -> [u64; 3] {
    let metrics = engine.metrics();
    ["level_runs{level=\"0\"}", "level_runs{level=\"1\"}", "level_runs{level=\"2\"}"]
        .map(|name| metrics.get(name).unwrap())
}

#[test]
fn a_fresh_load_is_one_run_at_the_bottom_and_survives() {
    let dir = tempfile::tempdir().unwrap();
    let loaded = engine(dir.path());
    let mut all = files(&loaded, 0..3_000, &[7; 100]);
    assert!(all.len() > 3, "{} files", all.len());
    assert_eq!((all.cells(), ssts(dir.path())), (3_000, all.len()));
    let scan = |engine: &Engine| {
        collect(engine.tree(TREE).unwrap().scan(&ScanRequest::default(), None).unwrap())
    };
    assert_eq!(scan(&loaded).len(), 0, "nobody sees it yet");
    let number = loaded.ingest(&mut all).unwrap();
    assert_eq!(number, loaded.snapshot().sequence());
    assert!(all.is_empty());
    assert_eq!(shape(&loaded), [0, 0, 1]);
    // What follows it, and what lies between, joins the run.
    loaded.ingest(&mut files(&loaded, 4_000..5_000, &[8; 100])).unwrap();
    loaded.ingest(&mut files(&loaded, 3_000..4_000, &[9; 100])).unwrap();
    assert_eq!(shape(&loaded), [0, 0, 1]);
    let before = scan(&loaded);
    assert_eq!(before.len(), 5_000);
    drop(loaded);
    drop(all);
    let again = open(dir.path(), small());
    assert_eq!(scan(&again), before);
    again.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    assert_eq!(scan(&again), before);
    drop(again);
    let report =
        engine::check::check_dir(&base::env::Env::real(1), dir.path(), &mut |_| ()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn it_is_newer_than_all_before_and_older_than_all_after() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    put(&engine, 1, b"flushed");
    engine.tree(TREE).unwrap().flush().unwrap();
    put(&engine, 2, b"in memory");
    let mut batch = WriteBatch::new();
    batch.drop_row_range(&5u32.to_be_bytes(), Some(&9u32.to_be_bytes()));
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    let mut all = files(&engine, 0..10, b"loaded");
    put(&engine, 3, b"written meanwhile");
    let before = engine.snapshot();
    engine.ingest(&mut all).unwrap();
    let after = engine.snapshot();
    put(&engine, 4, b"after");
    let mut batch = WriteBatch::new();
    batch.delete_row(&5u32.to_be_bytes());
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    for round in 0..2 {
        for row in 0..10 {
            let old: &[Option<&[u8]>] =
                &[None, Some(b"flushed"), Some(b"in memory"), Some(b"written meanwhile")];
            let old = old.get(row as usize).copied().flatten();
            assert_eq!(get(&engine, row, Some(&before)).as_deref(), old, "{round}: row {row}");
            assert_eq!(get(&engine, row, Some(&after)).as_deref(), Some(&b"loaded"[..]));
            let new = match row {
                4 => Some(&b"after"[..]),
                5 => None,
                _ => Some(&b"loaded"[..]),
            };
            assert_eq!(get(&engine, row, None).as_deref(), new, "{round}: row {row}");
        }
        engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    }
}

#[test]
fn files_that_are_not_ingested_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let finished = files(&engine, 0..3_000, &[7; 100]);
    let mut unfinished = writer(&engine);
    for row in 0..3_000u32 {
        unfinished.put(&row.to_be_bytes(), column(b"q"), Timestamp(1), &[1; 100]).unwrap();
    }
    assert!(ssts(dir.path()) > finished.len());
    drop(unfinished);
    assert_eq!(ssts(dir.path()), finished.len());
    drop(finished);
    assert_eq!(ssts(dir.path()), 0);
}

#[test]
fn a_writer_keeps_the_directory_from_others() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let kept = writer(&engine);
    drop(engine);
    let second = Engine::open_with_env(base::env::Env::real(1), dir.path(), small());
    assert!(matches!(second, Err(Error::Unusable { .. })));
    drop(kept);
    open(dir.path(), small());
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>, text: &str) {
    match result {
        Err(Error::InvalidArgument(what)) => assert!(what.contains(text), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn cells_out_of_order_or_over_a_limit_are_refused_and_the_writer_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let mut writer = writer(&engine);
    let now = Timestamp(5);
    writer.put(b"m", column(b"m"), now, b"v").unwrap();
    for (row, qualifier, timestamp) in [
        (&b"l"[..], &b"z"[..], now),
        (b"", b"", now),
        (b"m", b"m", now),
        (b"m", b"m", Timestamp(6)),
        (b"m", b"l", now),
    ] {
        let text = format!("row \"{}\", column 1:", row.escape_ascii());
        refused(writer.put(row, column(qualifier), timestamp, b"x"), &text);
        // A value that lies apart takes another way.
        refused(writer.put(row, column(qualifier), timestamp, &[1; 9000]), &text);
    }
    let lower = Column::of(FamilyId(0), b"m");
    refused(writer.put(b"n", lower, now, b"x"), "family 0");
    refused(writer.put(b"n", Column::ROW, now, b"x"), "cell");
    refused(writer.put(&[b'n'; (64 << 10) + 1], column(b""), now, b"x"), "65536");
    refused(writer.put(b"n", column(&[1; (64 << 10) + 1]), now, b"x"), "65536");
    writer.put(b"m", column(b"m"), Timestamp(4), b"v").unwrap();
    writer.put(b"m", column(b"n"), now, &[2; 9000]).unwrap();
    writer.put(&[b'n'; 64 << 10], column(&[1; 64 << 10]), now, b"longest").unwrap();
    let mut files = writer.finish().unwrap();
    assert_eq!(files.cells(), 4);
    engine.ingest(&mut files).unwrap();
    let rows = collect(engine.tree(TREE).unwrap().scan(&ScanRequest::default(), None).unwrap());
    assert_eq!(rows.iter().map(|(_, cells)| cells.len()).collect::<Vec<_>>(), [3, 1]);
}

#[test]
fn order_is_kept_over_the_borders_of_files_and_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let mut writer = writer(&engine);
    for number in 0..3_000u32 {
        let (row, qualifier) = ((number / 100).to_be_bytes(), (number % 100).to_be_bytes());
        writer.put(&row, column(&qualifier), Timestamp(1), &[3; 100]).unwrap();
        refused(writer.put(&row, column(&qualifier), Timestamp(1), b""), "out of order");
        if let Some(before) = (number / 100).checked_sub(1) {
            let before = before.to_be_bytes();
            refused(writer.put(&before, column(&qualifier), Timestamp(1), b""), "out of order");
        }
    }
    let mut files = writer.finish().unwrap();
    assert!(files.len() > 3, "{} files", files.len());
    engine.ingest(&mut files).unwrap();
    assert_eq!(
        collect(engine.tree(TREE).unwrap().scan(&ScanRequest::default(), None).unwrap()).len(),
        30
    );
}

#[test]
fn nothing_to_ingest_is_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    put(&engine, 1, b"v");
    let last = engine.snapshot().sequence();
    let mut nothing = writer(&engine).finish().unwrap();
    assert_eq!((nothing.len(), nothing.bytes()), (0, 0));
    assert_eq!(engine.ingest(&mut nothing).unwrap(), last);
    assert_eq!(ssts(dir.path()), 0);
}

#[test]
fn the_wrong_tree_engine_or_time_is_refused() {
    let (dir, other_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (here, there) = (engine(dir.path()), engine(other_dir.path()));
    let unknown = here.tree(TreeId(9)).and_then(|tree| tree.sst_writer(&IngestOptions::default()));
    assert!(matches!(unknown, Err(Error::UnknownTree(TreeId(9)))));
    let mut mine = files(&here, 0..10, b"v");
    refused(there.ingest(&mut mine), "another engine");
    refused(mine.append(files(&there, 10..20, b"v")), "another engine");
    let mut overlapping = files(&here, 0..10, b"v");
    overlapping.append(files(&here, 9..20, b"w")).unwrap();
    refused(here.ingest(&mut overlapping), "overlap at row \\x00\\x00\\x00\\t");
    drop(overlapping);
    let mut second = files(&here, 10..20, b"w");
    here.drop_tree(TREE).unwrap();
    assert!(matches!(here.ingest(&mut mine), Err(Error::UnknownTree(TREE))));
    there.close().unwrap();
    let mut late = files(&there, 0..10, b"v");
    assert!(matches!(there.ingest(&mut late), Err(Error::Closed)));
    second.append(mine).unwrap();
    drop((second, late));
    assert_eq!((ssts(dir.path()), ssts(other_dir.path())), (0, 0));
}

#[test]
fn parts_written_by_several_threads_are_ingested_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let parts = std::thread::scope(|scope| {
        let part = |part: u32| {
            let engine = &engine;
            scope.spawn(move || files(engine, part * 1000..(part + 1) * 1000, &[5; 100]))
        };
        let threads: Vec<_> = [2, 0, 1].into_iter().map(part).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let all = parts.into_iter().reduce(|mut all, part| {
        all.append(part).unwrap();
        all
    });
    let before = engine.snapshot().sequence();
    assert_eq!(engine.ingest(&mut all.unwrap()).unwrap().0, before.0 + 1);
    assert_eq!(
        collect(engine.tree(TREE).unwrap().scan(&ScanRequest::default(), None).unwrap()).len(),
        3_000
    );
    assert_eq!(shape(&engine), [0, 0, 1]);
}

#[test]
fn files_of_several_trees_are_ingested_at_once_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let trees = [TREE, TreeId(7), TreeId(8)];
    for tree in &trees[1..] {
        engine.create_tree(*tree, TreeOptions::default()).unwrap();
    }
    let load = |value: &[u8]| {
        let parts = trees.iter().rev().map(|tree| {
            let mut writer =
                engine.tree(*tree).unwrap().sst_writer(&IngestOptions::default()).unwrap();
            for row in 0..100u32 {
                writer.put(&row.to_be_bytes(), column(b"q"), Timestamp(1), value).unwrap();
            }
            writer.finish().unwrap()
        });
        let all = parts.reduce(|mut all, part| {
            all.append(part).unwrap();
            all
        });
        all.unwrap()
    };
    let values = |snapshot: Option<&Snapshot>| {
        trees.map(|tree| {
            let scan = engine.tree(tree).unwrap().scan(&ScanRequest::default(), snapshot).unwrap();
            let rows = collect(scan);
            assert!(rows.is_empty() || rows.len() == 100, "{} rows", rows.len());
            rows.first().map(|(_, cells)| cells[0].value.clone())
        })
    };
    engine.ingest(&mut load(b"first")).unwrap();
    put(&engine, 3, b"first");
    let (before, last) = (engine.snapshot(), engine.snapshot().sequence());
    assert_eq!(engine.ingest(&mut load(b"second")).unwrap().0, last.0 + 1);
    assert_eq!(values(Some(&before)), [0; 3].map(|_| Some(b"first".to_vec())));
    assert_eq!(values(None), [0; 3].map(|_| Some(b"second".to_vec())));
    // One tree is gone: no tree gets anything.
    let mut third = load(b"third");
    drop(before);
    engine.drop_tree(trees[1]).unwrap();
    assert!(matches!(engine.ingest(&mut third), Err(Error::UnknownTree(TreeId(7)))));
    assert!(!third.is_empty());
    assert_eq!(get(&engine, 9, None).unwrap(), b"second");
    drop(third);
    for tree in [trees[0], trees[2]] {
        engine.tree(tree).unwrap().compact_range(&RowRange::ALL).unwrap();
    }
    eventually("there is one file for each tree", || ssts(dir.path()) == 2);
}

#[test]
fn writers_go_on_during_ingests_and_both_are_seen_whole() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    const ROUNDS: u32 = 40;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..10_000u32 {
                put(&engine, round % 100, &[&round.to_be_bytes()[..], &[0; 200]].concat());
            }
        });
        let mut before = 0;
        for round in 1..=ROUNDS {
            engine.ingest(&mut files(&engine, 50..150, &round.to_be_bytes())).unwrap();
            let rows =
                collect(engine.tree(TREE).unwrap().scan(&ScanRequest::default(), None).unwrap());
            let number = |cell: &[u8]| u32::from_be_bytes(cell[..4].try_into().unwrap());
            let mine = rows.iter().filter(|(row, _)| number(row) >= 100);
            let seen: Vec<u32> = mine.map(|(_, cells)| number(&cells[0].value)).collect();
            assert_eq!(seen, [round; 50], "an ingest is seen whole");
            assert!(before <= rows.len());
            before = rows.len();
        }
        writer.join().unwrap();
    });
    assert_eq!(engine.metrics().get("ingests_total"), Some(ROUNDS.into()));
}

#[test]
fn options_of_files_change_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    let engine = engine(dir.path());
    let mut bytes = Vec::new();
    for (round, compression) in
        [None, Some(Compression::None), Some(Compression::Zstd)].into_iter().enumerate()
    {
        for filters in [true, false] {
            let options = IngestOptions { compression, filters };
            let mut writer = engine.tree(TREE).unwrap().sst_writer(&options).unwrap();
            for row in 0..1_000u32 {
                let value = [round as u8; 100];
                writer.put(&row.to_be_bytes(), column(b"q"), Timestamp(1), &value).unwrap();
            }
            let mut files = writer.finish().unwrap();
            bytes.push(files.bytes());
            engine.ingest(&mut files).unwrap();
            assert_eq!(get(&engine, 7, None).unwrap(), [round as u8; 100]);
            assert_eq!(get(&engine, 1_000, None), None);
        }
    }
    assert!(bytes[0] > bytes[1] && bytes[2] == bytes[0] && bytes[4] < bytes[0], "{bytes:?}");
}

#[test]
fn files_say_what_they_lack_until_a_compaction_rewrites_them() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    let options = TreeOptions { block_bytes: 1 << 10, ..Default::default() };
    assert_ne!(options.compression_last, Compression::None);
    engine.create_tree(TREE, options).unwrap();
    let deferred = || engine.metrics().get("deferred_ssts").unwrap();
    let load = |rows: std::ops::Range<u32>, options: IngestOptions| {
        let mut writer = engine.tree(TREE).unwrap().sst_writer(&options).unwrap();
        for row in rows {
            writer.put(&row.to_be_bytes(), column(b"q"), Timestamp(1), &[7; 100]).unwrap();
        }
        let mut files = writer.finish().unwrap();
        let count = files.len() as u64;
        engine.ingest(&mut files).unwrap();
        count
    };
    let all_there = || {
        for row in 0..800 {
            assert_eq!(get(&engine, row, None).unwrap(), [7; 100], "row {row}");
        }
        assert_eq!(get(&engine, 900, None), None);
    };
    load(0..200, IngestOptions::default());
    assert_eq!(deferred(), 0);
    let compression = Some(Compression::None);
    let lacking = [
        load(200..400, IngestOptions { compression, ..Default::default() }),
        load(400..600, IngestOptions { filters: false, ..Default::default() }),
        load(600..800, IngestOptions { compression, filters: false }),
    ];
    assert!(lacking.iter().all(|count| *count > 0));
    assert_eq!(deferred(), lacking.iter().sum::<u64>());
    let bytes = engine.metrics().get("level_bytes{level=\"2\"}").unwrap();
    all_there();
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    assert_eq!((deferred(), engine.metrics().get("deferred_sst_bytes").unwrap()), (0, 0));
    assert!(engine.metrics().get("level_bytes{level=\"2\"}").unwrap() < bytes, "compressed now");
    let asked = || engine.metrics().get("filter_checks_total").unwrap();
    let before = asked();
    all_there();
    assert!(asked() > before, "filters now");
}

#[test]
fn the_key_value_api_loads_sorted_keys() {
    let dir = tempfile::tempdir().unwrap();
    let kv = Kv::open(dir.path(), Options::default()).unwrap();
    kv.put(b"b", b"old").unwrap();
    let mut writer = kv.sorted_writer(&IngestOptions::default()).unwrap();
    for key in [b"a", b"b", b"c"] {
        writer.put(key, b"new").unwrap();
    }
    refused(writer.put(b"c", b"twice"), "out of order");
    assert_eq!(kv.get(b"b").unwrap().unwrap(), b"old");
    writer.ingest().unwrap();
    assert_eq!(kv.get(b"b").unwrap().unwrap(), b"new");
    assert_eq!(kv.range(RowRange::ALL).count(), 3);
}

/// What a random history does.
#[derive(Debug, Clone)]
enum Act {
    Write(Vec<(u8, Change)>),
    /// Rows, qualifiers and timestamps of the cells.
    Ingest(BTreeMap<(u8, u8, u8), u8>),
    Flush,
    Compact(u8, u8),
    Snapshot,
    Forget,
    Reopen,
}

#[derive(Debug, Clone)]
enum Change {
    Put(u8, u8, u8),
    DeleteRow,
    DeleteColumn(u8),
    DropRange(u8),
}

fn act() -> impl Strategy<Value = Act> {
    let change = prop_oneof![
        6 => (0u8..3, 0u8..4, any::<u8>()).prop_map(|(q, t, v)| Change::Put(q, t, v)),
        1 => Just(Change::DeleteRow),
        1 => (0u8..3).prop_map(Change::DeleteColumn),
        1 => (1u8..10).prop_map(Change::DropRange),
    ];
    let cells = (0u8..40, 1u8..20).prop_flat_map(|(from, rows)| {
        proptest::collection::btree_map((from..from + rows, 0u8..3, 0u8..4), any::<u8>(), 1..30)
    });
    prop_oneof![
        6 => proptest::collection::vec((0u8..40, change), 1..6).prop_map(Act::Write),
        4 => cells.prop_map(Act::Ingest),
        1 => Just(Act::Flush),
        1 => (0u8..40, 1u8..20).prop_map(|(from, rows)| Act::Compact(from, rows)),
        2 => Just(Act::Snapshot),
        1 => Just(Act::Forget),
        1 => Just(Act::Reopen),
    ]
}

/// Values large enough that a few make a block and a few dozen a file.
fn bulk(value: u8) -> Vec<u8> {
    vec![value; 20 * usize::from(value)]
}

fn batch(changes: &[(u8, Change)]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for (row, change) in changes {
        let key = [*row];
        match change {
            Change::Put(qualifier, timestamp, value) => {
                let timestamp = Timestamp((*timestamp).into());
                batch.put(&key, column(&[*qualifier]), timestamp, &bulk(*value));
            }
            Change::DeleteRow => batch.delete_row(&key),
            Change::DeleteColumn(qualifier) => batch.delete_column(&key, FAMILY, &[*qualifier]),
            Change::DropRange(rows) => batch.drop_row_range(&key, Some(&[row + rows])),
        }
    }
    batch
}

/// Ingests `cells` into both.
fn ingest(
    engine: &Engine,
    model: &mut Model,
    cells: &BTreeMap<(u8, u8, u8), u8>,
) -> Result<SequenceNumber, Error> {
    // The last part of the key is the timestamp, which descends.
    let mut writer = writer(engine);
    let sequence = SequenceNumber(engine.snapshot().sequence().0 + 1);
    for ((row, qualifier, age), value) in cells {
        let (timestamp, value) = (Timestamp(3 - i64::from(*age)), bulk(*value));
        writer.put(&[*row], column(&[*qualifier]), timestamp, &value)?;
        let column = column(std::slice::from_ref(qualifier));
        let entry = Entry { column, timestamp, sequence, kind: Kind::Put, value: &value };
        model.add(&[*row], OwnedEntry::copy_of(&entry));
    }
    engine.ingest(&mut writer.finish()?)
}

fn same(engine: &Engine, model: &Model, last: SequenceNumber, snapshots: &[Snapshot]) {
    for direction in [Direction::Forward, Direction::Reverse] {
        let request = ScanRequest { direction, ..ScanRequest::default() };
        let got = collect(engine.tree(TREE).unwrap().scan(&request, None).unwrap());
        assert_eq!(got, model.scan(&request, last));
        for at in snapshots {
            let got = collect(engine.tree(TREE).unwrap().scan(&request, Some(at)).unwrap());
            assert_eq!(got, model.scan(&request, at.sequence()));
        }
    }
    for row in 0..60u8 {
        let request = ScanRequest::rows(RowRange::single(&[row]));
        let got = collect(engine.tree(TREE).unwrap().scan(&request, None).unwrap());
        assert_eq!(got, model.scan(&request, last), "row {row}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn histories_with_ingests_read_as_the_model_says(
        acts in proptest::collection::vec(act(), 1..60),
        granularity in 0u8..4,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = open(dir.path(), small());
        let filter_granularity = FilterGranularity::from_byte(granularity);
        let options =
            TreeOptions { block_bytes: 1 << 10, filter_granularity, ..Default::default() };
        engine.create_tree(TREE, options).unwrap();
        let (mut model, mut snapshots) = (Model::default(), Vec::new());
        let mut last = SequenceNumber(0);
        for act in &acts {
            match act {
                Act::Write(changes) => {
                    let (batch, first) = (batch(changes), SequenceNumber(last.0 + 1));
                    last = engine.tree(TREE).unwrap().write(&batch).unwrap();
                    model.apply(&batch, first);
                }
                Act::Ingest(cells) => {
                    let number = ingest(&engine, &mut model, cells).unwrap();
                    prop_assert_eq!(number.0, last.0 + 1);
                    last = number;
                }
                Act::Flush => engine.tree(TREE).unwrap().flush().unwrap(),
                Act::Compact(from, rows) => {
                    let rows = RowRange { start: vec![*from], end: Some(vec![from + rows]) };
                    engine.tree(TREE).unwrap().compact_range(&rows).unwrap();
                }
                Act::Snapshot => snapshots.push(engine.snapshot()),
                Act::Forget => drop(snapshots.pop()),
                Act::Reopen => {
                    snapshots.clear();
                    drop(engine);
                    engine = open(dir.path(), small());
                }
            }
            same(&engine, &model, last, &snapshots);
        }
        snapshots.clear();
        engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
        same(&engine, &model, last, &[]);
    }
}
