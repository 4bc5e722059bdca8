//! Promises of foreign keys: what clients are told of them, and that no order of two clients leaves an orphan.

use crate::rows::rows;
use crate::server::{Server, code};
use bytes::Bytes;
use futures::SinkExt;
use std::pin::pin;
use std::time::Duration;
use tokio_postgres::error::DbError;
use tokio_postgres::{Client, Error};

const FAMILY: &str = "CREATE TABLE p (id int PRIMARY KEY, v int); \
                      CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p)";

/// Runs a text that fails, and returns what the server says.
async fn refused(client: &Client, text: &str) -> DbError {
    let error = client.batch_execute(text).await.err();
    let error = error.unwrap_or_else(|| panic!("{text} is not refused"));
    error.as_db_error().unwrap_or_else(|| panic!("{text}: {error:?}")).clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn violations_have_the_texts_of_postgresql() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute(FAMILY).await.unwrap();
    let error = refused(&client, "INSERT INTO c VALUES (1, 1)").await;
    assert_eq!(error.code().code(), "23503");
    assert_eq!(
        error.message(),
        "insert or update on table \"c\" violates foreign key constraint \"c_p_fkey\""
    );
    assert_eq!(error.detail(), Some("Key (p)=(1) is not present in table \"p\"."));
    let of = (error.schema(), error.table(), error.constraint());
    assert_eq!(of, (Some("public"), Some("c"), Some("c_p_fkey")));
    client.batch_execute("INSERT INTO p VALUES (1, 0); INSERT INTO c VALUES (1, 1)").await.unwrap();
    for text in ["DELETE FROM p", "UPDATE p SET id = 2"] {
        let error = refused(&client, text).await;
        assert_eq!(
            error.message(),
            "update or delete on table \"p\" violates foreign key constraint \"c_p_fkey\" on table \"c\""
        );
        assert_eq!(error.detail(), Some("Key (id)=(1) is still referenced from table \"c\"."));
        let of = (error.schema(), error.table(), error.constraint());
        assert_eq!(of, (Some("public"), Some("c"), Some("c_p_fkey")));
    }
    let error = refused(&client, "DROP TABLE p").await;
    assert_eq!(error.message(), "cannot drop table p because other objects depend on it");
    assert_eq!(error.detail(), Some("constraint c_p_fkey on table c depends on table p"));
    let error = refused(&client, "TRUNCATE p").await;
    assert_eq!(error.detail(), Some("Table \"c\" references \"p\"."));
    let error = refused(&client, "CREATE TABLE d (p int REFERENCES p DEFERRABLE)").await;
    assert_eq!(error.code().code(), "0A000");
    client.batch_execute("TRUNCATE p CASCADE; DROP TABLE p CASCADE").await.unwrap();
    client.batch_execute("INSERT INTO c VALUES (1, 7)").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn copied_rows_reference_rows_that_are_there() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute(FAMILY).await.unwrap();
    client.batch_execute("INSERT INTO p SELECT g, 0 FROM generate_series(1, 3) g").await.unwrap();
    let copy = async |lines: String| -> Result<u64, Error> {
        let mut sink = pin!(client.copy_in::<_, Bytes>("COPY c FROM STDIN").await?);
        sink.send(Bytes::from(lines)).await?;
        sink.finish().await
    };
    let good: String = (0..3_000).map(|id| format!("{id}\t{}\n", id % 3 + 1)).collect();
    assert_eq!(copy(good).await.unwrap(), 3_000);
    let bad: String = (3_000..6_000).map(|id| format!("{id}\t{}\n", id / 5_999 * 9 + 1)).collect();
    assert_eq!(code(&copy(bad).await.unwrap_err()), "23503");
    assert_eq!(rows(&client, "SELECT count(*) FROM c").await, ["3000"]);
}

