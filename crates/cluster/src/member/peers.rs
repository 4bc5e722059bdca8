//! The other nodes, as this one reaches them.

use super::asks::{Ask, begin, decode_leader};
use super::place;
use super::status::{Led, is_open};
use crate::directory::{
    Change, Directory, Key, Mirror, Outcome, Placement, Revision, Write, cluster_of,
};
use crate::format::{Descriptor, encode_frames};
use crate::group::{GroupId, Member, Message, NodeId, ReplicaId};
use crate::link::{Answers, CallError, CallKind, Link, finish};
use crate::node::{Links, Peers};
use crate::route::Nodes;
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use table::wire::Answer;
use table::{Error, Result, TreeId};

/// Bytes of messages with which a frame ends.
const FRAME_BYTES: usize = 256 << 10;
/// Longest wait for an answer about a group.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Times that a placement is chosen again because another node was faster.
const CHOICES_MAX: usize = 8;

/// The header of this file describes it.
pub(super) struct Others {
    link: Link,
    mirror: Mirror,
}

impl Others {
    pub(super) fn new(link: Link, mirror: Mirror) -> Self {
        Self { link, mirror }
    }

    fn directory(&self) -> Arc<dyn Directory> {
        self.mirror.directory()
    }

    /// Asks a node, and returns its only answer.
    async fn ask(&self, node: NodeId, ask: Ask) -> Result<Bytes> {
        let call = async {
            let answers = self.link.call(node, ask.kind(), ask.encode()).await?;
            only_answer(node, answers).await
        };
        match tokio::time::timeout(ANSWER_MAX, call).await {
            Ok(answer) => answer.map_err(|error| Error::Unavailable(error.to_string())),
            Err(_) => {
                let seconds = ANSWER_MAX.as_secs();
                let text = format!("node {} did not answer within {seconds} s", node.0);
                Err(Error::Unavailable(text))
            }
        }
    }

    /// Asks a node of the groups that it leads.
    pub(super) async fn led(&self, node: NodeId) -> Result<Led> {
        let call = async {
            let answers = self.link.call(node, CallKind::Status, begin().into()).await?;
            only_answer(node, answers).await
        };
        let answer = call.await.map_err(|error| Error::Unavailable(error.to_string()))?;
        let led = Led::decode(&answer);
        led.map_err(|error| Error::Internal(format!("answer of node {}: {error}", node.0)))
    }

    /// Returns the streams to the other nodes, with true for an open one, and the frames dropped.
    pub(super) fn links(&self) -> Vec<(NodeId, bool, u64)> {
        let peers = self.link.peers();
        peers.into_iter().map(|(node, state, dropped)| (node, is_open(&state), dropped)).collect()
    }

    /// Has a node carry out an order.
    async fn order(&self, node: NodeId, ask: Ask) -> Result<()> {
        let answer = self.ask(node, ask).await?;
        match Answer::decode(&answer) {
            Ok(Answer::Done) => Ok(()),
            Ok(Answer::Failed(error)) => Err(error),
            Ok(_) => Err(Error::Internal(format!("node {} answered another call", node.0))),
            Err(error) => Err(Error::Internal(format!("answer of node {}: {error}", node.0))),
        }
    }

    /// Returns the placement of a group, and its revision.
    async fn placement(&self, group: GroupId) -> Result<Option<Placement>> {
        let key = Key::Placement(group);
        let there = self.directory().get(&key).await.map_err(Error::from)?;
        Ok(there.item().map(|item| Placement::decode(&key, &item.value)).transpose()?)
    }
}

/// Returns the only answer of a call.
async fn only_answer(node: NodeId, mut answers: Answers) -> std::result::Result<Bytes, CallError> {
    let ended = || CallError::Unknown(format!("node {} ended a call early", node.0));
    let answer = answers.next().await.ok_or_else(ended)??;
    finish(answers).await;
    Ok(answer)
}

impl Links for Others {
    fn send(&self, to: NodeId, messages: Vec<Message>) {
        for frame in encode_frames(&messages, FRAME_BYTES) {
            self.link.send(to, frame);
        }
    }
}

#[async_trait]
impl Nodes for Others {
    async fn forward(&self, to: NodeId, request: Bytes) -> Result<Answers, CallError> {
        self.link.call(to, CallKind::Forward, request).await
    }

    fn members(&self, tree: TreeId) -> Vec<NodeId> {
        let key = Key::Placement(GroupId(tree.0.into()));
        let placement = self.mirror.get(&key).map(|item| Placement::decode(&key, &item.value));
        match placement {
            Some(Ok(placement)) => placement.members.iter().map(|member| member.node).collect(),
            _ => Vec::new(),
        }
    }
}

#[async_trait]
impl Peers for Others {
    async fn place(&self, group: GroupId) -> Result<Vec<Member>> {
        let key = Key::Placement(group);
        for _ in 0..CHOICES_MAX {
            if let Some(placement) = self.placement(group).await? {
                return Ok(placement.members);
            }
            let wanted = cluster_of(&*self.directory()).await.map_err(Error::from)?.replicas;
            self.mirror.current(ANSWER_MAX).await.map_err(Error::from)?;
            let candidates = place::candidates(self.mirror.items().values());
            let alive = candidates.len();
            let members = place::choose(candidates, group, wanted.into()).ok_or_else(|| {
                Error::FailedPrecondition(format!(
                    "a table has {wanted} replicas of each tablet, but only {alive} nodes of the \
                     cluster are alive; start more nodes"
                ))
            })?;
            let placement = Placement { members };
            let put = Write::put(&key, placement.encode());
            let change = Change::default().expect(&key, Revision(0)).write(put);
            match self.directory().change(change).await.map_err(Error::from)? {
                Outcome::Done(_) => return Ok(placement.members),
                Outcome::Conflict => {}
            }
        }
        Err(Error::Aborted(format!(
            "the placement of group {} is changed again and again",
            group.0
        )))
    }

    async fn create(&self, node: NodeId, group: GroupId, descriptor: &Descriptor) -> Result<()> {
        let descriptor = descriptor.encode().into();
        self.order(node, Ask::Create { group, descriptor }).await
    }

    async fn may_remove(&self, node: NodeId, group: GroupId, version: u64) -> Result<()> {
        self.order(node, Ask::Remove { group, least: ReplicaId(0), version }).await
    }

    async fn remove(
        &self,
        node: NodeId,
        group: GroupId,
        least: ReplicaId,
        version: u64,
    ) -> Result<()> {
        self.order(node, Ask::Remove { group, least, version }).await
    }

    async fn set_schema(
        &self,
        node: NodeId,
        group: GroupId,
        version: u64,
        record: Bytes,
    ) -> Result<()> {
        self.order(node, Ask::SetSchema { group, version, record }).await
    }

    async fn leader(&self, node: NodeId, group: GroupId) -> Result<Option<NodeId>> {
        let answer = self.ask(node, Ask::Leader { group }).await?;
        let leader = decode_leader(&answer);
        leader.map_err(|error| Error::Internal(format!("answer of node {}: {error}", node.0)))
    }

    async fn members(&self, group: GroupId) -> Result<Vec<Member>> {
        Ok(self.placement(group).await?.map(|placement| placement.members).unwrap_or_default())
    }
}
