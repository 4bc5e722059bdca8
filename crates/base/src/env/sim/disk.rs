//! The simulated disk: what the files hold now, what would survive a power loss, and faults.
//!
//! 1. Of each file the content of its last sync survives a power loss, and of the operations
//!    after it an arbitrary choice: each written sector of [`SECTOR_BYTES`] by itself, the last
//!    one possibly torn; lengths too.
//! 2. Of each directory the names of its last sync survive, and of the operations after it an
//!    arbitrary prefix. A rename is one operation; that of a directory moves what is below it, as
//!    durable as it is.
//! 3. A failed sync has written an arbitrary choice of what it should have, and what it has not
//!    written is never written: a later sync that succeeds proves nothing.
//! 4. A write that fails has written an arbitrary prefix.

use super::faults::{Call, Fault, FaultPoint, Faults};
use crate::env::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// Unit that the disk writes atomically, except for the last write before a power loss.
pub const SECTOR_BYTES: usize = 4096;

pub(super) type FileId = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    File(FileId),
    Dir,
}

#[derive(Debug, Clone)]
enum FileOp {
    Write {
        offset: usize,
        data: Vec<u8>,
    },
    /// The file gets this length.
    Cut(usize),
    /// The file gets at least this length.
    Grow(usize),
}

#[derive(Debug, Clone, Default)]
pub(super) struct File {
    /// The contents that reads see.
    pub(super) data: Vec<u8>,
    /// The contents on the disk.
    durable: Vec<u8>,
    /// Operations that turn `durable` into `data`.
    pending: Vec<FileOp>,
    /// Open handles.
    pub(super) handles: usize,
}

/// One operation on names: all of `changes` or none.
#[derive(Debug, Clone)]
struct NameOp {
    dirs: Vec<PathBuf>,
    changes: Vec<(PathBuf, Option<Entry>)>,
    /// A directory, and the name it gets in the place of what has it.
    moved: Option<(PathBuf, PathBuf)>,
}

#[derive(Debug)]
pub(super) struct Disk {
    rng: Rng,
    /// Of its own, so that what it gives changes nothing of the accidents.
    pub(super) unique: Rng,
    files: BTreeMap<FileId, File>,
    next_id: FileId,
    names: BTreeMap<PathBuf, Entry>,
    durable_names: BTreeMap<PathBuf, Entry>,
    pending_names: Vec<NameOp>,
    pub(super) locks: BTreeSet<PathBuf>,
    pub(super) capacity: u64,
    /// Operations that changed the disk or synced it, so far.
    pub(super) operations: u64,
    /// The power fails during the operation of this number.
    pub(super) power_off_at: Option<u64>,
    pub(super) off: bool,
    faults: Faults,
    /// True if a power loss takes every unsynced operation on names.
    pub(super) loses_names: bool,
}

