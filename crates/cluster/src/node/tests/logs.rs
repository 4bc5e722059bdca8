//! The group log: kept short, read for others, left alone by groups that sleep.

use super::*;

#[test]
fn a_group_that_sleeps_sends_and_writes_nothing() {
    let cluster = Cluster::new();
    cluster.create(TREE);
    cluster.create(OTHER);
    cluster.write(TREE, "row");
    cluster.write(OTHER, "row");
    let activity = || {
        let syncs: u64 = cluster.nodes.values().map(|node| node.log_syncs()).sum();
        cluster.net.sent.load(Ordering::Relaxed) + syncs
    };
    wait_for("silence", || {
        let before = activity();
        std::thread::sleep(Duration::from_millis(500));
        activity() == before
    });
    cluster.write(TREE, "more");
    cluster.expect_rows(TREE, &["more", "row"].map(str::to_owned));
}

#[test]
fn each_sync_of_the_log_is_counted_with_its_entries() {
    let cluster = Cluster::new();
    cluster.create(TREE);
    for row in 0..10 {
        cluster.write(TREE, &row.to_string());
    }
    // A write is acknowledged when two of the three have it.
    for node in cluster.nodes.values() {
        wait_for("the rows in the log of each node", || {
            let LogReadings { wait_micros, sync_micros, sync_entries } = node.log_readings();
            let syncs = sync_entries.count();
            sync_entries.sum >= 10 && sync_micros.count() >= syncs && wait_micros.count() >= syncs
        });
        assert!(node.log_readings().sync_entries.count() <= node.log_syncs());
    }
}

#[test]
fn a_log_stays_short_while_groups_write_and_others_sleep() {
    let options = engine::Options {
        shape: engine::internals::Shape {
            log_segments_max: 3,
            ..engine::internals::Shape::DEFAULT
        },
        ..small()
    };
    let mut cluster = Cluster::with(options, crate::Shape::DEFAULT);
    cluster.create(OTHER);
    cluster.write(OTHER, "asleep");
    cluster.create(TREE);
    let long = "x".repeat(3000);
    let mut all = Vec::new();
    for row in 0..400 {
        all.push(format!("{row:04}{long}"));
        cluster.write(TREE, all.last().unwrap());
    }
    // Some 40 segments were written. Old entries are appended again only as new ones come, so the group goes on.
    for node in 1..=3 {
        wait_for("a short log", || {
            let is_short = cluster.nodes[&node].log_size().segments <= 4;
            if !is_short {
                all.push(format!("{:04}", all.len()));
                cluster.write(TREE, all.last().unwrap());
            }
            is_short
        });
    }
    (1..=3).for_each(|node| cluster.stop(node));
    (1..=3).for_each(|node| cluster.start(node));
    cluster.write(OTHER, "awake");
    cluster.expect_rows(TREE, &all);
    cluster.expect_rows(OTHER, &["asleep", "awake"].map(str::to_owned));
}

#[test]
fn a_replica_that_was_away_gets_entries_from_the_logs_of_others() {
    let mut shape = crate::Shape::DEFAULT;
    (shape.cached_bytes_max, shape.append_bytes_max) = (0, 2000);
    let mut cluster = Cluster::with(engine::Options::default(), shape);
    cluster.create(TREE);
    cluster.write(TREE, "first");
    let away = cluster.leader(TREE) % 3 + 1;
    cluster.stop(away);
    let mut all = vec!["first".to_owned()];
    for row in 0..100 {
        all.push(format!("{row:04}{}", "x".repeat(100)));
        cluster.write(TREE, all.last().unwrap());
    }
    // Flushed entries are not in memory after a restart, and are read from the disk as well.
    let other = (1..=3).find(|id| *id != away).unwrap();
    cluster.engines[&other].tree(TREE).unwrap().flush().unwrap();
    cluster.stop(other);
    cluster.start(other);
    cluster.start(away);
    cluster.expect_rows(TREE, &all);
}
