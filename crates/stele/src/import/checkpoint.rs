//! Where an import stands, kept in a small file beside the input, so that the same command goes
//! on after whatever stopped it.
//!
//! 1. The file is there, durably, before the first row is sent: all cells of the import carry its
//!    `timestamp_micros`, however often it is begun.
//! 2. All lines before `place` are written to the table, durably whatever the durability of the
//!    server, or to the rejects file.
//! 3. Lines after it may be written too; writing them again changes nothing, because of 1.
//! 4. `target` is the table that the rows are in, not only its name: of another table nothing is
//!    believed.
//! 5. The file is replaced in one step, and removed when the import is complete. One import at a
//!    time has it.

use crate::state_file::StateFile;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use interchange::lines::Position;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use table::{RowMutation, RowMutations};

/// Contents of the checkpoint file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    /// Input, table and mapping in words; an import with others is another import.
    pub(super) job: String,
    /// Identity of the table, independent of its name; empty in files of older versions.
    #[serde(default)]
    pub(super) target: String,
    /// Timestamp of all cells.
    pub(super) timestamp_micros: i64,
    /// Amount of input that is done.
    #[serde(default)]
    pub(super) place: Place,
    /// Rows written.
    pub(super) rows: u64,
    /// Cells written.
    pub(super) cells: u64,
    /// Lines rejected.
    pub(super) rejected: u64,
    /// Bytes of the rejects file that belong to them.
    pub(super) rejects_len: u64,
    /// Some of the cells written, one of a family: where they are gone, so may the others be.
    #[serde(default)]
    pub(super) witnesses: Vec<Witness>,
}

/// A place between two rows of the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// Bytes of the input before it, about.
    pub(super) offset: u64,
    /// Checksum of what the current file has before it.
    #[serde(default)]
    pub(super) sum: u64,
    /// Files that were read before it.
    #[serde(default)]
    pub(super) file: usize,
    /// Records of the current file before it, if the format counts them.
    #[serde(default)]
    pub(super) record: u64,
}

impl Place {
    /// Returns whether the place comes before `other` in the same input.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        let key = |place: &Self| (place.file, place.offset, place.record);
        key(self) < key(other)
    }
}

impl From<Position> for Place {
    fn from(Position { offset, sum }: Position) -> Self {
        Self { offset, sum, ..Self::default() }
    }
}

/// A cell that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Witness {
    pub(super) row: Vec<u8>,
    pub(super) family: String,
    pub(super) qualifier: Vec<u8>,
}

impl Checkpoint {
    /// Takes a cell of each family in `rows`, which are written, for a witness.
    pub(super) fn see<'a>(&mut self, rows: impl Iterator<Item = &'a RowMutations>) {
        let mut seen: BTreeMap<&str, (&Bytes, &Bytes)> = BTreeMap::new();
        for row in rows {
            for mutation in &row.mutations {
                if let RowMutation::SetCell { family, qualifier, .. } = mutation {
                    seen.insert(family, (&row.row, qualifier));
                }
            }
        }
        self.witnesses.retain(|witness| !seen.contains_key(witness.family.as_str()));
        let witnesses = seen.into_iter().map(|(family, (row, qualifier))| Witness {
            row: row.to_vec(),
            family: family.to_owned(),
            qualifier: qualifier.to_vec(),
        });
        self.witnesses.extend(witnesses);
    }
}

/// The checkpoint's file, held by this import until the value is dropped.
pub(super) struct CheckpointFile(StateFile);

impl CheckpointFile {
    /// Takes the file at `path`, which need not exist; refused while another import has it.
    pub(super) fn hold(path: PathBuf) -> Result<Self> {
        match StateFile::hold(path.clone()) {
            Ok(file) => Ok(Self(file)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => bail!(
                "another import uses checkpoint {}; wait for it, or pass --checkpoint to use \
                 another file",
                path.display()
            ),
            Err(error) => {
                Err(error).with_context(|| format!("could not lock {}.lock", path.display()))
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Reads the checkpoint of an earlier, unfinished import.
    pub(super) fn load(&self) -> Result<Option<Checkpoint>> {
        let name = self.path().display();
        match self.0.load() {
            Err(error)
                if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
            {
                Err(error).with_context(|| {
                    format!(
                        "checkpoint {name} is malformed; pass --restart to import from the \
                         beginning"
                    )
                })
            }
            read => read.with_context(|| format!("could not read checkpoint {name}")),
        }
    }

    /// Replaces what the file holds. On disk when it returns.
    pub(super) fn save(&self, checkpoint: &Checkpoint) -> Result<()> {
        self.0.save(checkpoint).with_context(|| {
            format!(
                "could not write checkpoint {}; pass --checkpoint to use another file",
                self.path().display()
            )
        })
    }

    /// Removes the file, if there is one.
    pub(super) fn remove(&self) -> Result<()> {
        let removed = self.0.remove();
        removed.with_context(|| format!("could not remove checkpoint {}", self.path().display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_import_at_a_time_has_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv.import");
        let file = CheckpointFile::hold(path.clone()).unwrap();
        let refused = CheckpointFile::hold(path.clone()).err().unwrap().to_string();
        assert!(refused.contains("another import"), "{refused}");
        assert_eq!(file.load().unwrap(), None);
        let checkpoint = Checkpoint { timestamp_micros: 7000, ..Checkpoint::default() };
        file.save(&checkpoint).unwrap();
        drop(file);
        let file = CheckpointFile::hold(path).unwrap();
        assert_eq!(file.load().unwrap(), Some(checkpoint));
        file.remove().unwrap();
        drop(file);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something stays");
    }

    #[test]
    fn a_checkpoint_of_an_earlier_version_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv.import");
        let text = "{\"job\":\"j\",\"timestamp_micros\":7000,\"end\":5,\"rows\":1,\"cells\":1,\
                    \"rejected\":0,\"rejects_len\":0}";
        std::fs::write(&path, text).unwrap();
        let read = CheckpointFile::hold(path).unwrap().load().unwrap().unwrap();
        assert_eq!((read.timestamp_micros, read.target.as_str()), (7000, ""));
    }
}
