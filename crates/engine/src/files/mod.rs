//! Numbers and names of the engine's SSTable files, and which of them are open.
//!
//! In: file numbers and paths. Out: names, identities, and descriptors within the limit of the
//! process (`open_files`), what is kept of a finished SSTable (`sst_meta`), and notes of the files of
//! copied trees (`copy_note`). Reads no SSTable.

pub(crate) mod copy_note;
pub(crate) mod open_files;
pub(crate) mod sst_meta;

use crate::error::{Error, Result};
use base::env::FileSystem;
use std::fmt;
use std::path::{Path, PathBuf};

/// Bytes copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// Copies the file at `from`. Its content is on disk when this returns, its name is not.
pub(crate) fn copy_file(fs: &dyn FileSystem, from: &Path, to: &Path) -> Result<()> {
    let len = fs.size(from).map_err(|error| Error::io("read", from, &error))?;
    copy_start(fs, from, to, len)
}

/// As `copy_file`, of the first `len` bytes.
pub(crate) fn copy_start(fs: &dyn FileSystem, from: &Path, to: &Path, len: u64) -> Result<()> {
    let file = fs.open_read(from).map_err(|error| Error::io("open", from, &error))?;
    let mut copy = fs.create(to).map_err(|error| Error::io("create", to, &error))?;
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < len {
        buffer.resize(COPY_BYTES.min(len - at) as usize, 0);
        file.read_exact_at(&mut buffer, at).map_err(|error| Error::io("read", from, &error))?;
        copy.write_all_at(&buffer, at).map_err(|error| Error::io("write", to, &error))?;
        at += buffer.len() as u64;
    }
    copy.sync().map_err(|error| Error::io("sync", to, &error))
}

/// Number of a file in the data directory; never reused while the engine is open, so that it can
/// key caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(pub u64);

impl FileNumber {
    /// Larger than any that is given; far more than will ever be used, and the next one never
    /// overflows.
    pub(crate) const END: u64 = 1 << 56;

    /// The SSTable of this number in `dir`: `NNNNNNNNNN.sst`.
    pub fn sst_path(self, dir: &Path) -> PathBuf {
        dir.join(format!("{:010}.sst", self.0))
    }

    /// The sort run of this number in `dir`: `NNNNNNNNNN.sort`.
    pub(crate) fn sort_path(self, dir: &Path) -> PathBuf {
        dir.join(format!("{:010}.sort", self.0))
    }

    /// Returns whether `name` is that of a sort run.
    pub(crate) fn is_sort(name: &Path) -> bool {
        let digits = name.to_str().and_then(|name| name.strip_suffix(".sort"));
        digits.is_some_and(|digits| {
            let number = digits.parse().ok().filter(|number| *number < Self::END).map(Self);
            number.is_some_and(|number| number.sort_path(Path::new("")) == name)
        })
    }

    /// The number of an SSTable by its file name; `None` if it is no such name.
    pub fn of_sst(name: &Path) -> Option<Self> {
        let digits = name.to_str()?.strip_suffix(".sst")?;
        let decimal = digits.len() >= 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse().ok().filter(|number| decimal && *number < Self::END)?;
        let number = Self(number);
        (number.sst_path(Path::new("")) == name).then_some(number)
    }
}

/// What an SSTable is known by wherever it is copied to: drawn when it is written, kept in it. Two
/// files of the same identity have the same bytes, whatever stores they are part of and whatever
/// their numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity(pub u128);

impl FileIdentity {
    /// The identity of a file that is about to be written at `path`.
    pub(crate) fn draw(fs: &dyn FileSystem, path: &Path) -> Result<Self> {
        fs.unique().map(Self).map_err(|error| Error::io("draw an identity for", path, &error))
    }
}

impl fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_given_here_are_names_of_ssts() {
        for number in [1, 4_711, 9_999_999_999, 10_000_000_000, FileNumber::END - 1] {
            let path = FileNumber(number).sst_path(Path::new(""));
            assert_eq!(FileNumber::of_sst(&path), Some(FileNumber(number)));
        }
        for name in [
            "1.sst",
            "0000000001.log",
            "+000000001.sst",
            "00000000001.sst",
            "x.sst",
            "18446744073709551615.sst",
            "72057594037927936.sst",
        ] {
            assert_eq!(FileNumber::of_sst(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn only_names_given_here_are_names_of_sort_runs() {
        for number in [1, 9_999_999_999, FileNumber::END - 1] {
            assert!(FileNumber::is_sort(&FileNumber(number).sort_path(Path::new(""))));
        }
        for name in ["1.sort", "0000000001.sst", "+000000001.sort", "00000000001.sort", "x.sort"] {
            assert!(!FileNumber::is_sort(Path::new(name)), "{name}");
        }
    }
}
