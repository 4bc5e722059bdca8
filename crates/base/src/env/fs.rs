//! Files and directories as the engine sees them.
//!
//! The traits promise no more than a POSIX file system does: written bytes reach the disk when a
//! sync of their file returns, and a created, renamed or removed name is durable when a sync of
//! its directory returns. The simulated file system (`sim`) breaks everything this text does not
//! promise.

use super::read_queue::{PreadQueue, ReadQueue};
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A tree of directories and files.
pub trait FileSystem: Send + Sync + 'static {
    /// Opens an existing file for positional reads.
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>>;

    /// As `open_read`, past the page cache: for what the caller caches itself. Where the file
    /// system cannot, the file is opened as by `open_read`; [`ReadFile::is_direct`] tells.
    fn open_read_direct(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.open_read(path)
    }

    /// A queue that has up to `depth` reads in flight, 1..=4096; a depth outside is brought
    /// inside. It reads any file, those of other file systems too.
    fn read_queue(&self, depth: usize) -> Box<dyn ReadQueue> {
        Box::new(PreadQueue::new(depth))
    }

    /// Creates a file for writing; an existing file of that name is emptied.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// As `create`, past the page cache where the file system can: for files that are written once
    /// and not read at once. It is written in order, from its beginning; until `sync`, others need
    /// not see what was written. Its space cannot be reserved, its length not set.
    fn create_direct(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.create(path)
    }

    /// Opens an existing file for positional writes, its content kept.
    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// Renames `from` to `to`, replacing `to` in one step. Durable after `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Durable after `sync_dir`.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory. Durable after `sync_dir`. Not every file system here can.
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives a file a second name. Durable after `sync_dir`.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Creates a directory and its missing parents. Durable after `sync_dir` of each parent.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted; directories included.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;

    /// Length of a file in bytes.
    fn size(&self, path: &Path) -> io::Result<u64>;

    /// Returns whether a file or directory of that name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the exclusive lock file at `path`, creating it if needed. Fails with
    /// `io::ErrorKind::WouldBlock` while another process (or another holder in this one) has it.
    /// The lock ends when the returned value is dropped, and with the process. It is of the file that
    /// has the name when this returns: its holder may remove the file as the last thing it does.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;

    /// A number that no other call gives, on this machine or another: for what a file is known by
    /// wherever it is copied to. Drawn from the system's randomness; no secret.
    fn unique(&self) -> io::Result<u128> {
        let mut bytes = [0; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            let flags = rustix::rand::GetRandomFlags::empty();
            filled += rustix::rand::getrandom(&mut bytes[filled..], flags)?;
        }
        Ok(u128::from_le_bytes(bytes))
    }

    /// Bytes the file system of `path` can still take.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Returns the number of files this process may have open; `None` where nothing is said.
    fn open_files_max(&self) -> Option<u64> {
        None
    }
}

/// Returns whether a call failed since the process, or the system, has as many files open as it may.
pub fn is_out_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// A file open for reading. Reads are positional and may come from many threads at once.
pub trait ReadFile: Send + Sync + 'static {
    /// Fills `buf` from `offset`. A file that ends earlier gives `io::ErrorKind::UnexpectedEof`.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// The same if it need not wait for the disk, as where the page cache has the bytes; `false` if
    /// it would have to, or if that cannot be told. `buf` then holds anything.
    fn read_exact_at_once(&self, buf: &mut [u8], offset: u64) -> io::Result<bool> {
        let _ = (buf, offset);
        Ok(false)
    }

    /// Length in bytes when the call is made.
    fn size(&self) -> io::Result<u64>;

    /// Returns whether reads go past the page cache.
    fn is_direct(&self) -> bool {
        false
    }

    /// The file that is to be read in place of this one, which is opened when it is read; it stays
    /// open for as long as the result is held. `None`: this one.
    fn opened(&self) -> io::Result<Option<Arc<dyn ReadFile>>> {
        Ok(None)
    }

    /// What the kernel knows the file by; `None` if it is not one of the operating system, or
    /// must be read by `read_exact_at` for another reason. It is the same file on every call.
    fn descriptor(&self) -> Option<Descriptor<'_>> {
        None
    }
}

/// A file of the operating system, for those who read it by its descriptor.
#[derive(Debug, Clone, Copy)]
pub struct Descriptor<'a> {
    /// The open file.
    pub fd: BorrowedFd<'a>,
    /// What offset, length and memory of a read must be multiples of: a power of two up to
    /// 64 KiB, 1 where nothing is asked.
    pub align: usize,
}

/// A file open for writing by one owner.
pub trait WriteFile: Send + Sync + 'static {
    /// Writes all of `data` at `offset`, extending the file as needed. After an error any prefix
    /// of it may have been written.
    fn write_all_at(&mut self, data: &[u8], offset: u64) -> io::Result<()>;

    /// Reserves disk space so that the file is at least `len` bytes long; new bytes read as zero.
    fn allocate(&mut self, len: u64) -> io::Result<()>;

    /// Cuts or extends the file to `len` bytes.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Makes the written bytes (and the length needed to read them) durable. After an error
    /// nothing is known of any byte written since the last successful sync, and a second sync
    /// that succeeds proves nothing.
    fn sync(&mut self) -> io::Result<()>;

    /// Length in bytes.
    fn size(&self) -> io::Result<u64>;
}
