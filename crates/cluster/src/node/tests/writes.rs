//! Writes and reads, through the loss of leaders and of all nodes.

use super::*;

fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|row| format!("row{row:04}")).collect()
}

#[test]
fn writes_are_on_all_nodes_and_go_on_after_the_loss_of_a_leader() {
    let mut cluster = Cluster::new();
    cluster.create(TREE);
    let all = names(0..60);
    all[..30].iter().for_each(|row| cluster.write(TREE, row));
    let leader = cluster.leader(TREE);
    for row in &all[..30] {
        assert!(get(&cluster.engines[&leader], TREE, row).is_some(), "the leader reads {row}");
    }
    cluster.stop(leader);
    all[30..].iter().for_each(|row| cluster.write(TREE, row));
    let next = cluster.leader(TREE);
    assert!(all.iter().all(|row| get(&cluster.engines[&next], TREE, row).is_some()));
    cluster.start(leader);
    cluster.expect_rows(TREE, &all);
}

#[test]
fn nothing_is_lost_when_all_nodes_stop() {
    let mut cluster = Cluster::new();
    cluster.create(TREE);
    cluster.create(OTHER);
    let all = names(0..40);
    for (at, row) in all.iter().enumerate() {
        cluster.write(TREE, row);
        cluster.write(OTHER, row);
        if at % 15 == 7 {
            // One tree is flushed, so entries are given again from different places.
            for engine in cluster.engines.values() {
                engine.tree(OTHER).unwrap().flush().unwrap();
            }
        }
        if at % 10 == 9 {
            (1..=3).for_each(|node| cluster.stop(node));
            (1..=3).for_each(|node| cluster.start(node));
        }
    }
    cluster.expect_rows(TREE, &all);
    cluster.expect_rows(OTHER, &all);
}

#[test]
fn a_leader_that_is_cut_off_says_so_and_its_successor_reads_all() {
    let cluster = Cluster::new();
    cluster.create(TREE);
    cluster.write(TREE, "one");
    let old = cluster.leader(TREE);
    cluster.cut(old);
    // It may still have a lease for a moment; later it knows that it cannot tell.
    wait_for("the old leader to give up", || {
        let refused = write_to(&cluster.nodes[&old], TREE, "lost or not");
        assert!(refused.is_err(), "no quorum");
        matches!(refused, Err(Error::NotLeader { .. } | Error::Unavailable(_)))
            && block_on(cluster.nodes[&old].writable(TREE)).is_err()
    });
    let next = |id: &u64| *id != old && write_to(&cluster.nodes[id], TREE, "two").is_ok();
    wait_for("a successor", || cluster.nodes.keys().any(next));
    cluster.connect();
    cluster.write(TREE, "three");
    let leader = cluster.leader(TREE);
    for row in ["one", "two", "three"] {
        assert!(get(&cluster.engines[&leader], TREE, row).is_some(), "{row}");
    }
}

#[test]
fn an_office_is_handed_over_and_old_terms_write_nothing() {
    let cluster = Cluster::new();
    cluster.create(TREE);
    let group = tablets::group_of(TREE);
    let old = cluster.leader(TREE);
    let ready = block_on(cluster.nodes[&old].writable(TREE)).unwrap();
    let to = ReplicaId(old % 3 + 1);
    wait_for("the heir to lead", || {
        cluster.nodes[&old].transfer(group, to);
        block_on(cluster.nodes[&to.0].writable(TREE)).is_ok()
    });
    let term = Term { number: ready.term, floor: ready.floor };
    for id in [old, to.0] {
        let (batch, kept) = (batch("late"), Box::new(()));
        let write = GroupWrite { tree: TREE, term, batch, newest_micros: 0, kept };
        let late = block_on(cluster.nodes[&id].commit(write));
        assert!(matches!(late, Err(Error::NotLeader { .. })), "node {id}: {late:?}");
    }
    assert_eq!(cluster.nodes[&old].leader(group).map(|node| node.0).filter(|id| *id == old), None);
    cluster.write(TREE, "after");
    cluster.expect_rows(TREE, &["after".to_owned()]);
}

#[test]
fn times_of_a_term_begin_above_those_of_earlier_ones() {
    let mut cluster = Cluster::new();
    cluster.create(TREE);
    let leader = cluster.leader(TREE);
    let ready = block_on(cluster.nodes[&leader].writable(TREE)).unwrap();
    let term = Term { number: ready.term, floor: ready.floor };
    let (batch, kept) = (batch("row"), Box::new(()));
    let newest_micros = 5_000_000;
    let write = GroupWrite { tree: TREE, term, batch, newest_micros, kept };
    block_on(cluster.nodes[&leader].commit(write)).unwrap();
    cluster.stop(leader);
    let next = cluster.leader(TREE);
    let floor = block_on(cluster.nodes[&next].readable(TREE)).unwrap().floor;
    assert!(floor >= newest_micros, "{floor}");
    assert!(cluster.engines[&next].commit_micros() >= newest_micros);
}

#[test]
fn a_dropped_call_changes_nothing_and_what_is_kept_lives_until_the_outcome() {
    struct Kept(Arc<AtomicU64>);
    impl Drop for Kept {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let cluster = Cluster::new();
    cluster.create(TREE);
    let leader = cluster.leader(TREE);
    let node = &cluster.nodes[&leader];
    let ready = block_on(node.writable(TREE)).unwrap();
    let dropped = Arc::new(AtomicU64::new(0));
    let write = |row: &str| {
        let kept = Box::new(Kept(Arc::clone(&dropped)));
        let term = Term { number: ready.term, floor: ready.floor };
        node.commit(GroupWrite { tree: TREE, term, batch: batch(row), newest_micros: 0, kept })
    };
    cluster.cut(leader);
    drop(write("alone"));
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(dropped.load(Ordering::SeqCst), 0, "no quorum has it, so it is not applied");
    cluster.connect();
    wait_for("the outcome", || dropped.load(Ordering::SeqCst) == 1);
    drop(write("again"));
    wait_for("the outcome", || dropped.load(Ordering::SeqCst) == 2);
}

#[test]
fn a_node_without_a_replica_and_a_node_that_ends_say_so() {
    let mut cluster = Cluster::new();
    let nobody = block_on(cluster.nodes[&1].readable(TREE));
    assert_eq!(nobody, Err(Error::NotLeader { leader: None }));
    // One of three replicas waits for a leader, until its node ends.
    block_on(cluster.nodes[&1].create(tablets::group_of(TREE), descriptor(TREE))).unwrap();
    let node = Arc::clone(&cluster.nodes[&1]);
    let waiting = std::thread::Builder::new().spawn(move || block_on(node.readable(TREE))).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    cluster.nodes[&1].close();
    let error = waiting.join().unwrap();
    assert!(matches!(&error, Err(Error::Unavailable(text)) if text.contains("clos")), "{error:?}");
    cluster.stop(1);
    cluster.start(1);
    assert_eq!(cluster.nodes[&1].descriptors().len(), 1);
}
