//! Reads the commit log back: every batch in order, and how the log ends. Never writes.
//!
//! The rules for torn tails and corruption are in the header of this folder (4, 5) and in
//! docs/format/commit_log.md. After an error the reader is used up: `next` repeats the error.

use super::LogPosition;
use super::framing::chain_reader::{ChainEnd, ChainReader};
use super::framing::record::{LogRecord, RECORD_HEADER_LEN, RecordHeader, RecordKind};
use super::framing::segment_files::{COMMIT_LOG, SegmentNumber};
use super::framing::segment_reader::Ending;
use super::segments::{self, Contents, FirstBatch, FirstBatches};
use super::tree_batches::{PartWalk, Split};
use crate::error::{Error, Result};
use base::env::fs::FileSystem;
use std::path::Path;
use std::sync::Arc;

/// A batch and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogItem<'a> {
    pub segment: SegmentNumber,
    /// Where the record starts in it.
    pub offset: u64,
    /// End of the record. Batches of one write over several trees are in one record.
    pub(crate) end: u64,
    /// The batch. Its payload is as it was appended; that it decodes is for the caller to check
    /// (and to report as corruption of `segment` at `offset`).
    pub record: LogRecord<'a>,
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
    /// The segment, and the record of several trees in it that is given part by part.
    split: Option<(SegmentNumber, Split)>,
    failed: Option<Error>,
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
        let firsts = FirstBatches::default();
        Ok(Self { chain, contents, firsts, kept, split: None, failed: None })
    }

    /// The next batch, `None` at the end of the log. The payload lives until the next call.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<LogItem<'_>>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.split.is_none() {
            let Some((segment, offset, header)) = self.chain.advance()? else { return Ok(None) };
            if header.kind == RecordKind::Batches {
                let walk = PartWalk::begin(&self.chain.record(offset, &header)?);
                let walk = walk.map_err(|what| {
                    Error::corruption(&segment.path(self.chain.dir()), offset, what)
                });
                let walk = walk.inspect_err(|error| self.failed = Some(error.clone()))?;
                self.split = Some((segment, Split { offset, header, walk }));
            } else {
                let record = self.chain.record(offset, &header)?;
                note(&mut self.contents, &mut self.firsts, segment, &record);
                return Ok(Some(LogItem { segment, offset, end: end_of(offset, &header), record }));
            }
        }
        let Some((segment, mut split)) = self.split.take() else { return Ok(None) };
        let Split { offset, header, .. } = split;
        let whole = self.chain.record(offset, &header)?;
        let Some(record) = split.walk.step(&whole) else { return Ok(None) };
        if !split.walk.is_done(whole.payload.len()) {
            self.split = Some((segment, split));
        }
        note(&mut self.contents, &mut self.firsts, segment, &record);
        Ok(Some(LogItem { segment, offset, end: end_of(offset, &header), record }))
    }

    /// The end of the log. Reads what was not read yet, so that the end is known.
    pub fn finish(mut self) -> Result<LogEnd> {
        while self.next()?.is_some() {}
        let Self { chain, contents, firsts, kept, .. } = self;
        Ok(LogEnd { chain: chain.finish()?, contents, firsts, kept })
    }
}

fn end_of(offset: u64, header: &RecordHeader) -> u64 {
    offset + RECORD_HEADER_LEN as u64 + u64::from(header.payload_len)
}

/// Notes a batch of `segment`.
fn note(
    contents: &mut Contents,
    firsts: &mut FirstBatches,
    segment: SegmentNumber,
    record: &LogRecord<'_>,
) {
    contents.entry(segment).or_default().insert(record.tree, LogPosition(record.first.0));
    let first = FirstBatch { sequence: record.first, commit_time: record.commit_time };
    firsts.entry(segment).or_insert(first);
}
