//! Appends groups of batches to the log, syncs, rotates and recycles segments.
//!
//! Of one log there is one writer; it is not shared, the commit queue owns it. The protocol is in
//! the header of this folder. What each failure leaves behind:
//! 1. `NoSpace` from `append`: no record of the group will ever be read back, and the next call
//!    tries again from the same place. A group is never written in part.
//! 2. Any other failure latches the writer: the call returns it, and every later one
//!    `WritesStopped` with its text. Of the bytes after the last sync nothing is known.

use super::append_file::{AppendFile, write_again};
use super::log_reader::{Ending, LogEnd};
use super::record::{
    FILE_HEADER_LEN, LOG, LogRecord, PAYLOAD_BYTES_MAX, RECORD_HEADER_LEN, RecordKind,
};
use super::segments::{Found, LogSegments, SegmentNumber};
use crate::error::{Cause, Error, Result};
use crate::marks::Mark;
use crate::options::Options;
use crate::shape::Shape;
use base::env::fs::{FileSystem, WriteFile};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Length of a record without payload, as seals and closes are.
const MARK_LEN: u64 = RECORD_HEADER_LEN as u64;

/// Writer of the current segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// This writer, which may append to it.
    Ours,
    /// An earlier process: it may only be sealed, and is cut after the seal.
    Recovered,
}

enum State {
    /// There is no segment to append to; this will be the next.
    Between(SegmentNumber),
    Active(AppendFile, Origin),
    /// Why writes stopped.
    Latched(Cause),
    Closed,
}

/// Writes the log. See the file header.
pub(crate) struct LogWriter {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    sizes: LogSizes,
    state: State,
    segments: Arc<LogSegments>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct LogSizes {
    /// Bytes to which segments are preallocated.
    segment_bytes: u64,
    /// Segments that are kept to be used again.
    spares_max: usize,
    /// Bytes of memory for framing records that are kept between writes.
    frame_bytes_kept: usize,
}

impl LogSizes {
    /// Returns the options of an engine.
    pub(crate) fn of(options: &Options) -> Self {
        let Shape { log_spares_max: spares_max, frame_bytes_kept, .. } = options.shape;
        Self { segment_bytes: options.log_segment_bytes, spares_max, frame_bytes_kept }
    }
}

impl LogWriter {
    /// A new log in `dir`, which exists and holds no segment yet. Nothing is written before the
    /// first append.
    #[cfg(test)]
    pub(crate) fn create(fs: Arc<dyn FileSystem>, dir: &Path, segment_bytes: u64) -> Result<Self> {
        let end = super::LogReader::open(Arc::clone(&fs), dir)?.finish()?;
        if end.last.is_some() {
            let what = "it holds a commit log already".to_owned();
            return Err(Error::Unusable { dir: dir.to_owned(), what });
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
        let next = end.next_segment();
        let LogEnd { last, contents, firsts, kept, spares, .. } = end;
        let tail = last.map_or(0, |(_, tail, _)| tail);
        let found = Found { contents, firsts, spares, kept, tail };
        let segments = LogSegments::new(Arc::clone(&fs), dir, found, sizes.spares_max);
        let mut writer = Self {
            fs,
            dir: dir.to_owned(),
            sizes,
            state: State::Between(next),
            segments: Arc::new(segments),
        };
        writer.segments.trim_spares()?;
        if let Some((number, tail, ending)) = last {
            writer.take_over(number, tail, ending)?;
        }
        Ok(writer)
    }

    /// Makes the segment an earlier process wrote last durable, and seals it if it did not.
    fn take_over(&mut self, number: SegmentNumber, tail: u64, ending: Ending) -> Result<()> {
        let path = number.path(&self.dir);
        let file = make_durable(&*self.fs, &self.dir, number, 0..tail)?;
        if ending != Ending::Open {
            return Ok(());
        }
        let file = AppendFile::resume(file, path, number.0, tail)?;
        self.state = State::Active(file, Origin::Recovered);
        match self.seal() {
            Err(Error::NoSpace { .. }) => Ok(()),
            sealed => sealed,
        }
    }

    /// Returns the contents of the segments; for retiring them after flushes.
    pub(crate) fn segments(&self) -> &Arc<LogSegments> {
        &self.segments
    }

    /// Appends `records` in order as one write, in a new segment if they do not fit the current
    /// one. They are durable after `sync`. Each payload may have up to 2^30 bytes, else
    /// `InvalidArgument`. After `NoSpace` nothing was written and the call can be repeated; after
    /// any other failure see the file header.
    pub(crate) fn append(&mut self, records: &[LogRecord<'_>]) -> Result<()> {
        self.check_writable()?;
        if records.iter().any(|record| record.payload.len() > PAYLOAD_BYTES_MAX) {
            let text = format!("a record of the log is over {PAYLOAD_BYTES_MAX} bytes");
            return Err(Error::InvalidArgument(text));
        }
        if records.is_empty() {
            return Ok(());
        }
        let len = records.iter().map(|r| MARK_LEN + r.payload.len() as u64).sum();
        self.make_room(len)?;
        let State::Active(file, _) = &mut self.state else { return Err(Error::Closed) };
        let segment = SegmentNumber(file.number());
        let written = file.append(RecordKind::Batch, records);
        let tail = file.tail();
        self.latch_on_failure(written)?;
        self.segments.note(segment, records, tail);
        Ok(())
    }

    /// Makes everything appended durable. Costs nothing if it is already.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.check_writable()?;
        let State::Active(file, _) = &mut self.state else { return Ok(()) };
        if file.is_synced() {
            return Ok(());
        }
        let synced = file.sync();
        self.latch_on_failure(synced)
    }

    /// Seals and syncs the current segment, if there is one; the next append starts a new one. No
    /// segment that exists when this returns changes any more: one that holds nothing, as a full
    /// disk leaves it behind, is sealed, too.
    pub(crate) fn rotate(&mut self) -> Result<()> {
        self.check_writable()?;
        self.seal()
    }

    /// Refuses all that follows with `WritesStopped` and `why`, as after a failed append.
    pub(crate) fn stop(&mut self, why: Cause) {
        self.state = State::Latched(why);
    }

    /// Syncs, writes the closing record and syncs it. Afterwards every call fails with `Closed`.
    /// Returns the segment it closed and where its records end; `None` if it wrote to none since
    /// it was opened. On failure the log is as after a crash: whole up to the last sync.
    pub(crate) fn close(&mut self) -> Result<Option<(SegmentNumber, u64)>> {
        self.sync()?;
        let mut closed_at = None;
        if let State::Active(file, origin) = &mut self.state {
            let kind = match origin {
                Origin::Ours => RecordKind::Close,
                Origin::Recovered => RecordKind::Seal,
            };
            let closed = end(file, kind, AfterMark::Cut);
            closed_at = Some((SegmentNumber(file.number()), file.tail()));
            self.latch_on_failure(closed)?;
        }
        self.state = State::Closed;
        Ok(closed_at)
    }

    /// Returns whether records with `payloads` of such lengths fit what is allocated of the current
    /// segment, so that to append them begins no other.
    pub(crate) fn has_room(&self, payloads: impl Iterator<Item = usize>) -> bool {
        let State::Active(file, Origin::Ours) = &self.state else { return false };
        let len: u64 = payloads.map(|payload| MARK_LEN + payload as u64).sum();
        file.tail() + len + MARK_LEN <= self.sizes.segment_bytes.min(file.allocated())
    }

    fn check_writable(&self) -> Result<()> {
        match &self.state {
            State::Latched(why) => Err(Error::WritesStopped(why.clone())),
            State::Closed => Err(Error::Closed),
            State::Between(_) | State::Active(..) => Ok(()),
        }
    }

    fn latch_on_failure<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && !matches!(error, Error::NoSpace { .. })
        {
            self.state = State::Latched(error.into());
        }
        result
    }

