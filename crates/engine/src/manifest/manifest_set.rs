//! The manifest of an open data directory: logs edits, then publishes the state they make.
//!
//! 1. A state is published only after the record of its edits is on disk.
//! 2. Readers take the published `Arc` and hold no lock. Installs take turns; the turn is held
//!    over the I/O on purpose, nobody but installs waits for it.
//! 3. `NoSpace`: nothing was installed, and the same edits may be tried again. After any other
//!    failed write or sync the edits may be found at the next open, or not, and no further edit
//!    is taken.
//!    So it is after a panic in the midst of an install.
//! 4. A new manifest counts once `CURRENT` names it; it is complete and on disk before.
//!
//! Lock order: `turn`, then `published`.

use super::current;
use super::edit::Edit;
use super::manifest_reader::{Loaded, load_with_end};
use super::state::State;
use super::state::version::FileNumber;
use crate::error::{Cause, Error, Result};
use crate::locks::{ManifestPublished, ManifestTurn};
use crate::log::framing::append_file::{AppendFile, write_again};
use crate::log::framing::record::{LogRecord, MANIFEST, RecordKind};
use crate::marks::Mark;
use crate::shape::Shape;
use base::env::fs::FileSystem;
use base::sync::Mutex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the file header.
pub(crate) struct ManifestSet {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    roll_bytes: u64,
    record_bytes: usize,
    /// The next file number to hand out. Publishes nothing; it is only ever counted up.
    next_file: AtomicU64,
    /// Not handed out, since files that no tree knows have them.
    passed_over: BTreeSet<FileNumber>,
    /// Kept by the log's writer; every install writes them down.
    times: Arc<CommitTimes>,
    /// Held by the install whose turn it is.
    turn: Mutex<Writer, ManifestTurn>,
    /// The state that counts; held for a moment only.
    published: Mutex<Arc<State>, ManifestPublished>,
}

/// What commits tell of time, in microseconds since the epoch. Each is raised, never lowered.
#[derive(Debug)]
pub(crate) struct CommitTimes {
    /// The newest time of a commit, which those that are carried may have driven ahead of the clock.
    pub(crate) newest: AtomicU64,
    /// The latest that the clock showed at one.
    pub(crate) clock: AtomicU64,
}

impl CommitTimes {
    /// The edits that `state` lacks.
    fn since(&self, state: &State) -> impl Iterator<Item = Edit> + use<> {
        let (newest, clock) =
            (self.newest.load(Ordering::Acquire), self.clock.load(Ordering::Acquire));
        let newest = (newest > state.commit_time).then_some(Edit::CommitTime(newest));
        newest.into_iter().chain((clock > state.clock).then_some(Edit::Clock(clock)))
    }
}

struct Writer {
    file: AppendFile,
    /// End of the snapshot this manifest begins with.
    snapshot_end: u64,
    stopped: Option<Stopped>,
    /// An install is under way, or was when a panic ended it.
    installing: bool,
}

enum Stopped {
    Failed(Cause),
    Closed,
}

/// Returns whether the next open may find edits whose install failed with `error` (rule 3 of the file
/// header): nobody may remove files that they name.
pub(crate) fn is_in_doubt(error: &Error) -> bool {
    matches!(error, Error::Io { .. })
}

impl ManifestSet {
    /// Opens the manifest of the data directory `dir`, which exists; in a new directory a
    /// manifest without trees is created. A torn last record is cut off. When it returns, the
    /// state is on disk.
    ///
    /// `Unusable` if the directory is of a newer format, `Corruption` with the file and offset
    /// if the manifest is damaged or missing though there is data.
    pub(crate) fn open(fs: Arc<dyn FileSystem>, dir: &Path) -> Result<Self> {
        Self::open_shaped(fs, dir, &Shape::DEFAULT)
    }

    /// The same with a shape of its own.
    pub(crate) fn open_shaped(fs: Arc<dyn FileSystem>, dir: &Path, shape: &Shape) -> Result<Self> {
        let record_bytes = shape.manifest_record_bytes;
        let (writer, state) = match load_with_end(&*fs, dir, State::shaped(shape))? {
            Some(loaded) => resume(&*fs, dir, loaded)?,
            None => {
                sync_parents(&*fs, dir)?;
                let state = State::shaped(shape);
                (begin(&*fs, dir, 1, &state, record_bytes)?, state)
            }
        };
        current::remove_leftovers(&*fs, dir, writer.file.number());
        Ok(Self {
            fs,
            dir: dir.to_owned(),
            roll_bytes: shape.manifest_roll_bytes as u64,
            record_bytes,
            next_file: AtomicU64::new(state.next_file.0),
            passed_over: BTreeSet::new(),
            times: Arc::new(CommitTimes {
                newest: AtomicU64::new(state.commit_time),
                clock: AtomicU64::new(state.clock),
            }),
            turn: Mutex::new(writer),
            published: Mutex::new(Arc::new(state)),
        })
    }

