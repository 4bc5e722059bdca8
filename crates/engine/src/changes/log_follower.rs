//! Walks the records of the commit log from a segment on, through retired segments that are kept and
//! live ones, up to what is written.
//!
//! 1. A segment that is not the newest is read to its seal. The newest is read up to the tail that
//!    the writer has noted; bytes below it never change.
//! 2. A live segment may leave the log and its file be used again while it is read. Checksums cover
//!    the segment's number, so such bytes never pass for a record; a record that fails is damage only
//!    if the segment is still in the list (`LogSegments::reach`).
//! 3. Headers are checked of all records, payloads of wanted ones and of writes over several trees only.
//!    Batches of such a write are given one by one.

use crate::cell::{SequenceNumber, TreeId};
use crate::error::{Error, Result};
use crate::log::framing::record::{self, FileHeaderFault, RecordKind};
use crate::log::framing::record::{
    FILE_HEADER_LEN, LOG, RECORD_HEADER_LEN, RecordFault, RecordHeader,
};
use crate::log::tree_batches::{PartWalk, Split};
use crate::log::{LogRecord, LogSegments, Reach, SegmentNumber};
use base::checksum::crc32c;
use base::env::fs::{FileSystem, ReadFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a segment that are read at once.
const WINDOW_BYTES: u64 = 256 << 10;
/// Attempts to open a segment while segments are renamed.
const OPENS_MAX: usize = 10;

/// A walk, as the file header describes it.
pub(super) struct LogFollower {
    fs: Arc<dyn FileSystem>,
    segments: Arc<LogSegments>,
    current: Option<Segment>,
    /// The segment read last; the next one follows it.
    before: SegmentNumber,
    /// A record of several trees in the current segment, whose wanted parts are given one by one.
    split: Option<Split>,
}

/// A record that the walk wants.
#[derive(Debug)]
pub(super) struct Followed<'a> {
    pub(super) tree: TreeId,
    pub(super) first: SequenceNumber,
    pub(super) commit_time: u64,
    pub(super) payload: &'a [u8],
    /// Path and offset, to report damage.
    pub(super) path: &'a Path,
    pub(super) offset: u64,
}

/// Outcome of a step of the walk.
pub(super) enum Step<'a> {
    /// A batch that the walk wants.
    Batch(Followed<'a>),
    /// A batch that is not wanted, committed at this time.
    Passed { commit_time: u64, bytes: u64 },
    /// Nothing more is there, or may be read yet.
    End,
}

/// Says which records a walk wants.
pub(super) struct Wanted<'a> {
    /// The last sequence number that may be read.
    pub(super) last: SequenceNumber,
    pub(super) is_wanted: &'a dyn Fn(TreeId) -> bool,
}

/// A segment that is being read.
struct Segment {
    number: SegmentNumber,
    path: PathBuf,
    file: Arc<dyn ReadFile>,
    /// Start of the next record.
    offset: u64,
    /// The part that may be read, as far as that is known.
    end: End,
    window: Vec<u8>,
    window_start: u64,
}

impl LogFollower {
    /// A walk of the segments after `before`, which [`LogSegments::seek`] has found.
    pub(super) fn new(
        fs: Arc<dyn FileSystem>,
        segments: Arc<LogSegments>,
        before: SegmentNumber,
    ) -> Self {
        Self { fs, segments, current: None, before, split: None }
    }

