//! Trees, parts of trees and pages that nothing names any more, and the task that drops them.
//!
//! 1. What becomes garbage wakes the task, wherever its last user was: a read that ended long after the table was
//!    dropped, or a transaction that was rolled back.
//! 2. One caller cleans up at a time, so who waits for [`Database::drop_garbage`] finds all dropped that was
//!    garbage before.
//! 3. The task does not keep the database open.
//! 4. What could not be dropped stays in the list, and is tried again with what becomes garbage next.

use super::page_keys::page_rows;
use super::{Batches, Database, blocking};
use crate::error::Result;
use crate::format::key::after_prefix;
use crate::format::segment::load_key;
use parking_lot::Mutex;
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// Segments of a columnar table whose pages are written.
#[derive(Debug, Clone)]
pub(super) struct Load {
    /// The tree of the table.
    pub(super) tree: u32,
    /// The tree of its pages.
    pub(super) pages: u32,
    pub(super) segments: RangeInclusive<u64>,
}

impl Load {
    /// Adds to a write that the pages are removed, and the note of them.
    pub(super) fn remove(&self, batches: &mut Batches) {
        let rows = page_rows(&self.segments);
        batches.delete_range(self.pages, &rows.start, rows.end.as_deref());
        batches.delete(self.tree, &load_key(&self.segments));
    }
}

/// Trees and parts of trees to be dropped.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    items: Mutex<Items>,
    wake: Notify,
    cleaning: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Items {
    trees: Vec<u32>,
    parts: Vec<(u32, u16)>,
    loads: Vec<Load>,
}

impl Items {
    fn is_empty(&self) -> bool {
        self.trees.is_empty() && self.parts.is_empty() && self.loads.is_empty()
    }

    fn append(&mut self, mut more: Self) {
        self.trees.append(&mut more.trees);
        self.parts.append(&mut more.parts);
        self.loads.append(&mut more.loads);
    }
}

impl Garbage {
    /// Adds a tree that is owned by no table. Its intent is written.
    pub(super) fn add_tree(&self, tree: u32) {
        self.items.lock().trees.push(tree);
        self.wake.notify_one();
    }

    /// Adds a part of a tree that no index has, nor ever will have.
    pub(super) fn add_part(&self, tree: u32, part: u16) {
        self.items.lock().parts.push((tree, part));
        self.wake.notify_one();
    }

    /// Adds pages that no commit has, nor ever will have.
    pub(super) fn add_load(&self, load: Load) {
        self.items.lock().loads.push(load);
        self.wake.notify_one();
    }

    /// Lets the task try again what it could not drop.
    pub(crate) fn retry(&self) {
        if !self.items.lock().is_empty() {
            self.wake.notify_one();
        }
    }

    /// Lets the task see that the database is closed.
    pub(super) fn close(&self) {
        self.wake.notify_one();
    }
}

impl Database {
    /// Drops what nothing names any more. What could not be dropped is tried again later.
    pub(crate) async fn drop_garbage(self: &Arc<Self>) {
        let _one_at_a_time = self.garbage.cleaning.lock().await;
        let items = std::mem::take(&mut *self.garbage.items.lock());
        if items.is_empty() {
            return;
        }
        let database = Arc::clone(self);
        match blocking(move || Ok(database.drop_items(items))).await {
            Ok(left) => self.garbage.items.lock().append(left),
            Err(error) => tracing::warn!(%error, "garbage stays until the next start"),
        }
    }

    /// Drops garbage, and returns what could not be dropped. Blocks.
    fn drop_items(&self, items: Items) -> Items {
        let Items { mut trees, mut parts, mut loads } = items;
        let is_left = |dropped: Result<()>| {
            dropped.is_err_and(|error| {
                tracing::warn!(%error, "could not drop what no table has any more; it is tried again");
                true
            })
        };
        parts.retain(|(tree, part)| !trees.contains(tree) && is_left(self.drop_part(*tree, *part)));
        loads.retain(|load| !trees.contains(&load.tree) && is_left(self.drop_load(load)));
        if !trees.is_empty() && !is_left(self.store.drop_trees(&trees)) {
            trees.clear();
        }
        Items { trees, parts, loads }
    }

    fn drop_part(&self, tree: u32, part: u16) -> Result<()> {
        // A tree that is gone has no entries.
        if self.store.keys(tree).is_err() {
            return Ok(());
        }
        let mut batches = self.store.batches();
        clear_part(&mut batches, tree, part);
        self.store.write_blocking(batches)
    }

    fn drop_load(&self, load: &Load) -> Result<()> {
        if self.store.keys(load.tree).is_err() {
            return Ok(());
        }
        let mut batches = self.store.batches();
        load.remove(&mut batches);
        self.store.write_blocking(batches)?;
        self.store.page_keys(load.pages)?.flush()
    }
}

/// Adds to a write that all entries of a part are removed.
pub(crate) fn clear_part(batches: &mut Batches, tree: u32, part: u16) {
    let prefix = part.to_be_bytes();
    batches.delete_range(tree, &prefix, after_prefix(&prefix).as_deref());
}

/// Drops garbage as it comes, for as long as the database is open.
pub(super) async fn clean_up(garbage: Arc<Garbage>, database: Weak<Database>) {
    loop {
        garbage.wake.notified().await;
        let Some(database) = database.upgrade() else { return };
        database.drop_garbage().await;
    }
}
