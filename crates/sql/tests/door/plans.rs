//! Promises of plans: they follow the catalog, and keep what the client was told of their columns.

use crate::rows::rows;
use crate::server::{Server, code};
use tokio_postgres::{Client, SimpleQueryMessage};

/// Returns the number of columns of the only row of a query in the simple protocol.
async fn width(client: &Client, text: &str) -> usize {
    let answers = client.simple_query(text).await.unwrap_or_else(|e| panic!("{text}: {e:?}"));
    let mut found = answers.iter().filter_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => Some(row.len()),
        _ => None,
    });
    let width = found.next().unwrap();
    assert_eq!(found.next(), None);
    width
}

#[tokio::test(flavor = "multi_thread")]
async fn read_committed_plans_for_what_others_have_committed() {
    let server = Server::start().await;
    let owner = server.client().await;
    owner
        .batch_execute("CREATE ROLE app LOGIN; CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
        .await
        .unwrap();
    let app = server.client_as("app").await;
    app.batch_execute("BEGIN; SELECT 1").await.unwrap();
    owner.batch_execute("GRANT SELECT ON t TO app").await.unwrap();
    assert_eq!(rows(&app, "SELECT a FROM t").await, ["1"]);
    let new = "CREATE TABLE n (a int PRIMARY KEY); INSERT INTO n VALUES (7); GRANT SELECT, UPDATE ON n TO app";
    owner.batch_execute(new).await.unwrap();
    assert_eq!(rows(&app, "SELECT a FROM n").await, ["7"]);
    app.batch_execute("PREPARE p AS SELECT a FROM n; DECLARE c CURSOR FOR SELECT * FROM n")
        .await
        .unwrap();
    assert_eq!(width(&app, "SELECT * FROM n").await, 1);
    owner.batch_execute("ALTER TABLE n ADD COLUMN b text").await.unwrap();
    assert_eq!(width(&app, "SELECT * FROM n").await, 2);
    assert_eq!(rows(&app, "SELECT a, b FROM n").await, ["7|NULL"]);
    assert_eq!(width(&app, "EXECUTE p").await, 1);
    // It shows the table of its declaration.
    assert_eq!(width(&app, "FETCH c").await, 1);
    owner.batch_execute("REVOKE SELECT ON t FROM app").await.unwrap();
    assert_eq!(code(&app.batch_execute("SELECT a FROM t").await.unwrap_err()), "42501");
    app.batch_execute("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    owner.batch_execute("CREATE TABLE late (a int); GRANT SELECT ON late TO app").await.unwrap();
    assert_eq!(code(&app.batch_execute("SELECT a FROM late").await.unwrap_err()), "42P01");
    // The isolation may be set until the first statement that reads.
    app.batch_execute("ROLLBACK; BEGIN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; COMMIT")
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_are_planned_again_for_other_tables_with_the_same_columns() {
    let server = Server::start().await;
    let client = server.client().await;
    let make = "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES";
    client.batch_execute(&format!("{make} (1, 'x')")).await.unwrap();
    let text = "SELECT a, b FROM t";
    let prepared = client.prepare(text).await.unwrap();
    client.batch_execute(&format!("PREPARE p AS {text}")).await.unwrap();
    client.batch_execute(&format!("DROP TABLE t; {make} (2, 'y')")).await.unwrap();
    let found = client.query_one(&prepared, &[]).await.unwrap();
    assert_eq!((found.get::<_, i32>(0), found.get::<_, &str>(1)), (2, "y"));
    assert_eq!(rows(&client, "EXECUTE p").await, ["2|y"]);
    let other = "CREATE SCHEMA s; SET search_path = s; CREATE TABLE t (a int, b text); \
                 INSERT INTO t VALUES (3, 'z')";
    client.batch_execute(other).await.unwrap();
    assert_eq!(client.query_one(&prepared, &[]).await.unwrap().get::<_, i32>(0), 3);
    assert_eq!(rows(&client, "EXECUTE p").await, ["3|z"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_give_no_other_columns_than_at_first() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)").await.unwrap();
    let prepared = client.prepare("SELECT * FROM t").await.unwrap();
    client.batch_execute("PREPARE p AS SELECT * FROM t").await.unwrap();
    client.batch_execute("ALTER TABLE t ADD COLUMN b int").await.unwrap();
    assert_eq!(code(&client.query(&prepared, &[]).await.unwrap_err()), "0A000");
    assert_eq!(code(&client.batch_execute("EXECUTE p").await.unwrap_err()), "0A000");
    client.batch_execute("ALTER TABLE t DROP COLUMN b").await.unwrap();
    assert_eq!(client.query_one(&prepared, &[]).await.unwrap().get::<_, i32>(0), 1);
    client.batch_execute("EXECUTE p").await.unwrap();
}
