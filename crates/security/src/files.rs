//! Small files: read with a bound, written for their owner alone, and looked at for changes.

use crate::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads a file of at most 1 MiB.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    let file = File::open(path).map_err(|error| Error::io(path, error))?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content);
    read.map_err(|error| Error::io(path, error))?;
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(Error::invalid(path, format_args!("is larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(content)
}

/// Readers of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// The owner of the file alone.
    Owner,
    /// Every user that the umask allows.
    All,
}

/// Creates a file, which must not exist.
pub(crate) fn create(path: &Path, content: &[u8], readers: Readers) -> Result<()> {
    let mode = if readers == Readers::Owner { 0o600 } else { 0o644 };
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = file.map_err(|error| Error::io(path, error))?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    written.map_err(|error| Error::io(path, error))
}

/// State of a file that changes when its content does. A file that is missing has one too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(Option<[i64; 5]>);

impl Stamp {
    /// Returns the stamp of the file at `path`, whose links are followed.
    pub fn of(path: &Path) -> Self {
        let stamp = std::fs::metadata(path).map(|file| {
            let number = |value: u64| i64::from_ne_bytes(value.to_ne_bytes());
            [
                file.mtime(),
                file.mtime_nsec(),
                number(file.size()),
                number(file.ino()),
                number(file.dev()),
            ]
        });
        Self(stamp.ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for (bytes, fits) in [(0, true), (1 << 20, true), ((1 << 20) + 1, false)] {
            std::fs::write(&path, vec![b'x'; bytes]).unwrap();
            assert_eq!(read(&path).map(|content| content.len()).ok(), fits.then_some(bytes));
        }
        let missing = read(&dir.path().join("missing")).unwrap_err().to_string();
        assert!(missing.contains("missing: No such file"), "{missing}");
    }

    #[test]
    fn a_stamp_follows_links_and_notices_every_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::os::unix::fs::symlink("first", path("link")).unwrap();
        let missing = Stamp::of(&path("link"));
        std::fs::write(path("first"), "1").unwrap();
        std::fs::write(path("second"), "1").unwrap();
        let first = Stamp::of(&path("link"));
        assert_ne!(missing, first);
        assert_eq!(first, Stamp::of(&path("link")));
        std::fs::remove_file(path("link")).unwrap();
        std::os::unix::fs::symlink("second", path("link")).unwrap();
        assert_ne!(first, Stamp::of(&path("link")));
    }

    #[test]
    fn a_new_file_replaces_nothing_and_a_secret_one_is_for_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        create(&path, b"1", Readers::Owner).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(create(&path, b"2", Readers::Owner).is_err());
        assert_eq!(read(&path).unwrap(), b"1");
    }
}
