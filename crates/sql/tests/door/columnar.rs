//! Promises of columnar tables: how they are made, what they refuse, and that queries answer as over tables of rows.

use crate::columnar_copy::{line, load, typed};
use crate::rows::rows;
use crate::server::{Server, code};
use tokio_postgres::Client;

async fn state_of(client: &Client, text: &str) -> String {
    match client.batch_execute(text).await {
        Ok(()) => "00000".to_owned(),
        Err(error) => code(&error),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_has_the_access_method_that_its_creation_names() {
    let server = Server::start().await;
    let client = server.client().await;
    let method = "SELECT a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam \
                  WHERE c.relname = 't'";
    for (form, wanted) in [
        ("CREATE TABLE t (a int)", "heap"),
        ("CREATE TABLE t (a int) USING heap", "heap"),
        ("CREATE TABLE t (a int) WITH (fillfactor = 70, autovacuum_enabled = off)", "heap"),
        ("CREATE TABLE t (a int) WITH (storage = rows)", "heap"),
        ("CREATE TABLE t (a int) USING columnar", "columnar"),
        ("CREATE TABLE t (a int) USING Columnar WITH (fillfactor = 70)", "columnar"),
        ("CREATE TABLE t (a int) USING \"columnar\" WITH (storage = columnar)", "columnar"),
        ("CREATE TABLE t (a int) WITH (storage = columnar)", "columnar"),
        ("CREATE TABLE t (a int) WITH (storage = 'columnar')", "columnar"),
        ("CREATE TABLE t USING columnar AS SELECT 1 AS a", "columnar"),
        ("CREATE TABLE t WITH (storage = columnar) AS SELECT 1 AS a", "columnar"),
        ("SET default_table_access_method = columnar; CREATE TABLE t (a int)", "columnar"),
        ("RESET default_table_access_method; CREATE TABLE t (a int)", "heap"),
    ] {
        assert_eq!(state_of(&client, form).await, "00000", "{form}");
        assert_eq!(rows(&client, method).await, [wanted], "{form}");
        client.batch_execute("TRUNCATE t; INSERT INTO t VALUES (7)").await.unwrap();
        assert_eq!(rows(&client, "SELECT * FROM t").await, ["7"], "{form}");
        client.batch_execute("DROP TABLE t").await.unwrap();
    }
    for (text, state) in [
        ("CREATE TABLE t (a int) USING zheap", "42704"),
        ("CREATE TABLE t (a int) USING heap WITH (storage = columnar)", "42601"),
        ("CREATE TABLE t (a int) WITH (storage = pages)", "22023"),
        ("CREATE TABLE t (a int) WITH (storag = columnar)", "22023"),
        ("CREATE TABLE t USING columnar AS SELECT ARRAY[1] AS a", "0A000"),
    ] {
        assert_eq!(state_of(&client, text).await, state, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_yet_is_refused_and_leaves_the_table_as_it_was() {
    let server = Server::start().await;
    let client = server.client().await;
    let setup = "CREATE TABLE t (a int, b text CHECK (b <> 'no')) USING columnar; \
                 CREATE TABLE r (a int PRIMARY KEY)";
    client.batch_execute(setup).await.unwrap();
    load(&client, "t", (0..9_000).map(|id| format!("{id}\tb{id}\n"))).await;
    for text in [
        "UPDATE t SET a = 1",
        "UPDATE t SET a = 1 FROM r WHERE r.a = t.a",
        "EXPLAIN UPDATE t SET a = 1",
        "DELETE FROM t",
        "DELETE FROM t WHERE a = 1 RETURNING *",
        "DELETE FROM t USING r WHERE r.a = t.a",
        "INSERT INTO t VALUES (1, 'x') ON CONFLICT DO NOTHING",
        "SELECT * FROM t FOR UPDATE",
        "SELECT * FROM t WHERE a = 1 FOR SHARE NOWAIT",
        "CREATE INDEX ON t (a)",
        "CREATE UNIQUE INDEX CONCURRENTLY ON t (a)",
        "CREATE TABLE k (a int PRIMARY KEY) USING columnar",
        "CREATE TABLE k (a int UNIQUE) USING columnar",
        "CREATE TABLE k (a int, PRIMARY KEY (a)) WITH (storage = columnar)",
        "CREATE TABLE k (a int REFERENCES r) USING columnar",
        "CREATE TABLE k (a int REFERENCES t)",
        "CREATE TABLE k (a int REFERENCES t (a))",
        "CREATE TABLE k (a int[]) USING columnar",
        "ALTER TABLE t ADD PRIMARY KEY (a)",
        "ALTER TABLE t ADD UNIQUE (a)",
        "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES r",
        "ALTER TABLE r ADD FOREIGN KEY (a) REFERENCES t (a)",
        "ALTER TABLE t ADD CHECK (a >= 0)",
        "ALTER TABLE t ADD COLUMN c int CHECK (c > 0)",
        "ALTER TABLE t ALTER COLUMN a SET NOT NULL",
        "ALTER TABLE t ALTER COLUMN a TYPE bigint",
        "ALTER TABLE t ADD COLUMN c int[]",
        "ALTER TABLE t ADD COLUMN c double precision DEFAULT random()",
        "ALTER TABLE t ADD COLUMN c serial",
        "ALTER TABLE t ADD COLUMN c int GENERATED ALWAYS AS (a * 2) STORED",
        "ALTER TABLE t SET (storage = rows)",
    ] {
        assert_eq!(state_of(&client, text).await, "0A000", "{text}");
    }
    assert_eq!(state_of(&client, "ALTER TABLE t ADD COLUMN c int NOT NULL").await, "23502");
    let error = client.batch_execute("UPDATE t SET a = 1").await.unwrap_err();
    let told = error.as_db_error().unwrap();
    assert_eq!(told.message(), "UPDATE of columnar table \"t\" is not supported yet");
    assert_eq!(told.hint(), Some("A columnar table takes INSERT, COPY and TRUNCATE."));
    let seen = "SELECT count(*), min(a), max(a), min(b), max(b) FROM t";
    assert_eq!(rows(&client, seen).await, ["9000|0|8999|b0|b999"]);
    for text in [
        "TRUNCATE t",
        "ALTER TABLE t ADD CHECK (a >= 0)",
        "ALTER TABLE t ALTER COLUMN a SET NOT NULL",
        "ALTER TABLE t ADD COLUMN c serial",
    ] {
        assert_eq!(state_of(&client, text).await, "00000", "an empty table: {text}");
    }
    assert_eq!(state_of(&client, "INSERT INTO t VALUES (-1, 'x')").await, "23514");
    assert_eq!(state_of(&client, "INSERT INTO t VALUES (NULL, 'x')").await, "23502");
    assert_eq!(state_of(&client, "INSERT INTO t VALUES (1, 'no')").await, "23514");
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_columns_hold_for_rows_in_segments() {
    let server = Server::start().await;
    let client = server.client().await;
    let setup = "CREATE TABLE t (a int, b text, c numeric(8, 2)) USING columnar";
    client.batch_execute(setup).await.unwrap();
    load(&client, "t", (0..9_000).map(|id| format!("{id}\tb{id}\t{id}.5\n"))).await;
    client.batch_execute("INSERT INTO t VALUES (9000, 'late', 1.25)").await.unwrap();
    for (change, query, wanted) in [
        ("ADD COLUMN d int DEFAULT 7", "SELECT count(*), sum(d) FROM t", "9001|63007"),
        ("ADD COLUMN e text", "SELECT count(e), count(*) FROM t WHERE e IS NULL", "0|9001"),
        ("ADD COLUMN f text NOT NULL DEFAULT 'f'", "SELECT min(f), max(f) FROM t", "f|f"),
        ("RENAME COLUMN b TO w", "SELECT w FROM t WHERE w = 'b77'", "b77"),
        ("DROP COLUMN c", "SELECT count(*) FROM t WHERE d = 7 AND a < 10", "10"),
        ("ADD COLUMN c int DEFAULT 3", "SELECT sum(c) FROM t", "27003"),
        ("ALTER COLUMN d SET DEFAULT 8", "SELECT sum(d) FROM t", "63007"),
        ("RENAME TO u", "SELECT * FROM u WHERE a = 5", "5|b5|7|NULL|f|3"),
    ] {
        client.batch_execute(&format!("ALTER TABLE t {change}")).await.unwrap();
        assert_eq!(rows(&client, query).await, [wanted], "{change}");
    }
    load(&client, "u (a, w)", (0..9_000).map(|id| format!("{id}\tnew\n"))).await;
    let sums = "SELECT count(*), sum(d), sum(c), count(e), count(f) FROM u";
    let wanted = ["18001|135007|54003|0|18001"];
    assert_eq!(rows(&client, sums).await, wanted);
    let server = server.restarted().await;
    let client = server.client().await;
    assert_eq!(rows(&client, sums).await, wanted);
    client.batch_execute("COMMENT ON TABLE u IS 'x'; TRUNCATE u").await.unwrap();
    assert_eq!(rows(&client, sums).await, ["0|NULL|NULL|0|0"]);
    load(&client, "u (a)", (0..9_000).map(|id| format!("{id}\n"))).await;
    assert_eq!(rows(&client, sums).await, ["9000|72000|27000|0|9000"]);
    client.batch_execute("CREATE VIEW v AS SELECT a FROM u WHERE a > 8990").await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM v").await, ["9"]);
    client.batch_execute("DROP TABLE u CASCADE").await.unwrap();
    assert_eq!(state_of(&client, "SELECT 1 FROM u").await, "42P01");
}

/// Conditions on a column of each type.
const CONDITIONS: &[&str] = &[
    "b",
    "NOT b",
    "b IS NULL",
    "s = 7",
    "s < -90 OR s > 95",
    "s BETWEEN -3 AND 3",
    "s IN (1, 50, -100)",
    "l = 5000015",
    "l > 19000000000",
    "l <= 3000009",
    "r = 0.5",
    "r > 124",
    "r = 'NaN'",
    "d BETWEEN -1 AND 1",
    "d < -600",
    "n = 7.007",
    "n >= 9990",
    "n BETWEEN -1 AND 1",
    "n IS NULL",
    "m > 15000",
    "m = 'NaN'",
    "m = 12.500",
    "t = 'word-7'",
    "t LIKE 'word-12%'",
    "t LIKE '%öß%'",
    "t > 'word-97'",
    "t = ''",
    "t IN ('word-1', 'word-2', 'none')",
    "v BETWEEN 'v990' AND 'v995'",
    "v IS NOT NULL AND v < 'v1'",
    "c = 'c3' AND id < 100",
    "y = '\\x0000000a'",
    "y < '\\x00000005'",
    "u = '0000000a-0000-4000-8000-00000000000a'",
    "u < '00000005-0000-4000-8000-000000000000'",
    "da = '1999-10-10'",
    "da < '1990-03-01'",
    "da = 'infinity'",
    "ti > '23:30'",
    "ti = '00:00:00'",
    "ts BETWEEN '2000-01-01' AND '2000-12-31'",
    "ts IS NULL",
    "tz < '1990-02-01 00:00+00'",
    "iv = '3 mons 4 days 05:06:07'",
    "iv > '10 mons 5 days'",
    "j ->> 'a' = '77'",
    "jb = '{\"k\": 7, \"s\": \"x\"}'",
    "jb ->> 'k' = '9'",
    "o = '4000000007'",
    "o < '3'",
    "na = 'n42'",
    "t IS NOT NULL AND s < -80 AND (d > 100 OR n < 0)",
    "id IN (SELECT id FROM {t} WHERE s = 5)",
    "EXISTS (SELECT 1 FROM {t} AS x WHERE x.id = {t}.id + 1 AND x.s = 99)",
    "d = (SELECT max(d) FROM {t})",
    "false",
    "id < 0",
];

/// Queries of more forms than one condition.
const QUERIES: &[&str] = &[
    "SELECT * FROM {t} WHERE id % 997 = 3 OR id < 25 ORDER BY id",
    "SELECT * FROM {t} ORDER BY id DESC LIMIT 5 OFFSET 3",
    "SELECT id FROM {t} ORDER BY l NULLS FIRST, id LIMIT 7",
    "SELECT id, t FROM {t} ORDER BY t DESC NULLS LAST, id LIMIT 7",
    "SELECT id, iv FROM {t} ORDER BY iv, id LIMIT 7",
    "SELECT id, m FROM {t} ORDER BY m DESC, id LIMIT 7",
    "SELECT count(*) FROM {t}",
    "SELECT count(b), count(s), count(l), count(r), count(d), count(n), count(m) FROM {t}",
    "SELECT count(t), count(v), count(c), count(y), count(u), count(da), count(ti) FROM {t}",
    "SELECT count(ts), count(tz), count(iv), count(j), count(jb), count(o), count(na) FROM {t}",
    "SELECT min(s), max(s), sum(s), avg(s), min(l), max(l), sum(l), avg(l) FROM {t}",
    "SELECT min(r), max(r), min(d), max(d), sum(d), avg(d), min(n), max(n), sum(n), avg(n) FROM {t}",
    "SELECT min(m), max(m), min(t), max(t), min(v), max(v) FROM {t}",
    "SELECT min(da), max(da), min(ti), max(ti), min(ts), max(ts), min(tz), max(tz) FROM {t}",
    "SELECT min(iv), max(iv), sum(iv) FROM {t} WHERE id < 500",
    "SELECT s, count(*), sum(n), max(t) FROM {t} GROUP BY s",
    "SELECT c, b, count(*) FROM {t} GROUP BY c, b HAVING count(*) > 10",
    "SELECT date_trunc('year', ts), count(*) FROM {t} GROUP BY 1",
    "SELECT jb, count(*) FROM {t} GROUP BY jb",
    "SELECT iv, count(*) FROM {t} WHERE id < 2000 GROUP BY iv",
    "SELECT DISTINCT na FROM {t}",
    "SELECT DISTINCT b, s FROM {t} WHERE s < 0",
    "SELECT count(DISTINCT t), count(DISTINCT n), count(DISTINCT u) FROM {t}",
    "SELECT x.id, y.id FROM {t} x JOIN {t} y ON y.l = x.l AND x.id < 40",
    "SELECT count(*) FROM {t} x LEFT JOIN {t} y ON y.l = x.l + 1000003 WHERE y.id IS NULL",
    "SELECT id, row_number() OVER (PARTITION BY c ORDER BY id DESC) FROM {t} WHERE id < 60",
    "SELECT sum(length(t)), sum(length(y)) FROM {t}",
    "SELECT 1 FROM {t} WHERE id < 10",
    "SELECT id FROM {t} WHERE s = 3 UNION SELECT id FROM {t} WHERE s = 4",
    "WITH w AS (SELECT s, avg(n) AS a FROM {t} GROUP BY s) SELECT * FROM w WHERE a > 100",
];

/// Answers a query over a table; sorted, if the query does not say in which order.
async fn answer(client: &Client, query: &str, table: &str) -> Vec<String> {
    let mut found = rows(client, &query.replace("{t}", table)).await;
    if !query.contains(" ORDER BY ") || query.contains("OVER") {
        found.sort_unstable();
    }
    found
}

async fn check_answers(client: &Client) {
    for condition in CONDITIONS {
        let query = format!("SELECT id FROM {{t}} WHERE {condition}");
        let found = answer(client, &query, "segments").await;
        assert_eq!(found, answer(client, &query, "plain").await, "{condition}");
        let is_empty = matches!(*condition, "false" | "id < 0");
        assert_eq!(found.is_empty(), is_empty, "{condition}");
    }
    for query in QUERIES {
        let found = answer(client, query, "segments").await;
        assert_eq!(found, answer(client, query, "plain").await, "{query}");
        assert!(!found.is_empty(), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_answer_as_over_a_table_of_rows() {
    const ROWS: u32 = 20_500;
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute(&typed("segments", "USING columnar")).await.unwrap();
    client.batch_execute(&typed("plain", "")).await.unwrap();
    for table in ["segments", "plain"] {
        load(&client, table, (0..ROWS).map(line)).await;
    }
    check_answers(&client).await;
    // Rows beside the segments: of INSERT, and of a COPY that is too small for a segment.
    for table in ["segments", "plain"] {
        load(&client, table, (ROWS..ROWS + 40).map(line)).await;
        let insert = format!("INSERT INTO {table} SELECT * FROM plain WHERE id BETWEEN 30 AND 70");
        client.batch_execute(&insert).await.unwrap();
        let insert =
            format!("INSERT INTO {table} (id, t, s) VALUES (-1, 'word-7', 7), (-2, '', 5)");
        client.batch_execute(&insert).await.unwrap();
    }
    let counts = "SELECT (SELECT count(*) FROM segments), (SELECT count(*) FROM plain)";
    assert_eq!(rows(&client, counts).await, ["20583|20583"]);
    for query in QUERIES {
        let found = answer(&client, query, "segments").await;
        assert_eq!(found, answer(&client, query, "plain").await, "{query}");
    }
    let (low, word, pattern) = (-50i16, "word-7", "word-1%");
    for (text, parameters) in [
        ("SELECT id FROM {t} WHERE s > $1 AND t = $2", (low, word)),
        ("SELECT id FROM {t} WHERE s = $1 AND t LIKE $2", (low, pattern)),
    ] {
        let mut found = Vec::new();
        for table in ["segments", "plain"] {
            let query = client.prepare(&text.replace("{t}", table)).await.unwrap();
            let rows = client.query(&query, &[&parameters.0, &parameters.1]).await.unwrap();
            let mut ids: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
            ids.sort_unstable();
            found.push(ids);
        }
        assert_eq!(found[0], found[1], "{text}");
        assert!(!found[0].is_empty(), "{text}");
    }
    let restarted = server.restarted().await;
    let client = restarted.client().await;
    for query in QUERIES.iter().step_by(5) {
        let found = answer(&client, query, "segments").await;
        assert_eq!(found, answer(&client, query, "plain").await, "after a restart: {query}");
    }
}
