//! Replicated tablets: what [`Local`](crate::Local) asks of the consensus below its engine, and of the
//! directory that keeps the schema of a cluster. Both are implemented above this crate.
//!
//! A tablet is a tree of this node's engine, and its group agrees on one log of batches. The leader
//! evaluates a write, proposes its batch, and answers when its own engine has applied it.
//!
//! Implementations keep to these rules, and the table layer relies on them:
//! 1. Batches of a tree are applied in the order of the log of its group, on every node.
//! 2. [`Groups::commit`] takes the place of its batch in the order of this node's proposals before it
//!    returns. So callers that exclude each other around that call propose in the order of their calls.
//! 3. A batch is written in the term that it was evaluated in, or never. With [`Error::NotLeader`]
//!    nothing was written, and nothing will be. After any other error the batch may be applied, at
//!    once or later.
//! 4. [`GroupWrite::kept`] lives until it is certain that the batch was applied on this node, or
//!    that this node's term has ended. It also does after the future was dropped, or has told its
//!    caller of a timeout: what `kept` excludes must not be evaluated beside a batch under way.
//! 5. A leader has a [`Term`] only after it has applied every entry of earlier terms. So what is read
//!    in a term and under the locks of `kept` is what the batch is applied to.
//! 6. Server times of a term are above [`Term::floor`]: a leader does not give a time again that
//!    another leader gave. Each batch has its newest time with it in the log, and what was applied
//!    here is kept by `Engine::note_commit_micros` before it is applied.

use crate::error::Result;
use crate::local::{MetaChange, MetaStore};
use crate::schema::{TableName, TableSchema};
use async_trait::async_trait;
use engine::{ReadyBatch, TreeId};
use futures::future::BoxFuture;

#[cfg(doc)]
use crate::error::Error;

/// A term in which this node leads a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The number that consensus gave the term.
    pub number: u64,
    /// The newest server time of the batches of all earlier terms, in microseconds; 0 if they have no such time.
    pub floor: u64,
}

/// The row locks of a write and its share of what may wait. Only to be dropped.
pub type Kept = Box<dyn Send>;

/// A batch to be written to one tablet.
pub struct GroupWrite {
    /// The tree of the tablet.
    pub tree: TreeId,
    /// The term that it was evaluated in.
    pub term: Term,
    /// The batch. All times are set.
    pub batch: ReadyBatch,
    /// The newest server time in it, in microseconds; 0 if it has none.
    pub newest_micros: u64,
    /// Dropped when the outcome is known: invariant 4.
    pub kept: Kept,
}

/// Groups that no table has any more, or never had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Trees of the groups, whose ids they have.
    pub trees: Vec<TreeId>,
    /// The version that the groups had when they were created for a table that did not come about, or of the
    /// change that removed their table. A group whose schema is not older may have rows of a table that the
    /// directory has lost.
    pub version: u64,
}

/// The replicated tablets of a node.
#[async_trait]
pub trait Groups: Send + Sync + 'static {
    /// Waits until a read of `tree` on this node's engine sees every write that was acknowledged before
    /// the call. Returns the term of this node.
    ///
    /// `NotLeader` if another node leads, or none is known to within a bound of the implementation.
    /// `Unavailable` if this node cannot tell within that bound.
    async fn readable(&self, tree: TreeId) -> Result<Term>;

    /// Waits until this node may propose writes of `tree` for which nothing has to be read. Costs no message
    /// where it leads. Returns its term; errors are as of [`Groups::readable`].
    async fn writable(&self, tree: TreeId) -> Result<Term>;

    /// Proposes a batch; does not wait. The future is ready when the batch was applied on this node, or its
    /// outcome will not be known soon. A future that is dropped changes nothing.
    ///
    /// `NotLeader` if this node does not lead in that term any more: nothing was written, and the caller
    /// may evaluate again. `Busy` if too much is under way: nothing was written. `Unavailable` if the
    /// outcome is not known.
    fn commit(&self, write: GroupWrite) -> BoxFuture<'static, Result<()>>;

    /// Creates the groups of a new table, one for each tablet, on nodes of its choice, and returns when
    /// each has a leader. The table's record is not in the directory yet. Again: does nothing for
    /// groups that are there.
    ///
    /// `AlreadyExists` if a tree has a group of another table: its id was given twice. That group must stay.
    async fn create(&self, schema: &TableSchema, version: u64) -> Result<()>;

    /// Removes groups with all their replicas, as far as they are there. After an error the call is to come
    /// again.
    ///
    /// `AlreadyExists` if a group has rows, and a schema that is not older than the removal: it stays.
    async fn remove(&self, removal: &Removal) -> Result<()>;

    /// Gives every group of a table its schema, which has `version` in the directory. Returns when the
    /// leader of each group has it, so that no leader serves with an older one. A group that has a newer
    /// one keeps it.
    async fn set_schema(&self, schema: &TableSchema, version: u64) -> Result<()>;

    /// Returns the id of the node that leads, as far as it is known here.
    fn leader(&self, tree: TreeId) -> Option<u64>;
}

/// A schema and the version of its record in the directory. Of two schemas under one name that with the
/// higher version is the newer one.
#[derive(Debug, Clone, PartialEq)]
pub struct Versioned {
    pub schema: TableSchema,
    pub version: u64,
}

/// The schema of a cluster, which its nodes share. Calls block, and several nodes may call at a time.
pub trait SharedMeta: MetaStore {
    /// Draws a version: above every version that any node drew, or that any change got, before.
    fn next_version(&self) -> Result<u64>;

    /// Returns the record of a table as it is now; `None` without one.
    fn versioned_table(&self, name: &TableName) -> Result<Option<Versioned>>;

    /// Returns the records of all tables as they are now.
    fn versioned_tables(&self) -> Result<Vec<Versioned>>;

    /// Makes all of the changes or none, if the record of `table` is of version `before`; `None` if
    /// there must be no record. Returns the version of the change, which a record of the table that is put
    /// has. It is drawn with the change: changes are made in the order of their versions.
    ///
    /// An intent of the change has its version. An intent that is forgotten must be as this node left it: after [`SharedMeta::claim`] a change that
    /// was made up before is refused.
    ///
    /// `Aborted` if the record is of another version, or the intent is not as it was: nothing was changed.
    fn change_if(
        &self,
        table: &TableName,
        before: Option<u64>,
        changes: &[MetaChange<'_>],
    ) -> Result<u64>;

    /// Writes an intent for the groups of a table that is being created, which get `version`.
    fn intend_new(&self, trees: &[TreeId], version: u64) -> Result<()>;

    /// Returns the intents of this node.
    fn removals(&self) -> Result<Vec<Removal>>;

    /// Takes an intent of this node for its own, so that no change is made any more that was to forget it.
    /// Changes nothing where it was done before.
    fn claim(&self, removal: &Removal) -> Result<()>;

    /// Forgets an intent whose trees turned out to be another table's, and gives no id any more that was set
    /// aside with theirs.
    fn abandon(&self, trees: &[TreeId]) -> Result<()> {
        self.forget(trees)
    }

    /// Forgets the intent of trees whose groups are removed from all nodes, and where they were.
    fn removed(&self, trees: &[TreeId]) -> Result<()> {
        self.forget(trees)
    }
}
