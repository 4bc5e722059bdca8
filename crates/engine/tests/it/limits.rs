//! Things as large, and as many, as docs/limits.md says they may be. `STELE_LIMITS=1` takes the
//! whole sizes and prints what they took; without it the same is done small, in every run.

use crate::support::{TREE, collect, eventually, open, small};
use engine::{
    Column, ColumnOf, Durability, Engine, FamilyId, Options, RowRange, ScanRequest, Snapshot,
    Timestamp, TreeId, TreeOptions, WriteBatch,
};
use std::path::Path;
use std::time::Instant;

const FAMILY: FamilyId = FamilyId(1);

/// `whole` if the environment asks for it.
fn size(whole: u64, small: u64) -> u64 {
    if std::env::var_os("STELE_LIMITS").is_some() { whole } else { small }
}

/// A field of `/proc/self/status` in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Says a figure, in a run of the whole sizes.
fn say(what: impl std::fmt::Display) {
    if size(1, 0) == 1 {
        println!("{what}");
    }
}

/// Says what something took, in a run of the whole sizes.
fn took(what: &str, since: Instant) {
    let (seconds, mib) = (since.elapsed().as_secs_f64(), resident_kib() >> 10);
    say(format!("{what}: {seconds:.2} s; {mib} MiB resident, {} files open", open_files()));
}

fn metric(engine: &Engine, name: &str) -> u64 {
    engine.metrics().get(name).unwrap()
}

fn options() -> Options {
    Options { durability: Durability::None, ..Options::default() }
}

fn ssts(dir: &Path) -> u64 {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|ext| ext == "sst")).count() as u64
}

/// Columns of the one row, as a scan meets them.
fn columns(engine: &Engine) -> u64 {
    let mut scan = engine.tree(TREE).unwrap().scan(&ScanRequest::default(), None).unwrap();
    let mut columns = 0u64;
    assert_eq!(scan.next_row().unwrap(), Some(&b"row"[..]));
    while let Some(cell) = scan.next_cell().unwrap() {
        assert_eq!(cell.qualifier, columns.to_be_bytes());
        assert_eq!(cell.value, (columns * 7).to_be_bytes());
        columns += 1;
    }
    assert_eq!(scan.next_row().unwrap(), None);
    columns
}

#[test]
fn a_row_of_a_million_columns() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), options());
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let all = size(1_000_000, 20_000);
    let start = Instant::now();
    let mut batch = WriteBatch::new();
    for column in 0..all {
        let (qualifier, value) = (column.to_be_bytes(), (column * 7).to_be_bytes());
        batch.put(b"row", Column::of(FAMILY, &qualifier), Timestamp(1), &value);
        if batch.len() as u64 == all / 10 {
            engine.tree(TREE).unwrap().write(&batch).unwrap();
            batch.clear();
        }
    }
    took("a row of a million columns: written", start);
    let get = || {
        for column in [0, 1, all / 2, all - 1] {
            let found = engine
                .tree(TREE)
                .unwrap()
                .get(ColumnOf::new(b"row", FAMILY, &column.to_be_bytes()), None)
                .unwrap();
            assert_eq!(found.unwrap().1, (column * 7).to_be_bytes());
        }
        assert_eq!(
            engine
                .tree(TREE)
                .unwrap()
                .get(ColumnOf::new(b"row", FAMILY, &all.to_be_bytes()), None)
                .unwrap(),
            None
        );
    };
    for what in ["in memory", "flushed", "compacted"] {
        match what {
            "flushed" => engine.tree(TREE).unwrap().flush().unwrap(),
            "compacted" => engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap(),
            _ => {}
        }
        let start = Instant::now();
        assert_eq!(columns(&engine), all, "{what}");
        get();
        took(&format!("a row of a million columns: {what}, read"), start);
    }
    drop(engine);
    let start = Instant::now();
    assert_eq!(columns(&open(dir.path(), options())), all);
    took("a row of a million columns: opened and read", start);
}

