//! Nodes and leaders that go away in the middle of calls.

use super::world::{Cluster, NODES, still};
use super::{create, keys, name, of_row, row, rows, set};
use engine::Options;
use std::time::{Duration, Instant};
use table::{Bytes, CheckAndMutate, DropRows, Error, Pieces, ReadRows, RowMutation, Store, TreeId};
use tempfile::TempDir;

/// Longest wait for something that must happen.
const SOON: Duration = Duration::from_secs(60);

/// Tablets `..h`, `h..p` and `p..` with leaders 1, 2 and 3, and a row in each.
async fn spread() -> (Cluster, Vec<TreeId>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::open(dir.path(), &still(), &Options::default()).await;
    create(&cluster.nodes[&1], &["h", "p"]).await;
    for key in ["a", "k", "z"] {
        let change = row(key, vec![set("f", "q", 1, key)]);
        cluster.nodes[&2].mutate_row(&name(), change).await.unwrap();
    }
    let trees = cluster.world.trees();
    (cluster, trees, dir)
}

fn in_all() -> Vec<Bytes> {
    ["a", "k", "z"].map(Bytes::from).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_serves_every_row() {
    let (cluster, ..) = spread().await;
    for node in cluster.nodes.values() {
        assert_eq!(keys(node).await.unwrap(), in_all());
        let changes = ["b", "l", "y"].map(|key| row(key, vec![set("f", "q", 1, "v")]));
        let results = node.mutate_rows(&name(), changes.into()).await.unwrap();
        assert_eq!(results, [Ok(()), Ok(()), Ok(())]);
        for key in ["b", "l", "y"] {
            let check = CheckAndMutate {
                row: key.into(),
                predicate: None,
                on_true: vec![RowMutation::DeleteFromRow],
                on_false: vec![],
            };
            assert!(node.check_and_mutate_row(&name(), check).await.unwrap());
        }
        let samples = node.sample_row_keys(&name()).await.unwrap();
        let ends: Vec<_> = samples.iter().map(|sample| sample.key.clone()).collect();
        assert!(ends.ends_with(&[Bytes::new()]), "{ends:?}");
        assert!(ends.contains(&"h".into()) && ends.contains(&"p".into()), "{ends:?}");
    }
    cluster.nodes[&3].drop_rows(&name(), DropRows::Prefix("k".into())).await.unwrap();
    cluster.nodes[&1].drop_rows(&name(), DropRows::Prefix("z".into())).await.unwrap();
    assert_eq!(keys(&cluster.nodes[&2]).await.unwrap(), ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_wait_for_a_new_leader_and_are_done_once() {
    let (cluster, trees, _dir) = spread().await;
    cluster.world.lead(trees[1], None);
    let node = cluster.nodes[&1].clone();
    let adding = tokio::spawn(async move {
        let rules = vec![table::ReadModifyWriteRule {
            family: "f".to_owned(),
            qualifier: "q".into(),
            modify: table::mutate::Modify::Append("+".into()),
        }];
        let added = node.read_modify_write_row(&name(), "k".into(), rules).await;
        let entries = ["a", "k"].map(|key| row(key, vec![set("g", "q", 1, "v")]));
        (added, node.mutate_rows(&name(), entries.into()).await)
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!adding.is_finished());
    cluster.world.lead(trees[1], Some(3));
    let (added, entries) = tokio::time::timeout(SOON, adding).await.unwrap().unwrap();
    assert_eq!(added.unwrap().cells[0].value, "k+");
    assert_eq!(entries.unwrap(), [Ok(()), Ok(())]);
    let found = rows(&cluster.nodes[&2], of_row("k")).await.unwrap();
    assert_eq!(found[0].cells[0].value, "k+");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_replica_finds_the_leader_by_asking() {
    let (cluster, trees, _dir) = spread().await;
    *cluster.world.members.lock() = vec![2, 3];
    cluster.world.lead(trees[0], Some(3));
    for _ in 0..3 {
        assert_eq!(keys(&cluster.nodes[&1]).await.unwrap(), in_all());
    }
    // Once it is known, it is not searched again.
    cluster.world.calls.lock().clear();
    rows(&cluster.nodes[&1], of_row("a")).await.unwrap();
    assert_eq!(cluster.world.calls.lock().clone().into_iter().collect::<Vec<_>>(), [(3, 1)]);
    cluster.world.set_gone(3, true);
    cluster.world.lead(trees[0], Some(2));
    let change = row("a", vec![set("f", "q", 2, "new")]);
    cluster.nodes[&1].mutate_row(&name(), change).await.unwrap();
    assert_eq!(rows(&cluster.nodes[&1], of_row("a")).await.unwrap()[0].cells[0].value, "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_may_have_happened_is_not_repeated() {
    let (cluster, ..) = spread().await;
    let node = &cluster.nodes[&1];
    let rules = || {
        vec![table::ReadModifyWriteRule {
            family: "f".to_owned(),
            qualifier: "n".into(),
            modify: table::mutate::Modify::Increment(1),
        }]
    };
    cluster.world.break_next(2, 0);
    let error = node.read_modify_write_row(&name(), "k".into(), rules()).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    let again = node.read_modify_write_row(&name(), "k".into(), rules()).await.unwrap();
    assert_eq!(again.cells[0].value, 2i64.to_be_bytes()[..]);
    // Only entries of the broken call are in doubt.
    cluster.world.break_next(3, 0);
    let entries = ["a", "k", "z"].map(|key| row(key, vec![set("g", "q", 1, "v")]));
    let results = node.mutate_rows(&name(), entries.into()).await.unwrap();
    assert!(matches!(&results[..], [Ok(()), Ok(()), Err(Error::Unavailable(_))]), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_begins_again_only_where_nothing_of_it_came() {
    let (cluster, ..) = spread().await;
    // Many batches in the second tablet.
    for at in 0..40 {
        let change = row(format!("k{at:02}"), vec![set("f", "q", 1, vec![7u8; 64 << 10])]);
        cluster.nodes[&2].mutate_row(&name(), change).await.unwrap();
    }
    let all = keys(&cluster.nodes[&1]).await.unwrap();
    assert_eq!(all.len(), 43);
    cluster.world.break_next(2, 0);
    assert_eq!(keys(&cluster.nodes[&1]).await.unwrap(), all);
    cluster.world.break_next(2, 2);
    let mut stream =
        cluster.nodes[&1].read_rows(&name(), ReadRows::default(), Pieces::default()).await.unwrap();
    let mut came = 0;
    let error = loop {
        match stream.next_batch().await.expect("the read does not end well") {
            Ok(batch) => came += batch.stats.rows_returned,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    assert!(came > 1, "{came}");
    assert!(stream.next_batch().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_read_ends_on_the_other_node() {
    let (cluster, ..) = spread().await;
    for at in 0..200 {
        let change = row(format!("k{at:03}"), vec![set("f", "q", 1, vec![7u8; 64 << 10])]);
        cluster.nodes[&2].mutate_row(&name(), change).await.unwrap();
    }
    let mut stream =
        cluster.nodes[&1].read_rows(&name(), ReadRows::default(), Pieces::default()).await.unwrap();
    for _ in 0..3 {
        stream.next_batch().await.unwrap().unwrap();
    }
    let before = *cluster.world.cancelled.lock();
    drop(stream);
    let begun = Instant::now();
    while *cluster.world.cancelled.lock() == before {
        assert!(begun.elapsed() < SOON, "the read goes on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_wrong_are_refused_wherever_their_rows_are() {
    let (cluster, _trees, _dir) = spread().await;
    for (id, node) in &cluster.nodes {
        for key in ["a", "k", "z"] {
            let none = node.mutate_row(&name(), row(key, vec![])).await.unwrap_err();
            assert!(matches!(none, Error::InvalidArgument { .. }), "{id} {key}: {none}");
            let unknown = row(key, vec![set("none", "q", 1, "v")]);
            let unknown = node.mutate_row(&name(), unknown).await.unwrap_err();
            assert!(matches!(unknown, Error::NotFound { .. }), "{id} {key}: {unknown}");
            let filter = table::RowFilter::RowKeyRegex("(".into());
            let request = ReadRows { filter: Some(filter), ..of_row(key) };
            let wrong = rows(node, request).await.unwrap_err();
            assert!(matches!(wrong, Error::InvalidArgument { .. }), "{id} {key}: {wrong}");
        }
        let gone = table::TableName::new("projects/p/instances/i/tables/gone").unwrap();
        let error = node.mutate_rows(&gone, vec![]).await.unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{id}: {error}");
    }
    assert_eq!(NODES.count(), cluster.nodes.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drop_of_rows_is_not_acknowledged_for_a_table_that_was_created_anew() {
    let (cluster, _trees, _dir) = spread().await;
    cluster.nodes[&2].delete_table(&name()).await.unwrap();
    create(&cluster.nodes[&2], &["h", "p"]).await;
    // Node 1 knows the old table only, for some time.
    let stale = cluster.nodes[&1].clone();
    let (drops, samples) = (stale.clone(), stale.clone());
    let dropping = tokio::spawn(async move { drops.drop_rows(&name(), DropRows::All).await });
    let sampling = tokio::spawn(async move { samples.sample_row_keys(&name()).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    stale.local().refresh().await.unwrap();
    let error = tokio::time::timeout(SOON, dropping).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(&error, Error::Unavailable(text) if text.contains("anew")), "{error}");
    let sampled = tokio::time::timeout(SOON, sampling).await.unwrap().unwrap();
    assert!(sampled.is_err(), "{sampled:?}");
    cluster.nodes[&3].local().refresh().await.unwrap();
    for key in ["a", "k", "z"] {
        let change = row(key, vec![set("f", "q", 1, key)]);
        cluster.nodes[&2].mutate_row(&name(), change).await.unwrap();
    }
    assert_eq!(keys(&cluster.nodes[&2]).await.unwrap(), in_all());
    stale.drop_rows(&name(), DropRows::All).await.unwrap();
    assert!(keys(&cluster.nodes[&2]).await.unwrap().is_empty());
}
