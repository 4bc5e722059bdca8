//! A file system whose read queues do without io_uring, as where the kernel refuses it.

use super::fs::{FileSystem, ReadFile, WriteFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of another file system; its queues read one after the other. For tests, and to find
/// out what io_uring is worth.
pub struct OneByOne(pub Arc<dyn FileSystem>);

impl FileSystem for OneByOne {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.0.open_read(path)
    }

    fn open_read_direct(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.0.open_read_direct(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.0.create(path)
    }

    fn create_direct(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.0.create_direct(path)
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.0.open_write(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.hard_link(from, to)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.0.list(dir)
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        self.0.size(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.0.remove_dir(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.0.lock(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.free_bytes(path)
    }

    fn open_files_max(&self) -> Option<u64> {
        self.0.open_files_max()
    }
}
