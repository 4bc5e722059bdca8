//! A small JSON file that tells how far a long command is, so that the same command can resume.
//!
//! 1. The file is replaced in one step, and is on disk before the call returns.
//! 2. One process at a time has the file: a lock beside it is held until the value is dropped.

use base::env::{FileSystem, RealFileSystem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{ErrorKind, Read, Result, Write};
use std::path::{Path, PathBuf};

/// Longest file that is read.
const BYTES_MAX: u64 = 256 << 20;

/// The file, held by this process.
pub(crate) struct StateFile {
    path: PathBuf,
    lock: PathBuf,
    _held: Box<dyn Send + Sync>,
}

impl StateFile {
    /// Takes the file at `path`, which need not exist; `WouldBlock` while another process has it.
    pub(crate) fn hold(path: PathBuf) -> Result<Self> {
        let lock = beside(&path, ".lock");
        let held = RealFileSystem.lock(&lock)?;
        Ok(Self { path, lock, _held: held })
    }

    /// Returns the path of the file.
    /// Returns all files that a state file at `path` writes.
    pub(crate) fn paths(path: &Path) -> [PathBuf; 3] {
        [path.to_owned(), beside(path, ".lock"), beside(path, ".new")]
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file; `None` if it does not exist, `InvalidData` if it holds something else.
    pub(crate) fn load<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        read(&self.path)
    }

    /// Replaces the content of the file.
    pub(crate) fn save<T: Serialize>(&self, state: &T) -> Result<()> {
        let fresh = beside(&self.path, ".new");
        let mut file = File::create(&fresh)?;
        file.write_all(&serde_json::to_vec(state)?)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.path)?;
        sync_dir_of(&self.path)
    }

    /// Removes the file, if there is one.
    pub(crate) fn remove(&self) -> Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for StateFile {
    fn drop(&mut self) {
        // While it is locked: no other process has this file. A lock file that stays does no harm.
        let _ = std::fs::remove_file(&self.lock);
    }
}

/// Reads the file at `path` without holding it; `None` if it does not exist.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// Makes the name of the file at `path` durable.
pub(crate) fn sync_dir_of(path: &Path) -> Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(end);
    name.into()
}
