//! Replicas come and go by explicit calls.
//!
//! 1. Trees exist before their replica is in the log, and are dropped after it is marked as removed
//!    there. So a crash leaves a tree without a replica, never a replica without its tree.
//! 2. A replica is closed in the driver before its removal is written: no round writes for it later.
//! 3. A removal that may be of a restored directory takes no rows along ([`super::content`]).
//! 4. A change runs to its end, also where its caller goes away: a replica that is in the log and not in
//!    the driver would be out of reach.
//! 5. One change is under way at a time. A caller waits for it, and for the log, for a bounded time: while the
//!    disk is full, one change waits for space, and all others are refused.

use super::Node;
use super::hosted::Hosted;
use super::inbox::{Event, Opening};
use super::log_thread::{Alone, Job};
use super::log_writes::log_group;
use super::open::{self, Shared};
use crate::format::Descriptor;
use crate::group::{GroupId, ReplicaId, SavedReplica};
use engine::TreeId;
use engine::group_log::{GroupState, ReplicaState};
use std::sync::Arc;
use std::time::Duration;
use table::{Error, Result, TableSchema};
use tokio::sync::oneshot;

/// Time after the longest wait for a turn, in which a change answers.
const TURN_MARGIN: Duration = Duration::from_secs(1);

impl Node {
    /// Creates the replica of a group that `descriptor` names for this node, durably when it returns.
    /// Does nothing if the replica is there.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the group is here as a part of another table: its id was given twice.
    /// `FailedPrecondition` if the descriptor has no replica for this node, if another replica of the group
    /// lives here, if this one was removed, or if its trees have content. Others are of disk and engine; the
    /// call can be repeated. `Unavailable` if it took too long, and it may still be done.
    pub async fn create(&self, group: GroupId, descriptor: Descriptor) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let create = async move { shared.create(group, descriptor).await };
        self.shared.to_the_end(create).await
    }

    /// Removes the replica of a group with all its data, durably when it returns, so that no replica
    /// with an id below `least_replica` comes back. Does nothing if that was done before.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` as of [`Self::may_remove`]. Disk and engine have theirs; the call can be repeated.
    /// `Unavailable` if it took too long, and it may still be done.
    pub async fn remove(
        &self,
        group: GroupId,
        least_replica: ReplicaId,
        version: u64,
    ) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let remove = async move { shared.remove(group, least_replica, version).await };
        self.shared.to_the_end(remove).await
    }

    /// Tells whether a removal of this version ([`table::Removal::version`]) may take the replica of this node
    /// along. It may if there is no such replica.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the replica has rows, and a schema that is not older than the removal.
    pub async fn may_remove(&self, group: GroupId, version: u64) -> Result<()> {
        self.shared.check_may_go(group, version).await
    }
}

