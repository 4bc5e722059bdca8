//! Creating and dropping trees.
//!
//! A tree is in the manifest, on disk, before it is in `Shared::trees`, and leaves both in the same
//! order. Whoever looks up a tree does not wait for the disk.

use crate::cell::TreeId;
use crate::error::{Error, Result};
use crate::files::copy_note;
use crate::manifest::Edit;
use crate::options::TreeOptions;
use crate::state::Shared;
use crate::tree::read_view::OpenRun;
use crate::tree::{TreeState, draw_seed};
use std::sync::Arc;

/// See [`crate::Engine::create_tree`].
pub(crate) fn create_tree(shared: &Shared, id: TreeId, options: TreeOptions) -> Result<()> {
    refuse_failed_copy(shared, id)?;
    create_tree_of(shared, id, options, Vec::new(), Vec::new())
}

/// Refuses an id for which a copy that failed left files: they would be the new tree's if the manifest
/// was lost.
fn refuse_failed_copy(shared: &Shared, id: TreeId) -> Result<()> {
    let state = shared.manifest.state();
    if state.trees.contains_key(&id) || state.used.contains_key(&id) {
        return Ok(());
    }
    match copy_note::read(&*shared.env.fs, &shared.dir, id) {
        Ok(None) => Ok(()),
        Ok(Some(_)) | Err(Error::Corruption(_)) => {
            let text = format!(
                "a copy to tree {} failed; open the store again before its id is used",
                id.0
            );
            Err(Error::InvalidArgument(text))
        }
        Err(error) => Err(error),
    }
}

/// Creates a tree of files that no other tree has. `edits` add the files, which are open in `runs`.
pub(crate) fn create_tree_of(
    shared: &Shared,
    id: TreeId,
    options: TreeOptions,
    edits: Vec<Edit>,
    runs: Vec<OpenRun>,
) -> Result<()> {
    if shared.is_closing() {
        return Err(Error::Closed);
    }
    shared.health.check()?;
    let seed = draw_seed(&*shared.env.fs, &shared.dir)?;
    let created = shared.manifest.change(|state| {
        let create =
            shared.owning(state).into_iter().chain([Edit::CreateTree { tree: id, options }]);
        Ok(create.chain(edits).collect())
    });
    let after = created.map_err(|error| shared.manifest_failed(error))?;
    let version = after.tree(id).expect("an edit that creates a tree leaves it there");
    let (budget, shape) = (shared.cache.budget(), &shared.options.shape);
    let version = Arc::clone(version);
    let tree = TreeState::new(id, version, runs, budget, &shared.snapshots, shape, seed);
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
            // Together, so that what was counted of the tree counts once.
            let mut trees = shared.trees.write();
            trees.remove(&id);
            shared.past_trees.absorb(&tree);
        }
        tree.drop_for_readers();
        shared.snapshots.forget(id);
        shared.obsolete.add(tree.view().ssts().cloned());
    }
    drop(tree);
    shared.obsolete.add_note(&shared.dir, id);
    // Writers that wait for room in it look again.
    shared.progress_made();
    shared.log_segments.unfollow(id);
    shared.obsolete.collect();
    shared.retire_log();
    Ok(())
}
