//! Reads the log back: every batch in order, and how the log ends. Never writes.
//!
//! The rules for torn tails and corruption are in the header of this folder (4, 5) and in
//! docs/format/commit_log.md. After an error the reader is used up: `next` repeats the error.

use super::LogPosition;
use super::record::{FILE_HEADER_LEN, FileHeaderFault, LOG, RECORD_HEADER_LEN, RecordFault};
use super::record::{LogRecord, RecordHeader, RecordKind};
use super::record_scan::RecordFile;
use super::segments::{self, Contents, FirstBatch, FirstBatches, SegmentNumber};
use crate::error::{Error, Result};
use base::env::fs::FileSystem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A batch and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogItem<'a> {
    pub segment: SegmentNumber,
    /// Where the record starts in it.
    pub offset: u64,
    /// The batch. Its payload is as it was appended; that it decodes is for the caller to check
    /// (and to report as corruption of `segment` at `offset`).
    pub record: LogRecord<'a>,
}

impl LogItem<'_> {
    /// Where the record ends in its segment.
    pub(crate) fn end(&self) -> u64 {
        self.offset + (RECORD_HEADER_LEN + self.record.payload.len()) as u64
    }
}

/// End of the last segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Sealed,
    /// With a clean close.
    Closed,
    /// With neither: the process or the machine died.
    Open,
}

/// The end of a log that was read to its end: what [`super::LogWriter::open`] goes on from.
#[derive(Debug, Default)]
pub struct LogEnd {
    /// The last segment, where its records end, and how. `None` if there is no segment.
    pub(crate) last: Option<(SegmentNumber, u64, Ending)>,
    pub(crate) contents: Contents,
    /// The first batch of each segment.
    pub(crate) firsts: FirstBatches,
    /// Retired segments that are kept for readers of changes.
    pub(crate) kept: Vec<SegmentNumber>,
    /// Those with smaller numbers than the last segment; a file of another number was none.
    pub(crate) spares: Vec<SegmentNumber>,
    /// A last segment that was being created when the machine died.
    pub(crate) torn_creation: Option<SegmentNumber>,
}

impl LogEnd {
    /// Returns whether the log was closed cleanly (or is empty).
    pub fn was_closed(&self) -> bool {
        self.last.is_none_or(|(_, _, ending)| ending == Ending::Closed)
    }

    /// The number of the next segment: never one that was used.
    pub(crate) fn next_segment(&self) -> SegmentNumber {
        let last = self.last.map(|(segment, ..)| segment);
        last.unwrap_or_default().next().max(self.torn_creation.unwrap_or_default())
    }
}

/// Reads a whole log, segment by segment.
pub struct LogReader {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    /// Segments, ascending, without a torn creation.
    segments: Vec<SegmentNumber>,
    /// Index of the next segment to open.
    next: usize,
    current: Option<SegmentReader>,
    end: LogEnd,
    failed: Option<Error>,
}

impl LogReader {
    /// Opens the log in `dir`, which may be empty or missing. Reads nothing but names and, of the
    /// last segment, whether it is a torn creation.
    pub fn open(fs: Arc<dyn FileSystem>, dir: &Path) -> Result<Self> {
        let listing = segments::list(&*fs, dir)?;
        let mut numbers = listing.segments;
        for pair in numbers.windows(2) {
            if pair[0].next() != pair[1] {
                let missing = pair[0].next().path(dir);
                return Err(Error::corruption(&missing, 0, "a segment of the log is missing"));
            }
        }
        let mut torn_creation = None;
        if let Some(last) = numbers.last().copied()
            && is_torn_creation(&*fs, dir, last)?
        {
            torn_creation = numbers.pop();
        }
        let contents = numbers.iter().map(|number| (*number, Default::default())).collect();
        // A spare was a segment before the last.
        let mut spares = listing.spares;
        spares.retain(|spare| numbers.last().is_some_and(|last| spare < last));
        // A kept segment was retired, before the first that is left.
        let mut kept = listing.kept;
        kept.retain(|kept| numbers.first().is_some_and(|first| kept < first));
        let end = LogEnd { contents, spares, kept, torn_creation, ..LogEnd::default() };
        let dir = dir.to_owned();
        Ok(Self { fs, dir, segments: numbers, next: 0, current: None, end, failed: None })
    }

