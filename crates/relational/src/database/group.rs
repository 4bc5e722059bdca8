//! The store of a database in a replication group, for one term in which this node leads it.
//!
//! 1. All trees of the database share the one tree of the group: `tree u32 BE ‖ key`. Tree 2 is the catalog.
//! 2. Every write is proposed in the term of the database. So nothing of another term lies between its writes, and
//!    once the term is over nothing more is written.
//! 3. Numbers of trees are given in memory, above every number that the catalog or a key has. When the
//!    database opens, keys of trees that the catalog does not have are removed before numbers are given.
//! 4. A write whose outcome is not known keeps what it keeps. The outcome is known once a later write of the same
//!    term is applied: commands are applied in their order.

use super::CATALOG_TREE;
use super::batches::ReadyBatches;
use super::store::Kept;
use crate::error::{Error, Result};
use crate::format::key::after_prefix;
use crate::state::SqlState;
use engine::{ReadyBatch, RowRange, ScanRequest, Tree, TreeId, WriteBatch};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use table::{GroupWrite, Groups, Term};

/// Pauses before a write is proposed again that found no room: the first, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Times that a write is proposed: with the pauses about ten seconds.
const PROPOSALS_MAX: u32 = 100;
/// A key of the catalog's tree that no record has.
const NO_RECORD: &[u8] = b"\0";

/// A term in which this node leads the group of a database.
#[derive(Clone)]
pub struct GroupTerm {
    /// The groups of this node.
    pub groups: Arc<dyn Groups>,
    /// The tree of the group.
    pub tree: TreeId,
    /// The term, as [`Groups::readable`] returned it.
    pub term: Term,
}

impl fmt::Debug for GroupTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupTerm").field("tree", &self.tree).field("term", &self.term).finish()
    }
}

/// The header of this file describes it.
pub(super) struct Group {
    groups: Arc<dyn Groups>,
    pub(super) tree: Tree,
    term: Term,
    /// The next number that no tree has.
    next_tree: AtomicU32,
}

impl Group {
    pub(super) fn new(at: GroupTerm, tree: Tree) -> Self {
        let next_tree = AtomicU32::new(TreeId::FIRST_OF_TABLES.0);
        Self { groups: at.groups, tree, term: at.term, next_tree }
    }

    /// Asks if this node leads in the term of the database, and has all that was acknowledged before.
    pub(super) async fn ask(&self) -> Result<()> {
        match self.groups.readable(self.tree.id()).await {
            Ok(term) if term.number == self.term.number => Ok(()),
            Ok(_) | Err(table::Error::NotLeader { .. }) => Err(term_is_over()),
            Err(error) => {
                let text = format!("this node does not know if it leads the database: {error}");
                Err(Error::new(SqlState::SERIALIZATION_FAILURE, text))
            }
        }
    }

    /// Returns true if another term than the one of the database is known to be there.
    pub(super) async fn is_over(&self) -> bool {
        match self.groups.readable(self.tree.id()).await {
            Ok(term) => term.number != self.term.number,
            Err(error) => matches!(error, table::Error::NotLeader { .. }),
        }
    }

    pub(super) async fn write(&self, mut batches: ReadyBatches, kept: Kept) -> Result<()> {
        let Some((tree, batch)) = batches.pop() else { return Ok(()) };
        if tree != self.tree.id() || !batches.is_empty() {
            return Err(Error::internal("a write to more than the tree of the group"));
        }
        self.propose(batch, &kept).await
    }

    /// Proposes a batch until the group has room for it.
    async fn propose(&self, batch: ReadyBatch, kept: &Kept) -> Result<()> {
        let mut pause = PAUSE_FIRST;
        let mut tries = 0;
        loop {
            let write = GroupWrite {
                tree: self.tree.id(),
                term: self.term,
                batch: batch.clone(),
                newest_micros: 0,
                kept: Box::new(Arc::clone(kept)),
            };
            tries += 1;
            match self.groups.commit(write).await {
                Err(table::Error::Busy(_)) if tries < PROPOSALS_MAX => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                done => return done.map_err(proposal_failed),
            }
        }
    }

    /// Waits until every earlier write of the term has its outcome. Returns false if the term ended.
    pub(super) async fn settle(&self) -> bool {
        let mut batch = WriteBatch::new();
        batch.delete_row(&super::tree_keys::shared_key(CATALOG_TREE.0, NO_RECORD));
        let Ok(batch) = batch.ready() else { return false };
        loop {
            match self.propose(batch.clone(), &(Arc::new(()) as Kept)).await {
                Ok(()) => return true,
                Err(error) if error.state == SqlState::SERIALIZATION_FAILURE => return false,
                Err(_) => tokio::time::sleep(PAUSE_MAX).await,
            }
        }
    }

    /// Returns the number of a tree that has no keys, and that was not given in this term.
    pub(super) fn next_tree(&self) -> Result<u32> {
        let next = |next: u32| next.checked_add(1);
        let given = self.next_tree.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        given.map_err(|_| {
            Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "all numbers of trees are used up")
        })
    }

    /// Has numbers of trees be given above `tree`.
    pub(super) fn give_above(&self, tree: u32) {
        self.next_tree.fetch_max(tree.saturating_add(1), Ordering::AcqRel);
    }

    /// Returns the numbers of trees with keys that are not `known`. Blocks.
    pub(super) fn strays(&self, known: &BTreeSet<u32>) -> Result<Vec<u32>> {
        let mut strays = Vec::new();
        let mut from = Some(0u32.to_be_bytes().to_vec());
        while let Some(start) = from.take() {
            let request = ScanRequest::rows(RowRange { start, end: None });
            let mut scan = self.tree.scan(&request, None)?;
            let Some(key) = scan.next_row()? else { break };
            let number = key.first_chunk::<4>();
            let number =
                number.ok_or_else(|| Error::corrupted("a key has no number of its tree"))?;
            from = after_prefix(number);
            let number = u32::from_be_bytes(*number);
            if number != CATALOG_TREE.0 && !known.contains(&number) {
                strays.push(number);
            }
        }
        Ok(strays)
    }
}

fn term_is_over() -> Error {
    let text = "this node does not lead the database any more; nothing was written";
    let error = Error::new(SqlState::SERIALIZATION_FAILURE, text);
    error.with_hint("Connect again, and try the transaction again.")
}

/// Returns the error of a proposal.
fn proposal_failed(error: table::Error) -> Error {
    match error {
        table::Error::NotLeader { .. } => term_is_over(),
        table::Error::Busy(text) => Error::new(SqlState::INSUFFICIENT_RESOURCES, text),
        table::Error::InvalidArgument { .. } => {
            let text = format!("the changes of a transaction are too large: {error}");
            Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text)
                .with_hint("Commit smaller parts of the work.")
        }
        error => {
            let text = format!("it is not known if the changes were made: {error}");
            Error::new(SqlState::STATEMENT_COMPLETION_UNKNOWN, text)
        }
    }
}
