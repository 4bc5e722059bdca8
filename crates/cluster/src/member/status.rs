//! The condition of a whole cluster, for those who watch it: nodes, tablets, leaders, and how far
//! replicas are behind. A node tells of the groups that it leads, and asks the others for theirs.
//!
//! 1. Answers are bounded: of a node [`LED_MAX`] groups, of the cluster [`TABLETS_MAX`] tablets. What is
//!    left out is counted.
//! 2. A node that does not answer in time keeps no one waiting. What it leads is told as far as
//!    the replicas of this node know it.

use super::asks::versioned;
use super::peers::Others;
use crate::directory::{Item, Key, Mirror, NodeRecord, Placement, TableRecord};
use crate::format::FormatError;
use crate::group::{GroupId, GroupReport, NodeId};
use crate::link::PeerState;
use crate::node::{LogReadings, Node};
use base::codec::PutBytes;
use bytes::Bytes;
use engine::ClusterId;
use futures::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Largest number of tablets that a status has.
pub const TABLETS_MAX: usize = 1000;
/// Groups of which one node tells.
const LED_MAX: usize = 1000;
/// Members of a group that are told.
const MEMBERS_MAX: usize = 64;
/// Longest wait for this node's groups, and for the answer of another node.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Condition of a cluster as one of its nodes sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Cluster that the node belongs to.
    pub cluster: ClusterId,
    /// Node that tells the status.
    pub me: NodeId,
    /// The reason why the directory does not answer, if it does not.
    pub trouble: Option<String>,
    /// All nodes that ever joined.
    pub nodes: Vec<NodeStatus>,
    /// Tablets in the order of their tables, at most [`TABLETS_MAX`].
    pub tablets: Vec<TabletStatus>,
    /// Number of the tablets that are not in `tablets`.
    pub tablets_left_out: usize,
}

/// Condition of one node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Id of the node in its cluster.
    pub id: NodeId,
    /// Address at which other nodes reach it.
    pub address: String,
    /// Region that it says it is in.
    pub region: String,
    /// Zone that it says it is in.
    pub zone: String,
    /// True while it shows a sign of life in the directory.
    pub is_alive: bool,
    /// Number of groups that it leads; None if it did not answer.
    pub leaders: Option<u64>,
    /// Number of replicas that are placed on it.
    pub replicas: u64,
}

/// Condition of one tablet of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TabletStatus {
    /// Full name of the tablet's table.
    pub table: String,
    /// Id of the tablet's tree.
    pub tree: u64,
    /// Node that leads, if it is known.
    pub leader: Option<NodeId>,
    /// Term of the leader; 0 if it did not answer.
    pub term: u64,
    /// Its replicas, in order of their ids.
    pub members: Vec<ReplicaStatus>,
}

/// Condition of one replica of a tablet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// Node that the replica is on.
    pub node: NodeId,
    /// Entries of the leader's log that it lacks; None if the leader did not answer.
    pub lag: Option<u64>,
    /// True if the leader's log no longer has what it lacks.
    pub is_behind: bool,
}

/// The groups that a node leads, as it tells of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Led {
    /// Number of all of them.
    count: u64,
    groups: BTreeMap<GroupId, LedGroup>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct LedGroup {
    term: u64,
    members: Vec<ReplicaStatus>,
}

/// Tells the condition of a cluster. Clones are cheap.
#[derive(Clone)]
pub struct Watcher {
    pub(super) cluster: ClusterId,
    pub(super) node: Arc<Node>,
    pub(super) mirror: Mirror,
    pub(super) others: Arc<Others>,
}

/// Numbers of a node's part of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeReadings {
    /// Replicas at work on the node.
    pub replicas: u64,
    /// Replicas on the node that lead.
    pub leaders: u64,
    /// Replicas on the node whose group has no leader that is known here.
    pub leaderless: u64,
    /// Replicas on the node that lost what they had acknowledged.
    pub damaged: u64,
    /// Most entries that a follower of a group lacks which the node leads.
    pub lag_entries_max: u64,
    /// Followers that the logs of their leaders on this node cannot help any more.
    pub behind: u64,
    /// Most committed entries that wait to be applied in one replica.
    pub unapplied_entries_max: u64,
    /// Elections that replicas of the node have won.
    pub elections_won: u64,
    /// Times that the log let go of entries that a replica lacked.
    pub forced_cuts: u64,
    /// Segments of the group log.
    pub log_segments: u64,
    /// Syncs of the group log since the start.
    pub log_syncs: u64,
    /// Waits and syncs of the group log since the start.
    pub log: LogReadings,
    /// True while the group log waits for space.
    pub log_waits: bool,
    /// True while the directory answers.
    pub directory_answers: bool,
    /// Other nodes, with true for an open stream, and with the frames that were dropped.
    pub links: Vec<(NodeId, bool, u64)>,
}

