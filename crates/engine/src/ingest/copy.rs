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
//! 5. Before a file has its second name, a note on disk says that the name is the copy's
//!    (`files::copy_note`).

use crate::background::by_hand;
use crate::cell::TreeId;
use crate::error::{Error, Result};
use crate::files::FileNumber;
use crate::files::copy_note::{self, CopyNote};
use crate::health::failure_policy::Task;
use crate::manifest::{Edit, SstMeta, TreeVersion, is_in_doubt};
use crate::sstable::SstReader;
use crate::state::Shared;
use crate::state::tree_ddl;
use crate::tree::TreeState;
use crate::tree::read_view::OpenRun;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Does the work of [`crate::Tree::copy_to`]. No other call may create a tree `to` meanwhile.
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
    if state.trees.contains_key(&to) || state.used.contains_key(&to) {
        // Before anything is written: the note of the tree that has the id stays as it is.
        return Err(Error::InvalidArgument(format!("tree {} was created before", to.0)));
    }
    let version = state.tree(from).ok_or(Error::UnknownTree(from))?;
    let ssts = version.runs().flat_map(|run| &run.ssts);
    let numbers = ssts.map(|_| shared.manifest.new_file()).collect::<Result<BTreeSet<_>>>()?;
    remove_earlier_try(shared, to)?;
    let linked = announce(shared, to, &numbers).and_then(|()| {
        let linked = link(shared, version, to, numbers.iter().copied())?;
        sync_names(shared)?;
        Ok(linked)
    });
    let give_up = || {
        // If that fails, the next try does it, or the next open.
        let _ = remove(shared, to, &numbers);
    };
    let (edits, runs) = linked.inspect_err(|_| give_up())?;
    let created = tree_ddl::create_tree_of(shared, to, version.options.clone(), edits, runs);
    created.inspect_err(|error| {
        if !is_in_doubt(error) {
            give_up();
        }
    })
}

/// Removes what a try before left of the tree `to`, which the manifest does not name: its note would be
/// replaced, and its files would be the source's or the copy's.
fn remove_earlier_try(shared: &Shared, to: TreeId) -> Result<()> {
    let note = match copy_note::read(&*shared.env.fs, &shared.dir, to) {
        Ok(None) => return Ok(()),
        Ok(Some(note)) => note,
        // Nothing tells which files it named: the next open removes all that no tree has.
        Err(Error::Corruption(damage)) => {
            let text = format!("{damage}; open the store again before a copy to tree {}", to.0);
            return Err(Error::InvalidArgument(text));
        }
        Err(error) => return Err(error),
    };
    // Else the manifest on disk may name the tree and its files.
    shared.manifest.check_writable()?;
    remove(shared, to, &note.numbers)
}

/// Writes the note of the copy, if it is to have files; on disk when this returns.
fn announce(shared: &Shared, to: TreeId, numbers: &BTreeSet<FileNumber>) -> Result<()> {
    if numbers.is_empty() {
        return Ok(());
    }
    let note = CopyNote { tree: to, numbers: numbers.clone() };
    note.write(&*shared.env.fs, &shared.dir)?;
    sync_names(shared)
}

fn sync_names(shared: &Shared) -> Result<()> {
    let synced = shared.env.fs.sync_dir(&shared.dir);
    synced.map_err(|error| Error::io("sync", &shared.dir, &error))
}

/// Removes names that no manifest knows, and then their note, which stays as long as one of them does.
/// The next open removes the rest.
fn remove(shared: &Shared, to: TreeId, numbers: &BTreeSet<FileNumber>) -> Result<()> {
    let remove = |path: &Path| match shared.env.fs.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", path, &error))
        }
        _ => Ok(()),
    };
    // Each is tried, whatever becomes of the others.
    let removed = numbers.iter().map(|number| remove(&number.sst_path(&shared.dir)));
    removed.fold(Ok(()), Result::and)?;
    sync_names(shared)?;
    remove(&copy_note::path(&shared.dir, to))
}

/// Edits that add files to a tree, and the files, open, run by run.
type Linked = (Vec<Edit>, Vec<OpenRun>);

/// Links every file of `version` under one of `numbers`, which are as many. Returns what makes the tree
/// `to` of them.
fn link(
    shared: &Shared,
    version: &TreeVersion,
    to: TreeId,
    mut numbers: impl Iterator<Item = FileNumber>,
) -> Result<Linked> {
    let (mut edits, mut runs) = (Vec::new(), Vec::new());
    for (level, level_runs) in version.levels.iter().enumerate() {
        for run in level_runs {
            let mut open = Vec::with_capacity(run.ssts.len());
            for sst in &run.ssts {
                let number = numbers.next().expect("a number for each file");
                let (meta, reader) = link_file(shared, sst, number)?;
                edits.push(Edit::AddSst { tree: to, level, run: run.id, meta });
                open.push(reader);
            }
            runs.push(open.into_iter().collect());
        }
    }
    edits.push(Edit::Flushed { tree: to, position: version.flushed });
    Ok((edits, runs))
}

/// Links a file under `number`, and opens it there.
fn link_file(
    shared: &Shared,
    sst: &SstMeta,
    number: FileNumber,
) -> Result<(SstMeta, Arc<SstReader>)> {
    let (old, new) = (sst.number.sst_path(&shared.dir), number.sst_path(&shared.dir));
    let linked = shared.env.fs.hard_link(&old, &new);
    linked.map_err(|error| Error::io("link", &new, &error))?;
    let file = shared.open_files.open(&new);
    let file = file.map_err(|error| Error::io("open", &new, &error))?;
    let reader = SstReader::open(file, &new, number, Arc::clone(&shared.cache))?;
    let reader = SstReader::with_read_path(reader, shared.options.read_path);
    let reader = SstReader::numbered(reader, sst.sequence_max);
    Ok((SstMeta { number, ..sst.clone() }, reader))
}
