//! The server as a node of a cluster.

use super::Families;
use super::families::MICROS_PER_SECOND;
use cluster::member::NodeReadings;
use cluster::node::LogReadings;
use engine::QUEUE_WAIT_HELP;

/// Adds the families of a node.
pub(super) fn add(readings: &NodeReadings, families: &mut Families) {
    let NodeReadings { replicas, leaders, leaderless, damaged, .. } = *readings;
    let flag = |holds: bool| u64::from(holds);
    for (name, help, value) in [
        ("stele_cluster_replicas", "Replicas of tablets at work on this node.", replicas),
        ("stele_cluster_leaders", "Tablets that this node leads.", leaders),
        (
            "stele_cluster_leaderless_replicas",
            "Replicas on this node whose tablet has no leader that is known here.",
            leaderless,
        ),
        (
            "stele_cluster_damaged_replicas",
            "Replicas on this node that lost what they had acknowledged, and take part in nothing.",
            damaged,
        ),
        (
            "stele_cluster_lag_entries",
            "Most log entries that a follower of a tablet lacks which this node leads.",
            readings.lag_entries_max,
        ),
        (
            "stele_cluster_stranded_followers",
            "Followers of tablets led by this node that were away, or got no further, for so long that the log has not kept what they lack.",
            readings.behind,
        ),
        (
            "stele_cluster_unapplied_entries",
            "Most committed log entries that wait to be applied in one replica of this node.",
            readings.unapplied_entries_max,
        ),
        ("stele_cluster_log_segments", "Segments of the group log.", readings.log_segments),
        (
            "stele_cluster_log_waits",
            "1 while the group log waits for space on its disk.",
            flag(readings.log_waits),
        ),
        (
            "stele_cluster_directory_up",
            "1 while the cluster's directory answers this node, else 0.",
            flag(readings.directory_answers),
        ),
    ] {
        families.gauge(name, help, &[], value as f64);
    }
    for (name, help, value) in [
        (
            "stele_cluster_elections_won_total",
            "Elections by which a replica of this node became the leader of its tablet.",
            readings.elections_won,
        ),
        (
            "stele_cluster_forced_log_cuts_total",
            "Times that the group log let go of entries that a follower still lacked, for want of space.",
            readings.forced_cuts,
        ),
        ("stele_cluster_log_syncs_total", "Syncs of the group log.", readings.log_syncs),
    ] {
        families.counter(name, help, &[], value as f64);
    }
    add_log(&readings.log, families);
    for (node, is_open, dropped) in &readings.links {
        let node = node.0.to_string();
        let labels = [("node", &*node)];
        let help = "1 while the stream of messages to another node is open, else 0.";
        families.gauge("stele_cluster_link_up", help, &labels, flag(*is_open) as f64);
        let help = "Frames of messages to another node that were dropped, as it was slow or away.";
        families.counter("stele_cluster_link_dropped_total", help, &labels, *dropped as f64);
    }
}

/// Adds the waits and the syncs of the group log.
fn add_log(log: &LogReadings, families: &mut Families) {
    let help = "Entries of the logs of tablets that one sync of the group log made durable.";
    families.histogram("stele_cluster_log_sync_entries", help, &[], &log.sync_entries, 1.0);
    let (sync, wait) = (&log.sync_micros, &log.wait_micros);
    let help = "Time of syncs of the group log to disk.";
    families.histogram("stele_cluster_log_sync_seconds", help, &[], sync, MICROS_PER_SECOND);
    let (name, labels) = ("stele_queue_wait_seconds", [("queue", "group_log")]);
    families.histogram(name, QUEUE_WAIT_HELP, &labels, wait, MICROS_PER_SECOND);
}
