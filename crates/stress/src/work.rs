//! The threads that work on the engine between two quiet moments: those that write, those that
//! read, and one that does what an operator or a background job might.

use crate::batch::Batch;
use crate::book::Book;
use crate::ledger::{Expected, Possible, Question, Sighting};
use crate::look::{self, Judged, Wanted, refused};
use crate::names::{self, QUALIFIERS, SUMS, Spot, TIMESTAMPS, WIDE_QUALIFIERS};
use crate::plan::Run;
use crate::report::Tally;
use base::env::{Clock, Env, FileSystem, Rng, SystemClock};
use engine::Options;
use engine::TimestampRange;
use engine::check::check_dir;
use engine::{Columns, Direction, QualifierRange, RowRange, ScanRequest};
use engine::{Engine, IngestOptions};
use engine::{FamilyId, Timestamp};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Memory of the engine that opens a checkpoint, beside that of the one under stress.
const COPY_BYTES: usize = 4 << 20;
/// A thread tells what it did when it has done so much.
const TELL_EVERY: u64 = 4;

/// What the threads share.
pub(crate) struct Site<'a> {
    pub(crate) run: &'a Run,
    pub(crate) engine: &'a Engine,
    pub(crate) expected: &'a Expected,
    pub(crate) book: &'a Book,
    /// Where checkpoints are made.
    pub(crate) copy: PathBuf,
    /// Differs from one time of work to the next.
    pub(crate) salt: u64,
    pub(crate) stop: AtomicBool,
    pub(crate) wrong: Mutex<Option<String>>,
    pub(crate) tally: Mutex<Tally>,
}