    /// The next batch up to `wanted.last`. `ChangesGone` if a segment was removed before it was read.
    pub(super) fn step(&mut self, wanted: &Wanted<'_>) -> Result<Step<'_>> {
        if self.split.is_some() {
            let (Some(split), Some(segment)) = (self.split.take(), &self.current) else {
                return Ok(Step::End);
            };
            return Ok(part(segment, &mut self.split, split, wanted));
        }
        let (offset, header) = loop {
            if self.current.is_none() && !self.open_next()? {
                return Ok(Step::End);
            }
            let Some(segment) = &mut self.current else { return Ok(Step::End) };
            let number = segment.number;
            let Some(end) = segment.end(&self.segments)? else {
                self.leave();
                continue;
            };
            if segment.offset >= end.bytes && end.is_tail {
                return Ok(Step::End);
            }
            match segment.header(end.bytes) {
                Ok(header) if !matches!(header.kind, RecordKind::Batch | RecordKind::Batches) => {
                    self.leave();
                }
                Ok(header) if header.first > wanted.last => return Ok(Step::End),
                Ok(header) => break (segment.offset, header),
                Err(_) if self.segments.reach(number) == Reach::Gone => self.leave(),
                Err(error) => return Err(error),
            }
        };
        self.take(offset, &header, wanted)
    }

    /// Passes the record at `offset`, whose header was checked, and gives it if it is wanted.
    fn take(
        &mut self,
        offset: u64,
        header: &RecordHeader,
        wanted: &Wanted<'_>,
    ) -> Result<Step<'_>> {
        let RecordHeader { tree, first, commit_time, .. } = *header;
        let is_several = header.kind == RecordKind::Batches;
        let bytes = RECORD_HEADER_LEN as u64 + u64::from(header.payload_len);
        let is_looked_at = is_several || (wanted.is_wanted)(tree);
        if is_looked_at && !self.load(offset, header)? {
            self.leave();
            return Ok(Step::Passed { commit_time, bytes: 0 });
        }
        let Some(segment) = &mut self.current else { return Ok(Step::End) };
        segment.offset = offset + bytes;
        if !is_looked_at {
            return Ok(Step::Passed { commit_time, bytes });
        }
        let whole = segment.record(offset, header);
        if is_several {
            let walk = PartWalk::begin(&whole).map_err(|what| segment.corruption(offset, what))?;
            let split = Split { offset, header: *header, walk };
            return Ok(part(segment, &mut self.split, split, wanted));
        }
        let (payload, path) = (whole.payload, &segment.path);
        Ok(Step::Batch(Followed { tree, first, commit_time, payload, path, offset }))
    }

    /// Reads the record at `offset` and checks it. False if its segment left the log with nothing that is wanted.
    fn load(&mut self, offset: u64, header: &RecordHeader) -> Result<bool> {
        let Some(segment) = &mut self.current else { return Ok(false) };
        let loaded = segment.load(offset + RECORD_HEADER_LEN as u64, header.payload_len.into());
        let Err(error) = loaded.and_then(|()| segment.check_payload(offset, header)) else {
            return Ok(true);
        };
        // A segment with wanted records does not leave the log but to be kept.
        match self.segments.reach(segment.number) {
            Reach::Gone if header.kind == RecordKind::Batches => Ok(false),
            Reach::GivenUp | Reach::Gone => Err(given_up()),
            _ => Err(error),
        }
    }

    fn leave(&mut self) {
        if let Some(segment) = self.current.take() {
            self.before = segment.number;
        }
    }

    /// Opens the segment after the last one; returns false if no segment follows.
    fn open_next(&mut self) -> Result<bool> {
        let mut missing = None;
        for _ in 0..OPENS_MAX {
            let Some((number, path)) = self.segments.next_after(self.before) else {
                return Ok(false);
            };
            // After the look: what it passed over was removed before.
            if self.segments.has_given_up_after(self.before) {
                return Err(given_up());
            }
            match self.fs.open_read(&path) {
                Ok(file) => {
                    let segment = Segment::open(number, path, file);
                    match segment {
                        // Its file was used again before it was opened.
                        Err(_) if self.segments.reach(number) == Reach::Gone => continue,
                        opened => self.current = Some(opened?),
                    }
                    return Ok(true);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    missing = Some(Error::corruption(&path, 0, "a segment of changes is missing"));
                    self.segments.wait_for_names();
                }
                Err(error) => return Err(Error::io("open", &path, &error)),
            }
        }
        missing.map_or(Ok(false), Err)
    }
}

/// Gives the next wanted part of a record, which is in the window of `segment`, and leaves what follows in
/// `rest`.
fn part<'a>(
    segment: &'a Segment,
    rest: &mut Option<Split>,
    mut split: Split,
    wanted: &Wanted<'_>,
) -> Step<'a> {
    let Split { offset, header, .. } = split;
    let (commit_time, payload_len) = (header.commit_time, u64::from(header.payload_len));
    let whole = segment.record(offset, &header);
    while let Some(part) = split.walk.step(&whole) {
        if !(wanted.is_wanted)(part.tree) {
            continue;
        }
        if !split.walk.is_done(whole.payload.len()) {
            *rest = Some(split);
        }
        let LogRecord { tree, first, payload, .. } = part;
        let path = &segment.path;
        return Step::Batch(Followed { tree, first, commit_time, payload, path, offset });
    }
    Step::Passed { commit_time, bytes: RECORD_HEADER_LEN as u64 + payload_len }
}

/// The error of a reader whose segment was removed.
fn given_up() -> Error {
    let text = "the changes that come next were removed: they are older than the retention period";
    Error::ChangesGone(text.to_owned())
}

/// The part of a segment that may be read.
#[derive(Debug, Clone, Copy)]
struct End {
    bytes: u64,
    /// True if more may follow, without a seal before it.
    is_tail: bool,
}

