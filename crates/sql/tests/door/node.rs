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
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, NoTls};

const GRACE: Duration = Duration::from_secs(5);

/// A node that takes clients until it is dropped.
struct Node {
    address: SocketAddr,
    seat: watch::Sender<Seat>,
    drain: Option<watch::Sender<()>>,
}

/// Two nodes, and a door to a database.
struct World {
    nodes: [Node; 2],
    parts: Arc<DoorParts>,
    door: Door,
    database: Arc<Database>,
    tables: Arc<Local>,
    _dir: tempfile::TempDir,
}

async fn node(parts: &Arc<DoorParts>) -> Node {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seat, seated) = watch::channel(Seat::Unknown);
    let (drain, draining) = watch::channel(());
    let door = NodeDoor::new(Arc::clone(parts), seated);
    tokio::spawn(door.serve(listener, Arc::new(|| None), draining, GRACE));
    Node { address, seat, drain: Some(drain) }
}

impl World {
    async fn start() -> Self {
        Self::with(DoorOptions::default()).await
    }

    async fn with(options: DoorOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::open(dir.path(), Options::default()).unwrap();
        let local = Local::open(engine, Arc::new(SystemClock)).unwrap();
        let database = Database::open(&local, DatabaseOptions::default()).await.unwrap();
        let tables = Arc::new(local.clone());
        let parts = DoorParts::new(tables.clone(), (64 << 20, None), options).unwrap();
        let door = parts.door(Arc::clone(&database));
        let nodes = [node(&parts).await, node(&parts).await];
        Self { nodes, parts, door, database, tables, _dir: dir }
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
    assert_eq!(cancelled(&far).await, "57014");
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
async fn a_forwarded_connection_is_given_back_at_once_and_not_forwarded_again() {
    let search = Duration::from_secs(1);
    let world = World::with(DoorOptions { search, ..DoorOptions::default() }).await;
    // Each takes the other one for the leader.
    world.nodes[0].seat.send_replace(Seat::At(world.nodes[1].address.to_string()));
    world.nodes[1].seat.send_replace(Seat::At(world.nodes[0].address.to_string()));
    let refused = connect(&world.nodes[0]).await.map(drop).unwrap_err();
    assert_eq!(code(&refused), "57P03");
    assert_eq!(world.parts.counts().forwarded(), 0);
}

#[tokio::test]
async fn a_client_that_comes_during_a_handover_is_served_by_the_new_leader() {
    let world = World::start().await;
    let [old, other] = &world.nodes;
    // The old leader does not lead any more, and the other node does not know yet.
    other.seat.send_replace(Seat::At(old.address.to_string()));
    let handover = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        other.seat.send_replace(Seat::Here(world.door.clone()));
        old.seat.send_replace(Seat::At(other.address.to_string()));
    };
    let (client, ()) = tokio::join!(connect(other), handover);
    let (client, _connection) = client.unwrap();
    assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
}

/// Runs a statement without end, and returns its error once it is cancelled through the node of `client`.
async fn cancelled(client: &Client) -> String {
    let (token, query) =
        (client.cancel_token(), client.batch_execute("SELECT pg_sleep('infinity')"));
    let cancel = async {
        // One that comes before the statement changes nothing.
        loop {
            let _ = token.cancel_query(NoTls).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        outcome = query => code(&outcome.unwrap_err()),
        () = cancel => unreachable!("it goes on"),
    }
}

#[tokio::test]
async fn without_a_place_a_client_is_told_so_and_statements_are_cancelled() {
    let world = World::with(DoorOptions { connections_max: 1, ..DoorOptions::default() }).await;
    world.seat();
    // The only place of each node: the far client has the one of the leader too.
    let (far, _far) = connect(&world.nodes[1]).await.unwrap();
    for node in &world.nodes {
        let refused = connect(node).await.map(drop).unwrap_err();
        assert_eq!(code(&refused), "53300");
    }
    assert_eq!(cancelled(&far).await, "57014");
    drop(far);
    let near = loop {
        match connect(&world.nodes[0]).await {
            Ok(near) => break near,
            Err(error) => assert_eq!(code(&error), "53300"),
        }
    };
    // The leader is full, and the other node is not.
    let refused = connect(&world.nodes[1]).await.map(drop).unwrap_err();
    assert_eq!(code(&refused), "53300");
    assert_eq!(cancelled(&near.0).await, "57014");
}

#[tokio::test]
async fn connections_that_are_handed_on_count_on_their_node() {
    let world = World::start().await;
    world.seat();
    let options = DoorOptions { connections_max: 1, ..DoorOptions::default() };
    let parts = DoorParts::new(world.tables.clone(), (64 << 20, None), options).unwrap();
    let far = node(&parts).await;
    far.seat.send_replace(Seat::At(world.nodes[0].address.to_string()));
    let counts = parts.counts();
    let (client, _connection) = connect(&far).await.unwrap();
    assert_eq!((counts.forwarded(), counts.connections(), counts.refused()), (1, 1, 0));
    let refused = connect(&far).await.map(drop).unwrap_err();
    assert_eq!(code(&refused), "53300");
    assert_eq!((counts.forwarded(), counts.refused()), (2, 1));
    drop(client);
    while counts.connections() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
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
    world.door.end(Duration::from_millis(100)).await;
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

#[tokio::test]
async fn a_node_that_stops_lets_the_statement_of_a_forwarded_client_end() {
    let mut world = World::start().await;
    world.seat();
    let (client, _connection) = connect(&world.nodes[1]).await.unwrap();
    let slept = client.batch_execute("SELECT pg_sleep(1.5)");
    let stop = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(world.nodes[1].drain.take());
    };
    let (slept, ()) = tokio::join!(slept, stop);
    slept.unwrap();
}

/// Returns the body of the next message of a server, whose type is `R`.
async fn authentication(stream: &mut TcpStream) -> Vec<u8> {
    assert_eq!(stream.read_u8().await.unwrap(), b'R');
    let len = stream.read_u32().await.unwrap() as usize;
    let mut body = vec![0; len - 4];
    stream.read_exact(&mut body).await.unwrap();
    body
}

/// Returns the salt that a stranger of another machine is shown for the password of a role.
async fn salt(node: &Node, role: &str) -> String {
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    stream.write_all(b"STELE\x02\0\0").await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 1);
    let start = [&b"\0\x03\0\0user\0"[..], role.as_bytes(), b"\0\0"].concat();
    stream.write_u32(start.len() as u32 + 4).await.unwrap();
    stream.write_all(&start).await.unwrap();
    authentication(&mut stream).await;
    let first = b"n,,n=,r=abc";
    stream.write_u8(b'p').await.unwrap();
    stream.write_u32(4 + 14 + 4 + first.len() as u32).await.unwrap();
    stream.write_all(b"SCRAM-SHA-256\0").await.unwrap();
    stream.write_u32(first.len() as u32).await.unwrap();
    stream.write_all(first).await.unwrap();
    let text = String::from_utf8(authentication(&mut stream).await).unwrap();
    let (_, salt) = text.split_once(",s=").unwrap();
    salt.split(',').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_stranger_cannot_tell_unknown_roles_by_a_change_of_leader() {
    let world = World::start().await;
    world.seat();
    let (owner, _owner) = connect(&world.nodes[0]).await.unwrap();
    owner.batch_execute("CREATE ROLE known LOGIN PASSWORD 'x'").await.unwrap();
    let roles = ["known", "unknown", "stele"];
    let mut before = Vec::new();
    for role in roles {
        before.push(salt(&world.nodes[0], role).await);
    }
    assert_ne!(before[0], before[1]);
    // Another process serves the database.
    let (tables, options) = (world.tables.clone(), DoorOptions::default());
    let parts = DoorParts::new(tables, (64 << 20, None), options).unwrap();
    let next = node(&parts).await;
    next.seat.send_replace(Seat::Here(parts.door(Arc::clone(&world.database))));
    for (role, before) in roles.into_iter().zip(before) {
        assert_eq!(salt(&next, role).await, before, "{role}");
    }
}
