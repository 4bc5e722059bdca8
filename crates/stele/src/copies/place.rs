//! The checkpoints that backups are made of: in `checkpoints/` of the data directory, so that they are
//! on its file system, whoever makes them. One that was interrupted is kept, and gone on with.
//!
//! 1. `checkpoints/ID/` is the checkpoint of backup ID, `checkpoints/ID.json` says where it goes. The
//!    latter is there, durably and as a whole, before the checkpoint and until it is removed.
//! 2. Whoever makes the backup holds `checkpoints/ID.lock` from before there is anything else until
//!    nothing of it is left. What nobody holds, nobody makes: it is gone on with, or removed.
//! 3. A checkpoint without a note that reads is of no use to anybody, and is removed too.
//! 4. All of it belongs to the user of the store: each thing that the caller makes is given away before
//!    anything is made in it (invariant 1 of data_dir.rs).

use super::data_dir::DataDir;
use anyhow::{Context, Result};
use backup::BackupId;
use base::env::{Env, FileSystem};
use engine::check::check_dir;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const CHECKPOINTS: &str = "checkpoints";

/// Returns the directory of the checkpoint of `id` in the data directory `data_dir`.
pub(crate) fn directory(data_dir: &Path, id: &BackupId) -> PathBuf {
    data_dir.join(CHECKPOINTS).join(id.as_str())
}

/// Note that is stored next to a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The destination.
    pub(super) to: String,
    /// When the checkpoint was asked for, in microseconds since 1970.
    pub(super) taken_micros: i64,
}

/// A checkpoint for a backup, made or about to be, that nobody else sends, makes or removes.
pub(super) struct Place {
    pub(super) id: BackupId,
    pub(super) note: Note,
    data_dir: DataDir,
    _held: Lock,
}

type Lock = Box<dyn Send + Sync>;

/// A checkpoint that an interrupted or running backup has.
pub(super) enum Left {
    /// Somebody is at work with it, to there if that is known.
    InUse(BackupId, Option<Note>),
    /// Nobody is.
    Free(Place),
}

/// The file of `id` that ends so.
fn file(data_dir: &Path, id: &BackupId, end: &str) -> PathBuf {
    let mut name = directory(data_dir, id).into_os_string();
    name.push(end);
    name.into()
}

const LOCK: &str = ".lock";
const NOTE: &str = ".json";
const NEW_NOTE: &str = ".json.new";

impl Place {
    /// Says where the checkpoint of `id` will go, before it is made.
    pub(super) fn begin(
        fs: &dyn FileSystem,
        data_dir: &DataDir,
        id: BackupId,
        note: Note,
    ) -> Result<Self> {
        let path = file(data_dir.path(), &id, NOTE);
        let write = || {
            let parent = data_dir.path().join(CHECKPOINTS);
            std::fs::create_dir_all(&parent)?;
            data_dir.give(&parent)?;
            let held = hold(fs, data_dir, &file(data_dir.path(), &id, LOCK))?;
            let fresh = file(data_dir.path(), &id, NEW_NOTE);
            // `create_new` follows no link that another user put there.
            let mut written = File::create_new(&fresh)?;
            written.write_all(&serde_json::to_vec(&note)?)?;
            data_dir.give(&fresh)?;
            written.sync_all()?;
            std::fs::rename(&fresh, &path)?;
            fs.sync_dir(&parent)?;
            fs.sync_dir(data_dir.path())?;
            std::io::Result::Ok(held)
        };
        let held = write().with_context(|| format!("could not write {}", path.display()))?;
        Ok(Self { id, note, data_dir: data_dir.clone(), _held: held })
    }

    /// The checkpoint.
    pub(super) fn dir(&self) -> PathBuf {
        directory(self.data_dir(), &self.id)
    }

    /// The data directory that it is of.
    pub(super) fn data_dir(&self) -> &Path {
        self.data_dir.path()
    }

    /// Returns whether the checkpoint was made to its end.
    pub(super) fn is_whole(&self) -> bool {
        self.dir().join("CURRENT").exists()
    }

    /// Holds the checkpoint as a data directory: nobody opens it. `None` if somebody did.
    pub(super) fn lock(&self, fs: &dyn FileSystem) -> Option<Lock> {
        hold(fs, &self.data_dir, &self.dir().join("LOCK")).ok()
    }

