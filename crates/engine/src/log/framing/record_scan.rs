//! Reads one file of records: the next record, and whether a bad one was once on disk.
//!
//! 1. No more than one window of the file is in memory; it grows to the longest record, whose
//!    length was checked against the file's before anything is read.
//! 2. Nothing is written. The file may grow while it is read; what was added is not seen.

use super::record::{
    self, FILE_HEADER_LEN, FileHeaderFault, Format, RECORD_HEADER_LEN, RecordFault, RecordHeader,
};
use crate::error::{Error, Result};
use base::checksum::crc32c;
use base::env::fs::{FileSystem, ReadFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read at once.
const WINDOW_BYTES: u64 = 256 << 10;

/// One file of records, open for reading.
pub(crate) struct RecordFile {
    format: &'static Format,
    number: u64,
    path: PathBuf,
    file: Arc<dyn ReadFile>,
    len: u64,
    window: Vec<u8>,
    window_start: u64,
}

impl RecordFile {
    pub(crate) fn open(
        fs: &dyn FileSystem,
        path: &Path,
        format: &'static Format,
        number: u64,
    ) -> Result<Self> {
        let file = fs.open_read(path).map_err(|error| Error::io("open", path, &error))?;
        let len = file.size().map_err(|error| Error::io("read", path, &error))?;
        let path = path.to_owned();
        Ok(Self { format, number, path, file, len, window: Vec::new(), window_start: 0 })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file when it was opened.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Corruption of this file at `offset`.
    pub(crate) fn corruption(&self, offset: u64, what: &str) -> Error {
        Error::corruption(&self.path, offset, what)
    }

    /// Up to `len` bytes from `offset`, fewer at the end of the file.
    fn bytes(&mut self, offset: u64, len: u64) -> Result<&[u8]> {
        let len = len.min(self.len.saturating_sub(offset));
        if len == 0 {
            return Ok(&[]);
        }
        let window_end = self.window_start + self.window.len() as u64;
        if offset < self.window_start || offset + len > window_end {
            let wanted = len.max(WINDOW_BYTES).min(self.len.saturating_sub(offset));
            self.window.clear();
            self.window_start = offset;
            self.window.resize(wanted as usize, 0);
            if let Err(error) = self.file.read_exact_at(&mut self.window, offset) {
                self.window.clear();
                return Err(Error::io("read", &self.path, &error));
            }
        }
        let start = (offset - self.window_start) as usize;
        Ok(&self.window[start..start + len as usize])
    }

    /// Checks the file's header.
    pub(crate) fn header(&mut self) -> Result<Result<(), FileHeaderFault>> {
        let (format, number) = (self.format, self.number);
        let bytes = self.bytes(0, FILE_HEADER_LEN)?;
        Ok(record::check_file_header(format, number, bytes))
    }

    /// Checks the record at `offset`, header and payload.
    pub(crate) fn record(&mut self, offset: u64) -> Result<Result<RecordHeader, RecordFault>> {
        let (format, number) = (self.format, self.number);
        let bytes = self.bytes(offset, RECORD_HEADER_LEN as u64)?;
        let header = match record::decode_record_header(format, number, offset, bytes) {
            Ok(header) => header,
            Err(fault) => return Ok(Err(fault)),
        };
        let payload = self.payload(offset, &header)?;
        if payload.len() < header.payload_len as usize {
            return Ok(Err(RecordFault::Bad("the file ends inside a record")));
        }
        if crc32c(&[payload]) != header.payload_crc {
            return Ok(Err(RecordFault::Bad("checksum of a record")));
        }
        Ok(Ok(header))
    }

    /// The payload of the record at `offset`, which has this header. Costs nothing right after
    /// `record`.
    pub(crate) fn payload(&mut self, offset: u64, header: &RecordHeader) -> Result<&[u8]> {
        self.bytes(offset + RECORD_HEADER_LEN as u64, u64::from(header.payload_len))
    }

    /// Searches everything after `offset` for the header of a record of this file that was
    /// written when `offset` was known to be on disk, and tells where it stands.
    pub(crate) fn proof_of_sync(&mut self, offset: u64) -> Result<Option<u64>> {
        self.find_header(offset + 1, Some(offset))
    }

    /// Returns the start of the first whole record at or behind `from`.
    pub(crate) fn next_record(&mut self, from: u64) -> Result<Option<u64>> {
        let mut from = from;
        while let Some(offset) = self.find_header(from, None)? {
            if self.record(offset)?.is_ok() {
                return Ok(Some(offset));
            }
            from = offset + 1;
        }
        Ok(None)
    }

    /// Returns whether any header of a record of this file stands anywhere in it.
    pub(crate) fn has_record(&mut self) -> Result<bool> {
        Ok(self.find_header(0, None)?.is_some())
    }

    fn find_header(&mut self, from: u64, synced_above: Option<u64>) -> Result<Option<u64>> {
        let (format, number) = (self.format, self.number);
        let mut start = from;
        loop {
            let bytes = self.bytes(start, WINDOW_BYTES)?;
            if bytes.len() < RECORD_HEADER_LEN {
                return Ok(None);
            }
            for (index, candidate) in bytes.windows(RECORD_HEADER_LEN).enumerate() {
                if !record::may_be_header(candidate, synced_above) {
                    continue;
                }
                let offset = start + index as u64;
                let header = record::decode_record_header(format, number, offset, candidate);
                if header.is_ok() {
                    return Ok(Some(offset));
                }
            }
            start += (bytes.len() - RECORD_HEADER_LEN + 1) as u64;
        }
    }
}
