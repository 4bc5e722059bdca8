//! The SQL door of the real server: what was committed outlives kill -9, and stores with SQL tables are
//! backed up, restored, checked and repaired.

mod copies;
mod kills;

use crate::server::Server;
use std::time::Duration;
use tokio_postgres::{Client, NoTls};

/// So small that flushes and compactions happen within seconds.
const FLAGS: &[&str] = &[
    "--sql-listen=127.0.0.1:0",
    "--memtable-bytes-max=128KiB",
    "--log-segment-bytes=256KiB",
    "--sst-bytes-max=128KiB",
    "--log-level=warn",
];
/// Time that a statement may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connects to the SQL door of a server. The connection is served by a task.
async fn connect(server: &Server) -> Client {
    let at = server.sql();
    let address = format!("host={} port={} user=stele dbname=stele", at.ip(), at.port());
    let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Returns the one number that a query gives.
async fn number(client: &Client, query: &str) -> i64 {
    let row = tokio::time::timeout(PATIENCE, client.query_one(query, &[])).await;
    row.expect("an answer in time").unwrap_or_else(|error| panic!("{query}: {error:?}")).get(0)
}