    /// Removes the checkpoint, whose backup is finished or given up.
    pub(super) fn remove(self) -> Result<()> {
        remove(self.data_dir(), &self.id)
    }

    /// Reads all of the checkpoint, as `stele check` does.
    pub(super) fn check(&self, env: &Env) -> Result<()> {
        let report = check_dir(env, &self.dir(), &mut |_| ())?;
        match report.findings.first() {
            None => Ok(()),
            Some(finding) => Err(anyhow::anyhow!("{finding}; {}", finding.advice)),
        }
    }
}

/// Takes the lock at `path`, which the caller may be the first to make.
fn hold(fs: &dyn FileSystem, data_dir: &DataDir, path: &Path) -> std::io::Result<Lock> {
    let held = fs.lock(path)?;
    data_dir.give(path)?;
    Ok(held)
}

/// Removes all of the checkpoint of `id`, whose lock is held.
fn remove(data_dir: &Path, id: &BackupId) -> Result<()> {
    let gone = |result: std::io::Result<()>| match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    };
    let dir = directory(data_dir, id);
    let removed = gone(std::fs::remove_dir_all(&dir)).and_then(|()| {
        let files = [NEW_NOTE, NOTE, LOCK].map(|end| file(data_dir, id, end));
        files.iter().try_for_each(|file| gone(std::fs::remove_file(file)))
    });
    removed.with_context(|| format!("could not remove the checkpoint {}", dir.display()))
}

/// The checkpoints in `data_dir`, oldest first. One without a note is removed, and told of to `say`.
pub(super) fn left_over(
    fs: &dyn FileSystem,
    data_dir: &DataDir,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Left>> {
    let mut left = Vec::new();
    let path = data_dir.path();
    for id in ids(&path.join(CHECKPOINTS))? {
        let note = || -> Option<Note> {
            serde_json::from_slice(&std::fs::read(file(path, &id, NOTE)).ok()?).ok()
        };
        let lock = file(path, &id, LOCK);
        let held = match hold(fs, data_dir, &lock) {
            Ok(held) => held,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let note = note();
                left.push(Left::InUse(id, note));
                continue;
            }
            Err(error) => {
                return Err(error).with_context(|| format!("could not lock {}", lock.display()));
            }
        };
        // Read under the lock: who had it may have finished.
        if let Some(note) = note() {
            left.push(Left::Free(Place { id, note, data_dir: data_dir.clone(), _held: held }));
            continue;
        }
        let dir = directory(path, &id);
        if dir.exists() {
            say(&format!("removing {}: the destination of its backup is unknown", dir.display()));
        }
        remove(path, &id)?;
    }
    Ok(left)
}

