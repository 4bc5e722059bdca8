//! Appends groups of batches to the commit log, and notes which trees each segment holds.
//!
//! Of one log there is one writer; it is not shared, the commit queue owns it. What each failure
//! leaves behind is in the header of `framing/segment_writer.rs`.

use super::framing::record::{LOG_WITH_BATCHES, LogRecord, RecordKind};
use super::framing::segment_files::{COMMIT_LOG, SegmentNumber};
use super::framing::segment_writer::{LogSizes, SegmentWriter};
use super::log_reader::LogEnd;
use super::segments::{Found, LogSegments};
use crate::error::{Cause, Result};
use crate::options::Options;
use base::env::fs::FileSystem;
use std::path::Path;
use std::sync::Arc;

/// Writes the log. See the file header.
pub(crate) struct LogWriter {
    writer: SegmentWriter,
    segments: Arc<LogSegments>,
}

impl LogWriter {
    /// A new log in `dir`, which exists and holds no segment yet. Nothing is written before the
    /// first append.
    #[cfg(test)]
    pub(crate) fn create(fs: Arc<dyn FileSystem>, dir: &Path, segment_bytes: u64) -> Result<Self> {
        let end = super::LogReader::open(Arc::clone(&fs), dir)?.finish()?;
        if end.chain.last.is_some() {
            let what = "it holds a commit log already".to_owned();
            return Err(crate::error::Error::Unusable { dir: dir.to_owned(), what });
        }
        Self::open(fs, dir, segment_bytes, end)
    }

    /// Goes on after `end`, the end of the log in `dir`, repairing a torn tail. When it returns,
    /// all that was read is on disk. A full disk does not stop it: the repair is then finished by
    /// the first append that finds space. Segments are preallocated to `segment_bytes`.
    pub(crate) fn open(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        segment_bytes: u64,
        end: LogEnd,
    ) -> Result<Self> {
        let sizes = LogSizes { segment_bytes, ..LogSizes::of(&Options::default()) };
        Self::open_sized(fs, dir, sizes, end)
    }

    /// The same with sizes of its own.
    pub(crate) fn open_sized(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        sizes: LogSizes,
        end: LogEnd,
    ) -> Result<Self> {
        let LogEnd { mut chain, contents, firsts, kept } = end;
        let spares = std::mem::take(&mut chain.spares);
        let tail = chain.last.map_or(0, |(_, tail, _)| tail);
        let found = Found { contents, firsts, spares, kept, tail };
        let segments = LogSegments::new(Arc::clone(&fs), dir, found, sizes.spares_max);
        let segments = Arc::new(segments);
        segments.trim_spares()?;
        let list = Arc::<LogSegments>::clone(&segments);
        let writer = SegmentWriter::open(fs, dir, &COMMIT_LOG, sizes, &chain, list)?;
        Ok(Self { writer, segments })
    }

    /// Returns the contents of the segments; for retiring them after flushes.
    pub(crate) fn segments(&self) -> &Arc<LogSegments> {
        &self.segments
    }

    /// Appends `records` in order as one write, in a new segment if they do not fit the current
    /// one. They are durable after `sync`. Errors are the ones of [`SegmentWriter::append`].
    pub(crate) fn append(&mut self, records: &[LogRecord<'_>]) -> Result<()> {
        if records.is_empty() {
            return self.writer.check_writable();
        }
        if records.iter().any(|record| record.kind == RecordKind::Batches) {
            self.writer.raise_version(LOG_WITH_BATCHES)?;
        }
        let appended = self.writer.append(records)?;
        self.segments.note(appended.segment, records, appended.tail);
        Ok(())
    }

    /// Makes everything appended durable. Costs nothing if it is already.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.writer.sync()
    }

    /// Seals and syncs the current segment; see [`SegmentWriter::rotate`].
    pub(crate) fn rotate(&mut self) -> Result<()> {
        self.writer.rotate()
    }

    /// Refuses all that follows with `WritesStopped` and `why`, as after a failed append.
    pub(crate) fn stop(&mut self, why: Cause) {
        self.writer.stop(why);
    }

    /// Closes the log cleanly; see [`SegmentWriter::close`].
    pub(crate) fn close(&mut self) -> Result<Option<(SegmentNumber, u64)>> {
        self.writer.close()
    }

    /// Returns whether records with payloads of such kinds and lengths fit the current segment and what
    /// is allocated of it, so that to append them begins no other.
    pub(crate) fn has_room(&self, mut payloads: impl Iterator<Item = (RecordKind, usize)>) -> bool {
        let takes_all = self.writer.version() >= LOG_WITH_BATCHES;
        let mut fits = true;
        let lengths = payloads.by_ref().map(|(kind, len)| {
            fits &= takes_all || kind == RecordKind::Batch;
            len
        });
        self.writer.has_room(lengths) && fits
    }
}