impl Segment {
    fn open(number: SegmentNumber, path: PathBuf, file: Arc<dyn ReadFile>) -> Result<Self> {
        let (offset, window, window_start) = (FILE_HEADER_LEN, Vec::new(), 0);
        let end = End { bytes: FILE_HEADER_LEN, is_tail: true };
        let mut segment = Self { number, path, file, offset, end, window, window_start };
        segment.load(0, FILE_HEADER_LEN)?;
        let header = record::check_file_header(&LOG, number.0, segment.loaded(0, FILE_HEADER_LEN));
        // The rest of the window may lie beyond what is written.
        segment.window.truncate(FILE_HEADER_LEN as usize);
        match header {
            Ok(()) => Ok(segment),
            Err(FileHeaderFault::Bad(what)) => Err(segment.corruption(0, what)),
            Err(FileHeaderFault::Newer(newer)) => Err(newer.refuse(&LOG, &segment.path)),
        }
    }

    /// Returns the part of the segment that may be read; `None` if it left the log with nothing that is wanted.
    fn end(&mut self, segments: &LogSegments) -> Result<Option<End>> {
        if self.offset >= self.end.bytes && self.end.is_tail {
            self.end = match segments.reach(self.number) {
                Reach::Tail(bytes) => End { bytes, is_tail: true },
                Reach::Whole => {
                    let bytes = self.file.size().map_err(|e| Error::io("read", &self.path, &e))?;
                    End { bytes, is_tail: false }
                }
                Reach::Gone => return Ok(None),
                Reach::GivenUp => return Err(given_up()),
            };
        }
        Ok(Some(self.end))
    }

    /// The header at `offset`, of a record that ends before `end`.
    fn header(&mut self, end: u64) -> Result<RecordHeader> {
        let offset = self.offset;
        let room = end.saturating_sub(offset);
        if room < RECORD_HEADER_LEN as u64 {
            return Err(self.corruption(offset, "a segment of changes ends without a seal"));
        }
        if !self.has(offset, RECORD_HEADER_LEN as u64) {
            self.load(offset, room.min(WINDOW_BYTES))?;
        }
        let bytes = self.loaded(offset, RECORD_HEADER_LEN as u64);
        let header = record::decode_record_header(&LOG, self.number.0, offset, bytes);
        let header = header.map_err(|fault| match fault {
            RecordFault::Bad(what) | RecordFault::Impossible(what) => self.corruption(offset, what),
        })?;
        if u64::from(header.payload_len) > room - RECORD_HEADER_LEN as u64 {
            return Err(self.corruption(offset, "the segment ends inside a record"));
        }
        Ok(header)
    }

    fn check_payload(&self, offset: u64, header: &RecordHeader) -> Result<()> {
        let start = offset + RECORD_HEADER_LEN as u64;
        let payload = self.loaded(start, header.payload_len.into());
        match crc32c(&[payload]) == header.payload_crc {
            true => Ok(()),
            false => Err(self.corruption(offset, "checksum of a record")),
        }
    }

    /// The record at `offset`, whose payload `load` has read.
    fn record(&self, offset: u64, header: &RecordHeader) -> LogRecord<'_> {
        let RecordHeader { kind, tree, first, commit_time, payload_crc, .. } = *header;
        let payload = self.loaded(offset + RECORD_HEADER_LEN as u64, header.payload_len.into());
        LogRecord { kind, tree, first, commit_time, payload, payload_crc }
    }

    fn corruption(&self, offset: u64, what: &str) -> Error {
        Error::corruption(&self.path, offset, what)
    }

    fn has(&self, offset: u64, len: u64) -> bool {
        let window_end = self.window_start + self.window.len() as u64;
        self.window_start <= offset && offset + len <= window_end
    }

    /// Reads `len` bytes from `offset` on, if they are not in memory.
    fn load(&mut self, offset: u64, len: u64) -> Result<()> {
        if self.has(offset, len) {
            return Ok(());
        }
        self.window.clear();
        self.window.shrink_to(2 * WINDOW_BYTES as usize);
        self.window_start = offset;
        self.window.resize(len as usize, 0);
        if let Err(error) = self.file.read_exact_at(&mut self.window, offset) {
            self.window.clear();
            return Err(Error::io("read", &self.path, &error));
        }
        Ok(())
    }

    /// The `len` bytes from `offset` on, which `load` has read.
    fn loaded(&self, offset: u64, len: u64) -> &[u8] {
        let start = (offset - self.window_start) as usize;
        &self.window[start..start + len as usize]
    }
}
