//! Promises of the protocol: pipelines, portals, errors, cancel requests, hostile clients.

use crate::server::{Server, code};
use sql::DoorOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::NoTls;
use tokio_postgres::error::ErrorPosition;

#[tokio::test(flavor = "multi_thread")]
async fn an_error_has_its_state_and_position() {
    let server = Server::start().await;
    let client = server.client().await;
    for (text, state, position) in [
        ("SELEC 1", "42601", Some(1)),
        ("SELECT nothing", "42703", Some(8)),
        ("SELECT * FROM nothing", "42P01", Some(15)),
        ("SELECT 2147483647 + 1", "22003", None),
        ("SELECT 1 / 0", "22012", None),
        ("SELECT 'x'::int", "22P02", None),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", "0A000", None),
        ("LISTEN x", "0A000", None),
    ] {
        let error = client.batch_execute(text).await.unwrap_err();
        assert_eq!(code(&error), state, "{text}: {error:?}");
        let found = error.as_db_error().and_then(|error| error.position());
        if let Some(position) = position {
            assert_eq!(found, Some(&ErrorPosition::Original(position)), "{text}");
        }
    }
    client.batch_execute("SELECT 1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_block_takes_nothing_but_its_end() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
    client.batch_execute("BEGIN; INSERT INTO t VALUES (1)").await.unwrap();
    assert_eq!(code(&client.batch_execute("SELECT 1/0").await.unwrap_err()), "22012");
    assert_eq!(code(&client.batch_execute("SELECT 1").await.unwrap_err()), "25P02");
    client.batch_execute("COMMIT").await.unwrap();
    assert!(client.query("SELECT a FROM t WHERE a = 1", &[]).await.unwrap().is_empty());
    client.batch_execute("BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s").await.unwrap();
    let error = client.batch_execute("INSERT INTO t VALUES (1)").await.unwrap_err();
    assert_eq!(code(&error), "23505");
    assert_eq!(error.as_db_error().and_then(|error| error.constraint()), Some("t_pkey"));
    client.batch_execute("ROLLBACK TO s; INSERT INTO t VALUES (2); COMMIT").await.unwrap();
    let rows = client.query("SELECT a FROM t WHERE a IN (1, 2, 3)", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn portals_give_rows_in_parts() {
    let server = Server::start().await;
    let mut client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b text)").await.unwrap();
    for a in 0..10 {
        let inserted = client.execute("INSERT INTO t VALUES ($1, $2)", &[&a, &"x"]).await.unwrap();
        assert_eq!(inserted, 1);
    }
    let transaction = client.transaction().await.unwrap();
    let text = "SELECT a FROM t WHERE a >= $1 ORDER BY a";
    let portal = transaction.bind(text, &[&0i32]).await.unwrap();
    let mut sizes = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 4).await.unwrap();
        sizes.push(rows.len());
        if rows.len() < 4 {
            break;
        }
    }
    assert_eq!(sizes, [4, 4, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_client_ends_its_own_connection_only() {
    let server = Server::start().await;
    let client = server.client().await;
    for bytes in [
        &b"\0\0\0\x04"[..],
        &b"\xff\xff\xff\xff\0\x03\0\0"[..],
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &b"\0\0\0\x14\0\x03\0\0user\0x\0\0\0"[..],
    ] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let _ = stream.write_all(b"Q\xff\xff\xff\xff").await;
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        tokio::time::timeout(std::time::Duration::from_secs(20), ended).await.unwrap().ok();
    }
    client.batch_execute("SELECT 1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn long_and_deep_statements_are_errors() {
    let server = Server::start().await;
    let client = server.client().await;
    let deep = format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000));
    assert_eq!(code(&client.batch_execute(&deep).await.unwrap_err()), "54001");
    let long = format!("SELECT '{}'", "x".repeat(100 << 20));
    assert_eq!(code(&client.batch_execute(&long).await.unwrap_err()), "54000");
    client.batch_execute("SELECT 1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_too_many_is_told_so() {
    let options = DoorOptions { connections_max: 1, ..DoorOptions::default() };
    let server = Server::with(options).await;
    let _first = server.client().await;
    let config = format!("host=127.0.0.1 port={} user=stele", server.address.port());
    let Err(error) = tokio_postgres::connect(&config, NoTls).await else { panic!("let in") };
    assert_eq!(code(&error), "53300");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_and_a_timeout_end_a_wait_for_a_lock() {
    let server = Server::start().await;
    let (first, second) = (server.client().await, server.client().await);
    first
        .batch_execute("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)")
        .await
        .unwrap();
    first.batch_execute("BEGIN; UPDATE t SET a = 1 WHERE a = 1").await.unwrap();
    second.batch_execute("SET statement_timeout = '50ms'").await.unwrap();
    let error = second.batch_execute("DELETE FROM t WHERE a = 1").await.unwrap_err();
    assert_eq!(code(&error), "57014");
    second.batch_execute("SET statement_timeout = 0").await.unwrap();
    let token = second.cancel_token();
    let waiting = tokio::spawn(async move {
        let error = second.batch_execute("DELETE FROM t WHERE a = 1").await.unwrap_err();
        (code(&error), second)
    });
    let mut state = None;
    while state.is_none() {
        token.cancel_query(NoTls).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        state = waiting.is_finished().then_some(());
    }
    assert_eq!(waiting.await.unwrap().0, "57014");
    first.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_asked_for_once_a_role_has_one() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE ROLE app LOGIN PASSWORD 'right'").await.unwrap();
    let port = server.address.port();
    let connect = async |user: &str, password: &str| {
        let config =
            format!("host=127.0.0.1 port={port} user={user} dbname=stele password={password}");
        tokio_postgres::connect(&config, NoTls).await
    };
    let (app, connection) = connect("app", "right").await.unwrap();
    tokio::spawn(connection);
    let error = app.batch_execute("CREATE ROLE other").await.unwrap_err();
    assert_eq!(code(&error), "42501");
    for (user, password, state) in [("app", "wrong", "28P01"), ("nobody", "x", "28000")] {
        let Err(error) = connect(user, password).await else { panic!("{user} was let in") };
        assert_eq!(code(&error), state, "{user}");
    }
}

/// One message of the protocol, with its type.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((u32::try_from(body.len()).unwrap() + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// Connects, and sends the start of a role.
async fn begin(server: &Server, user: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let body = [&b"\0\x03\0\0user\0"[..], user.as_bytes(), b"\0\0"].concat();
    let len = u32::try_from(body.len()).unwrap() + 4;
    stream.write_all(&[&len.to_be_bytes()[..], &body].concat()).await.unwrap();
    stream
}

/// Reads messages up to the first one of a kind.
async fn until(stream: &mut TcpStream, wanted: u8) {
    loop {
        let kind = stream.read_u8().await.unwrap();
        let len = stream.read_u32().await.unwrap();
        let mut body = vec![0; len as usize - 4];
        stream.read_exact(&mut body).await.unwrap();
        if kind == wanted {
            return;
        }
    }
}

/// Reads messages up to the one that tells of a session that waits.
async fn until_ready(stream: &mut TcpStream) -> Vec<(u8, Vec<u8>)> {
    let mut messages = Vec::new();
    while messages.last().is_none_or(|(kind, _)| *kind != b'Z') {
        let kind = stream.read_u8().await.unwrap();
        let len = stream.read_u32().await.unwrap();
        let mut body = vec![0; len as usize - 4];
        stream.read_exact(&mut body).await.unwrap();
        messages.push((kind, body));
    }
    messages
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bind_has_no_format_one_for_all_columns_or_one_for_each() {
    let server = Server::start().await;
    let mut stream = begin(&server, "stele").await;
    until(&mut stream, b'Z').await;
    // Texts of Parse; then codes of Bind behind two names, without parameters.
    let (one, two, none) = ("SELECT 1", "SELECT 1, 2", "SET application_name = 'x'");
    let cases: [(&str, &[u8], &[u8]); 7] = [
        (one, b"\0\0", b"12Z"),
        (one, b"\0\x01\0\0", b"12Z"),
        (two, b"\0\x01\0\x01", b"12Z"),
        (two, b"\0\x02\0\0\0\x01", b"12Z"),
        (none, b"\0\x02\0\0\0\0", b"12Z"),
        (one, b"\0\x02\0\0\0\0", b"1EZ"),
        (two, b"\0\x03\0\0\0\0\0\0", b"1EZ"),
    ];
    for (text, codes, expected) in cases {
        let parse = [&b"\0"[..], text.as_bytes(), b"\0\0\0"].concat();
        let bind = [&b"\0\0\0\0\0\0"[..], codes].concat();
        let all = [message(b'P', &parse), message(b'B', &bind), message(b'S', b"")].concat();
        stream.write_all(&all).await.unwrap();
        let answers = until_ready(&mut stream).await;
        let kinds: Vec<u8> = answers.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, expected, "{text} {codes:?}");
        let has_state = |body: &[u8]| body.windows(7).any(|part| part == b"C08P01\0");
        assert!(answers.iter().all(|(kind, body)| *kind != b'E' || has_state(body)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_comes_before_the_sync_that_follows_it() {
    let server = Server::start().await;
    let mut stream = begin(&server, "stele").await;
    until(&mut stream, b'Z').await;
    // A parse that fails, and a flush, which is passed over as all up to a sync.
    stream.write_all(&message(b'P', b"\0SELEC 1\0\0\0")).await.unwrap();
    stream.write_all(&message(b'H', b"")).await.unwrap();
    until(&mut stream, b'E').await;
    stream.write_all(&message(b'S', b"")).await.unwrap();
    until(&mut stream, b'Z').await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_is_held_to_short_messages() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("ALTER ROLE stele PASSWORD 'x'").await.unwrap();
    let mut stream = begin(&server, "stele").await;
    until(&mut stream, b'R').await;
    // No more than its header comes, and the connection ends.
    stream.write_all(b"p\0\x10\0\0").await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty(), "{rest:?}");
    client.batch_execute("SELECT 1").await.unwrap();
}
