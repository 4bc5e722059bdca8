//! Reads a whole log, segment by segment, and how it ends. Never writes.
//!
//! The rules for torn tails and corruption are in the header of the room `log` (4, 5). After an
//! error the reader is used up: `advance` repeats the error.

use super::record::{LogRecord, RecordHeader, RecordKind};
use super::segment_files::{self, LogKind, SegmentNumber};
use super::segment_reader::{Ending, Place, SegmentReader, is_torn_creation};
use crate::error::{Error, Result};
use base::env::fs::FileSystem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The end of a log that was read to its end: what a writer goes on from.
#[derive(Debug, Default)]
pub(crate) struct ChainEnd {
    /// The last segment, where its records end, and how. `None` if there is no segment.
    pub(crate) last: Option<(SegmentNumber, u64, Ending)>,
    /// Spares with smaller numbers than the last segment; other files were no spares.
    pub(crate) spares: Vec<SegmentNumber>,
    /// A last segment that was being created when the machine died.
    pub(crate) torn_creation: Option<SegmentNumber>,
}

impl ChainEnd {
    /// The number of the next segment: never one that was used.
    pub(crate) fn next_segment(&self) -> SegmentNumber {
        let last = self.last.map(|(segment, ..)| segment);
        last.unwrap_or_default().next().max(self.torn_creation.unwrap_or_default())
    }
}

/// Reads a whole log. See the file header.
pub(crate) struct ChainReader {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    kind: &'static LogKind,
    /// Segments, ascending, without a torn creation.
    segments: Vec<SegmentNumber>,
    /// Index of the next segment to open.
    next: usize,
    current: Option<SegmentReader>,
    end: ChainEnd,
    failed: Option<Error>,
}

impl ChainReader {
    /// Opens the log in `dir`, which may be empty or missing. Reads nothing but names and, of the
    /// last segment, whether it is a torn creation.
    pub(crate) fn open(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        kind: &'static LogKind,
    ) -> Result<Self> {
        let [mut segments, mut spares] =
            segment_files::list(&*fs, dir, [kind.segment, kind.spare])?;
        for pair in segments.windows(2) {
            if pair[0].next() != pair[1] {
                let missing = kind.path(dir, pair[0].next());
                return Err(Error::corruption(&missing, 0, "a segment of the log is missing"));
            }
        }
        let mut torn_creation = None;
        if let Some(last) = segments.last().copied()
            && is_torn_creation(&*fs, &kind.path(dir, last), kind.format, last)?
        {
            torn_creation = segments.pop();
        }
        // A spare was a segment before the last.
        spares.retain(|spare| segments.last().is_some_and(|last| spare < last));
        let end = ChainEnd { spares, torn_creation, ..ChainEnd::default() };
        let dir = dir.to_owned();
        Ok(Self { fs, dir, kind, segments, next: 0, current: None, end, failed: None })
    }

    /// The directory of the log.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The numbers of the segments, ascending.
    pub(crate) fn segments(&self) -> &[SegmentNumber] {
        &self.segments
    }

    /// Finds the next record with a payload: its segment, its start, its header. `None` at the end
    /// of the log.
    pub(crate) fn advance(&mut self) -> Result<Option<(SegmentNumber, u64, RecordHeader)>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let found = self.find();
        self.failed = found.as_ref().err().cloned();
        found
    }

    fn find(&mut self) -> Result<Option<(SegmentNumber, u64, RecordHeader)>> {
        loop {
            let Some(current) = &mut self.current else {
                let Some(segment) = self.segments.get(self.next).copied() else {
                    return Ok(None);
                };
                self.next += 1;
                // A segment is the last only if not even a torn creation comes after it.
                let is_last = self.next == self.segments.len() && self.end.torn_creation.is_none();
                let place = if is_last { Place::Last } else { Place::Inner };
                let (path, format) = (self.kind.path(&self.dir, segment), self.kind.format);
                let reader = SegmentReader::open(&*self.fs, &path, format, segment, place)?;
                self.current = Some(reader);
                continue;
            };
            let segment = current.segment();
            match current.advance()? {
                Some((_, header))
                    if matches!(header.kind, RecordKind::Seal | RecordKind::Close) => {}
                Some((offset, header)) => return Ok(Some((segment, offset, header))),
                None => {
                    self.end.last = Some((segment, current.end(), current.ending()));
                    self.current = None;
                }
            }
        }
    }

    /// Returns the record that `advance` found last.
    pub(crate) fn record(&mut self, offset: u64, header: &RecordHeader) -> Result<LogRecord<'_>> {
        let Some(current) = &mut self.current else { return Err(Error::Closed) };
        current.record(offset, header)
    }

    /// The end of the log. Reads what was not read yet, so that the end is known.
    pub(crate) fn finish(mut self) -> Result<ChainEnd> {
        while self.advance()?.is_some() {}
        Ok(self.end)
    }
}
