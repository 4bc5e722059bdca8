//! Reads the commit log back: every batch in order, and how the log ends. Never writes.
//!
//! The rules for torn tails and corruption are in the header of this folder (4, 5) and in
//! docs/format/commit_log.md. After an error the reader is used up: `next` repeats the error.

use super::LogPosition;
use super::framing::chain_reader::{ChainEnd, ChainReader};
use super::framing::record::{LogRecord, RECORD_HEADER_LEN, RecordHeader};
use super::framing::segment_files::{COMMIT_LOG, SegmentNumber};
use super::framing::segment_reader::Ending;
use super::segments::{self, Contents, FirstBatch, FirstBatches};
use crate::error::Result;
use base::env::fs::FileSystem;
use std::path::Path;
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

/// The end of a log that was read to its end: what [`super::LogWriter::open`] goes on from.
#[derive(Debug, Default)]
pub struct LogEnd {
    /// The last segment, spares, and a segment that was only begun.
    pub(crate) chain: ChainEnd,
    pub(crate) contents: Contents,
    /// The first batch of each segment.
    pub(crate) firsts: FirstBatches,
    /// Retired segments that are kept for readers of changes.
    pub(crate) kept: Vec<SegmentNumber>,
}

impl LogEnd {
    /// Returns whether the log was closed cleanly (or is empty).
    pub fn was_closed(&self) -> bool {
        self.chain.last.is_none_or(|(_, _, ending)| ending == Ending::Closed)
    }
}

/// Reads a whole log, segment by segment.
pub struct LogReader {
    chain: ChainReader,
    contents: Contents,
    firsts: FirstBatches,
    kept: Vec<SegmentNumber>,
}

impl LogReader {
    /// Opens the log in `dir`, which may be empty or missing. Reads nothing but names and, of the
    /// last segment, whether it is a torn creation.
    pub fn open(fs: Arc<dyn FileSystem>, dir: &Path) -> Result<Self> {
        let mut kept = segments::list_kept(&*fs, dir)?;
        let chain = ChainReader::open(fs, dir, &COMMIT_LOG)?;
        let numbers = chain.segments();
        let contents = numbers.iter().map(|number| (*number, Default::default())).collect();
        // A kept segment was retired, before the first that is left.
        kept.retain(|kept| numbers.first().is_some_and(|first| kept < first));
        Ok(Self { chain, contents, firsts: FirstBatches::default(), kept })
    }

    /// The next batch, `None` at the end of the log. The payload lives until the next call.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<LogItem<'_>>> {
        let Some((segment, offset, header)) = self.chain.advance()? else { return Ok(None) };
        self.note(segment, &header);
        let record = self.chain.record(offset, &header)?;
        Ok(Some(LogItem { segment, offset, record }))
    }

    fn note(&mut self, segment: SegmentNumber, header: &RecordHeader) {
        let trees = self.contents.entry(segment).or_default();
        trees.insert(header.tree, LogPosition(header.first.0));
        let first = FirstBatch { sequence: header.first, commit_time: header.commit_time };
        self.firsts.entry(segment).or_insert(first);
    }

    /// The end of the log. Reads what was not read yet, so that the end is known.
    pub fn finish(mut self) -> Result<LogEnd> {
        while self.next()?.is_some() {}
        let Self { chain, contents, firsts, kept } = self;
        Ok(LogEnd { chain: chain.finish()?, contents, firsts, kept })
    }
}
