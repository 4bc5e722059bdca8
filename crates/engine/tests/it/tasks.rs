//! Reads of rows that hold no thread: that they agree with those that do, also where the cache
//! keeps next to nothing; that they can be dropped at any time; what a failing disk does to them.

use crate::support::{TREE, open, owned, small};
use base::env::sim::{Fault, FaultPoint, SimEnv};
use engine::OwnedCell;
use engine::internals::ReadPath;
use engine::{
    Cell, Column, Columns, Compression, Engine, Error, FamilyId, Options, QualifierRange, Result,
    RowEnd, RowReads, RowSelection, Snapshot, Timestamp, Tree, TreeOptions, WriteBatch,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::future::Future;
use std::ops::ControlFlow;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

const ROWS: u32 = 4_000;
const FAMILIES: u16 = 3;

fn options() -> Options {
    Options {
        memory_bytes_max: 256 << 20,
        cache_bytes_max: Some(1 << 20),
        memtable_bytes_max: 1 << 20,
        sst_bytes_max: 1 << 20,
        l0_runs_stall: 12,
        direct_reads: true,
        ..small()
    }
}

fn row(number: u32) -> Vec<u8> {
    format!("row-{:06}", number * 7 % ROWS).into_bytes()
}

/// Puts, deletes and overwrites, of which some stay in memory; rows of one cell and of many, small
/// values and some that fill blocks of their own.
fn fill(engine: &Engine, random: &mut StdRng, writes: u32) {
    for _ in 0..writes {
        let mut batch = WriteBatch::new();
        let key = row(random.random_range(0..ROWS));
        for _ in 0..random.random_range(1..6) {
            let family = FamilyId(random.random_range(1..=FAMILIES));
            let qualifier = [b'a' + random.random_range(0..4u8)];
            let column = Column::of(family, &qualifier);
            let timestamp = Timestamp(random.random_range(0..5));
            let len = match random.random_range(0..100) {
                0 => 90_000,
                1..10 => 2_000,
                _ => 60,
            };
            match random.random_range(0..20) {
                0 => batch.delete_row(&key),
                1 => batch.delete_family(&key, family),
                2 => batch.delete_column(&key, family, &qualifier),
                _ => batch.put(&key, column, timestamp, &vec![random.random(); len]),
            }
        }
        engine.tree(TREE).unwrap().write(&batch).unwrap();
    }
}

fn filled(dir: &Path, options: Options, seed: u64) -> (Engine, Tree) {
    let engine = open(dir, options);
    let tree = TreeOptions {
        block_bytes: 4 << 10,
        compression: Compression::None,
        compression_last: Compression::None,
        ..TreeOptions::default()
    };
    engine.create_tree(TREE, tree).unwrap();
    fill(&engine, &mut StdRng::seed_from_u64(seed), 6_000);
    let tree = engine.tree(TREE).unwrap();
    (engine, tree)
}

/// Wakes the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls `future` up to `polls` times, each time when it was woken.
fn run_for<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    for _ in 0..polls {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        std::thread::park();
    }
    None
}

fn blocking(
    tree: &Tree,
    row: &[u8],
    selection: &RowSelection<'_>,
    snapshot: Option<&Snapshot>,
) -> Result<Vec<OwnedCell>> {
    let mut cells = Vec::new();
    tree.read_row_with(row, selection, snapshot, |cell| cells.push(owned(cell)))?;
    Ok(cells)
}

/// The cells of a row, by a thread where it must be.
async fn read(
    reads: &mut RowReads,
    row: &[u8],
    ahead: &[Vec<u8>],
    selection: &RowSelection<'_>,
) -> Result<Option<Vec<OwnedCell>>> {
    let mut cells = Vec::new();
    let ahead = ahead.iter().map(Vec::as_slice);
    let end = reads.read(row, ahead, selection, |cell| {
        cells.push(owned(cell));
        ControlFlow::Continue(())
    });
    Ok(match end.await? {
        RowEnd::Lent(lent) => {
            assert_eq!(lent, cells.len() as u64);
            Some(cells)
        }
        RowEnd::Waits => None,
        RowEnd::Stopped => panic!("it was not stopped"),
    })
}

