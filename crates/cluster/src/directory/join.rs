//! The beginning of a cluster, and the way of a node into it.
//!
//! 1. A node id is given once. It is in the node's data directory before the node registers.
//! 2. The boot counter is raised in the data directory first and in the directory second. So the
//!    directory never knows a greater one than the data directory of the node, and where it does, the
//!    data directory is a copy, or was restored: the node's later votes and entries are missing.
//! 3. A node that is known starts without the directory, and registers when it can: while the directory
//!    does not answer, takes no changes, lost its data, or is another cluster's. Only what says that the data
//!    directory is a copy, and a directory that refuses the node, keep it from starting. A node that is new
//!    waits for nothing and fails.
//! 4. While an earlier start shows a sign of life, a start waits for its end: the data directory may be a
//!    copy, and the original at work. Only in the place of the last start, in the same run of the machine,
//!    nothing is waited for: the lock of the folder says that its process is gone.
//! 5. A data directory whose log ends before the end that its node told is an older copy, and is refused.
//!    A copy that is younger than half a minute is not known as one by this.

use super::counters::take;
use super::error::{Error, Result};
use super::identity::{BOOT_MAX, Identity, place_of};
use super::presence::LEASE_TTL;
use super::records::{ClusterRecord, NodeRecord, decode_counter};
use super::{Change, Directory, Item, Key, Outcome, Revision, Write};
use crate::group::NodeId;
use base::env::{FileSystem, RealFileSystem};
use engine::Member;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// Longest wait for the end of an earlier start's sign of life: the lease, and some time for the directory.
const EARLIER_MAX: Duration = LEASE_TTL.saturating_add(Duration::from_secs(3));
/// Pause between two looks at it.
const EARLIER_LOOK: Duration = Duration::from_millis(200);
/// Times that a change is tried again because another node was faster.
const CHANGES_MAX: u32 = 32;

/// Place of a node, as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePlace {
    /// `HOST:PORT` at which other nodes reach this one.
    pub address: String,
    /// Region that the node is in.
    pub region: String,
    /// Zone of the node in its region.
    pub zone: String,
}

/// A node that belongs to a cluster and has begun a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The cluster and the node's id in it.
    pub member: Member,
    /// Number of this start, greater than all before.
    pub boot: u64,
    /// Random number of this start, which tells it from the start of a copy.
    pub start: u128,
    /// End of the node's log when it started.
    pub log_end: u64,
    /// Reason why the node has not registered yet; [`Presence`](super::Presence) goes on trying.
    pub unregistered: Option<Error>,
}

/// Founds a cluster in an empty directory. `Refused` if there is one already.
pub async fn found(directory: &dyn Directory, cluster: &ClusterRecord) -> Result<()> {
    let change = Change::default()
        .expect(&Key::Cluster, Revision(0))
        .write(Write::put(&Key::Cluster, cluster.encode()));
    match directory.change(change).await? {
        Outcome::Done(_) => Ok(()),
        Outcome::Conflict => {
            let there = cluster_of(directory).await?.id;
            Err(Error::Refused(format!("{} already has cluster {there}", directory.name())))
        }
    }
}

/// Returns the record of the cluster. `Foreign` if the directory has none.
pub async fn cluster_of(directory: &dyn Directory) -> Result<ClusterRecord> {
    match one(directory, &Key::Cluster).await? {
        Some(item) => ClusterRecord::decode(&item.value),
        None => Err(Error::Foreign(format!(
            "{} has no cluster; for a new cluster, found one with `stele cluster init`. If there was one, \
             the directory lost its data: restore its backup",
            directory.name()
        ))),
    }
}

/// Begins a start of the node whose data is in `dir`, which no other process has open. The node gets an id
/// if it has none. Its log ends at `log_end`.
///
/// # Errors
///
/// `Refused` if an earlier start of the node is at work; `Replaced` if the data directory is older than the
/// node; `Invalid` for a malformed place. Others come for a new node only: [`Joined::unregistered`] has
/// them for one that is known.
pub async fn join(
    directory: &dyn Directory,
    dir: &Path,
    place: &NodePlace,
    log_end: u64,
) -> Result<Joined> {
    let known = Identity::load(dir)?;
    record_of(0, 0, place).check()?;
    let here = place_of(dir);
    let mut identity = match known {
        Some(identity) => identity,
        None => {
            let cluster = cluster_of(directory).await?.id;
            let node = next_node(directory).await?;
            Identity { cluster, node, boot: 0, place: 0 }
        }
    };
    if identity.boot >= BOOT_MAX {
        return Err(Error::Invalid("the node has started too often".to_owned()));
    }
    let is_same_place = here.is_some_and(|here| here == identity.place);
    (identity.boot, identity.place) = (identity.boot + 1, here.unwrap_or(0));
    let start = RealFileSystem.unique();
    let start = start.map_err(|error| Error::Unavailable(format!("no random number: {error}")))?;
    // Looks first: a refused directory keeps its counter, so that it is refused again.
    let looked = async {
        check(directory, &identity, start).await?;
        check_log(directory, identity.node, log_end).await?;
        if known.is_some() && !is_same_place {
            await_end(directory, identity.node).await?;
        }
        Ok(())
    };
    let unregistered = match looked.await {
        Ok(()) => None,
        Err(error) if known.is_some() && may_wait(&error) => Some(error),
        Err(error) => return Err(error),
    };
    identity.save(dir)?;
    let member = Member { cluster: identity.cluster, node: engine::NodeId(identity.node.0) };
    let mut joined = Joined { member, boot: identity.boot, start, log_end, unregistered };
    if joined.unregistered.is_none() {
        match register(directory, &joined, place).await {
            Ok(()) => {}
            Err(error) if known.is_some() && may_wait(&error) => joined.unregistered = Some(error),
            Err(error) => return Err(error),
        }
    }
    Ok(joined)
}