#[test]
fn a_value_of_100_mib() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), options());
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    // Small, it is still larger than any segment, memtable or file wants to be.
    let value: Vec<u8> = (0..size(100 << 20, 8 << 20)).map(|at| ((at * at) >> 7) as u8).collect();
    let options = || match size(1, 0) {
        1 => options(),
        _ => Options { memory_bytes_max: 16 << 20, cache_bytes_max: None, ..small() },
    };
    drop(engine);
    let mut engine = open(dir.path(), options());
    let start = Instant::now();
    let mut batch = WriteBatch::new();
    batch.put(b"row", Column::of(FAMILY, b"q"), Timestamp(1), &value);
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    batch.clear();
    took("a value of 100 MiB: written", start);
    for what in ["in memory", "replayed", "flushed", "compacted", "opened"] {
        match what {
            "replayed" | "opened" => {
                drop(engine);
                engine = open(dir.path(), options());
            }
            "flushed" => engine.tree(TREE).unwrap().flush().unwrap(),
            "compacted" => engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap(),
            _ => {}
        }
        let start = Instant::now();
        let found = engine
            .tree(TREE)
            .unwrap()
            .get(ColumnOf::new(b"row", FAMILY, b"q"), None)
            .unwrap()
            .unwrap()
            .1;
        assert!(found == value, "{what}");
        let rows = collect(engine.tree(TREE).unwrap().scan(&ScanRequest::default(), None).unwrap());
        assert!(rows[0].1[0].value == value, "{what}");
        drop((found, rows));
        took(&format!("a value of 100 MiB: {what}, read twice"), start);
    }
}

/// SSTables that may be open of many trees.
const OPEN_MAX: u64 = 200;

#[test]
fn ten_thousand_trees() {
    let trees = size(10_000, 300) as u32;
    let dir = tempfile::tempdir().unwrap();
    let before = resident_kib();
    let options = || Options { open_files_max: Some(OPEN_MAX as usize), ..options() };
    let engine = open(dir.path(), options());
    let start = Instant::now();
    for tree in 1..=trees {
        engine.create_tree(TreeId(tree), TreeOptions::default()).unwrap();
    }
    took("10,000 trees: created", start);
    let per_tree = |kib: u64| kib.saturating_sub(before) * 1024 / u64::from(trees);
    say(format!("empty, {} bytes resident a tree", per_tree(resident_kib())));
    let start = Instant::now();
    let write = |engine: &Engine, value: &[u8]| {
        for tree in 1..=trees {
            let mut batch = WriteBatch::new();
            batch.put(b"row", Column::of(FAMILY, b"q"), Timestamp(1), value);
            engine.tree(TreeId(tree)).unwrap().write(&batch).unwrap();
        }
    };
    write(&engine, b"first");
    took("10,000 trees: a row written to each", start);
    say(format!("with a row in memory, {} bytes resident a tree", per_tree(resident_kib())));
    say(format!(
        "memtables: {} bytes a tree",
        metric(&engine, "memory_bytes{owner=\"active_memtables\"}") / u64::from(trees)
    ));
    // What is idle is flushed by whoever asks; it then holds no memory but what it pins.
    let start = Instant::now();
    for tree in 1..=trees {
        engine.tree(TreeId(tree)).unwrap().flush().unwrap();
    }
    took("10,000 trees: flushed one after the other", start);
    assert_eq!(metric(&engine, "level_runs{level=\"0\"}"), u64::from(trees));
    say(format!(
        "metadata: {} bytes a tree",
        metric(&engine, "memory_bytes{owner=\"metadata\"}") / u64::from(trees)
    ));
    let opened = metric(&engine, "ssts_open");
    assert!(opened <= OPEN_MAX + 3, "{opened} files of {trees} trees are open");
    write(&engine, b"second");
    drop(engine);
    let start = Instant::now();
    let engine = open(dir.path(), options());
    took("10,000 trees: opened", start);
    assert_eq!(engine.trees().len(), trees as usize);
    for tree in (1..=trees).step_by(97) {
        let found = engine
            .tree(TreeId(tree))
            .unwrap()
            .get(ColumnOf::new(b"row", FAMILY, b"q"), None)
            .unwrap();
        assert_eq!(found.unwrap().1, b"second", "tree {tree}");
    }
}

#[test]
fn sixty_four_snapshots_each_see_their_time() {
    const ROWS: u32 = 200;
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let mut snapshots = Vec::new();
    for round in 0..64u8 {
        let mut batch = WriteBatch::new();
        for row in 0..ROWS {
            // Each round leaves out some rows, and deletes others.
            match (row + u32::from(round)) % 5 {
                0 => batch.delete_row(&row.to_be_bytes()),
                1 => {}
                _ => batch.put(
                    &row.to_be_bytes(),
                    Column::of(FAMILY, b"q"),
                    Timestamp(1),
                    &[round; 100],
                ),
            }
        }
        engine.tree(TREE).unwrap().write(&batch).unwrap();
        snapshots.push(engine.snapshot());
        match round % 16 {
            7 => engine.tree(TREE).unwrap().flush().unwrap(),
            15 => engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap(),
            _ => {}
        }
    }
    let seen = |round: u8, row: u32| {
        (0..=round).rev().find_map(|at| match (row + u32::from(at)) % 5 {
            0 => Some(None),
            1 => None,
            _ => Some(Some(at)),
        })
    };
    let check = |snapshots: &[Snapshot], from: u8| {
        for (round, snapshot) in (from..).zip(snapshots) {
            let rows = collect(
                engine.tree(TREE).unwrap().scan(&ScanRequest::default(), Some(snapshot)).unwrap(),
            );
            let found = rows.iter().map(|(row, cells)| {
                (u32::from_be_bytes(row[..].try_into().unwrap()), cells[0].value[0])
            });
            let want = (0..ROWS).filter_map(|row| Some((row, seen(round, row).flatten()?)));
            assert_eq!(found.collect::<Vec<_>>(), want.collect::<Vec<_>>(), "round {round}");
        }
    };
    check(&snapshots, 0);
    assert_eq!(metric(&engine, "sequence_oldest_snapshot"), snapshots[0].sequence().0);
    let held = metric(&engine, "level_bytes{level=\"2\"}");
    // Half of them go; what only they needed goes with the next compaction.
    let late = snapshots.split_off(32);
    drop(snapshots);
    let mut batch = WriteBatch::new();
    batch.put(&0u32.to_be_bytes(), Column::of(FAMILY, b"other"), Timestamp(1), b"");
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    check(&late, 32);
    assert!(metric(&engine, "level_bytes{level=\"2\"}") < held);
}

