//! The simulated disk behind the file-system traits, and the screws a test turns.

use super::disk::{Disk, Entry, FileId};
use super::faults::{Call, Fault, FaultPoint};
use crate::env::fs::{FileSystem, ReadFile, WriteFile};
use crate::sync::before_io;
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file system in memory that breaks everything the traits do not promise: see `disk.rs`.
/// Clones share one disk. Paths are taken as they are; `""`, `.` and `/` exist from the start.
#[derive(Clone)]
pub struct SimFs {
    disk: Arc<Mutex<Disk>>,
}

impl SimFs {
    /// An empty disk, whose accidents follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { disk: Arc::new(Mutex::new(Disk::new(seed))) }
    }

    fn of(disk: Disk) -> Self {
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// Returns the number of operations that changed or synced the disk: creating, renaming, removing,
    /// linking, writing, allocating, cutting, syncing a file or directory.
    pub fn operations(&self) -> u64 {
        self.disk.lock().operations
    }

    /// Lets the power fail during operation number `operation` (the first is 1): a write may
    /// then survive or not, a sync promises nothing. From then on every call fails.
    pub fn power_off_at(&self, operation: u64) {
        self.disk.lock().power_off_at = Some(operation);
    }

    /// Returns whether the power has failed, or the machine was left for another.
    pub fn is_off(&self) -> bool {
        self.disk.lock().off
    }

    /// Cuts the power, if it is not off yet; the disk as the machine finds it when it starts
    /// again. Every call on this one fails from now on. Faults are gone, the capacity is kept.
    #[must_use]
    pub fn reboot(&self) -> Self {
        Self::of(self.disk.lock().after_power_loss())
    }

    /// Ends the process but not the machine: unsynced data is still there, locks are not.
    #[must_use]
    pub fn kill(&self) -> Self {
        Self::of(self.disk.lock().after_kill())
    }

    /// Lets `times` calls at `point` fail, after `after` more that succeed. One fault a
    /// point; where several are due, a call sees one, and counts for all.
    pub fn inject(&self, point: FaultPoint, after: u64, times: u64, fault: Fault) {
        if times > 0 {
            self.disk.lock().inject(point, after, times, fault);
        }
    }

    /// Ends all faults; whether any had not come yet.
    pub fn clear_faults(&self) -> bool {
        self.disk.lock().clear_faults()
    }

    /// Returns the number of calls of the kind there were, those that failed included.
    pub fn calls(&self, call: Call) -> u64 {
        self.disk.lock().calls(call)
    }

    /// Returns the number of calls that failed as they were told to by `inject`.
    pub fn struck(&self) -> u64 {
        self.disk.lock().struck()
    }

    /// Lets every power loss take all operations on names that were not synced, not a choice of
    /// them.
    pub fn lose_unsynced_names(&self) {
        self.disk.lock().loses_names = true;
    }

    /// Sets how many bytes all files together may take; `u64::MAX`, as at first, is no limit.
    pub fn set_capacity(&self, bytes: u64) {
        self.disk.lock().capacity = bytes;
    }

    /// Bytes that all files take.
    pub fn used(&self) -> u64 {
        self.disk.lock().used()
    }

    /// All files with their lengths, by path.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let mut disk = self.disk.lock();
        let files: Vec<(PathBuf, FileId)> = disk
            .names()
            .filter_map(|(path, entry)| match entry {
                Entry::File(id) => Some((path.to_owned(), id)),
                Entry::Dir => None,
            })
            .collect();
        let len = |(path, id)| (path, disk.file(id).data.len() as u64);
        files.into_iter().map(len).collect()
    }

    /// The content of a file, past all faults.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut disk = self.disk.lock();
        let id = disk.lookup(path)?;
        Ok(disk.file(id).data.clone())
    }

    /// Damages a file: its content is now, and was on the disk, `content`.
    pub fn overwrite(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut disk = self.disk.lock();
        let id = disk.lookup(path)?;
        disk.set_content(id, content.to_vec());
        Ok(())
    }

    /// Damages a file: the bits of `mask` in the byte at `offset` are flipped.
    pub fn flip(&self, path: &Path, offset: usize, mask: u8) -> io::Result<()> {
        let mut content = self.read(path)?;
        *content.get_mut(offset).ok_or(io::ErrorKind::UnexpectedEof)? ^= mask;
        self.overwrite(path, &content)
    }

    /// The disk, when `call` of `path` has begun, which the locks that are held must allow.
    fn enter(&self, call: Call, path: &Path) -> io::Result<MutexGuard<'_, Disk>> {
        before_io(call.io(), || format!("{call:?} of {}", path.display()));
        let mut disk = self.disk.lock();
        disk.enter(call)?;
        Ok(disk)
    }

    fn handle(&self, id: FileId) -> Handle {
        Handle { disk: Arc::clone(&self.disk), id }
    }
}

