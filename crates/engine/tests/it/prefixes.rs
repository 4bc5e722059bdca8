//! Scans of a row prefix skip SSTables whose filters do not know it.

use crate::support::{TREE, collect, open, small};
use engine::internals::ReadPath;
use engine::{
    Column, Direction, Engine, FamilyId, Options, RowRange, ScanRequest, Timestamp, TreeOptions,
    WriteBatch,
};

/// Runs of the tree; each has rows of one prefix of four bytes and of two that all have.
const RUNS: u64 = 8;

fn runs_stay() -> Options {
    Options { l0_runs_compact: 63, l0_runs_stall: 64, ..small() }
}

fn load(engine: &Engine) {
    let column = Column::of(FamilyId(1), b"q");
    for run in 0..RUNS {
        let mut batch = WriteBatch::new();
        let prefixes = ["aaaa".to_owned(), format!("m{run:03}"), "zzzz".to_owned()];
        for prefix in &prefixes {
            for row in 0..20 {
                let row = format!("{prefix}/{row}");
                batch.put(row.as_bytes(), column, Timestamp(run as i64), b"value");
            }
        }
        engine.tree(TREE).unwrap().write(&batch).unwrap();
        engine.tree(TREE).unwrap().flush().unwrap();
    }
}

/// Filters asked for a prefix, files skipped for it, and files read in vain, while `work` is done.
fn asked(engine: &Engine, work: impl FnOnce()) -> [u64; 3] {
    let names = [
        "filter_checks_total{granularity=\"prefix\"}",
        "filter_checks_total{granularity=\"prefix\",result=\"useful\"}",
        "filter_false_positives_total{granularity=\"prefix\"}",
    ];
    let read = |name| engine.metrics().get(name).unwrap();
    let before = names.map(read);
    work();
    std::array::from_fn(|at| read(names[at]) - before[at])
}

fn rows_of(engine: &Engine, rows: RowRange) -> usize {
    let both = [Direction::Forward, Direction::Reverse].map(|direction| {
        let request = ScanRequest { direction, ..ScanRequest::rows(rows.clone()) };
        collect(engine.tree(TREE).unwrap().scan(&request, None).unwrap()).len()
    });
    assert_eq!(both[0], both[1], "both ways meet the same rows");
    both[0]
}

#[test]
fn a_scan_of_a_prefix_skips_files_without_it() {
    for prefix_index in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let options = TreeOptions { row_prefix_bytes: 4, prefix_index, ..TreeOptions::default() };
        let engine = open(dir.path(), runs_stay());
        engine.create_tree(TREE, options).unwrap();
        load(&engine);
        drop(engine);
        let engine = open(dir.path(), runs_stay());
        let [probed, useful, wrong] = asked(&engine, || {
            for run in 0..RUNS {
                let prefix = format!("m{run:03}");
                assert_eq!(rows_of(&engine, RowRange::prefix(prefix.as_bytes())), 20);
                let part = RowRange::prefix(format!("{prefix}/1").as_bytes());
                assert_eq!(rows_of(&engine, part), 11);
            }
        });
        // Two ranges, two ways, each over all runs; one run has the rows.
        assert_eq!(probed, 4 * RUNS * RUNS);
        assert!(useful >= 4 * RUNS * (RUNS - 2), "{useful} files skipped");
        assert_eq!(wrong, probed - useful - 4 * RUNS);
        let [probed, useful, wrong] = asked(&engine, || {
            let behind = RowRange { start: b"m003/x".to_vec(), end: Some(b"m003/y".to_vec()) };
            assert_eq!(rows_of(&engine, behind), 0);
        });
        assert!(wrong >= 2, "one run has the prefix, and no row of the range");
        assert_eq!(wrong, probed - useful);
        let [probed, ..] = asked(&engine, || {
            assert_eq!(rows_of(&engine, RowRange::prefix(b"m0")), 160);
            let beyond = RowRange { start: b"m003/9".to_vec(), end: Some(b"m0040".to_vec()) };
            assert_eq!(rows_of(&engine, beyond), 21);
        });
        assert_eq!(probed, 0, "these ranges have rows of several prefixes");
        assert_eq!(rows_of(&engine, RowRange::prefix(b"aaaa")), 20);
        assert_eq!(rows_of(&engine, RowRange::ALL), 40 + 20 * RUNS as usize);
        engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
        assert_eq!(rows_of(&engine, RowRange::prefix(b"m005")), 20);
    }
}

#[test]
fn nothing_is_asked_where_filters_are_switched_off() {
    let dir = tempfile::tempdir().unwrap();
    let read_path = ReadPath { filters: false, prefix_index: false, ..ReadPath::default() };
    let engine = open(dir.path(), Options { read_path, ..runs_stay() });
    let options = TreeOptions { row_prefix_bytes: 4, prefix_index: true, ..Default::default() };
    engine.create_tree(TREE, options).unwrap();
    load(&engine);
    let counts = asked(&engine, || {
        assert_eq!(rows_of(&engine, RowRange::prefix(b"m003")), 20);
    });
    assert_eq!(counts, [0; 3]);
}

#[test]
fn a_prefix_index_wants_a_length_of_prefixes() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    for options in [
        TreeOptions { prefix_index: true, ..TreeOptions::default() },
        TreeOptions { row_prefix_bytes: 1025, ..TreeOptions::default() },
    ] {
        assert!(engine.create_tree(TREE, options).is_err());
    }
}