/// Returns true for a failure with which a known node starts, to register later.
fn may_wait(error: &Error) -> bool {
    !matches!(error, Error::Refused(_) | Error::Replaced(_))
}

fn record_of(boot: u64, start: u128, place: &NodePlace) -> NodeRecord {
    let NodePlace { address, region, zone } = place.clone();
    NodeRecord { boot, start, address, region, zone }
}

/// Writes the record of a node that has begun a start, if it is not there. `Replaced` if a later start
/// has registered.
pub(super) async fn register(
    directory: &dyn Directory,
    joined: &Joined,
    place: &NodePlace,
) -> Result<()> {
    let node = NodeId(joined.member.node.0);
    let identity = Identity { cluster: joined.member.cluster, node, boot: joined.boot, place: 0 };
    let record = record_of(joined.boot, joined.start, place);
    let key = Key::Node(node);
    for _ in 0..CHANGES_MAX {
        let known = check(directory, &identity, joined.start).await?;
        if known.as_ref().is_some_and(|(there, _)| *there == record) {
            return Ok(());
        }
        let revision = known.map_or(Revision(0), |(_, revision)| revision);
        let change =
            Change::default().expect(&key, revision).write(Write::put(&key, record.encode()));
        if let Outcome::Done(_) = directory.change(change).await? {
            return Ok(());
        }
    }
    Err(Error::Conflict(format!("{key} is changed again and again")))
}

/// Checks that no later start of a node is registered, and returns its record with the revision.
async fn check(
    directory: &dyn Directory,
    identity: &Identity,
    start: u128,
) -> Result<Option<(NodeRecord, Revision)>> {
    let cluster = cluster_of(directory).await?.id;
    if cluster != identity.cluster {
        return Err(Error::Foreign(format!(
            "the data directory is of cluster {}, but {} has cluster {cluster}",
            identity.cluster,
            directory.name()
        )));
    }
    let Some(item) = one(directory, &Key::Node(identity.node)).await? else {
        return Ok(None);
    };
    let known = NodeRecord::decode(identity.node, &item.value)?;
    if known.boot > identity.boot || known.boot == identity.boot && known.start != start {
        return Err(Error::Replaced(format!(
            "this data directory of node {} has start {}, but start {} of the node is registered, \
             at {}. The directory is a copy or was restored, and must not vote. Start the node with \
             its own directory, or remove the copy and join with an empty one",
            identity.node.0, identity.boot, known.boot, known.address
        )));
    }
    Ok(Some((known, item.revision)))
}

/// Checks that the log of a node goes as far as the node once told.
pub(super) async fn check_log(directory: &dyn Directory, node: NodeId, log_end: u64) -> Result<()> {
    let key = Key::Mark(node);
    let Some(item) = one(directory, &key).await? else { return Ok(()) };
    let mark = decode_counter(&key, &item.value)?;
    if log_end >= mark {
        return Ok(());
    }
    Err(Error::Replaced(format!(
        "the log in this data directory of node {} ends at {log_end:#x}, but the node has written up to \
         {mark:#x}. The directory is an older copy and must not vote. Start the node with its own \
         directory, or remove the copy and join with an empty one",
        node.0
    )))
}

/// Waits until no earlier start of a node shows a sign of life.
async fn await_end(directory: &dyn Directory, node: NodeId) -> Result<()> {
    let until = Instant::now() + EARLIER_MAX;
    let mut told = false;
    while one(directory, &Key::Alive(node)).await?.is_some() {
        if Instant::now() >= until {
            let at = one(directory, &Key::Node(node)).await?;
            let at = at.and_then(|item| NodeRecord::decode(node, &item.value).ok());
            let at = at.map_or_else(String::new, |record| format!(" at {}", record.address));
            return Err(Error::Refused(format!(
                "node {} is at work{at}: this data directory is a copy of its, and must not be started \
                 beside it. Join with an empty directory for a new node",
                node.0
            )));
        }
        if !std::mem::replace(&mut told, true) {
            tracing::info!(node = node.0, "waiting for the end of an earlier start of the node");
        }
        tokio::time::sleep(EARLIER_LOOK).await;
    }
    Ok(())
}

/// Takes the next node id, which no other node gets.
async fn next_node(directory: &dyn Directory) -> Result<NodeId> {
    take(directory, &Key::NextNode, 1, 1).await.map(NodeId)
}

/// Reads the item of one key.
async fn one(directory: &dyn Directory, key: &Key) -> Result<Option<Item>> {
    Ok(directory.get(key).await?.item().cloned())
}
