//! [`Local`] over replicated tablets ([`crate::groups`]): what differs from a single server.
//!
//! 1. A read of a tablet begins after [`Groups::readable`], which is asked for every tablet of the read
//!    before its snapshot is taken. So it sees every write that was acknowledged before it came.
//! 2. A write gets its server times in a term, after [`Groups::writable`], and is proposed in that term
//!    while the stripes of the times are held. In another term it is refused, so times ascend with
//!    the log, over changes of leaders too.
//! 3. A conditional write holds its row alone, then asks for `readable`, reads, and proposes in that term. If
//!    the term ended meanwhile it is evaluated again, at most [`EVALUATIONS_MAX`] times in all.
//! 4. Row locks and the share of what may wait go with the proposal, and end with its outcome. Tablets have row
//!    locks of their own, and waits for them end ([`row_locks`]).
//! 5. A node knows the schemas of tables by [`Local::learn`]: from the descriptors of its groups, from the
//!    directory, and from its own changes. The highest version counts ([`schema`]).
//! 6. A tree of a table that is not in this node's engine belongs to a tablet without a replica here.
//! 7. A request that has its term looks if its table is still the newest one here ([`Core::check_newest`]),
//!    and is refused if not. A leader has applied every schema of earlier terms before it has a term, so
//!    no request that begins after a change of the schema is served with an older one.

mod look_ups;
mod row_locks;
mod schema;

use super::kept::records::RecordMap;
use super::opening::Contents;
use super::read::parts_of;
use super::times::Place;
use super::write::{EvaluatedIn, Modified, Modify, TimesOfRow, check_room_for};
use super::{Core, Local, Table};
use crate::error::{Error, Result};
use crate::filter::compile::Plan;
use crate::groups::{GroupWrite, Groups, Kept, SharedMeta, Term, Versioned};
use crate::local::meta::MetaStore;
use crate::row::Row;
use crate::schema::TableName;
use crate::shape::Shape;
use crate::store::{DropRows, HasRoom};
use base::env::Clock;
use bytes::Bytes;
use engine::{ClusterId, Engine, Owner, ReadyBatch, RowRange, TreeId};
use futures::future::{BoxFuture, try_join_all};
use look_ups::LookUps;
use parking_lot::Mutex;
use row_locks::TabletLocks;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Times that a conditional write is evaluated, where terms end before it is proposed.
const EVALUATIONS_MAX: usize = 3;

/// The cluster below the tables of a node.
pub struct Replication {
    /// The cluster that the node belongs to.
    pub cluster: ClusterId,
    pub groups: Arc<dyn Groups>,
    /// The directory. It may be out of reach while the node opens.
    pub meta: Arc<dyn SharedMeta>,
    /// The schemas in the descriptors of the node's groups.
    pub known: Vec<Versioned>,
}

/// The place of the tablets of a store.
pub(super) enum Tablets {
    /// In the engine, which logs their writes.
    Engine,
    /// In the engines of several nodes, which agree on the order of writes.
    Groups(Box<Replicated>),
}

/// The replicated tablets of a node.
pub(super) struct Replicated {
    pub(super) cluster: ClusterId,
    groups: Arc<dyn Groups>,
    meta: Arc<dyn SharedMeta>,
    look_ups: LookUps,
    locks: TabletLocks,
    /// Held while this node changes the schema.
    changing: tokio::sync::Mutex<()>,
    /// Held while a schema that was learned takes the place of an older one.
    learning: Mutex<()>,
}

/// A batch with the server's times left open.
pub(super) struct TimedBatch<'a> {
    pub(super) table: &'a Table,
    pub(super) tree: TreeId,
    pub(super) batch: ReadyBatch,
    pub(super) rows: &'a [TimesOfRow],
}

/// A check-and-mutate of a row whose stripe is held.
pub(super) struct Check {
    pub(super) table: Arc<Table>,
    pub(super) tree: TreeId,
    pub(super) row: Bytes,
    pub(super) plan: Arc<Plan>,
    pub(super) on_true: ReadyBatch,
    pub(super) on_false: ReadyBatch,
}

