//! Promises about what is not there: it is refused, with the state that says so, and never taken in silence.

use crate::server::{Server, code};
use futures::TryStreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::error::ErrorPosition;
use tokio_postgres::{Client, SimpleQueryMessage};

async fn state_of(client: &Client, text: &str) -> String {
    match client.batch_execute(text).await {
        Ok(()) => "00000".to_owned(),
        Err(error) => code(&error),
    }
}

/// Returns the first values of all rows.
async fn rows(client: &Client, text: &str) -> Vec<String> {
    let messages = client.simple_query(text).await.unwrap_or_else(|e| panic!("{text}: {e:?}"));
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
        _ => None,
    });
    rows.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_are_not_kept_are_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    for (text, state) in [
        ("CREATE ROLE r VALID UNTIL '2030-01-01'", "0A000"),
        ("CREATE ROLE r CONNECTION LIMIT 3", "0A000"),
        ("CREATE ROLE r ROLE stele", "0A000"),
        ("CREATE ROLE r ADMIN stele", "0A000"),
        ("CREATE ROLE r VALID UNTIL 'infinity'", "00000"),
        ("CREATE TABLE t (a int PRIMARY KEY DEFERRABLE)", "0A000"),
        ("CREATE TABLE t (a int UNIQUE DEFERRABLE INITIALLY DEFERRED)", "0A000"),
        ("CREATE TABLE t (a int, PRIMARY KEY (a) INITIALLY DEFERRED)", "0A000"),
        ("CREATE TABLE t (a int, UNIQUE (a) DEFERRABLE)", "0A000"),
        ("CREATE TABLE t (a timestamp(3)[])", "0A000"),
        ("CREATE TABLE t (a interval day)", "0A000"),
        ("CREATE TABLE t (a int, b int)", "00000"),
        ("ALTER TABLE t ADD PRIMARY KEY (a) DEFERRABLE", "0A000"),
        ("ALTER TABLE t ADD PRIMARY KEY (a DESC)", "42601"),
        ("ALTER TABLE t ALTER COLUMN a TYPE timestamp(3)", "0A000"),
        ("GRANT r TO stele WITH ADMIN OPTION", "0A000"),
        ("CREATE EXTENSION postgis", "0A000"),
        ("CREATE EXTENSION IF NOT EXISTS pgcrypto", "00000"),
        ("CREATE EXTENSION IF NOT EXISTS \"uuid-ossp\"", "00000"),
        ("SELECT uuid_generate_v4()", "00000"),
        ("SET CONSTRAINTS t_pkey DEFERRED", "42809"),
    ] {
        assert_eq!(state_of(&client, text).await, state, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_about_what_is_not_there_are_no_syntax_errors() {
    let server = Server::start().await;
    let client = server.client().await;
    for text in [
        "CREATE FUNCTION f() RETURNS int AS $$ SELECT 1; $$ LANGUAGE sql",
        "CREATE OR REPLACE FUNCTION f(a int) RETURNS trigger AS $$ BEGIN; END $$ LANGUAGE plpgsql",
        "CREATE PROCEDURE p() LANGUAGE sql AS 'SELECT 1'",
        "CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW EXECUTE FUNCTION f()",
        "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON x EXECUTE FUNCTION f()",
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        "CREATE DATABASE other",
        "CREATE MATERIALIZED VIEW v AS SELECT 1",
        "REFRESH MATERIALIZED VIEW v",
        "CREATE RULE r AS ON INSERT TO x DO NOTHING",
        "CREATE POLICY p ON x USING (true)",
        "CREATE SERVER s FOREIGN DATA WRAPPER w",
        "DO $$ BEGIN RAISE NOTICE 'x'; END $$",
        "CALL p()",
        "PREPARE TRANSACTION 'x'",
        "COMMIT PREPARED 'x'",
        "ROLLBACK PREPARED 'x'",
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
        "ALTER SYSTEM SET x = 1",
        "REASSIGN OWNED BY a TO b",
        "IMPORT FOREIGN SCHEMA s FROM SERVER x INTO public",
        "LISTEN x",
    ] {
        assert_eq!(state_of(&client, text).await, "0A000", "{text}");
    }
    assert_eq!(state_of(&client, "CREATE NONSENSE x").await, "42601");
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_of_arrays_are_refused_and_not_flattened() {
    let server = Server::start().await;
    let client = server.client().await;
    for text in [
        "SELECT array[[1, 2], [3, 4]]",
        "SELECT array[array[1]]",
        "SELECT array_agg(a) FROM (VALUES (array[1, 2]), (array[3, 4])) v(a)",
        "SELECT array[array_agg(1)]",
        "SELECT '[2:3]={1,2}'::int[]",
    ] {
        assert_eq!(state_of(&client, text).await, "0A000", "{text}");
    }
    assert_eq!(rows(&client, "SELECT array[1, 2] || array[3]").await, ["{1,2,3}"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_does_not_exist_has_its_place_in_changes_too() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int)").await.unwrap();
    for (text, state, position) in [
        ("INSERT INTO nothing VALUES (1)", "42P01", 13),
        ("UPDATE nothing SET a = 1", "42P01", 8),
        ("DELETE FROM nothing", "42P01", 13),
        ("INSERT INTO t (a, nope) VALUES (1, 2)", "42703", 19),
        ("UPDATE t SET nope = 1", "42703", 14),
        ("UPDATE t SET a = nope", "42703", 18),
        ("DELETE FROM t WHERE nope = 1", "42703", 21),
    ] {
        let error = client.batch_execute(text).await.unwrap_err();
        assert_eq!(code(&error), state, "{text}: {error:?}");
        let found = error.as_db_error().and_then(|error| error.position());
        assert_eq!(found, Some(&ErrorPosition::Original(position)), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_leaves_generated_columns_out_in_both_ways() {
    let server = Server::start().await;
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TABLE g (a int, b int GENERATED ALWAYS AS (a * 2) STORED, c text); \
             INSERT INTO g (a, c) VALUES (1, 'x')",
        )
        .await
        .unwrap();
    assert_eq!(copied(&client, "COPY g TO STDOUT").await, "1\tx\n");
    assert_eq!(copied(&client, "COPY g (c, a) TO STDOUT").await, "x\t1\n");
    for text in ["COPY g (a, b) TO STDOUT", "COPY g (a, b) FROM STDIN"] {
        assert_eq!(state_of(&client, text).await, "42P10", "{text}");
    }
}

/// Returns all data of a COPY to the client.
async fn copied(client: &Client, text: &str) -> String {
    let stream = client.copy_out(text).await.unwrap();
    let parts: Vec<_> = stream.try_collect().await.unwrap();
    String::from_utf8(parts.concat()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_gives_json_as_tools_read_it() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
    for text in [
        "EXPLAIN (FORMAT JSON) SELECT * FROM t WHERE a = 1",
        "EXPLAIN (ANALYZE, FORMAT JSON) SELECT count(*) FROM t",
    ] {
        let lines = rows(&client, text).await;
        assert_eq!(lines.len(), 1, "{text}");
        let plan: String = lines[0].split_whitespace().collect();
        assert!(plan.starts_with("[{") && plan.ends_with("}]"), "{plan}");
        assert!(plan.contains("\"Plan\":{") && plan.contains("\"NodeType\":"), "{plan}");
    }
    let as_text = rows(&client, "EXPLAIN (FORMAT TEXT) SELECT * FROM t WHERE a = 1").await;
    assert_eq!(as_text, rows(&client, "EXPLAIN SELECT * FROM t WHERE a = 1").await);
    assert_eq!(state_of(&client, "EXPLAIN (FORMAT yaml) SELECT 1").await, "0A000");
    assert_eq!(state_of(&client, "EXPLAIN (FORMAT nope) SELECT 1").await, "22023");
}

/// A session that is let in, as its bytes.
async fn raw(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let start = b"\0\x03\0\0user\0stele\0\0";
    stream.write_u32(start.len() as u32 + 4).await.unwrap();
    stream.write_all(start).await.unwrap();
    until_ready(&mut stream).await;
    stream
}

/// Reads messages up to the next one that says that the server waits. Returns the state of the error among them.
async fn until_ready(stream: &mut TcpStream) -> Option<String> {
    let mut state = None;
    loop {
        let kind = stream.read_u8().await.unwrap();
        let len = stream.read_u32().await.unwrap() as usize - 4;
        let mut body = vec![0; len];
        stream.read_exact(&mut body).await.unwrap();
        match kind {
            b'Z' => return state,
            b'E' => {
                let fields = body.split(|byte| *byte == 0);
                let code = fields.into_iter().find_map(|field| field.strip_prefix(b"C"));
                state = code.map(|code| String::from_utf8(code.to_vec()).unwrap());
            }
            _ => {}
        }
    }
}

async fn query(stream: &mut TcpStream, text: &[u8]) -> Option<String> {
    stream.write_u8(b'Q').await.unwrap();
    stream.write_u32(text.len() as u32 + 5).await.unwrap();
    stream.write_all(text).await.unwrap();
    stream.write_u8(0).await.unwrap();
    until_ready(stream).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_no_text_is_an_error_and_the_session_goes_on() {
    let server = Server::start().await;
    let mut stream = raw(&server).await;
    for text in [&b"SELECT '\xff'"[..], b"SELECT '\xc3'", b"\xed\xa0\x80"] {
        assert_eq!(query(&mut stream, text).await.as_deref(), Some("22021"), "{text:?}");
    }
    assert_eq!(query(&mut stream, b"SELECT 1").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn half_and_oversized_messages_after_login_end_their_own_session_only() {
    let server = Server::start().await;
    let client = server.client().await;
    for bytes in [
        // A length below itself, beyond the limit, a type that does not exist, and a body that is cut.
        &b"Q\0\0\0\x03"[..],
        b"B\x7f\xff\xff\xff",
        b"!\0\0\0\x04",
        b"E\0\0\0\x05\0",
        b"Q\0\0\0\x20SELECT",
    ] {
        let mut stream = raw(&server).await;
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        tokio::time::timeout(std::time::Duration::from_secs(20), ended).await.unwrap().ok();
    }
    client.batch_execute("SELECT 1").await.unwrap();
}
