//! The names of manifests and the file `CURRENT`, which says which of them counts.

use crate::error::{Error, Result};
use base::checksum::crc32c;
use base::env::fs::FileSystem;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) const CURRENT: &str = "CURRENT";
const CURRENT_NEW: &str = "CURRENT.new";
const PREFIX: &str = "MANIFEST-";

/// Longest `CURRENT` that is read: a name with the largest number, and the checksum.
const CURRENT_BYTES_MAX: u64 = 64;

/// Path of manifest `number`.
pub(crate) fn manifest_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{number:010}"))
}

/// The number in a manifest's name, if `name` is one.
pub(super) fn manifest_number(name: &Path) -> Option<u64> {
    let digits = name.to_str()?.strip_prefix(PREFIX)?;
    let number = digits.parse().ok().filter(|number| (1..1 << 56).contains(number))?;
    (format!("{number:010}") == digits).then_some(number)
}

/// The text of `CURRENT` that names manifest `number`.
fn encode(number: u64) -> String {
    let name = format!("{PREFIX}{number:010}");
    format!("{name} {:08x}\n", crc32c(&[name.as_bytes()]))
}

fn decode(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let number = manifest_number(Path::new(text.split(' ').next()?))?;
    (encode(number) == text).then_some(number)
}

/// The manifest that counts; `None` in a directory that is new.
pub(crate) fn read(fs: &dyn FileSystem, dir: &Path) -> Result<Option<u64>> {
    let path = dir.join(CURRENT);
    let file = match fs.open_read(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return nothing_is_missing(fs, dir).map(|()| None);
        }
        Err(error) => return Err(Error::io("open", &path, &error)),
    };
    let len = file.size().map_err(|error| Error::io("read", &path, &error))?;
    let mut text = vec![0; len.min(CURRENT_BYTES_MAX) as usize];
    file.read_exact_at(&mut text, 0).map_err(|error| Error::io("read", &path, &error))?;
    let number = decode(&text).filter(|_| len <= CURRENT_BYTES_MAX);
    let damaged = || Error::corruption(&path, 0, "it does not name a manifest and its checksum");
    number.map(Some).ok_or_else(damaged)
}

/// Refuses a directory that has data and no `CURRENT`.
fn nothing_is_missing(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    for name in list(fs, dir)? {
        let extension = name.extension().and_then(|extension| extension.to_str());
        let data = matches!(extension, Some("sst" | "log"));
        if data || manifest_number(&name).is_some_and(|number| number > 1) {
            let what = format!("it is missing, though {} exists", name.display());
            return Err(Error::corruption(&dir.join(CURRENT), 0, what));
        }
    }
    Ok(())
}

fn list(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<PathBuf>> {
    match fs.list(dir) {
        Ok(names) => Ok(names),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io("list", dir, &error)),
    }
}

/// The numbers of all manifests in `dir`.
pub(super) fn manifests(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<u64>> {
    Ok(list(fs, dir)?.iter().filter_map(|name| manifest_number(name)).collect())
}

/// Makes manifest `number` the one that counts. Its content and name are on disk. `NoSpace`: the
/// one before still counts; after any other error either may.
pub(crate) fn point_to(fs: &dyn FileSystem, dir: &Path, number: u64) -> Result<()> {
    let new = dir.join(CURRENT_NEW);
    let mut file = fs.create(&new).map_err(|error| Error::io("create", &new, &error))?;
    let text = encode(number);
    file.write_all_at(text.as_bytes(), 0).map_err(|error| Error::io("write", &new, &error))?;
    file.sync().map_err(|error| Error::unforgiven("sync", &new, &error))?;
    drop(file);
    let current = dir.join(CURRENT);
    fs.rename(&new, &current).map_err(|error| Error::unforgiven("rename", &current, &error))?;
    fs.sync_dir(dir).map_err(|error| Error::unforgiven("sync", dir, &error))
}

/// Removes what crashes and rolls left over: every manifest but `number`, and `CURRENT.new`. A
/// failure only leaves them for the next time.
pub(super) fn remove_leftovers(fs: &dyn FileSystem, dir: &Path, number: u64) {
    let Ok(names) = list(fs, dir) else { return };
    for name in names {
        let old = manifest_number(&name).is_some_and(|other| other != number);
        if old || name.as_os_str() == CURRENT_NEW {
            let _ = fs.remove_file(&dir.join(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_has_one_spelling() {
        let text = encode(42);
        assert_eq!(decode(text.as_bytes()), Some(42));
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                assert_eq!(decode(&bytes), None, "bit {bit} of byte {at}");
            }
            assert_eq!(decode(&text.as_bytes()[..at]), None, "cut at {at}");
        }
    }
}
