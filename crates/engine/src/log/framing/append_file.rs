//! A file of records open for appending: the part of the write protocol that commit log and
//! manifest share.
//!
//! 1. `tail` is where the next record goes; everything below `synced` is on disk.
//! 2. After `NoSpace` from a write the file was cut back to `tail`, got back what was allocated if that
//!    is still there, and was synced: nothing of what was being written can ever be read, and the write can
//!    be repeated. A full disk met by the
//!    cut or the sync itself is an ordinary `Io` error.
//! 3. After any other error the file must not be written again.
//! 4. Who takes over a file that an earlier process wrote writes its bytes again before it relies
//!    on a sync: after a sync that failed, a system may count pages that never reached the disk
//!    as clean, and a later sync then says nothing of them (Rebello et al., "Can Applications
//!    Recover from fsync Failures?", 2020).

use super::record::{self, FILE_HEADER_LEN, Format, LogRecord, RECORD_HEADER_LEN, RecordKind};
use crate::error::{Error, Result};
use crate::shape::Shape;
use base::env::fs::{FileSystem, WriteFile};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// See the file header.
pub(crate) struct AppendFile {
    number: u64,
    path: PathBuf,
    file: Box<dyn WriteFile>,
    tail: u64,
    synced: u64,
    /// Length of the file, allocated.
    allocated: u64,
    /// The framed records; kept for its memory.
    frame: Vec<u8>,
    /// Memory of it that is kept between writes.
    frame_bytes_kept: usize,
}

/// Bytes written again at a time.
const REWRITE_BYTES: usize = 1 << 20;

/// Writes `bytes` of the file at `path` again, as they read now, so that the next sync of `file`
/// covers them (rule 4 of the file header).
pub(crate) fn write_again(
    fs: &dyn FileSystem,
    path: &Path,
    file: &mut dyn WriteFile,
    bytes: Range<u64>,
) -> Result<()> {
    let source = fs.open_read(path).map_err(|error| Error::io("open", path, &error))?;
    let Range { start: mut offset, end } = bytes;
    let mut part = Vec::new();
    while offset < end {
        part.resize((end - offset).min(REWRITE_BYTES as u64) as usize, 0);
        source.read_exact_at(&mut part, offset).map_err(|e| Error::io("read", path, &e))?;
        file.write_all_at(&part, offset).map_err(|error| Error::io("write", path, &error))?;
        offset += part.len() as u64;
    }
    Ok(())
}

impl AppendFile {
    /// Makes `file`, just created or recycled, one of this format and version with at least `len` bytes
    /// allocated (0: none). Its header is on disk when this returns, its name is not.
    pub(crate) fn start(
        mut file: Box<dyn WriteFile>,
        path: PathBuf,
        (format, version): (&Format, u32),
        number: u64,
        len: u64,
    ) -> Result<Self> {
        let header = record::encode_file_header(format, version, number);
        let allocated = if len > FILE_HEADER_LEN { file.allocate(len) } else { Ok(()) };
        allocated
            .and_then(|()| file.write_all_at(&header, 0))
            .map_err(|error| Error::io("create", &path, &error))?;
        file.sync().map_err(|error| Error::unforgiven("sync", &path, &error))?;
        Self::resume(file, path, number, FILE_HEADER_LEN)
    }

    /// Goes on at `tail` of a file whose bytes below it are on disk.
    pub(crate) fn resume(
        file: Box<dyn WriteFile>,
        path: PathBuf,
        number: u64,
        tail: u64,
    ) -> Result<Self> {
        let allocated = file.size().map_err(|error| Error::io("read", &path, &error))?;
        let (frame, frame_bytes_kept) = (Vec::new(), Shape::DEFAULT.frame_bytes_kept);
        Ok(Self { number, path, file, tail, synced: tail, allocated, frame, frame_bytes_kept })
    }

    /// Sets how many bytes of memory for framing are kept between writes.
    pub(crate) fn keep_frame_bytes(&mut self, bytes: usize) {
        self.frame_bytes_kept = bytes;
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }

    /// Length of the file, with what is reserved.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Writes `records` at the tail, in one write.
    pub(crate) fn append(&mut self, records: &[LogRecord<'_>]) -> Result<()> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        for record in records {
            let offset = self.tail + frame.len() as u64;
            record::encode_record(&mut frame, self.number, offset, self.synced, record);
        }
        let written = self.write(&frame);
        frame.shrink_to(self.frame_bytes_kept);
        self.frame = frame;
        written
    }

    /// Writes a record without payload at the tail.
    pub(crate) fn append_mark(&mut self, kind: RecordKind) -> Result<()> {
        let mut mark = Vec::with_capacity(RECORD_HEADER_LEN);
        record::encode_mark(&mut mark, self.number, self.tail, self.synced, kind);
        self.write(&mark)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Err(error) = self.file.write_all_at(bytes, self.tail) {
            let error = Error::io("write", &self.path, &error);
            if matches!(error, Error::NoSpace { .. }) {
                let allocated = self.allocated;
                self.cut()?;
                // The space behind the tail is reserved again, unless others took it meanwhile.
                let _ = self.allocate(allocated);
                self.sync()?;
            }
            return Err(error);
        }
        self.tail += bytes.len() as u64;
        self.allocated = self.allocated.max(self.tail);
        Ok(())
    }

    /// Cuts the file at the tail. Durable after `sync`.
    pub(crate) fn cut(&mut self) -> Result<()> {
        let cut = self.file.set_len(self.tail);
        cut.map_err(|error| Error::unforgiven("truncate", &self.path, &error))?;
        self.allocated = self.tail;
        Ok(())
    }

    /// Returns whether there is something to sync.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced == self.tail
    }

    /// Makes everything below the tail durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.file.sync().map_err(|error| Error::unforgiven("sync", &self.path, &error))?;
        self.synced = self.tail;
        Ok(())
    }

    /// Makes the file at least `len` bytes long.
    pub(crate) fn allocate(&mut self, len: u64) -> Result<()> {
        if len > self.allocated {
            let done = self.file.allocate(len);
            done.map_err(|error| Error::io("allocate", &self.path, &error))?;
            self.allocated = len;
        }
        Ok(())
    }
}
