//! The directory of an export: what is in it, and where the export begins.
//!
//! 1. Nothing is removed from a directory that holds anything but an export.
//! 2. An old export that `--restart` discards stays whole until the new one is recorded: `export.json` is
//!    replaced in one step. Parts of the old one go after it.
//! 3. Every file named like a part that the list does not have is removed when an export begins. So it
//!    does not matter where the last one was interrupted.

use super::manifest::{self, Malformed, Manifest};
use super::part_list::{self, PartList, part_number};
use crate::state_file::StateFile;
use anyhow::{Context, Result, bail};
use std::io::ErrorKind;
use std::path::Path;

/// Content of a directory in which an export is about to begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// An unfinished export of the same job.
    Unfinished(Manifest),
    /// An export, whole or not, that is to be discarded.
    Old,
}

/// Takes the directory of an export for this process.
pub(super) fn hold(dir: &Path) -> Result<StateFile> {
    match StateFile::hold(dir.join(manifest::FILE)) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            bail!(
                "another export writes to {}; wait for it, or use another directory",
                dir.display()
            )
        }
        held => held.with_context(|| format!("could not lock {}", dir.display())),
    }
}

/// Returns what `dir` holds for the export `job`, and changes nothing. A directory that holds something
/// else is refused.
pub(super) fn look(dir: &Path, job: &str, restart: bool) -> Result<Found> {
    let name = dir.display();
    let found = match Manifest::read(dir) {
        Err(error) if error.is::<Malformed>() => {
            if !restart {
                bail!("{error}; pass --restart to discard it, or use another directory");
            }
            refuse_strangers(dir, |name| is_bookkeeping(name) || part_number(name).is_some())?;
            return Ok(Found::Old);
        }
        found => found?,
    };
    match found {
        None => {
            // A list without `export.json`, or a file that replaces it, is of an export that never began.
            refuse_strangers(dir, is_bookkeeping)?;
            Ok(Found::Nothing)
        }
        Some(_) if restart => Ok(Found::Old),
        Some(found) if found.job != job => bail!(
            "{name} belongs to another export ({}; this is {job}); finish that export, pass \
             --restart to discard it, or use another directory",
            found.job
        ),
        Some(found) if found.complete => bail!(
            "{name} holds a complete export; pass --restart to replace it, or use another directory"
        ),
        Some(found) => Ok(Found::Unfinished(found)),
    }
}

fn is_bookkeeping(name: &str) -> bool {
    let is_manifest = name.strip_prefix(manifest::FILE);
    name == part_list::FILE || is_manifest.is_some_and(|end| ["", ".new", ".lock"].contains(&end))
}

/// Refuses a directory with a file that is not `ours`.
fn refuse_strangers(dir: &Path, ours: impl Fn(&str) -> bool) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if !ours(&name) {
            bail!("{} is not empty: it has {name}; use another directory", dir.display());
        }
    }
    Ok(())
}

/// Removes the parts that `list` does not have: of a discarded export, and of one that was interrupted.
pub(super) fn remove_unrecorded(dir: &Path, list: &PartList) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| part_number(name).is_some()) else { continue };
        if !list.has(name) {
            let path = entry.path();
            let removed = std::fs::remove_file(&path);
            removed.with_context(|| format!("could not remove {}", path.display()))?;
        }
    }
    Ok(())
}
