//! Promises of statements: changes, conflicts, COPY, locks, schema.

use crate::rows::rows;
use crate::server::{Server, code};
use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use std::pin::pin;

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_keep_no_tree_of_a_table_that_was_emptied() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int)").await.unwrap();
    let trees = server.tables.engine().trees().len();
    let mut kept = Vec::new();
    for text in [
        "SELECT b FROM t WHERE a = 1",
        "SELECT count(*) FROM t u JOIN t v ON u.a = v.b",
        "SELECT b FROM t WHERE a = 1 FOR UPDATE",
        "INSERT INTO t VALUES (1, 1)",
        "UPDATE t SET b = 2 WHERE a = 1",
        "DELETE FROM t USING (VALUES (1)) x (y) WHERE t.a = x.y",
        "COPY t TO STDOUT",
    ] {
        kept.push(client.prepare(text).await.unwrap());
    }
    other.batch_execute("TRUNCATE t").await.unwrap();
    // The tree goes with its last reader, which no kept statement is.
    let is_gone = || server.tables.engine().trees().len() == trees;
    for _ in 0..1_000 {
        if is_gone() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(is_gone());
    client.execute(&kept[3], &[]).await.unwrap();
    assert_eq!(client.query_one(&kept[0], &[]).await.unwrap().get::<_, i32>(0), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_changed_and_told() {
    let server = Server::start().await;
    let client = server.client().await;
    let schema = "CREATE TABLE t (id serial PRIMARY KEY, a int NOT NULL CHECK (a > 0), b text DEFAULT 'd', \
                  c int GENERATED ALWAYS AS (a * 2) STORED, UNIQUE (b, a))";
    client.batch_execute(schema).await.unwrap();
    let inserted =
        rows(&client, "INSERT INTO t (a, b) VALUES (1, DEFAULT), (2, NULL) RETURNING *").await;
    assert_eq!(inserted, ["1|1|d|2", "2|2|NULL|4"]);
    let changed =
        rows(&client, "UPDATE t SET a = a + 10, b = 'n' WHERE id = 2 RETURNING id, a, c").await;
    assert_eq!(changed, ["2|12|24"]);
    for (text, state, constraint) in [
        ("INSERT INTO t (a) VALUES (0)", "23514", Some("t_a_check")),
        ("INSERT INTO t (a) VALUES (NULL)", "23502", None),
        ("INSERT INTO t (a) VALUES (1)", "23505", Some("t_b_a_key")),
        ("INSERT INTO t (id, a) VALUES (1, 9)", "23505", Some("t_pkey")),
        ("INSERT INTO t (a, c) VALUES (5, 5)", "428C9", None),
        ("INSERT INTO t (zz) VALUES (5)", "42703", None),
        ("UPDATE t SET a = 'x'", "22P02", None),
    ] {
        let error = client.batch_execute(text).await.unwrap_err();
        assert_eq!(code(&error), state, "{text}: {error:?}");
        let found = error.as_db_error().and_then(|error| error.constraint());
        if constraint.is_some() {
            assert_eq!(found, constraint, "{text}");
        }
    }
    let upsert = "INSERT INTO t (id, a) VALUES (1, 7) ON CONFLICT (id) DO UPDATE SET a = t.a + excluded.a RETURNING a";
    assert_eq!(rows(&client, upsert).await, ["8"]);
    assert!(
        rows(&client, "INSERT INTO t (id, a) VALUES (1, 7) ON CONFLICT DO NOTHING RETURNING a")
            .await
            .is_empty()
    );
    assert_eq!(
        rows(&client, "DELETE FROM t WHERE a BETWEEN 8 AND 12 RETURNING id").await,
        ["1", "2"]
    );
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_is_read_as_it_was_written_and_refused_with_its_line() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b text)").await.unwrap();
    let sink = client.copy_in::<_, Bytes>("COPY t FROM STDIN").await.unwrap();
    let mut sink = pin!(sink);
    sink.send(Bytes::from_static(b"1\tone\n2\t\\N\n3\ttab\\there\n")).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), 3);
    for format in ["text", "csv", "binary"] {
        let out = client.copy_out(&format!("COPY t TO STDOUT (FORMAT {format})")).await.unwrap();
        let data: Vec<Bytes> = out.try_collect().await.unwrap();
        let name = format!("t_{format}");
        client
            .batch_execute(&format!("CREATE TABLE {name} (a int PRIMARY KEY, b text)"))
            .await
            .unwrap();
        let text = format!("COPY {name} FROM STDIN (FORMAT {format})");
        let sink = client.copy_in::<_, Bytes>(&text).await.unwrap();
        let mut sink = pin!(sink);
        for piece in data {
            sink.send(piece).await.unwrap();
        }
        assert_eq!(sink.finish().await.unwrap(), 3, "{format}");
        let found = rows(&client, &format!("SELECT * FROM {name} WHERE a > 0 ORDER BY a")).await;
        assert_eq!(found, ["1|one", "2|NULL", "3|tab\there"], "{format}");
    }
    let sink = client.copy_in::<_, Bytes>("COPY t FROM STDIN (FORMAT csv)").await.unwrap();
    let mut sink = pin!(sink);
    sink.send(Bytes::from_static(b"7,x\nseven,y\n")).await.unwrap();
    let error = sink.finish().await.unwrap_err();
    assert_eq!(code(&error), "22P02");
    let place = error.as_db_error().and_then(|error| error.where_()).unwrap_or_default().to_owned();
    assert!(place.contains("line 2, column a"), "{place}");
    assert!(rows(&client, "SELECT * FROM t WHERE a = 7").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn access_by_keys_finds_what_a_scan_finds() {
    let server = Server::start().await;
    let client = server.client().await;
    let schema = "CREATE TABLE t (a int, b int, c text, PRIMARY KEY (a, b)); CREATE INDEX t_c ON t (c DESC, b)";
    client.batch_execute(schema).await.unwrap();
    let mut values = Vec::new();
    for a in 0..20 {
        for b in 0..5 {
            values.push(format!("({a}, {b}, 'c{}')", (a * 7 + b * 3) % 11));
        }
    }
    client.batch_execute(&format!("INSERT INTO t VALUES {}", values.join(", "))).await.unwrap();
    for condition in [
        "a = 3 AND b = 2",
        "a = 3",
        "a IN (1, 7, 19, 40) AND b > 2",
        "a > 17",
        "a >= 3 AND a < 5 AND b <> 1",
        "5 > a",
        "a BETWEEN 4 AND 6",
        "c = 'c3'",
        "c LIKE 'c1%'",
        "c > 'c5' AND b = 1",
        "a = 3.5",
        "a > 2.5 AND a < 4.5",
        "a = NULL",
        "a = 1 AND a = 2",
    ] {
        let narrow = format!("SELECT a, b FROM t WHERE {condition} ORDER BY a, b");
        // Nothing bounds a key behind an OR.
        let wide = format!("SELECT a, b FROM t WHERE ({condition}) OR a < -1 ORDER BY a, b");
        assert_eq!(rows(&client, &narrow).await, rows(&client, &wide).await, "{condition}");
    }
    let first = rows(&client, "SELECT a, b FROM t ORDER BY a DESC, b DESC LIMIT 2 OFFSET 1").await;
    assert_eq!(first, ["19|3", "19|2"]);
    let plan = rows(&client, "EXPLAIN SELECT * FROM t WHERE a = 1 AND b = 2").await;
    assert!(plan[0].contains("Point Lookup using t_pkey"), "{plan:?}");
    let plan = rows(&client, "EXPLAIN SELECT * FROM t WHERE c = 'c3'").await;
    assert!(plan[0].contains("Index Scan using t_c"), "{plan:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_built_while_others_write() {
    let server = Server::start().await;
    let (client, writer) = (server.client().await, server.client().await);
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int)").await.unwrap();
    for from in [0, 1_000, 2_000] {
        let values: Vec<String> = (from..from + 1_000).map(|a| format!("({a}, 0)")).collect();
        client.batch_execute(&format!("INSERT INTO t VALUES {}", values.join(", "))).await.unwrap();
    }
    let writing = tokio::spawn(async move {
        for a in 0..200 {
            let text = format!(
                "UPDATE t SET b = {a} WHERE a = {}; DELETE FROM t WHERE a = {}",
                a * 7,
                a * 7 + 1
            );
            writer.batch_execute(&text).await.unwrap();
        }
    });
    client.batch_execute("CREATE INDEX CONCURRENTLY t_b ON t (b)").await.unwrap();
    writing.await.unwrap();
    for b in [0, 1, 77, 199] {
        let by_index = rows(&client, &format!("SELECT a FROM t WHERE b = {b} ORDER BY a")).await;
        let by_scan = rows(&client, &format!("SELECT a FROM t WHERE b + 0 = {b} ORDER BY a")).await;
        assert_eq!(by_index, by_scan, "{b}");
    }
    let plan = rows(&client, "EXPLAIN SELECT a FROM t WHERE b = 7").await;
    assert!(plan[0].contains("Index Scan using t_b"), "{plan:?}");
    let again = "CREATE UNIQUE INDEX CONCURRENTLY t_u ON t (b)";
    assert_eq!(code(&client.batch_execute(again).await.unwrap_err()), "23505");
    let left = rows(&client, "SELECT count(*) FROM pg_class WHERE relname = 't_u'").await;
    assert_eq!(left, ["0"], "the index of a build that failed");
    client.batch_execute("BEGIN").await.unwrap();
    let inside = client.batch_execute("CREATE INDEX CONCURRENTLY ON t (b)").await.unwrap_err();
    assert_eq!(code(&inside), "25001");
    client.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_analyze_tells_what_reads_looked_at() {
    let server = Server::start().await;
    let client = server.client().await;
    let fill =
        "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)";
    client.batch_execute(fill).await.unwrap();
    for (query, reads) in [
        ("SELECT * FROM t WHERE a = 2", "Reads: 1 by key, 0 scans"),
        ("SELECT * FROM t WHERE a > 1", "Reads: 0 by key, 1 scans"),
        ("SELECT count(*) FROM t x, t y WHERE x.b = y.b", "Reads: 0 by key, 2 scans"),
    ] {
        let lines = rows(&client, &format!("EXPLAIN ANALYZE {query}")).await;
        assert!(lines.iter().any(|line| line.starts_with(reads)), "{query}: {lines:?}");
        assert!(!rows(&client, &format!("EXPLAIN {query}")).await.join("").contains("Reads:"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_rows_are_skipped_refused_or_waited_for() {
    let server = Server::start().await;
    let (first, second) = (server.client().await, server.client().await);
    first
        .batch_execute(
            "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 0), (2, 0)",
        )
        .await
        .unwrap();
    first.batch_execute("BEGIN").await.unwrap();
    assert_eq!(rows(&first, "SELECT a FROM t WHERE a = 1 FOR UPDATE").await, ["1"]);
    assert_eq!(rows(&second, "SELECT a FROM t ORDER BY a FOR UPDATE SKIP LOCKED").await, ["2"]);
    let error =
        second.batch_execute("SELECT a FROM t WHERE a = 1 FOR UPDATE NOWAIT").await.unwrap_err();
    assert_eq!(code(&error), "55P03");
    let waiting = tokio::spawn(async move {
        second.batch_execute("UPDATE t SET b = b + 1 WHERE a = 1").await.unwrap();
        rows(&second, "SELECT b FROM t WHERE a = 1").await
    });
    first.batch_execute("UPDATE t SET b = 10 WHERE a = 1; COMMIT").await.unwrap();
    assert_eq!(waiting.await.unwrap(), ["11"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_tables_choose_rows_and_give_values() {
    let server = Server::start().await;
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (a int PRIMARY KEY, b int); CREATE TABLE u (a int PRIMARY KEY, n int);\
             INSERT INTO t SELECT x, 0 FROM (VALUES (1), (2), (3)) AS v(x); INSERT INTO u VALUES (1, 10), (2, 20)",
        )
        .await
        .unwrap();
    client.batch_execute("UPDATE t SET b = u.n + t.a FROM u WHERE u.a = t.a").await.unwrap();
    assert_eq!(
        rows(&client, "SELECT * FROM t WHERE a > 0 ORDER BY a").await,
        ["1|11", "2|22", "3|0"]
    );
    client.batch_execute("DELETE FROM t WHERE a IN (SELECT a FROM u WHERE n > 10)").await.unwrap();
    client.batch_execute("DELETE FROM t USING u WHERE u.a = t.a").await.unwrap();
    assert_eq!(rows(&client, "SELECT * FROM t WHERE a > 0").await, ["3|0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_cursors_and_prepared_statements_last_as_they_should() {
    let server = Server::start().await;
    let client = server.client().await;
    client
        .batch_execute("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)")
        .await
        .unwrap();
    client
        .batch_execute("BEGIN; SET LOCAL work_mem = '8MB'; SET application_name = 'x'; ROLLBACK")
        .await
        .unwrap();
    assert_eq!(rows(&client, "SHOW work_mem").await, ["4MB"]);
    assert_eq!(rows(&client, "SHOW application_name").await, [""]);
    client.batch_execute("PREPARE p (int) AS SELECT a FROM t WHERE a >= $1").await.unwrap();
    assert_eq!(rows(&client, "EXECUTE p(2)").await, ["2", "3"]);
    client.batch_execute("DEALLOCATE p").await.unwrap();
    assert_eq!(code(&client.batch_execute("EXECUTE p(2)").await.unwrap_err()), "26000");
    client.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a").await.unwrap();
    assert_eq!(rows(&client, "FETCH 2 FROM c").await, ["1", "2"]);
    assert_eq!(rows(&client, "FETCH ALL FROM c").await, ["3"]);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(code(&client.batch_execute("FETCH c").await.unwrap_err()), "34000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_that_nothing_gives_a_type_is_text() {
    let server = Server::start().await;
    let client = server.client().await;
    for text in ["SELECT $1", "SELECT s.x FROM (SELECT $1 AS x) AS s", "VALUES ($1)"] {
        let row = client.query_one(text, &[&"some text"]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "some text", "{text}");
    }
    client
        .batch_execute(
            "CREATE TABLE f (id int, x float8); INSERT INTO f VALUES (1, 0), (2, '-0'), (3, 5)",
        )
        .await
        .unwrap();
    for (text, count) in [
        ("SELECT x, count(*) FROM f WHERE id > $1 GROUP BY x", 2),
        ("SELECT DISTINCT x FROM f WHERE id > $1", 2),
        ("SELECT x FROM f WHERE id > $1 UNION SELECT x FROM f WHERE id > $1", 2),
    ] {
        assert_eq!(client.query(text, &[&0]).await.unwrap().len(), count, "{text}");
    }
    let inside = "SELECT s.n FROM (SELECT id % 2 AS m, count(*) FILTER (WHERE id > $1) AS n, sum(id + $2) \
                  FROM f GROUP BY id % 2) AS s ORDER BY 1";
    assert_eq!(client.query(inside, &[&1, &5]).await.unwrap().len(), 2);
    let rows = client.query("SELECT $1 UNION ALL SELECT 7", &[&8]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).sum::<i32>(), 15);
}