impl Site<'_> {
    pub(crate) fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Does `one` until all stop, with random numbers of its own and a tally that is handed on now
    /// and then. What it finds wrong, or a panic, stops all.
    fn go_on(&self, role: u64, mut one: impl FnMut(&mut Rng, &mut Tally) -> Judged<()>) {
        struct StopAtPanic<'a>(&'a AtomicBool);
        impl Drop for StopAtPanic<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.store(true, Ordering::Relaxed);
                }
            }
        }
        let _stop = StopAtPanic(&self.stop);
        let mut rng = Rng::new(self.run.seed ^ self.salt.rotate_left(20) ^ role.rotate_left(52));
        let mut tally = Tally::default();
        let mut done = 0;
        while !self.stops() {
            if let Err(what) = one(&mut rng, &mut tally) {
                self.wrong.lock().get_or_insert(what);
                self.stop.store(true, Ordering::Relaxed);
            }
            done += 1;
            if done % TELL_EVERY == 0 {
                self.tally.lock().add(&std::mem::take(&mut tally));
            }
        }
        self.tally.lock().add(&tally);
    }

    /// Writes as `writer`.
    pub(crate) fn write(&self, writer: u8) {
        self.go_on(1000 + u64::from(writer), |rng, tally| {
            let number = self.expected.ledgers[usize::from(writer)].lock().next();
            let batch = Batch::draw(self.expected.field, writer, number);
            let tree = self.expected.tree(batch.slot);
            let book = |noted: anyhow::Result<()>| noted.map_err(|error| format!("{error:#}"));
            let encoded = batch.encode();
            let files = batch.ingested.then(|| {
                let compression = None;
                let options = IngestOptions { compression, filters: rng.chance(70) };
                batch.write_sorted(self.engine.tree(tree)?.sst_writer(&options)?)
            });
            let files = files.transpose().map_err(|e| refused("writing sorted cells", &e))?;
            self.expected.begin(&batch);
            book(self.book.begun(&batch))?;
            let begun = SystemClock.monotonic();
            let written = match files {
                Some(mut files) => {
                    tally.ingests += 1;
                    self.engine.ingest(&mut files).map_err(|error| refused("an ingest", &error))
                }
                None => self
                    .engine
                    .tree(tree)
                    .and_then(|tree| tree.write(&encoded))
                    .map_err(|error| refused("a write", &error)),
            };
            tally.latencies.note(SystemClock.monotonic().saturating_sub(begun));
            written?;
            book(self.book.acknowledged(&batch))?;
            self.expected.ledgers[usize::from(writer)].lock().acknowledge();
            tally.batches += 1;
            Ok(())
        });
    }

    pub(crate) fn read(&self, reader: u8) {
        self.go_on(2000 + u64::from(reader), |rng, tally| {
            let (engine, expected) = (self.engine, self.expected);
            let slot = rng.below(expected.field.slots.into()) as u8;
            match rng.below(100) {
                0..30 => {
                    tally.gets += 1;
                    look::get(engine, expected, self.wanted(rng, slot))
                }
                30..45 => {
                    let spots: Vec<Spot> =
                        (0..1 + rng.below(100)).map(|_| self.spot(rng, slot)).collect();
                    tally.gets += spots.len() as u64;
                    let Wanted { family, qualifier, .. } = self.wanted(rng, slot);
                    look::multi_get(engine, expected, &spots, (family, qualifier))
                }
                45..55 => {
                    let wanted: Vec<Wanted> =
                        (0..1 + rng.below(60)).map(|_| self.wanted(rng, slot)).collect();
                    tally.gets += wanted.len() as u64;
                    look::gets_in_flight(engine, expected, &wanted, 1 + rng.index(40))
                }
                55..85 => {
                    tally.row_reads += 1;
                    let (spot, question) = (self.spot(rng, slot), question(rng));
                    look::row(engine, expected, spot, &question, rng.chance(50))
                }
                _ => {
                    tally.scans += 1;
                    let (rows, question, direction) = (self.rows(rng), question(rng), way(rng));
                    let found =
                        look::scan_and_judge(engine, expected, slot, rows, &question, direction);
                    tally.scanned_rows += found?;
                    Ok(())
                }
            }
        });
    }

    /// Flushes, compacts, holds snapshots, makes checkpoints.
    pub(crate) fn keep_house(&self) {
        let mut salt = 0;
        self.go_on(3000, |rng, tally| {
            salt += 1;
            let slot = rng.below(self.expected.field.slots.into()) as u8;
            let tree = self.expected.tree(slot);
            match rng.below(100) {
                0..8 => {
                    self.engine
                        .tree(tree)
                        .and_then(|tree| tree.flush())
                        .map_err(|error| refused("a flush", &error))?;
                }
                8..14 => {
                    let rows = self.rows(rng);
                    let compacted =
                        self.engine.tree(tree).and_then(|tree| tree.compact_range(&rows));
                    compacted.map_err(|error| refused("a compaction", &error))?;
                }
                14..24 => {
                    tally.snapshots += 1;
                    self.hold_snapshot(rng, slot)?;
                }
                24..27 => {
                    tally.checkpoints += 1;
                    self.copy(rng)?;
                }
                27..32 => self.engine.sync().map_err(|error| refused("a sync", &error))?,
                32..36 => {
                    let sampled = self
                        .engine
                        .tree(tree)
                        .and_then(|tree| tree.sample_rows(1 << rng.below(24)));
                    sampled.map_err(|error| refused("a sample of rows", &error))?;
                }
                _ => std::thread::sleep(Duration::from_millis(rng.below(40))),
            }
            self.tally.lock().add(&std::mem::take(tally));
            Ok(())
        });
    }

    /// A snapshot shows the same for as long as it is held.
    fn hold_snapshot(&self, rng: &mut Rng, slot: u8) -> Judged<()> {
        let window = self.expected.window_on_all();
        let snapshot = self.engine.snapshot();
        let mut request = ScanRequest { direction: way(rng), ..ScanRequest::rows(self.rows(rng)) };
        let scan = |request: &ScanRequest, each: &mut dyn FnMut(&Sighting) -> Judged<()>| {
            look::scan(self.engine, self.expected, slot, request, Some(&snapshot), each)
        };
        let (mut first, mut possible) = (BTreeMap::new(), Possible::new());
        scan(&request, &mut |row| {
            first.insert(row.spot, row.digest());
            let judged = window.judge_more(&Question::ALL, row, &mut possible);
            judged.map_err(|what| format!("a scan at a snapshot: {what}"))
        })?;
        drop(window);
        for _ in 0..1 + rng.below(4) {
            if !self.stops() {
                std::thread::sleep(Duration::from_millis(rng.below(300)));
            }
            request.direction = way(rng);
            scan(&request, &mut |row| {
                if first.get(&row.spot) == Some(&row.digest()) {
                    return Ok(());
                }
                let (at, spot) = (snapshot.sequence().0, row.spot);
                Err(format!("the snapshot at {at} moved in {:?}: {spot:?}", request.rows))
            })?;
        }
        Ok(())
    }

    /// A checkpoint holds what was there at one moment, and nothing else.
    fn copy(&self, rng: &mut Rng) -> Judged<()> {
        let mut window = self.expected.window_on_all();
        let made = self.engine.checkpoint(&self.copy);
        made.map_err(|error| refused("a checkpoint", &error))?;
        window.close();
        let options = Options {
            memory_bytes_max: COPY_BYTES,
            memtable_bytes_max: 256 << 10,
            ..Options::default()
        };
        let failed = |error| refused("opening a checkpoint", &error);
        let copy = Engine::open_with_env(Env::real(1), &self.copy, options).map_err(failed)?;
        let seen = look::everything(&copy, self.expected, &window, way(rng));
        seen.map_err(|what| format!("in a checkpoint: {what}"))?;
        copy.close().map_err(|error| refused("closing a checkpoint", &error))?;
        drop(copy);
        if rng.chance(30) {
            check(&self.copy)?;
        }
        remove_copy(&self.copy)
    }

    fn spot(&self, rng: &mut Rng, slot: u8) -> Spot {
        let writer = rng.index(self.expected.ledgers.len()) as u8;
        Spot { slot, writer, row: rng.below(self.expected.field.rows.into()) as u16 }
    }

    fn wanted(&self, rng: &mut Rng, slot: u8) -> Wanted {
        let spot = self.spot(rng, slot);
        let qualifiers = if spot.is_wide() { WIDE_QUALIFIERS } else { QUALIFIERS };
        let family = 1 + rng.below(SUMS.into()) as u8;
        Wanted { spot, family, qualifier: rng.below(qualifiers.into()) as u8 }
    }

    fn rows(&self, rng: &mut Rng) -> RowRange {
        let row = |rng: &mut Rng| self.spot(rng, 0).key();
        match rng.below(10) {
            0 => RowRange::ALL,
            1 => RowRange::single(&row(rng)),
            2 | 3 => RowRange::prefix(&row(rng)[..usize::from(names::GROUP_LEN)]),
            4 => RowRange::prefix(&row(rng)[..usize::from(names::WRITER_LEN)]),
            5 => RowRange { start: row(rng), end: None },
            _ => {
                let (a, b) = (row(rng), row(rng));
                RowRange { start: a.clone().min(b.clone()), end: Some(a.max(b)) }
            }
        }
    }
}

