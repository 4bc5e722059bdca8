//! The replicated tablets of a node, for the layer of tables: what concerns this node's replicas is done
//! here, and the rest is asked of other nodes.
//!
//! 1. A call about a table asks all of its groups, and ends when all have answered: none is given up
//!    half way because another one failed.
//! 2. It has a bound of time ([`CALL_MAX`]), whatever its groups do. A node that did not answer is not
//!    asked again by the same call.

use super::hosted::Ready;
use super::{Node, Peers};
use crate::format::Descriptor;
use crate::group::{GroupId, Member, NodeId, ReplicaId};
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{BoxFuture, join_all};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::{Error, GroupWrite, Groups, Removal, Result, TableSchema, Term, TreeId};

/// Pause before the nodes are asked again who leads.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest search for the leaders of a table's groups, of all of them together.
const CALL_MAX: Duration = Duration::from_secs(30);
/// Groups of a table that are asked at the same time.
const AT_ONCE: usize = 32;

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
    async fn create_group(
        &self,
        tree: TreeId,
        (schema, version): (&TableSchema, u64),
        call: &Call,
    ) -> Result<()> {
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
                    true => call.ask(node, self.node.create(group, descriptor)).await,
                    false => call.ask(node, self.peers.create(node, group, &descriptor)).await,
                }
            }
        };
        // A quorum can work; the others create their replicas when they are back.
        let members = &descriptor.members;
        let outcomes = join_all(nodes_of(members).map(create)).await;
        // The id has a group of another table: this one may not get it anywhere.
        let is_taken = |outcome: &&Result<()>| matches!(outcome, Err(Error::AlreadyExists { .. }));
        if let Some(taken) = outcomes.iter().find(is_taken) {
            return taken.clone();
        }
        let done = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        if done <= members.len() / 2 {
            let first = outcomes.into_iter().find_map(Result::err);
            return Err(first.unwrap_or_else(|| no_leader(group)));
        }
        self.find_leader(group, members, call, |_| async { Ok(()) }).await
    }

    /// Removes a group from all its members, as far as they can be reached, if no replica has to stay. A majority
    /// must say so first: what was acknowledged is on one of its nodes.
    async fn remove_group(&self, tree: TreeId, version: u64, call: &Call) -> Result<()> {
        let group = group_of(tree);
        let members = self.peers.members(group).await?;
        let may = |node: NodeId| async move {
            match node == self.node.id() {
                true => self.node.may_remove(group, version).await,
                false => call.ask(node, self.peers.may_remove(node, group, version)).await,
            }
        };
        let told = join_all(nodes_of(&members).map(may)).await;
        if let Some(stays) =
            told.iter().find(|told| matches!(told, Err(Error::AlreadyExists { .. })))
        {
            return stays.clone();
        }
        if told.iter().filter(|told| told.is_ok()).count() * 2 <= told.len() {
            // Without members the group is nowhere.
            return told.into_iter().find(Result::is_err).unwrap_or(Ok(()));
        }
        let least = members.iter().map(|member| member.replica.0 + 1).max().unwrap_or(1);
        let least = ReplicaId(least);
        let remove = |node: NodeId| async move {
            match node == self.node.id() {
                true => call.ask(node, self.node.remove(group, least, version)).await,
                false => call.ask(node, self.peers.remove(node, group, least, version)).await,
            }
        };
        join_all(nodes_of(&members).map(remove)).await.into_iter().collect()
    }

    /// Calls `call` with the leader of a group until it succeeds, or fails otherwise than by a change
    /// of leaders.
    async fn find_leader<F: Future<Output = Result<()>>>(
        &self,
        group: GroupId,
        members: &[Member],
        call: &Call,
        then: impl Fn(NodeId) -> F,
    ) -> Result<()> {
        let search = async {
            loop {
                if let Some(leader) = self.ask_for_leader(group, members).await {
                    match then(leader).await {
                        Err(Error::NotLeader { .. } | Error::Unavailable(_)) => {}
                        outcome => return outcome,
                    }
                }
                self.node.pause(PAUSE).await;
            }
        };
        let bound = self.node.pause(call.until.saturating_duration_since(Instant::now()));
        tokio::select! {
            biased;
            outcome = search => outcome,
            () = bound => Err(no_leader(group)),
        }
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

fn trees_of(schema: &TableSchema) -> Vec<TreeId> {
    schema.tablets.iter().map(|tablet| tablet.tree).collect()
}

fn nodes_of(members: &[Member]) -> std::vec::IntoIter<NodeId> {
    members.iter().map(|member| member.node).collect::<Vec<_>>().into_iter()
}

fn no_leader(group: GroupId) -> Error {
    let text = format!("group {} has no leader that carries the call out", group.0);
    Error::Unavailable(text)
}

/// A call about the groups of a table.
struct Call {
    /// End of the searches for leaders.
    until: Instant,
    /// Nodes that did not answer.
    away: Mutex<BTreeSet<NodeId>>,
}

impl Call {
    fn begin() -> Self {
        Self { until: Instant::now() + CALL_MAX, away: Mutex::default() }
    }

    /// Waits for the answer of a node, unless it left an earlier question of the call without one.
    async fn ask(&self, node: NodeId, answer: impl Future<Output = Result<()>>) -> Result<()> {
        if self.away.lock().contains(&node) {
            return Err(Error::Unavailable(format!("node {} does not answer", node.0)));
        }
        let answer = answer.await;
        if matches!(answer, Err(Error::Unavailable(_))) {
            self.away.lock().insert(node);
        }
        answer
    }
}

/// Waits for all of `calls`, and returns the first error.
async fn all<F: Future<Output = Result<()>>>(calls: impl Iterator<Item = F>) -> Result<()> {
    let outcomes: Vec<Result<()>> = stream::iter(calls).buffer_unordered(AT_ONCE).collect().await;
    outcomes.into_iter().collect()
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
        let (call, trees) = (Call::begin(), trees_of(schema));
        all(trees.into_iter().map(|tree| self.create_group(tree, (schema, version), &call))).await
    }

    async fn remove(&self, removal: &Removal) -> Result<()> {
        let (call, trees, version) = (Call::begin(), removal.trees.clone(), removal.version);
        let removed = trees.into_iter().map(|tree| self.remove_group(tree, version, &call));
        let removed: Vec<Result<()>> =
            stream::iter(removed).buffer_unordered(AT_ONCE).collect().await;
        let stays = |outcome: &&Result<()>| matches!(outcome, Err(Error::AlreadyExists { .. }));
        match removed.iter().find(stays) {
            Some(stays) => stays.clone(),
            None => removed.into_iter().collect(),
        }
    }

    async fn set_schema(&self, schema: &TableSchema, version: u64) -> Result<()> {
        let record: Bytes = schema.to_record().into();
        let call = Call::begin();
        let set = |tree: TreeId| {
            let (group, record, call) = (group_of(tree), record.clone(), &call);
            async move {
                let members = self.peers.members(group).await?;
                let set = |leader: NodeId| {
                    let record = record.clone();
                    async move {
                        match leader == self.node.id() {
                            true => self.node.set_schema(group, version, &record).await,
                            false => self.peers.set_schema(leader, group, version, record).await,
                        }
                    }
                };
                self.find_leader(group, &members, call, set).await
            }
        };
        all(trees_of(schema).into_iter().map(set)).await
    }

    fn leader(&self, tree: TreeId) -> Option<u64> {
        self.node.leader(group_of(tree)).map(|node| node.0)
    }
}
