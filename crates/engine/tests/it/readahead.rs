//! Scans that read ahead: what they read, what they leave alone, and what damage and failing reads
//! do to them.

use crate::support::{TREE, open};
use base::env::SimEnv;
use base::env::sim::{Fault, FaultPoint};
use engine::internals::ReadPath;
use engine::{
    Column, Compression, Corruption, Direction, Engine, Error, FamilyId, IngestOptions, Options,
    Result, RowRange, Scan, ScanRequest, Timestamp, TreeOptions,
};
use std::path::Path;

const ROWS: u32 = 12_000;
const VALUE_BYTES: usize = 500;

fn options(readahead: bool) -> Options {
    Options {
        cache_bytes_max: Some(1 << 20),
        read_path: ReadPath { readahead, ..ReadPath::default() },
        ..Options::default()
    }
}

fn row(number: u32) -> Vec<u8> {
    format!("row/{number:08}").into_bytes()
}

fn value(number: u32) -> Vec<u8> {
    (0..VALUE_BYTES as u32).map(|at| (number.wrapping_mul(31) + at) as u8).collect()
}

/// Every `step`-th row from `first` on, in one run of blocks of 4 KiB.
fn ingest(engine: &Engine, (first, step): (u32, u32)) {
    let mut writer = engine.tree(TREE).unwrap().sst_writer(&IngestOptions::default()).unwrap();
    for number in (first..ROWS).step_by(step as usize) {
        writer
            .put(&row(number), Column::of(FamilyId(1), b""), Timestamp(1), &value(number))
            .unwrap();
    }
    engine.ingest(&mut writer.finish().unwrap()).unwrap();
}

fn tree_options() -> TreeOptions {
    TreeOptions {
        block_bytes: 4 << 10,
        compression: Compression::None,
        compression_last: Compression::None,
        ..TreeOptions::default()
    }
}

/// All rows in one run, with nothing of it in memory.
fn loaded(dir: &Path, options: Options) -> Engine {
    let engine = open(dir, options.clone());
    if !engine.trees().is_empty() {
        return engine;
    }
    engine.create_tree(TREE, tree_options()).unwrap();
    ingest(&engine, (0, 1));
    drop(engine);
    open(dir, options)
}

fn scan(engine: &Engine, direction: Direction, (from, to): (u32, u32)) -> Scan {
    let rows = RowRange { start: row(from), end: Some(row(to)) };
    engine
        .tree(TREE)
        .unwrap()
        .scan(&ScanRequest { direction, ..ScanRequest::rows(rows) }, None)
        .unwrap()
}

/// Reads up to `count` rows and checks that they are the numbers that `expected` gives.
fn read(scan: &mut Scan, mut expected: impl Iterator<Item = u32>, count: usize) -> Result<usize> {
    let mut read = 0;
    while read < count {
        let next = expected.next();
        let Some((key, cell)) = scan.next_row_and_cell()? else {
            assert_eq!(next, None, "no row is missing");
            break;
        };
        let number = next.expect("no row is invented");
        assert_eq!((key, cell.value), (&row(number)[..], &value(number)[..]));
        read += 1;
    }
    Ok(read)
}

fn metric(engine: &Engine, name: &str) -> u64 {
    engine.metrics().get(name).unwrap()
}

/// Blocks issued, used and wasted.
fn counts(engine: &Engine) -> [u64; 3] {
    [
        "readahead_blocks_issued_total",
        "readahead_blocks_total{result=\"used\"}",
        "readahead_blocks_total{result=\"wasted\"}",
    ]
    .map(|name| metric(engine, name))
}

#[test]
fn a_long_scan_reads_nearly_all_blocks_ahead_and_each_once() {
    for direction in [Direction::Forward, Direction::Reverse] {
        let dir = tempfile::tempdir().unwrap();
        let engine = loaded(dir.path(), options(true));
        let before = metric(&engine, "cache_misses_total");
        let mut scan = scan(&engine, direction, (0, ROWS));
        let read = match direction {
            Direction::Forward => read(&mut scan, 0..ROWS, usize::MAX),
            Direction::Reverse => read(&mut scan, (0..ROWS).rev(), usize::MAX),
        };
        assert_eq!(read.unwrap(), ROWS as usize);
        drop(scan);
        let [issued, used, wasted] = counts(&engine);
        let misses = metric(&engine, "cache_misses_total") - before;
        assert!(misses - used < 20, "{used} of {misses} blocks were read ahead");
        assert_eq!((issued, wasted), (used, 0), "{direction:?}");
    }
}

