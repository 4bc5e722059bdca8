//! Promises of prompts: they read everything but Bigtable tables, change nothing, and end.

use crate::server::Server;
use relational::SqlState;
use sql::{Prompt, PromptAnswer, PromptLimits, PromptRows};
use std::time::Duration;
use table::{CreateTable, FamilySpec, Store, TableName};

const LIMITS: PromptLimits = PromptLimits {
    rows: 100,
    value_bytes: 100,
    node_bytes: 10,
    bytes: 1_000_000,
    time: Duration::from_secs(60),
};

fn prompt(text: &str, limits: PromptLimits) -> Prompt {
    Prompt { text: text.to_owned(), is_explained: false, limits }
}

async fn rows(server: &Server, text: &str, limits: PromptLimits) -> PromptRows {
    match server.door.prompt(prompt(text, limits)).await {
        Ok(PromptAnswer::Rows(rows)) => rows,
        other => panic!("{text}: {other:?}"),
    }
}

/// Returns the texts of the rows.
async fn shown(server: &Server, text: &str) -> Vec<Vec<Option<String>>> {
    let value =
        |value: Option<sql::PromptValue>| value.map(|value| String::from_utf8(value.text).unwrap());
    let rows = rows(server, text, LIMITS).await.rows;
    rows.into_iter().map(|row| row.into_iter().map(value).collect()).collect()
}

async fn refused(server: &Server, text: &str, limits: PromptLimits) -> SqlState {
    match server.door.prompt(prompt(text, limits)).await {
        Ok(answer) => panic!("{text} is not refused: {answer:?}"),
        Err(error) => error.state,
    }
}