fn selections() -> [Columns; 3] {
    let column = QualifierRange::column(FamilyId(1), b"b");
    [
        Columns::All,
        Columns::ranges(vec![QualifierRange::family(FamilyId(2))]),
        Columns::ranges(vec![column, QualifierRange::family(FamilyId(3))]),
    ]
}

#[test]
fn reads_without_a_thread_agree_with_those_that_wait() {
    let off = |switch: fn(&mut ReadPath)| {
        let mut parts = ReadPath::default();
        switch(&mut parts);
        parts
    };
    for (seed, read_path) in [
        ReadPath::default(),
        off(|parts| parts.filters = false),
        off(|parts| parts.point_reads = false),
        off(|parts| parts.hints = false),
        off(|parts| parts.batched_reads = false),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = tempfile::tempdir().unwrap();
        let (engine, tree) = filled(dir.path(), Options { read_path, ..options() }, seed as u64);
        let early = engine.snapshot();
        fill(&engine, &mut StdRng::seed_from_u64(99), 500);
        let mut random = StdRng::seed_from_u64(seed as u64);
        let (mut by_task, mut waits) = (0, 0);
        for columns in &selections() {
            for (snapshot, versions_max) in [(None, None), (Some(&early), Some(1))] {
                let selection = RowSelection { versions_max, ..RowSelection::of(columns) };
                let mut reads = tree.row_reads(snapshot);
                let numbers: Vec<_> =
                    (0..200).map(|_| row(random.random_range(0..2 * ROWS))).collect();
                for (at, row) in numbers.iter().enumerate() {
                    let ahead = if at % 3 == 0 { &numbers[at + 1..] } else { &[] };
                    let read = read(&mut reads, row, ahead, &selection);
                    match run_for(read, usize::MAX).unwrap().unwrap() {
                        None => waits += 1,
                        Some(cells) => {
                            by_task += 1;
                            let want = blocking(&tree, row, &selection, snapshot).unwrap();
                            assert_eq!(cells, want);
                        }
                    }
                }
            }
        }
        println!("{read_path:?}: {by_task} by tasks, {waits} by threads");
        // How many wait depends on how many runs the compactions have left at this moment.
        assert!(by_task > waits, "{by_task} by tasks, {waits} by threads");
        let of = |name| engine.metrics().get(name).unwrap();
        assert!(of("point_disk_reads_total") > 100, "nothing was missing");
    }
}

/// Also where the cache has no frame for a value: it is held until the row was lent.
#[test]
fn rows_of_large_values_need_no_thread() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), options());
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let rows: Vec<_> = (0..200).map(|number| format!("row-{number:03}").into_bytes()).collect();
    let mut random = StdRng::seed_from_u64(17);
    for row in &rows {
        let mut batch = WriteBatch::new();
        for (qualifier, len) in [(b"a", 100), (b"b", 90_000), (b"c", 5_000), (b"d", 5_000)] {
            let column = Column::of(FamilyId(1), qualifier);
            batch.put(row, column, Timestamp(1), &vec![random.random(); len]);
        }
        engine.tree(TREE).unwrap().write(&batch).unwrap();
    }
    engine.tree(TREE).unwrap().compact_range(&engine::RowRange::ALL).unwrap();
    let tree = engine.tree(TREE).unwrap();
    for columns in &[Columns::All, Columns::ranges(vec![QualifierRange::column(FamilyId(1), b"b")])]
    {
        let selection = RowSelection::of(columns);
        let mut reads = tree.row_reads(None);
        for (at, row) in rows.iter().enumerate() {
            let ahead = if at % 4 == 0 { &rows[at + 1..] } else { &[] };
            let read = read(&mut reads, row, ahead, &selection);
            let cells = run_for(read, usize::MAX).unwrap().unwrap();
            assert_eq!(cells, Some(blocking(&tree, row, &selection, None).unwrap()));
        }
    }
    assert_eq!(engine.metrics().get("point_reads_merged_total"), Some(0));
}

