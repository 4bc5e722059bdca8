//! Appends records to a log of segments, syncs, rotates and recycles.
//!
//! A log has one writer. The protocol is in the header of the room `log`. What each failure leaves
//! behind:
//! 1. `NoSpace` from `append`: no record of the call will ever be read back, and the next call
//!    tries again from the same place. Records of one call are never written in part.
//! 2. Any other failure latches the writer: the call returns it, and every later one
//!    `WritesStopped` with its text. Of the bytes after the last sync nothing is known.

use super::append_file::{AppendFile, write_again};
use super::chain_reader::ChainEnd;
use super::record::{FILE_HEADER_LEN, LogRecord, PAYLOAD_BYTES_MAX, RECORD_HEADER_LEN, RecordKind};
use super::segment_files::{LogKind, SegmentNumber};
use super::segment_reader::Ending;
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

/// Writer of the current segment, and its rights.
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
    /// The cause for which writes stopped.
    Latched(Cause),
    Closed,
}

/// Bytes to which a segment is preallocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// The bytes of a segment, if not more are needed.
    Whole,
    /// The same if the disk has space for them, else what is needed.
    Least,
}

/// The segments of a log as their owner knows them. The writer takes spares from it, and tells it
/// of new segments. Neither call does I/O.
pub(crate) trait SegmentList: Send + Sync {
    /// Takes a spare file, for the writer to rename.
    fn take_spare(&self) -> Option<PathBuf>;

    /// Returns true if there is a spare file.
    fn has_spare(&self) -> bool;

    /// Takes note of a new segment, the newest from now on.
    fn add(&self, segment: SegmentNumber);
}

/// Place of records that one call appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) segment: SegmentNumber,
    /// Start of the first record.
    pub(crate) offset: u64,
    /// End of the last record.
    pub(crate) tail: u64,
}

/// Writes the segments of a log. See the file header.
pub(crate) struct SegmentWriter {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    kind: &'static LogKind,
    sizes: LogSizes,
    state: State,
    list: Arc<dyn SegmentList>,
    /// Version of the segments that it begins.
    version: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct LogSizes {
    /// Bytes to which segments are preallocated.
    pub(crate) segment_bytes: u64,
    /// Segments that are kept to be used again.
    pub(crate) spares_max: usize,
    /// Bytes of memory for framing records that are kept between writes.
    pub(crate) frame_bytes_kept: usize,
}

impl LogSizes {
    /// Returns the sizes that the options of an engine give.
    pub(crate) fn of(options: &Options) -> Self {
        let Shape { log_spares_max: spares_max, frame_bytes_kept, .. } = options.shape;
        Self { segment_bytes: options.log_segment_bytes, spares_max, frame_bytes_kept }
    }
}

impl SegmentWriter {
    /// Goes on after `end`, the end of the log of `kind` in `dir`, repairing a torn tail. When it
    /// returns, all that was read is on disk. A full disk does not stop it: the repair is then
    /// finished by the first append that finds space.
    pub(crate) fn open(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        kind: &'static LogKind,
        sizes: LogSizes,
        end: &ChainEnd,
        list: Arc<dyn SegmentList>,
    ) -> Result<Self> {
        let (dir, state) = (dir.to_owned(), State::Between(end.next_segment()));
        let version = kind.first_version;
        let mut writer = Self { fs, dir, kind, sizes, state, list, version };
        if let Some((number, tail, ending)) = end.last {
            writer.take_over(number, tail, ending)?;
        }
        Ok(writer)
    }

