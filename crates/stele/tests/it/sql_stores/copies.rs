//! Stores with SQL tables: backup and restore, clone, check, dump and repair.

use super::{FLAGS, connect, number};
use crate::server::{Server, run, stderr};
use std::path::Path;
use std::process::Output;

fn succeed(output: Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a future on a runtime of its own.
fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(future)
}

/// Makes tables with rows, indexes, a view and a sequence.
async fn fill(server: &Server) {
    let client = connect(server).await;
    client
        .batch_execute(
            "CREATE TABLE items (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE,
                 price numeric(10,2), tags text[], at timestamptz DEFAULT now());
             CREATE INDEX items_price ON items (price DESC);
             CREATE VIEW dear AS SELECT name, price FROM items WHERE price > 400;
             CREATE SEQUENCE steps INCREMENT BY 7;
             CREATE TABLE empty (a int);
             INSERT INTO items (name, price, tags) SELECT 'item ' || g, g / 2.0, ARRAY['a', 'b']
                 FROM generate_series(1, 3000) AS g;
             SELECT nextval('steps'), nextval('steps');
             DELETE FROM items WHERE id % 10 = 0;",
        )
        .await
        .unwrap();
}

/// Fails unless the store in `dir` has what [`fill`] made, and takes writes.
fn verify(dir: &Path) {
    let mut server = Server::start(dir, FLAGS);
    wait(async {
        let client = connect(&server).await;
        assert_eq!(number(&client, "SELECT count(*) FROM items").await, 2700);
        assert_eq!(number(&client, "SELECT count(*) FROM dear").await, 1980);
        let by_index = "SELECT count(*) FROM items WHERE price > 100 AND price <= 101";
        assert_eq!(number(&client, by_index).await, 2);
        assert_eq!(number(&client, "SELECT id FROM items WHERE name = 'item 77'").await, 77);
        assert!(number(&client, "SELECT nextval('steps')").await > 8);
        let again = client.execute("INSERT INTO items (name) VALUES ('item 77')", &[]).await;
        assert_eq!(again.unwrap_err().code().unwrap().code(), "23505");
        let new =
            client.query_one("INSERT INTO items (name) VALUES ('new') RETURNING id", &[]).await;
        assert!(new.unwrap().get::<_, i64>(0) > 3000);
    });
    assert!(server.terminate().success());
}

#[test]
fn a_store_with_sql_tables_is_backed_up_restored_and_cloned() {
    let root = tempfile::tempdir().unwrap();
    let (dir, to) = (root.path().join("data"), root.path().join("backups"));
    let mut server = Server::start(&dir, FLAGS);
    wait(fill(&server));
    let http = format!("http://{}", server.http());
    succeed(run(&["backup", &http, "--to", text(&to)]));
    wait(async {
        let client = connect(&server).await;
        client.batch_execute("DROP TABLE items CASCADE").await.unwrap();
    });
    assert!(server.terminate().success());
    succeed(run(&["backup", "verify", "--from", text(&to)]));
    let (restored, clone) = (root.path().join("restored"), root.path().join("clone"));
    succeed(run(&["restore", "--from", text(&to), "--to", text(&restored), "--verify"]));
    succeed(run(&["clone", text(&restored), text(&clone)]));
    for copy in [&restored, &clone] {
        succeed(run(&["check", text(copy)]));
        verify(copy);
        succeed(run(&["check", text(copy)]));
    }
}

#[test]
fn a_store_with_sql_tables_is_checked_dumped_and_repaired() {
    let root = tempfile::tempdir().unwrap();
    let (dir, into) = (root.path().join("data"), root.path().join("repaired"));
    let mut server = Server::start(&dir, FLAGS);
    wait(fill(&server));
    server.kill_9();
    succeed(run(&["check", text(&dir)]));
    let dumped = succeed(run(&["dump", text(&dir)]));
    assert!(!dumped.is_empty());
    succeed(run(&["repair", "--data-dir", text(&dir), "--into", text(&into)]));
    succeed(run(&["check", text(&into)]));
    verify(&into);
    verify(&dir);
}
