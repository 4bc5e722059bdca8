//! Promises about what statements mean, where a naive server differs from PostgreSQL.

use crate::rows::rows;
use crate::server::{Server, code};
use std::time::Duration;
use tokio_postgres::Client;

async fn refused(client: &Client, text: &str) -> String {
    match client.batch_execute(text).await {
        Ok(()) => "nothing".to_owned(),
        Err(error) => code(&error),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_fixed_length_compare_without_their_blanks() {
    let server = Server::start().await;
    let client = server.client().await;
    let schema = "CREATE TABLE c (id int PRIMARY KEY, code char(3), wide char(5)); \
                  CREATE INDEX c_code ON c (code); \
                  INSERT INTO c VALUES (1, 'USD', 'USD'), (2, 'EU', 'EU   '), (3, NULL, NULL)";
    client.batch_execute(schema).await.unwrap();
    for (text, want) in [
        ("SELECT id FROM c WHERE code = 'USD'", vec!["1"]),
        ("SELECT id FROM c WHERE code = 'EU '", vec!["2"]),
        ("SELECT id FROM c WHERE code = 'USDX'", vec![]),
        ("SELECT id FROM c WHERE code <> 'EU'", vec!["1"]),
        (
            "SELECT id FROM c WHERE code IN ('USD', 'EU', 'more than three') ORDER BY id",
            vec!["1", "2"],
        ),
        ("SELECT id FROM c WHERE code > 'EU' AND length(wide) = 3", vec!["1"]),
        ("SELECT a.id FROM c a JOIN c b ON a.code = b.wide ORDER BY a.id", vec!["1", "2"]),
        ("SELECT code FROM c ORDER BY code", vec!["EU ", "USD", "NULL"]),
        ("UPDATE c SET wide = 'x' WHERE code = 'EU' RETURNING id, wide", vec!["2|x    "]),
        ("DELETE FROM c WHERE wide = 'x' RETURNING id", vec!["2"]),
    ] {
        assert_eq!(rows(&client, text).await, want, "{text}");
    }
    let found = client.query("SELECT id FROM c WHERE code = $1", &[&"USD"]).await.unwrap();
    assert_eq!(found.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1]);
    assert!(client.query("SELECT id FROM c WHERE code = $1", &[&"USDX"]).await.unwrap().is_empty());
    assert_eq!(refused(&client, "INSERT INTO c VALUES (9, 'USDX')").await, "22001");
    let plan = rows(&client, "EXPLAIN SELECT id FROM c WHERE code = 'USD'").await.join("\n");
    assert!(plan.contains("Index Scan"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn literals_and_parameters_of_a_query_take_the_type_of_their_column() {
    let server = Server::start().await;
    let client = server.client().await;
    let schema = "CREATE TABLE n (id int PRIMARY KEY, done bool, at date, amount numeric(5,2), v varchar(3)); \
                  CREATE TABLE o (id int PRIMARY KEY); INSERT INTO o VALUES (1), (2)";
    client.batch_execute(schema).await.unwrap();
    client
        .batch_execute(
            "INSERT INTO n SELECT 1, NULL, '2020-01-01', ('1.5'), 'x' FROM o WHERE id = 1",
        )
        .await
        .unwrap();
    let absent =
        "INSERT INTO n (id, done) SELECT $1, $2 WHERE NOT EXISTS (SELECT 1 FROM n WHERE id = $1)";
    assert_eq!(client.execute(absent, &[&2_i32, &true]).await.unwrap(), 1);
    assert_eq!(client.execute(absent, &[&2_i32, &true]).await.unwrap(), 0);
    client.batch_execute("UPDATE n SET done = NULL WHERE id IN (SELECT id FROM o)").await.unwrap();
    let moved = "UPDATE n SET at = $1, amount = '2.345' FROM o WHERE o.id = n.id AND o.id = 2";
    let statement = client.prepare(moved).await.unwrap();
    assert_eq!(statement.params(), [tokio_postgres::types::Type::DATE]);
    client
        .batch_execute("UPDATE n SET at = '2021-02-03', amount = '2.345' FROM o WHERE o.id = n.id AND o.id = 2")
        .await
        .unwrap();
    let all = rows(&client, "SELECT id, done, at, amount, v FROM n ORDER BY id").await;
    assert_eq!(all, ["1|NULL|2020-01-01|1.50|x", "2|NULL|2021-02-03|2.35|NULL"]);
    let long = "INSERT INTO n (id, v) SELECT id + 10, 'abcd' FROM o";
    assert_eq!(refused(&client, long).await, "22001");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_holds_for_the_rows_of_concurrent_transactions() {
    let server = Server::start().await;
    let (one, two) = (server.client().await, server.client().await);
    one.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
    // The row is written before the check is added, and committed while the change waits for it.
    two.batch_execute("BEGIN; INSERT INTO t VALUES (-1)").await.unwrap();
    let commit = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        two.batch_execute("COMMIT").await.unwrap();
    };
    let (added, ()) = tokio::join!(refused(&one, "ALTER TABLE t ADD CHECK (a > 0)"), commit);
    assert_eq!(added, "23514");
    // The row is planned without the check, and written after it was added.
    one.batch_execute("DELETE FROM t; BEGIN; ALTER TABLE t ADD CHECK (a > 0)").await.unwrap();
    let commit = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        one.batch_execute("COMMIT").await.unwrap();
    };
    let (inserted, ()) = tokio::join!(refused(&two, "INSERT INTO t VALUES (-5)"), commit);
    assert!(["23514", "40001"].contains(&inserted.as_str()), "{inserted}");
    assert_eq!(rows(&one, "SELECT count(*) FROM t").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_names_reach_checks_and_generated_columns() {
    let server = Server::start().await;
    let client = server.client().await;
    let schema = "CREATE TABLE r (a int PRIMARY KEY CHECK (r.a > 0), b int GENERATED ALWAYS AS (a * 2) STORED)";
    client.batch_execute(schema).await.unwrap();
    client.batch_execute("ALTER TABLE r RENAME COLUMN a TO \"Z\"").await.unwrap();
    assert_eq!(rows(&client, "INSERT INTO r (\"Z\") VALUES (1) RETURNING *").await, ["1|2"]);
    client
        .batch_execute("ALTER TABLE r RENAME COLUMN b TO c; ALTER TABLE r RENAME TO s")
        .await
        .unwrap();
    assert_eq!(rows(&client, "INSERT INTO s (\"Z\") VALUES (2) RETURNING *").await, ["2|4"]);
    assert_eq!(refused(&client, "INSERT INTO s (\"Z\") VALUES (0)").await, "23514");
    client.batch_execute("CREATE VIEW v AS SELECT c FROM s").await.unwrap();
    assert_eq!(refused(&client, "ALTER TABLE s RENAME COLUMN c TO d").await, "0A000");
    client.batch_execute("ALTER TABLE s RENAME COLUMN \"Z\" TO a").await.unwrap();
    assert_eq!(rows(&client, "SELECT * FROM v ORDER BY 1").await, ["2", "4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sequences_of_columns_begin_again_and_count_as_their_defaults_say() {
    let server = Server::start().await;
    let client = server.client().await;
    let schema = "CREATE TABLE d (id serial PRIMARY KEY, v int); INSERT INTO d (v) VALUES (1), (2)";
    client.batch_execute(schema).await.unwrap();
    client.batch_execute("BEGIN; TRUNCATE d RESTART IDENTITY; ROLLBACK").await.unwrap();
    assert_eq!(rows(&client, "INSERT INTO d (v) VALUES (3) RETURNING id").await, ["3"]);
    let partly = "BEGIN; SAVEPOINT s; TRUNCATE d RESTART IDENTITY; ROLLBACK TO s; COMMIT";
    client.batch_execute(partly).await.unwrap();
    assert_eq!(rows(&client, "INSERT INTO d (v) VALUES (4) RETURNING id").await, ["4"]);
    client.batch_execute("TRUNCATE d RESTART IDENTITY").await.unwrap();
    assert_eq!(rows(&client, "INSERT INTO d (v) VALUES (5) RETURNING id").await, ["1"]);
    client
        .batch_execute("ALTER TABLE d ALTER COLUMN id SET DEFAULT nextval('d_id_seq') + 100")
        .await
        .unwrap();
    assert_eq!(rows(&client, "INSERT INTO d (v) VALUES (6) RETURNING id").await, ["102"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_show_the_rows_of_their_declaration() {
    let server = Server::start().await;
    let client = server.client().await;
    let schema = "CREATE TABLE w (x int PRIMARY KEY, y int); INSERT INTO w VALUES (1, 3), (2, 1)";
    client.batch_execute(schema).await.unwrap();
    let begin = "BEGIN; DECLARE c CURSOR FOR SELECT x FROM w ORDER BY x; \
                 DECLARE h CURSOR WITH HOLD FOR SELECT x FROM w; INSERT INTO w VALUES (3, 2)";
    client.batch_execute(begin).await.unwrap();
    assert_eq!(rows(&client, "FETCH ALL FROM c").await, ["1", "2"]);
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(refused(&client, "FETCH ALL FROM h").await, "34000");
    let held = "BEGIN; DECLARE h CURSOR WITH HOLD FOR SELECT x FROM w ORDER BY x; COMMIT; \
                BEGIN; FETCH 1 FROM h; ROLLBACK";
    client.batch_execute(held).await.unwrap();
    assert_eq!(rows(&client, "FETCH ALL FROM h").await, ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_locks_and_settings_mean_what_they_say() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    let schema =
        "CREATE TABLE w (x int PRIMARY KEY, y int); INSERT INTO w VALUES (1, 3), (2, 1), (3, 2)";
    client.batch_execute(schema).await.unwrap();
    assert_eq!(rows(&client, "SELECT *, x FROM w ORDER BY 2 LIMIT 1").await, ["2|1|2"]);
    for text in [
        "SELECT * FROM (SELECT * FROM w FOR UPDATE) q",
        "WITH q AS (SELECT * FROM w FOR UPDATE) SELECT * FROM q",
        "DELETE FROM w WHERE x IN (SELECT x FROM w FOR UPDATE SKIP LOCKED)",
    ] {
        assert_eq!(refused(&client, text).await, "0A000", "{text}");
    }
    let next = "SELECT x FROM w ORDER BY x LIMIT 1 FOR UPDATE SKIP LOCKED";
    let last = "SELECT x FROM w WHERE y < 9 ORDER BY x DESC LIMIT 1 FOR UPDATE SKIP LOCKED";
    client.batch_execute("BEGIN").await.unwrap();
    other.batch_execute("BEGIN").await.unwrap();
    assert_eq!(rows(&client, next).await, ["1"]);
    assert_eq!(rows(&other, next).await, ["2"]);
    assert_eq!(rows(&other, last).await, ["3"]);
    assert_eq!(rows(&client, last).await, ["1"]);
    client.batch_execute("COMMIT").await.unwrap();
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(refused(&client, "SET application_name = 'zz'; SELECT 1/0").await, "22012");
    assert_ne!(rows(&client, "SHOW application_name").await, ["zz"]);
    client.batch_execute("SET application_name = 'yy'; SELECT 1").await.unwrap();
    assert_eq!(rows(&client, "SHOW application_name").await, ["yy"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_a_subquery_gives_twice_is_ambiguous() {
    let server = Server::start().await;
    let client = server.client().await;
    let twice = "(SELECT 1 AS x, 2 AS \"x\", 3 AS y) t";
    for text in [
        format!("SELECT x FROM {twice}"),
        format!("SELECT t.X + 1 FROM {twice}"),
        format!("SELECT count(*) FROM {twice} WHERE x = 1"),
        format!("SELECT y FROM {twice} GROUP BY y, x"),
        format!("SELECT a.y FROM (SELECT 1 AS y) a JOIN {twice} ON x = a.y"),
        "SELECT x FROM (SELECT 1, 2) t (x, x)".to_owned(),
        "SELECT x FROM (SELECT 1 AS x, 2 AS x UNION ALL SELECT 3, 4) t".to_owned(),
    ] {
        let error = client.batch_execute(&text).await.unwrap_err();
        assert_eq!(code(&error), "42702", "{text}: {error:?}");
    }
    for (text, expected) in [
        (format!("SELECT * FROM {twice}"), "1|2|3"),
        (format!("SELECT t.* FROM {twice}"), "1|2|3"),
        (format!("SELECT y AS x FROM {twice} ORDER BY x"), "3"),
        (format!("SELECT (SELECT x FROM (SELECT 9 AS x) u) FROM {twice}"), "9"),
        (format!("SELECT u.x FROM {twice} CROSS JOIN (SELECT 7 AS x) u"), "7"),
        ("SELECT b FROM (SELECT 1 AS x, 2 AS x) t (a, b)".to_owned(), "2"),
    ] {
        assert_eq!(rows(&client, &text).await, [expected], "{text}");
    }
    for text in ["CREATE VIEW v AS SELECT 1 AS x, 2 AS x", "CREATE VIEW v (a, a) AS SELECT 1, 2"] {
        assert_eq!(refused(&client, text).await, "42701", "{text}");
    }
}
