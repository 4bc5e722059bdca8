//! One tree while the engine is open: its current view, and how views follow each other.
//!
//! Invariants:
//! 1. Views are replaced, never changed; `view` is locked only to copy or replace the `Arc`.
//! 2. The active memtable is written, and frozen, only by whoever holds `Commits::applying`
//!    (commit.rs): no batch is split between two memtables.
//! 3. The manifest's version and the view follow each other under `installing`, so that views come
//!    in the order of versions.
//! 4. Frozen memtables are flushed oldest first, one at a time, so that level 0 stays in the
//!    order of commits.

use crate::batch::FrozenBatch;
use crate::cell::{SequenceNumber, TreeId};
use crate::compaction::pick::Busy;
use crate::elide::{ElisionRules, KeepAll};
use crate::error::Error;
use crate::manifest::{FileNumber, LogPosition, TreeVersion};
use crate::sstable::SstReader;
use crate::view::{OpenRun, ReadView};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;

/// See the file header.
pub(crate) struct Tree {
    pub(crate) id: TreeId,
    view: RwLock<Arc<ReadView>>,
    rules: RwLock<Arc<dyn ElisionRules>>,
    pub(crate) work: Mutex<Work>,
    /// Held while a change of files goes to the manifest and then to the view (invariant 3).
    pub(crate) installing: Mutex<()>,
}

/// The background work of a tree.
#[derive(Default)]
pub(crate) struct Work {
    /// A flush is queued or runs.
    pub(crate) flushing: bool,
    /// Compactions that are queued or run.
    pub(crate) compactions: usize,
    /// What those that run hold.
    pub(crate) busy: Busy,
    /// The tree is being dropped; no new work starts.
    pub(crate) dropped: bool,
    /// Why the last flush or compaction failed; cleared by the next success.
    pub(crate) failure: Option<Error>,
}

impl Tree {
    /// A tree of these files with an empty memtable.
    pub(crate) fn new(id: TreeId, version: Arc<TreeVersion>, runs: Vec<OpenRun>) -> Self {
        let view = ReadView::new(Arc::default(), Vec::new(), version, runs);
        Self {
            id,
            view: RwLock::new(Arc::new(view)),
            rules: RwLock::new(Arc::new(KeepAll)),
            work: Mutex::default(),
            installing: Mutex::default(),
        }
    }

    /// The current view.
    pub(crate) fn view(&self) -> Arc<ReadView> {
        Arc::clone(&self.view.read())
    }

    pub(crate) fn rules(&self) -> Arc<dyn ElisionRules> {
        Arc::clone(&self.rules.read())
    }

    pub(crate) fn set_rules(&self, rules: Arc<dyn ElisionRules>) {
        *self.rules.write() = rules;
    }

    /// Applies a committed batch (see `Memtable::apply`). Only for the commit leader and recovery.
    pub(crate) fn apply(&self, batch: &FrozenBatch, first: SequenceNumber, position: LogPosition) {
        let active = Arc::clone(&self.view.read().active);
        active.apply(batch, first, position);
    }

    /// Freezes the active memtable unless it is empty. Only between groups (invariant 2).
    pub(crate) fn freeze(&self) {
        let mut current = self.view.write();
        if current.active.is_empty() {
            return;
        }
        let mut frozen = vec![Arc::clone(&current.active)];
        frozen.extend(current.frozen.iter().cloned());
        let (version, runs) = (Arc::clone(&current.version), current.files.clone());
        let active = Arc::new(current.active.successor());
        *current = Arc::new(ReadView::new(active, frozen, version, runs));
    }

    /// Replaces the files by those of `version`, and takes away the frozen memtables up to its
    /// flushed position, whose entries the new files hold. Each file is open in the current view
    /// or among `opened`. Under `installing` (invariant 3).
    pub(crate) fn install(&self, version: Arc<TreeVersion>, opened: &[Arc<SstReader>]) {
        let mut current = self.view.write();
        let open: HashMap<FileNumber, &Arc<SstReader>> = (current.files.iter())
            .flat_map(|run| run.iter())
            .chain(opened)
            .map(|sst| (sst.number(), sst))
            .collect();
        let files = version.runs().map(|run| {
            let ssts = run.ssts.iter().map(|sst| {
                let sst = open.get(&sst.number);
                Arc::clone(sst.expect("a file joins a version only when it was opened"))
            });
            ssts.collect()
        });
        let files = files.collect();
        let mut frozen = current.frozen.clone();
        frozen.retain(|memtable| memtable.position() > version.flushed);
        let active = Arc::clone(&current.active);
        *current = Arc::new(ReadView::new(active, frozen, version, files));
    }
}