impl Shared {
    /// Runs a change in a task of the node.
    async fn to_the_end<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let counted = self.tasks.begin();
        let change = async move {
            let done = change.await;
            drop(counted);
            done
        };
        let task = self.runtime.spawn(change);
        tokio::select! {
            biased;
            done = task => done.unwrap_or_else(|_| Err(closing())),
            // The turn ends earlier, so that a change which is told as not begun has not begun.
            () = self.pause(self.wait_max + TURN_MARGIN) => Err(waits("it may still be done")),
        }
    }

    /// Waits for the end of the change that is under way.
    async fn turn(&self) -> Result<tokio::sync::MutexGuard<'_, ()>> {
        tokio::select! {
            biased;
            turn = self.changing.lock() => Ok(turn),
            () = self.pause(self.wait_max) => Err(waits("nothing was done")),
        }
    }

    async fn create(&self, group: GroupId, descriptor: Descriptor) -> Result<()> {
        let shared = self;
        super::calls::check_schema(&descriptor.schema)?;
        let _turn = shared.turn().await?;
        let first = descriptor.trees.first().map(|tree| u64::from(tree.0));
        let Some(replica) = descriptor.replica_on(shared.me).filter(|_| first == Some(group.0))
        else {
            return Err(refused(group, "the descriptor is of another group, or of other nodes"));
        };
        match shared.log.state(log_group(group)) {
            Some(GroupState::Alive(alive)) => {
                let is_open = shared.replicas.of_group(group).is_some();
                return check_there(group, &alive, (&descriptor, replica), is_open);
            }
            Some(GroupState::Removed { least_replica }) if replica.0 < least_replica => {
                return Err(refused(group, "this replica was removed"));
            }
            Some(GroupState::Removed { .. }) | None => {}
        }
        let engine = shared.engine.clone();
        let (descriptor, trees) = shared
            .blocking(move || {
                let (trees, flushed) = open::open_trees(&engine, &descriptor)?;
                let mut applied = flushed;
                for tree in &trees {
                    applied = applied.max(tree.applied()?.0);
                }
                match applied {
                    0 => Ok((descriptor, trees)),
                    _ => Err(refused(group, "its trees have content")),
                }
            })
            .await?;
        let members = descriptor.members.clone();
        shared.write(Alone::Create(group, replica, Arc::new(descriptor.clone()))).await?;
        let (hosted, committed) = Hosted::new(group, replica, trees, descriptor, 0);
        let (done, opened) = oneshot::channel();
        let saved = SavedReplica::new(group, members);
        shared.inbox.push(Event::Open(Box::new(Opening { saved, hosted, committed, done })));
        match opened.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Error::Internal(format!("a new replica: {error:?}"))),
            Err(_) => Err(closing()),
        }
    }

    async fn remove(
        self: &Arc<Self>,
        group: GroupId,
        least_replica: ReplicaId,
        version: u64,
    ) -> Result<()> {
        let shared = self;
        let _turn = shared.turn().await?;
        shared.check_may_go(group, version).await?;
        // A tree of a group that has no descriptor here may be left of an earlier attempt.
        let first = u32::try_from(group.0).map(|tree| vec![TreeId(tree)]);
        let mut trees = first.unwrap_or_default();
        match shared.log.state(log_group(group)) {
            Some(GroupState::Alive(alive)) if alive.replica >= least_replica.0 => {
                return Err(refused(group, "a later replica lives here"));
            }
            Some(GroupState::Alive(alive)) => {
                trees = Descriptor::decode(&alive.descriptor).map_or(trees, |found| found.trees);
            }
            Some(GroupState::Removed { least_replica: least }) if least >= least_replica.0 => {
                return shared.drop_trees(trees).await;
            }
            Some(GroupState::Removed { .. }) | None => {}
        }
        let (done, closed) = oneshot::channel();
        shared.inbox.push(Event::Close(group, done));
        let tickets = closed.await.map_err(|_| closing())?;
        shared.requests.forget(&tickets);
        shared.write(Alone::Remove(group, least_replica)).await?;
        shared.drop_trees(trees).await
    }

    /// Writes to the log and waits until it is on disk.
    async fn write(&self, write: Alone) -> Result<()> {
        let (done, saved) = oneshot::channel();
        self.log_jobs.push(Job::Alone(write, done));
        let written = saved.await.map_err(|_| closing())?;
        written.map_err(Error::Internal)
    }

    /// Drops trees, as far as they are there.
    async fn drop_trees(&self, trees: Vec<TreeId>) -> Result<()> {
        let engine = self.engine.clone();
        let drop_all = move || {
            for tree in trees {
                match engine.drop_tree(tree) {
                    Ok(()) | Err(engine::Error::UnknownTree(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        };
        self.blocking(drop_all).await
    }

    /// Does work that waits for the disk, on a thread for it.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let counted = self.tasks.begin();
        let work = move || {
            let done = work();
            drop(counted);
            done
        };
        let done = self.runtime.spawn_blocking(work).await;
        done.unwrap_or_else(|_| Err(closing()))
    }
}

/// Checks that the replica that is to be created is the one that is there, and open.
fn check_there(
    group: GroupId,
    alive: &ReplicaState,
    (new, replica): (&Descriptor, ReplicaId),
    is_open: bool,
) -> Result<()> {
    let there = Descriptor::decode(&alive.descriptor).ok();
    match there {
        Some(there) if is_same_table(&there, new) => match () {
            () if alive.replica != replica.0 => {
                Err(refused(group, "another replica of it lives here"))
            }
            () if there.members != new.members => Err(refused(group, "it has other members here")),
            () if !is_open => Err(refused(group, "the replica lost what it had; remove it first")),
            () => Ok(()),
        },
        _ => Err(Error::AlreadyExists { what: "resource", name: format!("group {}", group.0) }),
    }
}

/// Returns true if both describe a group of one table. Its schema may have changed.
fn is_same_table(there: &Descriptor, new: &Descriptor) -> bool {
    let created =
        |of: &Descriptor| TableSchema::from_record(&of.schema).map(|of| of.created_micros);
    let is_same = there.table == new.table && there.trees == new.trees;
    let same_record = there.schema == new.schema;
    is_same
        && (same_record
            || matches!((created(there), created(new)), (Ok(one), Ok(other)) if one == other))
}

fn waits(outcome: &str) -> Error {
    Error::Unavailable(format!(
        "this node did not come to change its replicas: its disk may be full; {outcome}"
    ))
}

fn closing() -> Error {
    Error::Unavailable("this node is closing".to_owned())
}

fn refused(group: GroupId, why: &str) -> Error {
    Error::FailedPrecondition(format!("group {}: {why}", group.0))
}
