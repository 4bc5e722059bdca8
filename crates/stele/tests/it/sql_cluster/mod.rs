//! SQL on three real servers as a cluster: any of them takes clients, and the database outlives the node that
//! leads it.

mod transfers;

use crate::server::{Server, run, stderr};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Error, NoTls};
use transfers::Transfers;

/// Longest wait for something that must happen.
const SOON: Duration = Duration::from_secs(120);
/// Longest wait for an answer, after which a client gives up.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Three servers of one cluster, and a runtime for clients.
struct World {
    servers: Vec<Server>,
    runtime: Runtime,
    _dir: tempfile::TempDir,
}

impl World {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let directory = format!("file:{}", dir.path().join("directory").display());
        let founded = run(&["cluster", "init", "--etcd", &directory, "--replicas", "3"]);
        assert!(founded.status.success(), "{}", stderr(&founded));
        let servers = (1..=3).map(|node| start(dir.path(), &directory, node)).collect();
        Self { servers, runtime: Runtime::new().unwrap(), _dir: dir }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Server::sql).collect()
    }

    /// Connects to a node, as soon as the cluster serves SQL.
    fn client(&self, node: usize) -> Client {
        let address = self.servers[node].sql();
        self.runtime.block_on(async {
            let begun = Instant::now();
            loop {
                match connect(address).await {
                    Ok(client) => return client,
                    Err(error) => assert!(begun.elapsed() < SOON, "no SQL: {error:?}"),
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
    }
}

/// Starts a node; it has its ports again when it is restarted.
fn start(dir: &Path, directory: &str, node: usize) -> Server {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (join, listen) = (format!("--join={directory}"), format!("--cluster-listen={}", free()));
    let (zone, sql) = (format!("--zone={node}"), format!("--sql-listen={}", free()));
    let flags =
        [&join, &listen, &zone, &sql, "--log-level=warn,stele=info", "--memory-bytes-max=256MiB"];
    Server::start(&dir.join(node.to_string()), &flags)
}

async fn connect(address: SocketAddr) -> Result<Client, Error> {
    let (ip, port) = (address.ip(), address.port());
    let config = format!("host={ip} port={port} user=stele dbname=stele");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn number(client: &Client, query: &str) -> i64 {
    let row = tokio::time::timeout(ANSWER_MAX, client.query_one(query, &[])).await;
    row.expect("an answer in time").unwrap_or_else(|error| panic!("{query}: {error:?}")).get(0)
}

#[test]
fn every_node_takes_clients_of_the_one_database() {
    let mut world = World::start();
    let clients: Vec<_> = (0..3).map(|node| world.client(node)).collect();
    world.runtime.block_on(async {
        let define = "CREATE TABLE t (id bigint PRIMARY KEY, v text); CREATE INDEX t_v ON t (v)";
        clients[0].batch_execute(define).await.unwrap();
        for (at, client) in clients.iter().enumerate() {
            let insert =
                "INSERT INTO t SELECT g, 'x' || g FROM generate_series($1::bigint, $1::bigint + 99) AS g";
            client.execute(insert, &[&(at as i64 * 100)]).await.unwrap();
            // Rows that one node acknowledged are seen by all others.
            for other in &clients {
                assert_eq!(number(other, "SELECT count(*) FROM t").await, (at as i64 + 1) * 100);
            }
        }
        for client in &clients {
            let endless = "SELECT pg_sleep('infinity')";
            let (token, query) = (client.cancel_token(), client.batch_execute(endless));
            let cancel = async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                token.cancel_query(NoTls).await.unwrap();
            };
            let (outcome, ()) = tokio::join!(query, cancel);
            assert_eq!(outcome.unwrap_err().code().unwrap().code(), "57014");
            assert_eq!(number(client, "SELECT id FROM t WHERE v = 'x250'").await, 250);
        }
        let hidden = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = 'bigtable'";
        assert_eq!(number(&clients[0], hidden).await, 0, "the table of the database is listed");
    });
    drop(clients);
    // Stopped one after the other, and started again: the database is handed over each time.
    for node in 0..3 {
        assert!(world.servers[node].terminate().success());
        let client = world.client((node + 1) % 3);
        let count = "SELECT count(*) FROM t WHERE v >= 'x'";
        assert_eq!(world.runtime.block_on(number(&client, count)), 300, "without node {node}");
        world.servers[node].restart();
    }
    let client = world.client(2);
    let dropped = client.batch_execute("DROP TABLE t; CREATE TABLE t (id bigint PRIMARY KEY)");
    world.runtime.block_on(dropped).unwrap();
    let count = number(&client, "SELECT count(*) FROM t");
    assert_eq!(world.runtime.block_on(count), 0);
}

#[test]
fn transactions_outlive_kill_9_of_the_leader() {
    let mut world = World::start();
    let client = world.client(0);
    world.runtime.block_on(transfers::set_up(&client));
    drop(client);
    let load = Transfers::start(&world.runtime, world.addresses());
    load.wait_for_more("before any failure");
    // Whichever node leads at first: it is killed once.
    for node in 0..3 {
        world.servers[node].kill_9();
        load.wait_for_more("while a node is down");
        world.servers[node].restart();
        load.wait_for_more("after the node came back");
    }
    let outcome = world.runtime.block_on(load.stop());
    for node in 0..3 {
        let client = world.client(node);
        world.runtime.block_on(outcome.check(&client));
    }
    // Not from memory.
    world.servers.iter_mut().for_each(Server::kill_9);
    world.servers.iter_mut().for_each(Server::restart);
    let client = world.client(1);
    world.runtime.block_on(outcome.check(&client));
    let led = |server: &Server| server.stderr().matches("this node serves the database").count();
    let terms: usize = world.servers.iter().map(led).sum();
    assert!(terms >= 3, "the database moved: {terms} terms");
}
