//! What a data directory that nobody changes is made of, as a backup takes it away and brings it
//! back: the files that count, and the point in time that they hold.

use crate::cell::TreeId;
use crate::error::{Error, Result};
use crate::files::copy_note::NoteWriter;
use crate::files::{FileIdentity, FileNumber};
use crate::log::{LogReader, SegmentNumber};
use crate::manifest::{self, LogPosition, SstMeta, State, StoreId, current};
use crate::recovery::check_log;
use crate::sstable::SstReader;
use base::env::FileSystem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of a data directory that counts. `CURRENT` is none: it follows from the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DirFile {
    /// An SSTable.
    Sst(FileNumber),
    /// A segment of the commit log.
    Log(SegmentNumber),
    /// The manifest of this number.
    Manifest(u64),
}

impl DirFile {
    /// Its path in `dir`.
    pub fn path(self, dir: &Path) -> PathBuf {
        match self {
            Self::Sst(number) => number.sst_path(dir),
            Self::Log(segment) => segment.path(dir),
            Self::Manifest(number) => current::manifest_path(dir, number),
        }
    }
}

/// One file, and what it is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentFile {
    /// Which.
    pub file: DirFile,
    /// Length in bytes.
    pub bytes: u64,
    /// Of an SSTable, unless it is from before SSTables had one.
    pub identity: Option<FileIdentity>,
}

/// The moment that a directory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Point {
    /// Every mutation up to this sequence number is there, none after it.
    pub sequence: u64,
    /// When the newest batch of the log was committed, in microseconds since 1970; 0 if the log has
    /// none.
    pub commit_micros: u64,
}

/// All that counts in a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// What the store is known by; `None` if it was never asked.
    pub store: Option<StoreId>,
    /// The moment.
    pub point: Point,
    /// Its files, in the order of [`DirFile`].
    pub files: Vec<ContentFile>,
}

/// Reads what the data directory `dir` is made of: its manifest, its whole log, and of every SSTable
/// the footer and properties. Nobody may change it meanwhile, as nobody does a checkpoint.
///
/// `Corruption` if one of these does not read, a file is missing, or has another length than the
/// manifest says; `Unusable` if it is of a newer format or no data directory.
pub fn contents(fs: &Arc<dyn FileSystem>, dir: &Path) -> Result<Contents> {
    let Some(number) = current::read(&**fs, dir)? else {
        let what = "no data directory: it has no CURRENT".to_owned();
        return Err(Error::Unusable { dir: dir.to_owned(), what });
    };
    let state = manifest::load(&**fs, dir)?.unwrap_or_default();
    let (point, segments) = read_log(fs, dir, &state)?;
    let mut files = Vec::new();
    let runs = state.trees.values().flat_map(|tree| tree.runs());
    for meta in runs.flat_map(|run| &run.ssts) {
        files.push(sst(&**fs, dir, meta)?);
    }
    let others = segments.into_iter().map(DirFile::Log).chain([DirFile::Manifest(number)]);
    for file in others {
        let path = file.path(dir);
        let bytes = fs.size(&path).map_err(|error| Error::io("read", &path, &error))?;
        files.push(ContentFile { file, bytes, identity: None });
    }
    files.sort_by_key(|content| content.file);
    Ok(Contents { store: state.store, point, files })
}

/// Makes `dir`, which has every file of a data directory but `CURRENT`, all on disk, a data
/// directory whose manifest is `manifest`. Durable when it returns.
pub fn make_current(fs: &dyn FileSystem, dir: &Path, manifest: u64) -> Result<()> {
    fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, &error))?;
    current::point_to(fs, dir, manifest)
}

/// Writes the notes of copied trees (`docs/format/copy_note.md`) that the data directory `dir` needs,
/// which no program has open: a backup has none. Reads the footer and properties of every SSTable. Durable
/// when it returns. Errors as of [`contents`].
pub fn note_copies(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let state = manifest::load(fs, dir)?.unwrap_or_default();
    write_notes(fs, dir, dir, &state, |_| true)?;
    fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, &error))
}

/// Writes to `into` the notes that the trees `wanted` of `state` need, as their SSTables in `dir` tell.
/// Their content is on disk when this returns, their names are not.
pub(super) fn write_notes(
    fs: &dyn FileSystem,
    dir: &Path,
    into: &Path,
    state: &State,
    wanted: impl Fn(TreeId) -> bool,
) -> Result<()> {
    let mut notes = NoteWriter::default();
    for (tree, version) in state.trees.iter().filter(|(tree, _)| wanted(**tree)) {
        for meta in version.runs().flat_map(|run| &run.ssts) {
            let path = meta.number.sst_path(dir);
            let file = fs.open_read(&path).map_err(|error| Error::io("open", &path, &error))?;
            let origin = SstReader::properties_of(file, &path, meta.number)?.origin;
            notes.add(*tree, meta.number, origin.map(|origin| origin.tree));
        }
    }
    notes.write(fs, into, |_| true)
}

fn sst(fs: &dyn FileSystem, dir: &Path, meta: &SstMeta) -> Result<ContentFile> {
    let path = meta.number.sst_path(dir);
    let file = fs.open_read(&path).map_err(|error| Error::io("open", &path, &error))?;
    let bytes = file.size().map_err(|error| Error::io("read", &path, &error))?;
    if bytes != meta.bytes {
        let what = format!("it has {bytes} bytes, the manifest says {}", meta.bytes);
        return Err(Error::corruption(&path, bytes.min(meta.bytes), what));
    }
    let identity = SstReader::properties_of(file, &path, meta.number)?.identity;
    Ok(ContentFile { file: DirFile::Sst(meta.number), bytes, identity })
}

/// Reads the log to its end: the point, and the segments that count.
fn read_log(
    fs: &Arc<dyn FileSystem>,
    dir: &Path,
    state: &State,
) -> Result<(Point, Vec<SegmentNumber>)> {
    let flushed = state.trees.values().map(|tree| tree.flushed).max().unwrap_or(LogPosition(0));
    let sequence = state.last_sequence.0.max(flushed.0);
    let mut point = Point { sequence, commit_micros: state.commit_time };
    let mut log = LogReader::open(Arc::clone(fs), dir)?;
    while let Some(item) = log.next()? {
        let last = super::last_of(dir, &item)?;
        point.sequence = point.sequence.max(last.0);
        point.commit_micros = point.commit_micros.max(item.record.commit_time);
    }
    let end = log.finish()?;
    check_log(dir, state, &end)?;
    let segments = end.contents.keys().copied().filter(|segment| *segment >= state.log_from);
    Ok((point, segments.collect()))
}
