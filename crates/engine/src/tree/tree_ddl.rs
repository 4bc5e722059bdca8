//! Creating and dropping trees.
//!
//! A tree is in the manifest, on disk, before it is in `Shared::trees`, and leaves both in the same
//! order. Whoever looks up a tree does not wait for the disk.

use crate::cell::TreeId;
use crate::engine::Shared;
use crate::error::{Error, Result};
use crate::manifest::{Edit, TreeVersion};
use crate::options::TreeOptions;
use crate::tree::{Tree, draw_seed};
use std::sync::Arc;

impl Shared {
    /// See [`crate::Engine::create_tree`].
    pub(crate) fn create_tree(&self, id: TreeId, options: TreeOptions) -> Result<()> {
        if self.is_closing() {
            return Err(Error::Closed);
        }
        self.health.check()?;
        let version = Arc::new(TreeVersion::empty(options.clone()));
        let seed = draw_seed(&*self.env.fs, &self.dir)?;
        let created = self.manifest.change(|state| {
            let owner = self.owning(state);
            Ok(owner.into_iter().chain([Edit::CreateTree { tree: id, options }]).collect())
        });
        created.map_err(|error| self.manifest_failed(error))?;
        let (budget, shape) = (self.cache.budget(), &self.options.shape);
        let tree = Tree::new(id, version, Vec::new(), budget, &self.snapshots, shape, seed);
        self.trees.write().insert(id, Arc::new(tree));
        Ok(())
    }

    /// See [`crate::Engine::drop_tree`].
    pub(crate) fn drop_tree(&self, id: TreeId) -> Result<()> {
        let tree = self.tree(id)?;
        self.health.check()?;
        {
            let _installing = tree.installing.lock();
            // It is another's affair if somebody dropped the tree since it was looked up.
            let dropped = self.manifest.install(&[Edit::DropTree { tree: id }]);
            dropped.map_err(|error| self.manifest_failed(error))?;
            tree.work.lock().dropped = true;
            {
                // Together, so that what was asked of filters is counted once.
                let mut trees = self.trees.write();
                trees.remove(&id);
                self.past_filter_counters.absorb(&tree.filter_counters);
            }
            tree.drop_for_readers();
            self.snapshots.forget(id);
            self.obsolete.add(tree.view().ssts().cloned());
        }
        drop(tree);
        self.obsolete.collect();
        self.retire_log();
        Ok(())
    }
}
