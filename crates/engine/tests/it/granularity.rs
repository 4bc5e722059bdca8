//! Files get filters as fine as the reads of their tree ask, unless the tree says otherwise.

use crate::support::{TREE, collect, eventually, open, small};
use base::env::{FileSystem, RealFileSystem};
use engine::internals::CacheFeatures;
use engine::internals::FileNumber;
use engine::internals::{BlockCache, SstReader};
use engine::{
    Column, ColumnOf, Columns, Engine, FamilyId, FilterGranularity, IngestOptions, QualifierRange,
    RowRange, RowSelection, ScanRequest, Timestamp, TreeOptions, WriteBatch,
};
use std::path::Path;

const ROWS: u32 = 300;
const FAMILY: FamilyId = FamilyId(1);

fn row(number: u32) -> Vec<u8> {
    format!("row{number:04}").into_bytes()
}

fn qualifier(number: u32) -> Vec<u8> {
    format!("q{number}").into_bytes()
}

/// Writes rows of a few columns into one more SSTable.
fn load(engine: &Engine, time: i64) {
    let mut batch = WriteBatch::new();
    for number in 0..ROWS {
        for column in 0..4 {
            let qualifier = qualifier(column);
            let column = Column::of(FAMILY, &qualifier);
            batch.put(&row(number), column, Timestamp(time), &time.to_be_bytes());
        }
    }
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    engine.tree(TREE).unwrap().flush().unwrap();
}

fn compact(engine: &Engine) {
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
}

/// The granularities of the files in `dir`, oldest first; `None` if one went meanwhile.
fn granularities(dir: &Path) -> Option<Vec<FilterGranularity>> {
    let numbers = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let numbers = numbers.filter_map(|name| FileNumber::of_sst(Path::new(&name)));
    let mut numbers: Vec<FileNumber> = numbers.collect();
    numbers.sort_unstable();
    let of = |number: &FileNumber| {
        let path = number.sst_path(dir);
        let file = RealFileSystem.open_read(&path).ok()?;
        let cache = BlockCache::new(0, CacheFeatures::PASSING);
        let sst = SstReader::open(file, &path, *number, cache).unwrap();
        Some(sst.properties().filter_granularity)
    };
    numbers.iter().map(of).collect()
}

/// The files in `dir` have these granularities, once those that were compacted are gone.
fn files_have(dir: &Path, want: &[FilterGranularity], what: &str) {
    eventually(what, || granularities(dir).as_deref() == Some(want));
}

fn trees_by(engine: &Engine, kind: &str) -> u64 {
    engine.metrics().get(&format!("filtered_trees{{granularity=\"{kind}\"}}")).unwrap()
}

/// Asks `times` for every row, or what `columns` says of it.
fn read_rows(engine: &Engine, columns: &Columns, times: usize) {
    let tree = engine.tree(TREE).unwrap();
    for number in (0..ROWS).cycle().take(times * ROWS as usize) {
        tree.read_row_with(&row(number), &RowSelection::of(columns), None, |_| {}).unwrap();
    }
}

fn read_columns(engine: &Engine, times: usize) {
    for number in (0..ROWS).cycle().take(times * ROWS as usize) {
        engine
            .tree(TREE)
            .unwrap()
            .get(ColumnOf::new(&row(number), FAMILY, &qualifier(number % 6)), None)
            .unwrap();
    }
}

fn everything(engine: &Engine) -> Vec<engine::internals::OwnedRow> {
    collect(engine.tree(TREE).unwrap().scan(&ScanRequest::rows(RowRange::ALL), None).unwrap())
}

/// Every way to ask for a column gives what the scan of everything says.
fn answers_agree(engine: &Engine) {
    let rows = everything(engine);
    assert_eq!(rows.len(), ROWS as usize);
    for (number, (key, cells)) in (0..).zip(&rows) {
        assert_eq!(*key, row(number));
        for column in 0..6 {
            let qualifier = qualifier(column);
            let want = cells.iter().find(|cell| cell.qualifier == qualifier);
            let got = engine
                .tree(TREE)
                .unwrap()
                .get(ColumnOf::new(key, FAMILY, &qualifier), None)
                .unwrap();
            assert_eq!(got.map(|(_, value)| value), want.map(|cell| cell.value.clone()));
        }
        assert_eq!(
            engine
                .tree(TREE)
                .unwrap()
                .get(ColumnOf::new(&[key, &b"x"[..]].concat(), FAMILY, b"q0"), None)
                .unwrap(),
            None
        );
    }
}

#[test]
fn files_follow_what_reads_ask_and_answers_stay() {
    use FilterGranularity::{Column, Family, Row};
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    load(&engine, 1);
    files_have(dir.path(), &[Column], "nothing is known of a new tree");
    assert_eq!(trees_by(&engine, "column"), 1);

    read_rows(&engine, &Columns::All, 5);
    compact(&engine);
    files_have(dir.path(), &[Row], "rows were read");
    assert_eq!(trees_by(&engine, "row"), 1);
    answers_agree(&engine);

    let family = Columns::Ranges(vec![QualifierRange::family(FAMILY)]);
    read_rows(&engine, &family, 60);
    load(&engine, 2);
    let older_stays = || granularities(dir.path()).is_some_and(|files| files[0] == Row);
    eventually("the older file stays as it is", older_stays);
    read_rows(&engine, &family, 60);
    compact(&engine);
    files_have(dir.path(), &[Family], "an earlier look at columns is worth less");
    assert_eq!(trees_by(&engine, "family"), 1);

    read_columns(&engine, 60);
    load(&engine, 3);
    files_have(dir.path(), &[Family, Column], "files differ side by side");
    answers_agree(&engine);
    compact(&engine);
    files_have(dir.path(), &[Column], "columns were read");
    answers_agree(&engine);
}

#[test]
fn what_was_learned_is_known_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    load(&engine, 1);
    // As the layer above reads a single row: by a scan.
    for number in (0..ROWS).cycle().take(5 * ROWS as usize) {
        let request = ScanRequest::rows(RowRange::single(&row(number)));
        assert_eq!(collect(engine.tree(TREE).unwrap().scan(&request, None).unwrap()).len(), 1);
    }
    compact(&engine);
    drop(engine);
    let engine = open(dir.path(), small());
    assert_eq!(trees_by(&engine, "row"), 1);
    load(&engine, 2);
    let mut writer = engine.tree(TREE).unwrap().sst_writer(&IngestOptions::default()).unwrap();
    writer.put(b"z", Column::of(FAMILY, b"q"), Timestamp(1), b"").unwrap();
    engine.ingest(&mut writer.finish().unwrap()).unwrap();
    files_have(dir.path(), &[FilterGranularity::Row; 3], "all new files");
}

#[test]
fn a_fixed_granularity_stays() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    let filter_granularity = Some(FilterGranularity::Family);
    engine.create_tree(TREE, TreeOptions { filter_granularity, ..Default::default() }).unwrap();
    load(&engine, 1);
    read_rows(&engine, &Columns::All, 5);
    read_columns(&engine, 60);
    load(&engine, 2);
    compact(&engine);
    files_have(dir.path(), &[FilterGranularity::Family], "what was fixed stays");
    assert_eq!(trees_by(&engine, "family"), 1);
}