/// The ids of what is in the directory of checkpoints, ascending.
fn ids(dir: &Path) -> Result<BTreeSet<BackupId>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("could not list {}", dir.display()));
        }
    };
    let mut ids = BTreeSet::new();
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_str().unwrap_or_default();
        ids.extend(name.split('.').next().and_then(|id| id.parse::<BackupId>().ok()));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::env::RealFileSystem;
    use rustix::process::geteuid;
    use std::os::unix::fs::{MetadataExt, chown};

    fn data_dir(root: &Path) -> DataDir {
        DataDir::served(root.to_owned()).unwrap()
    }

    fn free(root: &Path) -> Vec<Place> {
        let left = left_over(&RealFileSystem, &data_dir(root), &mut |_| ()).unwrap();
        let free = |left| match left {
            Left::Free(place) => Some(place),
            Left::InUse(..) => None,
        };
        left.into_iter().filter_map(free).collect()
    }

    fn begin(root: &Path, number: u32) -> Place {
        let note = Note { to: "s3://bucket/x".into(), taken_micros: 5 };
        Place::begin(&RealFileSystem, &data_dir(root), BackupId::new(5_000_000, number), note)
            .unwrap()
    }

    #[test]
    fn what_was_left_over_is_found_until_it_is_removed() {
        let root = tempfile::tempdir().unwrap();
        assert!(free(root.path()).is_empty());
        let place = begin(root.path(), 1);
        assert!(!place.is_whole());
        std::fs::create_dir_all(place.dir()).unwrap();
        std::fs::write(place.dir().join("CURRENT"), "x").unwrap();
        assert!(place.is_whole());
        let (id, note) = (place.id.clone(), place.note.clone());
        drop(place);
        for other in ["notes.json", "x.txt"] {
            std::fs::write(root.path().join(CHECKPOINTS).join(other), "{").unwrap();
        }
        let mut found = free(root.path());
        let found = found.pop().filter(|_| found.is_empty()).unwrap();
        assert_eq!((&found.id, &found.note), (&id, &note));
        found.remove().unwrap();
        assert!(free(root.path()).is_empty());
        let left = std::fs::read_dir(root.path().join(CHECKPOINTS)).unwrap();
        assert_eq!(left.count(), 2, "only what is nobody's");
    }

    #[test]
    fn a_checkpoint_that_somebody_is_at_work_with_is_in_use_from_its_beginning() {
        let root = tempfile::tempdir().unwrap();
        let place = begin(root.path(), 1);
        let left = left_over(&RealFileSystem, &data_dir(root.path()), &mut |_| ()).unwrap();
        assert!(matches!(&left[..], [Left::InUse(id, Some(_))] if *id == place.id));
        drop(place);
        assert_eq!(free(root.path()).len(), 1);
    }

    #[test]
    fn a_checkpoint_whose_note_is_torn_or_missing_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let mut dirs = Vec::new();
        for (number, note) in [(1, Some("{\"to\":")), (2, Some("")), (3, None)] {
            let place = begin(root.path(), number);
            std::fs::create_dir_all(place.dir()).unwrap();
            std::fs::write(place.dir().join("0000000001.sst"), "x").unwrap();
            dirs.push(place.dir());
            let path = place.dir().with_extension("json");
            match note {
                Some(note) => std::fs::write(path, note).unwrap(),
                None => std::fs::remove_file(path).unwrap(),
            }
        }
        let mut said = Vec::new();
        let left = left_over(&RealFileSystem, &data_dir(root.path()), &mut |line| {
            said.push(line.to_owned())
        });
        assert!(left.unwrap().is_empty());
        for dir in dirs {
            assert!(!dir.exists());
            assert!(said.iter().any(|line| line.contains(dir.to_str().unwrap())), "{said:?}");
        }
    }

    /// Users of the test, by number; neither needs to have a name.
    const SERVER: u32 = 65_534;
    const SERVERS_GROUP: u32 = 65_533;

    fn assert_servers(path: &Path) {
        let found = std::fs::symlink_metadata(path).unwrap();
        assert_eq!((found.uid(), found.gid()), (SERVER, SERVERS_GROUP), "{}", path.display());
    }

    #[test]
    fn all_that_root_makes_belongs_to_the_user_of_the_server() {
        if !geteuid().is_root() {
            eprintln!("skipped: only root gives files away");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let current = root.path().join("CURRENT");
        std::fs::write(&current, "x").unwrap();
        chown(&current, Some(SERVER), Some(SERVERS_GROUP)).unwrap();
        let checkpoints = root.path().join(CHECKPOINTS);
        // An older program left the directory as root's, and the server could not write to it.
        std::fs::create_dir(&checkpoints).unwrap();
        for round in 1..=2 {
            let place = begin(root.path(), round);
            std::fs::create_dir(place.dir()).unwrap();
            let held = place.lock(&RealFileSystem).unwrap();
            assert_servers(&place.dir().join("LOCK"));
            drop(held);
            for end in [LOCK, NOTE] {
                assert_servers(&file(root.path(), &place.id, end));
            }
            assert_servers(&checkpoints);
            let (lock, id) = (file(root.path(), &place.id, LOCK), place.id.clone());
            drop(place);
            // The lock of a resumed backup is the server's too.
            std::fs::remove_file(&lock).unwrap();
            let found = free(root.path()).pop().unwrap();
            assert_eq!(found.id, id);
            assert_servers(&lock);
            found.remove().unwrap();
            std::fs::remove_dir(&checkpoints).unwrap();
        }
    }

    #[test]
    fn root_is_refused_a_closed_store_of_another_user() {
        if !geteuid().is_root() {
            eprintln!("skipped: only root gives files away");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let current = root.path().join("CURRENT");
        std::fs::write(&current, "x").unwrap();
        DataDir::closed(root.path().to_owned()).unwrap();
        chown(&current, Some(SERVER), Some(SERVERS_GROUP)).unwrap();
        let refused = DataDir::closed(root.path().to_owned()).unwrap_err();
        assert!(refused.is::<crate::config::ConfigError>(), "{refused}");
    }
}
