//! Promises about sessions beside each other: who sees what of them, who may stop them, and keys that they hold.

use crate::server::{Server, code};
use std::time::Duration;
use tokio_postgres::Client;

/// Longest time until something is seen that is to come.
const PATIENCE: Duration = Duration::from_secs(30);

async fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(client: &Client, text: &str) -> T {
    client.query_one(text, &[]).await.unwrap_or_else(|e| panic!("{text}: {e:?}")).get(0)
}

/// Waits until a query gives true.
async fn until(client: &Client, text: &str) {
    let wait = async {
        while !one::<bool>(client, text).await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never: {text}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_one_session_keeps_others_waiting_until_it_is_given_back() {
    let server = Server::start().await;
    let (one_client, other) = (server.client().await, server.client().await);
    one_client.batch_execute("SELECT pg_advisory_lock(7)").await.unwrap();
    assert!(!one::<bool>(&other, "SELECT pg_try_advisory_lock(7)").await);
    assert!(!one::<bool>(&other, "SELECT pg_try_advisory_lock_shared(7)").await);
    assert!(one::<bool>(&other, "SELECT pg_try_advisory_lock(0, 7)").await);
    other.batch_execute("SET lock_timeout = 50").await.unwrap();
    let late = other.batch_execute("SELECT pg_advisory_lock(7)").await.unwrap_err();
    assert_eq!(code(&late), "55P03");
    other.batch_execute("SET lock_timeout = 0; SET statement_timeout = 50").await.unwrap();
    let late = other.batch_execute("SELECT pg_advisory_lock(7)").await.unwrap_err();
    assert_eq!(code(&late), "57014");
    other.batch_execute("SET statement_timeout = 0").await.unwrap();
    let waits = other.batch_execute("SELECT pg_advisory_lock(7)");
    let gives = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        one::<bool>(&one_client, "SELECT pg_advisory_unlock(7)").await
    };
    let (waited, given) = tokio::join!(waits, gives);
    waited.unwrap();
    assert!(given);
    // A session that ends gives back all that it holds.
    drop(other);
    until(&one_client, "SELECT pg_try_advisory_lock(7)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_a_transaction_ends_with_it() {
    let server = Server::start().await;
    let (one_client, other) = (server.client().await, server.client().await);
    let is_free = "SELECT pg_try_advisory_lock(1) AND pg_advisory_unlock(1)";
    for end in ["COMMIT", "ROLLBACK", "SELECT 1/0"] {
        one_client.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(1)").await.unwrap();
        assert!(!one::<bool>(&other, is_free).await, "{end}");
        assert!(!one::<bool>(&one_client, "SELECT pg_advisory_unlock(1)").await);
        let _ = one_client.batch_execute(end).await;
        assert!(one::<bool>(&other, is_free).await, "{end}");
        one_client.batch_execute("ROLLBACK").await.unwrap();
    }
    one_client.batch_execute("SELECT pg_advisory_xact_lock(1)").await.unwrap();
    assert!(one::<bool>(&other, is_free).await);
    // The transaction that follows in the same message, or by a chain, does not keep it.
    for end in ["COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "COMMIT; BEGIN; SELECT 1"] {
        let text = format!("BEGIN; SELECT pg_advisory_xact_lock(1); {end}");
        one_client.batch_execute(&text).await.unwrap();
        assert!(one::<bool>(&other, is_free).await, "{end}");
        one_client.batch_execute("ROLLBACK").await.unwrap();
    }
    // A failed block that has a savepoint goes on from there with its keys.
    let text = "BEGIN; SELECT pg_advisory_xact_lock(1); SAVEPOINT s; SELECT 1/0";
    one_client.batch_execute(text).await.unwrap_err();
    assert!(!one::<bool>(&other, is_free).await);
    one_client.batch_execute("ROLLBACK TO s; SELECT 1").await.unwrap();
    assert!(!one::<bool>(&other, is_free).await);
    one_client.batch_execute("COMMIT").await.unwrap();
    assert!(one::<bool>(&other, is_free).await);
    // One of the session outlives a rollback.
    one_client.batch_execute("BEGIN; SELECT pg_advisory_lock(1); ROLLBACK").await.unwrap();
    assert!(!one::<bool>(&other, is_free).await);
    one_client.batch_execute("DISCARD ALL").await.unwrap();
    assert!(one::<bool>(&other, is_free).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_of_waits_for_keys_is_a_deadlock() {
    let server = Server::start().await;
    let (one_client, other) = (server.client().await, server.client().await);
    one_client.batch_execute("SELECT pg_advisory_lock(1)").await.unwrap();
    other.batch_execute("SELECT pg_advisory_lock(2)").await.unwrap();
    let first = one_client.batch_execute("SELECT pg_advisory_lock(2)");
    let second = other.batch_execute("SELECT pg_advisory_lock(1)");
    let refused = tokio::select! {
        first = first => first.unwrap_err(),
        second = second => second.unwrap_err(),
    };
    assert_eq!(code(&refused), "40P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn activity_of_others_is_seen_by_those_who_may() {
    let server = Server::start().await;
    let owner = server.client().await;
    owner
        .batch_execute("CREATE ROLE app LOGIN; CREATE ROLE guest LOGIN; GRANT app TO guest")
        .await
        .unwrap();
    let (app, guest) = (server.client_as("app").await, server.client_as("guest").await);
    app.batch_execute("SET application_name = 'worker'; BEGIN; SELECT 'secret'").await.unwrap();
    let text = "SELECT usename || ' ' || application_name || ' ' || state || ' ' || query \
                FROM pg_stat_activity WHERE usename = 'app'";
    for client in [&owner, &guest] {
        let seen: String = one(client, text).await;
        assert!(seen.starts_with("app worker idle in transaction SET application_name"), "{seen}");
    }
    let seen: String = one(
        &app,
        "SELECT string_agg(DISTINCT query, ',') FROM pg_stat_activity WHERE usename = 'stele'",
    )
    .await;
    assert_eq!(seen, "<insufficient privilege>");
    let own = "SELECT pid = pg_backend_pid() AND state = 'active' FROM pg_stat_activity \
               WHERE usename = 'guest'";
    assert!(one::<bool>(&guest, own).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_stopped_by_its_role_and_not_by_others() {
    let server = Server::start().await;
    let owner = server.client().await;
    owner.batch_execute("CREATE ROLE app LOGIN; CREATE ROLE guest LOGIN").await.unwrap();
    let (app, guest) = (server.client_as("app").await, server.client_as("guest").await);
    let pid: i32 = one(&app, "SELECT pg_backend_pid()").await;
    let of_owner: i32 = one(&owner, "SELECT pg_backend_pid()").await;
    for (client, text) in [
        (&guest, format!("SELECT pg_cancel_backend({pid})")),
        (&guest, format!("SELECT pg_terminate_backend({pid})")),
        (&app, format!("SELECT pg_terminate_backend({of_owner})")),
    ] {
        assert_eq!(code(&client.batch_execute(&text).await.unwrap_err()), "42501", "{text}");
    }
    let second = server.client_as("app").await;
    let sleeps = app.batch_execute("SELECT pg_sleep('infinity')");
    let stops = async {
        let active = format!("SELECT state = 'active' FROM pg_stat_activity WHERE pid = {pid}");
        until(&second, &active).await;
        assert!(one::<bool>(&second, &format!("SELECT pg_cancel_backend({pid})")).await);
    };
    let (slept, ()) = tokio::join!(sleeps, stops);
    assert_eq!(code(&slept.unwrap_err()), "57014");
    assert!(one::<bool>(&owner, &format!("SELECT pg_terminate_backend({pid})")).await);
    let gone = format!("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = {pid}");
    until(&owner, &gone).await;
    assert!(app.batch_execute("SELECT 1").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_build_of_an_index_beside_writers_is_seen() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    client
        .batch_execute(
            "CREATE TABLE t (a int PRIMARY KEY, b int); \
             INSERT INTO t SELECT g, g FROM generate_series(1, 1000) g",
        )
        .await
        .unwrap();
    // The build waits for a transaction that writes to the table.
    other.batch_execute("BEGIN; INSERT INTO t VALUES (0, 0)").await.unwrap();
    let builder = server.client().await;
    let build = builder.batch_execute("CREATE INDEX CONCURRENTLY i ON t (b)");
    let look = async {
        let text = "SELECT count(*) = 1 FROM pg_stat_progress_create_index \
                    WHERE relid = 't'::regclass AND command = 'CREATE INDEX CONCURRENTLY'";
        until(&client, text).await;
        other.batch_execute("COMMIT").await.unwrap();
    };
    let (built, ()) = tokio::join!(build, look);
    built.unwrap();
    assert_eq!(one::<i64>(&client, "SELECT count(*) FROM pg_stat_progress_create_index").await, 0);
}
