//! Tables whose schema several nodes share.

use super::Node;
use super::directory::Directory;
use super::harness::TestClock;
use base::env::Env;
use engine::{ClusterId, Durability, IngestOptions, Options, StoreId};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use table::local::{MetaChange, MetaStore};
use table::*;

fn node(directory: &Arc<Directory>, dir: &Path) -> Node {
    let clock = Arc::new(TestClock::at(1_000_000));
    let env = Env { clock: clock.clone(), ..Env::real(1) };
    let options = Options { durability: Durability::None, ..Options::default() };
    Node::open(env, dir, options, directory, clock)
}

fn name() -> TableName {
    TableName::new("projects/p/instances/i/tables/t").unwrap()
}

fn table() -> CreateTable {
    CreateTable {
        name: name(),
        families: vec![("f".into(), FamilySpec::default())],
        splits: vec!["m".into()],
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    }
}

fn create(family: &str) -> Vec<FamilyChange> {
    vec![FamilyChange::Create { name: family.into(), spec: FamilySpec::default() }]
}

#[tokio::test]
async fn a_node_looks_up_tables_of_others_and_changes_their_newest_schema() {
    let (directory, dirs) =
        (Arc::<Directory>::default(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let (one, two) = (node(&directory, dirs[0].path()), node(&directory, dirs[1].path()));
    one.local.create_table(table()).await.unwrap();
    assert!(two.local.list_tables("").await.unwrap().is_empty());
    let seen = two.local.get_table(&name()).await.unwrap();
    assert_eq!(seen, one.local.get_table(&name()).await.unwrap());
    let read = two.local.read_rows(&name(), ReadRows::default(), Pieces::default()).await;
    assert_eq!(read.err(), Some(Error::NotLeader { leader: None }), "it has no replica");

    one.local.modify_families(&name(), create("g")).await.unwrap();
    let both = two.local.modify_families(&name(), create("h")).await.unwrap();
    assert_eq!(both.families.keys().map(|name| &**name).collect::<Vec<_>>(), ["f", "g", "h"]);
    let again = one.local.modify_families(&name(), create("h")).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    // The leaders had the schema before the calls returned, whatever they returned.
    let newest = directory.versioned_table(&name()).unwrap().unwrap().version;
    assert_eq!(*two.groups.set.lock(), [newest]);
    assert!(one.groups.set.lock()[0] < newest && one.groups.set.lock()[1..] == [newest]);
    assert_eq!(one.local.get_table(&name()).await.unwrap(), both, "it learned why it was refused");
    one.local.refresh().await.unwrap();
    assert_eq!(one.local.get_table(&name()).await.unwrap(), both);
    let identity = one.local.identity(&name()).await.unwrap();
    assert_eq!(identity, two.local.identity(&name()).await.unwrap());
    assert_eq!((identity.store, identity.opened_micros), (StoreId(ClusterId(7).0), None));

    one.local.delete_table(&name()).await.unwrap();
    assert!(one.engine.trees().is_empty());
    assert!(directory.intents().unwrap().is_empty());
    two.local.refresh().await.unwrap();
    let gone = two.local.get_table(&name()).await;
    assert_eq!(gone.err(), Some(Error::no_table(name())));
}

#[tokio::test]
async fn the_highest_version_counts() {
    let (directory, dir) = (Arc::<Directory>::default(), tempfile::tempdir().unwrap());
    let one = node(&directory, dir.path());
    one.local.create_table(table()).await.unwrap();
    let first = directory.versioned_table(&name()).unwrap().unwrap();
    one.local.modify_families(&name(), create("g")).await.unwrap();
    let second = directory.versioned_table(&name()).unwrap().unwrap();
    assert!(second.version > first.version);
    one.local.learn(first.clone()).unwrap();
    one.local.forget(&name(), second.version);
    assert_eq!(*one.local.get_table(&name()).await.unwrap(), second.schema);
    // Another table was created under the name.
    let anew = TableSchema { created_micros: 7, ..first.schema };
    one.local.learn(Versioned { schema: anew.clone(), version: second.version + 1 }).unwrap();
    assert_eq!(*one.local.get_table(&name()).await.unwrap(), anew);
}

#[tokio::test]
async fn a_table_that_could_not_be_created_leaves_nothing() {
    let (directory, dir) = (Arc::<Directory>::default(), tempfile::tempdir().unwrap());
    let one = node(&directory, dir.path());
    one.groups.fail_creation(Error::Unavailable("a node is away".into()));
    let failed = one.local.create_table(table()).await;
    assert!(matches!(failed, Err(Error::Unavailable(_))), "{failed:?}");
    assert!(directory.tables().unwrap().is_empty() && directory.intents().unwrap().is_empty());
    assert!(one.engine.trees().is_empty());
    one.local.create_table(table()).await.unwrap();
    let again = one.local.create_table(table()).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
}

#[tokio::test]
async fn what_a_cluster_does_not_have_is_refused_by_name() {
    let (directory, dir) = (Arc::<Directory>::default(), tempfile::tempdir().unwrap());
    let Node { local, .. } = node(&directory, dir.path());
    local.create_table(table()).await.unwrap();
    let refused = |what: &str, error: Option<Error>| match error {
        Some(Error::FailedPrecondition(text)) => assert!(text.contains(what), "{text}"),
        other => panic!("{what}: {other:?}"),
    };
    refused("bulk loads", local.load(&name(), &IngestOptions::default()).err());
    refused("backups", local.delete_backup("b".into()).await.err());
    let record: BackupRecord = Box::new(|_| RecordChange::remove("b"));
    refused("backups", local.back_up_table(&name(), "b".into(), 9, record).await.err());
    refused("backups", local.restore_table("b".into(), name(), vec![]).await.err());
    refused("deleted table", local.undelete_table(&name()).await.err());
    let hour = Some(Duration::from_secs(3_600));
    refused("change streams", local.keep_changes(&name(), hour).await.err());
    let keep = TableUpdate { change_retention: Some(hour), ..TableUpdate::default() };
    refused("change streams", local.update_table(&name(), keep).await.err());
    assert_eq!(local.change_retention(&name()), Ok(None));
    assert_eq!(local.keep_changes(&name(), None).await, Ok(()));
    assert_eq!(local.drop_expired().await, Ok(0));
    local.sync().await.unwrap();
}

#[tokio::test]
async fn a_table_gets_its_version_when_its_groups_are_there() {
    let (directory, dirs) =
        (Arc::<Directory>::default(), [(); 2].map(|()| tempfile::tempdir().unwrap()));
    let (one, two) = (node(&directory, dirs[0].path()), node(&directory, dirs[1].path()));
    // While the groups are created another node creates a table of the name, and deletes it.
    let (elsewhere, other) = (Arc::clone(&directory), two.local.clone());
    let (sent, deleted) = std::sync::mpsc::channel();
    one.groups.while_creating(move |_| {
        let schema = TableSchema {
            name: name(),
            families: Default::default(),
            next_family: 1,
            tablets: vec![table::schema::Tablet { start: Bytes::new(), tree: TreeId(900) }],
            deletion_protection: false,
            created_micros: 1,
            granularity: Default::default(),
            row_key_schema: None,
        };
        let put = elsewhere.change_if(&name(), None, &[MetaChange::PutTable(&schema)]).unwrap();
        let schema = Versioned { schema, version: put };
        other.learn(schema).unwrap();
        let remove = [MetaChange::RemoveTable(&name())];
        sent.send(elsewhere.change_if(&name(), Some(put), &remove).unwrap()).unwrap();
    });
    one.local.create_table(table()).await.unwrap();
    let deleted = deleted.recv().unwrap();
    let created = directory.versioned_table(&name()).unwrap().unwrap();
    assert!(created.version > deleted, "{} is not above {deleted}", created.version);
    // In whatever order the other node hears of it.
    two.local.learn(created.clone()).unwrap();
    two.local.forget(&name(), deleted);
    assert_eq!(*two.local.get_table(&name()).await.unwrap(), created.schema);
    let local = two.local.clone();
    tokio::task::spawn_blocking(move || local.verify_gone(&[name()])).await.unwrap().unwrap();
    assert_eq!(*two.local.get_table(&name()).await.unwrap(), created.schema);
}

#[tokio::test]
async fn what_a_deletion_left_is_removed_when_the_node_is_back() {
    let (directory, dir) = (Arc::<Directory>::default(), tempfile::tempdir().unwrap());
    let one = node(&directory, dir.path());
    one.local.create_table(table()).await.unwrap();
    assert_eq!(one.local.finish_intents().await, Ok(0));
    *one.groups.away.lock() = true;
    one.local.delete_table(&name()).await.unwrap();
    assert_eq!(one.local.finish_intents().await, Ok(1));
    assert_eq!(directory.intents().unwrap().len(), 1);
    // The table is another one by now, with trees of its own.
    one.local.create_table(table()).await.unwrap();
    *one.groups.away.lock() = false;
    assert_eq!(one.local.finish_intents().await, Ok(0));
    assert!(directory.intents().unwrap().is_empty());
    assert_eq!(one.engine.trees().len(), 2, "the new table is untouched");
}

#[tokio::test]
async fn rows_of_a_table_that_a_restored_directory_lacks_outlive_the_intent_of_its_creation() {
    let (directory, dir) = (Arc::<Directory>::default(), tempfile::tempdir().unwrap());
    let one = node(&directory, dir.path());
    one.local.create_table(table()).await.unwrap();
    let created = directory.versioned_table(&name()).unwrap().unwrap();
    let trees: Vec<_> = created.schema.tablets.iter().map(|tablet| tablet.tree).collect();
    let set = RowMutation::SetCell {
        family: "f".into(),
        qualifier: "q".into(),
        timestamp: table::mutate::WriteTime::At(Timestamp(1000)),
        value: "acknowledged".into(),
    };
    let write = RowMutations { row: "a".into(), mutations: vec![set] };
    one.local.mutate_row(&name(), write).await.unwrap();
    // The backup of the directory was made between the intent and the record of the table.
    let restored = Arc::<Directory>::default();
    restored.intend_new(&trees, created.version - 1).unwrap();
    let two = one.over(&restored);
    assert_eq!(two.finish_intents().await, Ok(0));
    assert_eq!(one.engine.trees(), trees, "the rows stay");
    assert!(restored.intents().unwrap().is_empty(), "and nothing removes them later");
    // A deletion is later than all that the groups know.
    one.local.delete_table(&name()).await.unwrap();
    assert!(one.engine.trees().is_empty());
}

#[tokio::test]
async fn a_change_that_did_not_reach_the_groups_reaches_them_when_it_is_repeated() {
    let (directory, dir) = (Arc::<Directory>::default(), tempfile::tempdir().unwrap());
    let one = node(&directory, dir.path());
    one.local.create_table(table()).await.unwrap();
    *one.groups.refuses_schemas.lock() = true;
    for _ in 0..2 {
        let changed = one.local.modify_families(&name(), create("g")).await;
        assert!(matches!(changed, Err(Error::Unavailable(_))), "{changed:?}");
    }
    *one.groups.refuses_schemas.lock() = false;
    let again = one.local.modify_families(&name(), create("g")).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    let newest = directory.versioned_table(&name()).unwrap().unwrap();
    assert_eq!(*one.groups.set.lock(), [newest.version]);
    assert_eq!(*one.local.get_table(&name()).await.unwrap(), newest.schema);
    let drop_it = || vec![FamilyChange::Drop { name: "g".into() }];
    *one.groups.refuses_schemas.lock() = true;
    let dropped = one.local.modify_families(&name(), drop_it()).await;
    assert!(matches!(dropped, Err(Error::Unavailable(_))), "{dropped:?}");
    *one.groups.refuses_schemas.lock() = false;
    let again = one.local.modify_families(&name(), drop_it()).await;
    assert!(matches!(again, Err(Error::NotFound { .. })), "{again:?}");
    assert_eq!(one.groups.set.lock().len(), 2);
}

fn unknown(at: usize) -> TableName {
    TableName::new(format!("projects/p/instances/i/tables/unknown-{at}")).unwrap()
}

#[tokio::test]
async fn the_directory_is_asked_once_for_all_requests_for_a_table_that_is_not_there() {
    let (directory, dir) = (Arc::<Directory>::default(), tempfile::tempdir().unwrap());
    let one = node(&directory, dir.path());
    let asked = || *directory.hang();
    let requests = (0..500).map(|_| async { one.local.get_table(&unknown(0)).await });
    let answers = futures::future::join_all(requests).await;
    assert!(answers.iter().all(|answer| answer == &Err(Error::no_table(unknown(0)))));
    assert!(asked() <= 2, "{} questions", asked());
    // A table that is there by then is found, whatever was answered before.
    let (other, there) = (tempfile::tempdir().unwrap(), table());
    node(&directory, other.path()).local.create_table(there).await.unwrap();
    assert!(one.local.get_table(&name()).await.is_ok());
    let before = asked();
    let names: Vec<_> = (0..500).map(|at| unknown(at % 10)).collect();
    let requests = names.iter().map(|name| one.local.get_table(name));
    assert!(futures::future::join_all(requests).await.iter().all(Result::is_err));
    assert!(asked() - before <= 20, "{} questions", asked() - before);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_unknown_tables_take_no_place_of_others_while_the_directory_hangs() {
    let (directory, dir) = (Arc::<Directory>::default(), tempfile::tempdir().unwrap());
    let one = node(&directory, dir.path());
    one.local.create_table(table()).await.unwrap();
    let (hung, hangs) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let held = Arc::clone(&directory);
    let holding = tokio::task::spawn_blocking(move || {
        let _held = held.hang();
        hung.send(()).unwrap();
        let _ = may_go_on.recv();
    });
    hangs.recv().unwrap();
    // More requests than there are places for writes, each of its own name.
    let names: Vec<_> = (0..400).map(unknown).collect();
    let mut waiting = futures::future::join_all(names.iter().map(|name| one.local.get_table(name)));
    assert!(futures::poll!(&mut waiting).is_pending());
    // A write of this size takes a place.
    let large = RowMutation::SetCell {
        family: "f".into(),
        qualifier: "q".into(),
        timestamp: table::mutate::WriteTime::At(Timestamp(1000)),
        value: vec![7; 1 << 20].into(),
    };
    let change = RowMutations { row: "row".into(), mutations: vec![large] };
    let name = name();
    let written = one.local.mutate_row(&name, change);
    tokio::time::timeout(Duration::from_secs(60), written).await.unwrap().unwrap();
    drop(go_on);
    holding.await.unwrap();
    let answers = waiting.await;
    // Not found, or not in time where the write took long.
    assert!(answers.iter().all(Result::is_err));
}

#[tokio::test]
async fn groups_that_are_another_tables_stay_when_a_creation_finds_them() {
    let (directory, dir) = (Arc::<Directory>::default(), tempfile::tempdir().unwrap());
    let one = node(&directory, dir.path());
    let taken = Error::AlreadyExists { what: "resource", name: "group 16".into() };
    one.groups.fail_creation(taken);
    let created = one.local.create_table(table()).await;
    assert!(matches!(created, Err(Error::Aborted(_))), "{created:?}");
    assert_eq!(one.engine.trees().len(), 2, "nothing was removed");
    assert!(directory.intents().unwrap().is_empty(), "nothing will be");
    one.local.create_table(table()).await.unwrap();
    assert_eq!(one.engine.trees().len(), 4, "other trees");
}

#[tokio::test]
async fn unknown_tables_are_asked_for_in_the_order_in_which_requests_came() {
    let (directory, dir) = (Arc::<Directory>::default(), tempfile::tempdir().unwrap());
    let one = node(&directory, dir.path());
    // More than a round asks for; the first come last in the order of the alphabet.
    let names: Vec<_> = (0..100).rev().map(|at| unknown(100 + at)).collect();
    let requests = names.iter().map(|name| one.local.get_table(name));
    let answers = futures::future::join_all(requests).await;
    assert!(answers.iter().all(|answer| matches!(answer, Err(Error::NotFound { .. }))));
    assert_eq!(directory.asked(), names);
}

#[tokio::test]
async fn all_requests_for_unknown_tables_fail_with_the_directory_and_none_after_the_other() {
    let (directory, dir) = (Arc::<Directory>::default(), tempfile::tempdir().unwrap());
    let one = node(&directory, dir.path());
    directory.set_down(true);
    let names: Vec<_> = (0..200).map(unknown).collect();
    let requests = names.iter().map(|name| one.local.get_table(name));
    let answers = futures::future::join_all(requests).await;
    assert!(answers.iter().all(|answer| matches!(answer, Err(Error::Unavailable(_)))));
    assert_eq!(directory.asked(), [unknown(0)], "one failure is told to all");
    directory.set_down(false);
    let there = one.local.get_table(&unknown(1)).await;
    assert!(matches!(there, Err(Error::NotFound { .. })), "{there:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_an_unknown_table_waits_no_longer_than_its_bound() {
    let (directory, dir) = (Arc::<Directory>::default(), tempfile::tempdir().unwrap());
    let one = node(&directory, dir.path());
    let (hung, hangs) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let held = Arc::clone(&directory);
    let holding = tokio::task::spawn_blocking(move || {
        let _held = held.hang();
        hung.send(()).unwrap();
        let _ = may_go_on.recv();
    });
    hangs.recv().unwrap();
    let answer = one.local.get_table(&unknown(0)).await;
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    drop(go_on);
    holding.await.unwrap();
}

#[tokio::test]
async fn metrics_of_a_table_count_the_trees_that_a_node_has_of_it() {
    let (directory, dir) = (Arc::<Directory>::default(), tempfile::tempdir().unwrap());
    let one = node(&directory, dir.path());
    let schema = one.local.create_table(table()).await.unwrap();
    one.local.read_rows(&name(), ReadRows::default(), Pieces::default()).await.unwrap();
    let trees = || -> Vec<TreeId> {
        let named = one.local.named_tables();
        assert_eq!(named.iter().map(|one| &one.table).collect::<Vec<_>>(), [&name()]);
        named[0].trees.clone()
    };
    let [here, elsewhere] = [0, 1].map(|at: usize| schema.tablets[at].tree);
    assert_eq!(trees(), [here, elsewhere]);
    // Other nodes have the second tablet.
    one.engine.drop_tree(elsewhere).unwrap();
    assert_eq!(trees(), [here]);
    let told = one.engine.metrics_by_groups(&[trees()]);
    assert!(told.groups.iter().all(Option::is_some), "the tree is told under the table");
}