impl FileSystem for SimFs {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let mut disk = self.enter(Call::OpenRead, path)?;
        let id = disk.lookup(path)?;
        disk.file(id).handles += 1;
        Ok(Arc::new(self.handle(id)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let mut disk = self.enter(Call::Create, path)?;
        let dir = disk.parent(path)?;
        let id = match disk.entry(path) {
            Some(Entry::Dir) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Entry::File(id)) => {
                disk.cut(id, 0)?;
                id
            }
            None => {
                let id = disk.new_file();
                disk.change_names(vec![dir], vec![(path.to_owned(), Some(Entry::File(id)))]);
                id
            }
        };
        disk.count()?;
        disk.file(id).handles += 1;
        Ok(Box::new(self.handle(id)))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let mut disk = self.enter(Call::OpenWrite, path)?;
        let id = disk.lookup(path)?;
        disk.file(id).handles += 1;
        Ok(Box::new(self.handle(id)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.enter(Call::Rename, from)?;
        if disk.entry(from) == Some(Entry::Dir) {
            return disk.rename_dir(from, to);
        }
        let id = disk.lookup(from)?;
        let mut dirs = vec![disk.parent(from)?, disk.parent(to)?];
        dirs.dedup();
        if let Some(Entry::Dir) = disk.entry(to) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if from != to {
            let to = (to.to_owned(), Some(Entry::File(id)));
            disk.change_names(dirs, vec![(from.to_owned(), None), to]);
        }
        disk.count()
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.enter(Call::Remove, path)?;
        disk.lookup(path)?;
        let dir = disk.parent(path)?;
        disk.change_names(vec![dir], vec![(path.to_owned(), None)]);
        disk.count()
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.enter(Call::Link, from)?;
        let id = disk.lookup(from)?;
        let dir = disk.parent(to)?;
        if disk.entry(to).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        disk.change_names(vec![dir], vec![(to.to_owned(), Some(Entry::File(id)))]);
        disk.count()
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.enter(Call::CreateDir, path)?;
        let mut missing: Vec<&Path> = Vec::new();
        for dir in path.ancestors() {
            match disk.entry(dir) {
                Some(Entry::Dir) => break,
                Some(Entry::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                None => missing.push(dir),
            }
        }
        for dir in missing.into_iter().rev() {
            let parent = disk.parent(dir)?;
            disk.change_names(vec![parent], vec![(dir.to_owned(), Some(Entry::Dir))]);
            disk.count()?;
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let disk = self.enter(Call::List, dir)?;
        match disk.entry(dir) {
            Some(Entry::Dir) => {}
            Some(Entry::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
            None => return Err(io::ErrorKind::NotFound.into()),
        }
        let inside = disk.names().filter(|(path, _)| path.parent() == Some(dir));
        Ok(inside.filter_map(|(path, _)| path.file_name().map(PathBuf::from)).collect())
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        let mut disk = self.enter(Call::Look, path)?;
        let id = disk.lookup(path)?;
        Ok(disk.file(id).data.len() as u64)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let disk = self.enter(Call::Look, path)?;
        Ok(disk.entry(path).is_some())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut disk = self.enter(Call::SyncDir, dir)?;
        match disk.entry(dir) {
            Some(Entry::Dir) => {}
            Some(Entry::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
            None => return Err(io::ErrorKind::NotFound.into()),
        }
        disk.count()?;
        disk.sync_names(dir);
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        if !self.exists(path)? {
            self.create(path)?;
        }
        let mut disk = self.enter(Call::Lock, path)?;
        if !disk.locks.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(LockGuard { disk: Arc::clone(&self.disk), path: path.to_owned() }))
    }

    fn unique(&self) -> io::Result<u128> {
        let mut disk = self.disk.lock();
        Ok(u128::from(disk.unique.next_u64()) << 64 | u128::from(disk.unique.next_u64()))
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        let disk = self.disk.lock();
        disk.check_power()?;
        Ok(disk.capacity.saturating_sub(disk.used()))
    }
}

struct LockGuard {
    disk: Arc<Mutex<Disk>>,
    path: PathBuf,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.disk.lock().locks.remove(&self.path);
    }
}

/// An open file.
struct Handle {
    disk: Arc<Mutex<Disk>>,
    id: FileId,
}

impl Handle {
    /// The disk, for `call`, which the locks that are held must allow.
    fn checked(&self, call: Call) -> MutexGuard<'_, Disk> {
        before_io(call.io(), || {
            let disk = self.disk.lock();
            let mut names = disk.names();
            let name = names.find(|(_, entry)| *entry == Entry::File(self.id));
            let name = name
                .map_or_else(|| "a file without a name".into(), |(path, _)| path.to_string_lossy());
            format!("{call:?} of {name}")
        });
        self.disk.lock()
    }

    /// The same, when `call` has begun.
    fn enter(&self, call: Call) -> io::Result<MutexGuard<'_, Disk>> {
        let mut disk = self.checked(call);
        disk.enter(call)?;
        Ok(disk)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.disk.lock().file(self.id).handles -= 1;
    }
}

fn to_usize(at: u64) -> io::Result<usize> {
    usize::try_from(at).map_err(|_| io::ErrorKind::InvalidInput.into())
}

impl ReadFile for Handle {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut disk = self.enter(Call::ReadAt)?;
        if buf.is_empty() {
            return Ok(());
        }
        let start = to_usize(offset)?;
        let end = start.checked_add(buf.len()).ok_or(io::ErrorKind::InvalidInput)?;
        let data = disk.file(self.id).data.get(start..end);
        buf.copy_from_slice(data.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        let mut disk = self.enter(Call::Look)?;
        Ok(disk.file(self.id).data.len() as u64)
    }
}

impl WriteFile for Handle {
    fn write_all_at(&mut self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut disk = self.checked(Call::WriteAt);
        let offset = to_usize(offset)?;
        if let Err(error) = disk.enter(Call::WriteAt) {
            if !disk.off {
                disk.write_torn(self.id, offset, data);
            }
            return Err(error);
        }
        let written = disk.write(self.id, offset, data);
        disk.count()?;
        written
    }

    fn allocate(&mut self, len: u64) -> io::Result<()> {
        let mut disk = self.enter(Call::Allocate)?;
        let grown = disk.grow(self.id, to_usize(len)?);
        disk.count()?;
        grown
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let mut disk = self.enter(Call::SetLen)?;
        let cut = disk.cut(self.id, to_usize(len)?);
        disk.count()?;
        cut
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut disk = self.checked(Call::SyncFile);
        if let Err(error) = disk.enter(Call::SyncFile) {
            if !disk.off {
                disk.sync_failed(self.id);
            }
            return Err(error);
        }
        disk.count()?;
        disk.sync(self.id);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        ReadFile::size(self)
    }
}
