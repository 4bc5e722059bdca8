//! The segments of a group log: which exist, their open files, and their recycling.
//!
//! 1. Segments are retired oldest first, each retirement durable before the next, and the newest
//!    never.
//! 2. A reader holds the handle of a segment to which the index of the groups led it. A segment is
//!    retired when the index leads to it no more and no reader holds it. So no reader ever meets a
//!    file that is being written for another segment, and no reader waits.
//! 3. A retired segment becomes a spare, at most `spares_max` of them or as many as states need, or is
//!    removed. No two spares have one name.
//! 4. A spare has the length of a segment, so that it is room on a full disk. A shorter file is removed: a segment
//!    that was cut, or a file whose length a power loss took.

use super::entry_index::Place;
use crate::error::{Error, Result};
use crate::locks::GroupLogSegmentList;
use crate::log::framing::record::{self, GROUP_LOG, RECORD_HEADER_LEN, RecordFault};
use crate::log::framing::segment_files::{self, LogKind};
use crate::log::framing::segment_writer::{LogSizes, SegmentList};
use crate::log::{RecordKind, SegmentNumber};
use crate::marks::GroupLogMark;
use base::checksum::crc32c;
use base::env::fs::{FileSystem, ReadFile};
use base::sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Files of a group log.
pub(crate) const GROUP_LOG_FILES: LogKind = LogKind {
    format: &GROUP_LOG,
    first_version: GROUP_LOG.version,
    segment: "glog",
    spare: "gspare",
};

/// Handle of a segment, whose file is opened by its first reader.
pub(super) struct Segment {
    number: SegmentNumber,
    path: PathBuf,
    file: OnceLock<Arc<dyn ReadFile>>,
}

impl Segment {
    fn new(dir: &Path, number: SegmentNumber) -> Arc<Self> {
        let path = GROUP_LOG_FILES.path(dir, number);
        Arc::new(Self { number, path, file: OnceLock::new() })
    }

    /// Reads the payload of the record at `place`, with its checksums verified.
    pub(super) fn read(&self, fs: &dyn FileSystem, place: Place) -> Result<Vec<u8>> {
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let opened = fs.open_read(&self.path);
                let opened = opened.map_err(|error| Error::io("open", &self.path, &error))?;
                self.file.get_or_init(|| opened)
            }
        };
        let mut bytes = vec![0; RECORD_HEADER_LEN + place.payload_len as usize];
        let read = file.read_exact_at(&mut bytes, place.offset);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.corruption(place.offset, "the file ends early"),
            _ => Error::io("read", &self.path, &error),
        })?;
        let payload = bytes.split_off(RECORD_HEADER_LEN);
        let (number, offset) = (self.number.0, place.offset);
        let what = match record::decode_record_header(&GROUP_LOG, number, offset, &bytes) {
            Err(RecordFault::Bad(what) | RecordFault::Impossible(what)) => what,
            Ok(header) if header.kind != RecordKind::Group => "another type of record",
            Ok(header) if header.payload_len != place.payload_len => "another length of a record",
            Ok(header) if header.payload_crc != crc32c(&[&payload]) => "checksum of a record",
            Ok(_) => return Ok(payload),
        };
        Err(self.corruption(offset, what))
    }

    /// Corruption of this segment at `offset`.
    pub(super) fn corruption(&self, offset: u64, what: impl std::fmt::Display) -> Error {
        Error::corruption(&self.path, offset, what)
    }
}

#[derive(Default)]
struct State {
    segments: BTreeMap<SegmentNumber, Arc<Segment>>,
    spares: Vec<SegmentNumber>,
}

/// The segments of a log. See the file header.
pub(super) struct SegmentSet {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    /// Spares that are kept to be used again, whatever states need, and their length.
    spares_max: usize,
    segment_bytes: u64,
    /// Covers all of its fields; never held over I/O.
    state: Mutex<State, GroupLogSegmentList>,
}

/// Fate of a retired segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Spare,
    Removed,
}

impl SegmentSet {
    /// The set of a log that was read, with its segments and no spares yet ([`Self::adopt_spares`]).
    pub(super) fn new(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        segments: &[SegmentNumber],
        LogSizes { spares_max, segment_bytes, .. }: LogSizes,
    ) -> Self {
        let segments = segments.iter().map(|number| (*number, Segment::new(dir, *number)));
        let state = Mutex::new(State { segments: segments.collect(), spares: Vec::new() });
        Self { fs, dir: dir.to_owned(), spares_max, segment_bytes, state }
    }

    /// Takes over the spares of an earlier process, also such whose number is still to come: none holds
    /// anything. At most `kept` stay.
    pub(super) fn adopt_spares(&self, kept: usize) -> Result<()> {
        let [found] = segment_files::list(&*self.fs, &self.dir, [GROUP_LOG_FILES.spare])?;
        for spare in found {
            if self.is_whole(&GROUP_LOG_FILES.spare_path(&self.dir, spare))? {
                self.state.lock().spares.push(spare);
            } else {
                self.remove_spare(spare)?;
            }
        }
        self.trim_spares(kept)
    }

    /// Removes the spares beyond the number `kept`.
    pub(super) fn trim_spares(&self, kept: usize) -> Result<()> {
        let kept = kept.max(self.spares_max);
        let surplus = || {
            let mut state = self.state.lock();
            if state.spares.len() > kept { state.spares.pop() } else { None }
        };
        while let Some(spare) = surplus() {
            self.remove_spare(spare)?;
        }
        Ok(())
    }