/// Begins `waits` in a block of an isolation while `holds` is open, ends that, and returns the outcome of the former.
async fn meet(server: &Server, isolation: &str, holds: &str, waits: &str) -> Result<(), Error> {
    let (one, two) = (server.client().await, server.client().await);
    two.batch_execute(&format!("BEGIN ISOLATION LEVEL {isolation}; SELECT 1 FROM p"))
        .await
        .unwrap();
    one.batch_execute(&format!("BEGIN ISOLATION LEVEL {isolation}; {holds}")).await.unwrap();
    let end = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        one.batch_execute("COMMIT").await.unwrap();
    };
    let outcome = tokio::join!(two.batch_execute(waits), end).0;
    match outcome {
        Ok(()) => two.batch_execute("COMMIT").await,
        Err(error) => Err(error),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_of_two_clients_leaves_an_orphan() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute(FAMILY).await.unwrap();
    client.batch_execute("CREATE TABLE u (p int REFERENCES p ON DELETE CASCADE)").await.unwrap();
    let (committed, repeatable) = ("READ COMMITTED", "REPEATABLE READ");
    for (isolation, holds, waits, state) in [
        (committed, "DELETE FROM p WHERE id = 1", "INSERT INTO c VALUES (1, 1)", "23503"),
        (repeatable, "DELETE FROM p WHERE id = 1", "INSERT INTO c VALUES (1, 1)", "40001"),
        (committed, "UPDATE p SET id = 9 WHERE id = 1", "INSERT INTO c VALUES (1, 1)", "23503"),
        (repeatable, "UPDATE p SET id = 9 WHERE id = 1", "INSERT INTO c VALUES (1, 1)", "40001"),
        (committed, "INSERT INTO c VALUES (1, 1)", "DELETE FROM p WHERE id = 1", "23503"),
        (repeatable, "INSERT INTO c VALUES (1, 1)", "DELETE FROM p WHERE id = 1", "23503"),
        (committed, "INSERT INTO c VALUES (1, 1)", "UPDATE p SET id = 9 WHERE id = 1", "23503"),
        (repeatable, "INSERT INTO c VALUES (1, 1)", "UPDATE p SET id = 9 WHERE id = 1", "23503"),
        (committed, "INSERT INTO u VALUES (1)", "DELETE FROM p WHERE id = 1", "done"),
        (repeatable, "INSERT INTO u VALUES (1)", "DELETE FROM p WHERE id = 1", "40001"),
        (committed, "UPDATE p SET v = 5 WHERE id = 1", "INSERT INTO c VALUES (1, 1)", "done"),
        (repeatable, "UPDATE p SET v = 5 WHERE id = 1", "INSERT INTO c VALUES (1, 1)", "done"),
    ] {
        let reset = "DELETE FROM u; DELETE FROM c; DELETE FROM p; INSERT INTO p VALUES (1, 0)";
        client.batch_execute(reset).await.unwrap();
        let outcome = meet(&server, isolation, holds, waits).await;
        let outcome = outcome.map_or_else(|error| code(&error), |()| "done".to_owned());
        assert_eq!(outcome, state, "{isolation}: {holds}, then {waits}");
        let orphans = "SELECT p FROM c WHERE p NOT IN (SELECT id FROM p) \
                       UNION ALL SELECT p FROM u WHERE p NOT IN (SELECT id FROM p)";
        assert!(rows(&client, orphans).await.is_empty(), "{isolation}: {holds}, then {waits}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_moves_to_another_key_is_no_orphan() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute(FAMILY).await.unwrap();
    for (action, committed, repeatable) in [
        ("NO ACTION", "23503", "23503"),
        ("RESTRICT", "23503", "23503"),
        ("CASCADE", "done", "40001"),
        ("SET NULL", "done", "40001"),
    ] {
        let create =
            format!("CREATE TABLE m (id int PRIMARY KEY, p int REFERENCES p ON DELETE {action})");
        client.batch_execute(&create).await.unwrap();
        for (isolation, state) in [("READ COMMITTED", committed), ("REPEATABLE READ", repeatable)] {
            let reset = "DELETE FROM m; DELETE FROM p; INSERT INTO p VALUES (1, 0), (2, 0);
                         INSERT INTO m VALUES (1, 1)";
            for holds in [
                "UPDATE m SET id = 2 WHERE id = 1",
                "UPDATE m SET id = 2 WHERE id = 1; INSERT INTO m VALUES (1, 2)",
            ] {
                client.batch_execute(reset).await.unwrap();
                let outcome = meet(&server, isolation, holds, "DELETE FROM p WHERE id = 1").await;
                let outcome = outcome.map_or_else(|error| code(&error), |()| "done".to_owned());
                assert_eq!(outcome, state, "{action}, {isolation}: {holds}");
                let orphans = "SELECT p FROM m WHERE p NOT IN (SELECT id FROM p)";
                assert!(rows(&client, orphans).await.is_empty(), "{action}, {isolation}: {holds}");
            }
        }
        client.batch_execute("DROP TABLE m").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_key_that_comes_while_a_writer_waits_is_kept_by_it() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    let setup = "CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (p int); \
                 INSERT INTO p VALUES (1); INSERT INTO c VALUES (1)";
    client.batch_execute(setup).await.unwrap();
    other.batch_execute("PREPARE gone AS DELETE FROM p WHERE id = 1").await.unwrap();
    let add = "BEGIN; ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p";
    client.batch_execute(add).await.unwrap();
    let end = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.batch_execute("COMMIT").await.unwrap();
    };
    let outcome = tokio::join!(other.batch_execute("EXECUTE gone"), end).0;
    assert_eq!(code(&outcome.unwrap_err()), "23503");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_references_what_it_was_granted_and_actions_ask_for_nothing() {
    let server = Server::start().await;
    let owner = server.client().await;
    let setup = "CREATE ROLE app LOGIN; GRANT CREATE ON SCHEMA public TO app; \
                 CREATE TABLE p (id int PRIMARY KEY); INSERT INTO p VALUES (1), (2), (3); \
                 CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE); \
                 GRANT INSERT ON c TO app; GRANT SELECT, DELETE ON p TO app";
    owner.batch_execute(setup).await.unwrap();
    let app = server.client_as("app").await;
    let error = refused(&app, "CREATE TABLE mine (p int REFERENCES p)").await;
    assert_eq!(error.code().code(), "42501");
    owner.batch_execute("GRANT REFERENCES ON p TO app").await.unwrap();
    app.batch_execute("CREATE TABLE mine (p int REFERENCES p)").await.unwrap();
    app.batch_execute("INSERT INTO c VALUES (1, 1)").await.unwrap();
    // The values of a table that it may not read are not shown.
    let error = refused(&app, "INSERT INTO c VALUES (2, 9)").await;
    assert_eq!(error.detail(), Some("Key is not present in table \"p\"."));
    app.batch_execute("DELETE FROM p WHERE id = 1").await.unwrap();
    assert!(rows(&owner, "SELECT * FROM c").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_and_jdbc_are_told_of_foreign_keys() {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute(FAMILY).await.unwrap();
    let def = "FOREIGN KEY (p) REFERENCES p(id)";
    // These are the queries of psql 15.
    let of_c = "SELECT true as sametable, conname, pg_catalog.pg_get_constraintdef(r.oid, true) as condef, \
                conrelid::pg_catalog.regclass AS ontable FROM pg_catalog.pg_constraint r \
                WHERE r.conrelid = 'c'::regclass AND r.contype = 'f' AND conparentid = 0 ORDER BY conname";
    assert_eq!(rows(&client, of_c).await, [format!("t|c_p_fkey|{def}|c")]);
    let oid = &rows(&client, "SELECT 'p'::regclass::oid").await[0];
    let of_p = format!(
        "SELECT conname, conrelid::pg_catalog.regclass AS ontable, \
         pg_catalog.pg_get_constraintdef(oid, true) AS condef FROM pg_catalog.pg_constraint c \
         WHERE confrelid IN (SELECT pg_catalog.pg_partition_ancestors('{oid}') \
         UNION ALL VALUES ('{oid}'::pg_catalog.regclass)) \
         AND contype = 'f' AND conparentid = 0 ORDER BY conname"
    );
    assert_eq!(rows(&client, &of_p).await, [format!("c_p_fkey|c|{def}")]);
    let flags = "SELECT relname FROM pg_class WHERE relhastriggers ORDER BY 1";
    assert_eq!(rows(&client, flags).await, ["c", "p"]);
    // The core of getImportedKeys.
    let imported = "SELECT pkc.relname, pka.attname, fkc.relname, fka.attname, pos.n, con.confdeltype, con.conname, \
                    pkic.relname FROM pg_catalog.pg_class pkc, pg_catalog.pg_attribute pka, \
                    pg_catalog.pg_class fkc, pg_catalog.pg_attribute fka, pg_catalog.pg_constraint con, \
                    pg_catalog.generate_series(1, 32) pos(n), pg_catalog.pg_class pkic \
                    WHERE pkc.oid = pka.attrelid AND pka.attnum = con.confkey[pos.n] AND con.confrelid = pkc.oid \
                    AND fkc.oid = fka.attrelid AND fka.attnum = con.conkey[pos.n] AND con.conrelid = fkc.oid \
                    AND con.contype = 'f' AND (pkic.relkind = 'i' OR pkic.relkind = 'I') AND pkic.oid = con.conindid";
    assert_eq!(rows(&client, imported).await, ["p|id|c|p|1|a|c_p_fkey|p_pkey"]);
    let depends =
        "SELECT refobjid::regclass FROM pg_depend WHERE classid = 'pg_constraint'::regclass";
    assert_eq!(rows(&client, depends).await, ["p_pkey"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_on_many_rows_honours_a_cancel_request() {
    let server = Server::start().await;
    let client = server.client().await;
    let setup = "CREATE TABLE p (id int PRIMARY KEY); INSERT INTO p VALUES (1); \
                 CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE); \
                 INSERT INTO c SELECT g, 1 FROM generate_series(1, 50000) g; \
                 SET statement_timeout = '5ms'";
    client.batch_execute(setup).await.unwrap();
    assert_eq!(refused(&client, "DELETE FROM p").await.code().code(), "57014");
    assert_eq!(rows(&client, "RESET statement_timeout; SELECT count(*) FROM c").await, ["50000"]);
    client.batch_execute("DELETE FROM p").await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM c").await, ["0"]);
}
