//! The files of a data directory as values, to be copied, damaged and put back.

use base::env::fs::FileSystem;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Files by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Name in the directory, and content.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Image {
    /// Reads every file of `dir`.
    pub fn read(fs: &dyn FileSystem, dir: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for name in fs.list(dir)? {
            let file = fs.open_read(&dir.join(&name))?;
            let mut content = vec![0; usize::try_from(file.size()?).map_err(io::Error::other)?];
            file.read_exact_at(&mut content, 0)?;
            files.insert(name, content);
        }
        Ok(Self { files })
    }

    /// Writes every file into `dir`, durably.
    pub fn write(&self, fs: &dyn FileSystem, dir: &Path) -> io::Result<()> {
        fs.create_dir_all(dir)?;
        for (name, content) in &self.files {
            let mut file = fs.create(&dir.join(name))?;
            file.write_all_at(content, 0)?;
            file.sync()?;
        }
        fs.sync_dir(dir)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> usize {
        self.files.values().map(Vec::len).sum()
    }
}
