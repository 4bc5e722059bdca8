//! One part of an export on its way to disk.

use super::part_list::{Part, escaped};
use super::source::Piece;
use crate::state_file::sync_dir_of;
use anyhow::{Context, Result};
use base::checksum::Xxh3;
use interchange::rows::{Format, RowWriter, WriteOptions, writer};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use table::Bytes;

const BUFFER_BYTES: usize = 1 << 20;
/// Ending of a part that is not finished.
pub(super) const UNFINISHED: &str = ".unfinished";

/// A part that is being written. Dropped before its end, it removes its file.
pub(super) struct PartWriter {
    /// Path of the finished file, and of the unfinished one.
    path: PathBuf,
    unfinished: PathBuf,
    writer: Box<dyn RowWriter>,
    file: Arc<File>,
    sum: Arc<Mutex<Sum>>,
    /// The keys of the first row and of the last complete one.
    first_key: Option<Bytes>,
    last_key: Bytes,
    rows: u64,
    cells: u64,
    done: bool,
}

/// Length and checksum of what was written.
#[derive(Default)]
struct Sum {
    bytes: u64,
    hash: Xxh3,
}

/// Counts and sums what goes to the file.
struct Summed {
    file: Arc<File>,
    sum: Arc<Mutex<Sum>>,
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let len = (&*self.file).write(bytes)?;
        let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        sum.hash.update(&bytes[..len]);
        sum.bytes += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl PartWriter {
    /// Begins the part that will be at `path`.
    pub(super) fn create(path: PathBuf, format: Format, options: WriteOptions) -> Result<Self> {
        let mut unfinished = path.clone().into_os_string();
        unfinished.push(UNFINISHED);
        let unfinished = PathBuf::from(unfinished);
        let context = || format!("could not write {}", unfinished.display());
        let file = Arc::new(File::create(&unfinished).with_context(context)?);
        let sum = Arc::<Mutex<Sum>>::default();
        let output = Summed { file: Arc::clone(&file), sum: Arc::clone(&sum) };
        let output = Box::new(BufWriter::with_capacity(BUFFER_BYTES, output));
        let writer = writer(format, options, output).with_context(context)?;
        let (first_key, last_key) = (None, Bytes::new());
        let (rows, cells, done) = (0, 0, false);
        Ok(Self { path, unfinished, writer, file, sum, first_key, last_key, rows, cells, done })
    }

    pub(super) fn write(&mut self, piece: &Piece) -> Result<()> {
        let written = self.writer.write(&piece.row);
        written.with_context(|| format!("could not write {}", self.unfinished.display()))?;
        self.cells += piece.row.cells.len() as u64;
        if self.first_key.is_none() {
            self.first_key = Some(piece.row.key.clone());
        }
        if piece.last {
            self.rows += 1;
            self.last_key = piece.row.key.clone();
        }
        Ok(())
    }

    /// Returns the complete rows in the part.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the bytes that went to the file.
    pub(super) fn bytes(&self) -> u64 {
        self.sum.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Writes the end of the file and syncs it.
    pub(super) fn sync(&mut self) -> Result<()> {
        let context = || format!("could not write {}", self.unfinished.display());
        self.writer.finish().with_context(context)?;
        self.file.sync_all().with_context(context)
    }

    /// Gives the file, which is synced, its name, and returns its record.
    pub(super) fn rename(mut self) -> Result<Part> {
        let renamed = std::fs::rename(&self.unfinished, &self.path);
        let context = || format!("could not rename {}", self.unfinished.display());
        renamed.and_then(|()| sync_dir_of(&self.path)).with_context(context)?;
        self.done = true;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let first_key = self.first_key.take().unwrap_or_default();
        let sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Part {
            file: name,
            first_key: escaped(&first_key),
            last_key: escaped(&self.last_key),
            rows: self.rows,
            cells: self.cells,
            bytes: sum.bytes,
            xxh3: format!("{:016x}", sum.hash.digest()),
        })
    }
}

impl Drop for PartWriter {
    fn drop(&mut self) {
        if !self.done {
            // The next run removes a file that stays.
            let _ = std::fs::remove_file(&self.unfinished);
        }
    }
}
