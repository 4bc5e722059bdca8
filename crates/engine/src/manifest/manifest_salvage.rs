//! Reads what verifies of a damaged manifest. Never writes.

use super::current;
use super::edit::Edit;
use super::manifest_reader::load_manifest;
use super::state::State;
use crate::error::{Corruption, Error, Result};
use crate::log::framing::record::{
    FILE_HEADER_LEN, FileHeaderFault, MANIFEST, RECORD_HEADER_LEN, RecordFault, RecordKind,
};
use crate::log::framing::record_scan::RecordFile;
use base::env::fs::FileSystem;
use std::path::{Path, PathBuf};

/// Something in a manifest that does not verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManifestDamage {
    /// The manifest, or `CURRENT`.
    pub(crate) path: PathBuf,
    /// Start of the damage.
    pub(crate) offset: u64,
    /// Description of the damage.
    pub(crate) what: String,
}

/// Readable part of the manifest of a directory.
#[derive(Debug, Default)]
pub(crate) struct SalvagedManifest {
    /// The state, if a manifest that counts can be read to its end.
    pub(crate) state: Option<State>,
    /// Otherwise all edits that can be read, in order.
    pub(crate) edits: Vec<Edit>,
    /// Description of the damage.
    pub(crate) damage: Vec<ManifestDamage>,
}

/// Reads the manifest that `CURRENT` names; if that cannot be known, the newest there is.
///
/// `Error::Unusable` if it is of a newer format.
pub(crate) fn salvage(fs: &dyn FileSystem, dir: &Path) -> Result<SalvagedManifest> {
    let mut salvaged = SalvagedManifest::default();
    let named = match current::read(fs, dir) {
        Ok(named) => named,
        Err(error) => {
            salvaged.note(error)?;
            None
        }
    };
    let mut numbers = current::manifests(fs, dir)?;
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    if let Some(named) = named {
        numbers.retain(|number| *number == named);
        if numbers.is_empty() {
            let path = current::manifest_path(dir, named);
            let what = "CURRENT names this manifest and it is missing".to_owned();
            salvaged.damage.push(ManifestDamage { path, offset: 0, what });
            numbers = current::manifests(fs, dir)?;
        }
    }
    for number in &numbers {
        match load_manifest(fs, dir, *number, State::default()) {
            Ok(loaded) => {
                salvaged.state = Some(loaded.state);
                return Ok(salvaged);
            }
            Err(error) => salvaged.note(error)?,
        }
    }
    if let Some(newest) = numbers.first() {
        salvaged.read_edits(fs, &current::manifest_path(dir, *newest), *newest)?;
    }
    Ok(salvaged)
}

impl SalvagedManifest {
    /// Notes damage; what is none is given back.
    fn note(&mut self, error: Error) -> Result<()> {
        let (path, offset, what) = match error {
            Error::Corruption(Corruption { file, offset, what }) => (file, offset, what),
            Error::Io { op, path, source } => (path, 0, format!("cannot {op} it: {source}")),
            other => return Err(other),
        };
        self.damage.push(ManifestDamage { path, offset, what });
        Ok(())
    }

    /// Reads every record that verifies. The first damage was noted when it was read strictly.
    fn read_edits(&mut self, fs: &dyn FileSystem, path: &Path, number: u64) -> Result<()> {
        if let Err(error) = self.try_read_edits(fs, path, number) {
            self.note(error)?;
        }
        Ok(())
    }

    fn try_read_edits(&mut self, fs: &dyn FileSystem, path: &Path, number: u64) -> Result<()> {
        let mut file = RecordFile::open(fs, path, &MANIFEST, number)?;
        if let Err(FileHeaderFault::Newer(newer)) = file.header()? {
            return Err(newer.refuse(&MANIFEST, path));
        }
        let mut at = FILE_HEADER_LEN;
        loop {
            let header = match file.record(at)? {
                Ok(header) => header,
                Err(RecordFault::Bad(_) | RecordFault::Impossible(_)) => {
                    let Some(next) = file.next_record(at + 1)? else { return Ok(()) };
                    at = next;
                    continue;
                }
            };
            if matches!(header.kind, RecordKind::Edit | RecordKind::SnapshotPart)
                && let Ok(edits) = Edit::decode_all(file.payload(at, &header)?)
            {
                self.edits.extend(edits);
            }
            at += RECORD_HEADER_LEN as u64 + u64::from(header.payload_len);
        }
    }
}
