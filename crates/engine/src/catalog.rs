//! Creating and dropping trees.

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
        // The write lock is held over the install, so that the tree exists for others exactly
        // when it is durable; creating trees is rare.
        let mut trees = self.trees.write();
        let owner = self.owning();
        let edits: Vec<Edit> =
            owner.into_iter().chain([Edit::CreateTree { tree: id, options }]).collect();
        let created = self.manifest.install(&edits);
        created.map_err(|error| self.manifest_failed(error))?;
        let (budget, shape) = (self.cache.budget(), &self.options.shape);
        let tree = Tree::new(id, version, Vec::new(), budget, &self.snapshots, shape, seed);
        trees.insert(id, Arc::new(tree));
        Ok(())
    }

    /// See [`crate::Engine::drop_tree`].
    pub(crate) fn drop_tree(&self, id: TreeId) -> Result<()> {
        let tree = self.tree(id)?;
        self.health.check()?;
        {
            let _installing = tree.installing.lock();
            let mut trees = self.trees.write();
            if !trees.contains_key(&id) {
                return Err(Error::UnknownTree(id));
            }
            let dropped = self.manifest.install(&[Edit::DropTree { tree: id }]);
            dropped.map_err(|error| self.manifest_failed(error))?;
            tree.work.lock().dropped = true;
            trees.remove(&id);
            tree.drop_for_readers();
            self.snapshots.forget(id);
            self.past_filter_counters.absorb(&tree.filter_counters);
            self.obsolete.add(tree.view().ssts().cloned());
        }
        drop(tree);
        self.obsolete.collect();
        self.retire_log();
        Ok(())
    }
}
