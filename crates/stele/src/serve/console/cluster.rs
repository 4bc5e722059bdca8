//! The cluster that the server is a node of: nodes, tablets, leaders, and replicas that are behind.

use super::Console;
use super::request::failure::Failure;
use super::request::guard::Visitor;
use super::request::params::Params;
use super::request::work::{answer, within};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use cluster::member::{ClusterStatus, NodeStatus, ReplicaStatus, TabletStatus};
use serde_json::{Value, json};
use std::sync::Arc;
use tonic::Code;

/// Answers with the condition of the cluster.
pub(super) async fn cluster(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    visitor.needs("stele.metrics.get")?;
    Params::of(query, &[])?;
    let place = console.overviews.take()?;
    let Some(watcher) = console.server.cluster() else {
        let text = "the server is not a node of a cluster";
        return Err(Failure::new(Code::NotFound, text));
    };
    let status = within(async { Ok::<_, Failure>(watcher.status().await) }).await?;
    answer(place, move || Ok(view(&status))).await
}

fn view(status: &ClusterStatus) -> Value {
    json!({
        "cluster": status.cluster.to_string(),
        "me": status.me.0,
        "directory_trouble": status.trouble,
        "nodes": status.nodes.iter().map(node).collect::<Vec<_>>(),
        "tablets": status.tablets.iter().map(tablet).collect::<Vec<_>>(),
        "tablets_left_out": status.tablets_left_out,
    })
}

fn node(node: &NodeStatus) -> Value {
    json!({
        "id": node.id.0,
        "address": node.address,
        "region": node.region,
        "zone": node.zone,
        "alive": node.is_alive,
        "leaders": node.leaders,
        "replicas": node.replicas,
    })
}

fn tablet(tablet: &TabletStatus) -> Value {
    json!({
        "table": tablet.table,
        "tree": tablet.tree,
        "leader": tablet.leader.map(|node| node.0),
        "term": tablet.term,
        "members": tablet.members.iter().map(member).collect::<Vec<_>>(),
    })
}

fn member(member: &ReplicaStatus) -> Value {
    json!({
        "node": member.node.0,
        "match_lag_entries": member.lag,
        "behind": member.is_behind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::cluster::group::NodeId;

    #[test]
    fn the_view_has_its_documented_fields() {
        let status = ClusterStatus {
            cluster: engine::ClusterId(7),
            me: NodeId(2),
            trouble: None,
            nodes: vec![NodeStatus {
                id: NodeId(2),
                address: "n:1".into(),
                region: "r".into(),
                zone: "z".into(),
                is_alive: true,
                leaders: Some(1),
                replicas: 3,
            }],
            tablets: vec![TabletStatus {
                table: "t".into(),
                tree: 16,
                leader: Some(NodeId(2)),
                term: 4,
                members: vec![ReplicaStatus { node: NodeId(3), lag: Some(5), is_behind: false }],
            }],
            tablets_left_out: 1,
        };
        let want = json!({
            "cluster": engine::ClusterId(7).to_string(),
            "me": 2,
            "directory_trouble": null,
            "nodes": [{"id": 2, "address": "n:1", "region": "r", "zone": "z", "alive": true,
                "leaders": 1, "replicas": 3}],
            "tablets": [{"table": "t", "tree": 16, "leader": 2, "term": 4,
                "members": [{"node": 3, "match_lag_entries": 5, "behind": false}]}],
            "tablets_left_out": 1,
        });
        assert_eq!(view(&status), want);
    }
}
