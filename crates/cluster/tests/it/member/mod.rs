//! Whole nodes of one process, with real connections and files, and a directory in a file: tables that
//! come and go while a node is away.

use base::env::{Env, SystemClock};
use cluster::directory::{ClusterRecord, Directory, Key, LocalDirectory, NodePlace, found};
use cluster::link::LinkOptions;
use cluster::member::{Member, MemberError, MemberOptions};
use engine::{ClusterId, Engine, Options, RowRange, ScanRequest};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::mutate::WriteTime;
use table::{
    CreateTable, Error, FamilySpec, RowMutation, RowMutations, Store, TableName, Timestamp,
};
use tokio::net::TcpListener;

/// Longest wait for something that must happen.
const SOON: Duration = Duration::from_secs(120);

fn name() -> TableName {
    TableName::new("projects/p/instances/i/tables/t").unwrap()
}

async fn start(dir: &Path, directory: &Arc<dyn Directory>, node: u64) -> Member {
    let begun = Instant::now();
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let options = MemberOptions {
            env: Env::real(1),
            dir: dir.join(node.to_string()),
            engine: Options { memory_bytes_max: 32 << 20, ..Options::default() },
            directory: Arc::clone(directory),
            place: NodePlace { address, region: "r".into(), zone: node.to_string() },
            listener,
            link: LinkOptions::default(),
            seed: node,
        };
        match Member::start(options, |local| local).await {
            Ok(member) => return member,
            // The earlier start is still ending.
            Err(MemberError::Dir(why)) => assert!(begun.elapsed() < SOON, "{why}"),
            Err(error) => panic!("node {node}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < SOON, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Three nodes with a directory, in `dir`.
async fn three(dir: &Path) -> (Arc<dyn Directory>, Vec<Member>) {
    let at = dir.join("directory");
    let directory: Arc<dyn Directory> = Arc::new(LocalDirectory::new(at, Arc::new(SystemClock)));
    let record = ClusterRecord { id: ClusterId(5), replicas: 3, founded_micros: 1 };
    found(&*directory, &record).await.unwrap();
    let mut nodes = Vec::new();
    for node in 1..=3 {
        nodes.push(start(dir, &directory, node).await);
    }
    until("all nodes are alive", async || {
        directory.read(Key::ALIVE).await.unwrap().items.len() == 3
    })
    .await;
    (directory, nodes)
}

/// Creates the table, as soon as the node knows of all others, and writes a row.
async fn create(node: &Member) {
    until("a table", async || {
        let table = CreateTable {
            name: name(),
            families: vec![("f".into(), FamilySpec::default())],
            splits: vec![],
            deletion_protection: false,
            granularity: Default::default(),
            row_key_schema: None,
        };
        match node.tables().create_table(table).await {
            Ok(_) | Err(Error::AlreadyExists { .. }) => true,
            Err(Error::FailedPrecondition(_) | Error::Unavailable(_)) => false,
            Err(error) => panic!("{error}"),
        }
    })
    .await;
    let cell = RowMutation::SetCell {
        family: "f".into(),
        qualifier: "q".into(),
        timestamp: WriteTime::At(Timestamp(1000)),
        value: "v".into(),
    };
    until("a row", async || {
        let row = RowMutations { row: "row".into(), mutations: vec![cell.clone()] };
        node.tables().mutate_row(&name(), row).await.is_ok()
    })
    .await;
}

/// Returns the number of rows that the replicas of an engine have.
fn rows(engine: &Engine) -> usize {
    let mut rows = 0;
    for tree in engine.trees() {
        let Ok(tree) = engine.tree(tree) else { continue };
        let mut scan = tree.scan(&ScanRequest::rows(RowRange::ALL), None).unwrap();
        while scan.next_row().unwrap().is_some() {
            rows += 1;
        }
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_deleted_while_a_node_was_away_goes_from_there_too() {
    let dir = tempfile::tempdir().unwrap();
    let (directory, mut nodes) = three(dir.path()).await;
    create(&nodes[0]).await;
    until("the row on all nodes", async || nodes.iter().all(|node| rows(node.engine()) == 1)).await;
    nodes.pop().unwrap().stop().await;
    nodes[0].tables().delete_table(&name()).await.unwrap();
    assert_eq!(directory.read(Key::INTENTS).await.unwrap().items.len(), 1, "a node is away");
    let back = start(dir.path(), &directory, 3).await;
    until("its replica is gone", async || back.engine().trees().is_empty()).await;
    until("the table is forgotten", async || {
        back.tables().list_tables("").await.unwrap().is_empty()
    })
    .await;
    until("the intent is carried out", async || {
        directory.read(Key::INTENTS).await.unwrap().items.is_empty()
            && directory.read(Key::PLACEMENT).await.unwrap().items.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_makes_the_replicas_that_were_placed_on_it_while_it_was_away() {
    let dir = tempfile::tempdir().unwrap();
    let (directory, mut nodes) = three(dir.path()).await;
    until("nodes know each other", async || {
        let status = nodes[0].watcher().status().await;
        status.nodes.iter().filter(|node| node.is_alive && node.leaders.is_some()).count() == 3
    })
    .await;
    // It ends without a word, and still counts as alive.
    drop(nodes.pop());
    create(&nodes[0]).await;
    let back = start(dir.path(), &directory, 3).await;
    until("the row", async || rows(back.engine()) == 1).await;
    until("nobody is behind", async || {
        let status = back.watcher().status().await;
        let [tablet] = &status.tablets[..] else { return false };
        tablet.members.len() == 3 && tablet.members.iter().all(|member| member.lag == Some(0))
    })
    .await;
    let readings = back.watcher().readings().unwrap();
    assert_eq!((readings.replicas, readings.damaged, readings.behind), (1, 0, 0));
}
