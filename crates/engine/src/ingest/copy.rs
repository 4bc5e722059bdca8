//! A second tree with the cells of a first: the same SSTables under second names.
//!
//! 1. SSTables never change, so that a second name is a copy. It takes no room until one of the two trees
//!    is compacted.
//! 2. The copy holds every batch that was committed before the call, and of later ones those up to some
//!    moment: the files of a tree hold all its batches up to their flushed position.
//! 3. The id of the copy is larger than that of its source: so a file is known to be of its tree, though it
//!    names the one that it was written for (`sstable::format::origin`).
//! 4. The manifest names the files after their names are on disk. A crash before leaves names that no
//!    manifest knows, which the next open removes.

use crate::background::by_hand;
use crate::cell::TreeId;
use crate::error::{Error, Result};
use crate::health::failure_policy::Task;
use crate::manifest::{Edit, SstMeta, TreeVersion, is_in_doubt};
use crate::sstable::SstReader;
use crate::state::Shared;
use crate::state::tree_ddl;
use crate::tree::TreeState;
use crate::tree::read_view::OpenRun;
use std::path::PathBuf;
use std::sync::Arc;

/// Does the work of [`crate::Tree::copy_to`].
pub(crate) fn copy_tree(shared: &Arc<Shared>, from: &Arc<TreeState>, to: TreeId) -> Result<()> {
    if shared.is_closing() {
        return Err(Error::Closed);
    }
    shared.health.check()?;
    if to < from.id {
        let text = format!("a copy of tree {} needs a larger id than {}", from.id.0, to.0);
        return Err(Error::InvalidArgument(text));
    }
    by_hand::flush_and_wait(shared, from)?;
    let copied = copy_files(shared, from.id, to);
    // Files that were given up meanwhile.
    shared.obsolete.collect();
    copied.map_err(|error| shared.failed(Task::Checkpoint, error))
}

/// Gives the files of `from` second names, and makes the tree `to` of them.
fn copy_files(shared: &Shared, from: TreeId, to: TreeId) -> Result<()> {
    // Before the manifest is asked: no file that it names then is deleted.
    let _pinned = shared.obsolete.pin();
    let state = shared.manifest.state();
    let version = state.tree(from).ok_or(Error::UnknownTree(from))?;
    let mut made = Vec::new();
    let linked = link(shared, version, to, &mut made).and_then(|linked| {
        let fs = &*shared.env.fs;
        fs.sync_dir(&shared.dir).map_err(|error| Error::io("sync", &shared.dir, &error))?;
        Ok(linked)
    });
    let (edits, runs) = linked.inspect_err(|_| remove(shared, &made))?;
    let created = tree_ddl::create_tree_of(shared, to, version.options.clone(), edits, runs);
    created.inspect_err(|error| {
        if !is_in_doubt(error) {
            remove(shared, &made);
        }
    })
}

/// Removes names that no manifest knows. The next open removes the rest.
fn remove(shared: &Shared, made: &[PathBuf]) {
    for path in made {
        let _ = shared.env.fs.remove_file(path);
    }
}

/// Edits that add files to a tree, and the files, open, run by run.
type Linked = (Vec<Edit>, Vec<OpenRun>);

/// Links every file of `version` under a new number, and adds the name to `made`. Returns what makes the
/// tree `to` of them.
fn link(
    shared: &Shared,
    version: &TreeVersion,
    to: TreeId,
    made: &mut Vec<PathBuf>,
) -> Result<Linked> {
    let (mut edits, mut runs) = (Vec::new(), Vec::new());
    for (level, level_runs) in version.levels.iter().enumerate() {
        for run in level_runs {
            let mut open = Vec::with_capacity(run.ssts.len());
            for sst in &run.ssts {
                let (meta, reader) = link_file(shared, sst, made)?;
                edits.push(Edit::AddSst { tree: to, level, run: run.id, meta });
                open.push(reader);
            }
            runs.push(open.into_iter().collect());
        }
    }
    edits.push(Edit::Flushed { tree: to, position: version.flushed });
    Ok((edits, runs))
}

/// Links a file under a new number, and opens it there.
fn link_file(
    shared: &Shared,
    sst: &SstMeta,
    made: &mut Vec<PathBuf>,
) -> Result<(SstMeta, Arc<SstReader>)> {
    let number = shared.manifest.new_file()?;
    let (old, new) = (sst.number.sst_path(&shared.dir), number.sst_path(&shared.dir));
    let linked = shared.env.fs.hard_link(&old, &new);
    linked.map_err(|error| Error::io("link", &new, &error))?;
    made.push(new.clone());
    let file = shared.open_files.open(&new);
    let file = file.map_err(|error| Error::io("open", &new, &error))?;
    let reader = SstReader::open(file, &new, number, Arc::clone(&shared.cache))?;
    let reader = SstReader::with_read_path(reader, shared.options.read_path);
    let reader = SstReader::numbered(reader, sst.sequence_max);
    Ok((SstMeta { number, ..sst.clone() }, reader))
}
