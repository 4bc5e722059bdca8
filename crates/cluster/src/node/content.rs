//! The content of a replica, which a removal must not take along if its table may be there.
//!
//! A directory that was restored from a backup may have the intent of a creation that was carried out since. Its
//! removal is not newer than the schema of the group; the removal of a deletion is. A group that was created for
//! nothing has no rows, so its replicas may go all the same.

use super::log_writes::{self, from_log, log_group};
use super::open::Shared;
use crate::format::{Command, Descriptor};
use crate::group::GroupId;
use engine::{RowRange, ScanRequest};
use std::sync::Arc;
use table::{Error, Result};

/// Bytes of entries that are looked at at a time.
const READ_BYTES: usize = 1 << 20;

impl Shared {
    /// Checks that a removal of this version may take the replica of a group along. `AlreadyExists` if it may not.
    pub(super) async fn check_may_go(self: &Arc<Self>, group: GroupId, version: u64) -> Result<()> {
        let Some(alive) = log_writes::alive(&self.log, group) else { return Ok(()) };
        let known = Descriptor::decode(&alive.descriptor);
        if known.is_ok_and(|known| known.schema_version < version) {
            return Ok(());
        }
        let shared = Arc::clone(self);
        let stays = self.blocking(move || shared.has_rows(group, alive.last.index)).await?;
        match stays {
            true => Err(Error::AlreadyExists {
                what: "resource",
                name: format!("group {} with rows of a table", group.0),
            }),
            false => Ok(()),
        }
    }

    /// Returns whether a replica, whose log goes to `last`, may have rows. Blocks.
    fn has_rows(&self, group: GroupId, last: u64) -> Result<bool> {
        // A replica that lost what it had cannot tell.
        let Some(hosted) = self.replicas.of_group(group) else { return Ok(true) };
        // Before the trees are looked at: they have what is applied meanwhile.
        let mut next = hosted.applied() + 1;
        while next <= last {
            let read = self.log.entries(log_group(group), next..last + 1, READ_BYTES)?;
            // An entry that cannot be looked at, or whose kind is not known, may be one of rows.
            let Some(read) = read.filter(|read| !read.is_empty()) else { return Ok(true) };
            for entry in read {
                next = entry.index + 1;
                let Some(entry) = from_log(entry) else { return Ok(true) };
                let is_schema =
                    matches!(Command::decode(&entry.command), Ok(Command::Schema { .. }));
                if !entry.command.is_empty() && !is_schema {
                    return Ok(true);
                }
            }
        }
        let request = ScanRequest::rows(RowRange::ALL);
        for tree in &hosted.trees {
            if tree.scan(&request, None)?.next_row()?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