impl Watcher {
    /// Returns the condition of the cluster. Asks the other nodes.
    pub async fn status(&self) -> ClusterStatus {
        let items = self.mirror.items();
        let me = self.node.id();
        let asked: Vec<NodeId> = alive(items.keys()).into_iter().filter(|of| *of != me).collect();
        let answers = asked.into_iter().map(|of| async move {
            let answer = tokio::time::timeout(ANSWER_MAX, self.others.led(of)).await;
            Some((of, answer.ok()?.ok()?))
        });
        let node = Arc::clone(&self.node);
        let here = tokio::task::spawn_blocking(move || node.report(ANSWER_MAX));
        let (answers, here) = tokio::join!(join_all(answers), here);
        let here = here.ok().flatten();
        let mut led: BTreeMap<NodeId, Led> = answers.into_iter().flatten().collect();
        if let Some(here) = &here {
            led.insert(me, Led::of(here));
        }
        let here = here.unwrap_or_default();
        let trouble = self.mirror.state().borrow().trouble.clone();
        assemble(&items, (self.cluster, me, trouble), &here, &led)
    }

    /// Returns what this node counts. Blocks for a moment; `None` if the node has ended or is stuck.
    pub fn readings(&self) -> Option<NodeReadings> {
        let reports = self.node.report(ANSWER_MAX)?;
        let (damaged, log) = (self.node.damaged().len(), self.node.log_size());
        let state = self.mirror.state();
        let answers = state.borrow().is_current && state.borrow().trouble.is_none();
        let mut readings = NodeReadings {
            damaged: damaged as u64,
            elections_won: self.node.elections_won(),
            forced_cuts: self.node.forced_cuts(),
            log_segments: log.segments as u64,
            log_syncs: self.node.log_syncs(),
            log: self.node.log_readings(),
            log_waits: self.node.waits_for_space(),
            directory_answers: answers,
            links: self.others.links(),
            ..NodeReadings::default()
        };
        reports.iter().for_each(|report| readings.add(report));
        Some(readings)
    }
}

impl NodeReadings {
    fn add(&mut self, report: &GroupReport) {
        self.replicas += 1;
        self.leaders += u64::from(report.leads);
        self.leaderless += u64::from(report.leader.is_none());
        let unapplied = report.committed.saturating_sub(report.applied);
        self.unapplied_entries_max = self.unapplied_entries_max.max(unapplied);
        for member in &report.members {
            let lag = report.lag(member).unwrap_or(0);
            self.lag_entries_max = self.lag_entries_max.max(lag);
            self.behind += u64::from(member.is_behind);
        }
    }
}

/// Returns true if a stream is open.
pub(super) fn is_open(state: &PeerState) -> bool {
    *state == PeerState::Open
}

fn alive<'a>(keys: impl Iterator<Item = &'a String>) -> BTreeSet<NodeId> {
    let alive = keys.filter_map(|key| match Key::parse(key) {
        Some(Key::Alive(node)) => Some(node),
        _ => None,
    });
    alive.collect()
}

