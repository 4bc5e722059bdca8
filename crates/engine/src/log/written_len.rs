//! Written length of a segment, which a copy of it needs.

use super::framing::segment_reader::Ending;
use super::segments::open_alone;
use crate::error::{Error, Result};
use base::env::fs::FileSystem;
use std::path::Path;

/// Bytes looked at together.
const CHUNK_BYTES: u64 = 1 << 20;

/// The length at which the segment at `path`, which nobody writes, can be cut without changing what
/// any reader makes of it: behind its seal or clean close; or behind its last record, if only zeros
/// follow, which no record begins with. All of it where that cannot be told, or damage is met.
pub(crate) fn written_len(fs: &dyn FileSystem, path: &Path) -> Result<u64> {
    let len = fs.size(path).map_err(|error| Error::io("read", path, &error))?;
    let Some((end, ending)) = records_end(fs, path) else { return Ok(len) };
    let cut = ending != Ending::Open || only_zeros(fs, path, end, len)?;
    Ok(if cut { end } else { len })
}

/// Returns the end of the records, and how; `None` if one of them does not read.
fn records_end(fs: &dyn FileSystem, path: &Path) -> Option<(u64, Ending)> {
    let mut reader = open_alone(fs, path).ok()?;
    while reader.next().ok()?.is_some() {}
    Some((reader.end(), reader.ending()))
}

fn only_zeros(fs: &dyn FileSystem, path: &Path, from: u64, to: u64) -> Result<bool> {
    let failed = |error| Error::io("read", path, &error);
    let file = fs.open_read(path).map_err(failed)?;
    let mut buffer = Vec::new();
    let mut at = from;
    while at < to {
        buffer.resize(CHUNK_BYTES.min(to - at) as usize, 0);
        file.read_exact_at(&mut buffer, at).map_err(failed)?;
        if buffer.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += buffer.len() as u64;
    }
    Ok(true)
}
