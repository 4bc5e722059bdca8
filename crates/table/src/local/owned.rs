//! Trees of tables that this layer does not know: the relational layer's.
//!
//! 1. A tree is noted in an intent before it is created, and until a record owns it. A crash in between
//!    leaves an intent, and the next open drops the tree.
//! 2. Ownership is given and taken in a batch of the system tree that the caller writes, together with what it
//!    writes to its own trees. The intent is removed, or written, in the same batch.

use super::meta::{SYSTEM_TREE, owned_row, put_intent, put_owned, remove_intent};
use super::tables::drop_trees;
use super::{Core, Local};
use crate::error::{Error, Result};
use crate::schema::{OwnedTrees, SQL_PREFIX, TableName};
use engine::{Engine, TreeId, TreeOptions, WriteBatch};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Gives trees of the engine to tables of another layer. Cheap to clone. Calls block.
#[derive(Clone)]
pub struct TreeOwnership {
    core: Arc<Core>,
}

impl Local {
    /// Returns what gives trees to tables of another layer. `FailedPrecondition` on a node of a cluster,
    /// whose trees belong to replication groups.
    pub fn tree_ownership(&self) -> Result<TreeOwnership> {
        if self.core.replicated().is_some() {
            let text = "a node of a cluster has no SQL tables yet";
            return Err(Error::FailedPrecondition(text.to_owned()));
        }
        Ok(TreeOwnership { core: Arc::clone(&self.core) })
    }

    /// Returns the engine below the tables.
    pub fn engine(&self) -> &Engine {
        &self.core.engine
    }

    /// Returns a number that changes whenever a Bigtable table is created, changed or deleted.
    pub fn tables_version(&self) -> u64 {
        self.core.tables_version.load(Ordering::Acquire)
    }

    /// Returns the full names of the Bigtable tables, ascending. Tables that another layer keeps its rows in are not
    /// among them.
    pub fn table_names(&self) -> Vec<String> {
        let tables = self.core.tables.read();
        let names = tables.keys().map(TableName::as_str);
        names.filter(|name| !name.starts_with(SQL_PREFIX)).map(str::to_owned).collect()
    }
}

impl TreeOwnership {
    /// Returns the records of all owned trees.
    pub fn owned(&self) -> Result<Vec<OwnedTrees>> {
        self.core.meta.owned()
    }

    /// Creates a tree that nothing owns yet: the next open drops it unless [`Self::claim`] was written.
    /// Durable when it returns.
    pub fn create(&self) -> Result<TreeId> {
        self.create_with(TreeOptions::default())
    }

    /// Creates a tree as [`Self::create`] does, with options. `InvalidArgument` for options out of range.
    pub fn create_with(&self, options: TreeOptions) -> Result<TreeId> {
        let _changing = self.core.schema_change.lock();
        let tree = self.core.meta.reserve_trees(1)?;
        self.core.meta.intend(&[tree])?;
        if let Err(error) = self.core.engine.create_tree(tree, options) {
            self.core.drop_intended(&[tree]);
            return Err(error.into());
        }
        Ok(tree)
    }

    /// Drops trees that were created and never claimed, or that [`Self::disown`] was written for. The log
    /// is synced before. After an error the next open drops what is left.
    pub fn drop_unowned(&self, trees: &[TreeId]) -> Result<()> {
        let _changing = self.core.schema_change.lock();
        self.core.engine.sync()?;
        trees.iter().try_for_each(|tree| drop_trees(&self.core.engine, &*self.core.meta, &[*tree]))
    }

    /// The tree whose batches [`Self::claim`] and [`Self::disown`] add to.
    pub const SYSTEM_TREE: TreeId = SYSTEM_TREE;

    /// Adds to a batch of the system tree that a table owns trees, which [`Self::create`] made. It
    /// replaces the record of the table.
    pub fn claim(batch: &mut WriteBatch, owned: &OwnedTrees) {
        put_owned(batch, owned);
        owned.trees.iter().for_each(|tree| remove_intent(batch, &[*tree]));
    }

    /// Adds to a batch of the system tree that `trees` are owned no longer, and are to be dropped.
    pub fn disown(batch: &mut WriteBatch, trees: &[TreeId]) {
        trees.iter().for_each(|tree| put_intent(batch, &[*tree]));
    }

    /// Adds to a batch of the system tree that a table is gone. Its trees are disowned apart.
    pub fn remove(batch: &mut WriteBatch, name: &str) {
        batch.delete_row(&owned_row(name));
    }
}