#[test]
fn switched_off_nothing_is_read_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let engine = loaded(dir.path(), options(false));
    read(&mut scan(&engine, Direction::Forward, (0, ROWS)), 0..ROWS, usize::MAX).unwrap();
    assert_eq!(counts(&engine), [0; 3]);
}

#[test]
fn a_scan_of_resident_blocks_or_of_one_block_reads_nothing_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let engine = loaded(dir.path(), Options { cache_bytes_max: Some(64 << 20), ..options(true) });
    for from in (0..ROWS).step_by(1000) {
        read(&mut scan(&engine, Direction::Forward, (from, ROWS)), from..ROWS, 3).unwrap();
    }
    assert_eq!(counts(&engine), [0; 3], "two blocks in a row were never missed");
    read(&mut scan(&engine, Direction::Forward, (0, ROWS)), 0..ROWS, usize::MAX).unwrap();
    let first = counts(&engine);
    read(&mut scan(&engine, Direction::Forward, (0, ROWS)), 0..ROWS, usize::MAX).unwrap();
    assert_eq!(counts(&engine), first);
}

#[test]
fn reading_ahead_skips_what_is_resident() {
    let dir = tempfile::tempdir().unwrap();
    let engine = loaded(dir.path(), Options { cache_bytes_max: Some(64 << 20), ..options(true) });
    let middle = 4000..8000;
    read(&mut scan(&engine, Direction::Forward, (4000, 8000)), middle.clone(), usize::MAX).unwrap();
    let (first, misses) = (counts(&engine), metric(&engine, "cache_misses_total"));
    assert_eq!(first[2], 0, "bounds are kept: {first:?}");
    read(&mut scan(&engine, Direction::Forward, (0, ROWS)), 0..ROWS, usize::MAX).unwrap();
    let [issued, used, wasted] = counts(&engine);
    let misses = metric(&engine, "cache_misses_total") - misses;
    assert_eq!((issued, wasted), (used, 0));
    let blocks = u64::from(ROWS) * VALUE_BYTES as u64 / (4 << 10);
    assert!(misses < blocks * 3 / 4, "{misses} of some {blocks} blocks");
}

#[test]
fn a_scan_that_ends_early_has_read_little_in_vain() {
    let dir = tempfile::tempdir().unwrap();
    let engine = loaded(dir.path(), options(true));
    let (mut rows_read, mut before) = (0, counts(&engine));
    for rows in [8, 20, 40, 100, 400, 1500] {
        let from = rows_read;
        read(&mut scan(&engine, Direction::Forward, (from, ROWS)), from..ROWS, rows).unwrap();
        rows_read += rows as u32 + 100;
        let after = counts(&engine);
        let wasted = after[2] - before[2];
        let useful = rows * VALUE_BYTES / (4 << 10) + 1;
        // The first window, and twice what was of use.
        assert!(wasted <= 16 + 2 * useful as u64, "{wasted} blocks in vain for {useful}");
        assert_eq!(after[0], after[1] + after[2]);
        before = after;
    }
}

#[test]
fn seeks_within_a_scan_find_their_rows() {
    let dir = tempfile::tempdir().unwrap();
    let engine = loaded(dir.path(), options(true));
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut scan = scan(&engine, direction, (0, ROWS));
        // Onward, back, into the window, behind it.
        for (from, rows) in
            [(0, 300), (5000, 200), (4000, 300), (4350, 10), (9000, 1000), (8500, 2)]
        {
            scan.seek(&row(from));
            match direction {
                Direction::Forward => read(&mut scan, from..ROWS, rows).unwrap(),
                Direction::Reverse => read(&mut scan, (0..from).rev(), rows).unwrap(),
            };
        }
    }
    let [issued, used, wasted] = counts(&engine);
    assert!(used > 100, "{used}");
    assert_eq!(issued, used + wasted);
}

