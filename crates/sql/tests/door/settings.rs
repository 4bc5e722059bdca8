//! Promises of settings: each counts from the next statement on.

use crate::server::Server;
use tokio_postgres::Client;

async fn shown(client: &Client, text: &str) -> String {
    let row = client.query_one(text, &[]).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    row.get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn literals_are_read_with_the_settings_of_their_own_statement() {
    let server = Server::start().await;
    let client = server.client().await;
    let setup = "CREATE TABLE t (id int PRIMARY KEY, at timestamptz, day date)";
    client.batch_execute(setup).await.unwrap();
    client.batch_execute("SET TimeZone = 'America/New_York'").await.unwrap();
    client.batch_execute("INSERT INTO t VALUES (1, '2020-01-01 00:00')").await.unwrap();
    client.batch_execute("SET DateStyle = 'ISO, DMY'").await.unwrap();
    client.batch_execute("INSERT INTO t (id, day) VALUES (2, '01/02/2020')").await.unwrap();
    client.batch_execute("SET TimeZone = 'UTC'").await.unwrap();
    assert_eq!(
        shown(&client, "SELECT at::text FROM t WHERE id = 1").await,
        "2020-01-01 05:00:00+00"
    );
    assert_eq!(shown(&client, "SELECT day::text FROM t WHERE id = 2").await, "2020-02-01");
}

#[tokio::test(flavor = "multi_thread")]
async fn now_is_the_start_of_each_transaction() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        client.batch_execute("BEGIN").await.unwrap();
        seen.push(shown(&client, "SELECT now()::text").await);
        assert_eq!(shown(&client, "SELECT now()::text").await, seen[seen.len() - 1]);
        client.batch_execute("COMMIT").await.unwrap();
    }
    seen.dedup();
    assert_eq!(seen.len(), 3, "{seen:?}");
    let day = shown(&client, "SELECT 'today'::date::text").await;
    assert_eq!(day, shown(&client, "SELECT CURRENT_DATE::text").await);
}