    /// Makes the segment an earlier process wrote last durable, and seals it if it did not.
    fn take_over(&mut self, number: SegmentNumber, tail: u64, ending: Ending) -> Result<()> {
        let path = self.kind.path(&self.dir, number);
        let file = make_durable(&*self.fs, &self.dir, &path, 0..tail)?;
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

    /// Appends `records` in order as one write, in a new segment if they do not fit the current
    /// one; there is at least one. They are durable after `sync`. Each payload may have up to 2^30 bytes,
    /// else `InvalidArgument`. After `NoSpace` nothing was written and the call can be repeated;
    /// after any other failure see the file header.
    pub(crate) fn append(&mut self, records: &[LogRecord<'_>]) -> Result<Appended> {
        self.append_with(records, Length::Whole)
    }

    fn append_with(&mut self, records: &[LogRecord<'_>], length: Length) -> Result<Appended> {
        self.check_writable()?;
        if records.iter().any(|record| record.payload.len() > PAYLOAD_BYTES_MAX) {
            let text = format!("a record of the log is over {PAYLOAD_BYTES_MAX} bytes");
            return Err(Error::InvalidArgument(text));
        }
        let len = records.iter().map(|r| MARK_LEN + r.payload.len() as u64).sum();
        self.make_room(len, length)?;
        let State::Active(file, _) = &mut self.state else { return Err(Error::Closed) };
        let (segment, offset) = (SegmentNumber(file.number()), file.tail());
        let written = file.append(records);
        let tail = file.tail();
        self.latch_on_failure(written)?;
        Ok(Appended { segment, offset, tail })
    }

    /// Appends as [`Self::append`] does. On a disk without space for a whole segment it begins one that takes
    /// these records only: for records that free space.
    pub(crate) fn append_at_need(&mut self, records: &[LogRecord<'_>]) -> Result<Appended> {
        self.append_with(records, Length::Least)
    }

    /// Makes room for payloads of so many bytes with their headers, in a segment as short as it must be.
    /// Does nothing on a writer that stopped.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<()> {
        match self.state {
            State::Between(_) | State::Active(..) => self.make_room(bytes, Length::Least),
            State::Latched(_) | State::Closed => Ok(()),
        }
    }

    /// Returns the version of the segments that it begins.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Begins segments of this version from now on. A current one of an earlier version is sealed first.
    pub(crate) fn raise_version(&mut self, version: u32) -> Result<()> {
        self.check_writable()?;
        if self.version < version {
            self.seal()?;
            self.version = version;
        }
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

    /// Returns the segment that is written now and where its records end; `None` before the first append.
    pub(crate) fn position(&self) -> Option<(SegmentNumber, u64)> {
        match &self.state {
            State::Active(file, _) => Some((SegmentNumber(file.number()), file.tail())),
            _ => None,
        }
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

    /// Returns the refusal of a writer that is latched or closed.
    pub(crate) fn check_writable(&self) -> Result<()> {
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

    /// Makes the current segment one that takes `len` bytes more, and a seal after them. One that finds no space
    /// gives way to a spare.
    fn make_room(&mut self, len: u64, length: Length) -> Result<()> {
        if let State::Active(file, origin) = &self.state {
            let full = file.tail() + len + MARK_LEN > self.sizes.segment_bytes;
            if *origin == Origin::Recovered || full && file.tail() > FILE_HEADER_LEN {
                Mark::SegmentFull.hit();
                self.seal()?;
            }
        }
        match self.allocate(len, length) {
            Err(Error::NoSpace { .. }) if self.has_records() && self.list.has_spare() => {
                self.seal()?;
            }
            done => done?,
        }
        if let State::Between(number) = self.state {
            let created = self.create_segment(number, len, length);
            self.state = State::Active(self.latch_on_failure(created)?, Origin::Ours);
        }
        self.allocate(len, length)
    }

    fn has_records(&self) -> bool {
        matches!(&self.state, State::Active(file, _) if file.tail() > FILE_HEADER_LEN)
    }

    /// Gives the current segment its length, if there is one.
    fn allocate(&mut self, len: u64, length: Length) -> Result<()> {
        let State::Active(file, _) = &mut self.state else { return Ok(()) };
        let least = file.tail() + len + MARK_LEN;
        let allocated = match file.allocate(self.sizes.segment_bytes.max(least)) {
            Err(Error::NoSpace { .. }) if length == Length::Least => file.allocate(least),
            done => done,
        };
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

    /// Creates segment `number` from a spare or from nothing, usable when it returns (rule 1). Its first
    /// records take `first` bytes.
    fn create_segment(
        &self,
        number: SegmentNumber,
        first: u64,
        length: Length,
    ) -> Result<AppendFile> {
        if number.0 >= SegmentNumber::END {
            return Err(Error::stopped("segment numbers are used up"));
        }
        let path = self.kind.path(&self.dir, number);
        let failed = |error| Error::io("create", &path, &error);
        let file = match self.list.take_spare() {
            Some(spare) => {
                Mark::SegmentReused.hit();
                self.fs.rename(&spare, &path).map_err(failed)?;
                self.fs.open_write(&path).map_err(failed)?
            }
            None => self.fs.create(&path).map_err(failed)?,
        };
        let version = (self.kind.format, self.version);
        let start = |file, len| AppendFile::start(file, path.clone(), version, number.0, len);
        let mut file = start(file, self.sizes.segment_bytes);
        if length == Length::Least && matches!(file, Err(Error::NoSpace { .. })) {
            let anew = self.fs.create(&path).map_err(failed);
            file = anew.and_then(|file| start(file, FILE_HEADER_LEN + first + MARK_LEN));
        }
        if let Err(Error::NoSpace { .. }) = file {
            // Without a header the file is a torn creation; it would only hold the space.
            let _ = self.fs.remove_file(&path);
        }
        let mut file = file?;
        file.keep_frame_bytes(self.sizes.frame_bytes_kept);
        self.fs
            .sync_dir(&self.dir)
            .map_err(|error| Error::unforgiven("sync", &self.dir, &error))?;
        self.list.add(number);
        Ok(file)
    }
}

/// Makes `bytes` of a segment at `path` in `dir`, which an earlier process wrote, durable, and its
/// name.
pub(crate) fn make_durable(
    fs: &dyn FileSystem,
    dir: &Path,
    path: &Path,
    bytes: Range<u64>,
) -> Result<Box<dyn WriteFile>> {
    let mut file = fs.open_write(path).map_err(|error| Error::io("open", path, &error))?;
    write_again(fs, path, &mut *file, bytes)?;
    file.sync().map_err(|error| Error::io("sync", path, &error))?;
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
