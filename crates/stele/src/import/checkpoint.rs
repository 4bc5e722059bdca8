//! Where an import stands, kept in a small file beside the input, so that the same command goes
//! on after whatever stopped it.
//!
//! 1. All lines before `end` are written to the table or to the rejects file.
//! 2. Lines after it may be written too; writing them again changes nothing, because all cells of
//!    the import carry `timestamp_micros`.
//! 3. The file is replaced in one step, and removed when the import is complete.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// What is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    /// Input, table and mapping in words; an import with others is another import.
    pub(crate) job: String,
    /// Timestamp of all cells.
    pub(crate) timestamp_micros: i64,
    /// Bytes of the input that are done.
    pub(crate) end: u64,
    /// Rows written.
    pub(crate) rows: u64,
    /// Cells written.
    pub(crate) cells: u64,
    /// Lines rejected.
    pub(crate) rejected: u64,
    /// Bytes of the rejects file that belong to them.
    pub(crate) rejects_len: u64,
}

/// The checkpoint's file.
#[derive(Debug)]
pub(crate) struct CheckpointFile {
    path: PathBuf,
}

impl CheckpointFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// What an earlier, unfinished import of the same `job` left.
    pub(crate) fn load(&self, job: &str) -> Result<Option<Checkpoint>> {
        let name = self.path.display();
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read the checkpoint {name}"));
            }
        };
        let checkpoint: Checkpoint = serde_json::from_slice(&bytes).with_context(|| {
            format!("checkpoint {name} is malformed: pass --restart to import from the beginning")
        })?;
        if checkpoint.job != job {
            bail!(
                "checkpoint {name} is of another import ({}; this is {job}): finish that one, \
                 pass --restart to forget it, or --checkpoint to use another file",
                checkpoint.job
            );
        }
        Ok(Some(checkpoint))
    }

    /// Replaces what the file holds.
    pub(crate) fn save(&self, checkpoint: &Checkpoint) -> Result<()> {
        self.replace(&serde_json::to_vec(checkpoint)?).with_context(|| {
            format!(
                "cannot write the checkpoint {}: pass --checkpoint to keep it elsewhere",
                self.path.display()
            )
        })
    }

    fn replace(&self, bytes: &[u8]) -> std::io::Result<()> {
        let mut fresh = self.path.clone().into_os_string();
        fresh.push(".new");
        let mut file = File::create(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.path)
    }

    /// Removes the file, if there is one.
    pub(crate) fn remove(&self) -> Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error)
                .with_context(|| format!("cannot remove the checkpoint {}", self.path.display())),
            _ => Ok(()),
        }
    }
}