/// Whoever else wants the blocks of a read that was dropped gets them.
#[test]
fn a_read_can_be_dropped_between_any_two_polls() {
    let dir = tempfile::tempdir().unwrap();
    let (_engine, tree) = filled(dir.path(), options(), 7);
    let columns = Columns::All;
    let selection = RowSelection::of(&columns);
    let mut dropped = [0; 8];
    for number in 0..160 {
        let row = row(number);
        let want = blocking(&tree, &row, &selection, None).unwrap();
        // Others push out what was just read.
        for other in 0..40 {
            blocking(&tree, &self::row(number * 31 + other * 97), &selection, None).unwrap();
        }
        let mut reads = tree.row_reads(None);
        let polls = number as usize % 4;
        let mut other = tree.row_reads(None);
        let ended = run_for(read(&mut reads, &row, &[], &selection), polls);
        dropped[polls] += usize::from(ended.is_none());
        let again = run_for(read(&mut other, &row, &[], &selection), usize::MAX).unwrap().unwrap();
        assert!(again.is_none_or(|cells| cells == want));
        assert_eq!(blocking(&tree, &row, &selection, None).unwrap(), want);
    }
    assert!(dropped[1] > 20 && dropped[2] > 0, "{dropped:?} were dropped after so many polls");
}

#[test]
fn a_row_that_is_resident_is_read_in_one_poll_and_by_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { cache_bytes_max: Some(64 << 20), ..options() };
    let (engine, tree) = filled(dir.path(), options, 3);
    // Nothing is left to be done in the background.
    engine.tree(TREE).unwrap().compact_range(&engine::RowRange::ALL).unwrap();
    fill(&engine, &mut StdRng::seed_from_u64(4), 100);
    let columns = Columns::All;
    let selection = RowSelection::of(&columns);
    let mut reads = tree.row_reads(None);
    let of = |name| engine.metrics().get(name).unwrap();
    for number in 0..ROWS {
        blocking(&tree, &row(number), &selection, None).unwrap();
    }
    let before = (of("point_blocks_fetched_total"), of("cache_misses_total"));
    for number in 0..ROWS {
        let cells = run_for(read(&mut reads, &row(number), &[], &selection), 1).unwrap().unwrap();
        assert_eq!(cells, Some(blocking(&tree, &row(number), &selection, None).unwrap()));
    }
    assert_eq!(before, (of("point_blocks_fetched_total"), of("cache_misses_total")));
    let stop = |_: &Cell<'_>| ControlFlow::Break(());
    let found = (0..ROWS)
        .find(|number| !blocking(&tree, &row(*number), &selection, None).unwrap().is_empty());
    let found = row(found.unwrap());
    let stopped = reads.read(&found, std::iter::empty(), &selection, stop);
    assert_eq!(run_for(stopped, 1).unwrap().unwrap(), RowEnd::Stopped);
}

#[test]
fn many_tasks_on_two_threads_come_to_an_end() {
    let dir = tempfile::tempdir().unwrap();
    let (_engine, tree) = filled(dir.path(), options(), 11);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..64 {
            let tree = tree.clone();
            tasks.spawn(async move {
                let mut random = StdRng::seed_from_u64(task);
                let columns = Columns::All;
                let selection = RowSelection::of(&columns);
                let mut reads = tree.row_reads(None);
                for _ in 0..50 {
                    // Of few rows, so that they meet.
                    let rows: Vec<_> = (0..4).map(|_| row(random.random_range(0..200))).collect();
                    let read = read(&mut reads, &rows[0], &rows[1..], &selection);
                    let cells = match random.random_range(0..4) {
                        0 => {
                            let short = std::time::Duration::from_micros(20);
                            tokio::time::timeout(short, read).await.unwrap_or(Ok(None))
                        }
                        _ => read.await,
                    };
                    if let Some(cells) = cells.unwrap() {
                        assert_eq!(cells, blocking(&tree, &rows[0], &selection, None).unwrap());
                    }
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    });
}

#[test]
fn an_engine_can_be_dropped_while_its_reads_are_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, mut tree) = filled(dir.path(), options(), 5);
    for round in 0..30 {
        let columns = Columns::All;
        let selection = RowSelection::of(&columns);
        let rows: Vec<_> = (0..32).map(|number| row(round * 101 + number * 13)).collect();
        let mut reads = tree.row_reads(None);
        let waker = Waker::noop();
        let mut begun = Box::pin(read(&mut reads, &rows[0], &rows[1..], &selection));
        let _ = begun.as_mut().poll(&mut Context::from_waker(waker));
        drop(begun);
        drop((reads, tree, engine));
        engine = open(dir.path(), options());
        tree = engine.tree(TREE).unwrap();
        let first = blocking(&tree, &rows[0], &selection, None).unwrap();
        let mut reads = tree.row_reads(None);
        let again = run_for(read(&mut reads, &rows[0], &[], &selection), usize::MAX).unwrap();
        assert!(again.unwrap().is_none_or(|cells| cells == first));
    }
}

