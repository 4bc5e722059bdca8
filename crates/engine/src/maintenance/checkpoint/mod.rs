//! A copy of a live engine at one moment, made of hard links.
//!
//! 1. SSTables never change, so a second name is a copy. No SSTable is deleted meanwhile
//!    (`Obsolete::pin`), so all are there that the manifest named at the moment of the checkpoint.
//! 2. The log does change: its files are used again. So it is sealed at the moment of the
//!    checkpoint, and the segments up to there are copied, while none of them is retired
//!    (`LogSegments::pin`).
//! 3. The moment is one while no group is committed: the checkpoint holds every write that was
//!    acknowledged before, of all trees, and none after. It is as durable as any. Commits wait for
//!    that moment only, and flushes and compactions for nothing: what they give up meanwhile is
//!    deleted afterwards.
//! 4. The copy keeps no changes for readers, nor the segments that hold them: what is written to it
//!    is another history, in which positions of the store's readers mean nothing.
//! 5. `CURRENT` is written last, when every other file and every name is on disk. So an open
//!    refuses a checkpoint that was not finished.

mod closed_copy;
mod contents;

pub use closed_copy::{Copied, checkpoint_dir, store_id};
pub use contents::{ContentFile, Contents, DirFile, Point, contents, make_current, note_copies};

use crate::cell::SequenceNumber;
use crate::error::{Error, Result};
use crate::files::{copy_note, copy_start};
use crate::health::failure_policy::Task;
use crate::log::{LogItem, SegmentNumber, written_len};
use crate::manifest::{self, ManifestSet, State, StoreId};
use crate::state::Shared;
use base::env::FileSystem;
use std::path::Path;

/// See [`crate::Engine::store_id`].
pub(crate) fn id_of_open_store(shared: &Shared) -> Result<StoreId> {
    store_of(&shared.manifest, &*shared.env.fs, &shared.dir)
}

/// See [`crate::Engine::checkpoint`].
pub(crate) fn checkpoint(shared: &Shared, into: &Path) -> Result<()> {
    let fs = &*shared.env.fs;
    prepare(fs, into)?;
    let made = fill(shared, into);
    // What was given up meanwhile.
    shared.obsolete.collect();
    shared.retire_log();
    if made.is_err() {
        discard(fs, into);
    }
    made.map_err(|error| shared.failed(Task::Checkpoint, error))
}

fn fill(shared: &Shared, into: &Path) -> Result<()> {
    let fs = &*shared.env.fs;
    // Before the manifest is asked: what it names then is not deleted.
    let _pinned = (shared.obsolete.pin(), shared.log_segments.pin());
    let (state, segments) =
        shared.commits.sealed(|| Ok((shared.manifest.state(), shared.log_segments.numbers())))?;
    link_ssts(fs, &shared.dir, into, &state)?;
    copy_segments(fs, &shared.dir, into, segments, &state)?;
    fs.sync_dir(into).map_err(|error| Error::io("sync", into, &error))?;
    manifest::create(fs, into, &state.without_change_logs())
}

/// Makes the directory, which is new or empty.
pub(crate) fn prepare(fs: &dyn FileSystem, into: &Path) -> Result<()> {
    if fs.exists(into).map_err(|error| Error::io("open", into, &error))? {
        let names = fs.list(into).map_err(|error| Error::io("list", into, &error))?;
        if !names.is_empty() {
            let what = "it is not empty; choose a new directory".to_owned();
            return Err(Error::Unusable { dir: into.to_owned(), what });
        }
    }
    fs.create_dir_all(into).map_err(|error| Error::io("create", into, &error))?;
    manifest::sync_parents(fs, into)
}

/// Makes the name of the directory `dir` durable, and those of the directories above it, which may be
/// new as well. Those that cannot be synced by this user were there before.
pub fn sync_names_above(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    manifest::sync_parents(fs, dir)
}

/// Removes what was written to the directory, which was empty. What cannot be removed does not make
/// it one that opens: `CURRENT` goes first.
pub(crate) fn discard(fs: &dyn FileSystem, into: &Path) {
    let mut names = fs.list(into).unwrap_or_default();
    names.sort_by_key(|name| name.as_os_str() != manifest::current::CURRENT);
    for name in names {
        let _ = fs.remove_file(&into.join(name));
    }
}

/// What the store is known by; it is given an id if it has none.
fn store_of(manifest: &ManifestSet, fs: &dyn FileSystem, dir: &Path) -> Result<StoreId> {
    if let Some(store) = manifest.state().store {
        return Ok(store);
    }
    let state = manifest.change(|state| closed_copy::naming(state, fs, dir))?;
    Ok(state.store.expect("it was given an id"))
}

/// The sequence number of the last mutation of a batch, which is decoded for it.
fn last_of(dir: &Path, item: &LogItem<'_>) -> Result<SequenceNumber> {
    let batch = crate::recovery::decode(dir, item)?;
    Ok(SequenceNumber(item.record.first.0.saturating_add(batch.len() as u64 - 1)))
}

/// Copies the segments that are needed, without the room that is reserved in them. Their content is on disk then, their names are not.
fn copy_segments(
    fs: &dyn FileSystem,
    dir: &Path,
    into: &Path,
    segments: impl IntoIterator<Item = SegmentNumber>,
    state: &State,
) -> Result<()> {
    for segment in segments.into_iter().filter(|segment| *segment >= state.log_from) {
        let path = segment.path(dir);
        copy_start(fs, &path, &segment.path(into), written_len(fs, &path)?)?;
    }
    Ok(())
}

/// Gives the SSTables of `state` second names, and copies the notes of its copied trees. A note that does
/// not read is made of what the SSTables tell.
fn link_ssts(fs: &dyn FileSystem, dir: &Path, into: &Path, state: &State) -> Result<()> {
    let unread = copy_note::copy_notes(fs, dir, into, |tree| state.trees.contains_key(&tree))?;
    if !unread.is_empty() {
        contents::write_notes(fs, dir, into, state, |tree| unread.contains(&tree))?;
    }
    for number in state.files() {
        let (from, to) = (number.sst_path(dir), number.sst_path(into));
        fs.hard_link(&from, &to).map_err(|error| Error::io("link", &to, &error))?;
    }
    Ok(())
}