    /// Corruption of the manifest that counts: something is missing at its end.
    pub(crate) fn corruption(&self, what: &str) -> Error {
        let writer = self.turn.lock();
        let path = current::manifest_path(&self.dir, writer.file.number());
        Error::corruption(&path, writer.file.tail(), what)
    }

    /// The state that counts now.
    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.published.lock())
    }

    /// A number for a new file, never given before by this process. It becomes durable with the
    /// next install; until then a crash may give it again, to a file that nobody knows of.
    /// `WritesStopped` when there is none left.
    pub(crate) fn new_file(&self) -> Result<FileNumber> {
        let from = |next: u64| (next..FileNumber::END).find(|number| self.is_free(*number));
        let after = |next: u64| from(next).map(|number| number + 1);
        let next = self.next_file.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
        let number = next.ok().and_then(from).map(FileNumber);
        number.ok_or_else(|| Error::stopped("file numbers are used up"))
    }

    /// Returns whether [`Self::new_file`] has a number left to give.
    pub(crate) fn has_numbers(&self) -> bool {
        let next = self.next_file.load(Ordering::Relaxed);
        (next..FileNumber::END).any(|number| self.is_free(number))
    }

    fn is_free(&self, number: u64) -> bool {
        !self.passed_over.contains(&FileNumber(number))
    }

    /// Has `new_file` give none of `numbers`: those of files found in the directory that no tree
    /// knows. Other numbers, also smaller ones, are given as before: a stray file, whatever its
    /// name, uses no numbers up.
    pub(crate) fn pass_over(&mut self, numbers: BTreeSet<FileNumber>) {
        self.passed_over = numbers;
    }

    /// Has `new_file` leave out the next `count` numbers.
    pub(crate) fn leave_out(&mut self, count: u64) {
        let next = self.next_file.get_mut();
        *next = next.saturating_add(count);
    }

    /// Refuses, with the error that an install would have, once no further edit is taken: then edits
    /// may be on disk that the state lacks.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.turn.lock().check_writable()
    }

    /// The times of commits, for who commits to raise. Every install writes down what they are then:
    /// so the manifest knows the times of a log before any of it is given up.
    pub(crate) fn commit_times(&self) -> Arc<CommitTimes> {
        Arc::clone(&self.times)
    }

    /// Installs `edits` together; durable and published when it returns.
    ///
    /// `UnknownTree`, `InvalidArgument`: the edits do not fit the state or break an invariant;
    /// nothing was written. Nor was it after `WritesStopped` for numbers that no reader takes. Other
    /// errors: see the file header.
    pub(crate) fn install(&self, edits: &[Edit]) -> Result<Arc<State>> {
        self.change(|_| Ok(edits.to_vec()))
    }

    /// Installs the edits that `decide` makes of the current state, with no other install in
    /// between. No edits: nothing is written. `decide` must not install.
    pub(crate) fn change(
        &self,
        decide: impl FnOnce(&State) -> Result<Vec<Edit>>,
    ) -> Result<Arc<State>> {
        let mut writer = self.turn.lock();
        let before = self.state();
        let mut edits = decide(&before)?;
        if edits.is_empty() {
            return Ok(before);
        }
        writer.check_writable()?;
        let next_file = FileNumber(self.next_file.load(Ordering::Relaxed));
        if next_file > before.next_file {
            edits.push(Edit::NextFile(next_file));
        }
        edits.extend(self.times.since(&before));
        let after = Arc::new(before.apply(&edits)?);
        let payload = encode(&edits);
        check_readable(&payload)?;
        writer.installing = true;
        let logged = self.log(&mut writer, &payload, &after);
        writer.installing = false;
        writer.stop_on_failure(logged)?;
        self.next_file.fetch_max(after.next_file.0, Ordering::Relaxed);
        *self.published.lock() = Arc::clone(&after);
        Ok(after)
    }

    /// Puts encoded edits on disk, at the end of this manifest or as part of a new one.
    fn log(&self, writer: &mut Writer, payload: &[u8], after: &State) -> Result<()> {
        let limit = self.roll_bytes.max(2 * writer.snapshot_end);
        let too_long = payload.len() > self.record_bytes;
        if too_long || writer.file.tail() >= limit {
            Mark::ManifestRolled.hit();
            match self.roll(writer, after) {
                // The old manifest still counts, and may have room.
                Err(Error::NoSpace { .. }) if !too_long => {}
                rolled => return rolled,
            }
        }
        writer.append(payload)
    }

    fn roll(&self, writer: &mut Writer, after: &State) -> Result<()> {
        let others = current::manifests(&*self.fs, &self.dir)?;
        let number = others.into_iter().max().unwrap_or(0).max(writer.file.number()) + 1;
        match begin(&*self.fs, &self.dir, number, after, self.record_bytes) {
            Ok(new) => {
                *writer = Writer { installing: true, ..new };
                current::remove_leftovers(&*self.fs, &self.dir, number);
                Ok(())
            }
            Err(error) => {
                if let Error::NoSpace { .. } = error {
                    current::remove_leftovers(&*self.fs, &self.dir, writer.file.number());
                }
                Err(error)
            }
        }
    }

    /// Marks the manifest as cleanly closed. Further installs fail with `Closed`.
    pub(crate) fn close(&self) -> Result<()> {
        let mut writer = self.turn.lock();
        writer.check_writable()?;
        let closed = writer.file.append_mark(RecordKind::Close).and_then(|()| writer.file.sync());
        match closed {
            // Without the mark it is as whole as after a crash.
            Err(Error::NoSpace { .. }) => {}
            closed => writer.stop_on_failure(closed)?,
        }
        writer.stopped = Some(Stopped::Closed);
        Ok(())
    }
}

