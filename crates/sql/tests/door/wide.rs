//! Promises of Bigtable tables in SQL: cells, declared columns, bounds, refusals.

use crate::rows::rows;
use crate::server::{Server, code};
use bytes::Bytes;
use table::mutate::WriteTime;
use table::{
    CreateTable, FamilyChange, FamilySpec, GcRule, Local, RowMutation, RowMutations, Store,
    TableName, Timestamp,
};
use tokio_postgres::Client;

const USERS: &str = "projects/p/instances/i/tables/users";

/// Declaration of the table that [`fill`] makes.
const DECLARE: &str = "CREATE FOREIGN TABLE users (id text, \
     name text OPTIONS (column 'info:name'), city text OPTIONS (column 'info:city'), \
     visits bigint OPTIONS (column 'stats:visits', encoding 'binary'), \
     born date OPTIONS (column 'info:born')) SERVER bigtable OPTIONS (table 'users')";

/// Returns the state of the error of a statement.
async fn refused(client: &Client, text: &str) -> String {
    match client.simple_query(text).await {
        Ok(answer) => panic!("{text}: {answer:?}"),
        Err(error) => code(&error),
    }
}

async fn create(
    tables: &Local,
    name: &str,
    families: Vec<(String, FamilySpec)>,
    splits: Vec<Bytes>,
) {
    let table = CreateTable {
        name: TableName::new(name).unwrap(),
        families,
        splits,
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    };
    tables.create_table(table).await.unwrap();
}

/// A cell by family, qualifier, time in milliseconds and value.
type CellOf<'a> = (&'a str, &'a str, i64, &'a [u8]);

