//! The store below a database, in one of two forms.
//!
//! | form | keys of a tree | atomic write | unknown trees |
//! |---|---|---|---|
//! | one machine | a tree of the engine | one write of the engine | ownership records tell of them |
//! | a group | in the one tree of the group, after the number of their own | one command of the group | [`super::group`] |
//!
//! 1. A write is atomic, and visible when it returns without an error.
//! 2. What is kept with a write is dropped when its outcome is known, even if its future was dropped.
//! 3. In a group only the database of its term writes: what it read under its locks is what its writes meet.

use super::batches::{Batches, ReadyBatches};
use super::group::Group;
use super::page_keys::PageKeys;
use super::tree_keys::TreeKeys;
use crate::catalog::Table;
use crate::error::{Error, Result};
use crate::state::SqlState;
use engine::{Engine, Snapshot, TreeId, TreeOptions};
use std::any::Any;
use std::sync::Arc;
use table::{Local, OwnedTrees, TreeOwnership};
use tokio::runtime::Handle;

/// Things that live until the outcome of a write is known.
pub(crate) type Kept = Arc<dyn Any + Send + Sync>;

/// The header of this file describes it.
pub(crate) struct Store {
    local: Local,
    form: Form,
}

pub(super) enum Form {
    Machine(TreeOwnership),
    Group(Group),
}

impl Store {
    pub(super) fn new(local: Local, form: Form) -> Self {
        Self { local, form }
    }

    pub(super) fn form(&self) -> &Form {
        &self.form
    }

    /// Returns the tables of the store.
    pub(crate) fn local(&self) -> &Local {
        &self.local
    }

    /// Returns the engine that has the rows.
    pub(crate) fn engine(&self) -> &Engine {
        self.local.engine()
    }