fn way(rng: &mut Rng) -> Direction {
    if rng.chance(60) { Direction::Forward } else { Direction::Reverse }
}

/// A question about some columns, timestamps and versions; half of them about all.
fn question(rng: &mut Rng) -> Question {
    if rng.chance(50) {
        return Question::ALL;
    }
    let range = |rng: &mut Rng| {
        let family = FamilyId(1 + rng.below(SUMS.into()) as u16);
        let name = names::qualifier(rng.below(QUALIFIERS.into()) as u8);
        match rng.below(3) {
            0 => QualifierRange::family(family),
            1 => QualifierRange::column(family, &name),
            _ => QualifierRange { family, start: name, end: None },
        }
    };
    let columns = match rng.below(3) {
        0 => Columns::All,
        _ => Columns::ranges((0..1 + rng.below(3)).map(|_| range(rng)).collect()),
    };
    let start = Timestamp(rng.below(TIMESTAMPS.into()) as i64);
    let timestamps = match rng.below(3) {
        0 => TimestampRange { start, end: None },
        1 => TimestampRange { start, end: Some(Timestamp(start.0 + 1 + rng.below(3) as i64)) },
        _ => TimestampRange::ALL,
    };
    let versions_max = rng.chance(40).then(|| 1 + rng.below(2) as u32);
    Question { columns, timestamps, versions_max }
}

/// Verifies every byte of the store at `dir`, which nobody has open.
pub(crate) fn check(dir: &Path) -> Judged<()> {
    let report = check_dir(&Env::real(1), dir, &mut |_| ());
    let report = report.map_err(|error| refused("a check", &error))?;
    match report.findings.first() {
        None => Ok(()),
        Some(finding) => Err(format!("a check finds {finding}")),
    }
}

/// Removes a checkpoint, if there is one.
pub(crate) fn remove_copy(dir: &Path) -> Judged<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// Verifies what a worker that was killed left of a checkpoint: one that was not finished does not
/// open, one that was is whole.
pub(crate) fn check_leftover(dir: &Path) -> Judged<()> {
    let current = base::env::RealFileSystem.exists(&dir.join("CURRENT"));
    if current.map_err(|error| format!("cannot look at {}: {error}", dir.display()))? {
        check(dir).map_err(|what| format!("of a checkpoint: {what}"))?;
    }
    remove_copy(dir)
}
