//! What a worker must not forget when it is killed, in the directory of the run beside the store.
//!
//! | file | what it is |
//! |---|---|
//! | `progress` | of each writer the last batch begun and the last one acknowledged, `u64` each, little-endian, written in place |
//! | `expected` | the state after some batch of each writer, and the ids of the trees; replaced in one step |
//!
//! A write of 8 bytes is in the page cache, whole, when the call returns, and a killed process
//! takes nothing back from there. The batches between `expected` and `progress` are drawn again.

use crate::batch::{Batch, Field};
use crate::ledger::{CellState, Expected, Ledger};
use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The files of a run: see the file header.
#[derive(Debug)]
pub(crate) struct Book {
    dir: PathBuf,
    progress: File,
}

/// What is saved; `Row` is the cells of a row.
#[derive(Serialize, Deserialize)]
struct Saved<Row> {
    /// True if trees were being replaced: some of `trees` may not be there yet, and are empty;
    /// others may still be there.
    replacing: bool,
    trees: Vec<u32>,
    writers: Vec<SavedWriter<Row>>,
}

#[derive(Serialize, Deserialize)]
struct SavedWriter<Row> {
    number: u64,
    /// By slot and row.
    rows: Vec<Vec<Row>>,
}

/// Of a writer, which of its two numbers.
#[derive(Clone, Copy)]
enum Mark {
    Begun = 0,
    Acked = 8,
}

impl Book {
    /// Opens the book in `dir`, a new one if there is none.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let path = dir.join("progress");
        let mut options = File::options();
        let progress = options.read(true).write(true).create(true).truncate(false).open(&path);
        let progress = progress.with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Self { dir: dir.to_owned(), progress })
    }

    fn mark(&self, writer: u8, mark: Mark, number: u64) -> Result<()> {
        let at = u64::from(writer) * 16 + mark as u64;
        self.progress.write_all_at(&number.to_le_bytes(), at).context("cannot write to progress")
    }

    fn marked(&self, writer: u8, mark: Mark) -> Result<u64> {
        let at = u64::from(writer) * 16 + mark as u64;
        let mut number = [0; 8];
        // What was never written is not there, or reads as zero.
        if self.progress.metadata().context("cannot read progress")?.len() >= at + 8 {
            self.progress.read_exact_at(&mut number, at).context("cannot read progress")?;
        }
        Ok(u64::from_le_bytes(number))
    }

    /// Notes that the engine is about to get a batch.
    pub(crate) fn begun(&self, batch: &Batch) -> Result<()> {
        self.mark(batch.writer, Mark::Begun, batch.number)
    }

    /// Notes that the engine has acknowledged a batch.
    pub(crate) fn acknowledged(&self, batch: &Batch) -> Result<()> {
        self.mark(batch.writer, Mark::Acked, batch.number)
    }

    /// What must be there: the state that was saved, and all that was acknowledged or begun since.
    /// Without one, `writers` writers who have written nothing, and empty trees. And whether trees
    /// were being replaced: some may not be there yet, others still be there.
    pub(crate) fn expected(&self, field: Field, writers: u8) -> Result<(Expected, bool)> {
        let saved = self.load()?.unwrap_or_else(|| Saved {
            replacing: true,
            trees: (1..=field.slots.into()).collect(),
            writers: (0..writers).map(|_| nothing_written(field)).collect(),
        });
        ensure!(saved.writers.len() == usize::from(writers), "the run has other writers");
        let mut ledgers = Vec::new();
        for (writer, saved) in (0..writers).zip(saved.writers) {
            ledgers.push(Mutex::new(self.replay(field, writer, saved)?));
        }
        let trees = saved.trees.into_iter().map(AtomicU32::new).collect();
        let grown = Arc::default();
        Ok((Expected { field, ledgers, trees, grown }, saved.replacing))
    }

    fn replay(
        &self,
        field: Field,
        writer: u8,
        saved: SavedWriter<Box<[CellState]>>,
    ) -> Result<Ledger> {
        let (begun, acked) = (self.marked(writer, Mark::Begun)?, self.marked(writer, Mark::Acked)?);
        let SavedWriter { number, rows } = saved;
        let mut ledger = Ledger::new(number, rows);
        for number in number + 1..=begun {
            ledger.begin(&Batch::draw(field, writer, number));
            if number <= acked {
                ledger.acknowledge();
            }
        }
        Ok(ledger)
    }

    fn load(&self) -> Result<Option<Saved<Box<[CellState]>>>> {
        let path = self.dir.join("expected");
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot open {}", path.display()));
            }
        };
        let saved = serde_json::from_reader(BufReader::new(file));
        Ok(Some(saved.with_context(|| format!("cannot read {}", path.display()))?))
    }

    /// Saves `expected`, of which nothing is in flight, and forgets what a crash undid.
    pub(crate) fn save(&self, expected: &Expected, replacing: bool) -> Result<()> {
        let ledgers: Vec<_> = expected.ledgers.iter().map(|ledger| ledger.lock()).collect();
        let settled = ledgers.iter().map(|ledger| {
            let (number, rows) = ledger.settled();
            SavedWriter { number, rows }
        });
        let writers = settled.collect();
        let trees = expected.trees.iter().map(|id| id.load(Ordering::Relaxed)).collect();
        let (path, part) = (self.dir.join("expected"), self.dir.join("expected.part"));
        let write = |saved: &Saved<&[CellState]>| -> Result<()> {
            let mut file = BufWriter::new(File::create(&part)?);
            serde_json::to_writer(&mut file, saved)?;
            file.flush()?;
            Ok(std::fs::rename(&part, &path)?)
        };
        let saved = Saved { replacing, trees, writers };
        write(&saved).with_context(|| format!("cannot write {}", path.display()))?;
        for (writer, saved) in (0u8..).zip(&saved.writers) {
            self.mark(writer, Mark::Acked, saved.number)?;
        }
        Ok(())
    }
}

fn nothing_written(field: Field) -> SavedWriter<Box<[CellState]>> {
    let rows = vec![vec![Box::default(); field.rows.into()]; field.slots.into()];
    SavedWriter { number: 0, rows }
}