/// Makes the name of a new data directory durable, and those of the directories above it, which
/// may be new as well. Those that cannot be synced by this user were there before.
pub(crate) fn sync_parents(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    use std::io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    for parent in dir.ancestors().skip(1) {
        match fs.sync_dir(parent) {
            Ok(()) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    InvalidInput | PermissionDenied | ReadOnlyFilesystem | Unsupported
                ) => {}
            Err(error) => return Err(Error::unforgiven("sync", parent, &error)),
        }
    }
    Ok(())
}

/// Makes a data directory of `dir`, which has none of a data directory's names but SSTables, with
/// `state` in its first manifest. It counts, durably, when this returns.
pub(crate) fn create(fs: &dyn FileSystem, dir: &Path, state: &State) -> Result<()> {
    let mut writer = begin(fs, dir, 1, state, Shape::DEFAULT.manifest_record_bytes)?;
    writer.file.append_mark(RecordKind::Close)?;
    writer.file.sync()
}

fn encode(edits: &[Edit]) -> Vec<u8> {
    let mut payload = Vec::new();
    edits.iter().for_each(|edit| edit.encode_into(&mut payload));
    payload
}

/// Refuses encoded edits whose numbers no reader takes, with `WritesStopped`.
fn check_readable(payload: &[u8]) -> Result<()> {
    let read = Edit::decode_all(payload);
    read.map(drop).map_err(|unreadable| Error::stopped(unreadable.to_string()))
}

/// Creates manifest `number` with `state` as its snapshot, in records of about `record_bytes` bytes,
/// and makes it the one that counts.
fn begin(
    fs: &dyn FileSystem,
    dir: &Path,
    number: u64,
    state: &State,
    record_bytes: usize,
) -> Result<Writer> {
    let path = current::manifest_path(dir, number);
    let file = fs.create(&path).map_err(|error| Error::io("create", &path, &error))?;
    let file = AppendFile::start(file, path, (&MANIFEST, MANIFEST.version), number, 0)?;
    let mut writer = Writer { file, snapshot_end: 0, stopped: None, installing: false };
    let mut part = Vec::new();
    for edit in state.to_edits() {
        if part.len() >= record_bytes {
            check_readable(&part)?;
            writer.write(RecordKind::SnapshotPart, &part)?;
            part.clear();
        }
        edit.encode_into(&mut part);
    }
    check_readable(&part)?;
    writer.append(&part)?;
    writer.snapshot_end = writer.file.tail();
    fs.sync_dir(dir).map_err(|error| Error::unforgiven("sync", dir, &error))?;
    current::point_to(fs, dir, number)?;
    Ok(writer)
}

/// Goes on after the last record of the manifest that counts.
fn resume(fs: &dyn FileSystem, dir: &Path, loaded: Loaded) -> Result<(Writer, State)> {
    let Loaded { number, state, snapshot_end, end } = loaded;
    let path = current::manifest_path(dir, number);
    let mut file = fs.open_write(&path).map_err(|error| Error::io("open", &path, &error))?;
    write_again(fs, &path, &mut *file, 0..end)?;
    let mut file = AppendFile::resume(file, path, number, end)?;
    file.cut()?;
    file.sync()?;
    fs.sync_dir(dir).map_err(|error| Error::unforgiven("sync", dir, &error))?;
    Ok((Writer { file, snapshot_end, stopped: None, installing: false }, state))
}

impl Writer {
    fn check_writable(&self) -> Result<()> {
        match &self.stopped {
            None if self.installing => Err(Error::stopped("a panic ended an edit of the manifest")),
            None => Ok(()),
            Some(Stopped::Failed(why)) => Err(Error::WritesStopped(why.clone())),
            Some(Stopped::Closed) => Err(Error::Closed),
        }
    }

    fn stop_on_failure(&mut self, result: Result<()>) -> Result<()> {
        if let Err(error) = &result
            && !matches!(error, Error::NoSpace { .. })
        {
            self.stopped = Some(Stopped::Failed(error.into()));
        }
        result
    }

    fn write(&mut self, kind: RecordKind, edits: &[u8]) -> Result<()> {
        self.file.append(&[LogRecord::of_kind(kind, edits)])
    }

    /// Appends encoded edits as one record, on disk when it returns.
    fn append(&mut self, edits: &[u8]) -> Result<()> {
        self.write(RecordKind::Edit, edits)?;
        self.file.sync()?;
        // Only helps to tell rot from a torn write; the edits count without it.
        let marked = self.file.append_mark(RecordKind::Synced);
        let _ = self.stop_on_failure(marked);
        Ok(())
    }
}