impl Local {
    /// Opens the tables of a node of a cluster over its engine, which `Engine::open_member` opened. Asks
    /// neither groups nor directory for anything. Blocks.
    pub fn over_groups(
        engine: Engine,
        clock: Arc<dyn Clock>,
        replication: Replication,
    ) -> Result<Self> {
        engine.claim(Owner::Server)?;
        let Replication { cluster, groups, meta, known } = replication;
        let replicated = Replicated {
            cluster,
            groups,
            meta: Arc::clone(&meta),
            look_ups: LookUps::default(),
            locks: TabletLocks::new(Shape::DEFAULT.tablet_lock_stripes),
            changing: tokio::sync::Mutex::default(),
            learning: Mutex::default(),
        };
        let contents = Contents {
            tables: BTreeMap::new(),
            shelf: BTreeMap::new(),
            records: RecordMap::default(),
        };
        let meta: Arc<dyn MetaStore> = meta;
        let below = (meta, Tablets::Groups(Box::new(replicated)));
        let local = Self::over(engine, clock, below, contents, (Arc::default(), Shape::DEFAULT));
        known.into_iter().try_for_each(|known| local.learn(known))?;
        Ok(local)
    }

    /// Drops rows of the tablets of a table that have their tree in `trees`, for a node that leads them.
    /// `NotLeader`, and nothing is dropped, if it does not lead one of them, or the table that this node knows
    /// does not have one: the caller knows another table of the name.
    pub async fn drop_rows_of(
        &self,
        table: &TableName,
        rows: &DropRows,
        trees: &BTreeSet<TreeId>,
    ) -> Result<()> {
        let table = self.table(table).await?;
        table.check_has(trees)?;
        self.write_dropped_rows(&table, rows, |tree| trees.contains(&tree)).await
    }

    /// [`Self::check_and_write`] in a group; `kept` holds the row alone.
    pub(super) async fn check_in_group<K: Send + Sync + 'static>(
        &self,
        replicated: &Replicated,
        check: &Check,
        kept: Arc<K>,
    ) -> Result<bool> {
        let mut evaluations = 0;
        loop {
            evaluations += 1;
            let term = replicated.groups.readable(check.tree).await?;
            self.core.check_newest(replicated, &check.table, check.tree)?;
            let holds = self.holds(&check.table, Arc::clone(&check.plan), &check.row).await?;
            let batch = if holds { &check.on_true } else { &check.on_false };
            let rows = [(Place::of(&check.row), 0..batch.open_times())];
            let write = TimedBatch {
                table: &check.table,
                tree: check.tree,
                batch: batch.clone(),
                rows: &rows,
            };
            let kept = Box::new(Arc::clone(&kept));
            match self.core.propose(replicated, write, term, kept).await {
                Err(Error::NotLeader { .. }) if evaluations < EVALUATIONS_MAX => {}
                outcome => return outcome.map(|()| holds),
            }
        }
    }

    /// [`Self::read_modify_write`] in a group; `locks` hold the row alone.
    pub(super) async fn modify_in_group<K: Send + Sync + 'static>(
        &self,
        replicated: &Replicated,
        modify: &Modify<'_>,
        locks: Arc<K>,
        has_room: &HasRoom<'_>,
    ) -> Result<Row> {
        let mut evaluations = 0;
        loop {
            evaluations += 1;
            let term = replicated.groups.readable(modify.tree).await?;
            self.core.check_newest(replicated, modify.table, modify.tree)?;
            let Modified { batch, cells, now } = self.modified(modify, term.floor).await?;
            check_room_for(&cells, has_room)?;
            let admitted = modify.table.kept.admission.admit(batch.encoded_len())?;
            let write = GroupWrite {
                tree: modify.tree,
                term,
                batch,
                newest_micros: u64::try_from(now.0).unwrap_or(0),
                kept: Box::new((Arc::clone(&locks), admitted)),
            };
            match replicated.groups.commit(write).await {
                Err(Error::NotLeader { .. }) if evaluations < EVALUATIONS_MAX => {}
                outcome => return outcome.map(|()| Row { key: modify.row.clone(), cells }),
            }
        }
    }
}