/// Puts together what the directory shows, what the replicas `here` know, and what nodes told.
fn assemble(
    items: &BTreeMap<String, Item>,
    (cluster, me, trouble): (ClusterId, NodeId, Option<String>),
    here: &[GroupReport],
    led: &BTreeMap<NodeId, Led>,
) -> ClusterStatus {
    let known: BTreeMap<GroupId, &GroupReport> = here.iter().map(|at| (at.group, at)).collect();
    let alive = alive(items.keys());
    let (mut placed, mut replicas) = (BTreeMap::new(), BTreeMap::<NodeId, u64>::new());
    for item in items.values() {
        let Some(key @ Key::Placement(group)) = Key::parse(&item.key) else { continue };
        let Ok(placement) = Placement::decode(&key, &item.value) else { continue };
        for member in &placement.members {
            *replicas.entry(member.node).or_default() += 1;
        }
        placed.insert(group, placement.members);
    }
    let nodes = items.values().filter_map(|item| {
        let Some(Key::Node(id)) = Key::parse(&item.key) else { return None };
        let NodeRecord { address, region, zone, .. } = NodeRecord::decode(id, &item.value).ok()?;
        Some(NodeStatus {
            id,
            address,
            region,
            zone,
            is_alive: alive.contains(&id),
            leaders: led.get(&id).map(|led| led.count),
            replicas: replicas.get(&id).copied().unwrap_or(0),
        })
    });
    let nodes = nodes.collect();
    let (mut tablets, mut tablets_left_out) = (Vec::new(), 0);
    for item in items.values() {
        let Some(name) = item.key.strip_prefix(Key::TABLES) else { continue };
        let Ok(record) = TableRecord::decode(name, &item.value) else { continue };
        for tablet in &record.schema.tablets {
            if tablets.len() >= TABLETS_MAX {
                tablets_left_out += 1;
                continue;
            }
            let group = GroupId(tablet.tree.0.into());
            let members = placed.get(&group).into_iter().flatten().map(|member| member.node);
            let told = led.iter().filter_map(|(node, led)| Some((*node, led.groups.get(&group)?)));
            let told = told.max_by_key(|(_, told)| told.term);
            let hint = known.get(&group).and_then(|at| at.leader).map(|leader| leader.node);
            let (leader, term, members) = match told {
                Some((node, told)) => (Some(node), told.term, told.members.clone()),
                None => (hint, 0, members.map(ReplicaStatus::unknown).collect()),
            };
            let (table, tree) = (name.to_owned(), u64::from(tablet.tree.0));
            tablets.push(TabletStatus { table, tree, leader, term, members });
        }
    }
    ClusterStatus { cluster, me, trouble, nodes, tablets, tablets_left_out }
}

impl ReplicaStatus {
    fn unknown(node: NodeId) -> Self {
        Self { node, lag: None, is_behind: false }
    }
}

impl Led {
    /// Returns what a node tells of its groups.
    pub(super) fn of(reports: &[GroupReport]) -> Self {
        let led = reports.iter().filter(|report| report.leads);
        let count = led.clone().count() as u64;
        let group = |report: &GroupReport| {
            let members = report.members.iter().take(MEMBERS_MAX).map(|of| ReplicaStatus {
                node: of.member.node,
                lag: report.lag(of),
                is_behind: of.is_behind,
            });
            (report.group, LedGroup { term: report.term, members: members.collect() })
        };
        Self { count, groups: led.take(LED_MAX).map(group).collect() }
    }

    /// Returns the bytes of the answer: docs/format/node_calls.md.
    pub(super) fn encode(&self) -> Bytes {
        let mut out = super::asks::begin();
        out.put_varint(self.count);
        out.put_varint(self.groups.len() as u64);
        for (group, LedGroup { term, members }) in &self.groups {
            out.put_varint(group.0);
            out.put_varint(*term);
            out.put_varint(members.len() as u64);
            for member in members {
                out.put_varint(member.node.0);
                out.put_varint(member.lag.map_or(0, |lag| lag.saturating_add(1)));
                out.push(u8::from(member.is_behind));
            }
        }
        out.into()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut reader = versioned(bytes)?;
        let count = reader.varint("groups that are led")?;
        let told = reader.varint("groups that are told")?;
        if told > LED_MAX as u64 {
            return Err(FormatError::Broken("more groups than a node tells of"));
        }
        let mut groups = BTreeMap::new();
        for _ in 0..told {
            let group = GroupId(reader.varint("group")?);
            let term = reader.varint("term")?;
            let len = reader.varint("members")?;
            if len > MEMBERS_MAX as u64 {
                return Err(FormatError::Broken("more members than a group tells of"));
            }
            let mut members = Vec::new();
            for _ in 0..len {
                let node = NodeId(reader.varint("node")?);
                let lag = reader.varint("lag")?.checked_sub(1);
                let is_behind = match reader.u8("flag")? {
                    0 => false,
                    1 => true,
                    kind => return Err(FormatError::Kind { of: "flag", kind }),
                };
                members.push(ReplicaStatus { node, lag, is_behind });
            }
            groups.insert(group, LedGroup { term, members });
        }
        reader.finish()?;
        Ok(Self { count, groups })
    }
}

/// Body of the fuzz target `node_status`: an answer that decodes is told again in the same words. Groups
/// in another order, and longer forms of numbers, are taken and not repeated.
pub fn fuzz_status(data: &[u8]) {
    if let Ok(led) = Led::decode(data) {
        assert_eq!(Led::decode(&led.encode()), Ok(led));
    }
}

#[cfg(test)]
mod tests;