async fn set(tables: &Local, table: &str, row: &str, cells: &[CellOf<'_>]) {
    let mutations = cells.iter().map(|(family, qualifier, millis, value)| RowMutation::SetCell {
        family: (*family).to_owned(),
        qualifier: Bytes::copy_from_slice(qualifier.as_bytes()),
        timestamp: WriteTime::At(Timestamp(millis * 1_000)),
        value: Bytes::copy_from_slice(value),
    });
    let row = RowMutations {
        row: Bytes::copy_from_slice(row.as_bytes()),
        mutations: mutations.collect(),
    };
    tables.mutate_row(&TableName::new(table).unwrap(), row).await.unwrap();
}

/// Makes the table `users` with some rows.
async fn fill(tables: &Local) {
    let raw = |name: &str| (name.to_owned(), FamilySpec::default());
    create(tables, USERS, vec![raw("info"), raw("stats")], vec![Bytes::from("u3")]).await;
    let two = 2_i64.to_be_bytes();
    let rows: [(&str, &[CellOf<'_>]); 5] = [
        (
            "u1",
            &[
                ("info", "name", 1_000, b"ann"),
                ("info", "name", 2_000, b"anna"),
                ("info", "born", 1_000, b"2000-01-31"),
                ("stats", "visits", 1_000, &two),
            ],
        ),
        ("u2", &[("info", "name", 1_000, b"bob"), ("info", "city", 5_000, b"Berlin")]),
        ("u3", &[("info", "city", 1_000, b"Rome")]),
        ("u4", &[("info", "other", 1_000, b"no declared column")]),
        ("v1", &[("info", "name", 1_000, b"vic")]),
    ];
    for (row, cells) in rows {
        set(tables, USERS, row, cells).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_are_rows_and_conditions_bound_the_read() {
    let server = Server::start().await;
    let client = server.client().await;
    fill(&server.tables).await;
    let all = "SELECT convert_from(key, 'UTF8'), family, convert_from(qualifier, 'UTF8'), \
               extract(epoch from timestamp)::int FROM bigtable.users";
    let found = rows(&client, &format!("{all} WHERE key < 'u2' ORDER BY 1, 2, 3, 4")).await;
    assert_eq!(found, ["u1|info|born|1", "u1|info|name|1", "u1|info|name|2", "u1|stats|visits|1"]);
    for (condition, count, shown) in [
        ("key = 'u1'", 4, "keys='u1'"),
        ("key IN ('u1', 'v1', 'zz')", 5, "keys='u1' 'v1' 'zz'"),
        ("key BETWEEN 'u2' AND 'u3'", 3, "keys=['u2', 'u3\\x00')"),
        ("key > 'u3'", 2, "keys=['u3\\x00', ∞)"),
        ("key LIKE 'u%'", 8, "keys=['u', 'v')"),
        ("key LIKE 'u_'", 8, "keys=['u', 'v')"),
        ("key = 'u1' OR key = 'v1'", 5, "keys='u1' 'v1'"),
        ("family = 'stats'", 1, "families='stats'"),
        ("family IN ('stats', 'nothing')", 1, "families='nothing' 'stats'"),
        ("qualifier = 'name'", 4, "qualifiers='name'"),
        ("qualifier LIKE 'n%' AND key >= 'u2'", 2, "qualifiers=['n', 'o')"),
        ("timestamp > '1970-01-01 00:00:01+00'", 2, "times=bounded"),
        ("timestamp = '1970-01-01 00:00:05+00'", 1, "times=bounded"),
        ("timestamp < '1969-01-01 00:00:00+00'", 0, "times=bounded"),
        ("key > 'u2' AND key < 'u1'", 0, "keys=none"),
        ("key = ''", 0, "keys=''"),
        ("value = 'bob'", 1, "table="),
    ] {
        let query = format!("SELECT count(*) FROM bigtable.users WHERE {condition}");
        assert_eq!(rows(&client, &query).await, [count.to_string()], "{condition}");
        let plan = rows(&client, &format!("EXPLAIN {query}")).await.join("\n");
        assert!(plan.contains(shown), "{condition}: {plan}");
    }
    let first = rows(&client, "SELECT value FROM bigtable.users ORDER BY key LIMIT 1").await;
    assert_eq!(first.len(), 1);
    let plan = "EXPLAIN SELECT value FROM bigtable.users WHERE key >= 'u1' LIMIT 2";
    let plan = rows(&client, plan).await.join("\n");
    assert!(plan.contains("limit=2") && !plan.contains("FilterExec"), "{plan}");
    let plan = "EXPLAIN ANALYZE SELECT count(*) FROM bigtable.users WHERE key = 'u1'";
    let plan = rows(&client, plan).await.join("\n");
    assert!(plan.contains("cells_seen=4"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_columns_have_their_newest_values_whatever_a_query_names() {
    let server = Server::start().await;
    let client = server.client().await;
    fill(&server.tables).await;
    client.batch_execute(DECLARE).await.unwrap();
    assert_eq!(
        rows(&client, "SELECT * FROM users ORDER BY id").await,
        [
            "u1|anna|NULL|2|2000-01-31",
            "u2|bob|Berlin|NULL|NULL",
            "u3|NULL|Rome|NULL|NULL",
            "v1|vic|NULL|NULL|NULL"
        ]
    );
    // The rows are the same for all columns: the row without a declared one is not there.
    for column in ["id", "name", "city", "visits", "born", "1"] {
        let count = rows(&client, &format!("SELECT {column} FROM users")).await.len();
        assert_eq!(count, 4, "{column}");
    }
    assert_eq!(
        rows(&client, "SELECT count(*), count(name), sum(visits) FROM users").await,
        ["4|3|2"]
    );
    for (condition, ids) in [
        ("id = 'u1'", "u1"),
        ("id LIKE 'u%' AND name IS NOT NULL", "u1,u2"),
        ("name = 'bob'", "u2"),
        ("name > 'b' AND city IS NULL", "v1"),
        ("city IN ('Rome', 'Berlin')", "u2,u3"),
        ("name IS NULL", "u3"),
        ("visits >= 2 OR city = 'Rome'", "u1,u3"),
        ("born < '2001-01-01'", "u1"),
        ("id BETWEEN 'u2' AND 'u3' AND name LIKE 'b%'", "u2"),
    ] {
        let query = format!("SELECT id FROM users WHERE {condition} ORDER BY id");
        assert_eq!(rows(&client, &query).await.join(","), ids, "{condition}");
    }
    let plan =
        rows(&client, "EXPLAIN SELECT visits FROM users WHERE name = 'bob'").await.join("\n");
    let shown = "columns=[info:name, stats:visits], rows with all of [info:name]";
    assert!(plan.contains(shown), "{plan}");
    let plan =
        rows(&client, "EXPLAIN SELECT id FROM users WHERE id > 'u' LIMIT 3").await.join("\n");
    assert!(plan.contains("rows with any of [info:name, info:city") && plan.contains("limit=3"));
    assert_eq!(rows(&client, "SELECT id FROM users ORDER BY id LIMIT 3").await, ["u1", "u2", "u3"]);
    let plan = rows(&client, "EXPLAIN SELECT id FROM users ORDER BY id LIMIT 3").await.join("\n");
    assert!(!plan.contains("SortExec"), "{plan}");
    let query = "SELECT name FROM users WHERE id = $1";
    let name: String = client.query_one(query, &[&"u2"]).await.unwrap().get(0);
    assert_eq!(name, "bob");
}

#[tokio::test(flavor = "multi_thread")]
async fn not_null_columns_decide_which_rows_are_there() {
    let server = Server::start().await;
    let client = server.client().await;
    fill(&server.tables).await;
    client
        .batch_execute(
            "CREATE FOREIGN TABLE named (id bytea, name text OPTIONS (column 'info:name') NOT NULL, \
             city text OPTIONS (column 'info:city')) SERVER bigtable OPTIONS (table 'users')",
        )
        .await
        .unwrap();
    for query in ["SELECT id FROM named", "SELECT city FROM named", "SELECT name FROM named"] {
        assert_eq!(rows(&client, query).await.len(), 3, "{query}");
    }
    let plan = rows(&client, "EXPLAIN SELECT city FROM named").await.join("\n");
    assert!(plan.contains("columns=[info:city], rows with all of [info:name]"), "{plan}");
    let found = rows(&client, "SELECT city FROM named WHERE name IS NULL").await;
    assert!(found.is_empty(), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_another_type_is_an_error_with_its_place() {
    let server = Server::start().await;
    let client = server.client().await;
    fill(&server.tables).await;
    let declare = |name: &str, column: &str| {
        format!(
            "CREATE FOREIGN TABLE {name} (id text, c {column}) SERVER bigtable OPTIONS (table '{USERS}')"
        )
    };
    for (name, column, state) in [
        ("a", "bigint OPTIONS (column 'stats:visits')", "22021"),
        ("b", "int OPTIONS (column 'info:name')", "22P02"),
        ("c", "bigint OPTIONS (column 'info:name', encoding 'binary')", "22P03"),
    ] {
        client.batch_execute(&declare(name, column)).await.unwrap();
        let error = client.simple_query(&format!("SELECT c FROM {name}")).await.unwrap_err();
        assert_eq!(code(&error), state, "{column}");
        let detail = error.as_db_error().and_then(|error| error.detail()).unwrap_or_default();
        assert!(detail.contains("in the row 'u"), "{detail}");
        // A query that does not want the values does not read them.
        assert!(!rows(&client, &format!("SELECT id FROM {name}")).await.is_empty());
    }
    for (columns, state) in [
        ("id text, c text", "42P16"),
        ("id text", "42P16"),
        ("id int, c text OPTIONS (column 'info:name')", "0A000"),
        ("id text, c text OPTIONS (column 'nothing:name')", "42703"),
        ("id text, c text OPTIONS (column 'name')", "22023"),
        ("id text, c text OPTIONS (colum 'info:name')", "22023"),
        ("id text, c text OPTIONS (column 'info:name', encoding 'binary')", "0A000"),
        ("id text, id text OPTIONS (column 'info:name')", "42701"),
        ("id text, c nothing OPTIONS (column 'info:name')", "42704"),
        ("id text, c text[] OPTIONS (column 'info:name')", "0A000"),
    ] {
        let text =
            format!("CREATE FOREIGN TABLE w ({columns}) SERVER bigtable OPTIONS (table 'users')");
        assert_eq!(refused(&client, &text).await, state, "{columns}");
    }
    for (end, state) in [
        ("SERVER other OPTIONS (table 'users')", "42704"),
        ("SERVER bigtable OPTIONS (table 'nothing')", "42P01"),
        ("SERVER bigtable OPTIONS (table 'projects/p/instances/i/tables/nothing')", "42P01"),
        ("SERVER bigtable", "22023"),
        ("SERVER bigtable OPTIONS (table users)", "42601"),
    ] {
        let text =
            format!("CREATE FOREIGN TABLE w (id text, c text OPTIONS (column 'info:name')) {end}");
        assert_eq!(refused(&client, &text).await, state, "{end}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_refused_and_the_catalog_tells_of_the_tables() {
    let server = Server::start().await;
    let client = server.client().await;
    fill(&server.tables).await;
    client.batch_execute(DECLARE).await.unwrap();
    for (text, state) in [
        ("INSERT INTO users (id) VALUES ('x')", "42809"),
        ("UPDATE users SET name = 'x'", "42809"),
        ("DELETE FROM users", "42809"),
        ("TRUNCATE users", "42809"),
        ("COPY users FROM STDIN", "42809"),
        ("DELETE FROM bigtable.users WHERE key = 'u1'", "42809"),
        ("ALTER TABLE users ADD COLUMN c int", "42809"),
        ("CREATE INDEX ON users (name)", "42809"),
        ("DROP TABLE users", "42809"),
        ("DROP FOREIGN TABLE bigtable.users", "0A000"),
        ("DROP FOREIGN TABLE nothing", "42P01"),
        ("CREATE TABLE bigtable.t (a int)", "42501"),
        ("CREATE TABLE users (a int)", "42P07"),
        ("CREATE SCHEMA bigtable", "42P06"),
        ("DROP SCHEMA bigtable CASCADE", "2BP01"),
        ("SELECT * FROM users FOR UPDATE", "0A000"),
        ("SELECT * FROM bigtable.nothing", "42P01"),
    ] {
        assert_eq!(refused(&client, text).await, state, "{text}");
    }
    let tables = "SELECT table_schema, table_name, table_type FROM information_schema.tables \
                  WHERE table_name = 'users' ORDER BY 1";
    assert_eq!(rows(&client, tables).await, ["bigtable|users|FOREIGN", "public|users|FOREIGN"]);
    let columns = "SELECT column_name, data_type, is_nullable FROM information_schema.columns \
                   WHERE table_schema = 'public' AND table_name = 'users' ORDER BY ordinal_position";
    let want =
        ["id|text|NO", "name|text|YES", "city|text|YES", "visits|bigint|YES", "born|date|YES"];
    assert_eq!(rows(&client, columns).await, want);
    // The queries with which psql describes a foreign table.
    let oid = &rows(&client, "SELECT 'users'::regclass::oid").await[0];
    let columns = format!(
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), CASE WHEN attfdwoptions IS NULL \
         THEN '' ELSE '(' || pg_catalog.array_to_string(ARRAY(SELECT pg_catalog.quote_ident(option_name) || ' ' \
         || pg_catalog.quote_literal(option_value)  FROM pg_catalog.pg_options_to_table(attfdwoptions)), ', ') \
         || ')' END AS attfdwoptions FROM pg_catalog.pg_attribute a WHERE a.attrelid = '{oid}' AND a.attnum > 0 \
         AND NOT a.attisdropped ORDER BY a.attnum"
    );
    let found = rows(&client, &columns).await;
    assert_eq!(found[0], "id|text|");
    assert_eq!(found[3], "visits|bigint|(\"column\" 'stats:visits', encoding 'binary')");
    let server_of = format!(
        "SELECT s.srvname, pg_catalog.array_to_string(ARRAY(SELECT pg_catalog.quote_ident(option_name) || ' ' || \
         pg_catalog.quote_literal(option_value) FROM pg_catalog.pg_options_to_table(ftoptions)), ', ') FROM \
         pg_catalog.pg_foreign_table f, pg_catalog.pg_foreign_server s WHERE f.ftrelid = '{oid}' AND s.oid = \
         f.ftserver"
    );
    assert_eq!(rows(&client, &server_of).await, [format!("bigtable|\"table\" '{USERS}'")]);
    let kind = "SELECT relkind FROM pg_class WHERE oid = 'bigtable.users'::regclass";
    assert_eq!(rows(&client, kind).await, ["f"]);
    client
        .batch_execute("CREATE VIEW romans AS SELECT id FROM users WHERE city = 'Rome'")
        .await
        .unwrap();
    assert_eq!(rows(&client, "SELECT * FROM romans").await, ["u3"]);
    assert_eq!(refused(&client, "DROP FOREIGN TABLE users").await, "2BP01");
    client.batch_execute("DROP FOREIGN TABLE IF EXISTS users, nothing CASCADE").await.unwrap();
    assert_eq!(refused(&client, "SELECT * FROM romans").await, "42P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_says_who_may_read() {
    let server = Server::start().await;
    let owner = server.client().await;
    fill(&server.tables).await;
    owner.batch_execute(DECLARE).await.unwrap();
    owner.batch_execute("CREATE ROLE app LOGIN").await.unwrap();
    let app = server.client_as("app").await;
    for text in ["SELECT * FROM users", "SELECT * FROM bigtable.users"] {
        assert_eq!(refused(&app, text).await, "42501", "{text}");
    }
    let declare = DECLARE.replace("TABLE users", "TABLE mine");
    assert_eq!(refused(&app, &declare).await, "42501");
    let grant = "GRANT SELECT ON users TO app; GRANT SELECT ON bigtable.users TO app";
    owner.batch_execute(grant).await.unwrap();
    assert_eq!(rows(&app, "SELECT count(*) FROM users").await, ["4"]);
    assert_eq!(rows(&app, "SELECT count(*) FROM bigtable.users WHERE key = 'u1'").await, ["4"]);
    assert_eq!(refused(&app, "DROP FOREIGN TABLE users").await, "42501");
    owner.batch_execute("REVOKE SELECT ON bigtable.users FROM app").await.unwrap();
    assert_eq!(refused(&app, "SELECT * FROM bigtable.users").await, "42501");
    let may = "SELECT has_table_privilege('users', 'SELECT'), has_table_privilege('bigtable.users', 'SELECT')";
    assert_eq!(rows(&app, may).await, ["t|f"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_come_and_go_and_what_gc_rules_hide_is_not_shown() {
    let server = Server::start().await;
    let client = server.client().await;
    fill(&server.tables).await;
    client.batch_execute(DECLARE).await.unwrap();
    let name = TableName::new(USERS).unwrap();
    let names = "SELECT count(*) FROM bigtable.users WHERE qualifier = 'name'";
    assert_eq!(rows(&client, names).await, ["4"]);
    let rule = FamilyChange::Update {
        name: "info".to_owned(),
        gc: Some(GcRule::MaxVersions(1)),
        value_type: None,
    };
    server.tables.modify_families(&name, vec![rule]).await.unwrap();
    assert_eq!(rows(&client, names).await, ["3"]);
    let other = "projects/p/instances/j/tables/users";
    create(&server.tables, other, vec![("f".to_owned(), FamilySpec::default())], Vec::new()).await;
    set(&server.tables, other, "k", &[("f", "q", 1, b"v")]).await;
    assert_eq!(refused(&client, names).await, "42P01");
    assert_eq!(
        rows(&client, "SELECT convert_from(value, 'UTF8') FROM bigtable.\"j/users\"").await,
        ["v"]
    );
    assert_eq!(rows(&client, "SELECT count(*) FROM users").await, ["4"]);
    server.tables.delete_table(&TableName::new(other).unwrap()).await.unwrap();
    assert_eq!(rows(&client, names).await, ["3"]);
    server.tables.delete_table(&name).await.unwrap();
    assert_eq!(refused(&client, names).await, "42P01");
    assert_eq!(refused(&client, "SELECT * FROM users").await, "42P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_deleted_ends_its_scans() {
    let server = Server::start().await;
    let client = server.client().await;
    let big = "projects/p/instances/i/tables/big";
    let splits = (1..40).map(|at| Bytes::from(format!("k{at:02}"))).collect();
    create(&server.tables, big, vec![("f".to_owned(), FamilySpec::default())], splits).await;
    for at in 0..40 {
        set(&server.tables, big, &format!("k{at:02}"), &[("f", "q", 1, &[7; 1 << 20])]).await;
    }
    client
        .batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT value FROM bigtable.big")
        .await
        .unwrap();
    assert_eq!(rows(&client, "FETCH 1 FROM c").await[0].len(), 2 + (2 << 20));
    server.tables.delete_table(&TableName::new(big).unwrap()).await.unwrap();
    assert_eq!(refused(&client, "FETCH ALL FROM c").await, "42P01");
    client.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_sql_and_of_bigtable_are_joined() {
    let server = Server::start().await;
    let client = server.client().await;
    fill(&server.tables).await;
    client.batch_execute(DECLARE).await.unwrap();
    client
        .batch_execute(
            "CREATE TABLE orders (id int PRIMARY KEY, by_user text, total numeric(10,2)); \
             INSERT INTO orders VALUES (1, 'u1', 10), (2, 'u1', 5.5), (3, 'u2', 1), (4, 'gone', 9)",
        )
        .await
        .unwrap();
    let joined = "SELECT u.name, count(*), sum(o.total) FROM orders o JOIN users u ON u.id = o.by_user \
                  GROUP BY u.name ORDER BY u.name";
    assert_eq!(rows(&client, joined).await, ["anna|2|15.50", "bob|1|1.00"]);
    client
        .batch_execute("UPDATE orders SET total = 0 FROM users u WHERE u.id = orders.by_user AND u.city = 'Berlin'")
        .await
        .unwrap();
    assert_eq!(rows(&client, "SELECT id FROM orders WHERE total = 0").await, ["3"]);
    client.batch_execute("CREATE TABLE copied AS SELECT id, name FROM users").await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM copied").await, ["4"]);
    // More rows than any machine counts before the test ends.
    let copies: Vec<String> = (0..14).map(|at| format!("bigtable.users u{at}")).collect();
    let endless = format!("SELECT count(*) FROM {}", copies.join(", "));
    client.batch_execute("SET statement_timeout = '100ms'").await.unwrap();
    assert_eq!(refused(&client, &endless).await, "57014");
}
