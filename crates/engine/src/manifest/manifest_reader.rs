//! Reads manifests back. Never writes.

use super::current;
use super::edit::Edit;
use super::state::State;
use crate::error::{Error, Result};
use crate::log::framing::record::{
    FILE_HEADER_LEN, FileHeaderFault, MANIFEST, RECORD_HEADER_LEN, RecordFault, RecordKind,
};
use crate::log::framing::record_scan::RecordFile;
use base::env::fs::FileSystem;
use std::path::Path;

/// The state of the data directory `dir`, without changing anything in it; `None` if it is new.
/// For `check` and `dump`, and as the first half of opening.
pub fn load(fs: &dyn FileSystem, dir: &Path) -> Result<Option<State>> {
    Ok(load_with_end(fs, dir, State::default())?.map(|loaded| loaded.state))
}

/// A manifest that was read to its end.
pub(super) struct Loaded {
    pub(super) number: u64,
    pub(super) state: State,
    /// End of the snapshot, which normally is the first record.
    pub(super) snapshot_end: u64,
    /// Offset of the next record.
    pub(super) end: u64,
}

pub(super) fn load_with_end(
    fs: &dyn FileSystem,
    dir: &Path,
    empty: State,
) -> Result<Option<Loaded>> {
    let Some(number) = current::read(fs, dir)? else { return Ok(None) };
    load_manifest(fs, dir, number, empty).map(Some)
}

/// Reads manifest `number` to its end, into the state `empty`.
pub(super) fn load_manifest(
    fs: &dyn FileSystem,
    dir: &Path,
    number: u64,
    empty: State,
) -> Result<Loaded> {
    let path = current::manifest_path(dir, number);
    if !fs.exists(&path).map_err(|error| Error::io("open", &path, &error))? {
        let what = "CURRENT names this manifest and it is missing";
        return Err(Error::corruption(&path, 0, what));
    }
    let mut reader = EditReader::open(fs, &path)?;
    let mut state = empty;
    let mut snapshot_end = None;
    while let Some((offset, edits)) = reader.next()? {
        let refused = |refusal| Error::corruption(&path, offset, refusal);
        state.replay(&edits).map_err(refused)?;
        if snapshot_end.is_none() && !reader.in_snapshot {
            snapshot_end = Some(reader.end());
        }
    }
    state.check().map_err(|refusal| Error::corruption(&path, reader.end(), refusal))?;
    let Some(snapshot_end) = snapshot_end else {
        return Err(Error::corruption(&path, FILE_HEADER_LEN, "its snapshot is missing"));
    };
    Ok(Loaded { number, state, snapshot_end, end: reader.end() })
}

/// Reads the records of one manifest, as `dump` shows them.
pub(crate) struct EditReader {
    file: RecordFile,
    /// Start of the next record.
    end: u64,
    /// The snapshot has not ended yet. A manifest counts only when all of it is on disk.
    pub(super) in_snapshot: bool,
    done: bool,
}

impl EditReader {
    /// Opens the manifest at `path`. `InvalidArgument` if its name is not that of a manifest,
    /// `Unusable` if its format is newer than this code.
    pub(crate) fn open(fs: &dyn FileSystem, path: &Path) -> Result<Self> {
        let name = Path::new(path.file_name().unwrap_or_default());
        let Some(number) = current::manifest_number(name) else {
            let text = format!("{} is not named like a manifest", path.display());
            return Err(Error::InvalidArgument(text));
        };
        let mut file = RecordFile::open(fs, path, &MANIFEST, number)?;
        match file.header()? {
            Ok(()) => Ok(Self { file, end: FILE_HEADER_LEN, in_snapshot: true, done: false }),
            Err(FileHeaderFault::Bad(what)) => Err(file.corruption(0, what)),
            Err(FileHeaderFault::Newer(newer)) => Err(newer.refuse(&MANIFEST, path)),
        }
    }

    /// Returns the end of the records read so far.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The edits of the next record and where it starts; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Vec<Edit>)>> {
        while !self.done {
            let offset = self.end;
            let header = match self.file.record(offset)? {
                Ok(header) => header,
                Err(RecordFault::Bad(what)) => {
                    self.bad_record(what)?;
                    break;
                }
                Err(RecordFault::Impossible(what)) => {
                    return Err(self.file.corruption(offset, what));
                }
            };
            self.end = offset + RECORD_HEADER_LEN as u64 + u64::from(header.payload_len);
            if let RecordKind::Edit | RecordKind::SnapshotPart = header.kind {
                let more = header.kind == RecordKind::SnapshotPart;
                if more && !self.in_snapshot {
                    return Err(self
                        .file
                        .corruption(offset, "a part of a snapshot that has ended"));
                }
                self.in_snapshot = more;
                let decoded = Edit::decode_all(self.file.payload(offset, &header)?);
                let corrupt = |error| self.file.corruption(offset, &format!("{error}"));
                return Ok(Some((offset, decoded.map_err(corrupt)?)));
            }
        }
        Ok(None)
    }

    /// Decides what a bad record at `end` means: the end of the manifest, or corruption.
    fn bad_record(&mut self, what: &'static str) -> Result<()> {
        if self.in_snapshot {
            return Err(self.file.corruption(self.end, what));
        }
        if let Some(proof) = self.file.proof_of_sync(self.end)? {
            let text = format!("{what}; the record at {proof} proves that it was on disk");
            return Err(self.file.corruption(self.end, &text));
        }
        self.done = true;
        Ok(())
    }
}
