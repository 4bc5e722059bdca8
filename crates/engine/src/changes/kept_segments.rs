//! Kept segments of an earlier process: what the log must know of them when a store is opened.

use crate::cell::TreeId;
use crate::error::Result;
use crate::log::{self, FirstBatch, RecordKind, SegmentNumber};
use crate::state::Shared;
use base::env::FileSystem;
use std::path::Path;

/// Goes on keeping the changes that the manifest names, and looks at the segments that are kept. One
/// that does not read stays as it is: who reads its changes is told.
pub(crate) fn resume(shared: &Shared) {
    let state = shared.manifest.state();
    let logs = state.change_logs().map(|(tree, log)| (tree, log.retention_micros));
    let followed: Vec<(TreeId, u64)> = logs.collect();
    if followed.is_empty() {
        return;
    }
    shared.log_segments.follow(&followed);
    for segment in shared.log_segments.kept() {
        match look(&*shared.env.fs, &shared.dir, segment) {
            Ok(Some((first, bytes))) => shared.log_segments.note_first(segment, first, bytes),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "a segment of kept changes does not read"),
        }
    }
}

/// The first batch of a kept segment, and the bytes of the file.
fn look(
    fs: &dyn FileSystem,
    dir: &Path,
    segment: SegmentNumber,
) -> Result<Option<(FirstBatch, u64)>> {
    let mut reader = log::open_kept(fs, dir, segment)?;
    let bytes = reader.file_bytes();
    while let Some(item) = reader.next()? {
        if matches!(item.kind, RecordKind::Batch | RecordKind::Batches) {
            let first =
                FirstBatch { sequence: item.record.first, commit_time: item.record.commit_time };
            return Ok(Some((first, bytes)));
        }
    }
    Ok(None)
}
