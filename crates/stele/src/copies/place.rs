//! The checkpoints that backups are made of: in `checkpoints/` of the data directory, so that they are
//! on its file system, whoever makes them. One that was interrupted is kept, and gone on with.
//!
//! `checkpoints/ID/` is the checkpoint of backup ID, `checkpoints/ID.json` says where it goes. The
//! latter is written first and removed last: a checkpoint without it is nobody's.

use anyhow::{Context, Result};
use backup::BackupId;
use base::env::{Env, FileSystem};
use engine::check::check_dir;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const CHECKPOINTS: &str = "checkpoints";

/// Where the checkpoint of `id` is, of the data directory `data_dir`.
pub(crate) fn directory(data_dir: &Path, id: &BackupId) -> PathBuf {
    data_dir.join(CHECKPOINTS).join(id.as_str())
}

/// What is written beside a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The destination.
    pub(super) to: String,
    /// When the checkpoint was asked for, in microseconds since 1970.
    pub(super) taken_micros: i64,
}

/// A checkpoint for a backup, made or about to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) id: BackupId,
    pub(super) note: Note,
    data_dir: PathBuf,
}

impl Place {
    pub(super) fn new(data_dir: &Path, id: BackupId, note: Note) -> Self {
        Self { id, note, data_dir: data_dir.to_owned() }
    }

    /// The checkpoint.
    pub(super) fn dir(&self) -> PathBuf {
        directory(&self.data_dir, &self.id)
    }

    fn note_path(&self) -> PathBuf {
        self.dir().with_extension("json")
    }

    /// Says where the checkpoint will go, before it is made.
    pub(super) fn begin(&self) -> Result<()> {
        let path = self.note_path();
        let parent = path.parent().expect("it is in the directory of checkpoints");
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, serde_json::to_vec(&self.note)?))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Whether the checkpoint was made to its end.
    pub(super) fn is_whole(&self) -> bool {
        self.dir().join("CURRENT").exists()
    }

    /// Holds the checkpoint: nobody else sends or opens it. `None` if somebody does.
    pub(super) fn lock(&self, fs: &dyn FileSystem) -> Option<Box<dyn Send + Sync>> {
        fs.lock(&self.dir().join("LOCK")).ok()
    }

    /// Removes the checkpoint, whose backup is finished or given up.
    pub(super) fn remove(&self) -> Result<()> {
        let gone = |result: std::io::Result<()>| match result {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        gone(std::fs::remove_dir_all(self.dir()))
            .and_then(|()| gone(std::fs::remove_file(self.note_path())))
            .with_context(|| format!("cannot remove the checkpoint {}", self.dir().display()))
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

/// The checkpoints that interrupted backups left in `data_dir`, oldest first.
pub(super) fn left_over(data_dir: &Path) -> Result<Vec<Place>> {
    let dir = data_dir.join(CHECKPOINTS);
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot list {}", dir.display())),
    };
    let mut places = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(".json"));
        let Some(id) = id.and_then(|id| id.parse::<BackupId>().ok()) else { continue };
        let note = std::fs::read(dir.join(&name)).ok();
        if let Some(note) = note.and_then(|note| serde_json::from_slice(&note).ok()) {
            places.push(Place::new(data_dir, id, note));
        }
    }
    places.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_over_is_found_until_it_is_removed() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(left_over(root.path()).unwrap(), []);
        let note = Note { to: "s3://bucket/x".into(), taken_micros: 5 };
        let place = Place::new(root.path(), BackupId::new(5_000_000, 1), note);
        place.begin().unwrap();
        assert!(!place.is_whole());
        for other in ["notes.json", "x.txt", "20231114T221320Z-000000ab.json"] {
            std::fs::write(root.path().join(CHECKPOINTS).join(other), "{").unwrap();
        }
        std::fs::create_dir_all(place.dir()).unwrap();
        std::fs::write(place.dir().join("CURRENT"), "x").unwrap();
        assert!(place.is_whole());
        assert_eq!(left_over(root.path()).unwrap(), std::slice::from_ref(&place));
        place.remove().unwrap();
        place.remove().unwrap();
        assert_eq!(left_over(root.path()).unwrap(), []);
    }
}
