//! The data directory of a store that is backed up. The server often runs as a user of its own, and
//! root makes the backup.
//!
//! 1. Everything that a backup makes in the directory belongs to the user of the store, who can resume
//!    and remove it. A caller who cannot give it to that user is refused before anything is made.

use crate::config::ConfigError;
use anyhow::{Context, Result};
use rustix::process::geteuid;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

/// A user and its group, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    user: u32,
    group: u32,
}

/// A data directory, with the owner of what a backup makes in it.
#[derive(Debug, Clone)]
pub(super) struct DataDir {
    path: PathBuf,
    /// `None` if the caller is the user of the store.
    given_to: Option<Owner>,
}

impl DataDir {
    /// Returns the directory of a store that a server serves. Refused unless the caller is the user of
    /// the store, or root, who can give files away.
    pub(super) fn served(path: PathBuf) -> Result<Self> {
        let caller = geteuid();
        Self::of(path, caller.as_raw(), caller.is_root())
    }

    /// Returns the directory of a store that no server has open. Root is refused too: what the engine
    /// itself writes on the way, such as a manifest, would be root's.
    pub(super) fn closed(path: PathBuf) -> Result<Self> {
        Self::of(path, geteuid().as_raw(), false)
    }

    fn of(path: PathBuf, caller: u32, can_give: bool) -> Result<Self> {
        let owner = owner(&path).with_context(|| format!("could not open {}", path.display()))?;
        let given_to = match owner {
            Some(owner) if owner.user != caller => Some(owner),
            _ => None,
        };
        match given_to {
            Some(Owner { user, .. }) if !can_give => Err(ConfigError(format!(
                "{} belongs to user {user}, and this command runs as user {caller}; run it as the \
                 user of the server, e.g. sudo -u '#{user}' stele backup ...",
                path.display()
            ))
            .into()),
            _ => Ok(Self { path, given_to }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives `made`, a file or directory that the caller made here, to the user of the store.
    pub(super) fn give(&self, made: &Path) -> std::io::Result<()> {
        match self.given_to {
            // A link is given itself: the user of the store may have put one there.
            Some(Owner { user, group }) => lchown(made, Some(user), Some(group)),
            None => Ok(()),
        }
    }
}

/// Returns whose `CURRENT` is, which the process that last opened the store to write has made. The
/// directory itself may be another's: a volume that a group shares. `None` if there is no store.
fn owner(data_dir: &Path) -> std::io::Result<Option<Owner>> {
    let found = match std::fs::metadata(data_dir.join("CURRENT")) {
        // A caller who may not look inside is told whose the directory is.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => std::fs::metadata(data_dir),
        found => found,
    };
    match found {
        Ok(found) => Ok(Some(Owner { user: found.uid(), group: found.gid() })),
        // Reading the store refuses both later, and tells what is missing.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_who_can_neither_own_nor_give_is_refused_and_told_who_can() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().to_owned();
        std::fs::write(path.join("CURRENT"), "x").unwrap();
        let me = owner(&path).unwrap().unwrap().user;
        let other = me + 1;
        assert_eq!(DataDir::of(path.clone(), me, false).unwrap().given_to, None);
        assert_eq!(DataDir::of(path.clone(), other, true).unwrap().given_to, owner(&path).unwrap());
        let refused = DataDir::of(path.clone(), other, false).unwrap_err();
        assert!(refused.is::<ConfigError>());
        let says = format!("belongs to user {me}, and this command runs as user {other}");
        assert!(refused.to_string().contains(&says), "{refused}");
        assert!(refused.to_string().contains(&format!("sudo -u '#{me}' ")), "{refused}");
        // One that is no store is refused when it is read.
        let none = DataDir::of(path.join("none"), other, false).unwrap();
        assert_eq!(none.given_to, None);
    }
}
