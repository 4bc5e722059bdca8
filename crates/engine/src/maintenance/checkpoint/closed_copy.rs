//! A copy of a data directory that nobody has open. It is made without opening it: no log is
//! replayed, nothing is flushed, and the directory stays as it is, but for the names its SSTables
//! get.
//!
//! 1. The lock of the directory is held meanwhile.
//! 2. The log is copied as it lies, torn tail and all, but for room that nothing was written to: what
//!    an open makes of the directory, it makes of the copy.
//! 3. `CURRENT` is written last, as of any checkpoint.

use super::{copy_segments, discard, link_ssts, prepare};
use crate::error::{Error, Result};
use crate::log::LogReader;
use crate::maintenance::check::lock;
use crate::manifest::{self, Edit, ManifestSet, State, StoreId};
use crate::recovery::check_log;
use base::env::{Env, FileSystem};
use std::path::Path;

/// What the copy of a store is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    /// By what the store is known by: it is the same store at a moment.
    SameStore,
    /// By an id of its own: it is another store from now on.
    OtherStore,
}

/// Copies the data directory `from`, which nobody has open, into `into`, which is new or empty and on
/// the same file system. SSTables get a second name and take no more room; the log is copied. The
/// copy is durable when this returns.
///
/// `Unusable` if `from` is in use, of a newer format or no data directory, or `into` is not empty;
/// `Corruption` if the manifest or the log does not read; `Io` if `into` is on another file system.
/// After an error what was written to `into` is removed, as far as that can be done, and it does not
/// open as a copy.
pub fn checkpoint_dir(env: &Env, from: &Path, into: &Path, copied: Copied) -> Result<()> {
    let fs = &*env.fs;
    let _lock = lock(fs, from)?;
    let mut state = load(fs, from)?;
    if copied == Copied::OtherStore {
        state.store = Some(draw(fs, into)?);
    }
    prepare(fs, into)?;
    let made = fill(env, from, into, &state);
    if made.is_err() {
        discard(fs, into);
    }
    made
}

/// What the store in `dir`, which nobody has open, is known by; it is given an id if it has none,
/// durably when this returns. Errors as of [`checkpoint_dir`].
pub fn store_id(env: &Env, dir: &Path) -> Result<StoreId> {
    let fs = &*env.fs;
    let _lock = lock(fs, dir)?;
    if let Some(store) = load(fs, dir)?.store {
        return Ok(store);
    }
    let manifest = ManifestSet::open(env.fs.clone(), dir)?;
    let store = super::store_of(&manifest, fs, dir)?;
    manifest.close()?;
    Ok(store)
}

fn load(fs: &dyn FileSystem, dir: &Path) -> Result<State> {
    manifest::load(fs, dir)?.ok_or_else(|| Error::Unusable {
        dir: dir.to_owned(),
        what: "no data directory: it has no CURRENT".to_owned(),
    })
}

pub(super) fn draw(fs: &dyn FileSystem, dir: &Path) -> Result<StoreId> {
    fs.unique().map(StoreId).map_err(|error| Error::io("draw an id for", dir, &error))
}

fn fill(env: &Env, from: &Path, into: &Path, state: &State) -> Result<()> {
    let fs = &*env.fs;
    let end = LogReader::open(env.fs.clone(), from)?.finish()?;
    check_log(from, state, &end)?;
    link_ssts(fs, from, into, state)?;
    copy_segments(fs, from, into, end.contents.keys().copied(), state)?;
    fs.sync_dir(into).map_err(|error| Error::io("sync", into, &error))?;
    manifest::create(fs, into, &state.without_change_logs())
}

/// The edit that gives the store of `state` an id, if it has none.
pub(super) fn naming(state: &State, fs: &dyn FileSystem, dir: &Path) -> Result<Vec<Edit>> {
    match state.store {
        Some(_) => Ok(Vec::new()),
        None => Ok(vec![Edit::Store(draw(fs, dir)?)]),
    }
}