#[test]
fn a_failing_disk_fails_both_kinds_of_read_with_the_same_error() {
    let machine = SimEnv::new(5);
    let open = || {
        let options = Options { direct_reads: false, ..options() };
        Engine::open_with_env(machine.env(), Path::new("data"), options).unwrap()
    };
    let engine = open();
    engine.create_tree(TREE, TreeOptions::default()).unwrap();
    let mut batch = WriteBatch::new();
    for number in 0..ROWS {
        batch.put(&row(number), Column::of(FamilyId(1), b"q"), Timestamp(1), &[7; 200]);
    }
    engine.tree(TREE).unwrap().write(&batch).unwrap();
    engine.tree(TREE).unwrap().flush().unwrap();
    drop(engine);
    let columns = Columns::All;
    let selection = RowSelection::of(&columns);
    let fails = |error: &Error| matches!(error, Error::Io { op: "read", .. });
    for after in 0..3 {
        let failure = |read: &dyn Fn(&Tree) -> Result<bool>| {
            let tree = open().tree(TREE).unwrap();
            machine.fs.inject(FaultPoint::Read, after, 1, Fault::Io);
            let error = read(&tree).unwrap_err();
            machine.fs.clear_faults();
            assert!(read(&tree).unwrap(), "the error is not remembered");
            error
        };
        let waited = failure(&|tree| Ok(!blocking(tree, &row(9), &selection, None)?.is_empty()));
        let by_task = failure(&|tree| {
            let mut reads = tree.row_reads(None);
            let row = row(9);
            let read = read(&mut reads, &row, &[], &selection);
            Ok(run_for(read, usize::MAX).unwrap()?.is_some_and(|cells| !cells.is_empty()))
        });
        assert!(fails(&waited), "{waited}");
        assert_eq!(waited.to_string(), by_task.to_string());
    }
}

/// What is looked at ahead does not fail the row that is read.
#[test]
fn damage_fails_the_rows_that_need_the_block_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, tree) = filled(dir.path(), options(), 13);
    engine.tree(TREE).unwrap().compact_range(&engine::RowRange::ALL).unwrap();
    drop((engine, tree));
    let ssts = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let sst = ssts.filter(|path| path.extension().is_some_and(|end| end == "sst")).min().unwrap();
    let mut bytes = std::fs::read(&sst).unwrap();
    bytes[100_000] ^= 1;
    std::fs::write(&sst, bytes).unwrap();
    let engine = open(dir.path(), options());
    let tree = engine.tree(TREE).unwrap();
    let columns = Columns::All;
    let selection = RowSelection::of(&columns);
    let mut rows: Vec<_> = (0..ROWS).map(row).collect();
    rows.sort();
    let mut damaged = 0;
    let mut reads = tree.row_reads(None);
    for (at, row) in rows.iter().enumerate() {
        let waited = blocking(&tree, row, &selection, None);
        let read = run_for(read(&mut reads, row, &rows[at + 1..], &selection), usize::MAX).unwrap();
        damaged += usize::from(waited.is_err());
        match (read, waited) {
            (Ok(read), Ok(waited)) => assert!(read.is_none_or(|cells| cells == waited)),
            // It found that it has to wait before it found the damage.
            (Ok(read), Err(_)) => assert_eq!(read, None),
            (Err(read), Err(waited)) => assert_eq!(read.to_string(), waited.to_string()),
            (Err(error), Ok(_)) => panic!("{error}"),
        }
    }
    assert!(damaged > 0, "nothing was damaged");
}
