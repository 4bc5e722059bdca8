//! Which files may be deleted, and when.
//!
//! A file of the data directory is needed while the manifest names it, while a reader holds it
//! open (a scan goes on in the version it began with), or while a job is writing it. Hence:
//! 1. An SSTable is handed over here only after the edit that takes it out of the manifest is on
//!    disk. Before that, a crash would bring back a manifest that names a file that is gone.
//! 2. It is deleted when the last reader has let go of it, seen by its `Weak` reference. That is
//!    looked at when somebody calls `collect`: after every install, and at close; and, while a file
//!    waits, every [`LOOK_AFTER`] in the background. A job still holds the inputs of its own install.
//! 3. Files being written are not known here; their job removes them if it fails.
//!    The note of a copied tree goes when all files that it names are gone, and synced to be.
//! 4. Nothing is deleted while anybody gives files a second name ([`Obsolete::pin`]): nobody waits
//!    for that, the next `collect` deletes.
//! 5. What a crash leaves behind, no manifest names. [`remove_unnamed`] deletes it at open, when
//!    no job runs yet. It touches names of SSTables ([`FileNumber::of_sst`]) and of sort runs
//!    ([`FileNumber::is_sort`]) only; the log, the manifest and files that are not ours are others'
//!    concern.
//!
//! A deletion need not be durable: what comes back after a crash is deleted again at open.

use crate::cell::TreeId;
use crate::error::{Error, Result};
use crate::files::{FileNumber, copy_note};
use crate::health::Health;
use crate::health::failure_policy::Task;
use crate::locks::ObsoleteFiles;
use crate::sstable::SstReader;
use base::env::{Env, FileSystem};
use base::sync::Mutex;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a file that is held waits until it is looked at again.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// SSTables that no version names any more and that readers may still hold.
pub(crate) struct Obsolete {
    shared: Arc<Shared>,
}

struct Shared {
    env: Env,
    waiting: Mutex<Queue, ObsoleteFiles>,
    /// True if a job is to look again.
    looks: AtomicBool,
    /// Once the engine closes nobody looks again.
    health: Arc<Health>,
}

/// No file is deleted as long as this lives, but for those that a `collect` has picked already.
pub(crate) struct FilesPinned {
    shared: Arc<Shared>,
}

impl Drop for FilesPinned {
    fn drop(&mut self) {
        self.shared.waiting.lock().pins -= 1;
    }
}

/// Files and notes that wait, and the number of holders that keep files from being deleted.
#[derive(Debug, Default)]
struct Queue {
    files: Vec<Waiting>,
    notes: Vec<WaitingNote>,
    /// Calls that delete files which do not wait any more.
    deleting: usize,
    pins: usize,
}

/// A note of a copied tree that was dropped.
#[derive(Debug)]
struct WaitingNote {
    path: PathBuf,
    /// The files that it names. It waits for each of them that waits.
    ssts: BTreeSet<PathBuf>,
}

#[derive(Debug)]
struct Waiting {
    reader: Weak<SstReader>,
    path: PathBuf,
    bytes: u64,
}

impl Obsolete {
    /// No files yet, of the file system of `env`. Once the engine closes, only those who call
    /// `collect` look.
    pub(crate) fn new(env: Env, health: Arc<Health>) -> Self {
        let (waiting, looks) = (Mutex::default(), AtomicBool::new(false));
        Self { shared: Arc::new(Shared { env, waiting, looks, health }) }
    }

    /// Takes over SSTables that the manifest on disk does not name any more. Each is deleted by
    /// the first `collect` that finds it without a holder, or soon after it has none.
    pub(crate) fn add(&self, readers: impl IntoIterator<Item = Arc<SstReader>>) {
        let waiting = |reader: Arc<SstReader>| Waiting {
            path: reader.path().to_owned(),
            bytes: reader.bytes(),
            reader: Arc::downgrade(&reader),
        };
        self.shared.waiting.lock().files.extend(readers.into_iter().map(waiting));
    }

    /// Takes over the note of `tree` in `dir`, a tree that the manifest on disk does not name any more
    /// and whose files were added before. A tree without a note has nothing to take over.
    pub(crate) fn add_note(&self, dir: &Path, tree: TreeId) {
        // A note that does not read stays until the next open.
        let Ok(Some(note)) = copy_note::read(&*self.shared.env.fs, dir, tree) else { return };
        let ssts = note.numbers.iter().map(|number| number.sst_path(dir)).collect();
        let note = WaitingNote { path: copy_note::path(dir, tree), ssts };
        self.shared.waiting.lock().notes.push(note);
    }

    /// Keeps every file that a manifest asked after this call names: it is handed over to be deleted
    /// only when the manifest names it no more.
    pub(crate) fn pin(&self) -> FilesPinned {
        self.shared.waiting.lock().pins += 1;
        FilesPinned { shared: Arc::clone(&self.shared) }
    }