impl Table {
    /// Checks that the table has all of `trees`. `NotLeader` if it does not: they are of another table.
    pub(super) fn check_has(&self, trees: &BTreeSet<TreeId>) -> Result<()> {
        let known: BTreeSet<TreeId> =
            self.schema.tablets.iter().map(|tablet| tablet.tree).collect();
        match trees.is_subset(&known) {
            true => Ok(()),
            false => Err(Error::NotLeader { leader: None }),
        }
    }
}

impl Core {
    pub(super) fn replicated(&self) -> Option<&Replicated> {
        match &self.tablets {
            Tablets::Engine => None,
            Tablets::Groups(replicated) => Some(replicated),
        }
    }

    /// Refuses what the tables of a cluster do not have.
    pub(super) fn check_alone(&self, what: &str) -> Result<()> {
        match self.tablets {
            Tablets::Engine => Ok(()),
            Tablets::Groups(_) => {
                Err(Error::FailedPrecondition(format!("a cluster does not support {what} yet")))
            }
        }
    }

    /// [`Core::commit`] of a batch in its group.
    pub(super) async fn commit_in_group(
        &self,
        replicated: &Replicated,
        write: TimedBatch<'_>,
        EvaluatedIn(term): EvaluatedIn,
        kept: Kept,
    ) -> Result<()> {
        let term = match term {
            Some(term) => term,
            None => replicated.groups.writable(write.tree).await?,
        };
        self.check_newest(replicated, write.table, write.tree)?;
        self.propose(replicated, write, term, kept).await
    }

    /// Refuses a request whose table is not the newest one that this node knows. Called after the request got
    /// its term. `NotLeader`: nothing was done, and the request may come again.
    pub(super) fn check_newest(
        &self,
        replicated: &Replicated,
        table: &Table,
        tree: TreeId,
    ) -> Result<()> {
        let tables = self.tables.read();
        match tables.get(&table.schema.name) {
            Some(newest) if newest.version == table.version => Ok(()),
            _ => Err(Error::NotLeader { leader: replicated.groups.leader(tree) }),
        }
    }

    /// Gives a batch the server's times and its place among the proposals of its group. The future
    /// waits for the outcome.
    fn propose(
        &self,
        replicated: &Replicated,
        write: TimedBatch<'_>,
        term: Term,
        kept: Kept,
    ) -> BoxFuture<'static, Result<()>> {
        let TimedBatch { table, tree, mut batch, rows } = write;
        if batch.is_empty() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let timed = batch.open_times() > 0;
        let (newest_micros, drawing) =
            batch.set_times(|times| timed.then(|| self.set_times(table, rows, term.floor, times)));
        let write = GroupWrite { tree, term, batch, newest_micros, kept };
        let outcome = replicated.groups.commit(write);
        drop(drawing);
        outcome
    }
}

impl Replicated {
    /// Waits until a read of `ranges` by `plan` sees, on this node, all that was acknowledged before.
    /// `NotLeader` if `table` is not the newest one then.
    pub(super) async fn readable(
        &self,
        core: &Core,
        table: &Table,
        plan: &Plan,
        ranges: &[RowRange],
    ) -> Result<()> {
        let trees: BTreeSet<_> =
            parts_of(table, plan, ranges).into_iter().map(|(tree, _)| tree).collect();
        try_join_all(trees.iter().map(|tree| self.groups.readable(*tree))).await?;
        trees.first().map_or(Ok(()), |tree| core.check_newest(self, table, *tree))
    }

    /// Waits until what was acknowledged before can be read of `tree`. Returns the term.
    pub(super) async fn term(&self, tree: TreeId) -> Result<Term> {
        self.groups.readable(tree).await
    }

    /// Waits until this node may propose writes of all of `trees`.
    pub(super) async fn writable(&self, trees: impl Iterator<Item = TreeId>) -> Result<()> {
        try_join_all(trees.map(|tree| self.groups.writable(tree))).await.map(drop)
    }
}
