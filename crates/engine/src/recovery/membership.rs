//! Decides whether a directory may be opened as that of a node, or of a single server, and marks a new
//! one.
//!
//! A node's directory holds less than was acknowledged to clients: the rest is in the log of its groups.
//! Opened without it, the directory would give old answers, and two nodes with copies of one directory
//! would vote twice. So each kind is opened only as what it is.

use crate::error::{Error, Result};
use crate::log;
use crate::manifest::{Edit, ManifestSet, Member};
use base::env::FileSystem;
use std::path::Path;

/// Refuses a directory that is not that of `wanted`, `None` for a single server. Marks one that was
/// never used, durably.
pub(super) fn settle(
    fs: &dyn FileSystem,
    dir: &Path,
    manifest: &ManifestSet,
    wanted: Option<Member>,
) -> Result<()> {
    let state = manifest.state();
    let what = match (wanted, state.member) {
        (None, None) => return Ok(()),
        (Some(wanted), Some(found)) if wanted == found => return Ok(()),
        (None, Some(found)) => format!(
            "it is the directory of {found}, and holds only a part of its data; start that node with \
             it, or choose another directory"
        ),
        (Some(wanted), Some(found)) => format!(
            "it is the directory of {found}, not of {wanted}; give each node its own directory, and \
             a new node an empty one"
        ),
        (Some(wanted), None) => {
            let trees = state.trees.len() + state.used.len();
            let is_new = trees == 0 && state.owner.is_none() && state.store.is_none();
            if is_new && log::is_empty(fs, dir)? {
                return manifest.install(&[Edit::Member(wanted)]).map(drop);
            }
            format!(
                "it holds the data of a single server, not of {wanted}; choose an empty directory \
                 for the node"
            )
        }
    };
    Err(Error::Unusable { dir: dir.to_owned(), what })
}
