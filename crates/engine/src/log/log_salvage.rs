//! Reads every record of a log that verifies, past damage. Never writes.
//!
//! 1. What is a torn tail and what is damage is decided by the rules of this folder (4, 5): records
//!    behind a torn tail were never acknowledged and are not given.
//! 2. After damage the next whole record of the segment is searched. A record's checksum covers its
//!    segment and its offset, so nothing else is taken for one.
//! 3. Records come in the order of the log; where something is missing in between, that comes
//!    first.

use super::framing::record::{
    FILE_HEADER_LEN, FileHeaderFault, Format, LogRecord, RECORD_HEADER_LEN, RecordFault,
    RecordHeader, RecordKind,
};
use super::framing::record_scan::RecordFile;
use super::framing::segment_files::{self, LogKind, SegmentNumber};
use super::log_reader::LogItem;
use super::tree_batches::{PartWalk, Split};
use crate::error::{Corruption, Error, Result};
use base::env::fs::FileSystem;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A part of the log that does not verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogGap {
    /// The segment, which may be missing altogether.
    pub(crate) path: PathBuf,
    /// Start of the damage.
    pub(crate) offset: u64,
    /// Description of the damage.
    pub(crate) what: String,
}

/// Next item of a damaged log.
pub(crate) enum Salvaged<'a> {
    /// A record with a payload that verifies.
    Record(LogItem<'a>),
    /// A part that cannot be read.
    Gap(LogGap),
}

/// See the file header.
pub(crate) struct LogSalvage {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    kind: &'static LogKind,
    segments: VecDeque<SegmentNumber>,
    before: Option<SegmentNumber>,
    current: Option<Segment>,
    /// Found and not yet given.
    gaps: VecDeque<LogGap>,
    /// A record of several trees that is given part by part.
    split: Option<Split>,
    /// End of the records of the segment read last, and whether it says so itself.
    end: Option<LogStop>,
}

/// Where a log stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogStop {
    /// The last segment.
    pub(crate) segment: SegmentNumber,
    /// End of its records.
    pub(crate) offset: u64,
    /// True if a seal or a clean close says that they do.
    pub(crate) ended: bool,
}

struct Segment {
    file: RecordFile,
    number: SegmentNumber,
    is_last: bool,
    end: u64,
}

impl LogSalvage {
    /// Opens the log of `kind` in `dir`, which may be empty.
    pub(crate) fn open(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        kind: &'static LogKind,
    ) -> Result<Self> {
        let [segments] = segment_files::list(&*fs, dir, [kind.segment])?;
        let (dir, segments, gaps) = (dir.to_owned(), segments.into(), VecDeque::new());
        Ok(Self {
            fs,
            dir,
            kind,
            segments,
            before: None,
            current: None,
            gaps,
            split: None,
            end: None,
        })
    }

    /// The first segment there is.
    pub(crate) fn first_segment(&self) -> Option<SegmentNumber> {
        self.segments.front().copied()
    }

    /// After `next` gave `None`: where the log stops. `None` if it has no segment.
    pub(crate) fn stop(&self) -> Option<LogStop> {
        self.end
    }

