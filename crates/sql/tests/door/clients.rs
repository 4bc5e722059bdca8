//! Promises that drivers and tools depend on: settings, sequences, subqueries of catalog queries.

use crate::rows::rows;
use crate::server::{Server, code};
use bytes::Bytes;
use futures::SinkExt;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio_postgres::types::Type;

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_holds_from_the_next_statement_on() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE SCHEMA s; CREATE TABLE s.t (a int)").await.unwrap();
    client.batch_execute("SET search_path = s").await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["0"]);
    assert_eq!(
        rows(&client, "SELECT set_config('search_path', 'public', false)").await,
        ["public"]
    );
    assert_eq!(rows(&client, "SHOW search_path").await, ["public"]);
    let error = client.simple_query("SELECT count(*) FROM t").await.unwrap_err();
    assert_eq!(code(&error), "42P01");
    let error = client.simple_query("SELECT set_config('jit', 'maybe', false)").await.unwrap_err();
    assert_eq!(code(&error), "22023");
}

#[tokio::test(flavor = "multi_thread")]
async fn subqueries_that_are_no_joins_run_for_each_row() {
    let server = Server::start().await;
    let client = server.client().await;
    let schema = "CREATE TABLE t (a int PRIMARY KEY, b text, c text[]);
                  INSERT INTO t VALUES (1, 'x', '{p,q}'), (2, 'y', NULL), (3, 'x', '{}')";
    client.batch_execute(schema).await.unwrap();
    for (query, expected) in [
        (
            "SELECT a, (SELECT count(*) FROM t i WHERE i.a < o.a) FROM t o ORDER BY a",
            &["1|0", "2|1", "3|2"][..],
        ),
        (
            "SELECT a FROM t o WHERE EXISTS (SELECT 1 FROM t i WHERE i.a > o.a AND i.b = o.b) OR a = 2 ORDER BY a",
            &["1", "2"],
        ),
        (
            "SELECT a, ARRAY(SELECT i.a FROM t i WHERE i.a <> o.a ORDER BY 1 DESC) FROM t o ORDER BY a",
            &["1|{3,2}", "2|{3,1}", "3|{2,1}"],
        ),
        (
            "SELECT a, ARRAY(SELECT upper(x) FROM unnest(o.c) x) FROM t o ORDER BY a",
            &["1|{P,Q}", "2|{}", "3|{}"],
        ),
        (
            "SELECT a, a + 1 IN (SELECT i.a FROM t i WHERE i.a >= o.a) FROM t o ORDER BY a",
            &["1|t", "2|t", "3|f"],
        ),
        ("SELECT a FROM t WHERE a NOT IN (SELECT NULL::int) ORDER BY a", &[]),
        (
            "SELECT a, CASE WHEN a > 1 THEN (SELECT max(i.a) FROM t i WHERE i.a < o.a) END FROM t o ORDER BY a",
            &["1|NULL", "2|1", "3|2"],
        ),
    ] {
        assert_eq!(rows(&client, query).await, expected, "{query}");
    }
    let two = "SELECT (SELECT i.a FROM t i WHERE i.a <> o.a) FROM t o";
    assert_eq!(code(&client.simple_query(two).await.unwrap_err()), "21000");
}

#[tokio::test(flavor = "multi_thread")]
async fn sequences_are_made_and_changed() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE SEQUENCE q START 5 INCREMENT BY 5 NO CYCLE").await.unwrap();
    assert_eq!(rows(&client, "SELECT nextval('q'), nextval('q')").await, ["5|10"]);
    client.batch_execute("ALTER SEQUENCE q RESTART WITH 100 INCREMENT 1").await.unwrap();
    assert_eq!(rows(&client, "SELECT nextval('q'), nextval('q')").await, ["100|101"]);
    client.batch_execute("ALTER SEQUENCE q RESTART; ALTER SEQUENCE q RENAME TO r").await.unwrap();
    assert_eq!(rows(&client, "SELECT nextval('r')").await, ["5"]);
    client.batch_execute("ALTER SEQUENCE IF EXISTS q RESTART").await.unwrap();
    let error = client.batch_execute("ALTER SEQUENCE q RESTART").await.unwrap_err();
    assert_eq!(code(&error), "42P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_copy_tells_its_place_as_context() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int)").await.unwrap();
    let sink = client.copy_in("COPY t FROM STDIN").await.unwrap();
    let mut sink = pin!(sink);
    sink.send(Bytes::from("1\nnone\n")).await.unwrap();
    let error = sink.finish().await.unwrap_err();
    let told = error.as_db_error().unwrap();
    assert_eq!(told.where_(), Some("COPY t, line 2, column a: \"none\""));
    assert_eq!(told.detail(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleep_ends_by_a_timeout() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("SET statement_timeout = '100ms'").await.unwrap();
    let started = Instant::now();
    let error = client.simple_query("SELECT pg_sleep(600)").await.unwrap_err();
    assert_eq!(code(&error), "57014");
    assert!(started.elapsed() < Duration::from_secs(300));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_takes_the_type_of_its_own_place() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a bigint PRIMARY KEY, b int)").await.unwrap();
    client.batch_execute("INSERT INTO t VALUES (1, 5)").await.unwrap();
    for (text, first) in [
        ("UPDATE t SET b = $1 WHERE a = $2", Type::INT4),
        ("UPDATE t SET b = b + $1 WHERE a = $2", Type::INT4),
        ("SELECT b + $1 FROM t WHERE a = $2", Type::INT4),
        ("DELETE FROM t WHERE b = $1 AND a = $2", Type::INT4),
    ] {
        let statement =
            client.prepare(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert_eq!(statement.params(), [first, Type::INT8], "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_of_bpchar_keeps_all_its_text() {
    let server = Server::start().await;
    let client = server.client().await;
    let types = [Type::BPCHAR];
    let statement = client.prepare_typed("SELECT $1::text", &types).await.unwrap();
    let row = client.query_one(&statement, &[&"abc"]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "abc");
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_a_query_tell_their_table() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b text)").await.unwrap();
    let oid = client.query_one("SELECT 't'::regclass::oid", &[]).await.unwrap().get::<_, u32>(0);
    let query = "SELECT x.b, count(*) FROM t x JOIN t y ON x.a = y.a GROUP BY x.b";
    let statement = client.prepare(query).await.unwrap();
    let origins: Vec<_> =
        statement.columns().iter().map(|column| (column.table_oid(), column.column_id())).collect();
    assert_eq!(origins, [(Some(oid), Some(2)), (None, None)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn json_stays_json_in_conditional_expressions() {
    let server = Server::start().await;
    let client = server.client().await;
    for (text, expected) in [
        (
            "SELECT CASE WHEN g > 0 THEN '[1]'::json ELSE NULL END FROM generate_series(1, 1) g",
            Type::JSON,
        ),
        ("SELECT coalesce(NULL, '[1]'::jsonb) FROM generate_series(1, 1) g", Type::JSONB),
        ("SELECT nullif('[1]'::jsonb, '[2]') FROM generate_series(1, 1) g", Type::JSONB),
    ] {
        let statement = client.prepare(text).await.unwrap();
        assert_eq!(statement.columns()[0].type_(), &expected, "{text}");
        assert_eq!(rows(&client, text).await, ["[1]"], "{text}");
    }
}
