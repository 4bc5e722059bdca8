//! Names and numbers of the segments of a log.

use super::record::{Format, LOG, LOG_FIRST};
use crate::error::{Error, Result};
use base::env::fs::FileSystem;
use std::io;
use std::path::{Path, PathBuf};

/// Number of a segment; from 1 upwards, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SegmentNumber(pub u64);

impl SegmentNumber {
    /// Larger than any that is given; far more than will ever be used, and the next one never
    /// overflows.
    pub(crate) const END: u64 = 1 << 56;

    /// The segment after this one.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Path of the segment in the directory `dir` of the commit log.
    pub fn path(self, dir: &Path) -> PathBuf {
        COMMIT_LOG.path(dir, self)
    }
}

/// A kind of log: the format of its segments, and the endings of its file names.
#[derive(Debug)]
pub(crate) struct LogKind {
    pub(crate) format: &'static Format,
    /// Version of its segments until something newer is needed.
    pub(crate) first_version: u32,
    /// Ending of a segment's name.
    pub(crate) segment: &'static str,
    /// Ending of the name of a spare, which waits to become a segment again.
    pub(crate) spare: &'static str,
}

/// The commit log of an engine.
pub(crate) const COMMIT_LOG: LogKind =
    LogKind { format: &LOG, first_version: LOG_FIRST, segment: "log", spare: "spare" };

/// Numbers a segment may have.
const NUMBERS: std::ops::Range<u64> = 1..SegmentNumber::END;

impl LogKind {
    /// Path of segment `number` in the log directory `dir`.
    pub(crate) fn path(&self, dir: &Path, number: SegmentNumber) -> PathBuf {
        numbered(dir, number, self.segment)
    }

    /// Path of segment `number` once it is a spare.
    pub(crate) fn spare_path(&self, dir: &Path, number: SegmentNumber) -> PathBuf {
        numbered(dir, number, self.spare)
    }
}

/// Path of the file of segment `number` whose name has this ending.
pub(crate) fn numbered(dir: &Path, number: SegmentNumber, ending: &str) -> PathBuf {
    dir.join(format!("{:010}.{ending}", number.0))
}

/// Lists the numbers of the files in `dir`, ascending, for each of the `endings` that a name may
/// have. Other names are left alone. A directory that does not exist is empty.
pub(crate) fn list<const N: usize>(
    fs: &dyn FileSystem,
    dir: &Path,
    endings: [&str; N],
) -> Result<[Vec<SegmentNumber>; N]> {
    let names = match fs.list(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Error::io("list", dir, &error)),
    };
    Ok(endings.map(|ending| {
        let mut numbers: Vec<_> = names.iter().filter_map(|name| number_of(name, ending)).collect();
        numbers.sort();
        numbers
    }))
}

fn number_of(name: &Path, ending: &str) -> Option<SegmentNumber> {
    let (digits, suffix) = name.to_str()?.rsplit_once('.')?;
    let number = digits.parse().ok().filter(|number| NUMBERS.contains(number))?;
    let is_named = suffix == ending && format!("{number:010}") == digits;
    is_named.then_some(SegmentNumber(number))
}
