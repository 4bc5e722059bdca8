//! Changes of trees, in the order of their commits, read from the commit log while it is written and
//! from its retired segments.
//!
//! In: which trees keep their changes, and for how long ([`keep`]). Out: batches as they were
//! committed ([`ChangeReader`]), and positions from which to go on, also in a later process. May use
//! `log` (segments), `manifest` (change logs), `write` (what is published) and `state`.
//!
//! 1. A writer pays nothing: a change is its record in the log. A segment with changes that are kept
//!    outlives the log's need of it (`log::segments`, rule 3).
//! 2. A reader sees a batch when it is on disk and published: what was given once is never taken
//!    back by a crash, and a sequence number below a reader's position is never given again.
//! 3. After a failed append or sync a batch may be in the log that no reader saw. It becomes a change if
//!    the next open recovers it: what reads see and what changes tell is the same.
//! 4. A reader holds no snapshot and no file that the log needs, and at most a window of a segment or
//!    one record.
//! 5. A change log has a beginning, `since`: a tree that keeps its changes again has another, and
//!    readers of the old one end.

mod change;
mod change_reader;
pub(crate) mod kept_segments;
mod log_follower;

pub use change::{Change, ChangeBatch};
pub use change_reader::{ChangePosition, ChangeReader, Changes, ReadUpTo};

use crate::cell::TreeId;
use crate::error::{Error, Result};
use crate::manifest::{ChangeLog, Edit};
use crate::state::Shared;
use std::time::Duration;

/// Longest time for which changes are kept: a hundred years.
const RETENTION_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Begins to keep changes; see [`crate::Engine::keep_changes`].
pub(crate) fn keep(shared: &Shared, trees: &[TreeId], retention: Duration) -> Result<ChangeLog> {
    if retention.is_zero() || retention > RETENTION_MAX {
        let text = "changes are kept for at least a microsecond and at most a hundred years";
        return Err(Error::InvalidArgument(text.to_owned()));
    }
    let retention_micros = u64::try_from(retention.as_micros()).unwrap_or(u64::MAX).max(1);
    // The log keeps what is committed from now on; the change logs begin after that.
    let followed: Vec<_> = trees.iter().map(|tree| (*tree, retention_micros)).collect();
    shared.log_segments.follow(&followed);
    let began = shared.commits.settle().map_err(|error| shared.log_failed(error));
    let kept = began.and_then(|(since, micros)| {
        // The next change log begins at a later time.
        let since_micros = micros + 1;
        shared.commits.note_time(since_micros);
        let fresh = ChangeLog { since, since_micros, retention_micros };
        let mut first = None;
        let changed = shared.manifest.change(|state| {
            let edits = trees.iter().map(|tree| {
                let version = state.tree(*tree).ok_or(Error::UnknownTree(*tree))?;
                let before = version.change_log.unwrap_or(fresh);
                let log = ChangeLog { retention_micros, ..before };
                first.get_or_insert(log);
                Ok(Edit::KeepChanges { tree: *tree, log: Some(log) })
            });
            edits.collect()
        });
        changed.map_err(|error| shared.manifest_failed(error))?;
        Ok(first.unwrap_or(fresh))
    });
    shared.follow_changes(trees);
    kept
}

/// Ends the keeping of changes; see [`crate::Engine::forget_changes`].
pub(crate) fn forget(shared: &Shared, trees: &[TreeId]) -> Result<()> {
    let changed = shared.manifest.change(|state| {
        let kept = |tree: &&TreeId| state.tree(**tree).is_some_and(|v| v.change_log.is_some());
        let kept = trees.iter().filter(kept);
        Ok(kept.map(|tree| Edit::KeepChanges { tree: *tree, log: None }).collect())
    });
    changed.map_err(|error| shared.manifest_failed(error))?;
    shared.follow_changes(trees);
    shared.give_up_changes();
    Ok(())
}
