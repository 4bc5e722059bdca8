//! Logs that are too long, or cannot be read, and the replicas that need them.

use super::*;
use crate::format::Command;
use crate::node::log_writes::log_group;
use base::env::sim::{Call, Fault, FaultPoint};

/// Bytes of a segment of the logs here.
const SEGMENT: u64 = 64 << 10;

/// Options of nodes that want a short log.
fn short() -> engine::Options {
    let shape =
        engine::internals::Shape { log_segments_max: 1, ..engine::internals::Shape::DEFAULT };
    engine::Options { shape, log_segment_bytes: SEGMENT, ..engine::Options::default() }
}

/// A shape with which no replica counts as away in the time of a test, and entries come from the disk.
fn patient() -> crate::Shape {
    crate::Shape { away_timeouts: 1000, cached_bytes_max: 0, ..crate::Shape::DEFAULT }
}

fn machines() -> BTreeMap<u64, SimEnv> {
    (1..=3).map(|id| (id, SimEnv::new(id))).collect()
}

impl Cluster {
    fn is_behind(&self, tree: TreeId, of: u64) -> bool {
        let reports = self.nodes.values().filter_map(|node| node.report(LONG)).flatten();
        let of_group = reports.filter(|report| report.group == tablets::group_of(tree));
        let members = of_group.flat_map(|report| report.members);
        members.into_iter().any(|member| member.member.node == NodeId(of) && member.is_behind)
    }

    /// Returns the least bytes of a group in the logs of some nodes.
    fn kept_bytes(&self, nodes: &[u64], tree: TreeId) -> u64 {
        let group = log_group(tablets::group_of(tree));
        nodes.iter().map(|id| self.nodes[id].shared.log.kept_bytes(group)).min().unwrap()
    }

    /// Proposes a command that no replica applies while schemas are held up, until these nodes have it.
    fn add_unapplied(&self, nodes: &[u64], tree: TreeId) {
        let record = vec![7; 20_000];
        let command = Bytes::from(Command::Schema { version: 2, record: &record }.encode());
        let before = self.kept_bytes(nodes, tree);
        let has_more = || self.kept_bytes(nodes, tree) >= before + record.len() as u64;
        wait_for("a leader that takes a command", || {
            for id in nodes {
                let node = &self.nodes[id];
                let hosted = node.shared.replicas.of_tree(tree).unwrap();
                drop(node.propose(&hosted, None, command.clone(), None));
            }
            let begun = Instant::now();
            while !has_more() && begun.elapsed() < Duration::from_secs(2) {
                std::thread::sleep(Duration::from_millis(5));
            }
            has_more()
        });
    }
}

#[test]
fn a_group_that_keeps_a_log_long_costs_no_other_group_a_replica() {
    let bound = 4;
    let cluster = Cluster::keeping(bound, machines(), short(), patient());
    cluster.create(TREE);
    cluster.create(OTHER);
    cluster.write(TREE, "first");
    cluster.write(OTHER, "first");
    // The other group applies nothing more, so its log cannot be cut, and is too long by itself.
    *cluster.told.held.lock() = Some(tablets::group_of(OTHER));
    while cluster.kept_bytes(&[1, 2, 3], OTHER) < 10 * SEGMENT {
        cluster.add_unapplied(&[1, 2, 3], OTHER);
    }
    // There is no space to append it again.
    for machine in cluster.machines.values() {
        machine.fs.set_capacity(machine.fs.used() + 6 * SEGMENT);
    }
    let away = cluster.leader(TREE) % 3 + 1;
    cluster.cut(away);
    cluster.write(TREE, "lacked");
    let live: Vec<u64> = (1..=3).filter(|id| *id != away).collect();
    let kept = |id: &u64| {
        let log = &cluster.nodes[id].shared.log;
        log.kept_segments(log_group(tablets::group_of(TREE)))
    };
    while live.iter().any(|id| kept(id) < 2) {
        cluster.add_unapplied(&live, OTHER);
    }
    assert!(live.iter().all(|id| kept(id) <= 2 * bound), "what the replica lacks is young");
    for id in &live {
        let hosted = cluster.nodes[id].shared.replicas.of_tree(TREE).unwrap();
        wait_for("a flush by upkeep", || {
            hosted.flushed.load(Ordering::Relaxed) >= hosted.applied()
        });
    }
    std::thread::sleep(Duration::from_millis(500));
    assert!(cluster.kept_bytes(&live, TREE) > 0, "the replica lacks it");
    cluster.connect();
    let rows = ["first", "lacked"].map(str::to_owned);
    wait_for("what the replica lacked", || get(&cluster.engines[&away], TREE, "lacked").is_some());
    cluster.expect_rows(TREE, &rows);
    assert!(!cluster.is_behind(TREE, away));
}

#[test]
fn a_log_of_twice_its_bound_keeps_nothing_for_a_replica_that_is_away() {
    let cuts = crate::Mark::LogCutAllTheSame.hits();
    let cluster = Cluster::keeping(2, BTreeMap::new(), short(), patient());
    cluster.create(TREE);
    cluster.write(TREE, "first");
    let away = cluster.leader(TREE) % 3 + 1;
    cluster.cut(away);
    // A node that is away would let each write wait for a leader.
    let live: Vec<_> = cluster.nodes.iter().filter(|(id, _)| **id != away).collect();
    let long = "x".repeat(20_000);
    for row in 0..40 {
        let row = format!("{row:04}{long}");
        wait_for("a write", || live.iter().any(|(_, node)| write_to(node, TREE, &row).is_ok()));
    }
    for (_, node) in live {
        wait_for("a short log", || node.log_size().segments <= 4);
    }
    assert!(cluster.nodes.values().any(|node| node.forced_cuts() > 0));
    assert!(!cfg!(debug_assertions) || crate::Mark::LogCutAllTheSame.hits() > cuts);
    cluster.connect();
    wait_for("the loss to be told", || cluster.is_behind(TREE, away));
}

#[test]
fn a_leader_whose_disk_does_not_give_its_log_hands_the_group_over() {
    let mut shape = patient();
    shape.append_bytes_max = 2000;
    let mut cluster = Cluster::on(machines(), small(), shape);
    cluster.create(TREE);
    cluster.write(TREE, "first");
    let away = cluster.leader(TREE) % 3 + 1;
    cluster.stop(away);
    let mut all = vec!["first".to_owned()];
    for row in 0..40 {
        all.push(format!("{row:04}{}", "x".repeat(100)));
        cluster.write(TREE, all.last().unwrap());
    }
    let leader = cluster.leader(TREE);
    let disk = cluster.machines[&leader].fs.clone();
    disk.inject(FaultPoint::Call(Call::ReadAt), 0, u64::MAX, Fault::Io);
    cluster.start(away);
    let engine = cluster.engines[&away].clone();
    wait_for("what the replica lacked", || rows(&engine, TREE).len() == all.len());
    assert!(disk.clear_faults());
    cluster.expect_rows(TREE, &all);
    assert!(cluster.nodes.values().all(|node| node.failed().borrow().is_none()));
}
