//! A file system on which a call waits, once that was asked for.

use base::env::fs::{ReadFile, WriteFile};
use base::env::{FileSystem, RealFileSystem};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The kind of call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// The creation of an SSTable.
    CreateSst,
    /// A sync of a segment of the log.
    SyncLog,
}

/// Tells that a call waits, and lets it go.
struct Gate {
    at: At,
    came: Sender<()>,
    hold: Receiver<()>,
}

/// See the file header. Clones are one.
#[derive(Default, Clone)]
pub(crate) struct Blocking {
    gate: Arc<Mutex<Option<Gate>>>,
}

impl Blocking {
    /// Blocks the next call of that kind. Gives what tells that it waits, and what lets it go.
    pub(crate) fn block(&self, at: At) -> (Receiver<()>, Sender<()>) {
        let ((came, wait), (go, hold)) = (channel(), channel());
        *self.gate.lock() = Some(Gate { at, came, hold });
        (wait, go)
    }

    fn pass(&self, at: At) {
        let gate = self.gate.lock().take_if(|gate| gate.at == at);
        if let Some(Gate { came, hold, .. }) = gate {
            came.send(()).unwrap();
            // An error: the test is over.
            let _ = hold.recv();
        }
    }

    fn watched(&self, path: &Path, file: Box<dyn WriteFile>) -> Box<dyn WriteFile> {
        match is(path, "log") {
            true => Box::new(Log { file, fs: self.clone() }),
            false => file,
        }
    }
}

fn is(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|extension| extension == kind)
}

/// A segment of the log.
struct Log {
    file: Box<dyn WriteFile>,
    fs: Blocking,
}

impl WriteFile for Log {
    fn write_all_at(&mut self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn allocate(&mut self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.fs.pass(At::SyncLog);
        self.file.sync()
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}

impl FileSystem for Blocking {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        RealFileSystem.open_read(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        if is(path, "sst") {
            self.pass(At::CreateSst);
        }
        Ok(self.watched(path, RealFileSystem.create(path)?))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(self.watched(path, RealFileSystem.open_write(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFileSystem.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealFileSystem.remove_file(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFileSystem.hard_link(from, to)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        RealFileSystem.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        RealFileSystem.list(dir)
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        RealFileSystem.size(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        RealFileSystem.exists(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealFileSystem.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        RealFileSystem.lock(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        RealFileSystem.free_bytes(path)
    }
}