    /// Deletes what nobody holds any more; gives the number of files deleted. What cannot be
    /// deleted, and what is held, is tried again later.
    pub(crate) fn collect(&self) -> usize {
        let deleted = self.shared.collect();
        self.shared.look_later();
        deleted
    }

    /// Files that readers still hold, and their bytes.
    pub(crate) fn held(&self) -> (u64, u64) {
        let waiting = self.shared.waiting.lock();
        let held = waiting.files.iter().filter(|file| file.reader.strong_count() > 0);
        held.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.bytes))
    }

    /// Files that wait to be deleted.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shared.waiting.lock().files.len()
    }

    /// Returns whether no file waits.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Queue {
    /// Takes the notes whose files are gone: none waits, nor is being deleted.
    fn take_notes(&mut self) -> Vec<WaitingNote> {
        if self.notes.is_empty() || self.deleting > 0 {
            return Vec::new();
        }
        let waiting: BTreeSet<&PathBuf> = self.files.iter().map(|file| &file.path).collect();
        let waits = |note: &WaitingNote| note.ssts.iter().any(|sst| waiting.contains(sst));
        self.notes.extract_if(.., |note| !waits(note)).collect()
    }
}

impl Shared {
    fn collect(&self) -> usize {
        let free: Vec<Waiting> = {
            let mut waiting = self.waiting.lock();
            if waiting.pins > 0 {
                return 0;
            }
            waiting.deleting += 1;
            waiting.files.extract_if(.., |file| file.reader.strong_count() == 0).collect()
        };
        let found = free.len();
        let fs = &*self.env.fs;
        let failed: Vec<Waiting> =
            free.into_iter().filter(|file| !remove(fs, &file.path)).collect();
        let deleted = found - failed.len();
        let notes = {
            let mut waiting = self.waiting.lock();
            waiting.files.extend(failed);
            waiting.deleting -= 1;
            waiting.take_notes()
        };
        notes.into_iter().for_each(|note| self.remove_note(note));
        deleted
    }

    /// Removes a note whose files are gone. Where that fails the next open does it.
    fn remove_note(&self, note: WaitingNote) {
        let dir = note.path.parent().unwrap_or(Path::new(""));
        if self.env.fs.sync_dir(dir).is_ok() {
            remove(&*self.env.fs, &note.path);
        }
    }

    /// Sees to it that a job looks again while a file waits.
    fn look_later(self: &Arc<Self>) {
        let idle = self.waiting.lock().files.is_empty() || self.health.is_closing();
        if idle || self.looks.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::downgrade(self);
        let look = move || {
            let Some(shared) = shared.upgrade() else { return };
            shared.looks.store(false, Ordering::Release);
            if !shared.health.is_closing() {
                let looked = || {
                    shared.collect();
                    shared.look_later();
                    Ok(())
                };
                // A panic is told to writers.
                let _ = shared.health.guard(Task::Compaction, "deleting files", looked);
            }
        };
        self.env.tasks.submit_later(LOOK_AFTER, Box::new(look));
    }
}

/// Deletes `path`; whether it is gone. Disk space is all that a failure costs.
fn remove(fs: &dyn FileSystem, path: &Path) -> bool {
    match fs.remove_file(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "could not delete obsolete file");
            false
        }
    }
}

/// The numbers of the SSTables in `dir` that are not in `named`.
pub(crate) fn unnamed(
    fs: &dyn FileSystem,
    dir: &Path,
    named: &BTreeSet<FileNumber>,
) -> Result<BTreeSet<FileNumber>> {
    let names = fs.list(dir).map_err(|error| Error::io("list", dir, &error))?;
    let numbers = names.iter().filter_map(|name| FileNumber::of_sst(name));
    Ok(numbers.filter(|number| !named.contains(number)).collect())
}

