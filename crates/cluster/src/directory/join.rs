//! The beginning of a cluster, and the way of a node into it.
//!
//! 1. A node id is given once. It is in the node's data directory before the node registers.
//! 2. The boot counter is raised in the data directory first and in the directory second. So the
//!    directory never knows a greater one than the data directory of the node, and where it does, the
//!    data directory is a copy, or was restored: the node's later votes and entries are missing.
//! 3. A node that is known starts without the directory, and registers when it answers. A node that
//!    is new waits for nothing and fails.

use super::error::{Error, Result};
use super::identity::Identity;
use super::records::{ClusterRecord, NodeRecord, decode_counter, encode_counter};
use super::{Change, Directory, Item, Key, Outcome, Revision, Write};
use crate::group::NodeId;
use base::env::{FileSystem, RealFileSystem};
use engine::Member;
use std::path::Path;

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

/// Returns the record of the cluster. `Refused` if the directory has none.
pub async fn cluster_of(directory: &dyn Directory) -> Result<ClusterRecord> {
    match one(directory, &Key::Cluster).await? {
        Some(item) => ClusterRecord::decode(&item.value),
        None => Err(Error::Refused(format!(
            "{} has no cluster; found one with `stele cluster init`",
            directory.name()
        ))),
    }
}

/// Begins a start of the node whose data is in `dir`, which no other process has open. The node gets an id
/// if it has none. `Refused` if the data directory is of another cluster, or older than the node.
pub async fn join(directory: &dyn Directory, dir: &Path, place: &NodePlace) -> Result<Joined> {
    let known = Identity::load(dir)?;
    let mut identity = match known {
        Some(identity) => identity,
        None => {
            let cluster = cluster_of(directory).await?.id;
            let node = next_node(directory).await?;
            Identity { cluster, node, boot: 0 }
        }
    };
    identity.boot += 1;
    let start = RealFileSystem.unique();
    let start = start.map_err(|error| Error::Unavailable(format!("no random number: {error}")))?;
    // Looks first: a refused directory keeps its counter, so that it is refused again.
    let unregistered = match check(directory, &identity, start).await {
        Ok(_) => None,
        Err(error @ Error::Unavailable(_)) if known.is_some() => Some(error),
        Err(error) => return Err(error),
    };
    identity.save(dir)?;
    let member = Member { cluster: identity.cluster, node: engine::NodeId(identity.node.0) };
    let mut joined = Joined { member, boot: identity.boot, start, unregistered };
    if joined.unregistered.is_none() {
        match register(directory, &joined, place).await {
            Ok(()) => {}
            Err(error @ Error::Unavailable(_)) if known.is_some() => {
                joined.unregistered = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(joined)
}

/// Writes the record of a node that has begun a start, if it is not there. `Refused` if a later start
/// has registered.
pub(super) async fn register(
    directory: &dyn Directory,
    joined: &Joined,
    place: &NodePlace,
) -> Result<()> {
    let (node, NodePlace { address, region, zone }) = (NodeId(joined.member.node.0), place.clone());
    let identity = Identity { cluster: joined.member.cluster, node, boot: joined.boot };
    let record = NodeRecord { boot: joined.boot, start: joined.start, address, region, zone };
    record.check()?;
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
        return Err(Error::Refused(format!(
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
        return Err(Error::Refused(format!(
            "this data directory of node {} has start {}, but start {} of the node is registered, \
             at {}. The directory is a copy or was restored, and must not vote. Start the node with \
             its own directory, or remove the copy and join with an empty one",
            identity.node.0, identity.boot, known.boot, known.address
        )));
    }
    Ok(Some((known, item.revision)))
}

/// Takes the next node id, which no other node gets.
async fn next_node(directory: &dyn Directory) -> Result<NodeId> {
    take(directory, &Key::NextNode, 1, 1).await.map(NodeId)
}

/// Takes `count` numbers from the counter under `key`, which begins at `least`, and returns the first.
pub(super) async fn take(
    directory: &dyn Directory,
    key: &Key,
    least: u64,
    count: u64,
) -> Result<u64> {
    for _ in 0..CHANGES_MAX {
        let (first, revision) = match one(directory, key).await? {
            Some(item) => (decode_counter(key, &item.value)?.max(least), item.revision),
            None => (least, Revision(0)),
        };
        let next = first.checked_add(count);
        let next = next.ok_or_else(|| Error::Full(format!("all numbers of {key} are used up")))?;
        let change =
            Change::default().expect(key, revision).write(Write::put(key, encode_counter(next)));
        if let Outcome::Done(_) = directory.change(change).await? {
            return Ok(first);
        }
    }
    Err(Error::Conflict(format!("{key} is changed again and again")))
}

/// Reads the item of one key.
async fn one(directory: &dyn Directory, key: &Key) -> Result<Option<Item>> {
    let name = key.to_string();
    let below = directory.read(&name).await?;
    Ok(below.items.into_iter().find(|item| item.key == name))
}
