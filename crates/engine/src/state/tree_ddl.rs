//! Creating and dropping trees.
//!
//! A tree is in the manifest, on disk, before it is in `Shared::trees`, and leaves both in the same
//! order. Whoever looks up a tree does not wait for the disk.

use crate::cell::TreeId;
use crate::error::{Error, Result};
use crate::manifest::{Edit, TreeVersion};
use crate::options::TreeOptions;
use crate::state::Shared;
use crate::tree::{TreeState, draw_seed};
use std::sync::Arc;

/// See [`crate::Engine::create_tree`].
pub(crate) fn create_tree(shared: &Shared, id: TreeId, options: TreeOptions) -> Result<()> {
    if shared.is_closing() {
        return Err(Error::Closed);
    }
    shared.health.check()?;
    let version = Arc::new(TreeVersion::empty(options.clone()));
    let seed = draw_seed(&*shared.env.fs, &shared.dir)?;
    let created = shared.manifest.change(|state| {
        let owner = shared.owning(state);
        Ok(owner.into_iter().chain([Edit::CreateTree { tree: id, options }]).collect())
    });
    created.map_err(|error| shared.manifest_failed(error))?;
    let (budget, shape) = (shared.cache.budget(), &shared.options.shape);
    let tree = TreeState::new(id, version, Vec::new(), budget, &shared.snapshots, shape, seed);
    shared.trees.write().insert(id, Arc::new(tree));
    Ok(())
}

/// See [`crate::Engine::drop_tree`].
pub(crate) fn drop_tree(shared: &Shared, id: TreeId) -> Result<()> {
    let tree = shared.tree(id)?;
    shared.health.check()?;
    {
        let _installing = tree.installing.lock();
        // It is another's affair if somebody dropped the tree since it was looked up.
        let dropped = shared.manifest.install(&[Edit::DropTree { tree: id }]);
        dropped.map_err(|error| shared.manifest_failed(error))?;
        tree.work.lock().dropped = true;
        {
            // Together, so that what was asked of filters is counted once.
            let mut trees = shared.trees.write();
            trees.remove(&id);
            shared.past_filter_counters.absorb(&tree.filter_counters);
        }
        tree.drop_for_readers();
        shared.snapshots.forget(id);
        shared.obsolete.add(tree.view().ssts().cloned());
    }
    drop(tree);
    // Writers that wait for room in it look again.
    shared.progress_made();
    shared.log_segments.unfollow(id);
    shared.obsolete.collect();
    shared.retire_log();
    Ok(())
}
