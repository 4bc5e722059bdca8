//! Real threads on the real file system: batches are atomic, snapshots stand still, and time goes
//! one way, while flushes and compactions run.

use base::env::Rng;
use engine::{Column, FamilyId, SequenceNumber, Timestamp, TreeId};
use engine::{ColumnOf, Engine, RowRange, ScanRequest, Snapshot, WriteBatch};
use engine::{Durability, Options, TreeOptions};
use sim::oracle::answer;
use sim::workload::small_options;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TREE: TreeId = TreeId(1);
const WRITERS: u64 = 3;
const READERS: u64 = 2;
/// Rows that each batch of a writer writes, spread over the tree.
const ROWS: u64 = 8;

fn column() -> Column<'static> {
    Column::of(FamilyId(1), b"round")
}

/// What writer `writer` does in `round`: deletes its rows now and then, and writes the round's
/// number into all of them.
fn batch(writer: u64, round: u64, rng: &mut Rng) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for part in 0..ROWS {
        let row = format!("{part}/{writer}").into_bytes();
        match rng.below(4) {
            0 => batch.delete_row(&row),
            1 => batch.delete_family(&row, FamilyId(1)),
            _ => {}
        }
        let mut value = round.to_be_bytes().to_vec();
        value.resize(8 + rng.index(700), rng.below(256) as u8);
        // An older timestamp than before, now and then: the newest write need not be on top.
        batch.delete_column(&row, FamilyId(1), b"round");
        batch.put(&row, column(), Timestamp(rng.below(5) as i64), &value);
    }
    batch
}

/// The round of each writer that `snapshot` shows. Panics if it shows half a batch.
fn rounds(engine: &Engine, request: &ScanRequest, snapshot: &Snapshot) -> BTreeMap<u64, u64> {
    let mut seen: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (row, cells) in answer(engine, TREE, request, Some(snapshot)).unwrap() {
        let name = String::from_utf8(row).unwrap();
        assert_eq!(cells.len(), 1, "cells of row {name} at {:?}", snapshot.sequence());
        let round = u64::from_be_bytes(cells[0].value[..8].try_into().unwrap());
        let writer = name.split_once('/').unwrap().1.parse().unwrap();
        seen.entry(writer).or_default().push(round);
    }
    seen.into_iter()
        .map(|(writer, rounds)| {
            let at = snapshot.sequence();
            assert_eq!(rounds, vec![rounds[0]; ROWS as usize], "writer {writer} at {at:?}");
            (writer, rounds[0])
        })
        .collect()
}

