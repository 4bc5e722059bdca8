//! The choice of nodes for the replicas of a new group. A pure function of what the directory shows.

use crate::directory::{Item, Key, NodeRecord, Placement};
use crate::group::{GroupId, Member, NodeId, ReplicaId};
use base::checksum::xxh3;
use std::collections::{BTreeMap, BTreeSet};

/// A node that can take replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) node: NodeId,
    /// Region of the node, and zone of the region.
    pub(super) zone: (String, String),
    /// Number of replicas on the node.
    pub(super) replicas: usize,
}

/// Returns the nodes that are alive, with the replicas that they have.
pub(super) fn candidates<'a>(items: impl Iterator<Item = &'a Item>) -> Vec<Candidate> {
    let (mut alive, mut records, mut replicas) =
        (BTreeSet::new(), BTreeMap::new(), BTreeMap::<NodeId, usize>::new());
    for item in items {
        match Key::parse(&item.key) {
            Some(Key::Alive(node)) => drop(alive.insert(node)),
            Some(Key::Node(node)) => {
                drop(records.insert(node, NodeRecord::decode(node, &item.value)))
            }
            Some(key @ Key::Placement(_)) => {
                for member in
                    Placement::decode(&key, &item.value).into_iter().flat_map(|p| p.members)
                {
                    *replicas.entry(member.node).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    let all = records.into_iter().filter(|(node, _)| alive.contains(node));
    all.filter_map(|(node, record)| {
        let record = record.ok()?;
        let replicas = replicas.get(&node).copied().unwrap_or(0);
        Some(Candidate { node, zone: (record.region, record.zone), replicas })
    })
    .collect()
}

/// Chooses `count` nodes: first from zones with the fewest replicas of the group, then those with the
/// fewest replicas of all. Groups that are placed at the same time, as the groups of a new table are, are spread
/// over nodes that are alike. `None` if there are not as many nodes.
pub(super) fn choose(
    mut nodes: Vec<Candidate>,
    group: GroupId,
    count: usize,
) -> Option<Vec<Member>> {
    let turn = |node: NodeId| xxh3(&[node.0.to_le_bytes(), group.0.to_le_bytes()].concat());
    let mut zones: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut members = Vec::new();
    for replica in 1..=count as u64 {
        let of_zone = |node: &Candidate| zones.get(&node.zone).copied().unwrap_or(0);
        let best = nodes.iter().enumerate();
        let (at, _) =
            best.min_by_key(|(_, node)| (of_zone(node), node.replicas, turn(node.node)))?;
        let chosen = nodes.swap_remove(at);
        *zones.entry(chosen.zone).or_default() += 1;
        members.push(Member { replica: ReplicaId(replica), node: chosen.node });
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_spread_over_zones_first_and_then_over_nodes() {
        let node = |node, zone: &str, replicas| Candidate {
            node: NodeId(node),
            zone: ("r".to_owned(), zone.to_owned()),
            replicas,
        };
        let all = [node(1, "a", 0), node(2, "a", 0), node(3, "b", 9), node(4, "c", 5)];
        let chosen = |group, count| -> Option<Vec<u64>> {
            let members = choose(all.to_vec(), GroupId(group), count)?;
            Some(members.iter().map(|member| member.node.0).collect())
        };
        let mut firsts = BTreeSet::new();
        for group in 16..48 {
            let nodes = chosen(group, 3).unwrap();
            assert_eq!(nodes[1..], [4, 3], "the other zones");
            firsts.insert(nodes[0]);
            assert_eq!(chosen(group, 4).unwrap().len(), 4);
            assert_eq!(chosen(group, 5), None);
        }
        assert_eq!(firsts, BTreeSet::from([1, 2]), "nodes that are alike take turns");
    }
}
