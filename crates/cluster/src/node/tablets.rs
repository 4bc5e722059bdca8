//! The replicated tablets of a node, for the layer of tables: what concerns this node's replicas is done
//! here, and the rest is asked of other nodes.

use super::hosted::Ready;
use super::{Node, Peers};
use crate::format::Descriptor;
use crate::group::{GroupId, Member, NodeId, ReplicaId};
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{BoxFuture, join_all, try_join_all};
use std::sync::Arc;
use std::time::Duration;
use table::{Error, GroupWrite, Groups, Result, TableSchema, Term, TreeId};

/// Pause before the nodes are asked again who leads.
const PAUSE: Duration = Duration::from_millis(100);
/// Rounds of questions before a group counts as one without a leader.
const ROUNDS_MAX: usize = 100;

/// The header of this file describes it.
pub struct Tablets {
    node: Arc<Node>,
    peers: Arc<dyn Peers>,
}

/// Returns the group of a tablet.
pub(super) fn group_of(tree: TreeId) -> GroupId {
    GroupId(tree.0.into())
}

impl Tablets {
    /// Returns the tablets of `node`, which reaches the others by `peers`.
    pub fn new(node: Arc<Node>, peers: Arc<dyn Peers>) -> Self {
        Self { node, peers }
    }

    /// Creates a group on all its members, and waits for a leader.
    async fn create_group(&self, tree: TreeId, schema: &TableSchema, version: u64) -> Result<()> {
        let group = group_of(tree);
        let descriptor = Descriptor {
            members: self.peers.place(group).await?,
            trees: vec![tree],
            table: schema.name.as_str().to_owned(),
            schema_version: version,
            schema: schema.to_record().into(),
        };
        let create = |node: NodeId| {
            let descriptor = descriptor.clone();
            async move {
                match node == self.node.id() {
                    true => self.node.create(group, descriptor).await,
                    false => self.peers.create(node, group, &descriptor).await,
                }
            }
        };
        // A quorum can work; the others are created when they are reached again.
        let members = &descriptor.members;
        let outcomes = join_all(nodes_of(members).map(create)).await;
        let done = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        if done <= members.len() / 2 {
            let first = outcomes.into_iter().find_map(Result::err);
            return Err(first.unwrap_or_else(|| no_leader(group)));
        }
        self.find_leader(group, members, |_| async { Ok(()) }).await
    }

    /// Calls `call` with the leader of a group until it succeeds, or fails otherwise than by a change
    /// of leaders.
    async fn find_leader<F: Future<Output = Result<()>>>(
        &self,
        group: GroupId,
        members: &[Member],
        call: impl Fn(NodeId) -> F,
    ) -> Result<()> {
        let mut outcome = Err(no_leader(group));
        for _ in 0..ROUNDS_MAX {
            if let Some(leader) = self.ask_for_leader(group, members).await {
                outcome = call(leader).await;
                match &outcome {
                    Err(Error::NotLeader { .. } | Error::Unavailable(_)) => {}
                    _ => return outcome,
                }
            }
            self.node.pause(PAUSE).await;
        }
        outcome
    }

    async fn ask_for_leader(&self, group: GroupId, members: &[Member]) -> Option<NodeId> {
        if let Some(leader) = self.node.leader(group) {
            return Some(leader);
        }
        for member in members.iter().filter(|member| member.node != self.node.id()) {
            if let Ok(Some(leader)) = self.peers.leader(member.node, group).await {
                return Some(leader);
            }
        }
        None
    }
}

fn nodes_of(members: &[Member]) -> std::vec::IntoIter<NodeId> {
    members.iter().map(|member| member.node).collect::<Vec<_>>().into_iter()
}

fn no_leader(group: GroupId) -> Error {
    Error::Unavailable(format!("group {} has no leader", group.0))
}

fn term(ready: Ready) -> Term {
    Term { number: ready.term, floor: ready.floor }
}

#[async_trait]
impl Groups for Tablets {
    async fn readable(&self, tree: TreeId) -> Result<Term> {
        self.node.readable(tree).await.map(term)
    }

    async fn writable(&self, tree: TreeId) -> Result<Term> {
        self.node.writable(tree).await.map(term)
    }

    fn commit(&self, write: GroupWrite) -> BoxFuture<'static, Result<()>> {
        self.node.commit(write)
    }

    async fn create(&self, schema: &TableSchema, version: u64) -> Result<()> {
        let all = schema.tablets.iter();
        try_join_all(all.map(|tablet| self.create_group(tablet.tree, schema, version))).await?;
        Ok(())
    }

    async fn remove(&self, trees: &[TreeId]) -> Result<()> {
        for tree in trees {
            let group = group_of(*tree);
            let members = self.peers.members(group).await?;
            let least = members.iter().map(|member| member.replica.0 + 1).max().unwrap_or(1);
            let least = ReplicaId(least);
            let remove = |node: NodeId| async move {
                match node == self.node.id() {
                    true => self.node.remove(group, least).await,
                    false => self.peers.remove(node, group, least).await,
                }
            };
            try_join_all(nodes_of(&members).map(remove)).await?;
        }
        Ok(())
    }

    async fn set_schema(&self, schema: &TableSchema, version: u64) -> Result<()> {
        let record: Bytes = schema.to_record().into();
        let set = |tree: TreeId| {
            let (group, record) = (group_of(tree), record.clone());
            async move {
                let members = self.peers.members(group).await?;
                let call = |leader: NodeId| {
                    let record = record.clone();
                    async move {
                        match leader == self.node.id() {
                            true => self.node.set_schema(group, version, &record).await,
                            false => self.peers.set_schema(leader, group, version, record).await,
                        }
                    }
                };
                self.find_leader(group, &members, call).await
            }
        };
        try_join_all(schema.tablets.iter().map(|tablet| set(tablet.tree))).await?;
        Ok(())
    }

    fn leader(&self, tree: TreeId) -> Option<u64> {
        self.node.leader(group_of(tree)).map(|node| node.0)
    }
}