#[test]
fn runs_that_overlap_read_ahead_each_for_itself() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { l0_runs_compact: 20, l0_runs_stall: 40, ..options(true) };
    let engine = open(dir.path(), options.clone());
    engine.create_tree(TREE, tree_options()).unwrap();
    (0..3).for_each(|first| ingest(&engine, (first, 3)));
    drop(engine);
    let engine = open(dir.path(), options);
    read(&mut scan(&engine, Direction::Forward, (0, ROWS)), 0..ROWS, usize::MAX).unwrap();
    let [issued, used, wasted] = counts(&engine);
    assert_eq!((issued, wasted), (used, 0));
    let blocks = u64::from(ROWS) * VALUE_BYTES as u64 / (4 << 10);
    assert!(used > blocks * 9 / 10, "{used} of some {blocks} blocks");
    // A compaction reads its inputs ahead as well, past the cache.
    let inserted = metric(&engine, "cache_inserted_total");
    engine.tree(TREE).unwrap().compact_range(&RowRange::ALL).unwrap();
    let [issued, used_then, wasted] = counts(&engine);
    assert_eq!((issued, wasted), (used_then, 0));
    // The cache may have up to 256 of them, which nobody reads again.
    assert!(used_then - used > blocks * 3 / 4, "{}", used_then - used);
    assert!(metric(&engine, "cache_inserted_total") - inserted < blocks / 10);
    read(&mut scan(&engine, Direction::Forward, (0, ROWS)), 0..ROWS, usize::MAX).unwrap();
}

/// A damaged block fails the scan when it comes there, with its file and place: every row before
/// was lent, none after it, and scans that do not need the block know nothing of it.
#[test]
fn damage_shows_where_the_scan_comes_to_it_and_nowhere_else() {
    let dir = tempfile::tempdir().unwrap();
    drop(loaded(dir.path(), options(true)));
    let ssts = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let sst = ssts.filter(|path| path.extension().is_some_and(|end| end == "sst")).min().unwrap();
    let mut bytes = std::fs::read(&sst).unwrap();
    let damaged_at = 1_000_000;
    bytes[damaged_at] ^= 1;
    std::fs::write(&sst, bytes).unwrap();
    let engine = loaded(dir.path(), options(true));
    let mut ends = Vec::new();
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut scan = scan(&engine, direction, (0, ROWS));
        let mut read = 0;
        let error = loop {
            match scan.next_row_and_cell() {
                Ok(Some((key, cell))) => {
                    let number = match direction {
                        Direction::Forward => read,
                        Direction::Reverse => ROWS - 1 - read,
                    };
                    assert_eq!((key, cell.value), (&row(number)[..], &value(number)[..]));
                    read += 1;
                }
                Ok(None) => panic!("the scan ended before the damage"),
                Err(error) => break error,
            }
        };
        let Error::Corruption(Corruption { file, offset, .. }) = &error else { panic!("{error}") };
        assert_eq!(*file, sst);
        assert!((damaged_at - 5000..=damaged_at).contains(&(*offset as usize)), "{offset}");
        assert!(matches!(scan.next_row_and_cell(), Ok(None)), "the scan is over");
        ends.push(read);
    }
    let (before, after) = (ends[0], ends[1]);
    let lost = ROWS - before - after;
    assert!((1..=9).contains(&lost), "{lost} rows in the damaged block");
    // Its neighbours are read without a word, though the block was read ahead with them.
    read(&mut scan(&engine, Direction::Forward, (0, ROWS)), 0..ROWS, before as usize).unwrap();
    let end = before - 1;
    read(&mut scan(&engine, Direction::Forward, (0, end)), 0..end, usize::MAX).unwrap();
}

/// One read of the disk fails, whichever it is: the scan lends right rows up to an error, or all of
/// them, and the next scan lends all.
#[test]
fn a_failed_read_is_an_error_or_nothing() {
    let mut failed = 0;
    for at in 0..90 {
        let sim = SimEnv::new(at);
        let dir = Path::new("/data");
        let engine = Engine::open_with_env(sim.env(), dir, options(true)).unwrap();
        engine.create_tree(TREE, tree_options()).unwrap();
        ingest(&engine, (0, 4));
        drop(engine);
        let engine = Engine::open_with_env(sim.env(), dir, options(true)).unwrap();
        let direction = [Direction::Forward, Direction::Reverse][at as usize % 2];
        let expected = || -> Box<dyn Iterator<Item = u32>> {
            match direction {
                Direction::Forward => Box::new((0..ROWS).step_by(4)),
                Direction::Reverse => Box::new((0..ROWS).step_by(4).rev()),
            }
        };
        sim.fs.inject(FaultPoint::Read, 4 * at, 1, Fault::Io);
        match read(&mut scan(&engine, direction, (0, ROWS)), expected(), usize::MAX) {
            Ok(rows) => assert_eq!(rows, ROWS as usize / 4),
            Err(Error::Io { .. }) => failed += 1,
            Err(error) => panic!("{error}"),
        }
        sim.fs.clear_faults();
        let again = read(&mut scan(&engine, direction, (0, ROWS)), expected(), usize::MAX);
        assert_eq!(again.unwrap(), ROWS as usize / 4);
    }
    assert!(failed > 50, "{failed} scans met the failed read");
}
