//! Reads one segment of a log, record by record. Never writes.
//!
//! A segment that is not the last of its log must end with a seal. In the last one a bad record is
//! the end of the log, or corruption: rules 4 and 5 in the header of the room `log` decide.

use super::record::{
    FILE_HEADER_LEN, FileHeaderFault, Format, LogRecord, RECORD_HEADER_LEN, RecordFault,
    RecordHeader, RecordKind,
};
use super::record_scan::RecordFile;
use super::segment_files::SegmentNumber;
use crate::error::{Error, Result};
use base::env::fs::FileSystem;
use std::path::Path;

/// End of the last segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Sealed,
    /// It ends with a clean close.
    Closed,
    /// With neither: the process or the machine died.
    Open,
}

/// Returns whether the last segment, at `path`, was never made usable (rule 5).
pub(crate) fn is_torn_creation(
    fs: &dyn FileSystem,
    path: &Path,
    format: &'static Format,
    segment: SegmentNumber,
) -> Result<bool> {
    let mut file = RecordFile::open(fs, path, format, segment.0)?;
    match file.header()? {
        Ok(()) | Err(FileHeaderFault::Newer(_)) => Ok(false),
        Err(FileHeaderFault::Bad(what)) if file.has_record()? => Err(file.corruption(0, what)),
        Err(FileHeaderFault::Bad(_)) => Ok(true),
    }
}

/// Place of a segment in its log, which decides the meaning of a bad record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Inner,
    Last,
}

/// A record of a segment, of whatever kind, as `dump` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentItem<'a> {
    /// Start of the record in its segment.
    pub offset: u64,
    pub kind: RecordKind,
    /// Length of the segment that was known to be on disk when the record was written.
    pub synced_to: u64,
    /// Tree, sequence number, time and payload; empty if the kind has none.
    pub record: LogRecord<'a>,
}

/// Reads the records of one segment.
pub(crate) struct SegmentReader {
    file: RecordFile,
    place: Place,
    /// Start of the next record; once `done`, the end of the records.
    end: u64,
    ending: Ending,
    done: bool,
}

impl SegmentReader {
    /// Opens the segment at `path` alone, as if it were the last of its log. `InvalidArgument` if
    /// the name is not that of a segment.
    pub(crate) fn open_path(
        fs: &dyn FileSystem,
        path: &Path,
        format: &'static Format,
    ) -> Result<Self> {
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        let Some(number) = number.map(SegmentNumber) else {
            let text = format!("{} is not named like a segment of the log", path.display());
            return Err(Error::InvalidArgument(text));
        };
        Self::open(fs, path, format, number, Place::Last)
    }

    /// Opens segment `segment` at `path`, which stands at `place` in its log.
    pub(crate) fn open(
        fs: &dyn FileSystem,
        path: &Path,
        format: &'static Format,
        segment: SegmentNumber,
        place: Place,
    ) -> Result<Self> {
        let mut file = RecordFile::open(fs, path, format, segment.0)?;
        match file.header()? {
            Ok(()) => {}
            Err(FileHeaderFault::Bad(what)) => return Err(file.corruption(0, what)),
            Err(FileHeaderFault::Newer(newer)) => return Err(newer.refuse(format, file.path())),
        }
        Ok(Self { file, place, end: FILE_HEADER_LEN, ending: Ending::Open, done: false })
    }

    /// The number of the segment.
    pub(crate) fn segment(&self) -> SegmentNumber {
        SegmentNumber(self.file.number())
    }

    /// Returns the length of the segment's file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file.len()
    }

    /// After `next` gave `None`: where the records end.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// After `next` gave `None`: how they end.
    pub(crate) fn ending(&self) -> Ending {
        self.ending
    }

    /// The next record, `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<SegmentItem<'_>>> {
        let Some((offset, header)) = self.advance()? else { return Ok(None) };
        let record = self.record(offset, &header)?;
        Ok(Some(SegmentItem { offset, kind: header.kind, synced_to: header.synced_to, record }))
    }

    /// Finds the next record, which is checked, and tells its start; `None` after the last.
    pub(crate) fn advance(&mut self) -> Result<Option<(u64, RecordHeader)>> {
        if self.done {
            return Ok(None);
        }
        let offset = self.end;
        let header = match self.file.record(offset)? {
            Ok(header) => header,
            Err(RecordFault::Impossible(what)) => return Err(self.file.corruption(offset, what)),
            Err(RecordFault::Bad(what)) => return self.bad_record(what).map(|()| None),
        };
        self.end = offset + RECORD_HEADER_LEN as u64 + u64::from(header.payload_len);
        match header.kind {
            RecordKind::Seal => self.ending = Ending::Sealed,
            RecordKind::Close => self.ending = Ending::Closed,
            _ => {}
        }
        self.done = self.ending != Ending::Open;
        Ok(Some((offset, header)))
    }

    /// Returns the record that `advance` found at `offset`.
    pub(crate) fn record(&mut self, offset: u64, header: &RecordHeader) -> Result<LogRecord<'_>> {
        let RecordHeader { kind, tree, first, commit_time, payload_crc, .. } = *header;
        let payload = self.file.payload(offset, header)?;
        Ok(LogRecord { kind, tree, first, commit_time, payload, payload_crc })
    }

    /// Decides what a bad record at `end` means: the end of the log, or corruption.
    fn bad_record(&mut self, what: &'static str) -> Result<()> {
        if self.place == Place::Inner {
            let text = format!("{what}, in a segment that must end with a seal");
            return Err(self.file.corruption(self.end, &text));
        }
        if let Some(proof) = self.file.proof_of_sync(self.end)? {
            let text = format!("{what}; the record at {proof} proves that it was on disk");
            return Err(self.file.corruption(self.end, &text));
        }
        self.done = true;
        Ok(())
    }
}
