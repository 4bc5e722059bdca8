//! Doors of two nodes of a cluster, of which one has the database.

use crate::server::code;
use base::env::SystemClock;
use engine::{Engine, Options};
use relational::{Database, DatabaseOptions};
use sql::{Door, DoorOptions, DoorParts, NodeDoor, Seat};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use table::Local;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, NoTls};

const GRACE: Duration = Duration::from_millis(100);

/// A node that takes clients until it is dropped.
struct Node {
    address: SocketAddr,
    seat: watch::Sender<Seat>,
    _drain: watch::Sender<()>,
}

/// Two nodes, and a door to a database.
struct World {
    nodes: [Node; 2],
    parts: Arc<DoorParts>,
    door: Door,
    _dir: tempfile::TempDir,
}

async fn node(parts: &Arc<DoorParts>) -> Node {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seat, seated) = watch::channel(Seat::Unknown);
    let (drain, draining) = watch::channel(());
    let door = NodeDoor::new(Arc::clone(parts), seated);
    tokio::spawn(door.serve(listener, Arc::new(|| None), draining, GRACE));
    Node { address, seat, _drain: drain }
}

impl World {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(dir.path(), Options::default()).unwrap();
        let local = Local::open(engine, Arc::new(SystemClock)).unwrap();
        let database = Database::open(&local, DatabaseOptions::default()).await.unwrap();
        let tables = Arc::new(local.clone());
        let parts = DoorParts::new(tables, (64 << 20, None), DoorOptions::default()).unwrap();
        let door = parts.door(database);
        let nodes = [node(&parts).await, node(&parts).await];
        Self { nodes, parts, door, _dir: dir }
    }

    /// Tells all nodes that the first one has the database.
    fn seat(&self) {
        self.nodes[0].seat.send_replace(Seat::Here(self.door.clone()));
        self.nodes[1].seat.send_replace(Seat::At(self.nodes[0].address.to_string()));
    }
}

/// Connects to a node. The task ends with the connection.
async fn connect(node: &Node) -> Result<(Client, JoinHandle<Result<(), Error>>), Error> {
    let port = node.address.port();
    let config = format!("host=127.0.0.1 port={port} user=stele dbname=stele");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
    Ok((client, tokio::spawn(connection)))
}

#[tokio::test]
async fn a_client_of_another_node_is_served_and_its_statements_are_cancelled() {
    let world = World::start().await;
    world.seat();
    let (near, _near) = connect(&world.nodes[0]).await.unwrap();
    let (far, _far) = connect(&world.nodes[1]).await.unwrap();
    far.batch_execute("CREATE TABLE t (a int); INSERT INTO t VALUES (7)").await.unwrap();
    assert_eq!(near.query_one("SELECT a FROM t", &[]).await.unwrap().get::<_, i32>(0), 7);
    assert_eq!(world.parts.counts().forwarded(), 1);
    let endless = "SELECT pg_sleep('infinity')";
    let (token, query) = (far.cancel_token(), far.batch_execute(endless));
    let cancel = async {
        // One that comes before the statement changes nothing.
        loop {
            token.cancel_query(NoTls).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let refused = tokio::select! {
        outcome = query => outcome.unwrap_err(),
        () = cancel => unreachable!("it goes on"),
    };
    assert_eq!(code(&refused), "57014");
}

#[tokio::test]
async fn a_client_waits_until_a_node_has_the_database() {
    let world = World::start().await;
    let clients = async { tokio::join!(connect(&world.nodes[0]), connect(&world.nodes[1])) };
    let seat = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.seat();
    };
    let ((one, two), ()) = tokio::join!(clients, seat);
    for (client, _connection) in [one.unwrap(), two.unwrap()] {
        assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
    }
}

#[tokio::test]
async fn a_forwarded_connection_is_told_of_the_error_and_not_forwarded_again() {
    let world = World::start().await;
    // Each takes the other one for the leader.
    world.nodes[0].seat.send_replace(Seat::At(world.nodes[1].address.to_string()));
    world.nodes[1].seat.send_replace(Seat::At(world.nodes[0].address.to_string()));
    let refused = connect(&world.nodes[0]).await.map(drop).unwrap_err();
    assert_eq!(code(&refused), "57P03");
    assert_eq!(world.parts.counts().forwarded(), 1);
}

#[tokio::test]
async fn sessions_end_with_the_term_of_their_database() {
    let world = World::start().await;
    world.seat();
    let (idle, idle_ends) = connect(&world.nodes[0]).await.unwrap();
    let (open, open_ends) = connect(&world.nodes[1]).await.unwrap();
    idle.query_one("SELECT 1", &[]).await.unwrap();
    open.batch_execute("BEGIN; CREATE TABLE t (a int)").await.unwrap();
    world.nodes.iter().for_each(|node| drop(node.seat.send_replace(Seat::Unknown)));
    world.door.end(GRACE).await;
    for ends in [idle_ends, open_ends] {
        let error = ends.await.unwrap().unwrap_err();
        assert_eq!(code(&error), "57P01");
    }
}

#[tokio::test]
async fn a_forwarded_connection_ends_when_the_database_has_moved() {
    let world = World::start().await;
    world.seat();
    let (client, ends) = connect(&world.nodes[1]).await.unwrap();
    client.query_one("SELECT 1", &[]).await.unwrap();
    // That it is not known for a while means nothing.
    world.nodes[1].seat.send_replace(Seat::Unknown);
    client.query_one("SELECT 1", &[]).await.unwrap();
    world.nodes[1].seat.send_replace(Seat::At("127.0.0.1:1".to_owned()));
    let _ = ends.await.unwrap();
    assert!(client.query_one("SELECT 1", &[]).await.is_err());
}