fn texts(values: &[Option<&str>]) -> Vec<Option<String>> {
    values.iter().map(|value| value.map(str::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_reads_what_no_role_was_granted() {
    let server = Server::start().await;
    let owner = server.client().await;
    let setup = "CREATE SCHEMA s; CREATE TABLE s.t (a int PRIMARY KEY, b text); \
                 INSERT INTO s.t VALUES (1, 'x'), (2, NULL); \
                 CREATE VIEW s.v AS SELECT sum(a) AS n FROM s.t; CREATE SEQUENCE s.q";
    owner.batch_execute(setup).await.unwrap();
    let all = shown(&server, "SELECT * FROM s.t ORDER BY a").await;
    assert_eq!(all, [texts(&[Some("1"), Some("x")]), texts(&[Some("2"), None])]);
    assert_eq!(shown(&server, "SELECT b FROM s.t WHERE a = 1").await, [texts(&[Some("x")])]);
    assert_eq!(shown(&server, "SELECT n FROM s.v").await, [texts(&[Some("3")])]);
    assert_eq!(shown(&server, "SELECT last_value FROM s.q").await, [texts(&[Some("1")])]);
    let seen = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 's'";
    assert_eq!(shown(&server, seen).await, [texts(&[Some("2")])]);
    let may = "SELECT has_table_privilege('s.t', 'SELECT'), has_table_privilege('s.t', 'INSERT')";
    assert_eq!(shown(&server, may).await, [texts(&[Some("t"), Some("f")])]);
    let explained = Prompt { is_explained: true, ..prompt("SELECT sum(a) FROM s.t", LIMITS) };
    match server.door.prompt(explained).await.unwrap() {
        PromptAnswer::Plan(plan) => assert!(!plan.inputs.is_empty(), "{plan:?}"),
        PromptAnswer::Rows(rows) => panic!("{rows:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_works_on_behind_an_answer() {
    let server = Server::start().await;
    let owner = server.client().await;
    let setup = "CREATE TABLE t (n int); INSERT INTO t SELECT * FROM generate_series(1, 60000)";
    owner.batch_execute(setup).await.unwrap();
    // The rows of the answer come at once, and a join without end goes beside them.
    let text = "SELECT a.n FROM t a JOIN t b ON a.n * 5000 + b.n < 9201 UNION ALL \
                SELECT n FROM generate_series(1, 2000) AS g(n)";
    // More of them than the query side has threads.
    for _ in 0..6 {
        assert!(rows(&server, text, LIMITS).await.more);
    }
    let count = "SELECT count(*) FROM (SELECT n % 7, count(*) FROM t GROUP BY n % 7) AS g";
    assert_eq!(owner.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_in_parentheses_is_explained() {
    let server = Server::start().await;
    let text = "(SELECT 1) UNION (SELECT 2)";
    assert_eq!(rows(&server, text, LIMITS).await.rows.len(), 2);
    let explained = Prompt { is_explained: true, ..prompt(text, LIMITS) };
    assert!(matches!(server.door.prompt(explained).await, Ok(PromptAnswer::Plan(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_changes_nothing() {
    let server = Server::start().await;
    let owner = server.client().await;
    let setup = "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1); CREATE SEQUENCE q";
    owner.batch_execute(setup).await.unwrap();
    for (text, state) in [
        ("INSERT INTO t VALUES (2)", "25006"),
        ("UPDATE t SET a = 3", "25006"),
        ("DELETE FROM t", "25006"),
        ("SELECT * FROM t FOR UPDATE", "25006"),
        ("DROP TABLE t", "0A000"),
        ("CREATE ROLE r SUPERUSER", "0A000"),
        ("ALTER ROLE stele PASSWORD 'x'", "0A000"),
        ("COPY t TO STDOUT", "0A000"),
        ("SET statement_timeout = 0", "0A000"),
        ("BEGIN", "0A000"),
        ("SELECT nextval('q')", "0A000"),
        ("SELECT setval('q', 7)", "0A000"),
        ("SELECT set_config('search_path', 'x', false)", "0A000"),
        ("SELECT pg_advisory_lock(1)", "0A000"),
        ("SELECT pg_try_advisory_xact_lock(1)", "0A000"),
        ("SELECT pg_read_file('/etc/hostname')", "42883"),
        ("SELECT $1", "42P02"),
    ] {
        assert_eq!(refused(&server, text, LIMITS).await.code(), state, "{text}");
    }
    let pid: i32 = owner.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    for function in ["pg_cancel_backend", "pg_terminate_backend"] {
        let text = format!("SELECT {function}({pid})");
        assert_eq!(refused(&server, &text, LIMITS).await.code(), "42501", "{text}");
    }
    let unseen = format!("SELECT query FROM pg_stat_activity WHERE pid = {pid}");
    assert_eq!(shown(&server, &unseen).await, [texts(&[Some("<insufficient privilege>")])]);
    let row = owner.query_one("SELECT a, nextval('q') FROM t", &[]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, i64>(1)), (1, 1));
    let free = owner.query_one("SELECT pg_try_advisory_lock(1)", &[]).await.unwrap();
    assert!(free.get::<_, bool>(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_sees_no_bigtable_table() {
    let server = Server::start().await;
    let owner = server.client().await;
    let users = CreateTable {
        name: TableName::new("projects/p/instances/i/tables/users").unwrap(),
        families: vec![("info".to_owned(), FamilySpec::default())],
        splits: Vec::new(),
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    };
    server.tables.create_table(users).await.unwrap();
    for text in [
        "CREATE FOREIGN TABLE users (id text, name text OPTIONS (column 'info:name')) \
         SERVER bigtable OPTIONS (table 'users')",
        "CREATE VIEW declared AS SELECT id FROM users",
        "CREATE VIEW cells AS SELECT key FROM bigtable.users",
        "SELECT * FROM declared, cells",
    ] {
        owner.batch_execute(text).await.unwrap();
    }
    for relation in ["users", "bigtable.users", "declared", "cells"] {
        let text = format!("SELECT * FROM {relation}");
        assert_eq!(refused(&server, &text, LIMITS).await.code(), "42P01", "{text}");
    }
    for catalog in ["pg_foreign_table", "pg_class WHERE relname = 'users'"] {
        let text = format!("SELECT count(*) FROM {catalog}");
        assert_eq!(shown(&server, &text).await, [texts(&[Some("0")])], "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_bounded_by_rows_and_by_bytes() {
    let server = Server::start().await;
    let numbers = "SELECT n, repeat('x', 1000) FROM generate_series(1, 2000) AS g(n)";
    let few = rows(&server, numbers, PromptLimits { rows: 3, ..LIMITS }).await;
    assert_eq!((few.rows.len(), few.more, few.columns.len()), (3, true, 2));
    let long = few.rows[0][1].as_ref().unwrap();
    assert_eq!((long.text.len(), long.bytes), (100, 1000));
    // 27 of the bytes are of the columns.
    let small = rows(&server, numbers, PromptLimits { bytes: 157, ..LIMITS }).await;
    let lens: Vec<_> = small.rows.iter().map(Vec::len).collect();
    assert_eq!((lens, small.more), (vec![2, 1], true));
    let whole = rows(&server, "SELECT 1", PromptLimits { rows: 1, ..LIMITS }).await;
    assert_eq!((whole.rows.len(), whole.more), (1, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_ends_by_time_by_request_and_with_its_caller() {
    let server = Server::start().await;
    let owner = server.client().await;
    let sleep = "SELECT pg_sleep(600)";
    let short = PromptLimits { time: Duration::from_millis(50), ..LIMITS };
    assert_eq!(refused(&server, sleep, short).await, SqlState::QUERY_CANCELED);
    let running = "SELECT pid FROM pg_stat_activity WHERE application_name = 'stele prompt'";
    let door = server.door.clone();
    let asked = tokio::spawn(async move { door.prompt(prompt(sleep, LIMITS)).await });
    let pid: i32 = loop {
        match owner.query(running, &[]).await.unwrap().first() {
            Some(row) => break row.get(0),
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    // It may be cancelled before its statement has begun to sleep.
    owner.execute("SELECT pg_cancel_backend($1)", &[&pid]).await.unwrap();
    assert_eq!(asked.await.unwrap().unwrap_err().state, SqlState::QUERY_CANCELED);
    let left = server.door.prompt(prompt(sleep, LIMITS));
    assert!(tokio::time::timeout(Duration::from_millis(100), left).await.is_err());
    while !owner.query(running, &[]).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