    /// Makes the current segment one that takes `len` bytes more, and a seal after them.
    fn make_room(&mut self, len: u64) -> Result<()> {
        if let State::Active(file, origin) = &self.state {
            let full = file.tail() + len + MARK_LEN > self.sizes.segment_bytes;
            if *origin == Origin::Recovered || full && file.tail() > FILE_HEADER_LEN {
                Mark::SegmentFull.hit();
                self.seal()?;
            }
        }
        if let State::Between(number) = self.state {
            let created = self.create_segment(number);
            self.state = State::Active(self.latch_on_failure(created)?, Origin::Ours);
        }
        let State::Active(file, _) = &mut self.state else { return Ok(()) };
        let allocated = file.allocate(self.sizes.segment_bytes.max(file.tail() + len + MARK_LEN));
        self.latch_on_failure(allocated)
    }

    fn seal(&mut self) -> Result<()> {
        let State::Active(file, origin) = &mut self.state else { return Ok(()) };
        let after = match origin {
            Origin::Ours => AfterMark::Keep,
            Origin::Recovered => AfterMark::Cut,
        };
        let next = SegmentNumber(file.number()).next();
        let sealed = end(file, RecordKind::Seal, after);
        self.latch_on_failure(sealed)?;
        self.state = State::Between(next);
        Ok(())
    }

    /// Creates segment `number` from a spare or from nothing, usable when it returns (rule 1).
    fn create_segment(&self, number: SegmentNumber) -> Result<AppendFile> {
        if number.0 >= SegmentNumber::END {
            return Err(Error::stopped("segment numbers are used up"));
        }
        let path = number.path(&self.dir);
        let failed = |error| Error::io("create", &path, &error);
        let file = match self.segments.take_spare() {
            Some(spare) => {
                Mark::SegmentReused.hit();
                self.fs.rename(&spare, &path).map_err(failed)?;
                self.fs.open_write(&path).map_err(failed)?
            }
            None => self.fs.create(&path).map_err(failed)?,
        };
        let file = AppendFile::start(file, path.clone(), &LOG, number.0, self.sizes.segment_bytes);
        if let Err(Error::NoSpace { .. }) = file {
            // Without a header the file is a torn creation; it would only hold the space.
            let _ = self.fs.remove_file(&path);
        }
        let mut file = file?;
        file.keep_frame_bytes(self.sizes.frame_bytes_kept);
        self.fs
            .sync_dir(&self.dir)
            .map_err(|error| Error::unforgiven("sync", &self.dir, &error))?;
        self.segments.add(number);
        Ok(file)
    }
}

/// Makes `bytes` of a segment that an earlier process wrote durable, and its name.
pub(crate) fn make_durable(
    fs: &dyn FileSystem,
    dir: &Path,
    segment: SegmentNumber,
    bytes: Range<u64>,
) -> Result<Box<dyn WriteFile>> {
    let path = segment.path(dir);
    let mut file = fs.open_write(&path).map_err(|error| Error::io("open", &path, &error))?;
    write_again(fs, &path, &mut *file, bytes)?;
    file.sync().map_err(|error| Error::io("sync", &path, &error))?;
    fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, &error))?;
    Ok(file)
}

/// Treatment of a file after its last record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterMark {
    /// It keeps its length, to be recycled.
    Keep,
    /// It is cut, to give back what was preallocated.
    Cut,
}

/// Ends a segment with a seal or a clean close, on disk when it returns.
fn end(file: &mut AppendFile, kind: RecordKind, after: AfterMark) -> Result<()> {
    file.append_mark(kind)?;
    if after == AfterMark::Cut {
        file.cut()?;
    }
    file.sync()
}