    /// Returns the next item; `None` at the end. `Error::Unusable` for a segment of a newer format.
    pub(crate) fn next(&mut self) -> Result<Option<Salvaged<'_>>> {
        loop {
            if let Some(gap) = self.gaps.pop_front() {
                return Ok(Some(Salvaged::Gap(gap)));
            }
            if self.split.is_some() {
                return self.part().map(Some);
            }
            let Some(current) = &mut self.current else {
                if !self.open_next()? {
                    return Ok(None);
                }
                continue;
            };
            match current.advance() {
                Ok(Step::Record(offset, header)) => {
                    if header.kind == RecordKind::Batches {
                        match PartWalk::begin(&current.whole(offset, &header)?) {
                            Ok(walk) => self.split = Some(Split { offset, header, walk }),
                            Err(what) => {
                                let gap = current.gap(offset, what);
                                self.gaps.push_back(gap);
                            }
                        }
                        continue;
                    }
                    let current = self.current.as_mut().expect("it was just read from");
                    let (segment, end) = (current.number, current.end);
                    let record = current.whole(offset, &header)?;
                    return Ok(Some(Salvaged::Record(LogItem { segment, offset, end, record })));
                }
                Ok(Step::Gap(offset, what)) => {
                    let gap = current.gap(offset, what);
                    self.gaps.push_back(gap);
                }
                Ok(Step::End { ended, gap }) => {
                    let (segment, offset) = (current.number, current.end);
                    self.end = Some(LogStop { segment, offset, ended });
                    let gap = gap.map(|what| current.gap(offset, what));
                    self.gaps.extend(gap);
                    self.current = None;
                }
                Err(error) => {
                    let (segment, offset) = (current.number, current.end);
                    self.end = Some(LogStop { segment, offset, ended: false });
                    let gap = current.gap(offset, unreadable(error)?);
                    self.gaps.push_back(gap);
                    self.current = None;
                }
            }
        }
    }

    /// Gives the next part of the record of several trees that was read last.
    fn part(&mut self) -> Result<Salvaged<'_>> {
        let mut split = self.split.take().expect("the caller looked");
        let current = self.current.as_mut().expect("the record was read from it");
        let (segment, end, offset) = (current.number, current.end, split.offset);
        let whole = current.whole(offset, &split.header)?;
        let record = split.walk.step(&whole).expect("all parts were checked");
        if !split.walk.is_done(whole.payload.len()) {
            self.split = Some(split);
        }
        Ok(Salvaged::Record(LogItem { segment, offset, end, record }))
    }

    /// Goes on to the next segment, if there is one.
    fn open_next(&mut self) -> Result<bool> {
        let Some(number) = self.segments.front().copied() else { return Ok(false) };
        if let Some(missing) = self.before.map(SegmentNumber::next).filter(|next| *next < number) {
            let last = SegmentNumber(number.0 - 1);
            let what = match missing == last {
                true => "this segment is missing".to_owned(),
                false => format!("the segments from this one to {} are missing", last.0),
            };
            self.gaps.push_back(LogGap {
                path: self.kind.path(&self.dir, missing),
                offset: 0,
                what,
            });
        }
        self.segments.pop_front();
        self.before = Some(number);
        let path = self.kind.path(&self.dir, number);
        let is_last = self.segments.is_empty();
        match Segment::open(&*self.fs, &path, self.kind.format, number, is_last) {
            Ok((segment, fault)) => {
                let fault = fault.map(|what| LogGap { path, offset: 0, what: what.to_owned() });
                self.gaps.extend(fault);
                self.current = segment;
            }
            Err(error @ Error::Unusable { .. }) => return Err(error),
            Err(error) => {
                self.gaps.push_back(LogGap { path, offset: 0, what: unreadable(error)? });
            }
        }
        Ok(true)
    }
}

/// The text of a failure to read, which loses the rest of the segment. What is no such failure is
/// given back.
fn unreadable(error: Error) -> Result<String> {
    match error {
        Error::Io { op, source, .. } => Ok(format!("cannot {op} it: {source}")),
        Error::Corruption(Corruption { what, .. }) => Ok(what),
        other => Err(other),
    }
}

enum Step {
    Record(u64, RecordHeader),
    /// Damage from here to the next whole record.
    Gap(u64, &'static str),
    End {
        ended: bool,
        gap: Option<&'static str>,
    },
}

impl Segment {
    /// The segment and what is wrong with its header; nothing of a torn creation.
    fn open(
        fs: &dyn FileSystem,
        path: &Path,
        format: &'static Format,
        number: SegmentNumber,
        is_last: bool,
    ) -> Result<(Option<Self>, Option<&'static str>)> {
        let mut file = RecordFile::open(fs, path, format, number.0)?;
        let fault = match file.header()? {
            Ok(()) => None,
            Err(FileHeaderFault::Newer(newer)) => return Err(newer.refuse(format, path)),
            Err(FileHeaderFault::Bad(_)) if is_last && !file.has_record()? => {
                return Ok((None, None));
            }
            Err(FileHeaderFault::Bad(what)) => Some(what),
        };
        Ok((Some(Self { file, number, is_last, end: FILE_HEADER_LEN }), fault))
    }

    /// The record at `offset`, which was checked.
    fn whole(&mut self, offset: u64, header: &RecordHeader) -> Result<LogRecord<'_>> {
        let RecordHeader { kind, tree, first, commit_time, payload_crc, .. } = *header;
        let payload = self.file.payload(offset, header)?;
        Ok(LogRecord { kind, tree, first, commit_time, payload, payload_crc })
    }

    fn gap(&self, offset: u64, what: impl Into<String>) -> LogGap {
        LogGap { path: self.file.path().to_owned(), offset, what: what.into() }
    }

    fn advance(&mut self) -> Result<Step> {
        let offset = self.end;
        let what = match self.file.record(offset)? {
            Ok(header) => {
                self.end = offset + RECORD_HEADER_LEN as u64 + u64::from(header.payload_len);
                let is_end = matches!(header.kind, RecordKind::Seal | RecordKind::Close);
                return Ok(match is_end {
                    true => Step::End { ended: true, gap: None },
                    false => Step::Record(offset, header),
                });
            }
            Err(RecordFault::Bad(what)) => {
                if self.is_last && self.file.proof_of_sync(offset)?.is_none() {
                    return Ok(Step::End { ended: false, gap: None });
                }
                what
            }
            Err(RecordFault::Impossible(what)) => what,
        };
        Ok(match self.file.next_record(offset + 1)? {
            Some(next) => {
                self.end = next;
                Step::Gap(offset, what)
            }
            None => Step::End { ended: false, gap: Some(what) },
        })
    }
}