/// Writes at least one round, however late it begins.
fn write(engine: &Engine, writer: u64, acknowledged: &AtomicU64, stop: &AtomicBool) {
    let mut rng = Rng::new(writer);
    let mut before = SequenceNumber(0);
    let mut round = acknowledged.load(Ordering::Relaxed);
    loop {
        round += 1;
        let last = engine.tree(TREE).unwrap().write(&batch(writer, round, &mut rng)).unwrap();
        assert!(last > before, "numbers grow");
        before = last;
        acknowledged.store(round, Ordering::Release);
        if stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Reads at least once, however late it begins.
fn read(engine: &Engine, reader: u64, acknowledged: &[AtomicU64], stop: &AtomicBool) {
    let mut rng = Rng::new(1000 + reader);
    let mut requests = [ScanRequest::rows(RowRange::ALL), ScanRequest::rows(RowRange::ALL)];
    requests[1].direction = engine::Direction::Reverse;
    let mut last = BTreeMap::new();
    let mut kept: Option<(Snapshot, BTreeMap<u64, u64>)> = None;
    loop {
        let least: Vec<u64> = acknowledged.iter().map(|r| r.load(Ordering::Acquire)).collect();
        let snapshot = engine.snapshot();
        let now = rounds(engine, rng.pick(&requests), &snapshot);
        for (writer, least) in (0..).zip(least) {
            let seen = now.get(&writer).copied().unwrap_or(0);
            assert!(seen >= least, "writer {writer}: round {least} was acknowledged, {seen} seen");
            let before = last.get(&writer).copied().unwrap_or(0);
            assert!(seen >= before, "writer {writer}: round {before} seen before {seen}");
            let row = format!("{}/{writer}", rng.below(ROWS));
            let got = engine.tree(TREE).and_then(|tree| {
                tree.get(ColumnOf::new(row.as_bytes(), FamilyId(1), b"round"), Some(&snapshot))
            });
            let got =
                got.unwrap().map_or(0, |(_, v)| u64::from_be_bytes(v[..8].try_into().unwrap()));
            assert_eq!(got, seen, "a get and a scan at {:?}", snapshot.sequence());
        }
        if let Some((snapshot, then)) = &kept {
            assert_eq!(&rounds(engine, rng.pick(&requests), snapshot), then, "a snapshot moved");
        }
        if kept.is_none() || rng.chance(10) {
            kept = Some((snapshot, now.clone()));
        }
        last = now;
        if stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn shake(engine: &Engine, stop: &AtomicBool) {
    let mut rng = Rng::new(77);
    while !stop.load(Ordering::Relaxed) {
        match rng.below(4) {
            0 => engine.tree(TREE).unwrap().flush().unwrap(),
            1 => engine.tree(TREE).unwrap().compact_range(&sim::names::rows(&mut rng)).unwrap(),
            2 => engine.tree(TREE).unwrap().compact_range(&RowRange::prefix(b"3")).unwrap(),
            _ => std::thread::sleep(Duration::from_millis(rng.below(20))),
        }
    }
}

/// Runs everybody for `time`; returns the last acknowledged round of each writer.
fn run(engine: &Engine, start: &BTreeMap<u64, u64>, time: Duration) -> Vec<u64> {
    let stop = AtomicBool::new(false);
    let acknowledged: Vec<AtomicU64> =
        (0..WRITERS).map(|w| AtomicU64::new(start.get(&w).copied().unwrap_or(0))).collect();
    std::thread::scope(|scope| {
        let (stop, acknowledged) = (&stop, &acknowledged[..]);
        for writer in 0..WRITERS {
            let mine = &acknowledged[writer as usize];
            scope.spawn(move || stopping(stop, || write(engine, writer, mine, stop)));
        }
        for reader in 0..READERS {
            scope.spawn(move || stopping(stop, || read(engine, reader, acknowledged, stop)));
        }
        scope.spawn(move || stopping(stop, || shake(engine, stop)));
        let begin = Instant::now();
        while begin.elapsed() < time && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
    });
    acknowledged.iter().map(|rounds| rounds.load(Ordering::Relaxed)).collect()
}

/// Runs `work`, and stops all the others if it panics.
fn stopping(stop: &AtomicBool, work: impl FnOnce()) {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.store(true, Ordering::Relaxed);
            }
        }
    }
    let _stop = Stop(stop);
    work();
}

fn threads_agree(durability: Durability) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { l0_runs_stall: 8, ..small_options(durability) };
    let open = || Engine::open(dir.path(), options.clone()).unwrap();
    let engine = open();
    engine
        .create_tree(TREE, TreeOptions { block_bytes: 1 << 10, ..TreeOptions::default() })
        .unwrap();
    let seconds = sim::points::number("STELE_SECONDS").unwrap_or(3);
    let mut last = BTreeMap::new();
    let mut engine = Some(engine);
    for _ in 0..2 {
        let open_engine = engine.take().unwrap_or_else(open);
        let reached = run(&open_engine, &last, Duration::from_secs(seconds) / 2);
        assert!(reached.iter().all(|rounds| *rounds > 0), "every writer wrote: {reached:?}");
        // The process ends without closing; nothing acknowledged is lost.
        drop(open_engine);
        let again = open();
        last = rounds(&again, &ScanRequest::rows(RowRange::ALL), &again.snapshot());
        assert_eq!(last.values().copied().collect::<Vec<_>>(), reached);
        engine = Some(again);
    }
}

#[test]
fn readers_never_see_half_a_batch_when_every_commit_is_synced() {
    threads_agree(Durability::Sync);
}

#[test]
fn readers_never_see_half_a_batch_in_bulk_mode() {
    threads_agree(Durability::None);
}