impl Disk {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            unique: Rng::new(!seed),
            files: BTreeMap::new(),
            next_id: 1,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending_names: Vec::new(),
            locks: BTreeSet::new(),
            capacity: u64::MAX,
            operations: 0,
            power_off_at: None,
            off: false,
            faults: Faults::default(),
            loses_names: false,
        }
    }

    // Faults and power.

    /// Lets `times` calls fail, after `after` more that do not.
    pub(super) fn inject(&mut self, point: FaultPoint, after: u64, times: u64, fault: Fault) {
        self.faults.inject(point, after, times, fault);
    }

    /// Returns whether there were any.
    pub(super) fn clear_faults(&mut self) -> bool {
        self.faults.clear()
    }

    /// Returns the number of calls of the kind there were.
    pub(super) fn calls(&self, call: Call) -> u64 {
        self.faults.count(call)
    }

    /// Returns the number of calls that failed as they were told to.
    pub(super) fn struck(&self) -> u64 {
        self.faults.struck()
    }

    /// Fails if the machine is off.
    pub(super) fn check_power(&self) -> io::Result<()> {
        if self.off { Err(io::Error::other("the simulated machine is off")) } else { Ok(()) }
    }

    /// Fails if the machine is off or a fault is due.
    pub(super) fn enter(&mut self, call: Call) -> io::Result<()> {
        self.check_power()?;
        self.faults.enter(call)
    }

    /// Counts an operation that is under way; tells whether the power fails during it.
    pub(super) fn count(&mut self) -> io::Result<()> {
        self.operations += 1;
        self.off |= self.power_off_at.is_some_and(|at| self.operations >= at);
        self.check_power()
    }

    /// The disk as the machine finds it after a power loss.
    pub(super) fn after_power_loss(&mut self) -> Self {
        self.off = true;
        let mut rng = self.rng.fork();
        self.lose_names(&mut rng);
        let mut files = BTreeMap::new();
        for entry in self.durable_names.values() {
            if let Entry::File(id) = entry
                && let Some(file) = self.files.get(id)
                && !files.contains_key(id)
            {
                let mut durable = file.durable.clone();
                survive(&mut durable, &file.pending, &mut rng);
                let data = durable.clone();
                files.insert(*id, File { data, durable, ..File::default() });
            }
        }
        Self {
            files,
            next_id: self.next_id,
            names: self.durable_names.clone(),
            durable_names: self.durable_names.clone(),
            capacity: self.capacity,
            loses_names: self.loses_names,
            ..Self::new(rng.next_u64())
        }
    }

    /// The disk as another process finds it after this one is gone.
    pub(super) fn after_kill(&mut self) -> Self {
        self.off = true;
        let mut files = self.files.clone();
        files.values_mut().for_each(|file| file.handles = 0);
        Self {
            files,
            next_id: self.next_id,
            names: self.names.clone(),
            durable_names: self.durable_names.clone(),
            pending_names: self.pending_names.clone(),
            capacity: self.capacity,
            loses_names: self.loses_names,
            ..Self::new(self.rng.next_u64())
        }
    }

    /// Makes durable what a power loss leaves of the unsynced operations on names.
    fn lose_names(&mut self, rng: &mut Rng) {
        let mut dirs: BTreeMap<PathBuf, bool> = BTreeMap::new();
        let ending = rng.below(100);
        for op in std::mem::take(&mut self.pending_names) {
            let mut survives = true;
            for dir in op.dirs {
                // Once an operation of a directory is lost, so are all later ones.
                let alive = dirs.entry(dir).or_insert(true);
                let lucky = ending >= 75 || ending >= 25 && rng.chance(80);
                *alive &= lucky && !self.loses_names;
                survives &= *alive;
            }
            if survives {
                apply_names(&mut self.durable_names, &op.changes, op.moved.as_ref());
            }
        }
        let orphans: Vec<PathBuf> = {
            let names = &self.durable_names;
            let lives = |path: &Path| is_root(path) || names.get(path) == Some(&Entry::Dir);
            let orphan = |path: &PathBuf| path.ancestors().skip(1).any(|dir| !lives(dir));
            names.keys().filter(|path| orphan(path)).cloned().collect()
        };
        for path in orphans {
            self.durable_names.remove(&path);
        }
    }

    // Names.

    pub(super) fn entry(&self, path: &Path) -> Option<Entry> {
        if is_root(path) { Some(Entry::Dir) } else { self.names.get(path).copied() }
    }

    /// The file at `path`.
    pub(super) fn lookup(&self, path: &Path) -> io::Result<FileId> {
        match self.entry(path) {
            Some(Entry::File(id)) => Ok(id),
            Some(Entry::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The directory that holds `path`; it must exist.
    pub(super) fn parent(&self, path: &Path) -> io::Result<PathBuf> {
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        match self.entry(parent) {
            Some(Entry::Dir) => Ok(parent.to_owned()),
            Some(Entry::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn new_file(&mut self) -> FileId {
        let id = self.next_id;
        self.next_id += 1;
        self.files.insert(id, File::default());
        id
    }

    /// Changes names in one step, not durably.
    pub(super) fn change_names(
        &mut self,
        dirs: Vec<PathBuf>,
        changes: Vec<(PathBuf, Option<Entry>)>,
    ) {
        apply_names(&mut self.names, &changes, None);
        self.pending_names.push(NameOp { dirs, changes, moved: None });
    }

    /// Renames a directory; one of the new name must be empty.
    pub(super) fn rename_dir(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let mut dirs = vec![self.parent(from)?, self.parent(to)?];
        dirs.dedup();
        match self.entry(to) {
            _ if from == to => return self.count(),
            Some(Entry::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
            Some(Entry::Dir) if self.names.keys().any(|path| path.parent() == Some(to)) => {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            _ if to.starts_with(from) => return Err(io::ErrorKind::InvalidInput.into()),
            _ => self.move_dir(dirs, from, to),
        }
        self.count()
    }

    /// Gives the directory `from` the name `to`, in one step, not durably. What else was done in it
    /// and is not durable has been done in the directory, whatever it is called.
    fn move_dir(&mut self, dirs: Vec<PathBuf>, from: &Path, to: &Path) {
        for op in &mut self.pending_names {
            let inside = op.dirs.iter_mut().filter(|dir| dir.starts_with(from));
            inside.for_each(|dir| *dir = moved(dir, from, to));
            let below = op.changes.iter_mut().filter(|(path, _)| path != from);
            let below = below.filter(|(path, _)| path.starts_with(from));
            below.for_each(|(path, _)| *path = moved(path, from, to));
        }
        let renamed = (from.to_owned(), to.to_owned());
        apply_names(&mut self.names, &[], Some(&renamed));
        self.pending_names.push(NameOp { dirs, changes: Vec::new(), moved: Some(renamed) });
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (&Path, Entry)> {
        self.names.iter().map(|(path, entry)| (path.as_path(), *entry))
    }

    /// Makes the names in `dir` durable.
    pub(super) fn sync_names(&mut self, dir: &Path) {
        let of_dir = |op: &mut NameOp| op.dirs.iter().any(|other| other == dir);
        for op in self.pending_names.extract_if(.., of_dir) {
            apply_names(&mut self.durable_names, &op.changes, op.moved.as_ref());
        }
        self.forget_files();
    }

    /// Drops files that nothing can reach any more.
    fn forget_files(&mut self) {
        let ids = |names: &BTreeMap<PathBuf, Entry>| -> BTreeSet<FileId> {
            names.values().filter_map(|entry| file_id(*entry)).collect()
        };
        let mut reachable = ids(&self.names);
        reachable.extend(ids(&self.durable_names));
        let pending = self.pending_names.iter().flat_map(|op| &op.changes);
        reachable.extend(pending.filter_map(|(_, entry)| entry.and_then(file_id)));
        self.files.retain(|id, file| file.handles > 0 || reachable.contains(id));
    }

    // Content.

    pub(super) fn file(&mut self, id: FileId) -> &mut File {
        self.files.entry(id).or_default()
    }

    /// Bytes that files with a name or a handle take.
    pub(super) fn used(&self) -> u64 {
        let named: BTreeSet<FileId> =
            self.names.values().filter_map(|entry| file_id(*entry)).collect();
        let live = self.files.iter().filter(|(id, file)| file.handles > 0 || named.contains(id));
        live.map(|(_, file)| file.data.len() as u64).sum()
    }

    /// Returns how long file `id` may become if it wants to be `len` long.
    fn room(&self, id: FileId, len: usize) -> usize {
        let now = self.files.get(&id).map_or(0, |file| file.data.len());
        if len <= now || self.capacity == u64::MAX {
            return len;
        }
        let free = self.capacity.saturating_sub(self.used());
        len.min(now.saturating_add(usize::try_from(free).unwrap_or(usize::MAX)))
    }

    pub(super) fn write(&mut self, id: FileId, offset: usize, data: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(data.len()).ok_or(io::ErrorKind::InvalidInput)?;
        let room = self.room(id, end).saturating_sub(offset);
        self.file(id).apply(FileOp::Write { offset, data: data[..data.len().min(room)].to_vec() });
        if room < data.len() { Err(Fault::NoSpace.error()) } else { Ok(()) }
    }

    /// A write that a fault interrupts.
    pub(super) fn write_torn(&mut self, id: FileId, offset: usize, data: &[u8]) {
        let len = self.rng.index(data.len() + 1);
        let _ = self.write(id, offset, &data[..len]);
    }

    pub(super) fn grow(&mut self, id: FileId, len: usize) -> io::Result<()> {
        if self.room(id, len) < len {
            return Err(Fault::NoSpace.error());
        }
        self.file(id).apply(FileOp::Grow(len));
        Ok(())
    }

    pub(super) fn cut(&mut self, id: FileId, len: usize) -> io::Result<()> {
        if self.room(id, len) < len {
            return Err(Fault::NoSpace.error());
        }
        self.file(id).apply(FileOp::Cut(len));
        Ok(())
    }

    pub(super) fn sync(&mut self, id: FileId) {
        let file = self.file(id);
        for op in std::mem::take(&mut file.pending) {
            apply(&mut file.durable, &op);
        }
    }

    pub(super) fn sync_failed(&mut self, id: FileId) {
        let mut rng = self.rng.fork();
        let file = self.file(id);
        let pending = std::mem::take(&mut file.pending);
        survive(&mut file.durable, &pending, &mut rng);
    }

    /// Replaces the content of a file, now and on the disk.
    pub(super) fn set_content(&mut self, id: FileId, content: Vec<u8>) {
        let file = self.file(id);
        file.pending.clear();
        file.durable.clone_from(&content);
        file.data = content;
    }
}

impl File {
    fn apply(&mut self, op: FileOp) {
        apply(&mut self.data, &op);
        self.pending.push(op);
    }
}

fn is_root(path: &Path) -> bool {
    path.as_os_str().is_empty() || path == Path::new("/") || path == Path::new(".")
}

fn file_id(entry: Entry) -> Option<FileId> {
    match entry {
        Entry::File(id) => Some(id),
        Entry::Dir => None,
    }
}

fn apply_names(
    names: &mut BTreeMap<PathBuf, Entry>,
    changes: &[(PathBuf, Option<Entry>)],
    renamed: Option<&(PathBuf, PathBuf)>,
) {
    if let Some((from, to)) = renamed
        && names.contains_key(from)
    {
        names.retain(|path, _| !path.starts_with(to));
        let all: Vec<_> = names.extract_if(.., |path, _| path.starts_with(from)).collect();
        names.extend(all.into_iter().map(|(path, entry)| (moved(&path, from, to), entry)));
    }
    for (path, entry) in changes {
        match entry {
            Some(entry) => names.insert(path.clone(), *entry),
            None => names.remove(path),
        };
    }
}

/// Returns the new name of `path`, which is `from` or below it, after a rename of `from` to `to`.
fn moved(path: &Path, from: &Path, to: &Path) -> PathBuf {
    let below = path.strip_prefix(from).expect("it is below");
    if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) }
}

fn apply(content: &mut Vec<u8>, op: &FileOp) {
    match op {
        FileOp::Write { offset, data } => write_at(content, *offset, data),
        FileOp::Cut(len) => content.resize(*len, 0),
        FileOp::Grow(len) => content.resize(content.len().max(*len), 0),
    }
}

fn write_at(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    let end = offset + data.len();
    content.resize(content.len().max(end), 0);
    content[offset..end].copy_from_slice(data);
}

/// Applies an arbitrary choice of `pending` to `durable`: what the disk got to write on its own.
fn survive(durable: &mut Vec<u8>, pending: &[FileOp], rng: &mut Rng) {
    // Nothing and everything are worth meeting often; between them any share.
    let percent = match rng.below(4) {
        0 => 0,
        1 => 100,
        _ => rng.below(101),
    };
    let mut last = None;
    for op in pending {
        match op {
            FileOp::Write { offset, data } => {
                for (start, end) in sectors(*offset, data.len()) {
                    if rng.chance(percent) {
                        let piece = &data[start - offset..end - offset];
                        let mut before: Vec<u8> =
                            durable.iter().skip(start).take(piece.len()).copied().collect();
                        before.resize(piece.len(), 0);
                        write_at(durable, start, piece);
                        last = Some((start, before));
                    }
                }
            }
            other if rng.chance(percent) => {
                apply(durable, other);
                last = None;
            }
            _ => {}
        }
    }
    if let Some((start, before)) = last
        && rng.chance(50)
    {
        tear(durable, start, &before, rng);
    }
}

/// The pieces of `[offset, offset + len)` that lie in one sector each.
fn sectors(offset: usize, len: usize) -> impl Iterator<Item = (usize, usize)> {
    let end = offset + len;
    let mut start = offset;
    std::iter::from_fn(move || {
        let from = start;
        start = ((from / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
        (from < end).then_some((from, start))
    })
}

/// Undoes a part of the last piece of a sector that was written.
fn tear(durable: &mut [u8], start: usize, before: &[u8], rng: &mut Rng) {
    let kept = rng.index(before.len());
    durable[start + kept..start + before.len()].copy_from_slice(&before[kept..]);
}
