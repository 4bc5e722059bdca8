//! Reads whole tables through the Bigtable API.

use googleapis_tonic_google_bigtable_v2::google::bigtable::v2::bigtable_client::BigtableClient;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2::{
    ReadRowsRequest, read_rows_response,
};
use std::net::SocketAddr;
use tonic::transport::Endpoint;

/// Every cell of `projects/local/instances/local/tables/{table}` as `row family:qualifier=value`,
/// in order, and the timestamps that occur.
pub(crate) fn read_all(server: SocketAddr, table: &str) -> (Vec<String>, Vec<i64>) {
    read_named(server, &format!("projects/local/instances/local/tables/{table}"))
}

/// The same of a table by its full name.
pub(crate) fn read_named(server: SocketAddr, table: &str) -> (Vec<String>, Vec<i64>) {
    let chunks = tokio::runtime::Runtime::new().unwrap().block_on(chunks(server, table));
    let (mut cells, mut timestamps) = (Vec::new(), Vec::new());
    let (mut row, mut family, mut qualifier) = (String::new(), String::new(), String::new());
    let mut value = Vec::new();
    for chunk in chunks {
        if !chunk.row_key.is_empty() {
            row = chunk.row_key.escape_ascii().to_string();
        }
        if let Some(name) = chunk.family_name {
            family = name;
        }
        if let Some(name) = chunk.qualifier {
            qualifier = name.escape_ascii().to_string();
        }
        value.extend_from_slice(&chunk.value);
        if chunk.value_size == 0 {
            cells.push(format!("{row} {family}:{qualifier}={}", value.escape_ascii()));
            timestamps.push(chunk.timestamp_micros);
            value.clear();
        }
    }
    timestamps.sort_unstable();
    timestamps.dedup();
    (cells, timestamps)
}

async fn chunks(server: SocketAddr, table: &str) -> Vec<read_rows_response::CellChunk> {
    let endpoint = Endpoint::from_shared(format!("http://{server}")).unwrap();
    let mut client = BigtableClient::new(endpoint.connect().await.unwrap());
    let request = ReadRowsRequest { table_name: table.to_owned(), ..Default::default() };
    let mut answers = client.read_rows(request).await.unwrap().into_inner();
    let mut chunks = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        chunks.extend(answer.chunks);
    }
    chunks
}
