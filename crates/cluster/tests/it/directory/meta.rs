//! The schema of a cluster as the table layer sees it, on two nodes.

use super::{OURS, SOON, Tried, apart, each, until};
use cluster::directory::{DirectoryMeta, MetaNews, Mirror, Used, follow, found};
use cluster::group::NodeId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use table::local::{MetaChange, MetaStore};
use table::{
    Bytes, Error, Granularity, RecordChange, Removal, SharedMeta, TableName, TableSchema, TreeId,
    Versioned,
};

fn table(name: &str, families: u16) -> TableSchema {
    TableSchema {
        name: TableName::new(format!("projects/p/instances/i/tables/{name}")).unwrap(),
        families: BTreeMap::new(),
        next_family: families,
        tablets: vec![table::schema::Tablet { start: Bytes::new(), tree: TreeId(16) }],
        deletion_protection: false,
        created_micros: 7,
        granularity: Granularity::Millis,
        row_key_schema: None,
    }
}

async fn nodes(tried: &Tried) -> (Mirror, Arc<DirectoryMeta>, Arc<DirectoryMeta>) {
    found(&*tried.directory, &super::nodes::cluster(OURS.0)).await.unwrap();
    let mirror = Mirror::start(tried.directory.clone(), OURS, None).await;
    let meta = |node| Arc::new(DirectoryMeta::new(&mirror, NodeId(node), Used::default));
    let (one, two) = (meta(1), meta(2));
    (mirror, one, two)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_changes_only_at_the_version_that_was_seen() {
    for tried in each() {
        let (_mirror, one, two) = nodes(&tried).await;
        apart(move || {
            let (first, second) = (table("t", 1), table("t", 2));
            let name = first.name.clone();
            let versions = [one.next_version().unwrap(), two.next_version().unwrap()];
            assert!(versions[0] < versions[1], "{versions:?}");
            let put = |schema| [MetaChange::PutTable(schema)];
            one.intend(&[TreeId(16)]).unwrap();
            let create = [MetaChange::PutTable(&first), MetaChange::Forget(&[TreeId(16)])];
            let put_first = one.change_if(&name, None, &create).unwrap();
            assert!(put_first > versions[1], "versions are given in the order of the changes");
            assert_eq!(one.intents().unwrap(), Vec::<Vec<TreeId>>::new());
            for (before, meta) in [(None, &one), (Some(versions[1]), &two)] {
                let error = meta.change_if(&name, before, &put(&second)).unwrap_err();
                assert!(matches!(error, Error::Aborted(_)), "{error}");
            }
            let put_second = two.change_if(&name, Some(put_first), &put(&second)).unwrap();
            assert!(put_second > put_first);
            let there = one.versioned_table(&name).unwrap().unwrap();
            assert_eq!((there.version, there.schema), (put_second, second.clone()));
            assert_eq!(one.versioned_tables().unwrap().len(), 1);
            let wrong = one.change_if(&name, Some(put_second), &put(&table("u", 1)));
            assert!(matches!(wrong, Err(Error::Internal(_))));
            let remove = [MetaChange::RemoveTable(&name)];
            assert!(two.change_if(&name, Some(put_second), &remove).unwrap() > put_second);
            assert!(one.next_version().unwrap() > put_second);
            assert_eq!(one.versioned_table(&name).unwrap(), None);
            assert!(matches!(one.put_table(&first), Err(Error::Internal(_))));
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_of_trees_are_given_once_and_intents_belong_to_their_node() {
    for tried in each() {
        let (_mirror, one, two) = nodes(&tried).await;
        apart(move || {
            let mut given = std::collections::BTreeSet::new();
            for round in 0..50 {
                for meta in [&one, &two] {
                    let first = meta.reserve_trees(1 + round % 7).unwrap();
                    assert!(first >= TreeId::FIRST_OF_TABLES);
                    for tree in first.0..first.0 + 1 + round % 7 {
                        assert!(given.insert(tree), "tree {tree} was given twice");
                    }
                }
            }
            one.intend(&[TreeId(20), TreeId(21)]).unwrap();
            assert_eq!(one.intents().unwrap(), [[TreeId(20), TreeId(21)]]);
            assert!(two.intents().unwrap().is_empty());
            one.forget(&[TreeId(20), TreeId(21)]).unwrap();
            assert!(one.intents().unwrap().is_empty());
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_that_another_node_took_over_cannot_end_in_a_table() {
    for tried in each() {
        let (mirror, one, two) = nodes(&tried).await;
        let other = DirectoryMeta::new(&mirror, NodeId(1), Used::default);
        apart(move || {
            let (schema, trees) = (table("t", 1), [TreeId(16)]);
            let create = [MetaChange::PutTable(&schema), MetaChange::Forget(&trees)];
            one.intend(&trees).unwrap();
            assert_eq!(two.adopt_intents(|_| false).unwrap(), 0);
            assert_eq!(two.adopt_intents(|node| node == NodeId(1)).unwrap(), 1);
            assert_eq!((one.intents().unwrap().len(), two.intents().unwrap().len()), (0, 1));
            let late = one.change_if(&schema.name, None, &create);
            assert!(matches!(late, Err(Error::Aborted(_))), "{late:?}");
            two.removed(&trees).unwrap();
            assert!(two.intents().unwrap().is_empty() && two.tables().unwrap().is_empty());
            // The same where the node itself gave up the call.
            one.intend(&trees).unwrap();
            other.claim(&Removal { trees: trees.to_vec(), version: 0 }).unwrap();
            let late = one.change_if(&schema.name, None, &create);
            assert!(matches!(late, Err(Error::Aborted(_))), "{late:?}");
            other.removed(&trees).unwrap();
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_that_waits_for_a_node_that_is_lost_is_written_once_and_tells_its_version() {
    for tried in each() {
        let (mirror, one, two) = nodes(&tried).await;
        let again = DirectoryMeta::new(&mirror, NodeId(1), Used::default);
        let directory = tried.directory.clone();
        apart(move || {
            let (schema, trees) = (table("t", 1), vec![TreeId(16)]);
            one.intend_new(&trees, 5).unwrap();
            assert_eq!(one.removals().unwrap(), [Removal { trees: trees.clone(), version: 5 }]);
            let create = [MetaChange::PutTable(&schema), MetaChange::Forget(&trees)];
            let put = one.change_if(&schema.name, None, &create).unwrap();
            let remove = [MetaChange::RemoveTable(&schema.name), MetaChange::Intend(&trees)];
            let removed = one.change_if(&schema.name, Some(put), &remove).unwrap();
            let intended = Removal { trees: trees.clone(), version: removed };
            assert_eq!(one.removals().unwrap(), std::slice::from_ref(&intended));
            // Each write of the directory has a revision of its own.
            let revision = || {
                let key = cluster::directory::Key::Intent(NodeId(1), 16);
                let items = tokio::runtime::Handle::current().block_on(directory.get(&key));
                items.unwrap().item().unwrap().revision
            };
            let mut written = vec![revision()];
            for meta in [&one, &one, &one, &again, &again] {
                meta.claim(&intended).unwrap();
                written.push(revision());
            }
            assert!(written[0] < written[1] && written[3] < written[4], "once by each start");
            assert!(written[1..4].iter().all(|at| *at == written[1]), "{written:?}");
            assert_eq!(written[4], written[5]);
            // An intent that another start wrote is claimed again.
            one.claim(&intended).unwrap();
            assert!(revision() > written[5]);
            assert_eq!(two.adopt_intents(|_| true).unwrap(), 1);
            assert_eq!(two.removals().unwrap(), [intended]);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_change_tables_at_the_same_time_all_succeed() {
    for tried in each() {
        let (_mirror, one, two) = nodes(&tried).await;
        let calls = [one, two].into_iter().enumerate().map(|(at, meta)| {
            apart(move || {
                let put = |round: usize| {
                    let schema = table(&format!("t{at}-{round}"), 1);
                    meta.change_if(&schema.name, None, &[MetaChange::PutTable(&schema)]).unwrap()
                };
                (0..20).map(put).collect::<Vec<u64>>()
            })
        });
        let versions: Vec<u64> = futures::future::join_all(calls).await.concat();
        let different: std::collections::BTreeSet<_> = versions.iter().collect();
        assert_eq!(different.len(), 40, "{versions:?}");
    }
}

/// Keeps all that it hears.
#[derive(Default)]
struct Heard {
    tables: Mutex<BTreeMap<TableName, u64>>,
    records: Mutex<BTreeMap<String, Bytes>>,
}

impl MetaNews for Heard {
    fn tables(&self, changed: Vec<Versioned>, gone: Vec<TableName>) {
        let mut tables = self.tables.lock();
        tables.extend(changed.into_iter().map(|table| (table.schema.name, table.version)));
        gone.iter().for_each(|name| {
            tables.remove(name);
        });
    }

    fn records(&self, changed: Vec<(String, Bytes)>, gone: Vec<String>) {
        let mut records = self.records.lock();
        records.extend(changed);
        gone.iter().for_each(|name| {
            records.remove(name);
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_hears_of_the_changes_of_others_and_changes_records_only_after_it_did() {
    for tried in each() {
        let (mirror, one, two) = nodes(&tried).await;
        let heard = Arc::new(Heard::default());
        let schema = table("t", 1);
        let (writer, change) = (one.clone(), schema.clone());
        apart(move || {
            let put = [MetaChange::PutTable(&change)];
            writer.change_if(&change.name, None, &put).unwrap();
            let record = RecordChange::put("instances/i", "first");
            writer.change(&[MetaChange::Record(&record)]).unwrap();
        })
        .await;
        // A node that was shown nothing does not overwrite what it does not know.
        let blind = two.clone();
        let put = |text: &'static str| RecordChange::put("instances/i", text);
        let error = apart(move || blind.change(&[MetaChange::Record(&put("blind"))]).unwrap_err());
        assert!(matches!(error.await, Error::Aborted(_)));
        let following = follow(&mirror, two.clone(), heard.clone());
        until("the table", || heard.tables.lock().contains_key(&schema.name)).await;
        until("the record", || heard.records.lock().get("instances/i").is_some()).await;
        let (seeing, begun) = (two.clone(), std::time::Instant::now());
        apart(move || {
            // The news count from when they were told whole.
            while let Err(error) = seeing.change(&[MetaChange::Record(&put("second"))]) {
                assert!(begun.elapsed() < SOON, "{error}");
            }
        })
        .await;
        until("the change", || heard.records.lock()["instances/i"] == "second").await;
        let (remover, name) = (two.clone(), schema.name.clone());
        apart(move || {
            let version = remover.versioned_table(&name).unwrap().unwrap().version;
            let remove = [MetaChange::RemoveTable(&name)];
            remover.change_if(&name, Some(version), &remove).unwrap();
            let gone = RecordChange::remove("instances/i");
            remover.change(&[MetaChange::Record(&gone)]).unwrap();
            assert!(remover.records().unwrap().is_empty());
        })
        .await;
        until("the removals", || heard.tables.lock().is_empty() && heard.records.lock().is_empty())
            .await;
        following.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_etcd_changes_are_refused_and_say_so() {
    let Some(mut etcd) = super::etcd::Etcd::start() else { return };
    let directory = etcd.directory("stele/");
    found(&*directory, &super::nodes::cluster(OURS.0)).await.unwrap();
    let mirror = Mirror::start(directory, OURS, None).await;
    mirror.current(SOON).await.unwrap();
    let meta = Arc::new(DirectoryMeta::new(&mirror, NodeId(1), Used::default));
    etcd.kill();
    apart(move || {
        let schema = table("t", 1);
        let put = [MetaChange::PutTable(&schema)];
        for error in [
            meta.change_if(&schema.name, None, &put).unwrap_err(),
            meta.reserve_trees(1).unwrap_err(),
            meta.records().unwrap_err(),
        ] {
            let told = matches!(&error, Error::Unavailable(text) if text.contains("directory"));
            assert!(told, "{error}");
        }
    })
    .await;
}