/// Deletes the SSTables in `dir` that are not in `named`, and all sort runs; gives the number of
/// files deleted. Only at open, before any job runs.
pub(crate) fn remove_unnamed(
    fs: &dyn FileSystem,
    dir: &Path,
    named: &BTreeSet<FileNumber>,
) -> Result<usize> {
    let names = fs.list(dir).map_err(|error| Error::io("list", dir, &error))?;
    let ssts = unnamed(fs, dir, named)?.into_iter().map(|number| number.sst_path(dir));
    let sorts = names.iter().filter(|name| FileNumber::is_sort(name)).map(|name| dir.join(name));
    Ok(ssts.chain(sorts).filter(|path| remove(fs, path)).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::CacheFeatures;
    use crate::cell::{Column, Entry, FamilyId, Kind, SequenceNumber, Timestamp};
    use crate::options::{Compression, FilterGranularity, TreeOptions};
    use crate::shape::Shape;
    use crate::sstable::{BlockCache, SstBuilder, SstOptions};
    use base::env::{RealFileSystem, SimEnv, Tasks};

    fn sst(dir: &Path, number: u64) -> Arc<SstReader> {
        let (fs, number) = (RealFileSystem, FileNumber(number));
        let path = number.sst_path(dir);
        let options = SstOptions::new(
            &TreeOptions::default(),
            Compression::None,
            FilterGranularity::Row,
            &Shape::DEFAULT,
        );
        let mut builder = SstBuilder::new(fs.create(&path).unwrap(), &path, options);
        let entry = Entry {
            column: Column::of(FamilyId(1), b"q"),
            timestamp: Timestamp(1),
            sequence: SequenceNumber(1),
            kind: Kind::Put,
            value: b"value",
        };
        builder.add(b"row", &entry).unwrap();
        builder.finish(number).unwrap();
        let cache = BlockCache::new(1 << 20, CacheFeatures::PASSING);
        SstReader::open(fs.open_read(&path).unwrap(), &path, number, cache).unwrap()
    }

    #[test]
    fn a_file_goes_when_its_last_reader_does() {
        let dir = tempfile::tempdir().unwrap();
        let obsolete = Obsolete::new(Env::real(1), Arc::default());
        let (held, free) = (sst(dir.path(), 1), sst(dir.path(), 2));
        obsolete.add([Arc::clone(&held), free]);
        assert_eq!(obsolete.collect(), 1);
        assert!(held.path().exists() && obsolete.len() == 1);
        assert_eq!(obsolete.held(), (1, held.bytes()));
        let path = held.path().to_owned();
        drop(held);
        assert_eq!(obsolete.held(), (0, 0));
        assert_eq!(obsolete.collect(), 1);
        assert!(!path.exists() && obsolete.is_empty());
    }

    #[test]
    fn a_file_that_was_held_goes_although_nobody_collects() {
        let dir = tempfile::tempdir().unwrap();
        let machine = SimEnv::new(1);
        let env = Env { fs: Arc::new(RealFileSystem), ..machine.env() };
        let health = Arc::<Health>::default();
        let obsolete = Obsolete::new(env, Arc::clone(&health));
        let held = [sst(dir.path(), 1), sst(dir.path(), 2)];
        let paths = held.each_ref().map(|sst| sst.path().to_owned());
        obsolete.add(held.iter().cloned());
        assert_eq!(obsolete.collect(), 0);
        let [first, second] = held;
        drop(first);
        assert!(machine.tasks.help() && !paths[0].exists() && paths[1].exists());
        // It goes on for as long as a file waits, and no longer.
        assert!(machine.tasks.help() && obsolete.len() == 1);
        drop(second);
        assert!(machine.tasks.help() && !paths[1].exists() && !machine.tasks.help());
        // Nor while the engine closes.
        let held = sst(dir.path(), 3);
        obsolete.add([Arc::clone(&held)]);
        health.close();
        assert_eq!((obsolete.collect(), machine.tasks.help()), (0, false));
        drop(held);
        assert_eq!((obsolete.collect(), obsolete.len()), (1, 0));
    }

    #[test]
    fn nothing_is_deleted_while_files_are_pinned() {
        let dir = tempfile::tempdir().unwrap();
        let obsolete = Obsolete::new(Env::real(1), Arc::default());
        let reader = sst(dir.path(), 1);
        let path = reader.path().to_owned();
        let pins = [obsolete.pin(), obsolete.pin()];
        obsolete.add([reader]);
        assert_eq!((obsolete.collect(), path.exists()), (0, true));
        let [first, second] = pins;
        drop(first);
        assert_eq!((obsolete.collect(), path.exists()), (0, true));
        drop(second);
        assert_eq!((obsolete.collect(), path.exists()), (1, false));
    }

    #[test]
    fn what_cannot_be_deleted_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let obsolete = Obsolete::new(Env::real(1), Arc::default());
        let reader = sst(dir.path(), 1);
        let path = reader.path().to_owned();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        obsolete.add([reader]);
        assert_eq!((obsolete.collect(), obsolete.len()), (0, 1));
        std::fs::remove_dir(&path).unwrap();
        assert_eq!((obsolete.collect(), obsolete.len()), (1, 0));
    }

    #[test]
    fn open_deletes_only_ssts_that_no_tree_has_and_sort_runs() {
        let dir = tempfile::tempdir().unwrap();
        let named = [FileNumber(3)].into();
        for number in [3, 4, 11] {
            drop(sst(dir.path(), number));
        }
        std::fs::write(dir.path().join("0000000005.sort"), b"left by a crash").unwrap();
        let others =
            ["0000000004.log", "CURRENT", "4.sst", "notes.txt", "0000000009.sst.bak", "5.sort"];
        for name in others {
            std::fs::write(dir.path().join(name), b"mine").unwrap();
        }
        assert_eq!(remove_unnamed(&RealFileSystem, dir.path(), &named).unwrap(), 3);
        let left = RealFileSystem.list(dir.path()).unwrap();
        let mut want: Vec<PathBuf> = others.iter().map(PathBuf::from).collect();
        want.push(FileNumber(3).sst_path(Path::new("")));
        want.sort();
        assert_eq!(left, want);
    }
}