    /// The next batch, `None` at the end of the log. The payload lives until the next call.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<LogItem<'_>>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        match self.advance() {
            Ok(None) => Ok(None),
            Ok(Some((offset, header))) => self.item(offset, &header),
            Err(error) => {
                self.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    /// The end of the log. Reads what was not read yet, so that the end is known.
    pub fn finish(mut self) -> Result<LogEnd> {
        while self.next()?.is_some() {}
        Ok(self.end)
    }

    /// Finds the next batch and notes it.
    fn advance(&mut self) -> Result<Option<(u64, RecordHeader)>> {
        loop {
            let Some(current) = &mut self.current else {
                let Some(segment) = self.segments.get(self.next).copied() else {
                    return Ok(None);
                };
                self.next += 1;
                // A segment is the last only if not even a torn creation comes after it.
                let is_last = self.next == self.segments.len() && self.end.torn_creation.is_none();
                let place = if is_last { Place::Last } else { Place::Inner };
                self.current = Some(SegmentReader::open(&*self.fs, &self.dir, segment, place)?);
                continue;
            };
            let segment = current.segment();
            match current.advance()? {
                Some((offset, header)) if header.kind == RecordKind::Batch => {
                    let trees = self.end.contents.entry(segment).or_default();
                    trees.insert(header.tree, LogPosition(header.first.0));
                    let (sequence, commit_time) = (header.first, header.commit_time);
                    let first = FirstBatch { sequence, commit_time };
                    self.end.firsts.entry(segment).or_insert(first);
                    return Ok(Some((offset, header)));
                }
                Some(_) => {}
                None => {
                    self.end.last = Some((segment, current.end, current.ending));
                    self.current = None;
                }
            }
        }
    }

    fn item(&mut self, offset: u64, header: &RecordHeader) -> Result<Option<LogItem<'_>>> {
        let Some(current) = &mut self.current else { return Ok(None) };
        let segment = current.segment();
        let record = current.batch(offset, header)?;
        Ok(Some(LogItem { segment, offset, record }))
    }
}

/// Returns whether the last segment was never made usable (rule 5).
fn is_torn_creation(fs: &dyn FileSystem, dir: &Path, segment: SegmentNumber) -> Result<bool> {
    let mut file = RecordFile::open(fs, &segment.path(dir), &LOG, segment.0)?;
    match file.header()? {
        Ok(()) | Err(FileHeaderFault::Newer(_)) => Ok(false),
        Err(FileHeaderFault::Bad(what)) if file.has_record()? => Err(file.corruption(0, what)),
        Err(FileHeaderFault::Bad(_)) => Ok(true),
    }
}

/// Where a segment stands in its log, which decides what a bad record means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Inner,
    Last,
}

/// A record of a segment, of whatever kind, as `dump` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentItem<'a> {
    /// Start of the record.
    pub offset: u64,
    pub kind: RecordKind,
    /// Length of the segment that was known to be on disk when the record was written.
    pub synced_to: u64,
    /// Tree, sequence number, time and payload; empty if the kind has none.
    pub record: LogRecord<'a>,
}

/// Reads one segment.
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
    pub(crate) fn open_path(fs: &dyn FileSystem, path: &Path) -> Result<Self> {
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        let Some(number) = number.map(SegmentNumber) else {
            let text = format!("{} is not named like a segment of the log", path.display());
            return Err(Error::InvalidArgument(text));
        };
        Self::open_named(fs, path, number, Place::Last)
    }

    /// Opens the kept segment `segment` of the log in `dir`, which must end with a seal.
    pub(crate) fn open_kept(
        fs: &dyn FileSystem,
        dir: &Path,
        segment: SegmentNumber,
    ) -> Result<Self> {
        Self::open_named(fs, &segment.kept_path(dir), segment, Place::Inner)
    }

    fn open(fs: &dyn FileSystem, dir: &Path, segment: SegmentNumber, place: Place) -> Result<Self> {
        Self::open_named(fs, &segment.path(dir), segment, place)
    }

    fn open_named(
        fs: &dyn FileSystem,
        path: &Path,
        segment: SegmentNumber,
        place: Place,
    ) -> Result<Self> {
        let mut file = RecordFile::open(fs, path, &LOG, segment.0)?;
        match file.header()? {
            Ok(()) => {}
            Err(FileHeaderFault::Bad(what)) => return Err(file.corruption(0, what)),
            Err(FileHeaderFault::Newer(newer)) => return Err(newer.refuse(&LOG, file.path())),
        }
        Ok(Self { file, place, end: FILE_HEADER_LEN, ending: Ending::Open, done: false })
    }

    /// The segment's number.
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
        let record = self.batch(offset, &header)?;
        Ok(Some(SegmentItem { offset, kind: header.kind, synced_to: header.synced_to, record }))
    }

    fn advance(&mut self) -> Result<Option<(u64, RecordHeader)>> {
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

    fn batch(&mut self, offset: u64, header: &RecordHeader) -> Result<LogRecord<'_>> {
        let RecordHeader { tree, first, commit_time, payload_crc, .. } = *header;
        let payload = self.file.payload(offset, header)?;
        Ok(LogRecord { tree, first, commit_time, payload, payload_crc })
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
