//! Promises of transactions of several clients: locks behind savepoints, conflicts, keys that are too long.

use crate::rows::rows;
use crate::server::{Server, code};
use tokio_postgres::Client;

async fn count(client: &Client, text: &str, param: &str) -> i64 {
    client.query_one(text, &[&param]).await.unwrap_or_else(|e| panic!("{text}: {e:?}")).get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_failed_behind_a_savepoint_holds_no_lock() {
    let server = Server::start().await;
    let (one, two) = (server.client().await, server.client().await);
    one.batch_execute(
        "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 1), (2, 2)",
    )
    .await
    .unwrap();
    one.batch_execute("BEGIN; UPDATE t SET b = 20 WHERE a = 2; SAVEPOINT s").await.unwrap();
    one.batch_execute("UPDATE t SET b = 10 WHERE a = 1").await.unwrap();
    assert_eq!(code(&one.batch_execute("SELECT 1/0").await.unwrap_err()), "22012");
    two.batch_execute("SET lock_timeout = '5s'; UPDATE t SET b = 11 WHERE a = 1").await.unwrap();
    let locked = two.batch_execute("SELECT a FROM t WHERE a = 2 FOR UPDATE NOWAIT").await;
    assert_eq!(code(&locked.unwrap_err()), "55P03");
    one.batch_execute("ROLLBACK TO s; UPDATE t SET b = b + 1 WHERE a = 1; COMMIT").await.unwrap();
    let rows = two.query("SELECT b FROM t ORDER BY a", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [12, 20]);
}

#[tokio::test(flavor = "multi_thread")]
async fn portals_end_with_the_savepoint_behind_which_they_were_bound() {
    let server = Server::start().await;
    let mut client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2)").await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    let text = "SELECT a FROM t ORDER BY a DESC";
    let first = |rows: Vec<tokio_postgres::Row>| rows[0].get::<_, i32>(0);
    let before = transaction.bind(text, &[]).await.unwrap();
    let behind = {
        let savepoint = transaction.savepoint("s").await.unwrap();
        savepoint.batch_execute("INSERT INTO t VALUES (9)").await.unwrap();
        let behind = savepoint.bind(text, &[]).await.unwrap();
        assert_eq!(first(savepoint.query_portal(&behind, 1).await.unwrap()), 9);
        savepoint.rollback().await.unwrap();
        behind
    };
    assert_eq!(first(transaction.query_portal(&before, 1).await.unwrap()), 2);
    let kept = {
        let savepoint = transaction.savepoint("s").await.unwrap();
        let kept = savepoint.bind(text, &[]).await.unwrap();
        savepoint.commit().await.unwrap();
        kept
    };
    assert_eq!(first(transaction.query_portal(&kept, 1).await.unwrap()), 2);
    let gone = transaction.query_portal(&behind, 1).await.unwrap_err();
    assert_eq!(code(&gone), "34000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_failed_cannot_be_run_again() {
    let server = Server::start().await;
    let client = server.client().await;
    let setup = "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3), (4); \
                 BEGIN; DECLARE h CURSOR FOR SELECT 1 / (3 - a) FROM t ORDER BY a; SAVEPOINT s";
    client.batch_execute(setup).await.unwrap();
    assert_eq!(code(&client.batch_execute("FETCH ALL h").await.unwrap_err()), "22012");
    for text in ["FETCH h", "MOVE 2 FROM h", "FETCH ALL h"] {
        client.batch_execute("ROLLBACK TO s").await.unwrap();
        assert_eq!(code(&client.batch_execute(text).await.unwrap_err()), "55000", "{text}");
    }
    let again = "ROLLBACK TO s; CLOSE h; DECLARE h CURSOR FOR SELECT a FROM t ORDER BY a";
    client.batch_execute(again).await.unwrap();
    assert_eq!(rows(&client, "FETCH h").await, ["1"]);
    client.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_that_failed_cannot_be_run_again() {
    let server = Server::start().await;
    let mut client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int); INSERT INTO t VALUES (0)").await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("SELECT 1 / a FROM t", &[]).await.unwrap();
    for state in ["22012", "55000"] {
        let savepoint = transaction.savepoint("s").await.unwrap();
        let error = savepoint.query_portal(&portal, 1).await.unwrap_err();
        assert_eq!(code(&error), state);
        savepoint.rollback().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_meets_the_arbiter_and_another_key_is_left_out() {
    let server = Server::start().await;
    let client = server.client().await;
    let schema = "CREATE TABLE t (a int PRIMARY KEY, b text UNIQUE); INSERT INTO t VALUES (1, 'x')";
    client.batch_execute(schema).await.unwrap();
    let text = "INSERT INTO t VALUES (1, $1) ON CONFLICT (b) DO NOTHING";
    assert_eq!(client.execute(text, &[&"x"]).await.unwrap(), 0);
    assert_eq!(code(&client.execute(text, &[&"y"]).await.unwrap_err()), "23505");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_too_long_for_a_key_are_compared_all_the_same() {
    let server = Server::start().await;
    let client = server.client().await;
    let schema = "CREATE TABLE t (a text PRIMARY KEY, b text); CREATE INDEX ON t (b); \
                  INSERT INTO t VALUES ('a', 'a'), ('m', 'm'), ('mn', 'mn'), ('z', 'z')";
    client.batch_execute(schema).await.unwrap();
    let long = "m".repeat(9000);
    for column in ["a", "b"] {
        for (condition, want) in [("= $1", 0), ("> $1", 2), ("<= $1", 2), ("IN ('z', $1)", 1)] {
            let text = format!("SELECT count(*) FROM t WHERE {column} {condition}");
            assert_eq!(count(&client, &text, &long).await, want, "{text}");
            let text = format!("SELECT b FROM t WHERE {column} {condition} ORDER BY {column}");
            let rows = client.query(&text, &[&long]).await.unwrap();
            assert_eq!(rows.len() as i64, want, "{text}");
        }
        let locked = format!("SELECT a FROM t WHERE {column} = $1 FOR UPDATE");
        assert!(client.query(&locked, &[&long]).await.unwrap().is_empty());
        let changed = format!("UPDATE t SET b = 'new' WHERE {column} = $1");
        assert_eq!(client.execute(&changed, &[&long]).await.unwrap(), 0);
    }
    let error = client.execute("INSERT INTO t VALUES ($1)", &[&long]).await.unwrap_err();
    assert_eq!(code(&error), "54000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_has_read_does_not_begin_to_write() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("BEGIN READ ONLY; SET TRANSACTION READ WRITE; COMMIT").await.unwrap();
    client.batch_execute("BEGIN READ ONLY; SELECT 1").await.unwrap();
    let error = client.batch_execute("SET TRANSACTION READ WRITE").await.unwrap_err();
    assert_eq!(code(&error), "25001");
    client.batch_execute("ROLLBACK").await.unwrap();
}

/// Begins `waits` while `holds` is open, ends that, and returns the outcome of the former. The outcome is the same if
/// the former begins late.
async fn meet(
    server: &Server,
    holds: &str,
    waits: &str,
) -> Result<Vec<tokio_postgres::SimpleQueryMessage>, tokio_postgres::Error> {
    let (one, two) = (server.client().await, server.client().await);
    one.batch_execute(&format!("BEGIN; {holds}")).await.unwrap();
    let end = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        one.batch_execute("COMMIT").await.unwrap();
    };
    tokio::join!(two.simple_query(waits), end).0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_moved_to_another_key_is_met() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v int)").await.unwrap();
    for (waits, after) in [
        ("UPDATE t SET v = v + 1 WHERE v = 5", vec!["2|6", "9|9"]),
        ("DELETE FROM t WHERE v = 5", vec!["9|9"]),
        ("UPDATE t SET v = 6 FROM (VALUES (5)) AS x (v) WHERE t.v = x.v", vec!["2|6", "9|9"]),
    ] {
        client.batch_execute("TRUNCATE t; INSERT INTO t VALUES (1, 5), (9, 9)").await.unwrap();
        meet(&server, "UPDATE t SET id = 2 WHERE id = 1", waits).await.unwrap();
        assert_eq!(rows(&client, "SELECT * FROM t ORDER BY id").await, after, "{waits}");
    }
    client.batch_execute("TRUNCATE t; INSERT INTO t VALUES (1, 5), (9, 9)").await.unwrap();
    let locked = "SELECT id FROM t WHERE v = 5 FOR UPDATE";
    let found = meet(&server, "UPDATE t SET id = 2 WHERE id = 1", locked).await.unwrap();
    let count = found.iter().filter(|m| matches!(m, tokio_postgres::SimpleQueryMessage::Row(_)));
    assert_eq!(count.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_waited_for_a_change_of_its_table_goes_on() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)").await.unwrap();
    let waits = "INSERT INTO t (a) VALUES (2)";
    meet(&server, "ALTER TABLE t ADD COLUMN c int DEFAULT 7", waits).await.unwrap();
    assert_eq!(rows(&client, "SELECT a, c FROM t ORDER BY a").await, ["1|7", "2|7"]);
    meet(&server, "TRUNCATE t", "INSERT INTO t (a) VALUES (3)").await.unwrap();
    assert_eq!(rows(&client, "SELECT a, c FROM t").await, ["3|7"]);
    meet(&server, "ALTER TABLE t DROP COLUMN c", "UPDATE t SET a = a + 1").await.unwrap();
    assert_eq!(rows(&client, "SELECT * FROM t").await, ["4"]);
    let gone = meet(&server, "DROP TABLE t", "DELETE FROM t").await.unwrap_err();
    assert_eq!(code(&gone), "42P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_is_computed_is_added_after_all_writers_have_ended() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int)").await.unwrap();
    let add = "ALTER TABLE t ADD COLUMN g int GENERATED ALWAYS AS (a * 2) STORED";
    let outcome = meet(&server, "INSERT INTO t VALUES (5)", add).await;
    assert_eq!(code(&outcome.unwrap_err()), "0A000");
    assert_eq!(rows(&client, "SELECT * FROM t").await, ["5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_transaction_change_its_block() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)").await.unwrap();
    client.batch_execute("BEGIN; SET transaction_isolation = 'repeatable read'").await.unwrap();
    assert_eq!(rows(&client, "SHOW transaction_isolation").await, ["repeatable read"]);
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["1"]);
    let other = server.client().await;
    other.batch_execute("INSERT INTO t VALUES (2)").await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["1"]);
    client.batch_execute("COMMIT").await.unwrap();
    // The query that would change the level has taken a snapshot.
    let late = "BEGIN; SELECT set_config('transaction_isolation', 'repeatable read', true)";
    assert_eq!(code(&client.batch_execute(late).await.unwrap_err()), "25001");
    client.batch_execute("ROLLBACK").await.unwrap();
    let read_only = "BEGIN; SET transaction_read_only = on; DELETE FROM t";
    assert_eq!(code(&client.batch_execute(read_only).await.unwrap_err()), "25006");
    let serializable = "ROLLBACK; BEGIN; SET transaction_isolation = 'serializable'";
    assert_eq!(code(&client.batch_execute(serializable).await.unwrap_err()), "0A000");
    let unknown = "ROLLBACK; BEGIN; SET transaction_isolation = 'any'";
    assert_eq!(code(&client.batch_execute(unknown).await.unwrap_err()), "22023");
    client.batch_execute("ROLLBACK; SET transaction_read_only = on").await.unwrap();
    client.batch_execute("DELETE FROM t").await.unwrap();
}
