//! A compaction that is marked as running.

use crate::compaction::pick::Plan;
use crate::tree::TreeState;
use std::sync::Arc;

/// A plan that runs, until this is dropped.
pub(super) struct Started {
    pub(super) tree: Arc<TreeState>,
    pub(super) plan: Arc<Plan>,
    /// True if it is then set aside.
    pub(super) damaged: bool,
}

impl Started {
    /// A plan that was just marked as running.
    pub(super) fn new(tree: &Arc<TreeState>, plan: Plan) -> Self {
        Self { tree: Arc::clone(tree), plan: Arc::new(plan), damaged: false }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let mut work = self.tree.work.lock();
        if self.damaged {
            work.set_aside(&self.plan);
        } else {
            work.finish(&self.plan);
        }
    }
}