    /// Returns true if a file has the length of a segment, or is not there: an earlier call renamed it then.
    fn is_whole(&self, path: &Path) -> Result<bool> {
        match self.fs.size(path) {
            Ok(bytes) => Ok(bytes >= self.segment_bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(Error::io("read", path, &error)),
        }
    }

    fn remove_spare(&self, spare: SegmentNumber) -> Result<()> {
        let path = GROUP_LOG_FILES.spare_path(&self.dir, spare);
        self.fs.remove_file(&path).map_err(|error| Error::io("remove", &path, &error))
    }

    /// Makes sure that there are `count` spares, so that the next segments need no space. `NoSpace` leaves
    /// nothing behind.
    pub(super) fn ensure_spares(&self, count: usize) -> Result<()> {
        let mut made = Vec::new();
        while let Some(number) = self.next_spare(count) {
            if let Err(error) = self.make_spare(number) {
                let mut state = self.state.lock();
                state.spares.retain(|spare| !made.contains(spare));
                drop(state);
                made.into_iter().for_each(|spare| drop(self.remove_spare(spare)));
                return Err(error);
            }
            self.state.lock().spares.push(number);
            made.push(number);
        }
        Ok(())
    }

    /// Returns a number for a spare if there are fewer than `count`.
    fn next_spare(&self, count: usize) -> Option<SegmentNumber> {
        let state = self.state.lock();
        let largest = state.segments.keys().next_back().max(state.spares.iter().max());
        (state.spares.len() < count).then(|| largest.copied().unwrap_or_default().next())
    }

    fn make_spare(&self, number: SegmentNumber) -> Result<()> {
        let path = GROUP_LOG_FILES.spare_path(&self.dir, number);
        let failed = |error| Error::io("create", &path, &error);
        let mut file = self.fs.create(&path).map_err(failed)?;
        if let Err(error) = file.allocate(self.segment_bytes) {
            drop(file);
            let _ = self.fs.remove_file(&path);
            return Err(failed(error));
        }
        Ok(())
    }

    /// The handle of a segment that exists.
    pub(super) fn get(&self, number: SegmentNumber) -> Option<Arc<Segment>> {
        self.state.lock().segments.get(&number).cloned()
    }

    /// The oldest segment and the newest; `None` before the first append.
    pub(super) fn ends(&self) -> Option<(SegmentNumber, SegmentNumber)> {
        let state = self.state.lock();
        Some((*state.segments.keys().next()?, *state.segments.keys().next_back()?))
    }

    /// Number of segments that exist.
    pub(super) fn count(&self) -> usize {
        self.state.lock().segments.len()
    }

    /// Retires the oldest segment if it stands before `limit`, is not the newest, and no reader
    /// holds it. It becomes a spare if it is whole and there are fewer than `spares`. Returns whether it did.
    /// Touches the disk. After an error the segment is kept, and the call can be repeated.
    pub(super) fn retire_before(&self, limit: SegmentNumber, spares: usize) -> Result<bool> {
        let (oldest, has_place) = {
            let state = self.state.lock();
            let Some((oldest, handle)) = state.segments.first_key_value() else { return Ok(false) };
            if *oldest >= limit || state.segments.len() == 1 {
                return Ok(false);
            }
            if Arc::strong_count(handle) > 1 {
                GroupLogMark::SegmentRead.hit();
                return Ok(false);
            }
            // A spare that was made, and not used for the segment of its number, has that name already.
            let is_named = state.spares.contains(oldest);
            (*oldest, state.spares.len() < spares.max(self.spares_max) && !is_named)
        };
        let is_spare = has_place && self.is_whole(&GROUP_LOG_FILES.path(&self.dir, oldest))?;
        let fate = if is_spare { Fate::Spare } else { Fate::Removed };
        self.remove(oldest, fate)?;
        let mut state = self.state.lock();
        state.segments.remove(&oldest);
        if fate == Fate::Spare {
            state.spares.push(oldest);
        }
        Ok(true)
    }

    fn remove(&self, segment: SegmentNumber, fate: Fate) -> Result<()> {
        let path = GROUP_LOG_FILES.path(&self.dir, segment);
        let done = match fate {
            Fate::Spare => {
                let spare = GROUP_LOG_FILES.spare_path(&self.dir, segment);
                self.fs.rename(&path, &spare)
            }
            Fate::Removed => {
                GroupLogMark::SegmentRemoved.hit();
                self.fs.remove_file(&path)
            }
        };
        match done {
            Ok(()) => {}
            // An earlier call got this far and then failed to sync the directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("retire", &path, &error)),
        }
        self.fs.sync_dir(&self.dir).map_err(|error| Error::io("sync", &self.dir, &error))
    }
}

impl SegmentList for SegmentSet {
    fn take_spare(&self) -> Option<PathBuf> {
        let spare = self.state.lock().spares.pop()?;
        Some(GROUP_LOG_FILES.spare_path(&self.dir, spare))
    }

    fn has_spare(&self) -> bool {
        !self.state.lock().spares.is_empty()
    }

    fn add(&self, segment: SegmentNumber) {
        self.state.lock().segments.insert(segment, Segment::new(&self.dir, segment));
    }
}