    /// Returns a snapshot of what is committed by now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.engine().snapshot()
    }

    /// Makes sure that a snapshot taken from now on has all that was acknowledged before the call, by any
    /// node. 40001 if the term of the database is over.
    pub(crate) async fn ask(&self) -> Result<()> {
        match &self.form {
            Form::Machine(_) => Ok(()),
            Form::Group(group) => group.ask().await,
        }
    }

    /// Returns true if the term of the database is known to be over.
    pub(crate) async fn is_over(&self) -> bool {
        match &self.form {
            Form::Machine(_) => false,
            Form::Group(group) => group.is_over().await,
        }
    }

    /// Returns the keys of a tree. An error if there is no such tree.
    pub(crate) fn keys(&self, tree: u32) -> Result<TreeKeys> {
        match &self.form {
            Form::Machine(_) => Ok(TreeKeys::own(self.engine().tree(TreeId(tree))?)),
            Form::Group(group) => Ok(TreeKeys::shared(&group.tree, tree)),
        }
    }

    /// Returns the keys of a tree, which is made if it is missing. Blocks.
    pub(super) fn keys_or_create(&self, tree: TreeId) -> Result<TreeKeys> {
        if let Form::Machine(_) = &self.form {
            self.engine().tree_or_create(tree, TreeOptions::default())?;
        }
        self.keys(tree.0)
    }

    /// Returns an empty list of writes.
    pub(crate) fn batches(&self) -> Batches {
        match &self.form {
            Form::Machine(_) => Batches::new(None),
            Form::Group(group) => Batches::new(Some(group.tree.id())),
        }
    }

    /// Writes batches. After an error nothing is written, unless the state is 40003.
    pub(crate) async fn write(&self, batches: ReadyBatches, kept: Kept) -> Result<()> {
        match &self.form {
            Form::Machine(_) => {
                for (tree, batch) in &batches {
                    self.engine().tree(*tree)?.room_for(batch.encoded_len()).await?;
                }
                let written = self.engine().write_together_in_task(batches, kept).await;
                written.map(|_| ()).map_err(write_failed)
            }
            Form::Group(group) => group.write(batches, kept).await,
        }
    }

    /// Writes batches as [`Self::write`] does. Blocks, on a thread for blocking calls.
    pub(crate) fn write_blocking(&self, batches: Batches) -> Result<()> {
        if batches.is_empty() {
            return Ok(());
        }
        Handle::current().block_on(self.write(batches.ready()?, Arc::new(())))
    }

    /// Returns after all writes whose outcome was not known have one. False if the term of the database ended
    /// before: the next one tells.
    pub(crate) async fn settle(&self) -> bool {
        match &self.form {
            // Its engine stopped, and the next start tells.
            Form::Machine(_) => false,
            Form::Group(group) => group.settle().await,
        }
    }

    /// Makes a tree that no table has, and that is dropped by [`Self::drop_trees`] or at the next open unless
    /// a catalog names it by then. Blocks.
    pub(crate) fn create_tree(&self) -> Result<u32> {
        match &self.form {
            Form::Machine(trees) => Ok(trees.create()?.0),
            Form::Group(group) => group.next_tree(),
        }
    }

    /// Makes a tree for pages, as [`Self::create_tree`] does. 0A000 in a group, whose tree takes no files.
    pub(crate) fn create_pages(&self) -> Result<u32> {
        match &self.form {
            Form::Machine(trees) => Ok(trees.create_with(PageKeys::tree_options())?.0),
            Form::Group(_) => {
                Err(Error::unsupported("columnar tables on a cluster are not supported yet"))
            }
        }
    }

    /// Returns the keys of a tree of pages. An error if there is no such tree.
    pub(crate) fn page_keys(&self, tree: u32) -> Result<PageKeys> {
        match &self.form {
            Form::Machine(_) => Ok(PageKeys::of(self.engine().tree(TreeId(tree))?)),
            Form::Group(_) => Err(Error::corrupted("a columnar table in a group")),
        }
    }

    /// Drops trees that no catalog names. Blocks. After an error the next open drops what is left.
    pub(crate) fn drop_trees(&self, trees: &[u32]) -> Result<()> {
        match &self.form {
            Form::Machine(owned) => {
                let trees: Vec<_> = trees.iter().copied().map(TreeId).collect();
                Ok(owned.drop_unowned(&trees)?)
            }
            Form::Group(_) => {
                let mut batches = self.batches();
                trees.iter().for_each(|tree| batches.delete_range(*tree, b"", None));
                self.write_blocking(batches)
            }
        }
    }

    /// Adds to a write that a table owns its tree.
    pub(crate) fn claim(&self, batches: &mut Batches, table: &Table) {
        if let Form::Machine(_) = self.form {
            TreeOwnership::claim(batches.of_tree(TreeOwnership::SYSTEM_TREE), &owned(table));
        }
    }

    /// Adds to a write that the trees of a table are not owned any more.
    pub(crate) fn disown(&self, batches: &mut Batches, table: &Table) {
        if let Form::Machine(_) = self.form {
            let trees: Vec<_> = table.trees().map(TreeId).collect();
            TreeOwnership::disown(batches.of_tree(TreeOwnership::SYSTEM_TREE), &trees);
        }
    }

    /// Adds to a write that a table is gone. Its tree is disowned apart.
    pub(crate) fn forget(&self, batches: &mut Batches, table: &Table) {
        if let Form::Machine(_) = self.form {
            TreeOwnership::remove(batches.of_tree(TreeOwnership::SYSTEM_TREE), &owned(table).name);
        }
    }
}

fn owned(table: &Table) -> OwnedTrees {
    OwnedTrees::of_sql(table.oid, table.trees().map(TreeId).collect())
}

/// Returns the error of a write that failed. The log decides at the next start where writes have stopped.
fn write_failed(error: engine::Error) -> Error {
    let mut failed = Error::from(error.clone());
    if matches!(error, engine::Error::WritesStopped(_) | engine::Error::Io { .. }) {
        failed.state = SqlState::STATEMENT_COMPLETION_UNKNOWN;
    }
    failed
}
