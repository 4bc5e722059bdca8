//! The world around a node: connections, calls to other nodes, and the tables above it.

use crate::format::Descriptor;
use crate::group::{GroupId, Member, Message, NodeId, ReplicaId};
use async_trait::async_trait;
use bytes::Bytes;

/// Connections to the other nodes.
pub trait Links: Send + Sync + 'static {
    /// Sends messages to a node, after all that were sent to it before. Does not wait. Messages may be
    /// lost, but an order is never broken: see the duties of [`crate::group`].
    fn send(&self, to: NodeId, messages: Vec<Message>);
}

/// Calls to the other nodes. They may fail, and may be repeated.
#[async_trait]
pub trait Peers: Send + Sync + 'static {
    /// Chooses the members of a new group, or returns the ones that were chosen before.
    async fn place(&self, group: GroupId) -> table::Result<Vec<Member>>;

    /// Makes `node` create its replica of a group ([`super::Node::create`]).
    async fn create(
        &self,
        node: NodeId,
        group: GroupId,
        descriptor: &Descriptor,
    ) -> table::Result<()>;

    /// Makes `node` tell whether a removal may take its replica along ([`super::Node::may_remove`]).
    async fn may_remove(&self, node: NodeId, group: GroupId, version: u64) -> table::Result<()>;

    /// Makes `node` remove its replica of a group ([`super::Node::remove`]).
    async fn remove(
        &self,
        node: NodeId,
        group: GroupId,
        least_replica: ReplicaId,
        version: u64,
    ) -> table::Result<()>;

    /// Makes `node`, which leads the group, give it a schema ([`super::Node::set_schema`]).
    async fn set_schema(
        &self,
        node: NodeId,
        group: GroupId,
        version: u64,
        record: Bytes,
    ) -> table::Result<()>;

    /// Makes `node` tell which node leads a group, as far as it knows ([`super::Node::leader`]).
    async fn leader(&self, node: NodeId, group: GroupId) -> table::Result<Option<NodeId>>;

    /// Returns the members of a group of which this node may have no replica; an empty list if no node has one.
    async fn members(&self, group: GroupId) -> table::Result<Vec<Member>>;
}

/// The layer of tables, which is told what the groups agree on.
pub trait Tables: Send + Sync + 'static {
    /// A replica of this node has applied a newer schema of its table. Called before the command counts
    /// as applied, by a task that must not wait.
    fn schema_applied(&self, group: GroupId, version: u64, record: &Bytes);
}
