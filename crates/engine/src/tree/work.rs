//! The background work of a tree: what runs, what failed, and what is set aside.

use crate::compaction::pick::{Busy, Plan};
use crate::error::Error;
use crate::files::FileNumber;
use crate::health::failure_policy::{Attempts, Kind, Task};
use std::collections::HashSet;
use std::sync::Arc;

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
    /// Files that a compaction for garbage wrote and that are garbage still.
    pub(crate) fruitless: HashSet<FileNumber>,
    /// How flushes and compactions that the engine starts went lately.
    pub(crate) flush: Attempts,
    pub(crate) compaction: Attempts,
    /// The same of compactions that met damaged files.
    pub(crate) damaged: Attempts,
    /// What these were to do: it stays busy, so that others go on.
    pub(crate) set_aside: Vec<Arc<Plan>>,
}

impl Work {
    pub(crate) fn start(&mut self, plan: &Plan) {
        self.busy.start(plan);
        self.compactions += 1;
    }

    pub(crate) fn finish(&mut self, plan: &Plan) {
        self.busy.finish(plan);
        self.compactions -= 1;
    }

    /// Ends `plan`, which met a damaged file (invariant 3 of the file header).
    pub(crate) fn set_aside(&mut self, plan: &Arc<Plan>) {
        self.set_aside.push(Arc::clone(plan));
        self.compactions -= 1;
    }

    /// How `task`, a flush or a compaction, went lately; those that fail like `kind` are apart.
    pub(crate) fn attempts(&mut self, task: Task, kind: Option<Kind>) -> &mut Attempts {
        match (task, kind) {
            (Task::Compaction, Some(Kind::Corruption)) => &mut self.damaged,
            (Task::Compaction, _) => &mut self.compaction,
            _ => &mut self.flush,
        }
    }

    /// Lets what was set aside be picked again.
    pub(crate) fn free_set_aside(&mut self) {
        for plan in std::mem::take(&mut self.set_aside) {
            self.busy.finish(&plan);
        }
        self.damaged.begin_now();
    }

    /// Returns whether work of the tree failed and is to be tried again.
    pub(crate) fn is_failing(&self) -> bool {
        self.flush.is_failing() || self.compaction.is_failing() || !self.set_aside.is_empty()
    }

    /// What a writer is told who cannot go on before the tree is flushed or compacted; `None` if it
    /// is to wait.
    pub(crate) fn refusal(&self) -> Option<Error> {
        if self.flushing {
            return None;
        }
        let compaction = || self.compaction.refusal().or_else(|| self.damaged.refusal());
        let idle = self.compactions == 0;
        self.flush.refusal().or_else(|| idle.then(compaction).flatten())
    }
}
