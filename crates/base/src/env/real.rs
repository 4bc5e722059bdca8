//! The machine's own file system.

use super::direct::DirectFile;
use super::direct_write::DirectWriter;
use super::fs::{Descriptor, FileSystem, ReadFile, WriteFile};
use super::read_queue::{PreadQueue, ReadQueue};
use super::uring::UringQueue;
use rustix::io::{ReadWriteFlags, retry_on_intr};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files and directories of the operating system.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealFileSystem;

impl FileSystem for RealFileSystem {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(RealReadFile(File::open(path)?)))
    }

    fn open_read_direct(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        match DirectFile::open(path)? {
            Some(file) => Ok(Arc::new(file)),
            None => self.open_read(path),
        }
    }

    /// Through io_uring; one read after the other where the kernel is too old for it or does not
    /// let this process use it, as in many containers.
    fn read_queue(&self, depth: usize) -> Box<dyn ReadQueue> {
        queue_or_fallback(depth, UringQueue::new)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        Ok(Box::new(RealWriteFile(file)))
    }

    fn create_direct(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        match DirectWriter::create(path)? {
            Some(file) => Ok(Box::new(file)),
            None => self.create(path),
        }
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(RealWriteFile(OpenOptions::new().write(true).open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let names = std::fs::read_dir(dir)?.map(|entry| entry.map(|e| e.file_name().into()));
        let mut names = names.collect::<io::Result<Vec<PathBuf>>>()?;
        names.sort();
        Ok(names)
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        Ok(std::fs::metadata(path)?.len())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // The parent of a relative name without slashes is the empty path.
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        File::open(dir)?.sync_all()
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(lock_named(path, &mut || ())?))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = retry_on_intr(|| rustix::fs::statvfs(path))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn open_files_max(&self) -> Option<u64> {
        getrlimit(Resource::Nofile).current
    }
}

/// Files that are locked one after the other before the name is given up: each costs some calls, and a
/// holder that removes its file comes between once.
const LOCK_ROUNDS_MAX: u32 = 64;

/// Takes the lock of the file that has the name `path`, and calls `opened` each time that one was
/// opened for it. The last holder may remove the file between that and the lock: then the lock is of
/// a file that nobody else can find, and another one is opened. Fails if that goes on: some file systems
/// number a file anew each time it is asked, and there nobody can know what was locked.
fn lock_named(path: &Path, opened: &mut dyn FnMut()) -> io::Result<File> {
    for _ in 0..LOCK_ROUNDS_MAX {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        opened();
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
        let locked = file.metadata()?;
        match std::fs::metadata(path) {
            Ok(named) if (named.dev(), named.ino()) == (locked.dev(), locked.ino()) => {
                return Ok(file);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let name = path.display();
    Err(io::Error::other(format!(
        "{name} was another file after each of {LOCK_ROUNDS_MAX} times that it was locked; either it is \
         replaced all the time, or its file system does not number files in a way that lasts"
    )))
}

/// Lets this process have as many files open as it may allow itself (`RLIMIT_NOFILE`); gives how
/// many that are, `None` for any number. Where that is refused it stays as it was.
pub fn raise_open_files_max() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current
}

/// The queue that `set_up` makes, or one that needs nothing of the kernel.
fn queue_or_fallback(
    depth: usize,
    set_up: impl FnOnce(usize) -> io::Result<UringQueue>,
) -> Box<dyn ReadQueue> {
    match set_up(depth) {
        Ok(queue) => Box::new(queue),
        Err(_) => Box::new(PreadQueue::new(depth)),
    }
}

struct RealReadFile(File);

impl ReadFile for RealReadFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn read_exact_at_once(&self, buf: &mut [u8], offset: u64) -> io::Result<bool> {
        let len = buf.len();
        let mut target = [io::IoSliceMut::new(buf)];
        // Less than all of it means that the rest is on disk, or that there is none: both are for
        // who can wait. So are systems and file systems that do not know the flag.
        let read = rustix::io::preadv2(&self.0, &mut target, offset, ReadWriteFlags::NOWAIT);
        Ok(read.is_ok_and(|read| read == len))
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn descriptor(&self) -> Option<Descriptor<'_>> {
        Some(Descriptor { fd: self.0.as_fd(), align: 1 })
    }
}

struct RealWriteFile(File);

impl WriteFile for RealWriteFile {
    fn write_all_at(&mut self, data: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    fn allocate(&mut self, len: u64) -> io::Result<()> {
        let flags = rustix::fs::FallocateFlags::empty();
        // A signal ends it early on some file systems, and the kernel does not restart it.
        match retry_on_intr(|| rustix::fs::fallocate(&self.0, flags, 0, len)) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                let len = len.max(self.size()?);
                self.0.set_len(len)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_queue::QueueKind;
    use super::*;

    /// The last holder may remove the file after somebody else opened it.
    #[test]
    fn a_lock_is_of_the_file_that_has_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let mut opened = 0;
        let held = lock_named(&path, &mut || {
            opened += 1;
            if opened == 1 {
                std::fs::remove_file(&path).unwrap();
            }
        });
        let refused = RealFileSystem.lock(&path).map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock, "two have the lock");
        assert_eq!(opened, 2);
        drop(held);
        drop(RealFileSystem.lock(&path).unwrap());
    }

    /// As on a file system that numbers a file anew each time it is asked.
    #[test]
    fn a_name_that_never_has_the_locked_file_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let mut opened = 0;
        let refused = lock_named(&path, &mut || {
            opened += 1;
            assert!(opened < 1_000, "it goes on for good");
            // The old file lives until it is replaced, so that the new one has another number.
            let new = dir.path().join("NEW");
            std::fs::write(&new, "").unwrap();
            std::fs::rename(&new, &path).unwrap();
        });
        let refused = refused.unwrap_err();
        assert!(refused.to_string().contains("LOCK"), "{refused}");
        assert_eq!(opened, LOCK_ROUNDS_MAX);
    }

    /// The file may or may not be in the page cache; the test holds in both cases.
    #[test]
    fn what_is_read_at_once_is_what_the_file_has() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"0123456789").unwrap();
        let file = RealFileSystem.open_read(&path).unwrap();
        let mut buf = [0; 4];
        if file.read_exact_at_once(&mut buf, 3).unwrap() {
            assert_eq!(&buf, b"3456");
        }
        assert!(!file.read_exact_at_once(&mut buf, 7).unwrap(), "it goes past the end");
    }

    #[test]
    fn a_refused_io_uring_falls_back_to_pread() {
        // ENOSYS: no such call; EPERM: forbidden; ENOMEM: over a limit.
        for errno in [38, 1, 12] {
            let refuse = |_| Err(io::Error::from_raw_os_error(errno));
            let queue = queue_or_fallback(7, refuse);
            assert_eq!((queue.kind(), queue.depth()), (QueueKind::Pread, 7));
        }
    }
}
