//! The replicas of a node, by group and by tree.

use super::hosted::Hosted;
use crate::group::GroupId;
use engine::TreeId;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The header of this file describes it.
#[derive(Default)]
pub(super) struct Replicas {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    by_group: BTreeMap<GroupId, Arc<Hosted>>,
    by_tree: BTreeMap<TreeId, Arc<Hosted>>,
}

impl Replicas {
    pub(super) fn of_group(&self, group: GroupId) -> Option<Arc<Hosted>> {
        self.state.read().by_group.get(&group).cloned()
    }

    pub(super) fn of_tree(&self, tree: TreeId) -> Option<Arc<Hosted>> {
        self.state.read().by_tree.get(&tree).cloned()
    }

    /// Returns true if this very replica is open.
    pub(super) fn has(&self, hosted: &Arc<Hosted>) -> bool {
        let state = self.state.read();
        state.by_group.get(&hosted.group).is_some_and(|open| Arc::ptr_eq(open, hosted))
    }

    pub(super) fn all(&self) -> Vec<Arc<Hosted>> {
        self.state.read().by_group.values().cloned().collect()
    }

    pub(super) fn add(&self, hosted: &Arc<Hosted>) {
        let mut state = self.state.write();
        state.by_group.insert(hosted.group, Arc::clone(hosted));
        for tree in &hosted.trees {
            state.by_tree.insert(tree.id(), Arc::clone(hosted));
        }
    }

    pub(super) fn remove(&self, group: GroupId) -> Option<Arc<Hosted>> {
        let mut state = self.state.write();
        let hosted = state.by_group.remove(&group)?;
        state.by_tree.retain(|_, of| !Arc::ptr_eq(of, &hosted));
        Some(hosted)
    }

    /// Removes all replicas: the node ends.
    pub(super) fn clear(&self) {
        let state = std::mem::take(&mut *self.state.write());
        drop(state);
    }
}