#[test]
fn a_scan_held_open_keeps_what_it_needs_and_no_more() {
    const ROWS: u32 = 2_000;
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let write = |round: u8| {
        for part in 0..10 {
            let mut batch = WriteBatch::new();
            for row in part * ROWS / 10..(part + 1) * ROWS / 10 {
                let value = [round; 100];
                batch.put(&row.to_be_bytes(), Column::of(FAMILY, b"q"), Timestamp(1), &value);
            }
            engine.tree(TREE).unwrap().write(&batch).unwrap();
        }
        engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    };
    write(0);
    let (files, bytes) = (ssts(dir.path()), metric(&engine, "level_bytes{level=\"2\"}"));
    let live = || metric(&engine, "level_bytes{level=\"2\"}");
    assert_eq!(metric(&engine, "obsolete_ssts"), 0);
    let mut scan = engine.tree(TREE).unwrap().scan(&ScanRequest::default(), None).unwrap();
    assert!(scan.next_row().unwrap().is_some());
    // An hour of a busy table, in little: everything is rewritten again and again.
    for round in 1..=size(60, 12) as u8 {
        write(round);
        // The files of the scan stay, and of all that came and went since nothing does.
        let held = || (metric(&engine, "obsolete_ssts"), metric(&engine, "obsolete_sst_bytes"));
        eventually(&format!("round {round}: the scan's files are held"), || {
            held() == (files, bytes)
        });
        assert!(live() <= bytes + bytes / 8, "round {round}: {} of {bytes} bytes", live());
        eventually(&format!("round {round}: others go"), || ssts(dir.path()) <= 2 * files + 2);
    }
    let mut rows = 1;
    loop {
        while let Some(cell) = scan.next_cell().unwrap() {
            assert_eq!(cell.value, [0; 100], "it sees what was there when it began");
        }
        if scan.next_row().unwrap().is_none() {
            break;
        }
        rows += 1;
    }
    assert_eq!(rows, ROWS);
    drop(scan);
    assert_eq!(metric(&engine, "obsolete_ssts"), 0);
    write(99);
    eventually("all but the newest files go", || ssts(dir.path()) <= files + 1);
}

/// Rows of the tree, whose keys count up.
fn rows(engine: &Engine, snapshot: Option<&Snapshot>) -> u32 {
    let mut scan = engine.tree(TREE).unwrap().scan(&ScanRequest::default(), snapshot).unwrap();
    let mut rows = 0u32;
    while let Some(row) = scan.next_row().unwrap() {
        assert_eq!(row, rows.to_be_bytes());
        rows += 1;
    }
    rows
}

#[test]
fn a_batch_of_a_hundred_thousand_mutations_is_whole() {
    const MUTATIONS: u32 = 100_000;
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), small());
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let mut batch = WriteBatch::new();
    for row in 0..MUTATIONS {
        batch.put(&row.to_be_bytes(), Column::of(FAMILY, b""), Timestamp(1), &row.to_le_bytes());
    }
    let start = Instant::now();
    let before = engine.snapshot();
    let last = engine.tree(TREE).unwrap().write(&batch).unwrap();
    took("a batch of 100,000 mutations: written", start);
    assert_eq!(last.0, before.sequence().0 + u64::from(MUTATIONS));
    assert_eq!((rows(&engine, None), rows(&engine, Some(&before))), (MUTATIONS, 0));
    drop((before, engine));
    let engine = open(dir.path(), small());
    assert_eq!(rows(&engine, None), MUTATIONS, "replayed");
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    assert_eq!(rows(&engine, None), MUTATIONS, "compacted");
}
