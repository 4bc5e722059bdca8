//! The counters of a directory: ids of trees and nodes, and versions of schemas, each given once.
//!
//! 1. A counter only grows, in one directory. A directory that was restored from an older backup has smaller
//!    counters than were given.
//! 2. So each node raises them above all that it uses itself ([`raise`]) before it shows its sign of life,
//!    and takes none for itself that is below ([`Used`]).

use super::error::{Error, Result};
use super::records::{decode_counter, encode_counter};
use super::{Change, Directory, Key, Outcome, Revision, Write};

/// Times that a counter is tried again because another node was faster.
const CHANGES_MAX: u32 = 32;

/// The numbers that a node uses, which must not be given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// Largest id of a tree; 0 without any.
    pub tree: u64,
    /// Largest version of a schema; 0 without any.
    pub version: u64,
    /// Largest id of a node; 0 without any.
    pub node: u64,
}

/// Takes `count` numbers from the counter under `key`, which begins at `least`, and returns the first.
pub(super) async fn take(
    directory: &dyn Directory,
    key: &Key,
    least: u64,
    count: u64,
) -> Result<u64> {
    for _ in 0..CHANGES_MAX {
        let (next, revision) = next_of(directory, key).await?;
        let first = next.unwrap_or(0).max(least);
        let next = first.checked_add(count);
        let next = next.ok_or_else(|| Error::Full(format!("all numbers of {key} are used up")))?;
        if set(directory, key, revision, next).await? {
            return Ok(first);
        }
    }
    Err(Error::Conflict(format!("{key} is changed again and again")))
}

/// Raises counters that would give numbers of `used` again. Returns true if there were any.
pub(super) async fn raise(directory: &dyn Directory, used: Used) -> Result<bool> {
    let counters = directory.read(Key::COUNTERS).await?.items;
    let mut raised = false;
    for (key, used) in
        [(Key::NextTree, used.tree), (Key::NextVersion, used.version), (Key::NextNode, used.node)]
    {
        let name = key.to_string();
        let next = counters.iter().find(|item| item.key == name);
        let next = next.map(|item| decode_counter(&key, &item.value)).transpose()?;
        if used > 0 && next.is_none_or(|next| next <= used) {
            raised |= raise_one(directory, &key, used).await?;
        }
    }
    Ok(raised)
}

async fn raise_one(directory: &dyn Directory, key: &Key, used: u64) -> Result<bool> {
    for _ in 0..CHANGES_MAX {
        let (next, revision) = next_of(directory, key).await?;
        if next.is_some_and(|next| next > used) {
            return Ok(false);
        }
        if set(directory, key, revision, used.saturating_add(1)).await? {
            return Ok(true);
        }
    }
    Err(Error::Conflict(format!("{key} is changed again and again")))
}

/// Returns the next number of a counter, None for one that has begun nowhere, and its revision.
async fn next_of(directory: &dyn Directory, key: &Key) -> Result<(Option<u64>, Revision)> {
    match directory.get(key).await?.item() {
        Some(item) => Ok((Some(decode_counter(key, &item.value)?), item.revision)),
        None => Ok((None, Revision(0))),
    }
}

async fn set(directory: &dyn Directory, key: &Key, was: Revision, next: u64) -> Result<bool> {
    let change = Change::default().expect(key, was).write(Write::put(key, encode_counter(next)));
    Ok(matches!(directory.change(change).await?, Outcome::Done(_)))
}
